//! Many lanes and operators on the same runs at the same time: no error but `Repeat` surfaces, and at rest everything
//! holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use fastrand::Rng;
use mainspring_core::plan::Decision;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{Micros, RunId, Workflow};
use mainspring_store::{
    Claimed, ContinuedAs, ContinuedAttempt, DecidedStart, Ended, Error, Exchange, Flavor, Lane, NewRun, Reopen, Result,
    RunFilter, Store, Term, VersionRef, Want,
};
use mainspring_testkit::database::NOW;
use mainspring_testkit::{TestDatabase, invariants};
use uuid::Uuid;

use crate::world::{MILLI, SECOND, failure, open_session, operator};

const LANES: u64 = 8;
const EXCHANGES_PER_LANE: u32 = 120;
const RUNS: usize = 40;

const WORKFLOWS: &[&str] = &[
    "{name: chain, tasks: {a: {run: x}, b: {needs: a, run: x, if: 'true'}, c: {needs: b, run: x, trigger_rule: all_done}}, finally: {f: {run: x}}}",
    "{name: diamond, tasks: {a: {run: x, pool: p}, b: {needs: a, run: x, pool: q}, c: {needs: a, run: x, pool: p},
        d: {needs: [b, c], run: x, trigger_rule: one_success}}, on_failure: {g: {run: x}}}",
    "{name: turns, concurrency: {limit: 3}, tasks: {a: {run: x, retry: {attempts: 2}}, b: {run: x, pool: q, on_exhausted: continue}}}",
];

/// What all workers share.
struct Shared {
    store: Store,
    clock: AtomicI64,
    ids: AtomicU64,
    repeats: AtomicU64,
    runs: Vec<(RunId, Workflow)>,
}

impl Shared {
    /// The one leader's term, taken by the first caller.
    async fn term(&self) -> Term {
        loop {
            let seen = self.store.term("leader").await.unwrap();
            match seen {
                Some(term) => return term,
                None => _ = self.store.take_term("leader", Uuid::from_u128(1), self.id(), None).await.unwrap(),
            }
        }
    }

    fn now(&self) -> Micros {
        self.clock.fetch_add(MILLI, Ordering::Relaxed)
    }

    fn id(&self) -> Uuid {
        let mut rest = [0; 10];
        rest[2..].copy_from_slice(&self.ids.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis((NOW / MILLI) as u64, &rest).into_uuid()
    }

    /// Whether it happened; `Repeat` and `Conflict` are answers, anything else is a failure of the test.
    fn happened<T>(&self, result: Result<T>) -> bool {
        match result {
            Ok(_) => true,
            Err(Error::Repeat(_)) => {
                self.repeats.fetch_add(1, Ordering::Relaxed);
                false
            }
            Err(Error::Conflict(_)) => false,
            Err(other) => panic!("{other}"),
        }
    }
}

/// One lane with its session and what it holds.
struct Worker {
    shared: Arc<Shared>,
    rng: Rng,
    lane: Lane,
    session: i64,
    held: Vec<Claimed>,
    deciding: Vec<Claimed>,
    routes: Vec<i32>,
}

impl Worker {
    async fn new(shared: &Arc<Shared>, seed: u64) -> Self {
        let node = Uuid::from_u128(u128::from(seed) + 100);
        let lane = shared.store.open_lane(node, shared.now()).await.unwrap();
        let session = open_session(&shared.store, shared.now(), node).await;
        let routes = shared.store.routes().await.unwrap().iter().map(|route| route.id).collect();
        let rng = Rng::with_seed(seed);
        Self { shared: Arc::clone(shared), rng, lane, session, held: Vec::new(), deciding: Vec::new(), routes }
    }

    /// Hands in some of what is held, decides, claims; the same exchange again until it happened.
    async fn exchange(&mut self, only_success: bool) {
        let now = self.shared.now();
        let mut exchange = Exchange { now, sessions: vec![self.session], ..Exchange::default() };
        let (mut held, mut deciding) = (Vec::new(), Vec::new());
        for claim in std::mem::take(&mut self.held) {
            match if only_success { 0 } else { self.rng.u32(..8) } {
                0..3 => exchange.ended.push(ended(claim, now, TaskState::Success)),
                3 => exchange.ended.push(ended(claim, now, TaskState::Failed)),
                4 => exchange.continued.push(continued(claim, now, ContinuedAs::Retry { due_at: now })),
                5 => exchange.continued.push(continued(claim, now, ContinuedAs::Released)),
                _ => held.push(claim),
            }
        }
        for claim in std::mem::take(&mut self.deciding) {
            match if only_success { Decision::Start } else { self.draw_decision() } {
                Decision::Start => {
                    exchange.starts.push(DecidedStart { key: claim.token.key, session: claim.token.session });
                }
                Decision::Skip => {
                    exchange.ended.push(Ended { from: TaskState::Deciding, ..ended(claim, now, TaskState::Skipped) })
                }
                Decision::Fail(_) => deciding.push(claim),
            }
        }
        let want = |route: &i32| Want {
            session: self.session,
            route: *route,
            slots: 3,
            hand_over_rank: i16::MAX,
            floor: None,
        };
        exchange.want = self.routes.iter().map(want).collect();
        (exchange.decide_session, exchange.decide, exchange.look_for_undecided) = (self.session, 3, true);
        let reply = loop {
            let result = self.lane.exchange(&exchange).await;
            match result {
                Ok(reply) => break reply,
                result => _ = self.shared.happened(result),
            }
        };
        if reply.dead_sessions.is_empty() {
            assert!(reply.fenced.is_empty(), "a live session's own results are never refused: {:?}", reply.fenced);
            self.held = held;
            self.held.extend(reply.claimed);
            self.deciding = deciding;
            self.deciding.extend(reply.to_decide);
        } else {
            self.session = open_session(&self.shared.store, self.shared.now(), Uuid::from_u128(1)).await;
        }
    }

    fn draw_decision(&mut self) -> Decision {
        match self.rng.u32(..4) {
            0 => Decision::Skip,
            1 => Decision::Fail(failure()),
            _ => Decision::Start,
        }
    }
}

fn ended(claim: Claimed, now: Micros, state: TaskState) -> Ended {
    let failure = (state == TaskState::Failed).then(failure);
    Ended {
        token: claim.token,
        from: TaskState::Running,
        state,
        started_at: None,
        finished_at: now,
        failure,
        output: None,
    }
}

fn continued(claim: Claimed, now: Micros, how: ContinuedAs) -> ContinuedAttempt {
    ContinuedAttempt { token: claim.token, how, started_at: None, finished_at: now, failure: Some(failure()) }
}

/// Cancels, pauses, reopens, reaps, promotes and resizes at random.
async fn operate(shared: Arc<Shared>, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let store = shared.store.clone();
    for _ in 0..EXCHANGES_PER_LANE {
        let (run, workflow) = &shared.runs[rng.usize(..shared.runs.len())];
        let (now, id) = (shared.now(), shared.id());
        match rng.u32(..20) {
            0 => _ = shared.happened(store.cancel_run(now, id, *run, &operator()).await),
            1..4 => _ = shared.happened(store.pause_run(now, id, *run, &operator()).await),
            4..8 => _ = shared.happened(store.resume_run(now, id, *run, &operator()).await),
            8..10 => _ = shared.happened(store.reopen_run(now, id, *run, workflow, &Reopen::Failed, &operator()).await),
            10..12 => {
                let sessions = store.live_sessions().await.unwrap();
                if let Some(chosen) = rng.choice(&sessions) {
                    _ = shared.happened(store.end_session(now, chosen.id).await);
                }
            }
            12..14 => {
                let (pool, slots) = (["p", "q"][rng.usize(..2)], rng.i32(3..6));
                _ = shared.happened(store.set_pool(now, "default", pool, Some(slots)).await);
            }
            14 => _ = shared.happened(store.sweep_claims(now, &shared.term().await).await),
            15 => _ = shared.happened(store.reconcile_limits(now, &shared.term().await).await),
            16 => _ = shared.happened(store.proceed(now).await),
            _ => _ = shared.happened(store.promote_due(now, 100).await),
        }
    }
}

/// Drives everything to its end, alone.
async fn drain(shared: &Arc<Shared>) {
    let store = &shared.store;
    for session in store.live_sessions().await.unwrap() {
        store.end_session(shared.now(), session.id).await.unwrap();
    }
    store.sweep_claims(shared.now(), &shared.term().await).await.unwrap();
    store.reconcile_limits(shared.now(), &shared.term().await).await.unwrap();
    let mut worker = Worker::new(shared, 99).await;
    for _ in 0..2_000 {
        let open = store.list_runs(&RunFilter { limit: 1_000, ..RunFilter::default() }).await.unwrap();
        let open: Vec<_> = open.into_iter().filter(|run| !run.state.is_terminal()).collect();
        if open.is_empty() {
            return;
        }
        for run in open.iter().filter(|run| run.state == RunState::Paused) {
            store.resume_run(shared.now(), shared.id(), run.id, &operator()).await.unwrap();
        }
        while store.proceed(shared.now()).await.unwrap() {}
        shared.clock.fetch_add(SECOND, Ordering::Relaxed);
        store.promote_due(shared.now(), 1_000).await.unwrap();
        worker.exchange(true).await;
    }
    panic!("some runs do not end");
}

async fn make_runs(store: &Store) -> Shared {
    let mut shared = Shared {
        store: store.clone(),
        clock: AtomicI64::new(NOW),
        ids: AtomicU64::new(1),
        repeats: AtomicU64::new(0),
        runs: Vec::new(),
    };
    for pool in ["p", "q"] {
        store.set_pool(NOW, "default", pool, Some(5)).await.unwrap();
    }
    let limit = store.concurrency_limit("default/turns", 3).await.unwrap();
    let mut versions: Vec<(VersionRef, Workflow)> = Vec::new();
    for yaml in WORKFLOWS {
        let workflow = mainspring_core::parse(yaml).unwrap();
        versions.push((store.put_version(NOW, shared.id(), &workflow, yaml, &[]).await.unwrap(), workflow));
    }
    for at in 0..RUNS {
        let (version, workflow) = &versions[at % versions.len()];
        let new = NewRun {
            id: shared.id(),
            version: version.clone(),
            priority: None,
            inputs: None,
            correlation_id: None,
            trigger: None,
            idempotency_key: None,
            limit: version.concurrency.as_ref().map(|_| limit),
            overlap: None,
            start_at: None,
            audit: None,
        };
        let run = new.id;
        store.create_runs(shared.now(), &[new]).await.unwrap();
        shared.runs.push((run, workflow.clone()));
    }
    shared
}

async fn meet(flavor: Flavor) {
    let db = TestDatabase::new(flavor).await;
    let shared = Arc::new(make_runs(db.store()).await);
    let mut tasks = Vec::new();
    for seed in 0..LANES {
        let mut worker = Worker::new(&shared, seed).await;
        tasks.push(tokio::spawn(async move {
            for _ in 0..EXCHANGES_PER_LANE {
                worker.exchange(false).await;
            }
        }));
    }
    for seed in [50, 51] {
        tasks.push(tokio::spawn(operate(Arc::clone(&shared), seed)));
    }
    for task in tasks {
        task.await.unwrap();
    }
    drain(&shared).await;
    let violations = invariants::check_at_rest(db.url()).await.unwrap();
    let shown: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{}", shown.join("\n"));
    let exchanges = LANES * u64::from(EXCHANGES_PER_LANE);
    let repeats = shared.repeats.load(Ordering::Relaxed);
    assert!(repeats < exchanges / 10, "{repeats} repetitions for {exchanges} exchanges: the order of locks is broken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_lanes_and_two_operators_meet_on_postgres() {
    meet(Flavor::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_lanes_and_two_operators_meet_on_sqlite() {
    meet(Flavor::Sqlite).await;
}
