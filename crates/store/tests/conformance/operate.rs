//! What people do to runs: cancel, pause, resume.

use mainspring_core::state::{RunState, TaskState};
use mainspring_store::{CancelOutcome, Error, Reopen};

use crate::conformance;
use crate::world::{SECOND, World, operator};

const FOUR: &str =
    "{name: w, tasks: {a: {run: x}, b: {run: x, retry: {attempts: 5}}, c: {run: x}, d: {needs: [a, b, c], run: x}}}";

conformance! {
    async fn a_cancel_ends_what_has_not_started_and_asks_the_rest_to_stop(w: &mut World) {
        w.submit(FOUR).await;
        w.claim(2).await;
        w.retry("b").await;
        let running = w.token("a");
        w.cancel().await;
        w.expect("running a=running b=cancelled c=cancelled d=cancelled").await;
        assert!(w.claim(5).await.is_empty());
        for _ in 0..2 {
            let asked = w.exchange(&w.empty_exchange()).await;
            assert_eq!(asked.cancel, [running], "told until it ends");
        }
        let reply = w.end("a", TaskState::Cancelled).await;
        assert_eq!(reply.ended_runs, [(w.run, RunState::Cancelled)]);
        assert!(reply.cancel.is_empty());
        assert!(w.exchange(&w.empty_exchange()).await.cancel.is_empty());
        w.expect("cancelled a=cancelled b=cancelled c=cancelled d=cancelled").await;
    }

    async fn a_cancel_tells_who_and_why(w: &mut World) {
        w.submit(FOUR).await;
        w.claim(1).await;
        w.cancel().await;
        let told = "cancelled by somebody: a test";
        let reasons = w.store.cancel_reasons(w.session).await.unwrap();
        assert_eq!(reasons[&w.token("a")], told);
        assert_eq!(w.store.run(w.run).await.unwrap().reason.as_deref(), Some(told));
        w.lose_session().await;
        let row = &w.store.ended_tasks(w.run, &[0]).await.unwrap()[0];
        assert_eq!((row.error_kind.as_deref(), row.error.as_deref()), (Some("cancelled"), Some(told)));
        let (id, workflow) = (w.id(), w.workflow(w.run).clone());
        w.store.reopen_run(w.now, id, w.run, &workflow, &Reopen::Failed, &operator()).await.unwrap();
        assert_eq!(w.store.run(w.run).await.unwrap().reason, None, "it goes on");
        w.play(&[], &[]).await;
    }

    async fn other_sessions_are_not_asked(w: &mut World) {
        w.submit(FOUR).await;
        w.claim(1).await;
        w.cancel().await;
        let other = w.open_session().await;
        let exchange = mainspring_store::Exchange { now: w.now, sessions: vec![other], ..Default::default() };
        assert!(w.lane.exchange(&exchange).await.unwrap().cancel.is_empty());
        w.end("a", TaskState::Cancelled).await;
    }

    async fn whatever_a_running_task_says_ends_a_cancelled_run(w: &mut World) {
        for (how, expected) in [("success", "success"), ("failed", "failed"), ("retry", "cancelled"), ("release", "cancelled"), ("lost", "cancelled")] {
            w.submit("{name: w, tasks: {a: {run: x, retry: {}}, b: {needs: a, run: x}}}").await;
            w.claim(1).await;
            w.cancel().await;
            match how {
                "success" => _ = w.succeed("a").await,
                "failed" => _ = w.fail("a").await,
                "retry" => _ = w.retry("a").await,
                "release" => _ = w.release("a").await,
                _ => _ = w.lose_session().await,
            }
            w.expect(&format!("cancelled a={expected} b=cancelled")).await;
        }
    }

    async fn a_cancel_of_an_ended_run_says_so(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.play(&[], &[]).await;
        let id = w.id();
        let outcome = w.store.cancel_run(w.now, id, w.run, &operator()).await.unwrap();
        assert_eq!(outcome, CancelOutcome::AlreadyEnded(RunState::Success));
        let (id, unknown) = (w.id(), w.id());
        let error = w.store.cancel_run(w.now, id, unknown, &operator()).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
    }

    async fn a_paused_run_starts_nothing_and_finishes_what_runs(w: &mut World) {
        w.submit(FOUR).await;
        w.claim(1).await;
        w.pause().await;
        w.expect("paused a=running b=held c=held d=pending").await;
        assert!(w.claim(5).await.is_empty());
        w.succeed("a").await;
        w.expect("paused a=success b=held c=held d=pending").await;
        w.resume().await;
        w.expect("running a=success b=ready c=ready d=pending").await;
        w.play(&[], &[]).await;
        w.expect("success a=success b=success c=success d=success").await;
    }

    async fn everything_that_comes_back_to_a_paused_run_is_held(w: &mut World) {
        w.submit("{name: w, defaults: {retry: {}}, tasks: {a: {run: x}, b: {run: x}, c: {run: x}, d: {needs: c, run: x}}}").await;
        w.claim(3).await;
        w.pause().await;
        w.release("a").await;
        w.retry("b").await;
        w.succeed("c").await;
        w.expect("paused a=held b=retrying c=success d=held").await;
        w.pass(SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        w.expect("paused a=held b=held c=success d=held").await;
        w.resume().await;
        w.expect("running a=ready b=ready c=success d=ready").await;
    }

    async fn the_rows_of_a_dead_session_are_held_while_the_run_is_paused(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.claim(1).await;
        w.pause().await;
        assert_eq!(w.lose_session().await, 1);
        w.expect("paused a=held").await;
        w.resume().await;
        w.expect("running a=ready").await;
    }

    async fn a_paused_run_may_end(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}}").await;
        w.claim(1).await;
        w.pause().await;
        w.fail("a").await;
        w.expect("failed a=failed b=upstream_failed").await;
    }

    async fn a_paused_run_can_be_cancelled(w: &mut World) {
        w.submit(FOUR).await;
        w.claim(1).await;
        w.pause().await;
        w.cancel().await;
        w.expect("running a=running b=cancelled c=cancelled d=cancelled").await;
        w.succeed("a").await;
        w.expect("cancelled a=success b=cancelled c=cancelled d=cancelled").await;
    }

    async fn only_what_fits_the_state_is_allowed(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        let id = w.id();
        let conflict = w.store.resume_run(w.now, id, w.run, &operator()).await.unwrap_err();
        assert!(conflict.to_string().contains("only a paused run can be resumed"), "{conflict}");
        w.pause().await;
        let conflict = w.store.pause_run(w.now, id, w.run, &operator()).await.unwrap_err();
        assert!(conflict.to_string().contains("only a running run can be paused"), "{conflict}");
        w.resume().await;
        w.claim(1).await;
        w.cancel().await;
        let conflict = w.store.pause_run(w.now, id, w.run, &operator()).await.unwrap_err();
        assert!(matches!(conflict, Error::Conflict(_)), "a run that is being cancelled cannot be paused: {conflict}");
        w.succeed("a").await;
    }
}
