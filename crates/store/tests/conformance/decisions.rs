//! Conditions: rows that wait for an expression, who decides them, and what becomes of them.

use mainspring_core::plan::Decision;
use mainspring_core::state::TaskState;
use mainspring_core::work::Failure;
use mainspring_store::Exchange;

use crate::conformance;
use crate::world::World;

const ONE: &str = "{name: w, tasks: {a: {run: x, if: 'true'}, b: {needs: a, run: x}}}";

conformance! {
    async fn a_decision_to_start_makes_it_ready(w: &mut World) {
        w.submit(&ONE.replace("if: 'true'", "if: 'true', retry: {}")).await;
        w.expect("running a=deciding b=pending").await;
        assert!(w.claim(5).await.is_empty(), "an undecided task is not claimed");
        assert_eq!(w.take_decisions().await, ["a"]);
        assert!(w.take_decisions().await.is_empty(), "one decider at a time");
        w.decide("a", Decision::Start).await;
        w.expect("running a=ready b=pending").await;
        assert_eq!(w.claim(1).await, ["a"]);
        assert_eq!(w.token("a").attempt, 1);
        w.retry("a").await;
        w.pass(crate::world::SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        w.expect("running a=ready b=pending").await;
    }

    async fn a_decision_to_start_may_go_straight_to_a_slot(w: &mut World) {
        w.submit(ONE).await;
        w.take_decisions().await;
        let token = w.deciding[&w.key("a")].token;
        let exchange = Exchange { want: w.wants(1).await, ..w.decision(token, Decision::Start) };
        let reply = w.exchange(&exchange).await;
        assert_eq!(reply.claimed.len(), 1);
        assert_eq!(reply.claimed[0].token.attempt, 1);
        w.expect("running a=running b=pending").await;
    }

    async fn a_decision_to_skip_propagates(w: &mut World) {
        w.submit(ONE).await;
        w.take_decisions().await;
        let reply = w.decide("a", Decision::Skip).await;
        assert_eq!(reply.ended_runs.len(), 1);
        w.expect("success a=skipped b=skipped").await;
        let ends = w.store.ends_without_attempt(&[w.run]).await.unwrap();
        let mut ends: Vec<_> = ends.into_iter().map(|(_, index, state)| (index, state)).collect();
        ends.sort_by_key(|end| end.0);
        assert_eq!(ends, [(0, TaskState::Skipped), (1, TaskState::Skipped)]);
    }

    async fn an_expression_that_fails_fails_the_task(w: &mut World) {
        w.submit(ONE).await;
        w.take_decisions().await;
        let failure = Failure { kind: "expression".into(), message: "no such thing".into(), ..Failure::default() };
        w.decide("a", Decision::Fail(failure)).await;
        w.expect("failed a=failed b=upstream_failed").await;
        let row = &w.store.ended_tasks(w.run, &[0]).await.unwrap()[0];
        assert_eq!((row.attempt, row.error_kind.as_deref()), (0, Some("expression")));
    }

    async fn who_unblocks_it_decides_it(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x, if: 'true'}, c: {needs: a, run: x, if: 'true'}}}").await;
        w.claim(1).await;
        let ended = vec![w.ended(w.token("a"), TaskState::Success)];
        let exchange = Exchange { ended, decide_session: w.session, decide: 1, ..w.empty_exchange() };
        let reply = w.exchange(&exchange).await;
        assert_eq!(reply.to_decide.len(), 1);
        w.expect("running a=success b=deciding c=deciding").await;
        assert_eq!(w.take_decisions().await.len(), 1, "the other is found by looking");
        w.play(&[], &["c"]).await;
        w.expect("success a=success b=success c=skipped").await;
    }

    async fn a_dead_deciders_row_is_decided_by_another(w: &mut World) {
        w.submit(ONE).await;
        w.take_decisions().await;
        let old = w.deciding[&w.key("a")].token;
        assert_eq!(w.lose_session().await, 1);
        w.expect("running a=deciding b=pending").await;
        assert_eq!(w.take_decisions().await, ["a"]);
        // The old one's word comes too late.
        let stale = w.decision(old, Decision::Skip);
        let reply = w.lane.exchange(&Exchange { sessions: vec![w.session], ..stale }).await.unwrap();
        assert_eq!(reply.fenced, [old]);
        w.decide("a", Decision::Start).await;
        w.play(&[], &[]).await;
        w.expect("success a=success b=success").await;
    }

    async fn a_decision_on_a_paused_run_is_kept(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, if: 'true'}, b: {run: x, if: 'true'}}}").await;
        w.take_decisions().await;
        w.pause().await;
        w.decide("a", Decision::Start).await;
        w.decide("b", Decision::Skip).await;
        w.expect("paused a=held b=skipped").await;
        w.resume().await;
        w.expect("running a=ready b=skipped").await;
    }

    async fn an_undecided_row_of_a_paused_run_waits(w: &mut World) {
        w.submit(ONE).await;
        w.pause().await;
        assert!(w.take_decisions().await.is_empty());
        w.resume().await;
        assert_eq!(w.take_decisions().await, ["a"]);
    }

    async fn a_lost_decision_of_a_paused_run_waits(w: &mut World) {
        w.submit(ONE).await;
        w.take_decisions().await;
        w.pause().await;
        w.lose_session().await;
        w.expect("paused a=held b=pending").await;
        assert!(w.take_decisions().await.is_empty());
        w.resume().await;
        assert_eq!(w.take_decisions().await, ["a"]);
    }

    async fn a_decision_comes_too_late_for_a_cancelled_run(w: &mut World) {
        for decision in [Decision::Start, Decision::Skip] {
            w.submit(ONE).await;
            w.take_decisions().await;
            w.cancel().await;
            w.expect("running a=deciding b=cancelled").await;
            w.decide("a", decision.clone()).await;
            let a = if decision == Decision::Start { "cancelled" } else { "skipped" };
            w.expect(&format!("cancelled a={a} b=cancelled")).await;
        }
        w.submit(ONE).await;
        w.cancel().await;
        w.expect("cancelled a=cancelled b=cancelled").await;
    }

    async fn a_condition_on_a_pooled_task_takes_no_slot_before_it_is_decided(w: &mut World) {
        w.store.set_pool(w.now, "default", "p", Some(1)).await.unwrap();
        w.submit("{name: w, tasks: {a: {run: x, if: 'true', pool: p}, b: {run: x, pool: p}}}").await;
        w.expect("running a=deciding b=ready").await;
        w.take_decisions().await;
        w.decide("a", Decision::Start).await;
        w.expect("running a=gated b=ready").await;
        w.play(&[], &[]).await;
    }
}
