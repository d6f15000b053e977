//! Actions of operators on runs and pools, and the outputs of ended runs.

use mainspring_boxed::boxed;
use mainspring_core::state::TaskState;
use mainspring_core::work::Failure;
use mainspring_core::{Micros, RunId, Scope, TaskError, TaskView};
use mainspring_store::{CancelOutcome, Lineage, Operator, PauseRow, Reopen, ReopenRequest, Reopened};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::submission::{SubmitError, run_scope};
use super::{ANY_WORK, Client};
use crate::bus::{BusMessage, ClaimableRoutes};
use crate::exchange::parked::chain_of;
/// The workflows that led to a run, the first one first.
#[derive(Debug, Clone)]
pub(crate) struct Ancestry {
    pub(crate) chain: Vec<String>,
    /// How many runs led to it, each started by an event or by the end of another run.
    pub(crate) depth: i32,
    /// The cause at the start of the chain.
    pub(crate) cause: Uuid,
}

#[boxed]
impl Client {
    pub async fn cancel(&self, run: RunId, operator: &Operator) -> mainspring_store::Result<CancelOutcome> {
        let outcome = self.repeat(|| self.store.cancel_run(self.now(), self.clock.new_id(), run, operator)).await?;
        let sessions = Vec::new();
        self.announce([BusMessage::RunsChanged(vec![run]), BusMessage::CancelRequested(sessions), ANY_WORK]).await;
        Ok(outcome)
    }

    pub async fn pause(&self, run: RunId, operator: &Operator) -> mainspring_store::Result<()> {
        self.repeat(|| self.store.pause_run(self.now(), self.clock.new_id(), run, operator)).await?;
        self.announce([BusMessage::RunsChanged(vec![run])]).await;
        Ok(())
    }

    pub async fn resume(&self, run: RunId, operator: &Operator) -> mainspring_store::Result<()> {
        self.repeat(|| self.store.resume_run(self.now(), self.clock.new_id(), run, operator)).await?;
        self.announce([BusMessage::RunsChanged(vec![run]), ANY_WORK]).await;
        Ok(())
    }

    /// Reopens with some inputs changed for everything that is executed from now on. The old and new values are kept
    /// with the action.
    pub async fn reopen_with(
        &self,
        run: RunId,
        what: &Reopen,
        changed: Map<String, Value>,
        operator: &Operator,
    ) -> Result<Reopened, SubmitError> {
        let row = self.store.run(run).await?;
        let spec = self.specs.get(row.summary.version).await?;
        let before = match row.inputs {
            Some(Value::Object(inputs)) => inputs,
            _ => Map::new(),
        };
        let mut given = before.clone();
        given.extend(changed.clone());
        let scope =
            Scope { run: run_scope(run, row.trigger.as_ref()), workflow: spec.workflow_scope(), ..Scope::default() };
        let inputs = spec.workflow.resolve_inputs(given, &scope).map_err(SubmitError::Inputs)?;
        let noted = operator.metadata.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let was: Map<String, Value> =
            changed.keys().filter_map(|key| Some((key.clone(), before.get(key)?.clone()))).collect();
        let metadata = serde_json::json!({"metadata": noted, "inputs_before": was, "inputs_changed": changed});
        let operator = Operator { metadata: Some(metadata.to_string()), ..operator.clone() };
        let inputs = Value::Object(inputs).to_string();
        let unit = || {
            let (action, workflow, what) = (self.clock.new_id(), &spec.workflow, what.clone());
            let request =
                ReopenRequest { action, run, workflow, what, inputs: Some(inputs.clone()), letters: Vec::new() };
            self.store.reopen_one(self.now(), request, &operator)
        };
        let pending = self.pending_letters(run, &operator).await?;
        let reopened = self.repeat(unit).await?;
        self.record_closed_of(&pending).await;
        self.announce([BusMessage::RunsChanged(vec![run]), ANY_WORK]).await;
        Ok(reopened)
    }

    /// Repeats failed work, or the work from given tasks on, in the same run.
    pub async fn reopen(&self, run: RunId, what: &Reopen, operator: &Operator) -> mainspring_store::Result<Reopened> {
        let version = self.store.run_summary(run).await?.version;
        let spec = self.specs.get(version).await?;
        let pending = self.pending_letters(run, operator).await?;
        let reopened = self
            .repeat(|| self.store.reopen_run(self.now(), self.clock.new_id(), run, &spec.workflow, what, operator))
            .await?;
        self.record_closed_of(&pending).await;
        self.announce([BusMessage::RunsChanged(vec![run]), ANY_WORK]).await;
        Ok(reopened)
    }

    /// The workflows that led to this run.
    pub(crate) async fn ancestry(&self, run: RunId) -> mainspring_store::Result<Ancestry> {
        let Lineage { depth, cause } = self.store.lineage(run).await?;
        let chain = chain_of(self.store.run(run).await?.trigger.as_ref());
        Ok(Ancestry { chain, depth, cause })
    }

    /// The outputs of an ended run, as its workflow declares them.
    pub async fn outputs(&self, run: RunId) -> mainspring_store::Result<Result<Map<String, Value>, Failure>> {
        let row = self.store.run(run).await?;
        let spec = self.specs.get(row.summary.version).await?;
        let workflow = &spec.workflow;
        if workflow.outputs.is_empty() {
            return Ok(Ok(Map::new()));
        }
        let mut scope =
            Scope { run: run_scope(run, row.trigger.as_ref()), workflow: spec.workflow_scope(), ..Scope::default() };
        if let Some(Value::Object(inputs)) = row.inputs {
            scope.inputs = inputs;
        }
        for task in self.store.ended_tasks(run, &workflow.output_reads.tasks).await? {
            if task.key.item < 0 {
                let name = workflow.tasks[task.key.index as usize].name.clone();
                let error = (task.state == TaskState::Failed).then(|| TaskError {
                    kind: task.error_kind.clone().unwrap_or_default(),
                    message: task.error.clone().unwrap_or_default(),
                    attempt: task.attempt,
                });
                let view = TaskView { status: task.state, attempts: task.attempt, output: task.output, error };
                scope.tasks.insert(name, view);
            }
        }
        Ok(workflow.workflow_outputs(&scope))
    }

    /// Deletes a pool that no workflow names.
    pub async fn delete_pool(&self, namespace: &str, name: &str) -> mainspring_store::Result<()> {
        self.store.delete_pool(namespace, name).await
    }

    /// Drains a session: its worker finishes what it has and claims nothing more.
    pub async fn drain_session(&self, session: i64) -> mainspring_store::Result<()> {
        self.store.drain_session(session).await
    }

    /// Sets the slots of a pool, and how many task runs may start per period. Task runs that a larger pool admits become
    /// claimable at once.
    pub async fn set_pool(
        &self,
        namespace: &str,
        name: &str,
        slots: Option<i32>,
        rate: Option<(i32, Micros)>,
    ) -> mainspring_store::Result<()> {
        self.store.set_pool_with_rate(self.now(), namespace, name, slots, rate).await?;
        self.announce([BusMessage::Claimable(ClaimableRoutes::Any)]).await;
        Ok(())
    }

    /// Starts no more tasks of a queue, of a namespace, or at all. What runs goes on.
    pub async fn put_pause(&self, pause: &PauseRow) -> mainspring_store::Result<()> {
        self.store.put_pause(pause).await?;
        self.announce([BusMessage::RoutesChanged, ANY_WORK]).await;
        Ok(())
    }

    /// Ends the pause of exactly this namespace and queue.
    pub async fn end_pause(&self, namespace: Option<&str>, queue: Option<&str>) -> mainspring_store::Result<()> {
        self.store.end_pause(self.now(), namespace, queue).await?;
        self.announce([BusMessage::RoutesChanged, ANY_WORK]).await;
        Ok(())
    }
}
