//! Completes new dead letters: names, configuration, context, snapshot, fingerprint, and the log line for each.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::dead_letter::{Reason, fingerprint, tail};
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_core::{Micros, RunId, TaskKey};
use mainspring_store::{Captured, IncompleteEntry, Result};
use mainspring_telemetry::Event;
use serde_json::{Value, json};

use super::context::context;
use crate::client::Client;
use crate::specs::Spec;

/// How many entries one transaction completes.
const AT_ONCE: i64 = 200;
const MINUTE: f64 = 60_000_000.0;

#[boxed]
impl Client {
    /// Completes at most `most` incomplete entries, and returns how many there were. Readers of entries call this
    /// first, so that an incomplete entry is rarely shown.
    pub async fn capture_letters(&self, most: usize) -> Result<usize> {
        let mut seen = 0;
        while seen < most {
            let page =
                self.store.uncaptured_letters(AT_ONCE.min(i64::try_from(most - seen).unwrap_or(AT_ONCE))).await?;
            if page.is_empty() {
                break;
            }
            seen += page.len();
            self.capture_page(&page).await?;
            if page.len() < AT_ONCE as usize {
                break;
            }
        }
        Ok(seen)
    }

    async fn capture_page(&self, page: &[IncompleteEntry]) -> Result<()> {
        let versions: Vec<i64> = page.iter().map(|letter| letter.version).collect();
        let specs = self.specs.get_many(&versions).await?;
        let data = self.capture_data(page, &specs).await?;
        let printed = page.iter().filter(|letter| letter.stack_trace.is_none());
        let printed: Vec<(TaskKey, i32)> =
            printed.filter_map(|letter| Some((letter.task?, letter.total_attempts))).collect();
        let mut logs = self.store.log_tails(&printed).await?;
        let mut captured = Vec::with_capacity(page.len());
        for letter in page {
            captured.push(match specs.get(&letter.version) {
                Some(spec) => {
                    let printed = letter.task.and_then(|key| logs.remove(&key));
                    completed(letter, spec, &data, letter.stack_trace.clone().or(printed))
                }
                // The version was deleted, and with it all further context.
                None => Captured { id: letter.id, ..Captured::default() },
            });
        }
        let messages = self.letter_notices(page, &captured, &specs).await?;
        let now = self.now();
        let done = self.repeat(|| self.store.capture_letters(now, &captured, &messages)).await?;
        for (letter, one) in page.iter().zip(&captured).filter(|(letter, _)| done.contains(&letter.id)) {
            tracing::warn!(
                dead_letter = %letter.id,
                run_id = %letter.run,
                correlation_id = letter.correlation_id.as_deref().unwrap_or(""),
                task_id = one.task_name.as_deref().unwrap_or(""),
                workflow_id = one.workflow,
                namespace = one.namespace,
                reason = Reason::try_from(letter.reason).map_or("", Reason::word),
                attempts = letter.total_attempts,
                error = letter.error_message.as_deref().unwrap_or(""),
                "a dead letter needs a person"
            );
            let reason = Reason::try_from(letter.reason).map_or("", Reason::word);
            let original_state = letter.original_state.as_str();
            self.metrics.record(Event::DeadLettersCreated { reason, original_state, count: 1 });
        }
        Ok(())
    }

    /// The data that the expressions of these tasks read, loaded together.
    async fn capture_data(
        &self,
        page: &[IncompleteEntry],
        specs: &HashMap<i64, std::sync::Arc<Spec>>,
    ) -> Result<mainspring_store::ExpressionData> {
        let mut runs: Vec<RunId> = Vec::new();
        let mut upstream: Vec<(RunId, i32)> = Vec::new();
        let mut items: Vec<TaskKey> = Vec::new();
        for letter in page {
            let (Some(key), Some(spec)) = (letter.task, specs.get(&letter.version)) else { continue };
            let Some(task) = usize::try_from(key.index).ok().and_then(|index| spec.workflow.tasks.get(index)) else {
                continue;
            };
            runs.push(key.run);
            items.extend((key.item >= 0).then_some(key));
            upstream.extend(task.reads.tasks.iter().map(|index| (key.run, *index)));
        }
        runs.sort_unstable();
        runs.dedup();
        upstream.sort_unstable();
        upstream.dedup();
        self.store.expression_data(&runs, &upstream, &items).await
    }
}

fn completed(
    letter: &IncompleteEntry,
    spec: &Spec,
    data: &mainspring_store::ExpressionData,
    printed: Option<String>,
) -> Captured {
    let task = letter.task.and_then(|key| spec.workflow.tasks.get(usize::try_from(key.index).ok()?));
    let task_name = letter.task.map(|key| {
        let name = task.map_or_else(|| key.index.to_string(), |task| task.name.clone());
        if key.item < 0 { name } else { format!("{name}[{}]", key.item) }
    });
    Captured {
        id: letter.id,
        namespace: spec.workflow.namespace.clone(),
        workflow_id: spec.version.workflow_id,
        workflow: spec.workflow.name.clone(),
        // Items of one list that fail for the same cause share a fingerprint.
        fingerprint: fingerprint(
            &format!("{}/{}", spec.workflow.namespace, spec.workflow.name),
            task.map(|task| task.name.as_str()),
            letter.error_type.as_deref(),
            letter.error_message.as_deref(),
        ),
        task_name,
        stack_trace: printed.map(|text| tail(&text)),
        task_config: task.and_then(|task| serde_json::to_string(task).ok()),
        execution_context: Some(context(spec, letter, data).to_string()),
        task_snapshot: Some(snapshot(letter, spec).to_string()),
    }
}

fn snapshot(letter: &IncompleteEntry, spec: &Spec) -> Value {
    let state = letter.run_state.and_then(|code| RunState::try_from(code).ok());
    let age = letter.run_created_at.map(|created| minutes(letter.created_at - created));
    // Only for runs that exceeded their lifetime: for stale runs the detector writes the snapshot itself.
    let is_by_lifetime = letter.reason == Reason::StalenessTimeout.code();
    let lifetime = spec.workflow.lifecycle.max_duration_ms.filter(|_| is_by_lifetime);
    let threshold = lifetime.map(|ms| minutes(Micros::try_from(ms).unwrap_or(Micros::MAX / 1_000) * 1_000));
    json!({
        "run_id": letter.run,
        "namespace": spec.workflow.namespace,
        "workflow": spec.workflow.name,
        "current_state": state.map(RunState::word),
        "time_in_state_minutes": age.filter(|_| is_by_lifetime),
        "threshold_minutes": threshold,
        "age_minutes": age,
        "priority": letter.rank.map(|rank| mainspring_core::workflow::MAX_PRIORITY - rank),
        "workflow_config": workflow_config(spec),
        "detected_at": rfc3339(letter.created_at),
    })
}

/// The settings of a workflow that limit how long its runs may take.
pub(super) fn workflow_config(spec: &Spec) -> Value {
    let workflow = &spec.workflow;
    json!({
        "version": spec.version.number,
        "timeout_ms": workflow.timeout_ms,
        "lifecycle": workflow.lifecycle,
        "concurrency": workflow.concurrency,
        "tasks": workflow.tasks.len(),
        "tags": workflow.tags,
    })
}

pub(super) fn minutes(time: Micros) -> f64 {
    (time as f64 / MINUTE * 100.0).round() / 100.0
}
