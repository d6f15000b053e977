//! Finds runs without progress and gives them up: the dead letter and the failed run are one transaction.

use mainspring_boxed::boxed;
use mainspring_core::RunId;
use mainspring_core::dead_letter::Reason;
use mainspring_core::staleness::{Health, Phase};
use mainspring_core::time::rfc3339;
use mainspring_store::{NewLetter, Result, StaleRun, Term, WatchFilter, WatchedRun};
use serde_json::json;

use super::capture::{minutes, workflow_config};
use crate::bus::BusMessage;
use crate::client::{ANY_WORK, Client};

/// How many stale runs one pass reads.
const RUNS_AT_ONCE: i64 = 2_000;

/// The result for a stale run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetectionAction {
    TransitionedToDlqAndError,
    MovedToDlqOnly,
    WouldTransition,
    NoAction,
}

impl DetectionAction {
    pub fn word(self) -> &'static str {
        match self {
            Self::TransitionedToDlqAndError => "transitioned_to_dlq_and_error",
            Self::MovedToDlqOnly => "moved_to_dlq_only",
            Self::WouldTransition => "would_transition",
            Self::NoAction => "no_action",
        }
    }
}

/// A stale run and the result.
#[derive(Debug, Clone)]
pub struct Detection {
    pub run: RunId,
    pub namespace: String,
    pub workflow: String,
    pub phase: Phase,
    pub time_in_state_minutes: f64,
    pub threshold_minutes: f64,
    pub action: DetectionAction,
    pub moved_to_dlq: bool,
    pub transition_success: bool,
}

#[boxed]
impl Client {
    /// Looks for stale runs in these namespaces, or in all. A dry run changes nothing. With a term, writes only under
    /// it.
    pub async fn detect_stale(
        &self,
        term: Option<&Term>,
        namespaces: Option<Vec<String>>,
        batch: usize,
        dry_run: bool,
    ) -> Result<Vec<Detection>> {
        let filter = WatchFilter {
            namespaces,
            from_percent: 100.0,
            without_entry: true,
            limit: RUNS_AT_ONCE,
            ..WatchFilter::default()
        };
        let mut all = Vec::new();
        loop {
            let now = self.now();
            let found = self.store.watched_runs(now, &filter).await?;
            let stale: Vec<WatchedRun> =
                found.into_iter().filter(|run| run.judgement.health == Health::Stale).collect();
            let count = stale.len();
            let mut given_up = 0;
            for chunk in stale.chunks(batch.max(1)) {
                let outcome =
                    if dry_run { chunk.iter().map(would).collect() } else { self.give_up(term, chunk).await? };
                given_up += outcome.iter().filter(|one| one.moved_to_dlq).count();
                all.extend(outcome);
            }
            if !dry_run && given_up > 0 {
                let runs = stale.iter().map(|run| run.run).collect();
                self.announce([BusMessage::RunsChanged(runs), BusMessage::CancelRequested(Vec::new()), ANY_WORK]).await;
            }
            // A full page with progress: there may be more.
            if dry_run || given_up == 0 || (count as i64) < RUNS_AT_ONCE {
                return Ok(all);
            }
        }
    }

    async fn give_up(&self, term: Option<&Term>, chunk: &[WatchedRun]) -> Result<Vec<Detection>> {
        let now = self.now();
        let mut stale = Vec::with_capacity(chunk.len());
        for run in chunk {
            let spec = self.specs.get(run.version).await?;
            stale.push(stale_run(self.clock.new_id(), run, &workflow_config(&spec), now));
        }
        let outcomes = self.repeat(|| self.store.give_up(now, term, &stale)).await?;
        Ok(chunk
            .iter()
            .map(|run| {
                let outcome = outcomes.iter().find(|outcome| outcome.run == run.run);
                let (moved, failed) = outcome.map_or((false, false), |outcome| (outcome.moved_to_dlq, outcome.failed));
                let action = match (moved, failed) {
                    (true, true) => DetectionAction::TransitionedToDlqAndError,
                    (true, false) => DetectionAction::MovedToDlqOnly,
                    _ => DetectionAction::NoAction,
                };
                Detection { action, moved_to_dlq: moved, transition_success: failed, ..would(run) }
            })
            .collect())
    }
}

fn would(run: &WatchedRun) -> Detection {
    Detection {
        run: run.run,
        namespace: run.namespace.clone(),
        workflow: run.workflow.clone(),
        phase: run.phase,
        time_in_state_minutes: minutes(run.judgement.time_in_state),
        threshold_minutes: minutes(run.judgement.threshold),
        action: DetectionAction::WouldTransition,
        moved_to_dlq: false,
        transition_success: false,
    }
}

fn stale_run(id: uuid::Uuid, run: &WatchedRun, config: &serde_json::Value, now: i64) -> StaleRun {
    let judgement = run.judgement;
    let (passed, threshold) = (minutes(judgement.time_in_state), minutes(judgement.threshold));
    let reason = match judgement.by_lifetime {
        true => format!("stale: open for {passed} minutes, and a run may live for {threshold}"),
        false => {
            format!("stale: {} for {passed} minutes without progress, the threshold is {threshold}", run.phase.word())
        }
    };
    let snapshot = json!({
        "run_id": run.run,
        "namespace": run.namespace,
        "workflow": run.workflow,
        "current_state": run.phase.word(),
        "time_in_state_minutes": passed,
        "threshold_minutes": threshold,
        "age_minutes": minutes(now - run.created_at),
        "priority": run.priority,
        "workflow_config": config,
        "detected_at": rfc3339(now),
    });
    let letter = NewLetter {
        id,
        run: run.run,
        task: None,
        version: run.version,
        reason: Reason::StalenessTimeout,
        original_state: run.phase.word().to_owned(),
        error_type: Some(if judgement.by_lifetime { "lifetime" } else { "staleness" }.to_owned()),
        error_message: Some(reason.clone()),
        total_attempts: 0,
        last_attempt_at: Some(run.moved_at),
        metadata: None,
        snapshot: Some(snapshot.to_string()),
    };
    StaleRun { letter, moved_at: run.moved_at, reason }
}
