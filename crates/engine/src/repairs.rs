//! Actions of operators on one task run, live or ended.

use mainspring_boxed::boxed;
use mainspring_core::TaskKey;
use mainspring_core::dead_letter::Resolution;
use mainspring_core::ids::NO_ITEM;
use mainspring_core::state::TaskState;
use mainspring_store::{Error, Operator, Reopen, Repair, Repaired};
use serde_json::Value;

use crate::client::Client;
use crate::events::intake::{Answer, AnswerError};

/// An action on a task run.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskAction {
    /// Runs it once more: at once if it waits for its next attempt; if it has ended, with fresh attempts, and then its
    /// dependents.
    Retry,
    /// Counts it as a success with this output; the run goes on.
    ResolveManually {
        output: Option<Value>,
    },
    /// Skips it: it counts as a success without output.
    Skip,
    Cancel,
    ResetAttempts,
    Approve,
    Reject,
    /// Sets how many attempts this task run has in all.
    MaxAttempts(i16),
    /// Sets the timeout in milliseconds of each further attempt of this task run.
    Timeout(i64),
}

/// The result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acted {
    Done,
    /// The task runs, and its worker was asked to stop it.
    StopRequested,
    /// Its run goes on from there.
    Reopened,
}

#[boxed]
impl Client {
    /// Acts on a task run. `roles` are those of the caller, for approvals; `None` for a caller who may do everything.
    pub async fn act(
        &self,
        key: TaskKey,
        action: &TaskAction,
        operator: &Operator,
        roles: Option<&[String]>,
    ) -> Result<Acted, AnswerError> {
        if [Some(&operator.by), operator.reason.as_ref()].into_iter().flatten().any(|text| text.contains('\0')) {
            return Err(AnswerError::Nul("reason or name"));
        }
        let repair = match action {
            TaskAction::Approve => {
                self.answer(key, &Answer::Approve, operator, roles).await?;
                return Ok(Acted::Done);
            }
            TaskAction::Reject => {
                self.answer(key, &Answer::Reject, operator, roles).await?;
                return Ok(Acted::Done);
            }
            TaskAction::Retry => Repair::RetryNow,
            TaskAction::ResolveManually { output } => Repair::Resolve { output: output.as_ref().map(Value::to_string) },
            TaskAction::Skip => Repair::Skip,
            TaskAction::Cancel => Repair::Cancel,
            TaskAction::ResetAttempts => Repair::ResetAttempts,
            TaskAction::MaxAttempts(most) => Repair::MaxAttempts(*most),
            TaskAction::Timeout(ms) => Repair::Timeout(*ms),
        };
        // An action on an entry counts its end itself.
        let letter = match operator.letter {
            Some(_) => None,
            None => self.store.letter_of(key.run, Some(key)).await?,
        };
        let letter = letter.filter(|letter| letter.status == Resolution::Pending);
        let repaired =
            self.repeat(|| self.store.repair(self.now(), self.clock.new_id(), key, &repair, operator)).await?;
        let acted = match repaired {
            Repaired::Done => Acted::Done,
            Repaired::StopRequested => Acted::StopRequested,
            Repaired::Ended => {
                let what = after_the_end(key, repair)?;
                // It counts the entries that it closes.
                self.reopen(key.run, &what, operator).await?;
                Acted::Reopened
            }
        };
        if let Some(letter) = letter.filter(|_| acted != Acted::Reopened) {
            self.record_if_closed(&letter).await;
        }
        self.store.proceed_run(self.now(), key.run).await?;
        self.announce_work().await;
        Ok(acted)
    }
}

/// The reopening that corresponds to an action on an ended task run.
fn after_the_end(key: TaskKey, repair: Repair) -> mainspring_store::Result<Reopen> {
    let refused = |reason: &str| Err(Error::Conflict(reason.into()));
    if key.item != NO_ITEM {
        return refused("this item has ended: act on the whole task, without [number]");
    }
    let task = usize::try_from(key.index).unwrap_or(usize::MAX);
    match repair {
        Repair::RetryNow => Ok(Reopen::From(vec![task])),
        Repair::Resolve { output } => Ok(Reopen::Settled { task, state: TaskState::ResolvedManually, output }),
        Repair::Skip => Ok(Reopen::Settled { task, state: TaskState::Skipped, output: None }),
        Repair::Cancel => refused("it has ended already"),
        Repair::ResetAttempts => refused("it has ended: a retry gives it fresh attempts"),
        Repair::MaxAttempts(_) => refused("it has ended: a retry gives it the attempts of its workflow"),
        Repair::Timeout(_) => refused("it has ended: retry it first, then give it another timeout before it starts"),
    }
}
