//! Random workflows with predetermined outcomes: what the engine makes of them must equal what a naive interpreter of the
//! definitions makes of them.
//!
//! A failure prints the seed; `MAINSPRING_TEST_SEED` repeats it, `MAINSPRING_TEST_CASES` chooses how many runs there are.

mod engine;
mod generate;
mod plan;
mod reference;

use mainspring_store::Flavor;

use self::engine::{Size, check};

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(format!("MAINSPRING_TEST_{name}")).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("MAINSPRING_TEST_{name}={value} is not a number")))
}

#[tokio::test(flavor = "multi_thread")]
async fn random_workflows_on_sqlite() {
    check(Flavor::Sqlite, number("SEED").unwrap_or(20_261_116), Size { runs: 600, per_plan: 3, at_once: 600 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_workflows_on_postgres() {
    check(Flavor::Postgres, number("SEED").unwrap_or(20_261_117), Size { runs: 200, per_plan: 2, at_once: 200 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_random_workflows_on_sqlite() {
    let runs = number("CASES").unwrap_or(100_000) as usize;
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    check(Flavor::Sqlite, seed, Size { runs, per_plan: 10, at_once: 1_000 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_random_workflows_on_postgres() {
    let runs = number("CASES").unwrap_or(10_000) as usize;
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    check(Flavor::Postgres, seed, Size { runs, per_plan: 10, at_once: 1_000 }).await;
}
