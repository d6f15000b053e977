//! Trigger rules through the real exchange: every rule over every pair of outcomes, early settling, propagation.

use mainspring_core::rule::{Counters, TriggerRule, Verdict};
use mainspring_core::state::{TaskState, Upstream};
use mainspring_store::Exchange;

use crate::conformance;
use crate::world::World;

/// How an upstream ends, and the word for a task whose fate is to end so.
const OUTCOMES: [(Upstream, &str); 3] =
    [(Upstream::Succeeded, "ok"), (Upstream::Failed, "bad"), (Upstream::Skipped, "no")];

/// What a task becomes whose upstream ended so, by the pure rule.
fn expected(rule: TriggerRule, outcomes: &[Upstream], waiting: i32) -> &'static str {
    let mut counters = Counters::open(outcomes.len() as i32 + waiting);
    for outcome in outcomes {
        counters.record(*outcome);
    }
    match rule.verdict(counters) {
        Verdict::Wait => "pending",
        Verdict::Start => "ready",
        Verdict::Skip => "skipped",
        Verdict::UpstreamFailed => "upstream_failed",
    }
}

/// Ends the named tasks, each as its name's beginning says.
async fn end_all(w: &mut World, names: &[String]) {
    let mut exchange = w.empty_exchange();
    for name in names {
        let key = w.key(name);
        if name.starts_with("no") {
            let decision = w.decision(w.deciding[&key].token, mainspring_core::plan::Decision::Skip);
            exchange.ended.extend(decision.ended);
        } else {
            let state = if name.starts_with("bad") { TaskState::Failed } else { TaskState::Success };
            exchange.ended.push(w.ended(w.held[&key].token, state));
        }
    }
    let exchange = Exchange { now: w.now, ..exchange };
    assert!(w.exchange(&exchange).await.fenced.is_empty());
}

conformance! {
    async fn every_rule_over_every_outcome_at_once_and_one_by_one(w: &mut World) {
        for rule in TriggerRule::ALL {
            for (first, one) in OUTCOMES {
                for (second, two) in OUTCOMES {
                    for at_once in [true, false] {
                        let names = [format!("{one}1"), format!("{two}2")];
                        let tasks: Vec<String> = names
                            .iter()
                            .map(|name| format!("{name}: {{run: x{}}}", if name.starts_with("no") { ", if: 'true'" } else { "" }))
                            .collect();
                        let yaml = format!(
                            "{{name: w, tasks: {{{}, t: {{needs: [{one}1, {two}2], run: x, trigger_rule: {rule}}}}}}}",
                            tasks.join(", ")
                        );
                        w.submit(&yaml).await;
                        w.claim(10).await;
                        w.take_decisions().await;
                        if at_once {
                            end_all(w, &names).await;
                        } else {
                            end_all(w, &names[..1]).await;
                            let states = w.states().await;
                            let early = expected(*rule, &[first], 1);
                            assert!(states.ends_with(&format!(" t={early}")), "{yaml} after the first: {states}");
                            end_all(w, &names[1..]).await;
                        }
                        let states = w.states().await;
                        let late = expected(*rule, &[first, second], 0);
                        assert!(states.ends_with(&format!(" t={late}")), "{yaml} after both: {states}");
                        w.play(&[], &[]).await;
                    }
                }
            }
        }
    }

    async fn a_settled_rule_does_not_wait_for_the_rest(w: &mut World) {
        let yaml = "{name: w, tasks: {a: {run: x}, b: {run: x},
            one: {needs: [a, b], run: x, trigger_rule: one_success}, none: {needs: [a, b], run: x, trigger_rule: all_failed},
            after: {needs: [none, b], run: x, trigger_rule: none_failed}}}";
        w.submit(yaml).await;
        w.claim(2).await;
        w.succeed("a").await;
        w.expect("running a=success b=running one=ready none=skipped after=pending").await;
        w.claim(1).await;
        w.fail("b").await;
        w.expect("running a=success b=failed one=running none=skipped after=upstream_failed").await;
        w.succeed("one").await;
        w.expect("failed a=success b=failed one=success none=skipped after=upstream_failed").await;
    }

    async fn ends_without_running_propagate_over_many_levels_in_one_unit(w: &mut World) {
        let levels = 40;
        let chain: Vec<String> = (1..levels).map(|at| format!("t{at}: {{needs: t{}, run: x}}", at - 1)).collect();
        w.submit(&format!("{{name: w, tasks: {{t0: {{run: x}}, {}}}}}", chain.join(", "))).await;
        w.claim(1).await;
        let reply = w.fail("t0").await;
        assert_eq!(reply.ended_runs.len(), 1);
        let states = w.states().await;
        assert_eq!(states.matches("upstream_failed").count(), levels - 1);
        let mut numbers: Vec<i64> = w.store.ended_tasks(w.run, &[]).await.unwrap().iter().filter_map(|row| row.seq).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=levels as i64).collect::<Vec<_>>());
    }

    async fn skips_and_failures_mix_on_their_way_down(w: &mut World) {
        let yaml = "{name: w, tasks: {a: {run: x, if: 'true'}, b: {run: x}, c: {needs: a, run: x}, d: {needs: [c, b], run: x},
            e: {needs: [c, d], run: x, trigger_rule: one_failed}, f: {needs: [d, e], run: x, trigger_rule: all_done}}}";
        w.submit(yaml).await;
        w.play(&["b"], &["a"]).await;
        w.expect("failed a=skipped b=failed c=skipped d=upstream_failed e=success f=success").await;
        w.submit(yaml).await;
        w.play(&[], &["a"]).await;
        w.expect("success a=skipped b=success c=skipped d=skipped e=skipped f=success").await;
    }

    async fn a_dependent_reached_twice_in_a_unit_is_counted_twice_and_placed_once(w: &mut World) {
        let yaml = "{name: w, tasks: {a: {run: x}, b: {run: x}, c: {needs: [a, b], run: x}, d: {needs: [a, b, c], run: x}}}";
        w.submit(yaml).await;
        w.claim(2).await;
        let ended = vec![w.ended(w.token("a"), TaskState::Success), w.ended(w.token("b"), TaskState::Success)];
        let exchange = Exchange { ended, want: w.wants(5).await, ..w.empty_exchange() };
        let reply = w.exchange(&exchange).await;
        assert_eq!(reply.claimed.len(), 1);
        w.expect("running a=success b=success c=running d=pending").await;
        w.play(&[], &[]).await;
        w.expect("success a=success b=success c=success d=success").await;
    }
}
