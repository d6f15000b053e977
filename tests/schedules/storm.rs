//! Schedules while servers are killed and stopped: no instant is lost, none fires twice, and firing never stops for good.
//!
//! `make chaos` runs the long ones. `MAINSPRING_TEST_SEED` draws the same faults again.

use std::time::Duration;

use mainspring_store::{Flavor, Store};
use mainspring_testkit::server::{ServerPlan, ServerProcess};
use mainspring_testkit::wait::until_nothing_moves;
use mainspring_testkit::{TestDatabase, invariants};

use crate::scene::{SECOND, stranger_of};

const LEASE: Duration = Duration::from_millis(600);
/// If nothing at all is fired for this long, a server is stuck.
const PATIENCE: Duration = Duration::from_secs(90);
/// The code of a server that did not reach its database when it started.
const NOT_REACHED: i32 = 3;

struct Storm {
    seed: u64,
    servers: usize,
    /// How many triggers fire in every second.
    triggers: usize,
    faults: usize,
    /// The time between two faults is drawn up to this.
    longest: Duration,
}

/// One that fires every second, many times over. No worker executes what it starts: the storm is about starting it.
async fn triggers(database: &TestDatabase, count: usize) -> Store {
    let client = stranger_of(database.url()).await;
    for workflow in 0..count / 100 {
        let lines: Vec<String> = (0..100).map(|at| format!("{{id: t{at}, cron: '* * * * * *'}}")).collect();
        let tasks = "tasks: {t: {function: noop, queue: nobody}}";
        let yaml = format!("{{name: w{workflow}, triggers: [{}], {tasks}}}", lines.join(", "));
        client.put_workflow(mainspring_core::parse(&yaml).unwrap(), &yaml).await.unwrap();
    }
    client.store().clone()
}

fn plan(database: &TestDatabase, folder: &tempfile::TempDir) -> ServerPlan {
    ServerPlan::new(database.url(), folder.path())
        .set("MAINSPRING_WORKER_LEASE_TTL", format!("{}ms", LEASE.as_millis()))
        .set("MAINSPRING_WORKER_HEARTBEAT_INTERVAL", "150ms")
        .set("MAINSPRING_WORKER_QUEUES", "somebody")
}

/// Starts those again that did not reach their database; any other end is a fault of ours.
fn revive(servers: &mut [ServerProcess], plan: &ServerPlan) {
    for server in servers {
        match server.ended().unwrap() {
            None => {}
            Some(NOT_REACHED) => *server = plan.start().unwrap(),
            Some(code) => panic!("a server ended by itself with {code}:\n{}", server.last_lines(20)),
        }
    }
}

/// Up to where every trigger is settled.
async fn settled(store: &Store) -> anyhow::Result<i64> {
    Ok(store.settled_schedules().await?.unwrap_or(0))
}

async fn rows(store: &Store) -> anyhow::Result<i64> {
    Ok(store.fire_counts().await?.iter().map(|count| count.1).sum())
}

#[expect(clippy::print_stderr, reason = "a storm can be repeated only by its seed")]
async fn check(storm: Storm, flavor: Flavor) {
    let seed = std::env::var("MAINSPRING_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(storm.seed);
    eprintln!("seed {seed}");
    let database = TestDatabase::new(flavor).await;
    let folder = tempfile::tempdir().unwrap();
    let store = triggers(&database, storm.triggers).await;
    let plan = plan(&database, &folder);
    let mut servers: Vec<ServerProcess> = (0..storm.servers).map(|_| plan.start().unwrap()).collect();
    let began = settled(&store).await.unwrap();
    until_past(&store, began, &mut servers, &plan).await;
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut kills, mut stops) = (0, 0);
    for _ in 0..storm.faults {
        // Not a wait for a state: the moment of a fault is what chance decides.
        tokio::time::sleep(Duration::from_micros(rng.u64(..storm.longest.as_micros() as u64))).await;
        revive(&mut servers, &plan);
        let victim = rng.usize(..servers.len());
        if storm.servers > 1 && rng.bool() {
            servers[victim].pause().unwrap();
            tokio::time::sleep(Duration::from_micros(rng.u64(..LEASE.as_micros() as u64 * 3))).await;
            servers[victim].resume().unwrap();
            stops += 1;
        } else {
            servers[victim].kill().unwrap();
            servers[victim] = plan.start().unwrap();
            kills += 1;
        }
    }
    // Firing goes on for every trigger, past the last fault.
    let over = settled(&store).await.unwrap().max(began);
    until_past(&store, over + 2 * SECOND, &mut servers, &plan).await;
    for server in &mut servers {
        server.stop(PATIENCE).await.unwrap();
    }
    let (covered, rows) = (settled(&store).await.unwrap(), rows(&store).await.unwrap());
    eprintln!(
        "{flavor:?}: {kills} kills, {stops} stops, {rows} rows of {} triggers over {} s",
        storm.triggers,
        (covered - began) / SECOND
    );
    let violations = invariants::check(database.url()).await.unwrap();
    assert!(
        violations.is_empty(),
        "seed {seed}: {} violations, first {:?}",
        violations.len(),
        &violations[..violations.len().min(10)]
    );
    assert!(rows as usize >= storm.triggers, "everything fired");
}

/// Waits until every trigger has come past an instant.
async fn until_past(store: &Store, instant: i64, servers: &mut [ServerProcess], plan: &ServerPlan) {
    until_nothing_moves(
        "every trigger comes past the storm",
        PATIENCE,
        async || rows(store).await,
        async || {
            revive(servers, plan);
            Ok((settled(store).await? > instant).then_some(()))
        },
    )
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn chaos_heavy_among_three_that_fire() {
    check(
        Storm { seed: 20_261_116, servers: 3, triggers: 300, faults: 5, longest: Duration::from_millis(1_200) },
        Flavor::Postgres,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chaos_heavy_on_sqlite_that_fires() {
    check(
        Storm { seed: 20_261_116, servers: 1, triggers: 300, faults: 4, longest: Duration::from_millis(1_200) },
        Flavor::Sqlite,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chaos_among_three_that_fire() {
    let storm = Storm {
        seed: fastrand::u64(..),
        servers: 3,
        triggers: 1_000,
        faults: 50,
        longest: Duration::from_millis(1_600),
    };
    check(storm, Flavor::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chaos_on_sqlite_that_fires() {
    let storm = Storm {
        seed: fastrand::u64(..),
        servers: 1,
        triggers: 1_000,
        faults: 50,
        longest: Duration::from_millis(2_400),
    };
    check(storm, Flavor::Sqlite).await;
}
