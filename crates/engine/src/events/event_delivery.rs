//! Delivers events to their listeners: handlers by priority, then triggers.
//!
//! What a listener makes of an event is settled here, from the event and what is stored; it happens, exactly once, in the
//! store's transaction. Any node may deliver at any time, several at once too.

use mainspring_core::work::Failure;
use mainspring_core::workflow::{RunEnd, Trigger, TriggerSource};
use mainspring_core::{Micros, RunId, Scope};
use mainspring_store::{
    AuditRow, DeliveryOutcome, Error, EventRow, Finding, HandlerAction, HandlerRow, IfNamed, ListeningTrigger, NewRun,
    Reaction, Recipient, Result, SYSTEM,
};
use serde_json::{Map, Value, json};

use crate::access::crossing::Crossing;
use crate::bus::BusMessage;
use crate::client::{Client, Submission, SubmitError, run_scope};
use crate::exchange::parked::event_view;
use crate::jobs::{JobRequest, JobTiming};
use crate::schedule::firing::{FireError, Fires};
use crate::spans::within_trace;
use crate::specs::Spec;

/// An event at the end of this many runs is not delivered: it is taken for a loop.
pub(crate) const MAX_DEPTH: i32 = 16;
const WINDOWS_AT_ONCE: i64 = 100;

/// What comes of trying: a reaction, or nothing known because the store was away.
type Settled = Result<Reaction>;

impl Client {
    /// Delivers an event to each of its listeners, then marks it. What they start belongs to the trace of the event.
    pub(crate) async fn dispatch(&self, event: &EventRow) -> Result<()> {
        within_trace(self.event_context(event).await, self.deliver_to_listeners(event)).await
    }

    async fn deliver_to_listeners(&self, event: &EventRow) -> Result<()> {
        let listeners = self.store.listeners(event).await?;
        let mut started = false;
        let told: Vec<_> = self.store.deliveries(event.id).await?.iter().map(|delivery| delivery.listener).collect();
        for handler in listeners.handlers.iter().filter(|handler| !told.contains(&handler.id)) {
            let reaction = self.reaction_of_handler(event, handler).await?;
            started |= self.deliver(event, Recipient::Handler(handler.id), reaction).await?;
        }
        for trigger in listeners.triggers.iter().filter(|trigger| !told.contains(&trigger.id)) {
            let reaction = self.reaction_of_trigger(event, trigger).await?;
            let recipient = Recipient::Trigger { id: trigger.id, max: trigger.spec.max_executions };
            started |= self.deliver(event, recipient, reaction).await?;
        }
        self.store.event_handled(event.id).await?;
        if started {
            self.announce_work().await;
        }
        Ok(())
    }

    /// Starts what waited for windows that have passed.
    pub(crate) async fn end_windows(&self) -> Result<()> {
        for due in self.store.due_debounces(self.now(), WINDOWS_AT_ONCE).await? {
            let Some(event) = self.store.event(due.event).await? else { continue };
            let reaction = match self.latest(&due.trigger.namespace, &due.trigger.workflow).await {
                Ok(spec) => {
                    let context = self.event_context(&event).await;
                    within_trace(context, self.start_by(&event, &due.trigger, &spec)).await?
                }
                Err(Error::NotFound { what }) => fail(format!("{what} was not found")),
                Err(error) => return Err(error),
            };
            let ended = self.repeat(|| self.store.end_debounce(self.now(), &due, &event, &reaction, self.budget)).await;
            let ended = match ended {
                Err(error) if !error.is_transient() => {
                    let reaction = fail(error.to_string());
                    self.repeat(|| self.store.end_debounce(self.now(), &due, &event, &reaction, self.budget)).await?
                }
                ended => ended?,
            };
            if ended.is_some_and(|delivery| delivery.outcome == DeliveryOutcome::Started) {
                self.make_room(&reaction).await?;
                self.announce_work().await;
            }
        }
        Ok(())
    }

    /// Does it. What the database refuses is a failed delivery: trying again would not help.
    async fn deliver(&self, event: &EventRow, recipient: Recipient, reaction: Reaction) -> Result<bool> {
        let delivered = self.repeat(|| self.store.deliver(self.now(), event, recipient, &reaction, self.budget)).await;
        let delivered = match delivered {
            Err(error) if !error.is_transient() => {
                let reaction = fail(error.to_string());
                self.repeat(|| self.store.deliver(self.now(), event, recipient, &reaction, self.budget)).await?
            }
            delivered => delivered?,
        };
        let Some(delivery) = delivered else { return Ok(false) };
        if delivery.job.is_some() {
            self.bus.publish(BusMessage::RoutesChanged);
            self.schedules_changed().await;
            self.bus.publish(BusMessage::EventsPending);
        }
        if let Some(reason) = delivery.reason.filter(|_| delivery.outcome == DeliveryOutcome::Failed) {
            tracing::warn!(event = %event.id, name = event.name, listener = %delivery.listener, reason, "an event led to nothing");
        }
        if delivery.outcome == DeliveryOutcome::Started {
            self.make_room(&reaction).await?;
        }
        Ok(delivery.outcome == DeliveryOutcome::Started)
    }

    async fn make_room(&self, reaction: &Reaction) -> Result<()> {
        match reaction {
            Reaction::Start(run) | Reaction::Poll(Finding::New { run, .. }) => self.make_room_for(run).await,
            _ => Ok(()),
        }
    }

    async fn reaction_of_trigger(&self, event: &EventRow, trigger: &ListeningTrigger) -> Settled {
        let spec = &trigger.spec;
        if spec.poll.is_some() {
            return Ok(Reaction::Poll(self.finding(event, trigger).await?));
        }
        if event.depth > MAX_DEPTH {
            return Ok(circle(event, &format!("{}/{}", trigger.namespace, trigger.workflow)));
        }
        if spec.start.is_some_and(|start| event.created_at < start) {
            return Ok(ignore("the trigger has not begun yet"));
        }
        if spec.end.is_some_and(|end| event.created_at >= end) {
            return Ok(ignore("the trigger is over"));
        }
        if let TriggerSource::Workflow { on, .. } = &spec.source
            && !on.iter().any(|end: &RunEnd| event.name == format!("run.{end}"))
        {
            return Ok(ignore("the run ended otherwise than the trigger wants"));
        }
        if let Some(refusal) = self.refuses_to_be_followed(event, trigger).await? {
            return Ok(fail(refusal));
        }
        let target = match self.latest(&trigger.namespace, &trigger.workflow).await {
            Ok(target) => target,
            Err(Error::NotFound { what }) => return Ok(fail(format!("{what} was not found"))),
            Err(error) => return Err(error),
        };
        let scope = self.event_scope(event, &target).await?;
        match spec.matches(&scope) {
            Ok(true) => {}
            Ok(false) => return Ok(ignore("its condition is not met")),
            Err(failure) => return Ok(fail(failure.message)),
        }
        match &spec.debounce {
            None => self.start_by(event, trigger, &target).await,
            Some(debounce) => Ok(match spec.debounce_key(&scope) {
                Ok(key) if key.contains('\0') => fail("the key of `debounce` holds a NUL character".into()),
                Ok(key) => {
                    let window = i64::try_from(debounce.window_ms).unwrap_or(i64::MAX).saturating_mul(1_000);
                    Reaction::Debounce { key, due_at: self.now().saturating_add(window) }
                }
                Err(failure) => fail(failure.message),
            }),
        }
    }

    /// Why a workflow of another namespace, whose run has ended, is not followed by this trigger.
    async fn refuses_to_be_followed(&self, event: &EventRow, trigger: &ListeningTrigger) -> Result<Option<String>> {
        let Some(run) = followed_run(event, trigger) else { return Ok(None) };
        let followed = self.spec(self.store.run_summary(run).await?.version).await?;
        if followed.workflow.may_be_called_from(&trigger.namespace) {
            return Ok(None);
        }
        let by = follower(trigger);
        let crossing = following(event, &by, &followed.workflow.name);
        self.refused(crossing, &trigger.namespace).await.map(Some)
    }

    /// The fire of a trigger by an event; `view` is what expressions see of the event.
    pub(super) fn fired_by<'a>(
        &self,
        event: &EventRow,
        trigger: &'a ListeningTrigger,
        target: &'a Spec,
        view: &'a Value,
    ) -> Fires<'a> {
        Fires {
            id: trigger.id,
            run: self.clock().new_id(),
            trigger: &trigger.spec,
            spec: target,
            nominal: event.created_at,
            event: Some(view),
            depth: u32::try_from(event.depth).unwrap_or(0),
            cause: Some(event.root()),
            backfill: None,
        }
    }

    /// A run that a trigger makes of an event.
    async fn start_by(&self, event: &EventRow, trigger: &ListeningTrigger, target: &Spec) -> Settled {
        let view = self.event_scope(event, target).await?.event.unwrap_or_default();
        let view = json!({"id": event.id, "name": event.name, "data": view.get("data")});
        match self.prepare_fire(self.fired_by(event, trigger, target, &view)).await {
            Ok(mut run) => {
                if followed_run(event, trigger).is_some() {
                    let workflow = event.data.get("workflow").and_then(Value::as_str).unwrap_or_default();
                    run.audit = Some(self.allowed(following(event, &follower(trigger), workflow)));
                }
                Ok(start(run))
            }
            Err(FireError::Failed(failure)) => Ok(fail(failure.message)),
            Err(FireError::Store(error)) => Err(error),
        }
    }

    async fn start(
        &self,
        target: &Spec,
        inputs: Map<String, Value>,
        priority: Option<i16>,
        origin: Value,
        audit: Option<AuditRow>,
    ) -> Settled {
        let submission = Submission { inputs, priority, trigger: Some(origin), ..Submission::default() };
        Ok(match self.prepare(target, submission).await {
            Ok(run) => start(NewRun { audit, ..run }),
            Err(SubmitError::Store(error)) => return Err(error),
            Err(SubmitError::Inputs(problems)) => {
                let problems: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
                fail(format!("the inputs do not fit workflow `{}`: {}", target.workflow.name, problems.join("; ")))
            }
            Err(other) => fail(other.to_string()),
        })
    }

    /// What expressions of listeners see. The end of a run carries what it put out.
    async fn event_scope(&self, event: &EventRow, target: &Spec) -> Result<Scope> {
        let mut view = event_view(event);
        if let Some(run) = ended_run(event)
            && let Some(data) = view.get_mut("data").and_then(Value::as_object_mut)
        {
            match self.outputs(run).await {
                Ok(Ok(outputs)) => drop(data.insert("outputs".into(), Value::Object(outputs))),
                // A run that failed may lack what its outputs are made of; one that is forgotten has none.
                Ok(Err(_)) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let workflow = target.workflow_scope();
        Ok(Scope { run: run_scope(event.id, None), workflow, event: Some(view), ..Scope::default() })
    }

    async fn reaction_of_handler(&self, event: &EventRow, handler: &HandlerRow) -> Settled {
        if event.depth > MAX_DEPTH {
            return Ok(circle(event, &handler.handler_name));
        }
        match handler.action {
            HandlerAction::TriggerWorkflow => self.trigger_workflow(event, handler).await,
            HandlerAction::CreateJob | HandlerAction::DispatchAgent => self.make_job(event, handler).await,
        }
    }

    /// A job made of an event, which is in its payload. Nothing of the event is an expression.
    async fn make_job(&self, event: &EventRow, handler: &HandlerRow) -> Settled {
        let scope = Scope { run: run_scope(event.id, None), event: Some(event_view(event)), ..Scope::default() };
        let mut payload = match rendered(&handler.handler_name, handler.config.get("payload"), &scope) {
            Ok(payload) => payload,
            Err(failure) => return Ok(fail(failure.message)),
        };
        payload.insert("event".into(), event_view(event));
        let target = handler.config.get("namespace").and_then(Value::as_str);
        if let (Some(own), Some(target)) = (handler.namespace.as_deref(), target)
            && own != target
        {
            return Ok(fail(format!("a handler of namespace `{own}` cannot create jobs in namespace `{target}`")));
        }
        let request = match job_request(event, handler, Value::Object(payload), self.now()) {
            Ok(request) => request,
            Err(reason) => return Ok(fail(reason)),
        };
        Ok(match self.new_job(&request, Some(event), IfNamed::Number) {
            Ok(job) => Reaction::CreateJob(Box::new(job)),
            Err(faults) => {
                let faults: Vec<String> =
                    faults.iter().map(|fault| format!("action_config{}: {}", fault.pointer, fault.message)).collect();
                fail(faults.join("; "))
            }
        })
    }

    async fn trigger_workflow(&self, event: &EventRow, handler: &HandlerRow) -> Settled {
        let text = |key: &str| handler.config.get(key).and_then(Value::as_str);
        let name = text("workflow").unwrap_or(&handler.handler_name);
        let namespace = text("namespace").unwrap_or(&event.namespace);
        // A handler of a namespace acts for it, a global one for the administrator who made it.
        let own = handler.namespace.as_deref().unwrap_or(namespace);
        let by = format!("handler {own}/{}", handler.handler_name);
        let crossing = Crossing { verb: "CALL", by: &by, namespace, workflow: name, because_of: event.id };
        let target = match self.latest(namespace, name).await {
            Ok(target) if target.workflow.may_be_called_from(own) => target,
            Err(Error::NotFound { what }) if own == namespace => {
                return Ok(fail(format!("{what} was not found: apply it first")));
            }
            Ok(_) | Err(Error::NotFound { .. }) => return Ok(fail(self.refused(crossing, own).await?)),
            Err(error) => return Err(error),
        };
        let scope = self.event_scope(event, &target).await?;
        let inputs = match rendered(&handler.handler_name, handler.config.get("inputs"), &scope) {
            Ok(inputs) => inputs,
            Err(failure) => return Ok(fail(failure.message)),
        };
        let priority =
            handler.config.get("priority").and_then(Value::as_i64).and_then(|value| i16::try_from(value).ok());
        let origin = json!({
            "kind": "event",
            "handler": handler.id,
            "event": {"id": event.id, "name": event.name, "data": event.data},
            "depth": event.depth,
            "cause": event.root(),
        });
        let audit = (own != namespace).then(|| self.allowed(crossing));
        self.start(&target, inputs, priority, origin, audit).await
    }
}

/// The job that a handler asks for: executed once and at once, unless its configuration says otherwise.
fn job_request(
    event: &EventRow,
    handler: &HandlerRow,
    payload: Value,
    now: Micros,
) -> std::result::Result<JobRequest, String> {
    let config = &handler.config;
    let text = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |key: &str| config.get(key).and_then(Value::as_u64);
    let small = |key: &str| number(key).map(|value| u32::try_from(value).unwrap_or(u32::MAX));
    let delay = number("delay_ms").map_or(0, |delay| i64::try_from(delay).unwrap_or(0).saturating_mul(1_000));
    let timing = match (text("schedule"), text("every"), text("execute_at")) {
        (Some(cron), None, None) => JobTiming::Cron(cron),
        (None, Some(every), None) => JobTiming::Interval(every),
        (None, None, Some(at)) => JobTiming::Once(at),
        (None, None, None) => JobTiming::Once(mainspring_core::time::rfc3339(now.saturating_add(delay))),
        _ => return Err("action_config: give one of `schedule`, `every` and `execute_at`".into()),
    };
    let name = text("name").unwrap_or_else(|| format!("{} on {}", handler.handler_name, event.name));
    let mut request =
        JobRequest::new(name, text("handler_name").unwrap_or_else(|| handler.handler_name.clone()), timing);
    request.namespace = Some(text("namespace").unwrap_or_else(|| event.namespace.clone()));
    request.handler_type = Some(match handler.action {
        HandlerAction::DispatchAgent => "agent".into(),
        _ => handler.handler_type.clone(),
    });
    request.description = text("description");
    request.timezone = text("timezone");
    (request.start_date, request.end_date) = (text("start_date"), text("end_date"));
    request.max_executions = number("max_executions");
    request.max_retries = small("max_retries");
    request.retry_delay_ms = number("retry_delay_ms");
    request.max_retry_delay_ms = number("max_retry_delay_ms");
    request.timeout_ms = number("timeout_ms");
    request.concurrency = small("concurrency");
    request.allow_overlap = config.get("allow_overlap").and_then(Value::as_bool);
    request.priority = config.get("priority").cloned();
    request.metadata = config.get("metadata").cloned();
    let tags = config.get("tags").and_then(Value::as_array);
    request.tags = tags.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    request.payload = Some(payload);
    request.literal = true;
    request.created_by = format!("event handler {}", handler.id);
    Ok(request)
}

/// The run whose end an event of the system tells.
fn ended_run(event: &EventRow) -> Option<RunId> {
    event.run.filter(|_| event.source == SYSTEM && event.name.starts_with("run."))
}

/// The run of another namespace whose end a trigger follows.
fn followed_run(event: &EventRow, trigger: &ListeningTrigger) -> Option<RunId> {
    let follows = matches!(trigger.spec.source, TriggerSource::Workflow { .. });
    ended_run(event).filter(|_| follows && event.namespace != trigger.namespace)
}

fn follower(trigger: &ListeningTrigger) -> String {
    format!("workflow {}/{}", trigger.namespace, trigger.workflow)
}

fn following<'a>(event: &'a EventRow, by: &'a str, workflow: &'a str) -> Crossing<'a> {
    let because_of = event.run.unwrap_or(event.id);
    Crossing { verb: "FOLLOW", by, namespace: &event.namespace, workflow, because_of }
}

/// An object of templates with its values filled in.
pub(crate) fn rendered(
    name: &str,
    templates: Option<&Value>,
    scope: &Scope,
) -> std::result::Result<Map<String, Value>, Failure> {
    let Some(templates) = templates.filter(|value| !value.is_null()) else { return Ok(Map::new()) };
    let trigger = json!({"id": name, "source": {"event": name}, "inputs": templates});
    match serde_json::from_value::<Trigger>(trigger) {
        Ok(trigger) => trigger.run_inputs(scope),
        Err(_) => Err(Failure { message: "`inputs` is not an object".into(), ..Failure::default() }),
    }
}

fn start(run: NewRun) -> Reaction {
    Reaction::Start(Box::new(run))
}

fn ignore(reason: &str) -> Reaction {
    Reaction::Ignore { reason: reason.into() }
}

pub(crate) fn fail(reason: String) -> Reaction {
    Reaction::Fail { reason: reason.replace('\0', ""), circle: None }
}

fn circle(event: &EventRow, target: &str) -> Reaction {
    let reason = format!(
        "event `{}` was led to by {} runs that events or ends of runs started, more than {MAX_DEPTH}: \
         {target} is not started, because this looks like a circle; break it by an `if`",
        event.name, event.depth
    );
    Reaction::Fail { reason, circle: event.run }
}
