//! Units that are too big for one transaction: they go in chunks, and every moment between two chunks is consistent.

use mainspring_core::state::{RunState, TaskState};
use mainspring_core::workflow::{Stage, Workflow};
use mainspring_store::{Exchange, Reopen};
use sqlx::{Connection, PgConnection};

use crate::conformance;
use crate::world::{World, execute, operator};

/// `width` tasks; with a root before them and a join behind them if asked for.
fn wide(width: i32, with_ends: bool) -> Workflow {
    let mut workflow = mainspring_core::parse("{name: w, tasks: {a: {function: noop, on_exhausted: fail}}}").unwrap();
    let template = workflow.tasks.remove(0);
    let total = if with_ends { width + 2 } else { width };
    for index in 0..total {
        let mut task = template.clone();
        task.name = format!("t{index}");
        if with_ends {
            let last = total - 1;
            (task.needs, task.dependents) = match index {
                0 => (vec![], (1..last).collect()),
                _ if index == last => ((1..last).collect(), vec![]),
                _ => (vec![0], vec![last]),
            };
        }
        workflow.tasks.push(task);
    }
    assert_eq!(workflow.stage(Stage::Main).len(), total as usize);
    workflow
}

/// How many task runs of the run are in each state.
async fn counts(w: &World) -> Vec<(TaskState, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for row in w.store.task_runs(w.run).await.unwrap() {
        *counts.entry(row.state).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

async fn submit(w: &mut World, workflow: Workflow) {
    let version = w.version_of(workflow, "").await;
    let new = w.new_run(&version).await;
    w.create(new).await;
}

/// Claims and finishes everything in big batches until the run ends.
async fn drain(w: &mut World) {
    while !w.run_state().await.is_terminal() {
        let ended = w.held.values().map(|claim| w.ended(claim.token, TaskState::Success)).collect();
        let exchange = Exchange { ended, want: w.wants(3_000).await, ..w.empty_exchange() };
        w.exchange(&exchange).await;
        w.proceed().await;
    }
}

conformance! {
    async fn a_very_big_run_is_made_in_chunks(w: &mut World) {
        let version = w.version_of(wide(12_000, false), "").await;
        let new = w.new_run(&version).await;
        let id = new.id;
        w.create_only(new).await;
        assert!(w.store.has_continuations().await.unwrap());
        let mut chunks = 0;
        loop {
            w.check_now().await;
            assert!(w.claim(1).await.is_empty() || chunks > 3, "nothing starts before everything is there");
            if !w.store.proceed(w.now).await.unwrap() {
                break;
            }
            chunks += 1;
        }
        assert!(chunks >= 6, "made and let go in three chunks each, not {chunks}");
        assert_eq!(w.store.run_summary(id).await.unwrap().open_tasks, 12_000);
    }

    async fn a_run_that_is_still_being_made_is_cancelled(w: &mut World) {
        for made in 0..3 {
            let mut workflow = wide(12_000, false);
            workflow.name = format!("w{made}");
            let version = w.version_of(workflow, "").await;
            let new = w.new_run(&version).await;
            w.create_only(new).await;
            for _ in 0..made {
                assert!(w.store.proceed(w.now).await.unwrap());
            }
            w.cancel().await;
            assert_eq!(w.run_state().await, RunState::Cancelled);
            assert_eq!(counts(w).await, [(TaskState::Cancelled, 12_000)]);
        }
    }

    async fn a_run_that_cannot_go_on_keeps_no_other_from_going_on(w: &mut World) {
        let broken = w.version_of(Workflow { name: "broken".into(), ..wide(5_001, false) }, "").await;
        let new = w.new_run(&broken).await;
        w.create_only(new).await;
        execute(&w.db, "DELETE FROM runs").await;
        let version = w.version_of(wide(5_001, false), "").await;
        let new = w.new_run(&version).await;
        w.create_only(new).await;
        let mut chunks = 0;
        while w.store.proceed(w.now).await.unwrap() {
            chunks += 1;
        }
        assert!(chunks >= 2, "{chunks}");
        assert_eq!(counts(w).await, [(TaskState::Ready, 5_001)]);
        assert!(w.store.has_continuations().await.unwrap(), "it is tried again");
        execute(&w.db, "DELETE FROM continuations").await;
        execute(&w.db, "DELETE FROM task_runs WHERE run_id NOT IN (SELECT id FROM runs)").await;
    }

    async fn sizes_around_a_chunk(w: &mut World) {
        for size in [4_999, 5_000, 5_001, 10_000] {
            let mut workflow = wide(size, false);
            workflow.name = format!("w{size}");
            submit(w, workflow).await;
            assert_eq!(counts(w).await, [(TaskState::Ready, size as usize)]);
            w.cancel().await;
            assert_eq!(counts(w).await, [(TaskState::Cancelled, size as usize)]);
            assert_eq!(w.run_state().await, RunState::Cancelled);
        }
    }

    async fn a_wide_fan_out_runs_to_its_join(w: &mut World) {
        submit(w, wide(12_000, true)).await;
        w.claim(1).await;
        w.succeed("t0").await;
        assert!(w.store.has_continuations().await.unwrap());
        w.check_now().await;
        assert!(w.store.proceed(w.now).await.unwrap());
        w.check_now().await;
        w.proceed().await;
        assert_eq!(counts(w).await, [(TaskState::Pending, 1), (TaskState::Ready, 12_000), (TaskState::Success, 1)]);
        drain(w).await;
        assert_eq!(counts(w).await, [(TaskState::Success, 12_002)]);
    }

    async fn a_failure_reaches_very_many_dependents(w: &mut World) {
        submit(w, wide(12_000, true)).await;
        w.claim(1).await;
        w.fail("t0").await;
        w.check_now().await;
        w.proceed().await;
        assert_eq!(counts(w).await, [(TaskState::Failed, 1), (TaskState::UpstreamFailed, 12_001)]);
        assert_eq!(w.run_state().await, RunState::Failed);
    }

    async fn a_very_big_run_is_cancelled_with_what_runs_in_it(w: &mut World) {
        submit(w, wide(12_000, false)).await;
        assert_eq!(w.claim(7).await.len(), 7);
        w.cancel().await;
        assert_eq!(counts(w).await, [(TaskState::Running, 7), (TaskState::Cancelled, 11_993)]);
        assert!(w.claim(10).await.is_empty());
        assert_eq!(w.exchange(&w.empty_exchange()).await.cancel.len(), 7);
        let ended = w.held.values().map(|claim| w.ended(claim.token, TaskState::Cancelled)).collect();
        let reply = w.exchange(&Exchange { ended, ..w.empty_exchange() }).await;
        assert_eq!(reply.ended_runs, [(w.run, RunState::Cancelled)]);
    }

    async fn a_fan_out_that_a_cancel_overtook_does_not_count_after_reopening(w: &mut World) {
        let workflow = wide(6_000, true);
        submit(w, workflow.clone()).await;
        w.claim(1).await;
        w.succeed("t0").await;
        assert!(w.store.has_continuations().await.unwrap());
        let action = w.id();
        w.store.cancel_run(w.now, action, w.run, &operator()).await.unwrap();
        let action = w.id();
        w.store.reopen_run(w.now, action, w.run, &workflow, &Reopen::Failed, &operator()).await.unwrap();
        w.proceed().await;
        w.check_now().await;
        assert_eq!(counts(w).await, [(TaskState::Pending, 1), (TaskState::Ready, 6_000), (TaskState::Success, 1)]);
        w.cancel().await;
    }

    async fn a_very_big_run_waits_for_its_turn(w: &mut World) {
        let mut workflow = wide(6_000, false);
        workflow.concurrency = mainspring_core::parse("{name: w, concurrency: {limit: 1}}").unwrap().concurrency;
        let mut small = wide(1, false);
        small.concurrency = workflow.concurrency.clone();
        submit(w, small).await;
        let first = w.run;
        submit(w, workflow).await;
        let second = w.run;
        assert_eq!(counts(w).await, [(TaskState::Held, 6_000)]);
        assert_eq!(w.run_state().await, RunState::Pending);
        w.check_now().await;
        w.run = first;
        w.play(&[], &[]).await;
        w.run = second;
        w.check_now().await;
        w.proceed().await;
        assert_eq!(counts(w).await, [(TaskState::Ready, 6_000)]);
        w.pause().await;
        w.check_now().await;
        w.resume().await;
        w.cancel().await;
    }
}

/// The first row is claimed between the two statements of the first chunk of a cancel: the cancel waits for the claim, finds
/// one row less than a chunk has, and must not take that for the last of them.
#[tokio::test]
async fn a_claim_in_the_midst_of_a_big_cancel_does_not_end_it() {
    let mut w = World::new(mainspring_store::Flavor::Postgres).await;
    submit(&mut w, wide(12_000, false)).await;
    let mut claims = PgConnection::connect(w.db.url()).await.unwrap();
    let mut claim = claims.begin().await.unwrap();
    let sql = "UPDATE task_runs SET state = 2, session = $2, attempt = 1, started_at = 1 WHERE run_id = $1 AND idx = 0";
    sqlx::query(sql).bind(w.run).bind(w.session).execute(&mut *claim).await.unwrap();
    let (store, now, action, run) = (w.store.clone(), w.now, w.id(), w.run);
    let cancel = tokio::spawn(async move { store.cancel_run(now, action, run, &operator()).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    loop {
        let (waiting,): (i64,) = sqlx::query_as(waits).fetch_one(&mut *claim).await.unwrap();
        if waiting > 0 || cancel.is_finished() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    claim.commit().await.unwrap();
    cancel.await.unwrap().unwrap();
    assert_eq!(counts(&w).await, [(TaskState::Running, 1), (TaskState::Cancelled, 11_999)]);
}
