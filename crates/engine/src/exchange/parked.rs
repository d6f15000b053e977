//! Task runs that no worker executes: child runs, approvals, waits, and tasks repeated over a list.
//!
//! Such a row is decided twice. First it is parked: a child run or items are created, or a row in `waits` records what
//! it waits for. A later event makes it decidable again, and then it is concluded from that record. Every step requires
//! the decision's token, so a step whose reply was lost is repeated and found fenced.

use std::sync::Arc;

use mainspring_core::plan::{Lapse, MAX_DEPTH, approved, child_failed, rejected, too_deep};
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::{Clock, Failure};
use mainspring_core::workflow::{Action, Task, Wait};
use mainspring_core::{Decision, Micros, RunId, Scope};
use mainspring_store::{
    Claimed, Error, EventRow, ItemResult, NewRun, Parked, Parking, Result, WaitKind, WaitOutcome, WaitRow,
};
use serde_json::{Value, json};

use crate::access::crossing::Crossing;
use crate::bus::{BusMessage, ClaimableRoutes};
use crate::client::{Submission, SubmitError};
use crate::events::announcing::publish;
use crate::exchange::assignments::conclude;
use crate::exchange::scopes::{WithSpec, load, pause, scope};
use crate::node::Shared;
use crate::spans::within_trace;
use crate::specs::Spec;

/// The largest output of a task.
const MAX_OUTPUT: usize = 1 << 20;

pub(crate) async fn decide(shared: Arc<Shared>, claims: Vec<WithSpec>) {
    let Some(data) = load(&shared, &claims, |task| vec![&task.condition_reads, &task.reads]).await else { return };
    for (claim, spec) in claims {
        let key = claim.token.key;
        let task = &spec.workflow.tasks[key.index as usize];
        let scope = scope(&shared.client, &spec, key, &[&task.condition_reads, &task.reads], &data);
        let one = ParkedTask { shared: &shared, claim: &claim, spec: &spec, task, scope };
        loop {
            match one.decide().await {
                Ok(()) => break,
                Err(Error::Repeat(error)) => tracing::debug!(%error, task = %key, "repeating a decision"),
                // The store would refuse it again and again, and every decision behind it would wait.
                Err(error) if !error.is_transient() => {
                    tracing::error!(%error, task = %key, "deciding");
                    let failure = failure("internal", error.to_string());
                    conclude(&shared, &claim, TaskState::Failed, Some(failure), None);
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, task = %key, "deciding");
                    if pause(&shared).await.is_none() {
                        return;
                    }
                }
            }
        }
    }
}

/// A task run that is being decided.
struct ParkedTask<'d> {
    shared: &'d Arc<Shared>,
    claim: &'d Claimed,
    spec: &'d Spec,
    task: &'d Task,
    scope: Scope,
}

impl ParkedTask<'_> {
    async fn decide(&self) -> Result<()> {
        match self.shared.client.store.wait(self.claim.token.key).await? {
            // A wait of an earlier attempt does not count for this one.
            Some(wait) if wait.attempt == self.claim.token.attempt => self.conclude(wait).await,
            _ => self.begin().await,
        }
    }

    fn index(&self) -> usize {
        self.claim.token.key.index as usize
    }

    fn now(&self) -> Micros {
        self.shared.client.clock.now()
    }

    async fn succeed(&self, output: Option<Value>) -> Result<()> {
        if !self.task.publishes_events.is_empty() && self.claim.token.key.item < 0 {
            let generation = i32::from(self.claim.generation);
            publish(self.shared, self.spec, self.claim.token.key, generation, output.as_ref()).await;
        }
        let output = output.map(|output| output.to_string());
        if let Some(size) = output.as_ref().map(String::len).filter(|size| *size > MAX_OUTPUT) {
            let message = format!("the output is {size} bytes; at most {MAX_OUTPUT} are kept");
            return self.fail(failure("output", message));
        }
        conclude(self.shared, self.claim, TaskState::Success, None, output);
        Ok(())
    }

    fn skip(&self) -> Result<()> {
        conclude(self.shared, self.claim, TaskState::Skipped, None, None);
        Ok(())
    }

    fn fail(&self, failure: Failure) -> Result<()> {
        conclude(self.shared, self.claim, TaskState::Failed, Some(failure), None);
        Ok(())
    }

    async fn begin(&self) -> Result<()> {
        let is_item = self.claim.token.key.item >= 0;
        if !is_item {
            match self.spec.workflow.decide(self.index(), &self.scope) {
                Decision::Start => {}
                Decision::Skip => return self.skip(),
                Decision::Fail(failure) => return self.fail(failure),
            }
            if self.task.foreach.is_some() {
                return self.expand().await;
            }
        }
        match &self.task.action {
            Action::Workflow(_) => self.make_child().await,
            Action::Approval(_) => self.ask().await,
            Action::Wait(wait) => self.wait(wait).await,
            other => {
                let message = format!("a task of kind `{}` is not decided by a node", other.kind());
                self.fail(failure("internal", message))
            }
        }
    }

    async fn expand(&self) -> Result<()> {
        let items = match self.spec.workflow.foreach_items(self.index(), &self.scope) {
            Ok(items) => items,
            Err(failure) => return self.fail(failure),
        };
        if items.is_empty() {
            return self.succeed(Some(Value::Array(Vec::new()))).await;
        }
        let values: Vec<String> = items.iter().map(Value::to_string).collect();
        let store = &self.shared.client.store;
        let decides = self.task.action.parks();
        let parked = store.expand(self.now(), self.claim.token, &values, self.task.max_parallel, decides).await?;
        self.after(parked, None);
        Ok(())
    }

    async fn ask(&self) -> Result<()> {
        let approval = match self.spec.workflow.approval(self.index(), self.now(), &self.scope) {
            Ok(approval) => approval,
            Err(failure) => return self.fail(failure),
        };
        let mut parking = Parking::new(WaitKind::Approval, approval.expires_at);
        parking.body = Some(json!({"roles": approval.roles, "message": approval.message}).to_string());
        self.park(parking).await
    }

    async fn wait(&self, wait: &Wait) -> Result<()> {
        let workflow = &self.spec.workflow;
        let due_at = match workflow.wait_until(self.index(), self.now(), &self.scope) {
            Ok(due_at) => due_at,
            Err(failure) => return self.fail(failure),
        };
        match wait {
            Wait::For(_) | Wait::Until(_) => self.park(Parking::new(WaitKind::Timer, due_at)).await,
            Wait::Result { .. } => self.park(Parking::new(WaitKind::Result, due_at)).await,
            Wait::Event { name, .. } => {
                let key = match workflow.event_key(self.index(), &self.scope) {
                    Ok(key) => key,
                    Err(failure) => return self.fail(failure),
                };
                let mut parking = Parking::new(WaitKind::Event, due_at);
                parking.event = Some((workflow.namespace.clone(), name.clone()));
                parking.key = key;
                self.park(parking).await?;
                // Events since the creation of the run count; later events find the row in `waits`.
                match self.shared.client.store.wait(self.claim.token.key).await? {
                    Some(wait) => self.shared.client.tell_first(&wait).await,
                    None => Ok(()),
                }
            }
        }
    }

    async fn park(&self, parking: Parking) -> Result<()> {
        let parked = self.shared.client.store.park(self.now(), self.claim.token, &parking).await?;
        self.after(parked, parking.due_at);
        Ok(())
    }

    async fn make_child(&self) -> Result<()> {
        let now = self.now();
        let run = match self.child_run().await? {
            Ok(run) => run,
            Err(failure) => return self.fail(failure),
        };
        let due_at = self.task.timeout_ms.map(|timeout| now + timeout as i64 * 1_000);
        match self.shared.client.store.park_for_child(now, self.claim.token, &run, due_at).await? {
            Parked::Refused => {
                let message = format!("the concurrency limit of workflow `{}` refuses another run", run.version.name);
                self.fail_attempt(failure("refused", message)).await
            }
            parked => {
                if run.version.main_tasks > 5_000 {
                    self.shared.client.store.proceed_run(now, run.id).await?;
                }
                if parked == Parked::Waiting {
                    self.shared.client.make_room_for(&run).await?;
                }
                self.after(parked, due_at);
                Ok(())
            }
        }
    }

    /// The child run. An error in its definition is the task's failure.
    async fn child_run(&self) -> Result<std::result::Result<NewRun, Failure>> {
        let client = &self.shared.client;
        let (namespace, name, inputs) = match self.spec.workflow.child(self.index(), &self.scope) {
            Ok(evaluated) => evaluated,
            Err(failure) => return Ok(Err(failure)),
        };
        let own = &self.spec.workflow.namespace;
        let by = format!("workflow {own}/{}", self.spec.workflow.name);
        let because_of = self.claim.token.key.run;
        let crossing = Crossing { verb: "CALL", by: &by, namespace: &namespace, workflow: &name, because_of };
        let spec = match client.latest(&namespace, &name).await {
            Ok(spec) if spec.workflow.may_be_called_from(own) => spec,
            Err(Error::NotFound { .. }) if *own == namespace => {
                let message = format!("there is no workflow `{name}` in namespace `{namespace}`: apply it first");
                return Ok(Err(failure("workflow", message)));
            }
            Ok(_) | Err(Error::NotFound { .. }) => {
                return Ok(Err(failure("workflow", client.refused(crossing, own).await?)));
            }
            Err(error) => return Err(error),
        };
        let mut ancestry = client.ancestry(self.claim.token.key.run).await?;
        ancestry.chain.push(self.spec.workflow.name.clone());
        if ancestry.chain.len() > MAX_DEPTH {
            return Ok(Err(too_deep(&ancestry.chain, &name)));
        }
        let trigger = json!({
            "kind": "workflow",
            "run": self.claim.token.key.run,
            "task": self.task.name,
            "item": (self.claim.token.key.item >= 0).then_some(self.claim.token.key.item),
            "chain": ancestry.chain,
            "depth": ancestry.depth,
            "cause": ancestry.cause,
        });
        let submission = Submission { inputs, trigger: Some(trigger), ..Submission::default() };
        let context = client.run_context(Some(self.claim.token.key.run)).await;
        match within_trace(context, client.prepare(&spec, submission)).await {
            Ok(mut run) => {
                run.audit = (*own != namespace).then(|| client.allowed(crossing));
                Ok(Ok(run))
            }
            Err(SubmitError::Store(error)) => Err(error),
            Err(SubmitError::Inputs(problems)) => {
                // The places are left out, because they refer to a generated text.
                let problems: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
                Ok(Err(failure("inputs", format!("the inputs do not fit workflow `{name}`: {}", problems.join("; ")))))
            }
            Err(other) => Ok(Err(failure("workflow", other.to_string()))),
        }
    }

    /// Wakes the loops that continue after a unit.
    fn after(&self, parked: Parked, due_at: Option<Micros>) {
        if parked == Parked::Fenced {
            tracing::debug!(task = %self.claim.token.key, "a decision came too late");
            return;
        }
        if let Some(due_at) = due_at {
            self.shared.due_then(due_at);
        }
        self.shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
    }

    async fn conclude(&self, wait: WaitRow) -> Result<()> {
        let is_due = wait.due_at.is_some_and(|due| due <= self.now());
        match (wait.kind, wait.outcome) {
            (WaitKind::Items, _) => self.conclude_items().await,
            (WaitKind::Child, Some(_)) => self.conclude_child(&wait).await,
            (WaitKind::Child, None) if is_due => {
                self.shared.client.store.call_off_child(self.now(), wait.key).await?;
                self.shared.client.bus.signals().wake_promotion();
                self.time_out().await
            }
            (WaitKind::Approval, Some(outcome)) => self.conclude_approval(&wait, outcome).await,
            (WaitKind::Event | WaitKind::Result, Some(WaitOutcome::Well)) => self.succeed(wait.output).await,
            (WaitKind::Event | WaitKind::Result, Some(_)) => {
                let reason = wait.reason.unwrap_or_else(|| "the result says that it failed".into());
                self.fail(failure("result", reason))
            }
            (_, None) if is_due => self.time_out().await,
            (_, None) => self.shared.client.store.park_again(self.claim.token, wait.due_at).await,
            (_, Some(_)) => self.succeed(None).await,
        }
    }

    async fn conclude_approval(&self, wait: &WaitRow, outcome: WaitOutcome) -> Result<()> {
        let by = wait.actor.as_deref().unwrap_or("somebody");
        if outcome == WaitOutcome::Well {
            return self.succeed(Some(approved(by, wait.reason.as_deref()))).await;
        }
        self.fail(rejected(by, wait.reason.as_deref()))
    }

    /// The wait has timed out. Only a sub-workflow is retried.
    async fn time_out(&self) -> Result<()> {
        match self.spec.workflow.lapse(self.index()) {
            Lapse::Success(output) => self.succeed(output).await,
            Lapse::Skip => self.skip(),
            Lapse::Fail(failure) if matches!(self.task.action, Action::Workflow(_)) => self.fail_attempt(failure).await,
            Lapse::Fail(failure) => self.fail(failure),
        }
    }

    async fn conclude_items(&self) -> Result<()> {
        let key = self.claim.token.key;
        let results = self.shared.client.store.item_results(key.run, key.index).await?;
        let failed: Vec<&ItemResult> = results.iter().filter(|result| result.failed).collect();
        // An item that was cancelled because of another does not name the cause.
        let first = failed.iter().find(|result| result.state == TaskState::Failed).or(failed.first());
        if let Some(first) = first {
            let named: Vec<String> =
                failed.iter().take(5).map(|result| format!("{}[{}]", self.task.name, result.item)).collect();
            let more = if failed.len() > named.len() { ", …" } else { "" };
            let why = first.error.as_deref().map_or_else(|| first.state.to_string(), str::to_owned);
            let message = format!(
                "{} of {} items failed ({}{more}); the first: {why}",
                failed.len(),
                results.len(),
                named.join(", ")
            );
            return self.fail(failure("items", message));
        }
        let outputs = results.into_iter().map(|result| result.output.unwrap_or(Value::Null)).collect();
        self.succeed(Some(Value::Array(outputs))).await
    }

    async fn conclude_child(&self, wait: &WaitRow) -> Result<()> {
        let Some(child) = wait.child else {
            return self.fail(failure("internal", "the child is not known".into()));
        };
        let summary = self.shared.client.store.run_summary(child).await?;
        if summary.state == RunState::Success {
            return match self.shared.client.outputs(child).await? {
                Ok(outputs) => self.succeed(Some(Value::Object(outputs))).await,
                Err(failure) => self.fail(failure),
            };
        }
        let error = self.first_error(child).await?;
        let error = error.as_ref().map(|(task, error)| (task.as_str(), error.as_str()));
        let run = format!("run {child} of workflow `{}`", summary.workflow);
        self.fail_attempt(child_failed(&run, summary.state, error)).await
    }

    /// The first failed task of a run and its error, for the message of the waiting task.
    async fn first_error(&self, run: RunId) -> Result<Option<(String, String)>> {
        let spec = self.shared.client.spec(self.shared.client.store.run_summary(run).await?.version).await?;
        let tasks = self.shared.client.store.ended_tasks(run, &[]).await?;
        let failed = tasks.into_iter().find(|row| row.state == TaskState::Failed);
        Ok(failed.map(|row| {
            let name = spec.workflow.tasks[row.key.index as usize].name.clone();
            (name, row.error.unwrap_or_else(|| "failed".into()))
        }))
    }

    /// Fails the attempt: it is retried if the task allows that, else the failure is final.
    async fn fail_attempt(&self, failure: Failure) -> Result<()> {
        let failures = u32::try_from(self.claim.failures).unwrap_or(0) + 1;
        if !self.task.retry.tries_again(failures, &failure) {
            return self.fail(failure);
        }
        let due_at = self.now() + self.task.retry.delay_micros(failures, fastrand::f64());
        let store = &self.shared.client.store;
        let parked = store.retry_parked(self.now(), self.claim.token, due_at, &failure).await?;
        self.after(parked, Some(due_at));
        Ok(())
    }
}

/// An event as expressions and outputs see it.
pub(crate) fn event_view(event: &EventRow) -> Value {
    json!({
        "id": event.id,
        "name": event.name,
        "namespace": event.namespace,
        "key": event.key,
        "data": event.data,
        "source": event.source,
        "time": mainspring_core::time::rfc3339(event.created_at),
    })
}

fn failure(kind: &str, message: String) -> Failure {
    Failure { kind: kind.to_owned(), message, permanent: true, ..Failure::default() }
}

/// The workflows that led to a run, from its recorded trigger.
pub(crate) fn chain_of(trigger: Option<&Value>) -> Vec<String> {
    let chain = trigger.and_then(|trigger| trigger.get("chain")).and_then(Value::as_array);
    chain.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
