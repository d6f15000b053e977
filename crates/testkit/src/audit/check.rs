//! The comparison of evidence and record.

use std::collections::{BTreeMap, BTreeSet};

use mainspring_core::state::TaskState;
use mainspring_core::{Micros, RunId, TaskKey};

use super::evidence::{Attempts, Evidence};
use super::record::{End, Record};
use crate::effects::Effect;
use crate::invariants::{self, Violation};

/// Everything that is wrong once all work was driven to its end. Empty: nothing is.
pub async fn audit(url: &str, evidence: &Evidence) -> anyhow::Result<Vec<Violation>> {
    let mut violations = invariants::check_at_rest(url).await?;
    let record = Record::read(url).await?;
    violations.extend(compare(&record, evidence));
    Ok(violations)
}

pub(super) fn compare(record: &Record, evidence: &Evidence) -> Vec<Violation> {
    let mut found = Findings::default();
    check_submissions(record, evidence, &mut found);
    check_cancels(record, evidence, &mut found);
    check_pauses(record, evidence, &mut found);
    check_reopenings(record, evidence, &mut found);
    check_letters(record, evidence, &mut found);
    check_ends(record, &mut found);
    check_retries(record, evidence, &mut found);
    check_effects(record, evidence, &mut found);
    for survivor in &evidence.survivors {
        found.add("no process outlives its server", survivor.clone());
    }
    found.0
}

#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, invariant: &'static str, subject: String) {
        self.0.push(Violation { invariant, subject });
    }
}

fn check_submissions(record: &Record, evidence: &Evidence, found: &mut Findings) {
    let mut asked_for: BTreeSet<RunId> = BTreeSet::new();
    for submission in &evidence.acknowledged {
        let (key, run) = (&submission.key, submission.run);
        if !asked_for.insert(run) {
            found.add("every key makes a run of its own", format!("{key} was answered {run}, and so was another"));
        }
        if record.submissions.get(key) != Some(&run) {
            let made = record.submissions.get(key);
            found.add("an acknowledged submission stays what it was", format!("{key} was answered {run}, is {made:?}"));
        }
        match record.runs.get(&run) {
            None => found.add("an acknowledged run exists", format!("{run} of {key}")),
            Some(state) if !submission.ends.contains(state) => {
                found.add("a run ends as its workflow can", format!("{run} of {key} is {state}"));
            }
            Some(_) => {}
        }
    }
    asked_for.extend(&evidence.requested);
    asked_for.extend(&record.fired);
    // A new run for a dead letter is made under a key of its own.
    asked_for.extend(record.submissions.iter().filter(|(key, _)| key.starts_with("dead-letter-")).map(|(_, run)| run));
    for run in record.runs.keys().filter(|run| !asked_for.contains(run)) {
        found.add("every run was asked for", run.to_string());
    }
}

fn check_cancels(record: &Record, evidence: &Evidence, found: &mut Findings) {
    for cancelled in &evidence.cancelled {
        for (key, before) in &cancelled.attempts {
            let last = match &cancelled.until {
                Some(until) => attempts_of(until, *key),
                None => record.ends.get(key).and_then(|ends| ends.iter().map(|end| end.attempt).max()).unwrap_or(0),
            };
            if last > *before {
                found.add(
                    "nothing is claimed after a cancel was acknowledged",
                    format!("{key} had {before} attempts then and has {last} now"),
                );
            }
        }
    }
}

fn attempts_of(attempts: &Attempts, key: TaskKey) -> i32 {
    attempts.iter().find(|(other, _)| *other == key).map_or(0, |(_, attempt)| *attempt)
}

fn check_pauses(record: &Record, evidence: &Evidence, found: &mut Findings) {
    for paused in &evidence.paused {
        let before: BTreeMap<TaskKey, i32> = paused.before.iter().copied().collect();
        for (key, after) in &paused.after {
            // A stage that was entered during the pause brings rows that count on from the generations before.
            let before = before.get(key).copied().unwrap_or_else(|| record.attempts_before(*key, paused.generation));
            if *after > before {
                found.add(
                    "nothing is claimed while a run is paused",
                    format!("{key} had {before} attempts after the pause and {after} before it went on"),
                );
            }
        }
    }
}

fn check_reopenings(record: &Record, evidence: &Evidence, found: &mut Findings) {
    let mut asked: BTreeMap<RunId, i16> = BTreeMap::new();
    for reopened in &evidence.reopened {
        let latest = asked.entry(reopened.run).or_default();
        *latest = reopened.generation.max(*latest);
    }
    let by_letters: BTreeSet<RunId> = evidence.acted.iter().map(|(_, run)| *run).collect();
    for (run, generation) in record.generations.iter().filter(|(run, _)| !by_letters.contains(run)) {
        let asked = asked.get(run).copied().unwrap_or(0);
        if *generation != asked {
            found.add(
                "a run is reopened exactly as often as was acknowledged",
                format!("{run} is of generation {generation}, and {asked} was acknowledged"),
            );
        }
    }
}

fn check_letters(record: &Record, evidence: &Evidence, found: &mut Findings) {
    for (letter, run) in evidence.acted.iter().filter_map(|(letter, run)| Some((letter.as_ref()?, run))) {
        match record.letters.get(letter) {
            None => found.add("a dead letter that was acted on is kept", format!("{letter} of {run}")),
            Some(true) => found.add("a dead letter that was acted on is closed", format!("{letter} of {run}")),
            Some(false) => {}
        }
    }
    for run in &evidence.requested {
        if !record.runs.contains_key(run) {
            found.add("an acknowledged run exists", run.to_string());
        }
    }
}

fn check_ends(record: &Record, found: &mut Findings) {
    for (key, ends) in &record.ends {
        let mut generations = BTreeSet::new();
        for end in ends.iter().filter(|end| end.state.is_some()) {
            if !generations.insert(end.generation) {
                found.add("a generation ends once", format!("{key} generation {}", end.generation));
            }
        }
        // Sorted by attempt: what began later ended later.
        for pair in ends.windows(2) {
            if pair[0].seq >= pair[1].seq {
                let (first, second) = (pair[0], pair[1]);
                found.add(
                    "an attempt begins after the one before it ended",
                    format!(
                        "{key} attempt {} at {}, attempt {} at {}",
                        first.attempt, first.seq, second.attempt, second.seq
                    ),
                );
            }
        }
    }
}

fn check_retries(record: &Record, evidence: &Evidence, found: &mut Findings) {
    let delays: BTreeMap<(RunId, i32), Micros> = evidence
        .acknowledged
        .iter()
        .flat_map(|submission| submission.delays.iter().map(|(index, delay)| ((submission.run, *index), *delay)))
        .collect();
    for (key, ends) in &record.ends {
        let Some(delay) = delays.get(&(key.run, key.index)) else { continue };
        for pair in ends.windows(2).filter(|pair| pair[0].retries && pair[1].attempt > pair[0].attempt) {
            let waited = pair[1].started_at.map(|started| started - pair[0].finished_at);
            if waited.is_some_and(|waited| waited < *delay) {
                found.add(
                    "nothing is claimed before it is due",
                    format!("{key} attempt {} began {waited:?} µs after a failure, {delay} at least", pair[1].attempt),
                );
            }
        }
    }
}

fn check_effects(record: &Record, evidence: &Evidence, found: &mut Findings) {
    let mut counts: BTreeMap<Effect, usize> = BTreeMap::new();
    for effect in &evidence.effects {
        *counts.entry(*effect).or_default() += 1;
    }
    for (effect, count) in &counts {
        if *count > 1 {
            found.add("a token is executed once", format!("{effect:?} left {count} effects"));
        }
        if !record.knows(effect.key, effect.session, effect.attempt) {
            found.add("only what was claimed is executed", format!("{effect:?}"));
        }
    }
    if evidence.hands_back_unbegun {
        check_handed_back(record, &counts, found);
    }
    let writers: BTreeSet<(RunId, i32)> = evidence
        .acknowledged
        .iter()
        .flat_map(|submission| submission.effects.iter().map(|index| (submission.run, *index)))
        .collect();
    for (key, ends) in record.ends.iter().filter(|(key, _)| writers.contains(&(key.run, key.index))) {
        for end in ends.iter().filter(|end| end.state == Some(TaskState::Success)) {
            let accepted = end.session.and_then(|session| {
                counts.get(&Effect { key: *key, generation: end.generation, attempt: end.attempt, session })
            });
            if accepted != Some(&1) {
                let count = accepted.copied().unwrap_or(0);
                found.add(
                    "a sink accepts exactly one effect of a succeeded task run",
                    format!("{key} attempt {} of session {:?} left {count}", end.attempt, end.session),
                );
            }
        }
    }
}

/// What a worker hands back for others is not executed by it.
fn check_handed_back(record: &Record, counts: &BTreeMap<Effect, usize>, found: &mut Findings) {
    for effect in counts.keys() {
        let ends = record.ends.get(&effect.key).map(Vec::as_slice).unwrap_or_default();
        let is_same = |end: &&End| end.attempt == effect.attempt && end.session == Some(effect.session);
        if ends.iter().find(is_same).is_some_and(|end| end.released) {
            found.add("what was handed back for others is not executed", format!("{effect:?}"));
        }
    }
}
