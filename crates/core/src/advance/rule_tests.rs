//! Every trigger rule over every way in which two dependencies can end, played through a board.

use crate::parse;
use crate::rule::TriggerRule;
use crate::state::TaskState;

use super::tests::play;

/// How a dependency ends, and what that is for others.
const OUTCOMES: [(&str, DependencyEnd); 5] = [
    ("success", DependencyEnd::Success),
    ("failed", DependencyEnd::Failure),
    ("skipped", DependencyEnd::Nothing),
    ("upstream_failed", DependencyEnd::Failure),
    ("continued", DependencyEnd::Success),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum DependencyEnd {
    Success,
    Failure,
    Nothing,
}

/// The rules in their own words, over all dependencies at once.
fn expected(rule: TriggerRule, ends: [DependencyEnd; 2]) -> TaskState {
    let all = |end: DependencyEnd| ends.iter().all(|one| *one == end);
    let any = |end: DependencyEnd| ends.contains(&end);
    let choose = |start: bool, otherwise: TaskState| if start { TaskState::Success } else { otherwise };
    let (failed, skipped) = (TaskState::UpstreamFailed, TaskState::Skipped);
    match rule {
        TriggerRule::AllSuccess => {
            choose(all(DependencyEnd::Success), if any(DependencyEnd::Failure) { failed } else { skipped })
        }
        TriggerRule::NoneFailed => choose(!any(DependencyEnd::Failure), failed),
        TriggerRule::NoneFailedMinOneSuccess => choose(
            !any(DependencyEnd::Failure) && any(DependencyEnd::Success),
            if any(DependencyEnd::Failure) { failed } else { skipped },
        ),
        TriggerRule::OneSuccess => {
            choose(any(DependencyEnd::Success), if any(DependencyEnd::Failure) { failed } else { skipped })
        }
        TriggerRule::AllFailed => choose(all(DependencyEnd::Failure), skipped),
        TriggerRule::OneFailed => choose(any(DependencyEnd::Failure), skipped),
        TriggerRule::AllDone | TriggerRule::Always => TaskState::Success,
    }
}

/// A dependency that ends in a given way, and what it needs itself.
fn dependency(name: &str, outcome: &str) -> String {
    match outcome {
        "skipped" => format!("{name}: {{run: x, if: 'true'}}"),
        "upstream_failed" => format!("before-{name}: {{run: x}}, {name}: {{needs: before-{name}, run: x}}"),
        "continued" => format!("{name}: {{run: x, on_exhausted: continue}}"),
        _ => format!("{name}: {{run: x}}"),
    }
}

#[test]
fn every_rule_meets_every_pair_of_outcomes() {
    for rule in TriggerRule::ALL {
        for (first, first_is) in OUTCOMES {
            for (second, second_is) in OUTCOMES {
                let yaml = format!(
                    "{{name: w, tasks: {{{}, {}, c: {{needs: [a, b], run: x, trigger_rule: {rule}}}}}}}",
                    dependency("a", first),
                    dependency("b", second),
                );
                let workflow = parse(&yaml).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"));
                let (mut failing, mut skipping) = (Vec::new(), Vec::new());
                for (name, before, outcome) in [("a", "before-a", first), ("b", "before-b", second)] {
                    match outcome {
                        "failed" | "continued" => failing.push(name),
                        "upstream_failed" => failing.push(before),
                        "skipped" => skipping.push(name),
                        _ => {}
                    }
                }
                let board = play(&workflow, &failing, &skipping);
                let state = board.state(workflow.task_index("c").unwrap());
                assert_eq!(state, expected(*rule, [first_is, second_is]), "{rule} over {first} and {second}");
            }
        }
    }
}
