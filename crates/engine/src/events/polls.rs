//! What the end of a check means to its poll.
//!
//! A check is a run like every other; its trigger listens to how it ends. A failure is noted with the trigger and the next
//! check comes at its time: nothing that a check does ends the poll.

use mainspring_core::state::TaskState;
use mainspring_core::workflow::CHECK_RESULT;
use mainspring_core::{RunId, Scope};
use mainspring_store::{Error, EventRow, Finding, ListeningTrigger, Result};
use serde_json::{Value, json};

use crate::client::{Client, run_scope};
use crate::schedule::firing::FireError;
use crate::specs::Spec;

impl Client {
    /// Reads the output of an ended check and asks the trigger whether it counts and what identifies it.
    pub(crate) async fn finding(&self, event: &EventRow, trigger: &ListeningTrigger) -> Result<Finding> {
        let Some(run) = event.run else { return Ok(Finding::NothingFound("its check is not known".into())) };
        match event.name.as_str() {
            "run.success" => {}
            "run.failed" => return Ok(Finding::Failed(self.error_of_check(run).await?)),
            _ => return Ok(Finding::NothingFound("its check was cancelled".into())),
        }
        let data = match self.outputs(run).await {
            Ok(Ok(mut outputs)) => outputs.remove(CHECK_RESULT).unwrap_or(Value::Null),
            Ok(Err(failure)) => return Ok(Finding::Failed(failure.message)),
            Err(Error::NotFound { what }) => return Ok(Finding::Failed(format!("{what} was not found"))),
            Err(error) => return Err(error),
        };
        let target = match self.latest(&trigger.namespace, &trigger.workflow).await {
            Ok(target) => target,
            Err(Error::NotFound { what }) => return Ok(Finding::Failed(format!("{what} was not found"))),
            Err(error) => return Err(error),
        };
        let mut view = json!({"id": event.id, "name": format!("poll.{}", trigger.spec.id), "data": data});
        let scope = Scope {
            run: run_scope(event.id, None),
            workflow: target.workflow_scope(),
            event: Some(view.clone()),
            ..Scope::default()
        };
        let key = match trigger.spec.matches(&scope) {
            Ok(false) => return Ok(Finding::NothingFound("its condition is not met".into())),
            Ok(true) => trigger.spec.poll_key(&scope),
            Err(failure) => Err(failure),
        };
        match key {
            Err(failure) => Ok(Finding::Failed(failure.message)),
            Ok(None) => Ok(Finding::NothingFound("its key is empty".into())),
            Ok(Some(key)) if self.store.knows_poll_key(trigger.id, &key).await? => Ok(Finding::KnownKey(key)),
            Ok(Some(key)) => {
                view["key"] = json!(key);
                self.start_by_finding(event, trigger, &target, key, &view).await
            }
        }
    }

    async fn start_by_finding(
        &self,
        event: &EventRow,
        trigger: &ListeningTrigger,
        target: &Spec,
        key: String,
        view: &Value,
    ) -> Result<Finding> {
        match self.prepare_fire(self.fired_by(event, trigger, target, view)).await {
            Ok(run) => Ok(Finding::New { key, run: Box::new(run) }),
            Err(FireError::Failed(failure)) => Ok(Finding::Failed(failure.message)),
            Err(FireError::Store(error)) => Err(error),
        }
    }

    async fn error_of_check(&self, run: RunId) -> Result<String> {
        let tasks = self.store.ended_tasks(run, &[]).await?;
        let failed = tasks.into_iter().find(|row| row.state == TaskState::Failed);
        let error = failed.and_then(|row| row.error.or(row.error_kind)).unwrap_or_else(|| "the check failed".into());
        Ok(format!("{error} (run {run})"))
    }
}
