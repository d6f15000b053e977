//! How many task runs per second the exchange moves when nothing is executed: `cargo run --release --example exchange_rate
//! -- sqlite:///tmp/rate.db [N]`. Makes runs of several shapes, then claims and finishes them in batches on some lanes.
#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use mainspring_core::state::TaskState;
use mainspring_store::{Connect, Ended, Exchange, NewRun, NewSession, Store, VersionRef, Want};
use uuid::{NoContext, Timestamp, Uuid};

const BATCH: i32 = 500;

/// A clock that needs no wall clock: some instant of 2026 plus what has passed.
struct Clock(Instant);

impl Clock {
    fn now(&self) -> i64 {
        1_780_000_000_000_000 + self.0.elapsed().as_micros() as i64
    }

    fn id(&self) -> Uuid {
        let now = self.now() as u64;
        Uuid::new_v7(Timestamp::from_unix(NoContext, now / 1_000_000, (now % 1_000_000 * 1_000) as u32))
    }
}

struct Shape {
    name: &'static str,
    tasks: usize,
    chain: bool,
}

impl Shape {
    fn source(&self) -> String {
        let mut source = format!("name: {}\ntasks:\n", self.name);
        for at in 0..self.tasks {
            source.push_str(&format!("  t{at}:\n    function: noop\n"));
            if self.chain && at > 0 {
                source.push_str(&format!("    needs: [t{}]\n", at - 1));
            }
        }
        source
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let url = arguments.get(1).cloned().unwrap_or_else(|| "sqlite::memory:".into());
    let n: usize = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let clock = Arc::new(Clock(Instant::now()));
    let store = Store::connect(&Connect::new(url)).await.expect("connects");
    store.migrate_up(clock.now()).await.expect("migrates");
    for shape in [
        Shape { name: "jobs", tasks: 1, chain: false },
        Shape { name: "hundreds", tasks: 100, chain: false },
        Shape { name: "chains", tasks: 40, chain: true },
    ] {
        let workflow = mainspring_core::parse(&shape.source()).expect("parses");
        let version = store.put_version(clock.now(), clock.id(), &workflow, "", &[]).await.expect("stores");
        for lanes in [1, 2] {
            let create = make(&store, &clock, &version, n / shape.tasks, 2_000 / shape.tasks.max(1)).await;
            let (drain, per_task) = drain(&store, &clock, lanes, BATCH, n / shape.tasks * shape.tasks).await;
            println!(
                "{:<9} lanes {lanes}: create {create:>7.0}/s  claim+finish {drain:>7.0}/s  {per_task:>5.2} µs each",
                shape.name
            );
        }
        if shape.chain {
            make(&store, &clock, &version, 20, 1).await;
            let (_, per_task) = drain(&store, &clock, 1, 1, 20 * shape.tasks).await;
            println!("one chain of {} alone: {:.1} ms", shape.tasks, per_task * shape.tasks as f64 / 1e3);
        }
    }
    store.close().await;
}

async fn make(store: &Store, clock: &Clock, version: &VersionRef, runs: usize, batch: usize) -> f64 {
    let started = Instant::now();
    let mut left = runs;
    while left > 0 {
        let batch: Vec<NewRun> = (0..batch.max(1).min(left)).map(|_| new_run(clock.id(), version)).collect();
        left -= batch.len();
        store.create_runs(clock.now(), &batch).await.expect("creates");
    }
    (runs * version.main_tasks as usize) as f64 / started.elapsed().as_secs_f64()
}

fn new_run(id: Uuid, version: &VersionRef) -> NewRun {
    NewRun {
        id,
        version: version.clone(),
        priority: None,
        inputs: None,
        correlation_id: None,
        trigger: None,
        idempotency_key: None,
        limit: None,
        overlap: None,
        start_at: None,
        audit: None,
    }
}

async fn drain(store: &Store, clock: &Arc<Clock>, lanes: usize, batch: i32, total: usize) -> (f64, f64) {
    let left = Arc::new(AtomicU64::new(total as u64));
    let started = Instant::now();
    let lanes: Vec<_> = (0..lanes)
        .map(|_| tokio::spawn(run_lane(store.clone(), Arc::clone(clock), batch, Arc::clone(&left))))
        .collect();
    for lane in lanes {
        lane.await.expect("a lane ends");
    }
    let seconds = started.elapsed().as_secs_f64();
    (total as f64 / seconds, seconds * 1e6 / total as f64)
}

async fn run_lane(store: Store, clock: Arc<Clock>, batch: i32, left: Arc<AtomicU64>) {
    let node = clock.id();
    let new = NewSession {
        node,
        worker: "bench".into(),
        hostname: "here".into(),
        queues: String::new(),
        labels: String::new(),
        slots: batch,
        function_slots: 0,
        remote: false,
        version: String::new(),
    };
    let session = store.open_session(clock.now(), &new).await.expect("opens a session");
    let routes = store.routes().await.expect("reads routes");
    let mut lane = store.open_lane(node, clock.now()).await.expect("opens a lane");
    let mut ended: Vec<Ended> = Vec::new();
    while left.load(Ordering::Relaxed) > 0 {
        let want = |route| Want { session, route, slots: batch, hand_over_rank: i16::MAX, floor: None };
        let want = routes.iter().map(|route| want(route.id)).collect();
        let count = ended.len() as u64;
        let exchange = Exchange { now: clock.now(), sessions: vec![session], ended, want, ..Exchange::default() };
        let reply = lane.exchange(&exchange).await.expect("exchanges");
        assert!(reply.fenced.is_empty() && reply.dead_sessions.is_empty());
        left.fetch_sub(count, Ordering::Relaxed);
        let now = clock.now();
        ended = reply.claimed.iter().map(|claim| success(claim.token, now)).collect();
        if ended.is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

fn success(token: mainspring_store::TaskToken, now: i64) -> Ended {
    Ended {
        token,
        from: TaskState::Running,
        state: TaskState::Success,
        started_at: Some(now),
        finished_at: now,
        failure: None,
        output: None,
    }
}
