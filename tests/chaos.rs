//! Servers are killed and stopped at random moments and replies are lost; the checker must find nothing wrong afterwards.
//!
//! `make chaos` runs all of it. `MAINSPRING_TEST_SEED`, `MAINSPRING_TEST_RUNS` and `MAINSPRING_TEST_KILLS` choose another
//! storm; the seed of every storm is printed.

use std::time::Duration;

use mainspring_store::Flavor;
use mainspring_testkit::TestDatabase;
use mainspring_testkit::chaos::{Storm, storm};

fn short() -> Storm {
    Storm {
        seed: number("SEED").unwrap_or(20_261_115),
        runs: number("RUNS").unwrap_or(144) as usize,
        kills: number("KILLS").unwrap_or(8) as usize,
        servers: 1,
        longest_life: Duration::from_millis(1_500),
        patience: Duration::from_secs(60),
    }
}

fn long() -> Storm {
    Storm {
        seed: number("SEED").unwrap_or_else(|| fastrand::u64(..)),
        runs: number("RUNS").unwrap_or(2_000) as usize,
        kills: number("KILLS").unwrap_or(200) as usize,
        servers: 1,
        longest_life: Duration::from_millis(3_000),
        patience: Duration::from_secs(300),
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(format!("MAINSPRING_TEST_{name}")).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("MAINSPRING_TEST_{name}={value} is not a number")))
}

#[expect(clippy::print_stderr, reason = "a storm can be repeated only by its seed")]
async fn check(plan: Storm, flavor: Flavor) {
    eprintln!("seed {}", plan.seed);
    let database = TestDatabase::new(flavor).await;
    let report = storm(&plan, database.url()).await.unwrap_or_else(|error| panic!("seed {}: {error:#}", plan.seed));
    eprintln!("{flavor:?}: {report}");
    assert!(report.violations.is_empty(), "{flavor:?}: {report}");
    if plan.kills < 100 {
        return; // Chance may spare a short storm something, never a long one.
    }
    let must_have_happened = [report.lost_attempts, report.halved, report.pauses, report.reopenings];
    assert!(must_have_happened.iter().all(|count| *count > 0), "something was spared: {report}");
    assert!(plan.servers == 1 || report.terms > 1 && report.stops > 0, "leadership never changed hands: {report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn chaos_on_sqlite() {
    check(short(), Flavor::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chaos_on_postgres() {
    check(short(), Flavor::Postgres).await;
}

/// Three servers on one database: some are killed, some stand still for longer than their lease and go on.
#[tokio::test(flavor = "multi_thread")]
async fn chaos_among_three() {
    check(Storm { servers: 3, runs: number("RUNS").unwrap_or(108) as usize, ..short() }, Flavor::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chaos_among_three() {
    check(Storm { servers: 3, ..long() }, Flavor::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chaos_on_sqlite() {
    check(long(), Flavor::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chaos_on_postgres() {
    check(long(), Flavor::Postgres).await;
}
