//! A failed task is acted on while its run goes on: what was decided because of it is taken back, what runs is left alone.

use mainspring_core::state::TaskState;
use mainspring_store::{Error, Reopen, Reopened};

use crate::conformance;
use crate::world::{World, operator};

const SIDE_BY_SIDE: &str = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, run: x}, d: {run: x}}}";

async fn try_reopen(w: &mut World, what: Reopen) -> Result<Reopened, Error> {
    let (id, workflow) = (w.id(), w.workflow(w.run).clone());
    let reopened = w.store.reopen_run(w.now, id, w.run, &workflow, &what, &operator()).await;
    w.pass(crate::world::MILLI);
    reopened
}

async fn reopen(w: &mut World, what: Reopen) -> Reopened {
    let reopened = try_reopen(w, what).await.unwrap();
    w.check_now().await;
    reopened
}

fn settled(w: &World, name: &str, state: TaskState) -> Reopen {
    Reopen::Settled { task: w.key(name).index as usize, state, output: None }
}

fn from(w: &World, name: &str) -> Reopen {
    Reopen::From(vec![w.key(name).index as usize])
}

conformance! {
    async fn a_failed_task_is_retried_beside_one_that_runs(w: &mut World) {
        w.submit(SIDE_BY_SIDE).await;
        w.claim(2).await;
        w.fail("a").await;
        w.expect("running a=failed b=upstream_failed c=upstream_failed d=running").await;
        assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 1);
        let what = from(w, "a");
        assert_eq!(reopen(w, what).await, Reopened { tasks: 3, generation: 1 });
        w.expect("running a=ready b=pending c=pending d=running").await;
        assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 0);
        w.succeed("d").await;
        w.play(&[], &[]).await;
        w.expect("success a=success b=success c=success d=success").await;
        w.check_now().await;
        let rows = w.store.task_runs(w.run).await.unwrap();
        assert_eq!(rows.iter().map(|row| (row.attempt, row.generation)).collect::<Vec<_>>(), [(2, 1), (1, 1), (1, 1), (1, 0)]);
    }

    async fn it_can_fail_again_and_be_retried_again(w: &mut World) {
        w.submit(SIDE_BY_SIDE).await;
        w.claim(2).await;
        for attempt in 1..=3 {
            assert_eq!(w.token("a").attempt, attempt);
            w.fail("a").await;
            assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 1);
            let what = from(w, "a");
            reopen(w, what).await;
            w.claim(1).await;
        }
        w.fail("a").await;
        w.succeed("d").await;
        w.expect("failed a=failed b=upstream_failed c=upstream_failed d=success").await;
        let what = from(w, "a");
        reopen(w, what).await;
        w.play(&[], &[]).await;
        w.expect("success a=success b=success c=success d=success").await;
        w.check_now().await;
    }

    async fn it_is_skipped_or_resolved_and_what_follows_goes_on(w: &mut World) {
        for state in [TaskState::Skipped, TaskState::ResolvedManually] {
            w.submit(SIDE_BY_SIDE).await;
            w.claim(2).await;
            w.fail("a").await;
            let what = settled(w, "a", state);
            assert_eq!(reopen(w, what).await.tasks, 2);
            w.expect(&format!("running a={state} b=ready c=pending d=running")).await;
            assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 0);
            let again = settled(w, "a", state);
            assert!(matches!(try_reopen(w, again).await, Err(Error::Conflict(_))), "twice in a row");
            w.succeed("d").await;
            w.play(&[], &[]).await;
            w.expect(&format!("success a={state} b=success c=success d=success")).await;
            w.check_now().await;
        }
    }

    async fn what_waits_for_it_counts_anew(w: &mut World) {
        let yaml = "{name: w, tasks: {a: {run: x}, b: {run: x}, all: {needs: [a, b], run: x, trigger_rule: all_done}, \
                    one: {needs: [a, b], run: x, trigger_rule: one_success}, none: {needs: [a, b], run: x, trigger_rule: all_failed}, \
                    after: {needs: none, run: x}}}";
        w.submit(yaml).await;
        w.claim(2).await;
        w.fail("a").await;
        w.expect("running a=failed b=running all=pending one=pending none=pending after=pending").await;
        let what = from(w, "a");
        reopen(w, what).await;
        w.claim(1).await;
        w.fail("a").await;
        let what = settled(w, "a", TaskState::Skipped);
        reopen(w, what).await;
        w.expect("running a=skipped b=running all=pending one=ready none=skipped after=skipped").await;
        w.fail("b").await;
        w.play(&[], &[]).await;
        w.expect("failed a=skipped b=failed all=success one=success none=skipped after=skipped").await;
        w.check_now().await;
    }

    async fn a_paused_run_takes_it_and_a_stopped_one_does_not(w: &mut World) {
        w.submit(SIDE_BY_SIDE).await;
        w.claim(2).await;
        w.fail("a").await;
        w.pause().await;
        let what = from(w, "a");
        reopen(w, what).await;
        w.expect("paused a=held b=pending c=pending d=running").await;
        w.resume().await;
        w.expect("running a=ready b=pending c=pending d=running").await;
        w.claim(1).await;
        w.fail("a").await;
        w.cancel().await;
        let what = from(w, "a");
        assert!(matches!(try_reopen(w, what).await, Err(Error::Conflict(_))));
        assert!(matches!(try_reopen(w, Reopen::Failed).await, Err(Error::Conflict(_))));
        w.end("d", TaskState::Cancelled).await;
        w.check_now().await;
    }

    async fn what_succeeded_or_is_live_or_is_over_is_refused(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, d: {run: x}}, finally: {z: {run: x}}}").await;
        w.claim(2).await;
        w.succeed("a").await;
        for name in ["a", "b", "d"] {
            let what = from(w, name);
            assert!(matches!(try_reopen(w, what).await, Err(Error::Conflict(_))), "{name}");
        }
        w.fail("d").await;
        w.claim(1).await;
        w.succeed("b").await;
        w.claim(1).await;
        w.expect("running a=success b=success d=failed z=running").await;
        let what = from(w, "d");
        let refused = try_reopen(w, what).await.unwrap_err().to_string();
        assert!(refused.contains("finalisers"), "{refused}");
        w.succeed("z").await;
        w.check_now().await;
    }
}
