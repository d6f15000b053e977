//! Size: very large runs in bounded memory, and claims that do not care how much else there is.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_core::state::{RunState, TaskState};
use mainspring_engine::{Client, Spec, Submission, SystemClock};
use mainspring_store::{Ended, Exchange, Flavor, Lane, NewSession, Want};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::invariants;
use mainspring_testkit::server::ServerPlan;
use mainspring_testkit::wait::until;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use uuid::Uuid;

const MOST_MEMORY: u64 = 300 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(900);

/// One task, then 99,999 that need it.
fn fan_out() -> String {
    let mut source = String::from("name: fan-out\ntasks:\n  first: {function: noop}\n");
    for at in 1..100_000 {
        writeln!(source, "  t{at}: {{needs: first, function: noop}}").unwrap();
    }
    source
}

fn chain() -> String {
    let mut source = String::from("name: chain\ntasks:\n  t0: {function: noop}\n");
    for at in 1..10_000 {
        writeln!(source, "  t{at}: {{needs: t{}, function: noop}}", at - 1).unwrap();
    }
    source
}

#[expect(clippy::print_stderr, reason = "what was measured is for people")]
async fn check_large_run(flavor: Flavor, source: String) {
    let database = TestDatabase::new(flavor).await;
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let folder = tempfile::tempdir().unwrap();
    let plan = ServerPlan::new(database.url(), folder.path()).set("MAINSPRING_LOG_LEVEL", "warn");
    let mut server = plan.start().unwrap();
    let spec = put(&client, &source).await;
    let started = Instant::now();
    let run = client.submit(&spec, Submission::default()).await.unwrap().run().unwrap();
    let state = until("the run ends", PATIENCE, async || {
        assert_eq!(server.ended()?, None, "{}", server.last_lines(20));
        let state = client.store().run_summary(run).await?.state;
        Ok(state.is_terminal().then_some(state))
    });
    assert_eq!(state.await.unwrap(), RunState::Success);
    let (elapsed, memory) = (started.elapsed(), server.peak_memory().unwrap());
    server.stop(Duration::from_secs(30)).await.unwrap();
    let tasks = spec.workflow.tasks.len();
    eprintln!("{flavor:?}: {tasks} tasks of {} in {elapsed:?}, at most {} MiB", spec.workflow.name, memory >> 20);
    assert_eq!(invariants::check_at_rest(database.url()).await.unwrap(), []);
    assert!(memory < MOST_MEMORY, "{} MiB", memory >> 20);
}

async fn put(client: &Client, source: &str) -> Arc<Spec> {
    let workflow = mainspring_core::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
    client.put_workflow(workflow, source).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn long_fan_out_of_100_000_tasks_on_postgres() {
    check_large_run(Flavor::Postgres, fan_out()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_fan_out_of_100_000_tasks_on_sqlite() {
    check_large_run(Flavor::Sqlite, fan_out()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chain_of_10_000_tasks_on_postgres() {
    check_large_run(Flavor::Postgres, chain()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chain_of_10_000_tasks_on_sqlite() {
    check_large_run(Flavor::Sqlite, chain()).await;
}

const ROUTES: usize = 50;
const ROWS_PER_ROUTE: usize = 20_000;
/// Rows per claim, and claims per measurement.
const SLOTS: i32 = 100;
const ROUNDS: usize = 300;
const MOST_RATIO: f64 = 1.3;

/// A store with a session that claims and finishes.
struct Bench {
    database: TestDatabase,
    client: Client,
    specs: Vec<Arc<Spec>>,
    routes: Vec<i32>,
    lane: Lane,
    session: i64,
    /// How long claims took, and how long it took to finish what they got.
    claims: Vec<Duration>,
    finishes: Vec<Duration>,
}

impl Bench {
    async fn new(flavor: Flavor) -> Self {
        let database = TestDatabase::new(flavor).await;
        let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
        let mut specs = Vec::new();
        for route in 0..ROUTES {
            let source = format!("{{name: w{route}, tasks: {{a: {{function: noop, queue: q{route}}}}}}}");
            specs.push(put(&client, &source).await);
        }
        let routes = client.store().routes().await.unwrap().iter().map(|route| route.id).collect();
        let node = Uuid::from_u128(1);
        let lane = client.store().open_lane(node, client.now()).await.unwrap();
        let session = NewSession {
            node,
            worker: "bench".into(),
            hostname: "here".into(),
            queues: String::new(),
            labels: String::new(),
            slots: SLOTS,
            function_slots: 0,
            remote: false,
            version: String::new(),
        };
        let session = client.store().open_session(client.now(), &session).await.unwrap();
        client.store().ensure_history_partitions(client.now()).await.unwrap();
        Self { database, client, specs, routes, lane, session, claims: Vec::new(), finishes: Vec::new() }
    }

    /// One ready run on every route.
    async fn seed(&self) {
        for spec in &self.specs {
            self.client.submit(spec, Submission::default()).await.unwrap();
        }
    }

    /// Adds some rows to one route, claims as many and finishes them; notes how long claiming and finishing took.
    async fn round(&mut self, number: usize) {
        let at = number % ROUTES;
        self.client.submit_many(&self.specs[at], vec![Submission::default(); SLOTS as usize]).await.unwrap();
        let (rows, claiming, finishing) = self.cycle(at).await;
        assert_eq!(rows, SLOTS as usize);
        self.claims.push(claiming);
        self.finishes.push(finishing);
    }

    /// Claims from one route and finishes what it got: how much, and how long either took.
    async fn cycle(&mut self, at: usize) -> (usize, Duration, Duration) {
        let want =
            Want { session: self.session, route: self.routes[at], slots: SLOTS, hand_over_rank: i16::MAX, floor: None };
        let exchange = || Exchange { now: self.client.now(), sessions: vec![self.session], ..Exchange::default() };
        let claim = Exchange { want: vec![want], ..exchange() };
        let started = Instant::now();
        let claimed = self.lane.exchange(&claim).await.unwrap().claimed;
        let claiming = started.elapsed();
        let ended = claimed.iter().map(|claim| Ended {
            token: claim.token,
            from: TaskState::Running,
            state: TaskState::Success,
            started_at: None,
            finished_at: claim.due_at,
            failure: None,
            output: None,
        });
        let finish = Exchange { ended: ended.collect(), ..exchange() };
        let started = Instant::now();
        self.lane.exchange(&finish).await.unwrap();
        (claimed.len(), claiming, started.elapsed())
    }

    /// Makes a million of what is there: runs, and their rows in `table`.
    async fn multiply(&self, table: &str) {
        let number = format!("(row_number() OVER (ORDER BY r.id) - 1) * {ROWS_PER_ROUTE} + g.n");
        let millis = self.client.now() / 1_000;
        let (id, series) = if self.database.url().starts_with("postgres") {
            (
                format!("(lpad(to_hex({millis} + k), 12, '0') || '70008000' || lpad(to_hex(k), 12, '0'))::uuid"),
                format!("generate_series(1, {ROWS_PER_ROUTE}) AS g(n)"),
            )
        } else {
            (
                format!("unhex(printf('%012x70008000%012x', {millis} + k, k))"),
                format!(
                    "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {ROWS_PER_ROUTE}) SELECT n FROM s) AS g"
                ),
            )
        };
        let many = format!("(SELECT r.id AS template, {number} AS k FROM runs r CROSS JOIN {series}) AS m");
        let rows = match table {
            "history" => {
                "idx, item, state, flags, generation, attempt, failures, lost, session, seq, started_at, finished_at"
            }
            _ => "idx, item, state, rule, rank, flags, route, max_failures, max_lost, open, version, due_at",
        };
        let run = "version, workflow_id, state, stage, flags, rank, generation, open, failed, seq, created_at, started_at, finished_at, progress_at";
        // The rows first: as long as there are only templates, every run is one.
        execute(&self.database, &format!(
            "INSERT INTO {table} (run_id, {rows}) SELECT {id}, {} FROM {many} JOIN {table} x ON x.run_id = m.template",
            prefixed("x", rows)
        ))
        .await;
        execute(
            &self.database,
            &format!(
                "INSERT INTO runs (id, {run}) SELECT {id}, {} FROM {many} JOIN runs x ON x.id = m.template",
                prefixed("x", run)
            ),
        )
        .await;
        execute(&self.database, "ANALYZE").await;
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn prefixed(table: &str, columns: &str) -> String {
    columns.split(", ").map(|column| format!("{table}.{column}")).collect::<Vec<_>>().join(", ")
}

async fn execute(database: &TestDatabase, sql: &str) {
    let sql = AssertSqlSafe(sql.to_owned());
    if database.url().starts_with("postgres") {
        let mut connection = PgConnection::connect(database.url()).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    } else {
        let mut connection = SqliteConnection::connect(database.url()).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    }
}

#[expect(clippy::print_stderr, reason = "what was measured is for people")]
async fn check_claims(flavor: Flavor, table: &str) {
    let mut empty = Bench::new(flavor).await;
    let mut full = Bench::new(flavor).await;
    full.seed().await;
    if table == "history" {
        for route in 0..ROUTES {
            assert_eq!(full.cycle(route).await.0, 1);
        }
    }
    full.multiply(table).await;
    // In turns, so that whatever else this machine does meets both.
    for number in 0..ROUNDS {
        empty.round(number).await;
        full.round(number).await;
    }
    let pairs =
        [("claimed", &mut empty.claims, &mut full.claims), ("finished", &mut empty.finishes, &mut full.finishes)];
    for (what, small, large) in pairs {
        let (small, large) = (median(small), median(large));
        let ratio = large.div_duration_f64(small);
        eprintln!(
            "{flavor:?}: {SLOTS} rows {what} in {small:?}, beside 1,000,000 rows in {table} in {large:?}: {ratio:.2}"
        );
        assert!(ratio <= MOST_RATIO, "{what}: {ratio:.2}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_claims_beside_a_million_finished_task_runs_on_postgres() {
    check_claims(Flavor::Postgres, "history").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_claims_beside_a_million_finished_task_runs_on_sqlite() {
    check_claims(Flavor::Sqlite, "history").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_claims_beside_a_million_ready_rows_on_postgres() {
    check_claims(Flavor::Postgres, "task_runs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_claims_beside_a_million_ready_rows_on_sqlite() {
    check_claims(Flavor::Sqlite, "task_runs").await;
}
