//! What people do to one task run.

use mainspring_core::RunId;
use mainspring_core::state::TaskState;
use mainspring_store::{Error, Reopen, Repair, Repaired, Result};

use crate::conformance;
use crate::world::{World, operator};

const CHAIN: &str = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, run: x}}}";

async fn repair(w: &mut World, name: &str, repair: Repair) -> Result<Repaired> {
    let id = w.id();
    let key = w.key(name);
    w.store.repair(w.now, id, key, &repair, &operator()).await
}

async fn settle(w: &mut World, task: usize, state: TaskState) -> Result<RunId> {
    let id = w.id();
    let workflow = w.workflows[&w.versions[&w.run]].clone();
    let what = Reopen::Settled { task, state, output: Some("{\"n\":1}".into()) };
    w.store.reopen_run(w.now, id, w.run, &workflow, &what, &operator()).await.map(|_| w.run)
}

conformance! {
    async fn what_has_not_started_is_settled_by_hand(w: &mut World) {
        for (how, ends) in [
            (Repair::Resolve { output: Some("{}".into()) }, "resolved_manually c=ready"),
            (Repair::Skip, "skipped c=ready"),
            (Repair::Cancel, "cancelled c=upstream_failed"),
        ] {
            w.submit(CHAIN).await;
            assert_eq!(repair(w, "b", how).await.unwrap(), Repaired::Done);
            w.expect(&format!("running a=ready b={ends}")).await;
            w.play(&[], &[]).await;
        }
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        repair(w, "a", Repair::Skip).await.unwrap();
        w.expect("success a=skipped").await;
        assert_eq!(repair(w, "a", Repair::Skip).await.unwrap(), Repaired::Ended);
    }

    async fn what_runs_is_only_asked_to_stop(w: &mut World) {
        w.submit(CHAIN).await;
        w.claim(1).await;
        let running = w.token("a");
        for how in [Repair::Skip, Repair::Resolve { output: None }, Repair::RetryNow, Repair::ResetAttempts, Repair::MaxAttempts(9)] {
            assert!(matches!(repair(w, "a", how).await, Err(Error::Conflict(_))));
        }
        assert_eq!(repair(w, "a", Repair::Cancel).await.unwrap(), Repaired::StopRequested);
        assert_eq!(w.exchange(&w.empty_exchange()).await.cancel, [running]);
        w.end("a", TaskState::Cancelled).await;
        w.expect("failed a=cancelled b=upstream_failed c=upstream_failed").await;
    }

    async fn pools_are_given_back_by_what_is_settled(w: &mut World) {
        w.store.set_pool(w.now, "default", "p", Some(1)).await.unwrap();
        w.submit("{name: w, tasks: {a: {run: x, pool: p}, b: {run: x, pool: p}}}").await;
        w.expect("running a=ready b=gated").await;
        repair(w, "a", Repair::Skip).await.unwrap();
        w.expect("running a=skipped b=ready").await;
        repair(w, "b", Repair::Skip).await.unwrap();
        assert_eq!(w.store.pool("default", "p").await.unwrap().held, 0);
    }

    async fn the_next_attempt_is_not_waited_for(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, retry: {attempts: 2}}}}").await;
        w.claim(1).await;
        assert!(matches!(repair(w, "a", Repair::RetryNow).await, Err(Error::Conflict(_))));
        w.retry("a").await;
        w.expect("running a=retrying").await;
        repair(w, "a", Repair::ResetAttempts).await.unwrap();
        repair(w, "a", Repair::MaxAttempts(1)).await.unwrap();
        repair(w, "a", Repair::RetryNow).await.unwrap();
        w.expect("running a=ready").await;
        w.claim(1).await;
        w.retry("a").await;
        w.expect("failed a=failed").await;
    }

    async fn a_paused_run_takes_repairs_and_a_stopped_one_does_not(w: &mut World) {
        w.submit(CHAIN).await;
        w.pause().await;
        repair(w, "a", Repair::Skip).await.unwrap();
        w.expect("paused a=skipped b=held c=pending").await;
        w.resume().await;
        w.claim(1).await;
        w.cancel().await;
        assert!(matches!(repair(w, "b", Repair::Cancel).await, Err(Error::Conflict(_))));
        w.end("b", TaskState::Cancelled).await;
    }

    async fn another_end_lets_the_run_go_on(w: &mut World) {
        for state in [TaskState::ResolvedManually, TaskState::Skipped] {
            w.submit(CHAIN).await;
            w.play(&["a"], &[]).await;
            w.expect("failed a=failed b=upstream_failed c=upstream_failed").await;
            assert!(matches!(settle(w, 7, state).await, Err(Error::Conflict(_))));
            settle(w, 0, state).await.unwrap();
            w.expect(&format!("running a={state} b=ready c=pending")).await;
            w.play(&[], &[]).await;
            w.expect(&format!("success a={state} b=success c=success")).await;
            assert!(matches!(settle(w, 0, state).await, Err(Error::Conflict(_))), "success is final");
        }
    }

    async fn another_end_of_the_last_task_ends_the_run_well(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}, on_failure: {f: {run: x}}, finally: {z: {run: x}}}").await;
        w.play(&["a"], &[]).await;
        w.expect("failed a=failed f=success z=success").await;
        assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 1);
        settle(w, 0, TaskState::ResolvedManually).await.unwrap();
        assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 0);
        w.play(&[], &[]).await;
        w.expect("success a=resolved_manually f=skipped z=success").await;
        let ended = w.store.ended_tasks(w.run, &[0]).await.unwrap();
        assert_eq!((ended[0].generation, ended[0].output.as_ref().unwrap().to_string()), (1, "{\"n\":1}".into()));
    }
}
