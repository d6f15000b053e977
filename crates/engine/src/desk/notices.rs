//! Notifications of failures: one message per cause and target, written in the transaction of the fact it reports.

use std::collections::HashMap;
use std::sync::Arc;

use mainspring_core::dead_letter::Reason;
use mainspring_core::staleness::WARNING_PERCENT;
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_core::workflow::{Notice, Notification};
use mainspring_core::{Micros, RunId};
use mainspring_store::{Captured, IncompleteEntry, NewNotification, Result, WatchFilter};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::capture::minutes;
use crate::client::Client;
use crate::specs::Spec;

const RUNS_AT_ONCE: i64 = 200;

/// The notification targets of each namespace, read once per page.
type OfNamespaces = HashMap<String, Vec<Notification>>;

impl Client {
    /// The notifications for entries that are being completed.
    pub(super) async fn letter_notices(
        &self,
        page: &[IncompleteEntry],
        captured: &[Captured],
        specs: &HashMap<i64, Arc<Spec>>,
    ) -> Result<Vec<NewNotification>> {
        let mut known = OfNamespaces::new();
        let mut messages = Vec::new();
        for (letter, one) in page.iter().zip(captured) {
            let Some(spec) = specs.get(&letter.version) else { continue };
            let body = json!({
                "event": Notice::DeadLetter.word(),
                "namespace": one.namespace,
                "workflow": one.workflow,
                "run_id": letter.run,
                "task": one.task_name,
                "dead_letter": letter.id,
                "reason": Reason::try_from(letter.reason).map_or("", Reason::word),
                "error_type": letter.error_type,
                "message": letter.error_message,
                "attempts": letter.total_attempts,
                "fingerprint": one.fingerprint,
                "at": rfc3339(letter.created_at),
            });
            let cause = format!("dead_letter:{}", letter.id);
            self.add_notices(&mut known, &mut messages, spec, Notice::DeadLetter, Some(letter.run), &cause, &body)
                .await?;
        }
        Ok(messages)
    }

    /// Writes notifications for failed runs that have none; true if there may be more.
    pub(super) async fn notice_failed_runs(&self) -> Result<bool> {
        let runs = self.store.unnoticed_runs(RUNS_AT_ONCE).await?;
        if runs.is_empty() {
            return Ok(false);
        }
        let versions: Vec<i64> = runs.iter().map(|run| run.version).collect();
        let specs = self.specs.get_many(&versions).await?;
        let mut known = OfNamespaces::new();
        let mut messages = Vec::new();
        for run in &runs {
            let Some(spec) = specs.get(&run.version).filter(|_| run.state == RunState::Failed.code()) else { continue };
            let mut notices = vec![Notice::RunFailed];
            notices.extend(run.timed_out().then_some(Notice::DeadlineMissed));
            for notice in notices {
                let body = json!({
                    "event": notice.word(),
                    "namespace": spec.workflow.namespace,
                    "workflow": spec.workflow.name,
                    "run_id": run.run_id,
                    "message": run.reason,
                    "at": run.finished_at.map(rfc3339),
                });
                let cause = format!("{}:{}:{}", notice.word(), run.run_id, run.generation);
                self.add_notices(&mut known, &mut messages, spec, notice, Some(run.run_id), &cause, &body).await?;
            }
        }
        let ids: Vec<RunId> = runs.iter().map(|run| run.run_id).collect();
        let now = self.now();
        self.repeat(|| self.store.notice_runs(now, &ids, &messages)).await?;
        Ok(runs.len() as i64 == RUNS_AT_ONCE)
    }

    /// Warns of runs that have used up most of their threshold, once until they progress.
    pub(super) async fn notice_warnings(&self) -> Result<()> {
        let filter = WatchFilter {
            from_percent: WARNING_PERCENT,
            below_percent: 100.0,
            without_entry: true,
            limit: RUNS_AT_ONCE,
            ..WatchFilter::default()
        };
        let now = self.now();
        let found = self.store.watched_runs(now, &filter).await?;
        let mut known = OfNamespaces::new();
        let mut messages = Vec::new();
        for run in &found {
            let spec = self.specs.get(run.version).await?;
            let body = json!({
                "event": Notice::StaleWarning.word(),
                "namespace": run.namespace,
                "workflow": run.workflow,
                "run_id": run.run,
                "message": format!(
                    "{} for {} of {} minutes without progress",
                    run.phase.word(), minutes(run.judgement.time_in_state), minutes(run.judgement.threshold)
                ),
                "at": rfc3339(now),
            });
            let cause = format!("stale_warning:{}:{}", run.run, run.moved_at);
            self.add_notices(&mut known, &mut messages, &spec, Notice::StaleWarning, Some(run.run), &cause, &body)
                .await?;
        }
        if messages.is_empty() {
            return Ok(());
        }
        self.repeat(|| self.store.notice_runs(now, &[], &messages)).await
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one message has that many parts, and no two of them belong together"
    )]
    async fn add_notices(
        &self,
        known: &mut OfNamespaces,
        messages: &mut Vec<NewNotification>,
        spec: &Spec,
        notice: Notice,
        run: Option<RunId>,
        cause: &str,
        body: &Value,
    ) -> Result<()> {
        let namespace = &spec.workflow.namespace;
        if !known.contains_key(namespace) {
            known.insert(namespace.clone(), self.store.namespace_notifications(namespace).await?);
        }
        let of_namespace = known.get(namespace).map_or(&[][..], Vec::as_slice);
        for notification in spec.workflow.notifications.iter().chain(of_namespace) {
            if !notification.on.contains(&notice) {
                continue;
            }
            let target = serde_json::to_string(notification).unwrap_or_default();
            messages.push(NewNotification {
                id: self.clock.new_id(),
                namespace: namespace.clone(),
                workflow: spec.workflow.name.clone(),
                notice,
                cause: cause.to_owned(),
                run,
                target_key: key_of(namespace, notification),
                target,
                body: body.to_string(),
            });
        }
        Ok(())
    }
}

/// Messages to one address form one digest, whatever their subject.
fn key_of(namespace: &str, notification: &Notification) -> String {
    let text = format!("{namespace} {:?}", notification.channel);
    let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    hash[..12].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How long a message that could not be sent waits for its retry; `None` gives it up.
pub(super) fn backoff(attempts: i32) -> Option<Micros> {
    const MOST_ATTEMPTS: i32 = 10;
    const LONGEST: Micros = 600_000_000;
    let doubled = 5_000_000_i64.saturating_mul(1 << attempts.clamp(0, 20));
    (attempts + 1 < MOST_ATTEMPTS).then(|| doubled.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_given_up_in_the_end() {
        let waits: Vec<Option<i64>> = (0..10).map(|attempts| backoff(attempts).map(|time| time / 1_000_000)).collect();
        assert_eq!(waits[..3], [Some(5), Some(10), Some(20)]);
        assert_eq!((waits[8], waits[9]), (Some(600), None));
    }
}
