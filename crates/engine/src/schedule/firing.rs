//! The run that a trigger starts.
//!
//! What the trigger gives are templates over the run's nominal time, the workflow and the event; what does not fit is a
//! failure of this one fire, never of the trigger.

use mainspring_boxed::boxed;
use mainspring_core::time::rfc3339;
use mainspring_core::work::Failure;
use mainspring_core::workflow::{Overlap, Trigger};
use mainspring_core::{Micros, RunId, Scope};
use mainspring_store::NewRun;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::client::{Client, Submission, SubmitError, run_scope};
use crate::limits::{LimitName, is_exclusive};
use crate::specs::Spec;

/// A fire of a trigger.
#[derive(Debug, Clone, Copy)]
pub struct Fires<'a> {
    /// The row of the trigger.
    pub id: Uuid,
    /// The run that it starts.
    pub run: RunId,
    pub trigger: &'a Trigger,
    /// The version to run.
    pub spec: &'a Spec,
    /// The nominal time: `run.scheduled_for`.
    pub nominal: Micros,
    /// `{id, name, data}` of the event that fired it.
    pub event: Option<&'a Value>,
    /// How many runs in a row were started by events.
    pub depth: u32,
    /// The cause at the start of the chain.
    pub cause: Option<Uuid>,
    /// The backfill that it belongs to and the priority of its runs.
    pub backfill: Option<(Uuid, i16)>,
}

impl Fires<'_> {
    /// Whether a poll asks, rather than starts a run of what was found.
    fn is_check(&self) -> bool {
        self.trigger.poll.is_some() && self.event.is_none()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FireError {
    /// This fire makes no run; the next one may.
    #[error("{}", .0.message)]
    Failed(Failure),
    #[error(transparent)]
    Store(#[from] mainspring_store::Error),
}

#[boxed]
impl Client {
    /// Prepares the run of a fire.
    pub async fn prepare_fire(&self, fires: Fires<'_>) -> Result<NewRun, FireError> {
        let Fires { trigger, spec, .. } = fires;
        let origin = origin(&fires);
        let id = fires.run;
        // What a poll gives belongs to the run that its finding starts, not to the check.
        let is_check = fires.is_check();
        let inputs = if trigger.inputs.is_empty() || is_check {
            Map::new()
        } else {
            let run = run_scope(id, Some(&origin));
            let scope = Scope { run, workflow: spec.workflow_scope(), event: fires.event.cloned(), ..Scope::default() };
            trigger.rendered_inputs(&scope).map_err(FireError::Failed)?
        };
        let limited = spec.workflow.concurrency.as_ref();
        let overlap = match (&fires.backfill, limited) {
            // A backfill has its own measure; what its workflow limits waits its turn.
            (Some(_), Some(limit)) if limit.overlap != Overlap::Allow => Some(Overlap::Queue),
            (Some(_), _) => None,
            (None, _) if is_check => None,
            (None, _) => trigger.overlap,
        };
        let priority = fires.backfill.map(|backfill| backfill.1).or(trigger.priority.filter(|_| !is_check));
        let submission = Submission { inputs, priority, trigger: Some(origin), overlap, ..Submission::default() };
        let mut run = match self.prepare_as(id, spec, submission).await {
            Ok(run) => run,
            Err(SubmitError::Store(error)) => return Err(error.into()),
            Err(SubmitError::Inputs(problems)) => {
                let problems: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
                return Err(failed("inputs", format!("the inputs do not fit the workflow: {}", problems.join("; "))));
            }
            Err(SubmitError::Key(failure)) => return Err(FireError::Failed(failure)),
            Err(other) => return Err(failed("inputs", other.to_string())),
        };
        if limited.is_none() && is_exclusive(overlap) {
            run.limit = Some(self.limits.get(&LimitName::of_trigger(fires.id)).await?);
        }
        Ok(run)
    }
}

/// The trigger that is stored with the run.
fn origin(fires: &Fires<'_>) -> Value {
    let mut origin = json!({
        "kind": if fires.is_check() { "check" } else { fires.trigger.source.kind() },
        "trigger": fires.id,
        "id": fires.trigger.id,
        "scheduled_for": rfc3339(fires.nominal),
    });
    if let Some((backfill, _)) = fires.backfill {
        origin["backfill"] = json!(backfill);
    }
    if let Some(event) = fires.event {
        origin["event"] = event.clone();
    }
    if fires.depth > 0 {
        origin["depth"] = json!(fires.depth);
    }
    if let Some(cause) = fires.cause {
        origin["cause"] = json!(cause);
    }
    origin
}

fn failed(kind: &str, message: String) -> FireError {
    FireError::Failed(Failure { kind: kind.into(), message, permanent: true, ..Failure::default() })
}
