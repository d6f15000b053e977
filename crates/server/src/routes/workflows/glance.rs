//! What a list of workflows shows beside each: its last runs, its next fire, and how it usually goes.

use std::collections::HashMap;

use mainspring_api::packed::{StripCell, WorkflowGlance};
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_store::{StripRun, TriggerRow};
use uuid::Uuid;

use crate::problem::Problem;
use crate::routes::schedules::in_words;
use crate::state::ApiState;

/// Runs that are looked at for each workflow; the strip shows the last 20 of them.
const LOOKED_AT: i64 = 50;
const SHOWN: usize = 20;

/// Words that `include` of the list may hold, besides each other.
pub(super) const WORDS: [&str; 3] = ["strip", "stats", "next"];

/// Two statements, however many workflows there are.
pub(super) async fn glances(state: &ApiState, workflows: &[Uuid]) -> Result<HashMap<Uuid, WorkflowGlance>, Problem> {
    let store = state.client().store();
    let mut runs: HashMap<Uuid, Vec<StripRun>> = HashMap::new();
    for run in store.strips(workflows, LOOKED_AT).await? {
        runs.entry(run.workflow_id).or_default().push(run);
    }
    let mut triggers: HashMap<Uuid, Vec<TriggerRow>> = HashMap::new();
    for trigger in store.triggers_of_workflows(workflows).await? {
        triggers.entry(trigger.workflow_id).or_default().push(trigger);
    }
    let glance = |id: &Uuid| {
        let runs = runs.get(id).map_or(&[][..], Vec::as_slice);
        (*id, of(runs, triggers.get(id).map_or(&[][..], Vec::as_slice)))
    };
    Ok(workflows.iter().map(glance).collect())
}

/// The median duration of the last successful runs of each workflow: one statement, for the first 200 of them.
pub(crate) async fn usual_durations(state: &ApiState, workflows: &[Uuid]) -> Result<HashMap<Uuid, i64>, Problem> {
    let mut times: HashMap<Uuid, Vec<i64>> = HashMap::new();
    for run in state.client().store().strips(workflows, SHOWN as i64).await? {
        if run.state == RunState::Success
            && let Some(took) = took(&run)
        {
            times.entry(run.workflow_id).or_default().push(took);
        }
    }
    let median = |(id, mut times): (Uuid, Vec<i64>)| {
        times.sort_unstable();
        Some((id, percentile(&times, 50)?))
    };
    Ok(times.into_iter().filter_map(median).collect())
}

fn of(runs: &[StripRun], triggers: &[TriggerRow]) -> WorkflowGlance {
    let mut runs: Vec<&StripRun> = runs.iter().collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.id));
    let mut times: Vec<i64> =
        runs.iter().filter(|run| run.state == RunState::Success).filter_map(|run| took(run)).collect();
    times.sort_unstable();
    let ended = runs.iter().filter(|run| matches!(run.state, RunState::Success | RunState::Failed)).count();
    let succeeded = runs.iter().filter(|run| run.state == RunState::Success).count();
    let next = triggers.iter().filter(|row| row.is_watched()).filter_map(|row| row.next).map(|next| next.fire_at).min();
    let cell = |run: &&StripRun| StripCell { id: run.id, status: run.state.word().to_owned(), duration_ms: took(run) };
    WorkflowGlance {
        strip: runs.iter().take(SHOWN).rev().map(cell).collect(),
        p50_ms: percentile(&times, 50),
        p95_ms: percentile(&times, 95),
        success_rate: (ended > 0).then(|| succeeded as f64 / ended as f64),
        next_fire_at: next.map(rfc3339),
        schedules: triggers.iter().map(in_words).collect(),
    }
}

fn took(run: &StripRun) -> Option<i64> {
    run.started_at.zip(run.finished_at).map(|(from, to)| (to - from).max(0) / 1_000)
}

/// The percentile of sorted numbers.
fn percentile(sorted: &[i64], percent: usize) -> Option<i64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_are_numbers_of_the_list() {
        let numbers: Vec<i64> = (1..=20).collect();
        assert_eq!(
            [percentile(&numbers, 50), percentile(&numbers, 95), percentile(&[], 50)],
            [Some(10), Some(19), None]
        );
        assert_eq!(percentile(&[7], 95), Some(7));
    }
}
