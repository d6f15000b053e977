//! Reopening: ended work lives again under a new generation, attempts go on rising, finalisers run again.

use mainspring_core::plan::Decision;
use mainspring_store::{Error, Reopen, Reopened};

use crate::conformance;
use crate::world::{SECOND, World, operator};

async fn try_reopen(w: &mut World, what: Reopen) -> Result<Reopened, Error> {
    let (id, workflow) = (w.id(), w.workflow(w.run).clone());
    let reopened = w.store.reopen_run(w.now, id, w.run, &workflow, &what, &operator()).await;
    w.pass(crate::world::MILLI);
    reopened
}

async fn reopen(w: &mut World, what: Reopen) -> Reopened {
    try_reopen(w, what).await.unwrap()
}

fn from(w: &World, name: &str) -> Reopen {
    Reopen::From(vec![w.key(name).index as usize])
}

conformance! {
    async fn a_retry_does_again_what_failed_and_what_followed(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, run: x}, d: {run: x}}}").await;
        w.play(&["a"], &[]).await;
        w.expect("failed a=failed b=upstream_failed c=upstream_failed d=success").await;
        assert_eq!(reopen(w, Reopen::Failed).await, Reopened { tasks: 3, generation: 1 });
        w.expect("running a=ready b=pending c=pending d=success").await;
        w.check_now().await;
        w.claim(1).await;
        let claim = w.held[&w.key("a")];
        assert_eq!((claim.token.attempt, claim.generation, claim.failures), (2, 1, 0));
        w.play(&[], &[]).await;
        w.expect("success a=success b=success c=success d=success").await;
        let row = &w.store.ended_tasks(w.run, &[0]).await.unwrap()[0];
        assert_eq!((row.attempt, row.generation), (2, 1));
    }

    async fn the_budget_starts_afresh_and_attempts_go_on_rising(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, retry: {attempts: 2}}}}").await;
        for generation in 0..3 {
            for attempt in 1..=2 {
                w.claim(1).await;
                assert_eq!(w.token("a").attempt, generation * 2 + attempt);
                w.retry("a").await;
                w.pass(SECOND);
                w.store.promote_due(w.now, 10).await.unwrap();
            }
            w.expect("failed a=failed").await;
            assert_eq!(reopen(w, Reopen::Failed).await.generation, generation as i16 + 1);
            w.check_now().await;
        }
    }

    async fn a_rerun_closes_the_dead_letters_of_what_it_does_again_alone(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, on_exhausted: dead_letter}, b: {run: x, on_exhausted: dead_letter}, c: {run: x, on_exhausted: dead_letter}}}").await;
        w.play(&["a", "b", "c"], &[]).await;
        assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 3);
        let what = from(w, "a");
        reopen(w, what).await;
        assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 2, "b and c stay failed");
        w.play(&["a"], &[]).await;
        assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 3);
        reopen(w, Reopen::Failed).await;
        assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 0);
        w.play(&[], &[]).await;
    }

    async fn a_cancelled_run_can_be_reopened(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, run: x}}}").await;
        w.claim(1).await;
        w.succeed("a").await;
        w.cancel().await;
        w.expect("cancelled a=success b=cancelled c=cancelled").await;
        assert_eq!(reopen(w, Reopen::Failed).await.tasks, 2);
        w.expect("running a=success b=ready c=pending").await;
        assert!(!w.store.run_summary(w.run).await.unwrap().cancelling);
        w.play(&[], &[]).await;
        w.expect("success a=success b=success c=success").await;
    }

    async fn a_rerun_takes_everything_below_along(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, run: x}, d: {needs: a, run: x}}}").await;
        w.play(&["c"], &[]).await;
        w.expect("failed a=success b=success c=failed d=success").await;
        let what = from(w, "b");
        assert_eq!(reopen(w, what).await.tasks, 2);
        w.expect("running a=success b=ready c=pending d=success").await;
        w.play(&["c"], &[]).await;
        let what = from(w, "a");
        assert_eq!(reopen(w, what).await.tasks, 4);
        w.expect("running a=ready b=pending c=pending d=pending").await;
        w.play(&[], &[]).await;
        let rows = w.store.task_runs(w.run).await.unwrap();
        assert_eq!(rows.iter().map(|row| (row.attempt, row.generation)).collect::<Vec<_>>(), [(2, 2), (3, 2), (3, 2), (2, 2)]);
    }

    async fn finalisers_run_again_and_their_attempts_go_on_rising(w: &mut World) {
        let yaml = "{name: w, tasks: {a: {run: x}}, on_failure: {page: {run: x}}, finally: {clean: {run: x}}}";
        w.submit(yaml).await;
        w.play(&["a"], &[]).await;
        w.expect("failed a=failed page=success clean=success").await;
        reopen(w, Reopen::Failed).await;
        w.expect("running a=ready").await;
        w.check_now().await;
        w.play(&["a"], &[]).await;
        w.expect("failed a=failed page=success clean=success").await;
        let rows = w.store.task_runs(w.run).await.unwrap();
        assert_eq!(rows.iter().map(|row| (row.attempt, row.generation)).collect::<Vec<_>>(), [(2, 1), (2, 1), (2, 1)]);
        reopen(w, Reopen::Failed).await;
        w.play(&[], &[]).await;
        w.expect("success a=success page=skipped clean=success").await;
        w.check_now().await;
    }

    async fn what_the_rest_settles_against_stays_as_it_is(w: &mut World) {
        let yaml = "{name: w, tasks: {a: {run: x}, b: {run: x}, c: {needs: [a, b], run: x, trigger_rule: all_failed}, d: {needs: c, run: x}}}";
        w.submit(yaml).await;
        w.play(&["a"], &[]).await;
        w.expect("failed a=failed b=success c=skipped d=skipped").await;
        assert_eq!(reopen(w, Reopen::Failed).await.tasks, 1);
        w.expect("running a=ready b=success c=skipped d=skipped").await;
        w.play(&["a"], &[]).await;
        w.expect("failed a=failed b=success c=skipped d=skipped").await;
    }

    async fn conditions_are_decided_again(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x, if: 'true'}}}").await;
        w.play(&["b"], &[]).await;
        reopen(w, Reopen::Failed).await;
        w.expect("running a=success b=deciding").await;
        w.pause().await;
        w.expect("paused a=success b=held").await;
        w.resume().await;
        w.expect("running a=success b=deciding").await;
        w.take_decisions().await;
        w.decide("b", Decision::Start).await;
        w.play(&[], &[]).await;
    }

    async fn pools_and_limits_hold_for_reopened_runs(w: &mut World) {
        w.store.set_pool(w.now, "default", "p", Some(1)).await.unwrap();
        let yaml = "{name: w, concurrency: {limit: 1}, tasks: {a: {run: x, pool: p}, b: {run: x, pool: p}}}";
        let first = w.submit(yaml).await;
        w.play(&["a", "b"], &[]).await;
        let second = w.submit(yaml).await;
        w.run = first;
        reopen(w, Reopen::Failed).await;
        w.expect("pending a=held b=held").await;
        w.check_now().await;
        w.run = second;
        w.play(&["a"], &[]).await;
        w.proceed().await;
        w.run = first;
        w.expect("running a=ready b=gated").await;
        w.check_now().await;
        w.play(&[], &[]).await;
        w.run = second;
        reopen(w, Reopen::Failed).await;
        w.expect("running a=ready b=success").await;
        w.play(&[], &[]).await;
    }

    async fn a_new_generation_has_its_own_dead_letter(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.play(&["a"], &[]).await;
        reopen(w, Reopen::Failed).await;
        w.check_now().await;
        w.play(&["a"], &[]).await;
        w.check_now().await;
    }

    async fn a_reopened_run_has_a_new_deadline(w: &mut World) {
        w.submit("{name: w, timeout: 10s, tasks: {a: {run: x}}}").await;
        w.pass(11 * SECOND);
        let term = w.lead().await;
        w.store.expire_runs(w.now, &term).await.unwrap();
        w.expect("failed a=cancelled").await;
        let reopened_at = w.now;
        reopen(w, Reopen::Failed).await;
        w.expect("running a=ready").await;
        assert_eq!(w.store.next_deadline().await.unwrap(), Some(reopened_at + 10 * SECOND));
        w.play(&[], &[]).await;
        w.expect("success a=success").await;
    }

    async fn only_what_failed_or_was_cancelled_can_be_reopened(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        assert!(matches!(try_reopen(w, Reopen::Failed).await, Err(Error::Conflict(_))));
        w.play(&[], &[]).await;
        assert!(matches!(try_reopen(w, Reopen::Failed).await, Err(Error::Conflict(_))), "success is final");
    }

    async fn a_late_result_of_the_old_generation_is_refused(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}}}").await;
        w.claim(2).await;
        let old = w.token("a");
        w.fail("a").await;
        w.fail("b").await;
        reopen(w, Reopen::Failed).await;
        let late = w.ended(old, mainspring_core::state::TaskState::Success);
        let reply = w.exchange(&mainspring_store::Exchange { ended: vec![late], ..w.empty_exchange() }).await;
        assert_eq!(reply.fenced, [old]);
        w.expect("running a=ready b=ready").await;
    }

    async fn what_failed_only_in_a_finaliser_is_done_again_there(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}, on_failure: {e: {run: x}}, finally: {f: {run: x}, g: {needs: f, run: x}, h: {run: x}}}").await;
        w.play(&["f"], &[]).await;
        w.expect("failed a=success e=skipped f=failed g=upstream_failed h=success").await;
        assert_eq!(reopen(w, Reopen::Failed).await, Reopened { tasks: 2, generation: 1 });
        w.expect("running a=success e=skipped f=ready g=pending h=success").await;
        w.check_now().await;
        w.claim(1).await;
        assert_eq!((w.token("f").attempt, w.held[&w.key("f")].generation), (2, 1));
        w.fail("f").await;
        w.expect("failed a=success e=skipped f=failed g=upstream_failed h=success").await;
        assert_eq!(reopen(w, Reopen::Failed).await, Reopened { tasks: 2, generation: 2 });
        w.play(&[], &[]).await;
        w.expect("success a=success e=skipped f=success g=success h=success").await;
        let ended = w.store.ended_tasks(w.run, &[]).await.unwrap();
        let attempts: Vec<i32> = ended.iter().map(|row| row.attempt).collect();
        assert_eq!(attempts, [1, 0, 3, 1, 1]);
    }

    async fn recovery_that_failed_is_not_done_again_without_what_it_was_for(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}, on_failure: {e: {run: x}}, finally: {f: {run: x}}}").await;
        w.play(&["a", "e", "f"], &[]).await;
        w.expect("failed a=failed e=failed f=failed").await;
        assert_eq!(reopen(w, Reopen::Failed).await.tasks, 1);
        w.expect("running a=ready").await;
        w.play(&["f"], &[]).await;
        w.expect("failed a=success e=skipped f=failed").await;
        assert_eq!(reopen(w, Reopen::Failed).await.tasks, 1);
        w.play(&[], &[]).await;
        w.expect("success a=success e=skipped f=success").await;
    }

    async fn finalisers_that_were_called_off_can_be_done_again(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}, finally: {f: {run: x}, g: {needs: f, run: x}}}").await;
        w.claim(1).await;
        w.succeed("a").await;
        w.cancel().await;
        w.cancel().await;
        w.expect("cancelled a=success f=cancelled g=cancelled").await;
        assert_eq!(reopen(w, Reopen::Failed).await.tasks, 2);
        w.expect("running a=success f=ready g=pending").await;
        w.play(&[], &[]).await;
        w.expect("success a=success f=success g=success").await;
    }

    async fn a_finaliser_can_be_done_again_by_name(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}, finally: {f: {run: x}, g: {needs: f, run: x}, h: {run: x}}}").await;
        w.play(&["h"], &[]).await;
        let what = from(w, "f");
        assert_eq!(reopen(w, what).await.tasks, 2);
        w.expect("running a=success f=ready g=pending h=failed").await;
        w.play(&[], &[]).await;
        w.expect("failed a=success f=success g=success h=failed").await;
    }

    async fn a_reopened_finaliser_waits_for_its_turn(w: &mut World) {
        let yaml = "{name: w, concurrency: {limit: 1}, tasks: {a: {run: x}}, finally: {f: {run: x}}}";
        let first = w.submit(yaml).await;
        w.play(&["f"], &[]).await;
        let second = w.submit(yaml).await;
        w.run = first;
        reopen(w, Reopen::Failed).await;
        w.expect("pending a=success f=held").await;
        w.run = second;
        w.play(&[], &[]).await;
        w.run = first;
        w.expect("running a=success f=ready").await;
        w.play(&[], &[]).await;
        w.expect("success a=success f=success").await;
    }
}
