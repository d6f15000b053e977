//! A cluster of servers, remote workers, PostgreSQL, etcd and Redis under faults of every class; the checker must find
//! nothing wrong afterwards.
//!
//! `make chaos-cluster MINUTES=… SEED=…` runs the long version and prints its report; `make test` has one of a minute.

mod tokens;

use std::time::Duration;

use mainspring_engine::Client;
use mainspring_server::Role;
use mainspring_testkit::cluster::{ClusterPlan, FaultClass, Tokens, run};

use tokens::make_token;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(format!("MAINSPRING_TEST_{name}")).ok().filter(|value| !value.is_empty())?;
    Some(value.parse().unwrap_or_else(|_| panic!("MAINSPRING_TEST_{name}={value} is not a number")))
}

#[expect(clippy::print_stderr, reason = "the report is the result")]
async fn check(lasts: Duration) {
    let plan = ClusterPlan { seed: number("SEED").unwrap_or_else(|| fastrand::u64(..1 << 32)), lasts };
    eprintln!("seed {}", plan.seed);
    let tokens = |client: Client| async move {
        let (admin, worker) = (make_token(&client, Role::Admin).await, make_token(&client, Role::Worker).await);
        Tokens { admin, worker }
    };
    let report = run(&plan, tokens).await.unwrap_or_else(|error| panic!("seed {}: {error:#}", plan.seed));
    eprintln!("{report}");
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.counts(), "less than half of the operations succeeded: {report}");
    assert!(report.terms > 1, "nothing was disturbed: {report}");
    // A worker that is killed in a short run may have had nothing to do.
    if lasts > Duration::from_secs(240) {
        assert!(report.lost_attempts > 0, "no attempt was lost: {report}");
        for (class, name) in FaultClass::ALL {
            assert!(report.faults.contains_key(&class), "{name} never happened: {report}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chaos_cluster_for_a_minute() {
    check(Duration::from_secs(number("SECONDS").unwrap_or(45))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chaos_cluster() {
    check(Duration::from_secs(number("MINUTES").unwrap_or(5) * 60)).await;
}
