//! What the databases of this machine can do without a scheduler on top: the floors that ours is compared with.
//!
//! `floors --database postgres://…|sqlite://PATH [--floor NAME]… [--n N]` prints one JSON line per floor.
//! It makes a table `floor_queue` in the database it is given and drops it at the end.
//!
//! - `commit`: one row inserted per transaction, on one connection; `ms` is the median.
//! - `insert`: rows inserted 1,000 at a time, on one connection.
//! - `claim_complete`: a full queue emptied 1,000 rows at a time, each batch claimed in one transaction and deleted in
//!   the next, on two connections (SQLite: on its single writer).
//! - `claim_keep`: the same, but a completed row stays in the table with another state, as a history would.
//! - `claim_history`: the same with what any scheduler with a history records: the claim says who, which attempt and when,
//!   and a completed row moves into a history table. PostgreSQL only.
//! - `insert_pair`: what a run of one task is: a row for the run and one for its task, with the indexes that finding, claiming
//!   and listing them needs, 1,000 runs at a time, on one connection. PostgreSQL only.
//! - `commit_paced`: like `commit`, but one every 20 ms, as the workload `latency` submits.
//! - `commit_clients`: 32 clients, each committing one row after the other, as `pgbench -c 32` does: every client has its own
//!   connection on PostgreSQL; on SQLite they take turns at its single writer.

mod measure;
mod postgres;
mod sqlite;

use anyhow::{Context, Result, bail};

pub(crate) const BATCH: usize = 1_000;
pub(crate) const FLOORS: [&str; 6] =
    ["commit", "commit_paced", "commit_clients", "insert", "claim_complete", "claim_keep"];
pub(crate) const POSTGRES_FLOORS: [&str; 2] = ["claim_history", "insert_pair"];

struct Arguments {
    database: String,
    floors: Vec<String>,
    n: usize,
}

fn arguments() -> Result<Arguments> {
    let (mut database, mut floors, mut n) = (None, Vec::new(), 100_000);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--database" => database = Some(value),
            "--floor" => floors.push(value),
            "--n" => n = value.parse().with_context(|| format!("--n {value} is not a number"))?,
            _ => bail!("unknown option {word}; usage: floors --database URL [--floor NAME]… [--n N]"),
        }
    }
    if floors.is_empty() {
        floors = FLOORS.map(String::from).to_vec();
        if database.as_ref().is_some_and(|url: &String| url.starts_with("postgres")) {
            floors.extend(POSTGRES_FLOORS.map(String::from));
        }
    }
    Ok(Arguments { database: database.context("--database is missing")?, floors, n })
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments = arguments()?;
    for floor in &arguments.floors {
        let result = if arguments.database.starts_with("postgres") {
            postgres::measure(&arguments.database, floor, arguments.n).await?
        } else {
            sqlite::measure(&arguments.database, floor, arguments.n).await?
        };
        println!("{}", result.to_json());
    }
    Ok(())
}
