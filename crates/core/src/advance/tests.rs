//! Runs played through by hand and at random.

use std::collections::HashMap;

use proptest::prelude::*;

use crate::parse;
use crate::plan::Decision;
use crate::retry::{OnExhausted, Retry};
use crate::rule::TriggerRule;
use crate::state::{RunState, TaskState};
use crate::work::Failure;
use crate::workflow::{Stage, Workflow};

use super::{Board, Change, Ending, Reopening};

fn failure() -> Ending {
    Ending::Failed(Failure { kind: "exit".into(), exit_code: Some(1), ..Failure::default() })
}

/// Plays a run: tasks fail for good, or their condition is false, as the lists say; all others succeed.
pub(super) fn play<'w>(workflow: &'w Workflow, failing: &[&str], false_conditions: &[&str]) -> Board<'w> {
    let mut board = Board::new(workflow);
    drive(&mut board, workflow, failing, false_conditions);
    board
}

fn drive(board: &mut Board<'_>, workflow: &Workflow, failing: &[&str], false_conditions: &[&str]) {
    let listed = |list: &[&str], index: usize| list.contains(&workflow.tasks[index].name.as_str());
    while !board.run_state().is_terminal() {
        board.check().unwrap();
        let first = |state| board.in_state(state).next();
        let (deciding, ready, retrying) =
            (first(TaskState::Deciding), first(TaskState::Ready), first(TaskState::Retrying));
        if let Some(index) = deciding {
            let decision = if listed(false_conditions, index) { Decision::Skip } else { Decision::Start };
            board.decide(index, &decision).unwrap();
        } else if let Some(index) = ready {
            board.start(index).unwrap();
            board.finish(index, if listed(failing, index) { failure() } else { Ending::Success }).unwrap();
        } else if let Some(index) = retrying {
            board.due(index).unwrap();
        } else {
            panic!("stuck: {board:?}");
        }
    }
    board.check().unwrap();
}

fn states(board: &Board<'_>) -> String {
    let mut shown = board.run_state().to_string();
    for (slot, task) in board.slots().iter().zip(&board.workflow.tasks) {
        shown.push_str(&format!(" {}={}", task.name, slot.state));
    }
    shown
}

fn check(yaml: &str, failing: &[&str], false_conditions: &[&str], expected: &str) {
    let workflow = parse(yaml).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"));
    assert_eq!(states(&play(&workflow, failing, false_conditions)), expected, "{yaml}");
}

#[test]
fn outcomes_flow_down() {
    let chain = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, run: x}}}";
    check("{name: w}", &[], &[], "success");
    check(chain, &[], &[], "success a=success b=success c=success");
    check(chain, &["a"], &[], "failed a=failed b=upstream_failed c=upstream_failed");
    check(chain, &["c"], &[], "failed a=success b=success c=failed");
    let conditional = "{name: w, tasks: {a: {run: x, if: 'true'}, b: {needs: a, run: x},
        c: {needs: [a, b], run: x, trigger_rule: none_failed}}}";
    check(conditional, &[], &["a"], "success a=skipped b=skipped c=success");
    check(conditional, &["a"], &[], "failed a=failed b=upstream_failed c=upstream_failed");
}

#[test]
fn rules_choose() {
    let rule = |rule: &str| {
        format!(
            "{{name: w, tasks: {{a: {{run: x}}, b: {{run: x, if: 'true'}}, c: {{needs: [a, b], run: x, trigger_rule: {rule}}}}}}}"
        )
    };
    for (word, none, a_fails, b_skipped, both) in [
        ("all_success", "success", "upstream_failed", "skipped", "upstream_failed"),
        ("all_done", "success", "success", "success", "success"),
        ("always", "success", "success", "success", "success"),
        ("one_success", "success", "success", "success", "upstream_failed"),
        ("one_failed", "skipped", "success", "skipped", "success"),
        ("all_failed", "skipped", "skipped", "skipped", "skipped"),
        ("none_failed", "success", "upstream_failed", "success", "upstream_failed"),
    ] {
        let yaml = rule(word);
        check(&yaml, &[], &[], &format!("success a=success b=success c={none}"));
        check(&yaml, &["a"], &[], &format!("failed a=failed b=success c={a_fails}"));
        check(&yaml, &[], &["b"], &format!("success a=success b=skipped c={b_skipped}"));
        check(&yaml, &["a"], &["b"], &format!("failed a=failed b=skipped c={both}"));
    }
    check(&rule("all_failed"), &["a", "b"], &[], "failed a=failed b=failed c=success");
}

#[test]
fn a_failure_that_continues_is_none() {
    let yaml = "{name: w, tasks: {a: {run: x, on_exhausted: continue}, b: {needs: a, run: x}},
        on_failure: {page: {run: x}}, finally: {clean: {run: x}}}";
    check(yaml, &["a"], &[], "success a=failed b=success page=skipped clean=success");
    check(yaml, &["a", "clean"], &[], "failed a=failed b=success page=skipped clean=failed");
    check(yaml, &["b"], &[], "failed a=success b=failed page=success clean=success");
    check(yaml, &["b", "page"], &[], "failed a=success b=failed page=failed clean=success");
}

#[test]
fn finalisers_have_a_graph_of_their_own() {
    let yaml =
        "{name: w, finally: {a: {run: x}, b: {needs: a, run: x}}, on_failure: {c: {run: x}, d: {needs: c, run: x}}}";
    check(yaml, &[], &[], "success c=skipped d=skipped a=success b=success");
    check(yaml, &["a"], &[], "failed c=skipped d=skipped a=failed b=upstream_failed");
}

#[test]
fn a_cancelled_run_still_cleans_up_and_a_second_cancel_stops_that() {
    let yaml = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}, on_failure: {page: {run: x}},
        finally: {clean: {run: x, retry: {}}, more: {needs: clean, run: x}}}";
    let workflow = parse(yaml).unwrap();
    let mut board = Board::new(&workflow);
    board.start(0).unwrap();
    board.cancel().unwrap();
    assert_eq!(states(&board), "running a=running b=cancelled page=skipped clean=pending more=pending");
    let mut twice = board.clone();
    board.finish(0, Ending::Cancelled).unwrap();
    drive(&mut board, &workflow, &[], &[]);
    assert_eq!(states(&board), "cancelled a=cancelled b=cancelled page=skipped clean=success more=success");
    assert!(board.cancel().is_err());

    twice.finish(0, Ending::Success).unwrap();
    twice.start(3).unwrap();
    twice.cancel().unwrap();
    assert_eq!(states(&twice), "running a=success b=cancelled page=skipped clean=running more=cancelled");
    twice.finish(3, failure()).unwrap();
    assert_eq!(states(&twice), "cancelled a=success b=cancelled page=skipped clean=cancelled more=cancelled");
}

#[test]
fn attempts_are_bounded_within_a_generation() {
    let workflow = parse("{name: w, tasks: {a: {run: x, retry: {attempts: 2}}, b: {needs: a, run: x}}}").unwrap();
    let mut board = play(&workflow, &["a"], &[]);
    assert_eq!(states(&board), "failed a=failed b=upstream_failed");
    assert_eq!((board.slots()[0].attempts, board.slots()[0].failures), (2, 2));

    board.reopen(0, Reopening::Retry).unwrap();
    assert_eq!(states(&board), "running a=ready b=pending");
    drive(&mut board, &workflow, &["a"], &[]);
    assert_eq!((board.slots()[0].attempts, board.slots()[0].failures, board.slots()[0].generation), (4, 2, 1));

    let mut skipped = board.clone();
    skipped.reopen(0, Reopening::Skip).unwrap();
    drive(&mut skipped, &workflow, &[], &[]);
    assert_eq!(states(&skipped), "success a=skipped b=success");
    board.reopen(0, Reopening::Resolve).unwrap();
    drive(&mut board, &workflow, &[], &[]);
    assert_eq!(states(&board), "success a=resolved_manually b=success");
    assert!(board.reopen(1, Reopening::Retry).is_err(), "success is final");
}

#[test]
fn tasks_reopened_together_let_nobody_go_by_each_others_old_outcome() {
    let text = "{name: w, tasks: {a: {run: x, retry: {attempts: 1}}, b: {run: x, retry: {attempts: 1}}, c: {needs: [a, b], trigger_rule: one_failed, run: x}}}";
    let workflow = parse(text).unwrap();
    let mut board = Board::new(&workflow);
    for index in [0, 1] {
        board.start(index).unwrap();
        board.finish(index, failure()).unwrap();
    }
    board.cancel().unwrap();
    assert_eq!(states(&board), "cancelled a=failed b=failed c=cancelled");
    let mut one_of_them = board.clone();
    one_of_them.reopen(0, Reopening::Retry).unwrap();
    assert_eq!(states(&one_of_them), "running a=ready b=failed c=ready");
    board.reopen_all(&[0, 1], Reopening::Retry).unwrap();
    assert_eq!(states(&board), "running a=ready b=ready c=pending");
    assert!(board.slots().iter().all(|slot| slot.generation == 1));
    drive(&mut board, &workflow, &[], &[]);
    assert_eq!(states(&board), "success a=success b=success c=skipped");
    assert!(board.reopen_all(&[0, 1], Reopening::Retry).is_err(), "success is final");
}

#[test]
fn lost_and_released_attempts_cost_no_failure() {
    let workflow = parse("{name: w, tasks: {a: {run: x, max_lost: 1, retry: {attempts: 1}}}}").unwrap();
    let mut board = Board::new(&workflow);
    for ending in [Ending::Released, Ending::Lost, Ending::Released] {
        board.start(0).unwrap();
        board.finish(0, ending).unwrap();
        assert_eq!(board.state(0), TaskState::Ready);
    }
    board.start(0).unwrap();
    board.finish(0, Ending::Lost).unwrap();
    assert_eq!(states(&board), "failed a=failed");
}

#[test]
fn a_paused_run_starts_nothing() {
    let workflow = parse("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x, if: 'true'}}}").unwrap();
    let mut board = Board::new(&workflow);
    board.start(0).unwrap();
    board.pause().unwrap();
    board.finish(0, Ending::Success).unwrap();
    assert_eq!(states(&board), "paused a=success b=held");
    board.resume().unwrap();
    assert_eq!(states(&board), "running a=success b=deciding");
    board.check().unwrap();
}

#[test]
fn depth_and_breadth_are_no_problem() {
    let mut workflow = parse("{name: w, tasks: {a: {run: x}}}").unwrap();
    let first = workflow.tasks[0].clone();
    workflow.tasks = (0..100_000)
        .map(|index| {
            let mut task = first.clone();
            task.needs = if index > 0 { vec![index - 1] } else { vec![] };
            task.dependents = if index < 99_999 { vec![index + 1] } else { vec![] };
            task
        })
        .collect();
    let mut board = Board::new(&workflow);
    board.start(0).unwrap();
    board.finish(0, Ending::Failed(Failure { permanent: true, ..Failure::default() })).unwrap();
    assert_eq!(board.run_state(), RunState::Failed);
}

/// A random workflow; how each task ends is part of it.
#[derive(Debug, Clone)]
struct Plan {
    workflow: Workflow,
    fates: Vec<Fate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Success,
    /// Fails this often, then succeeds.
    Fails(u32),
    Skip,
    Wrong,
}

fn plans() -> impl Strategy<Value = Plan> {
    let task = (
        proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        0..TriggerRule::ALL.len(),
        prop_oneof![
            4 => Just(Fate::Success),
            3 => (1_u32..5).prop_map(Fate::Fails),
            1 => Just(Fate::Skip),
            1 => Just(Fate::Wrong),
        ],
        0..OnExhausted::ALL.len(),
        1_u16..4,
        prop_oneof![6 => Just(Stage::Main), 1 => Just(Stage::OnFailure), 1 => Just(Stage::Finally)],
    );
    proptest::collection::vec(task, 0..14).prop_map(|mut drawn| {
        drawn.sort_by_key(|(_, _, _, _, _, stage)| *stage);
        let mut workflow = parse("{name: w, tasks: {a: {run: x}}}").unwrap();
        let template = workflow.tasks.remove(0);
        let mut fates = Vec::new();
        for (index, (needs, rule, fate, on_exhausted, attempts, stage)) in drawn.into_iter().enumerate() {
            let first = workflow.tasks.iter().filter(|task| task.stage < stage).count();
            let mut chosen: Vec<i32> = match index - first {
                0 => Vec::new(),
                before => needs.iter().map(|need| (first + need.index(before)) as i32).collect(),
            };
            chosen.sort_unstable();
            chosen.dedup();
            let mut task = template.clone();
            task.name = format!("t{index}");
            task.stage = stage;
            task.rule = if chosen.is_empty() { TriggerRule::AllSuccess } else { TriggerRule::ALL[rule] };
            task.needs = chosen.clone();
            task.condition = matches!(fate, Fate::Skip | Fate::Wrong).then(|| "x".to_owned());
            task.on_exhausted = OnExhausted::ALL[on_exhausted];
            task.retry = Retry { attempts, ..Retry::default() };
            workflow.tasks.push(task);
            for need in chosen {
                workflow.tasks[need as usize].dependents.push(index as i32);
            }
            fates.push(fate);
        }
        Plan { workflow, fates }
    })
}

/// Moves one task one step, as its fate says. False if it cannot move.
fn step(board: &mut Board<'_>, fates: &[Fate], index: usize) -> bool {
    match board.state(index) {
        TaskState::Ready => board.start(index).unwrap(),
        TaskState::Retrying => board.due(index).unwrap(),
        TaskState::Deciding => {
            let decision = match fates[index] {
                Fate::Skip => Decision::Skip,
                Fate::Wrong => Decision::Fail(Failure::default()),
                _ => Decision::Start,
            };
            board.decide(index, &decision).unwrap();
        }
        TaskState::Running => {
            let ending = match fates[index] {
                Fate::Fails(often) if board.slots()[index].failures < often => failure(),
                _ => Ending::Success,
            };
            board.finish(index, ending).unwrap();
        }
        _ => return false,
    }
    true
}

/// Every transition is in the table, and a generation ends once.
fn check_changes(changes: &[Change]) {
    let mut ends: HashMap<(usize, u32), u32> = HashMap::new();
    let mut states: HashMap<usize, TaskState> = HashMap::new();
    for change in changes {
        match *change {
            Change::Task { index, generation, from, to } => {
                assert!(from.may_become(to), "{change:?}");
                assert_eq!(states.insert(index, to).unwrap_or(TaskState::Pending), from, "{change:?}");
                if to.is_terminal() {
                    *ends.entry((index, generation)).or_default() += 1;
                }
            }
            Change::Reopened { index, .. } => _ = states.insert(index, TaskState::Pending),
            Change::Run { from, to } => assert!(from.may_become(to), "{change:?}"),
        }
    }
    assert!(ends.values().all(|count| *count == 1), "{changes:?}");
}

/// Plays to the end, choosing by the given numbers which task moves next.
fn play_at_random(board: &mut Board<'_>, fates: &[Fate], choices: &[prop::sample::Index]) {
    let mut choices = choices.iter().cycle();
    for _ in 0..10_000 {
        if board.run_state().is_terminal() {
            return;
        }
        let movable: Vec<usize> = (0..fates.len())
            .filter(|index| {
                use TaskState::{Deciding, Ready, Retrying, Running};
                matches!(board.state(*index), Ready | Running | Retrying | Deciding)
            })
            .collect();
        assert!(!movable.is_empty(), "nothing can move: {board:?}");
        let chosen = choices.next().map_or(0, |choice| choice.index(movable.len()));
        assert!(step(board, fates, movable[chosen]));
        board.check().unwrap();
    }
    panic!("the run does not end");
}

fn choices() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    proptest::collection::vec(any::<prop::sample::Index>(), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_arrival_does_not_matter(plan in plans(), one in choices(), other in choices()) {
        let mut boards = [Board::new(&plan.workflow), Board::new(&plan.workflow)];
        for (board, choices) in boards.iter_mut().zip([one, other]) {
            board.check().unwrap();
            play_at_random(board, &plan.fates, &choices);
            check_changes(&board.take_changes());
        }
        prop_assert_eq!(boards[0].run_state(), boards[1].run_state());
        prop_assert_eq!(boards[0].slots(), boards[1].slots());
    }

    #[test]
    fn every_run_ends_whatever_happens(plan in plans(), events in proptest::collection::vec((0..10_u8, any::<prop::sample::Index>()), 0..120), rest in choices()) {
        let mut board = Board::new(&plan.workflow);
        let mut changes = Vec::new();
        for (kind, choice) in events {
            let count = plan.fates.len();
            if count == 0 {
                break;
            }
            let index = choice.index(count);
            // Events that do not fit are refused and change nothing.
            let before = board.slots().to_vec();
            let refused = match kind {
                0 => board.cancel().is_err(),
                1 => board.pause().is_err(),
                2 => board.resume().is_err(),
                3 => board.finish(index, Ending::Lost).is_err(),
                4 => board.finish(index, Ending::Cancelled).is_err(),
                5 => board.reopen(index, [Reopening::Retry, Reopening::Skip, Reopening::Resolve][choice.index(3)]).is_err(),
                _ => !step(&mut board, &plan.fates, index),
            };
            if refused {
                prop_assert_eq!(&before[..], board.slots());
            }
            board.check().unwrap();
            changes.extend(board.take_changes());
        }
        if board.run_state() == RunState::Paused {
            board.resume().unwrap();
        }
        play_at_random(&mut board, &plan.fates, &rest);
        changes.extend(board.take_changes());
        check_changes(&changes);
        prop_assert!(board.slots().iter().all(|slot| slot.state.is_terminal()));
    }
}
