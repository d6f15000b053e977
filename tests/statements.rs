//! What a server says to PostgreSQL, counted on the wire: one round trip per exchange, and nothing for what only runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_engine::{Client, Submission, SystemClock};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::proxy::{Proxy, Trip};
use mainspring_testkit::server::{ServerPlan, ServerProcess};
use mainspring_testkit::wait::until;
use sqlx::{Connection, PgConnection};

const PATIENCE: Duration = Duration::from_secs(60);
const HEARTBEAT: Duration = Duration::from_millis(200);
const LANES: usize = 2;

/// How the statements are distinguished.
const OUTPUTS: &str = "JOIN history h ON";
const RENEWAL: &str = "UPDATE sessions SET beat = beat + 1";
/// What a node says by the clock: renewal, membership, leadership, what is due, what is left to do, where to look, and
/// what the operator's desk and the gauges read.
const PERIODIC: &[&str] = &[
    RENEWAL,
    "FROM terms WHERE",
    "INTO terms",
    "UPDATE terms SET beat",
    "FROM sessions WHERE NOT dead",
    "FROM runs WHERE deadline_at",
    "SELECT due_at FROM task_runs",
    "FROM continuations",
    "FROM events WHERE NOT matched",
    "FROM routes",
    "SELECT DISTINCT t.session",
    "FROM limits",
    "PARTITION OF history",
    "DELETE FROM lanes",
    "LISTEN",
    "pg_notify",
    "FROM versions",
    "FROM backfills b",
    "FROM triggers t JOIN workflows w",
    "SELECT next_fire_at",
    "SELECT min(covered_at)",
    "FROM events WHERE NOT handled",
    "FROM run_ends",
    "FROM debounces d",
    "INTO members",
    "DELETE FROM members",
    "to_regclass",
    "FROM dead_letters",
    "UPDATE dead_letters",
    "FROM dlq_batches",
    "FROM unsuccessful_runs u",
    "FROM notifications WHERE",
    "staleness_defaults",
    "FROM v_open_runs",
    "SELECT DISTINCT route FROM task_runs",
    "FROM sessions ",
    "FROM task_runs t JOIN routes",
    "SELECT session, count(*) FROM task_runs",
];

struct Scene {
    database: TestDatabase,
    client: Client,
    proxy: Proxy,
    server: ServerProcess,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// A server by way of a recording proxy, a client beside it.
    async fn new() -> Self {
        let database = TestDatabase::postgres().await;
        let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
        let proxy = Proxy::start(database.url()).await.unwrap();
        proxy.record();
        let folder = tempfile::tempdir().unwrap();
        let server = ServerPlan::new(proxy.url(), folder.path())
            .set("MAINSPRING_WORKER_HEARTBEAT_INTERVAL", format!("{}ms", HEARTBEAT.as_millis()))
            .start()
            .unwrap();
        Self { database, client, proxy, server, _folder: folder }
    }

    async fn submit(&self, source: &str, count: usize) {
        let workflow = mainspring_core::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
        let spec = self.client.put_workflow(workflow, source).await.unwrap();
        self.client.submit_many(&spec, vec![Submission::default(); count]).await.unwrap();
    }

    async fn wait_for_the_end(&self) {
        until("every run ends", PATIENCE, async || {
            let counts = self.client.store().run_counts().await?;
            Ok(counts.iter().all(|count| count.state.is_terminal()).then_some(()))
        })
        .await
        .unwrap();
    }

    /// How many exchanges were applied.
    async fn exchanges(&self) -> usize {
        let mut connection = PgConnection::connect(self.database.url()).await.unwrap();
        let sql = "SELECT sum(seq)::bigint FROM lanes";
        let (count,): (i64,) = sqlx::query_as(sql).fetch_one(&mut connection).await.unwrap();
        count as usize
    }
}

fn is_exchange(trip: &Trip) -> bool {
    trip.text.contains("exchange_v1")
}

/// A connection is asked once whether it is outside a transaction when it returns to the pool: as often as it is used.
const PROOF_ON_RETURN: &str = "SELECT now() = statement_timestamp()";

/// What no lane says, by text.
fn others(trips: &[Trip]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for trip in trips.iter().filter(|trip| !is_exchange(trip) && !trip.only_prepares && trip.text != PROOF_ON_RETURN) {
        *counts.entry(trip.text.as_str()).or_default() += 1;
    }
    counts
}

/// Every connection that exchanges does nothing else, and each exchange is one round trip; what it says is made known
/// once per connection.
fn assert_one_trip_per_exchange(trips: &[Trip], exchanges: usize) {
    let lanes: BTreeSet<u64> = trips.iter().filter(|trip| is_exchange(trip)).map(|trip| trip.connection).collect();
    assert_eq!(lanes.len(), LANES);
    let on_lanes: Vec<&Trip> = trips.iter().filter(|trip| lanes.contains(&trip.connection)).collect();
    assert!(on_lanes.iter().all(|trip| is_exchange(trip)), "{on_lanes:#?}");
    assert_eq!(on_lanes.iter().filter(|trip| !trip.only_prepares).count(), exchanges);
    assert_eq!(on_lanes.len(), exchanges + lanes.len());
}

/// Whatever else is said goes by the clock, not by the work.
fn assert_periodic(trips: &[Trip], elapsed: Duration) {
    let most = elapsed.div_duration_f64(HEARTBEAT) as usize + 5;
    for (text, count) in others(trips) {
        assert!(count <= most, "{count} times within {elapsed:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_is_one_round_trip() {
    let started = Instant::now();
    let mut scene = Scene::new().await;
    scene.submit("{name: jobs, tasks: {a: {function: noop}, b: {needs: a, function: noop}}}", 3_000).await;
    scene.wait_for_the_end().await;
    scene.server.stop(PATIENCE).await.unwrap();
    let trips = scene.proxy.take_trips();
    let exchanges = scene.exchanges().await;
    assert_one_trip_per_exchange(&trips, exchanges);
    assert!(exchanges < 3_000, "{exchanges} exchanges for 6,000 tasks");
    assert!(!others(&trips).keys().any(|text| text.contains(OUTPUTS)));
    assert_periodic(&trips, started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_over_outputs_cost_one_more_round_trip_per_batch() {
    let started = Instant::now();
    let mut scene = Scene::new().await;
    let source = "{name: outputs, tasks: {a: {function: {handler: noop, payload: {n: 1}}}, \
                   b: {needs: a, function: {handler: noop, payload: '${{ tasks.a.output.n }}'}}}}";
    scene.submit(source, 1_000).await;
    scene.wait_for_the_end().await;
    scene.server.stop(PATIENCE).await.unwrap();
    let mut trips = scene.proxy.take_trips();
    let exchanges = scene.exchanges().await;
    assert_one_trip_per_exchange(&trips, exchanges);
    let reads = trips.iter().filter(|trip| trip.text.contains(OUTPUTS) && !trip.only_prepares).count();
    assert!((1..=exchanges).contains(&reads), "{reads} reads for {exchanges} exchanges");
    trips.retain(|trip| !trip.text.contains(OUTPUTS));
    assert_periodic(&trips, started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_runs_costs_nothing() {
    let mut scene = Scene::new().await;
    scene.submit("{name: long, tasks: {a: {function: {handler: sleep, payload: {seconds: 600}}}}}", 200).await;
    let mut connection = PgConnection::connect(scene.database.url()).await.unwrap();
    until("all of them run", PATIENCE, async || {
        let sql = "SELECT count(*) FROM task_runs WHERE state = 2";
        let (running,): (i64,) = sqlx::query_as(sql).fetch_one(&mut connection).await?;
        Ok((running == 200).then_some(()))
    })
    .await
    .unwrap();
    // A claim is in the database before the node has read what it claimed: let it settle for some renewals first.
    let mut trips = scene.proxy.take_trips();
    trips.clear();
    until("the lease is renewed three times", PATIENCE, async || {
        trips.extend(scene.proxy.take_trips());
        Ok((trips.iter().filter(|trip| trip.text.contains(RENEWAL)).count() >= 3).then_some(()))
    })
    .await
    .unwrap();
    let since = Instant::now();
    trips.clear();
    until("the lease is renewed ten times", PATIENCE, async || {
        trips.extend(scene.proxy.take_trips());
        Ok((trips.iter().filter(|trip| trip.text.contains(RENEWAL)).count() >= 10).then_some(()))
    })
    .await
    .unwrap();
    let elapsed = since.elapsed();
    // What was said earlier may be taken only now.
    trips.retain(|trip| trip.at >= since);
    scene.server.kill().unwrap();
    for text in others(&trips).keys() {
        assert!(PERIODIC.iter().any(|words| text.contains(words)), "unexpected while nothing happens: {text}");
    }
    assert_periodic(&trips, elapsed);
    let looks = trips.iter().filter(|trip| is_exchange(trip)).count();
    assert!(looks <= LANES * (elapsed.as_secs() as usize + 2), "{looks} exchanges within {elapsed:?}");
}
