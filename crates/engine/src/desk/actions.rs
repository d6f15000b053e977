//! Actions of operators on dead letters. The actions on task runs change the run and close the entry in one
//! transaction: of two concurrent actions one wins, and the other learns who won.

use mainspring_boxed::boxed;
use mainspring_core::dead_letter::Resolution;
use mainspring_core::time::rfc3339;
use mainspring_core::{RunId, TaskKey};
use mainspring_store::{Created, DeadLetter, Error, LetterFilter, LetterPatch, Operator, Reopen};
use mainspring_telemetry::Event;
use serde_json::json;
use uuid::Uuid;

use crate::bus::BusMessage;
use crate::client::{ANY_WORK, Client, Submission, SubmitError};
use crate::events::intake::AnswerError;
use crate::repairs::TaskAction;
use crate::specs::Spec;

/// How many entries that one action closes are measured at most.
const MOST_COUNTED: i64 = 10_000;
const LETTERS_AT_ONCE: usize = 200;

/// An action on an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetterAction {
    /// Repeats the task with fresh attempts, and then its dependents, in the same run. For an entry of a whole run,
    /// repeats everything that did not finish.
    Retry,
    /// A new run of the task alone, or of the workflow for an entry of a whole run, with the same inputs.
    RetryAsNewRun,
    /// Leaves the task out; the run goes on as if it had succeeded.
    Skip,
    /// Marks the task as done by hand; the run goes on.
    Resolve,
    /// Closes the entry as unrecoverable; the run stays as it is.
    PermanentFailure,
    /// Closes the entry because the result is not needed; the run stays as it is.
    Cancel,
}

impl LetterAction {
    pub const ALL: [(&'static str, Self); 6] = [
        ("retry", Self::Retry),
        ("retry_as_new_run", Self::RetryAsNewRun),
        ("skip", Self::Skip),
        ("resolve", Self::Resolve),
        ("permanent_failure", Self::PermanentFailure),
        ("cancel", Self::Cancel),
    ];

    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, action)| *action == self).map_or("", |(word, _)| word)
    }

    /// The resolution that the action records.
    fn resolution(self) -> Resolution {
        match self {
            Self::Retry | Self::RetryAsNewRun => Resolution::Retried,
            Self::Skip => Resolution::Skipped,
            Self::Resolve => Resolution::Resolved,
            Self::PermanentFailure => Resolution::PermanentFailure,
            Self::Cancel => Resolution::Cancelled,
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, action)| *action)
    }
}

/// The result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LetterOutcome {
    /// The run that goes on: the entry's own run, or the new one.
    pub run: RunId,
}

#[derive(Debug, thiserror::Error)]
pub enum LetterError {
    #[error("dead letter {id} was {status} by {by} at {at} already")]
    Closed { id: Uuid, status: Resolution, by: String, at: String },
    #[error("run {0} was purged: what is left of it is this entry")]
    Purged(RunId),
    #[error("{0}")]
    Conflict(String),
    #[error(transparent)]
    Action(#[from] AnswerError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Store(Error),
}

impl From<Error> for LetterError {
    fn from(error: Error) -> Self {
        match error {
            Error::Conflict(cause) => Self::Conflict(cause),
            error => Self::Store(error),
        }
    }
}

#[boxed]
impl Client {
    /// Acts on an entry.
    pub async fn act_on_letter(
        &self,
        id: Uuid,
        action: LetterAction,
        operator: &Operator,
    ) -> Result<LetterOutcome, LetterError> {
        let letter = self.store.letter(id).await?;
        let needs_run = !matches!(action, LetterAction::PermanentFailure | LetterAction::Cancel);
        if needs_run && !letter.has_run {
            return Err(LetterError::Purged(letter.run));
        }
        refuse_closed(&letter)?;
        let operator = &Operator { letter: Some(id), ..operator.clone() };
        match self.do_about(&letter, action, operator).await {
            Ok(outcome) => {
                self.record_closed(&letter, action);
                Ok(outcome)
            }
            Err(error @ (LetterError::Conflict(_) | LetterError::Action(AnswerError::Store(Error::Conflict(_))))) => {
                // Another operator may have been faster; the error then names them.
                refuse_closed(&self.store.letter(id).await?)?;
                Err(match error {
                    LetterError::Action(AnswerError::Store(Error::Conflict(cause))) => LetterError::Conflict(cause),
                    error => error,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Edits the record of an entry; its run is not touched.
    pub async fn patch_letter(&self, letter: &DeadLetter, patch: &LetterPatch) -> Result<(), Error> {
        self.store.patch_letter(self.now(), letter.id, patch).await?;
        if let Some(status) = patch.status.filter(|_| letter.status == Resolution::Pending) {
            self.record_resolution(letter, status);
        }
        Ok(())
    }

    /// Counts the end of an entry that was pending before an action on its task. The action is done, so that an entry
    /// which cannot be read is left uncounted.
    pub(crate) async fn record_if_closed(&self, letter: &DeadLetter) {
        if let Ok(now) = self.store.letter(letter.id).await {
            self.record_resolution(letter, now.status);
        }
    }

    /// The entries of a run that an action on it may close, but for the one that the action is about.
    pub(crate) async fn pending_letters(&self, run: RunId, operator: &Operator) -> Result<Vec<DeadLetter>, Error> {
        let filter = LetterFilter {
            run: Some(run),
            status: Some(Resolution::Pending),
            limit: MOST_COUNTED,
            ..LetterFilter::default()
        };
        let mut pending = self.store.letters(&filter).await?;
        pending.retain(|letter| operator.letter != Some(letter.id));
        Ok(pending)
    }

    /// Counts those of them that are closed by now. The action is done, so that what cannot be read is left uncounted.
    pub(crate) async fn record_closed_of(&self, pending: &[DeadLetter]) {
        for part in pending.chunks(LETTERS_AT_ONCE) {
            let ids = part.iter().map(|letter| letter.id).collect();
            let filter = LetterFilter { ids, limit: LETTERS_AT_ONCE as i64, ..LetterFilter::default() };
            for letter in self.store.letters(&filter).await.unwrap_or_default() {
                self.record_resolution(&letter, letter.status);
            }
        }
    }

    pub(super) fn record_closed(&self, letter: &DeadLetter, action: LetterAction) {
        self.record_resolution(letter, action.resolution());
    }

    fn record_resolution(&self, letter: &DeadLetter, status: Resolution) {
        if status.is_closed() {
            let seconds = (self.now() - letter.created_at).max(0) as f64 / 1_000_000.0;
            let (reason, resolution) = (letter.reason.word(), status.word());
            self.metrics.record(Event::DeadLetterClosed { reason, resolution, seconds });
        }
    }

    async fn do_about(
        &self,
        letter: &DeadLetter,
        action: LetterAction,
        operator: &Operator,
    ) -> Result<LetterOutcome, LetterError> {
        let same = LetterOutcome { run: letter.run };
        match (action, letter.task) {
            (LetterAction::RetryAsNewRun, _) => return self.retry_as_new_run(letter, operator).await,
            (LetterAction::PermanentFailure, _) => self.close(letter, Resolution::PermanentFailure, operator).await?,
            (LetterAction::Cancel, _) => self.close(letter, Resolution::Cancelled, operator).await?,
            (LetterAction::Resolve, None) => self.close(letter, Resolution::Resolved, operator).await?,
            (LetterAction::Skip, None) => {
                return Err(LetterError::Conflict(
                    "this entry is about a whole run, which cannot be skipped: retry or resolve it".into(),
                ));
            }
            (LetterAction::Retry, None) => _ = self.reopen(letter.run, &Reopen::Failed, operator).await?,
            (LetterAction::Retry, Some(key)) if key.item >= 0 => {
                let task = usize::try_from(key.index).unwrap_or(usize::MAX);
                self.reopen(letter.run, &Reopen::FailedOf(vec![task]), operator).await?;
            }
            (LetterAction::Retry, Some(key)) => _ = self.act(key, &TaskAction::Retry, operator, None).await?,
            (LetterAction::Skip, Some(key)) => _ = self.act(key, &TaskAction::Skip, operator, None).await?,
            (LetterAction::Resolve, Some(key)) => {
                let output = letter.metadata.as_ref().and_then(|metadata| metadata.get("output")).cloned();
                self.act(key, &TaskAction::ResolveManually { output }, operator, None).await?;
            }
        }
        Ok(same)
    }

    async fn close(&self, letter: &DeadLetter, status: Resolution, operator: &Operator) -> Result<(), LetterError> {
        match self.store.close_letter(self.now(), letter.id, status, operator).await? {
            true => Ok(()),
            false => Err(LetterError::Conflict(format!("dead letter {} is closed already", letter.id))),
        }
    }

    /// Starts a new run of the task of an entry, or of the workflow for an entry of a whole run. The idempotency key
    /// makes repeated calls return the same run.
    async fn retry_as_new_run(&self, letter: &DeadLetter, operator: &Operator) -> Result<LetterOutcome, LetterError> {
        let spec = self.specs.get(letter.version).await?;
        let run = self.store.run(letter.run).await?;
        let inputs = match run.inputs {
            Some(serde_json::Value::Object(inputs)) => inputs,
            _ => serde_json::Map::new(),
        };
        let submission = Submission {
            inputs,
            correlation_id: run.correlation_id,
            idempotency_key: Some(format!("dead-letter-{}", letter.id)),
            trigger: Some(json!({
                "kind": "dead_letter",
                "dead_letter": letter.id,
                "run": letter.run,
                "task": letter.task_name,
                "by": operator.by,
            })),
            ..Submission::default()
        };
        let created = match letter.task {
            None => self.submit(&spec, submission).await?,
            Some(key) => self.submit_task(&spec, submission, key, operator).await?,
        };
        let Some(run) = created.run() else {
            return Err(LetterError::Conflict("the concurrency limit of the workflow refuses a new run".into()));
        };
        // A run of the task alone closes the entry in the same commit, unless the run existed before.
        if letter.task.is_none() || matches!(created, Created::Repeated(_)) {
            self.close(letter, Resolution::Retried, operator).await?;
        }
        Ok(LetterOutcome { run })
    }

    /// Starts a run in which only this task of another run is executed.
    async fn submit_task(
        &self,
        spec: &Spec,
        submission: Submission,
        key: TaskKey,
        operator: &Operator,
    ) -> Result<Created, LetterError> {
        let run = self.prepare(spec, submission).await?;
        let action = self.clock.new_id();
        let created = self.repeat(|| self.store.create_run_of_task(self.now(), &run, key, action, operator)).await?;
        if let Created::New(id) | Created::Queued(id) = created {
            self.meter(std::iter::once(&run));
            self.announce([BusMessage::RunsChanged(vec![id]), ANY_WORK]).await;
        }
        Ok(created)
    }
}

fn refuse_closed(letter: &DeadLetter) -> Result<(), LetterError> {
    match letter.status {
        Resolution::Pending => Ok(()),
        status => Err(LetterError::Closed {
            id: letter.id,
            status,
            by: letter.resolved_by.clone().unwrap_or_else(|| "somebody".into()),
            at: rfc3339(letter.resolved_at.unwrap_or(letter.updated_at)),
        }),
    }
}
