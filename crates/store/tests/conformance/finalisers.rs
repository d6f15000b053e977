//! `on_failure` and `finally`: when they run, when they do not, and how they count.

use mainspring_core::plan::Decision;
use mainspring_core::state::TaskState;

use crate::conformance;
use crate::world::{SECOND, World};

const BOTH: &str = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}, on_failure: {page: {run: x, retry: {}}},
    finally: {clean: {run: x, retry: {}}, more: {needs: clean, run: x}}}";

/// A run of `BOTH` whose first task runs.
async fn started(w: &mut World) {
    w.submit(BOTH).await;
    w.claim(1).await;
}

conformance! {
    async fn after_success_only_finally_runs(w: &mut World) {
        started(w).await;
        w.succeed("a").await;
        w.claim(1).await;
        w.succeed("b").await;
        w.expect("running a=success b=success page=skipped clean=ready more=pending").await;
        w.play(&[], &[]).await;
        w.expect("success a=success b=success page=skipped clean=success more=success").await;
    }

    async fn after_a_failure_both_run_in_turn(w: &mut World) {
        started(w).await;
        w.fail("a").await;
        w.expect("running a=failed b=upstream_failed page=ready").await;
        w.claim(1).await;
        w.succeed("page").await;
        w.expect("running a=failed b=upstream_failed page=success clean=ready more=pending").await;
        w.play(&[], &[]).await;
        w.expect("failed a=failed b=upstream_failed page=success clean=success more=success").await;
    }

    async fn a_failed_finaliser_fails_the_run(w: &mut World) {
        started(w).await;
        w.play(&["clean"], &[]).await;
        w.expect("failed a=success b=success page=skipped clean=failed more=upstream_failed").await;
        started(w).await;
        w.play(&["b", "page"], &[]).await;
        w.expect("failed a=success b=failed page=failed clean=success more=success").await;
    }

    async fn a_cancelled_run_cleans_up(w: &mut World) {
        started(w).await;
        w.cancel().await;
        w.expect("running a=running b=cancelled").await;
        w.end("a", TaskState::Cancelled).await;
        w.expect("running a=cancelled b=cancelled page=skipped clean=ready more=pending").await;
        w.play(&[], &[]).await;
        w.expect("cancelled a=cancelled b=cancelled page=skipped clean=success more=success").await;
    }

    async fn a_run_cancelled_before_it_began_cleans_up(w: &mut World) {
        w.submit(BOTH).await;
        w.cancel().await;
        w.expect("running a=cancelled b=cancelled page=skipped clean=ready more=pending").await;
        w.play(&[], &[]).await;
    }

    async fn a_second_cancel_calls_finalisers_off(w: &mut World) {
        started(w).await;
        w.cancel().await;
        w.cancel().await;
        w.succeed("a").await;
        w.expect("cancelled a=success b=cancelled page=skipped clean=cancelled more=cancelled").await;

        started(w).await;
        w.cancel().await;
        w.end("a", TaskState::Cancelled).await;
        w.claim(1).await;
        w.cancel().await;
        w.expect("running a=cancelled b=cancelled page=skipped clean=running more=cancelled").await;
        assert_eq!(w.claim(5).await, [""; 0]);
        w.retry("clean").await;
        w.expect("cancelled a=cancelled b=cancelled page=skipped clean=cancelled more=cancelled").await;
    }

    async fn a_first_cancel_during_finally_lets_it_go_on(w: &mut World) {
        started(w).await;
        w.fail("a").await;
        w.claim(1).await;
        w.succeed("page").await;
        w.cancel().await;
        w.expect("running a=failed b=upstream_failed page=success clean=ready more=pending").await;
        w.play(&[], &[]).await;
        w.expect("cancelled a=failed b=upstream_failed page=success clean=success more=success").await;
    }

    async fn a_cancel_during_on_failure_stops_it(w: &mut World) {
        started(w).await;
        w.fail("a").await;
        w.cancel().await;
        w.expect("running a=failed b=upstream_failed page=cancelled clean=ready more=pending").await;
        w.play(&[], &[]).await;
        w.expect("cancelled a=failed b=upstream_failed page=cancelled clean=success more=success").await;
    }

    async fn finalisers_of_a_cancelled_run_are_retried_released_and_lost_like_others(w: &mut World) {
        started(w).await;
        w.cancel().await;
        w.end("a", TaskState::Cancelled).await;
        w.claim(1).await;
        w.retry("clean").await;
        w.expect("running a=cancelled b=cancelled page=skipped clean=retrying more=pending").await;
        w.pass(SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        w.claim(1).await;
        w.release("clean").await;
        w.claim(1).await;
        w.lose_session().await;
        w.expect("running a=cancelled b=cancelled page=skipped clean=ready more=pending").await;
        w.claim(1).await;
        assert_eq!(w.token("clean").attempt, 4);
        w.play(&[], &[]).await;
        w.expect("cancelled a=cancelled b=cancelled page=skipped clean=success more=success").await;
    }

    async fn a_finaliser_with_a_condition_is_decided_after_a_cancel(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}, finally: {clean: {run: x, if: 'true'}}}").await;
        w.cancel().await;
        w.expect("running a=cancelled clean=deciding").await;
        w.take_decisions().await;
        w.decide("clean", Decision::Start).await;
        w.expect("running a=cancelled clean=ready").await;
        w.play(&[], &[]).await;
    }

    async fn a_paused_run_that_is_cancelled_in_finally_goes_on(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}, finally: {clean: {run: x}}}").await;
        w.claim(1).await;
        w.pause().await;
        w.succeed("a").await;
        w.expect("paused a=success clean=held").await;
        w.cancel().await;
        w.expect("running a=success clean=ready").await;
        w.play(&[], &[]).await;
        w.expect("cancelled a=success clean=success").await;
    }

    async fn after_a_timeout_both_run(w: &mut World) {
        w.submit(&BOTH.replace("{name: w,", "{name: w, timeout: 10s,")).await;
        w.claim(1).await;
        w.pass(11 * SECOND);
        let term = w.lead().await;
        assert_eq!(w.store.expire_runs(w.now, &term).await.unwrap(), 1);
        w.expect("running a=running b=cancelled").await;
        w.end("a", TaskState::Cancelled).await;
        w.expect("running a=cancelled b=cancelled page=ready").await;
        w.claim(1).await;
        w.retry("page").await;
        w.pass(SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        w.play(&[], &[]).await;
        w.expect("failed a=cancelled b=cancelled page=success clean=success more=success").await;
    }

    async fn finalisers_may_wait_for_a_pool(w: &mut World) {
        w.store.set_pool(w.now, "default", "p", Some(1)).await.unwrap();
        w.submit("{name: w, tasks: {a: {run: x}}, finally: {c: {run: x, pool: p}, d: {run: x, pool: p}}}").await;
        w.claim(1).await;
        w.succeed("a").await;
        w.expect("running a=success c=ready d=gated").await;
        w.play(&[], &[]).await;
        w.expect("success a=success c=success d=success").await;
    }

    async fn finalisers_are_handed_over_at_the_latest_by_the_next_exchange(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}, finally: {c: {run: x}}}").await;
        w.claim(1).await;
        let ended = vec![w.ended(w.token("a"), TaskState::Success)];
        let exchange = mainspring_store::Exchange { ended, want: w.wants(1).await, ..w.empty_exchange() };
        let reply = w.exchange(&exchange).await;
        assert_eq!(reply.claimed.len(), 1, "the same unit claims what its end of a stage made ready");
        w.play(&[], &[]).await;
    }
}
