//! A witness in a PostgreSQL database: triggers that write down what leaders do, under whose name, and in which order it
//! became true. From its log follows whether an old leader wrote after a takeover, and how long the dead were overlooked.
//!
//! Only the test's own database has it; the programs under test know nothing of it. Each of them comes by a URL that
//! carries its name ([`named`]). SQLite needs no witness: it has one writer at a time, so between a leader's look at its
//! term and its commit no other server can take over, and a lock file keeps a second server away.
//!
//! Witnessed are the two writes that only a leader makes: the mark of death on another node's session, and the expiry of
//! a run. There is one duty; a name that leads twice is two programs.

mod reaping;
mod terms;

use anyhow::Context;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::invariants::Violation;

pub use reaping::{Pace, Reap, check_pace, check_patience, check_succession, reaps};

/// The variable of a connection that holds the name of the server that used it.
const ACTOR: &str = "witness.actor";

/// The same database by a URL that tells the witness who comes.
pub fn named(url: &str, actor: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}options[{ACTOR}]={actor}")
}

/// From now on the database keeps a log of its leaders.
pub async fn install(url: &str) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(url).await.with_context(|| format!("connecting to {url}"))?;
    let sql = include_str!("install.sql").replace("ACTOR", &format!("current_setting('{ACTOR}', true)"));
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.context("installing the witness")?;
    connection.close().await?;
    Ok(())
}

/// One holder per epoch; no write of an epoch after the takeover to a later one.
pub async fn check(url: &str) -> anyhow::Result<Vec<Violation>> {
    let mut connection = PgConnection::connect(url).await.with_context(|| format!("connecting to {url}"))?;
    let mut violations = Vec::new();
    for (invariant, sql) in terms::INVARIANTS {
        let subjects: Vec<(String,)> = sqlx::query_as(sql)
            .fetch_all(&mut connection)
            .await
            .with_context(|| format!("checking that {invariant}"))?;
        violations.extend(subjects.into_iter().map(|(subject,)| Violation { invariant, subject }));
    }
    connection.close().await?;
    Ok(violations)
}

/// How often leadership changed hands, and how often a leader wrote: a log without either proves nothing.
pub async fn counts(url: &str) -> anyhow::Result<(i64, i64)> {
    let mut connection = PgConnection::connect(url).await.with_context(|| format!("connecting to {url}"))?;
    let sql = "SELECT (SELECT count(*) FROM witness_takeovers), (SELECT count(*) FROM witness_writes)";
    let counts = sqlx::query_as(sql).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(counts)
}
