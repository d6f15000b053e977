//! The plans of the hot statements, as PostgreSQL really chose them inside the functions.
//!
//! `auto_explain` sends every plan, nested ones included, to the client as a notice; a subscriber collects them. No plan
//! may read a big table from end to end, on a database without statistics as well as on one with 100,000 rows.

use std::sync::{Arc, Mutex};

use mainspring_core::plan::Decision;
use mainspring_core::state::{RunState, TaskState};
use mainspring_store::{Connect, Exchange, Fired, NewRun, Reopen, RunFilter, Store};
use mainspring_testkit::TestDatabase;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::firing::firing;
use crate::world::{SECOND, World, execute, operator};

/// Tables that grow without bound, or with what runs.
const BIG: &[&str] = &[
    "task_runs",
    "runs",
    "history",
    "history_superseded",
    "attempts",
    "run_details",
    "logs",
    "submissions",
    "operator_actions",
    "run_transitions",
    "fires",
    "starts",
];

#[derive(Clone, Default)]
struct Plans(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Plans {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
            fn record_str(&mut self, field: &Field, value: &str) {
                if field.name() == "message" {
                    self.0 = value.to_owned();
                }
            }
        }
        if event.metadata().target() == "sqlx::postgres::notice" {
            let mut message = Message(String::new());
            event.record(&mut message);
            if message.0.contains("plan:") {
                self.0.lock().unwrap().push(message.0.replace("\\n", "\n"));
            }
        }
    }
}

impl Plans {
    /// Takes what was collected; refuses plans that read a big table from end to end.
    fn refuse_scans(&self, what: &str) -> String {
        let plans = std::mem::take(&mut *self.0.lock().unwrap());
        assert!(!plans.is_empty(), "{what}: no plan was seen, so nothing is proven");
        for plan in &plans {
            for line in plan.lines().filter(|line| line.contains("Seq Scan on ")) {
                let table =
                    line.split("Seq Scan on ").nth(1).unwrap_or_default().split_whitespace().next().unwrap_or_default();
                let is_big = BIG.contains(&table) || table.starts_with("history_");
                assert!(!is_big, "{what} reads {table} from end to end:\n{plan}");
            }
            // The key without the run is a whole index.
            let lines: Vec<&str> = plan.lines().collect();
            for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("using task_runs_pkey on")) {
                let condition = lines.get(at + 1).copied().unwrap_or_default();
                assert!(condition.contains("run_id"), "{what} reads a whole index ({line}):\n{plan}");
            }
        }
        plans.join("\n")
    }

    fn expect(&self, what: &str, index: &str) -> String {
        let plans = self.refuse_scans(what);
        assert!(plans.contains(index), "{what} does not use {index}:\n{plans}");
        plans
    }

    /// As [`Plans::expect`], and no plan reads everything that one session, or all of them, has claimed.
    fn expect_of_exchange(&self, what: &str, index: &str) {
        let plans = self.expect(what, index);
        assert!(!plans.contains("task_runs_claimed"), "{what} looks through claimed rows:\n{plans}");
    }
}

/// A world whose every statement tells its plan.
async fn explaining() -> World {
    let db = TestDatabase::postgres().await;
    let name = db.url().rsplit('/').next().unwrap().to_owned();
    for setting in [
        "session_preload_libraries = 'auto_explain'",
        "auto_explain.log_min_duration = 0",
        "auto_explain.log_nested_statements = on",
        // The store's connections let nothing below a warning through.
        "auto_explain.log_level = warning",
    ] {
        execute(&db, &format!("ALTER DATABASE {name} SET {setting}")).await;
    }
    // New connections, which have the settings.
    let store = Store::connect(&Connect::new(db.url())).await.unwrap();
    World::on(db, store).await
}

const EVERYTHING: &str =
    "{name: w, timeout: 10h, tasks: {a: {run: x, pool: p}, b: {needs: a, run: x, retry: {}}, c: {needs: a, run: x, if: 'true'},
    d: {needs: [b, c], run: x, trigger_rule: all_done}}, on_failure: {e: {run: x}}, finally: {f: {run: x}}}";

/// Every way work moves, several times, so that cached plans are seen as well as fresh ones.
async fn walk(w: &mut World, plans: &Plans) {
    for round in 0..8 {
        w.submit(EVERYTHING).await;
        plans.refuse_scans("making a run");
        w.claim(1).await;
        plans.expect_of_exchange("claiming", "task_runs_ready");
        let key = w.key("a");
        if !w.held.contains_key(&key) {
            // Many others wait: take it by its pool's turn.
            drain_own(w).await;
            plans.refuse_scans("catching up");
        }
        let exchange = Exchange {
            ended: vec![w.ended(w.token("a"), TaskState::Success)],
            want: w.wants(1).await,
            ..w.empty_exchange()
        };
        w.exchange(&exchange).await;
        plans.expect_of_exchange("finishing", "task_runs_pkey");
        w.take_decisions().await;
        plans.expect_of_exchange("taking decisions", "task_runs_undecided");
        w.decide("c", if round % 2 == 0 { Decision::Start } else { Decision::Skip }).await;
        plans.expect_of_exchange("deciding", "task_runs_pkey");
        let key = w.key("b");
        if w.held.contains_key(&key) {
            w.retry("b").await;
            plans.expect_of_exchange("failing an attempt", "task_runs_pkey");
            w.pass(SECOND);
            w.store.duties().await.unwrap();
            plans.expect("looking for what is due", "task_runs_due");
            w.store.promote_due(w.now, 100).await.unwrap();
            plans.expect("promoting", "task_runs_due");
        }
        w.pause().await;
        plans.refuse_scans("pausing");
        w.resume().await;
        plans.refuse_scans("resuming");
        w.lose_session().await;
        plans.expect("returning rows", "task_runs_claimed");
        w.cancel().await;
        plans.refuse_scans("cancelling");
        w.cancel().await;
        plans.refuse_scans("cancelling again");
        assert_eq!(w.run_state().await, RunState::Cancelled);
        let (id, workflow) = (w.id(), w.workflow(w.run).clone());
        w.store.reopen_run(w.now, id, w.run, &workflow, &Reopen::Failed, &operator()).await.unwrap();
        plans.refuse_scans("reopening");
        look(w, plans).await;
        w.cancel().await;
        w.cancel().await;
        plans.refuse_scans("the end");
    }
}

/// Claims until the run's own first task is held, giving back the others.
async fn drain_own(w: &mut World) {
    let wanted = w.key("a");
    let others: Vec<_> = w.held.values().filter(|claim| claim.token.key != wanted).copied().collect();
    let ended = others.iter().map(|claim| w.ended(claim.token, TaskState::Success)).collect();
    let exchange = Exchange { ended, ..w.empty_exchange() };
    w.exchange(&exchange).await;
    assert!(w.held.contains_key(&wanted), "the run under test is the most urgent");
}

async fn look(w: &World, plans: &Plans) {
    let all = RunFilter { limit: 20, ..RunFilter::default() };
    w.store.list_runs(&all).await.unwrap();
    plans.refuse_scans("listing runs");
    w.store.list_runs(&RunFilter { before: Some(w.run), ..all.clone() }).await.unwrap();
    plans.refuse_scans("listing the next page");
    for state in [RunState::Running, RunState::Paused] {
        w.store.list_runs(&RunFilter { state: Some(state), ..all.clone() }).await.unwrap();
        plans.expect("listing open runs", "task_runs_pkey");
        w.store.list_runs(&RunFilter { state: Some(state), before: Some(w.run), ..all.clone() }).await.unwrap();
        plans.expect("listing the next page of open runs", "task_runs_pkey");
    }
    w.store.list_runs(&RunFilter { correlation_id: Some("x".into()), ..all }).await.unwrap();
    plans.refuse_scans("listing runs by correlation");
    w.store.run(w.run).await.unwrap();
    w.store.task_runs(w.run).await.unwrap();
    w.store.attempts(w.key("a")).await.unwrap();
    plans.refuse_scans("looking at a run");
    w.store.run_log(w.run, 1, 100).await.unwrap();
    plans.refuse_scans("reading the log of a run");
    w.store.run_marks(&[w.run]).await.unwrap();
    w.store.run_summaries(&[w.run]).await.unwrap();
    w.store.runs_made_after(w.run, 10).await.unwrap();
    w.store.actions_after(w.run, 10).await.unwrap();
    plans.refuse_scans("following many runs");
    w.store.next_deadline().await.unwrap();
    plans.refuse_scans("looking for deadlines");
}

#[tokio::test]
async fn hot_statements_use_their_indexes_on_a_new_database() {
    let plans = Plans::default();
    let _collecting = tracing::subscriber::set_default(tracing_subscriber::registry().with(plans.clone()));
    let mut w = explaining().await;
    w.store.set_pool(w.now, "default", "p", Some(100)).await.unwrap();
    walk(&mut w, &plans).await;
}

#[tokio::test]
async fn hot_statements_use_their_indexes_among_100_000_rows() {
    let plans = Plans::default();
    let _collecting = tracing::subscriber::set_default(tracing_subscriber::registry().with(plans.clone()));
    let mut w = explaining().await;
    w.store.set_pool(w.now, "default", "p", Some(100)).await.unwrap();
    // Plans are cached while everything is small, and met again when it is big.
    walk(&mut w, &plans).await;
    let tasks: Vec<String> = (0..100).map(|at| format!("t{at}: {{run: x, priority: 1}}")).collect();
    let version = w.version(&format!("{{name: many, tasks: {{{}}}}}", tasks.join(", "))).await;
    for _ in 0..20 {
        let mut runs = Vec::new();
        for _ in 0..50 {
            runs.push(w.new_run(&version).await);
        }
        w.store.create_runs(w.now, &runs).await.unwrap();
    }
    plans.refuse_scans("making 100,000 rows");
    walk(&mut w, &plans).await;
    w.lane = w.store.open_lane(w.node, w.now).await.unwrap();
    walk(&mut w, &plans).await;
    w.run = uuid::Uuid::nil();
}

#[tokio::test]
async fn the_clock_uses_its_indexes_among_20_000_triggers() {
    let plans = Plans::default();
    let _collecting = tracing::subscriber::set_default(tracing_subscriber::registry().with(plans.clone()));
    let mut w = explaining().await;
    let version = w.version("{name: w, triggers: [{id: a, every: 10s}], tasks: {t: {run: x}}}").await;
    let term = w.lead().await;
    for others in [0, 20_000] {
        let far = w.now + 1_000_000 * SECOND;
        execute(
            &w.db,
            &format!(
                "INSERT INTO triggers (id, workflow_id, namespace, name, kind, spec, anchor_at, covered_at, next_nominal, next_fire_at, created_at, updated_at) \
                 SELECT gen_random_uuid(), workflow_id, namespace, name || n, kind, spec, anchor_at, covered_at, {far} + n, {far} + n, created_at, updated_at \
                 FROM triggers, generate_series(1, {others}) n"
            ),
        )
        .await;
        for _ in 0..8 {
            let new = w.new_run(&version).await;
            w.create(NewRun { start_at: Some(w.now + SECOND), ..new }).await;
            w.pass(10 * SECOND);
            plans.refuse_scans("putting a run off");
            let due = w.store.due_triggers(w.now, 1_000).await.unwrap();
            assert_eq!(due.len(), 1);
            w.store.next_fire().await.unwrap();
            if others > 0 {
                plans.expect("looking for what is due", "triggers_due");
            }
            let run = w.new_run(&version).await;
            w.versions.insert(run.id, version.id);
            let unit = [firing(&due[0], run)];
            let fired = w.store.fire(w.now, w.now, &term, &unit).await.unwrap();
            assert!(matches!(fired, Fired::Done(_)), "{fired:?}");
            let seen = plans.expect("firing", "triggers_pkey");
            assert!(!seen.contains("Seq Scan on triggers"), "{seen}");
            w.store.next_start().await.unwrap();
            assert_eq!(w.store.begin_due_runs(w.now, w.now, 100).await.unwrap(), 1);
            plans.refuse_scans("letting a run begin");
            w.proceed().await;
        }
    }
}
