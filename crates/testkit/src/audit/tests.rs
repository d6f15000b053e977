//! The checker must find each thing that can be wrong, and nothing where nothing is.

use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{RunId, TaskKey};

use super::check::compare;
use super::evidence::{Acknowledged, Cancelled, Evidence, Paused, Reopened};
use super::record::{End, Record};
use crate::effects::Effect;

fn run() -> RunId {
    RunId::from_u128(1)
}

fn key() -> TaskKey {
    TaskKey::new(run(), 0)
}

/// A task that failed once and succeeded then, with an effect of both executions.
fn sound() -> (Record, Evidence) {
    let mut record = Record::default();
    record.runs.insert(run(), RunState::Success);
    record.generations.insert(run(), 0);
    record.submissions.insert("k".into(), run());
    let first = End {
        generation: 0,
        attempt: 1,
        session: Some(5),
        seq: 1,
        state: None,
        retries: true,
        released: false,
        started_at: Some(100),
        finished_at: 200,
    };
    let won = End {
        attempt: 2,
        session: Some(6),
        seq: 2,
        state: Some(TaskState::Success),
        retries: false,
        started_at: Some(250),
        finished_at: 300,
        ..first
    };
    record.ends.insert(key(), vec![first, won]);
    let effect = |attempt, session| Effect { key: key(), generation: 0, attempt, session };
    let evidence = Evidence {
        acknowledged: vec![Acknowledged {
            key: "k".into(),
            run: run(),
            effects: vec![0],
            delays: vec![(0, 50)],
            ends: vec![RunState::Success],
        }],
        cancelled: vec![Cancelled { run: run(), attempts: vec![(key(), 2)], until: None }],
        paused: vec![Paused { run: run(), generation: 0, before: vec![(key(), 1)], after: vec![(key(), 1)] }],
        reopened: Vec::new(),
        effects: vec![effect(1, 5), effect(2, 6)],
        ..Evidence::default()
    };
    (record, evidence)
}

fn check(expected: &str, spoil: impl Fn(&mut Record, &mut Evidence)) {
    let (mut record, mut evidence) = sound();
    spoil(&mut record, &mut evidence);
    let found: Vec<&str> = compare(&record, &evidence).iter().map(|violation| violation.invariant).collect();
    assert!(found.contains(&expected), "{expected:?} is not among {found:?}");
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let (record, evidence) = sound();
    assert_eq!(compare(&record, &evidence), []);
}

#[test]
fn lost_and_doubled_runs_are_found() {
    check("an acknowledged run exists", |record, _| record.runs.clear());
    check("an acknowledged submission stays what it was", |record, _| record.submissions.clear());
    check("every run was asked for", |record, _| {
        record.runs.insert(RunId::from_u128(2), RunState::Success);
    });
    check("every key makes a run of its own", |_, evidence| {
        let again = evidence.acknowledged[0].clone();
        evidence.acknowledged.push(Acknowledged { key: "other".into(), ..again });
    });
    check("a run ends as its workflow can", |record, _| {
        record.runs.insert(run(), RunState::Failed);
    });
}

#[test]
fn work_after_a_cancel_is_found() {
    check("nothing is claimed after a cancel was acknowledged", |_, evidence| evidence.cancelled[0].attempts[0].1 = 1);
}

#[test]
fn work_between_a_cancel_and_a_reopening_is_found() {
    let spoil = |until: i32| {
        move |_: &mut Record, evidence: &mut Evidence| {
            evidence.cancelled[0].attempts[0].1 = 1;
            evidence.cancelled[0].until = Some(vec![(key(), until)]);
        }
    };
    check("nothing is claimed after a cancel was acknowledged", spoil(2));
    let (mut record, mut evidence) = sound();
    spoil(1)(&mut record, &mut evidence);
    assert_eq!(compare(&record, &evidence), [], "what was claimed after the reopening is sound");
}

#[test]
fn work_during_a_pause_is_found() {
    check("nothing is claimed while a run is paused", |_, evidence| evidence.paused[0].after[0].1 = 2);
    check("nothing is claimed while a run is paused", |_, evidence| evidence.paused[0].before.clear());
}

#[test]
fn a_stage_that_a_reopened_run_enters_during_a_pause_is_no_work() {
    // Its row counts on from the two attempts that the generation before has had.
    let entered = |after: i32| {
        let (record, mut evidence) = sound();
        let (before, after) = (Vec::new(), vec![(key(), after)]);
        evidence.paused[0] = Paused { run: run(), generation: 1, before, after };
        compare(&record, &evidence).len()
    };
    assert_eq!(entered(2), 0);
    assert_eq!(entered(3), 1, "one more was claimed");
}

#[test]
fn lost_and_doubled_reopenings_are_found() {
    let often = "a run is reopened exactly as often as was acknowledged";
    check(often, |record, _| _ = record.generations.insert(run(), 1));
    let reopened = Reopened { run: run(), generation: 1, attempts: Vec::new() };
    check(often, |_, evidence| evidence.reopened.push(reopened.clone()));
    let (mut record, mut evidence) = sound();
    record.generations.insert(run(), 1);
    evidence.reopened.push(reopened.clone());
    assert_eq!(compare(&record, &evidence), []);
}

#[test]
fn doubled_and_disordered_ends_are_found() {
    check("a generation ends once", |record, _| {
        let ends = record.ends.get_mut(&key()).unwrap();
        ends.push(End { seq: 3, ..ends[1] });
    });
    check("an attempt begins after the one before it ended", |record, _| {
        record.ends.get_mut(&key()).unwrap()[0].seq = 9
    });
}

#[test]
fn an_early_retry_is_found() {
    check("nothing is claimed before it is due", |_, evidence| evidence.acknowledged[0].delays[0].1 = 51);
    // A lost attempt is repeated at once.
    let (mut record, mut evidence) = sound();
    record.ends.get_mut(&key()).unwrap()[0].retries = false;
    evidence.acknowledged[0].delays[0].1 = 51;
    assert_eq!(compare(&record, &evidence), []);
}

#[test]
fn wrong_effects_are_found() {
    let accepted = "a sink accepts exactly one effect of a succeeded task run";
    check(accepted, |_, evidence| _ = evidence.effects.pop());
    check(accepted, |_, evidence| evidence.effects.push(evidence.effects[1]));
    check("a token is executed once", |_, evidence| evidence.effects.push(evidence.effects[0]));
    check("only what was claimed is executed", |_, evidence| evidence.effects[0].session = 77);
    check("only what was claimed is executed", |_, evidence| evidence.effects[0].attempt = 3);
}

#[test]
fn survivors_are_found() {
    check("no process outlives its server", |_, evidence| evidence.survivors.push("42".into()));
}
