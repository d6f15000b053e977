//! Input for waiting task runs from people and programs: events, approvals, results.

use mainspring_boxed::boxed;
use mainspring_core::work::Clock;
use mainspring_core::workflow::{Action, Wait};
use mainspring_core::{RunId, TaskKey};
use mainspring_store::{DeliveryRow, EventRow, Operator, Result, WaitKind, WaitResult, WaitRow};
use serde_json::Value;
use uuid::Uuid;

use crate::bus::{BusMessage, ClaimableRoutes};
use crate::client::Client;
use crate::exchange::parked::event_view;
use crate::exchange::scopes::{Loaded, scope};
use crate::spans::current_trace;

/// What an event may carry at most.
pub(crate) const MAX_EVENT_BYTES: usize = 1 << 20;

const MAX_NAME: usize = 255;

/// That an event is written down, and what it has started.
#[derive(Debug, Clone)]
pub struct Receipt {
    pub id: Uuid,
    pub deliveries: Vec<DeliveryRow>,
}

/// Something to be announced.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub namespace: String,
    pub name: String,
    /// What a waiting task compares with its own key; `data.key` unless given.
    pub key: Option<String>,
    pub data: Value,
    pub source: String,
}

/// An answer to a task run that waits for one.
#[derive(Debug, Clone)]
pub enum Answer {
    Approve,
    Reject,
    /// An external result.
    Deliver {
        output: Value,
    },
    /// An external result that is a failure.
    DeliverFailure {
        message: String,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("the name of an event has 1 to {MAX_NAME} characters, this one has {0}: shorten it")]
    Name(usize),
    #[error("an event carries at most {MAX_EVENT_BYTES} bytes of data, this one has {0}")]
    TooLarge(usize),
    /// PostgreSQL cannot store a NUL character, and no caller needs one.
    #[error("the {0} holds a NUL character: leave it out")]
    Nul(&'static str),
    #[error("task `{task}` of run {run} does not wait for {what} (any more)")]
    DoesNotWait { run: RunId, task: String, what: &'static str },
    #[error("task `{task}` may be decided by {roles}, not by {by}")]
    NotAllowed { task: String, roles: String, by: String },
    #[error(transparent)]
    Store(#[from] mainspring_store::Error),
}

#[boxed]
impl Client {
    /// Announces an event. It is durable when this returns; waiting task runs receive it soon after, and what it started
    /// so far is in the receipt.
    pub async fn emit(&self, event: NewEvent) -> std::result::Result<Receipt, AnswerError> {
        self.emit_as(self.clock.new_id(), event).await
    }

    /// The same under an id that is settled: the same id again is the same event, whatever it carries then.
    pub(crate) async fn emit_as(&self, id: Uuid, event: NewEvent) -> std::result::Result<Receipt, AnswerError> {
        let length = event.name.chars().count();
        if !(1..=MAX_NAME).contains(&length) {
            return Err(AnswerError::Name(length));
        }
        let size = event.data.to_string().len();
        if size > MAX_EVENT_BYTES {
            return Err(AnswerError::TooLarge(size));
        }
        let key = event.key.or_else(|| match event.data.get("key") {
            Some(Value::String(key)) => Some(key.clone()),
            Some(Value::Number(key)) => Some(key.to_string()),
            _ => None,
        });
        let texts = [
            ("name", Some(&event.name)),
            ("namespace", Some(&event.namespace)),
            ("key", key.as_ref()),
            ("source", Some(&event.source)),
        ];
        if let Some((what, _)) = texts.iter().find(|(_, text)| text.is_some_and(|text| text.contains('\0'))) {
            return Err(AnswerError::Nul(what));
        }
        let row = EventRow {
            id,
            namespace: event.namespace,
            name: event.name,
            key,
            data: event.data,
            source: event.source,
            run: None,
            depth: 0,
            cause: None,
            trace: current_trace(),
            created_at: self.clock.now(),
        };
        self.store.insert_event(&row).await?;
        // Should this process end right here, any node does it.
        self.match_event(&row).await?;
        if let Err(error) = self.dispatch(&row).await {
            tracing::debug!(%error, event = %row.id, "telling those who listen; the leader goes on with it");
            self.bus.publish(BusMessage::EventsPending);
        }
        self.announce_work().await;
        let deliveries = self.store.deliveries(row.id).await?;
        Ok(Receipt { id: row.id, deliveries })
    }

    /// Tells everyone who waits for this event.
    pub(crate) async fn match_event(&self, event: &EventRow) -> Result<()> {
        for wait in self.store.waits_for_event(&event.namespace, &event.name).await? {
            self.tell_first(&wait).await?;
        }
        self.store.events_matched(event.id).await
    }

    /// Tells a waiting task run of the first event it waits for, of all that were announced since its run was made. Every node that
    /// looks first comes to the same one.
    pub(crate) async fn tell_first(&self, wait: &WaitRow) -> Result<()> {
        let (Some(namespace), Some(name)) = (&wait.namespace, &wait.event) else { return Ok(()) };
        let since = self.store.hears_events_since(wait.key.run).await?;
        let mut last: Option<EventRow> = None;
        loop {
            let events = self.store.events_since(namespace, name, since, last.as_ref()).await?;
            for event in &events {
                if self.tell(wait, event).await? {
                    return Ok(());
                }
            }
            match events.into_iter().last() {
                None => return Ok(()),
                found => last = found,
            }
        }
    }

    /// Tells one waiting task run of an event; false if it is not the one it waits for.
    async fn tell(&self, wait: &WaitRow, event: &EventRow) -> Result<bool> {
        if wait.event_key.is_some() && wait.event_key != event.key {
            return Ok(false);
        }
        let summary = self.store.run_summary(wait.key.run).await?;
        if event.created_at < self.store.hears_events_since(wait.key.run).await? {
            return Ok(false);
        }
        let spec = self.spec(summary.version).await?;
        let view = event_view(event);
        let index = wait.key.index as usize;
        let task = &spec.workflow.tasks[index];
        if matches!(&task.action, Action::Wait(Wait::Event { condition: Some(_), .. })) {
            let upstream: Vec<(RunId, i32)> = task.reads.tasks.iter().map(|read| (wait.key.run, *read)).collect();
            let data = self.store.expression_data(&[wait.key.run], &upstream, &[]).await?;
            let loaded = Loaded::without_failures(data);
            let mut scope = scope(self, &spec, wait.key, &[&task.reads], &loaded);
            scope.event = Some(view.clone());
            match spec.workflow.event_matches(index, &scope) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(failure) => {
                    tracing::warn!(task = %wait.key, error = failure.message, "the condition of a wait cannot be evaluated");
                    return Ok(false);
                }
            }
        }
        let result =
            WaitResult { kind: WaitKind::Event, succeeded: true, output: Some(view.to_string()), reason: None };
        let told = self.repeat(|| self.store.happened(self.now(), wait.key, &result, None)).await?;
        if told {
            self.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        }
        Ok(told)
    }

    /// Gives a waiting task run its answer. `roles` are those of the caller; `None` for a caller who may
    /// do everything.
    pub async fn answer(
        &self,
        key: TaskKey,
        answer: &Answer,
        operator: &Operator,
        roles: Option<&[String]>,
    ) -> std::result::Result<(), AnswerError> {
        let version = self.store.run_summary(key.run).await?.version;
        let spec = self.spec(version).await?;
        let task = &spec.workflow.tasks[key.index as usize];
        let (kind, what, action) = match answer {
            Answer::Approve => (WaitKind::Approval, "approval", "approve"),
            Answer::Reject => (WaitKind::Approval, "approval", "reject"),
            Answer::Deliver { .. } | Answer::DeliverFailure { .. } => (WaitKind::Result, "a result", "result"),
        };
        if let (Action::Approval(approval), Some(roles)) = (&task.action, roles)
            && !approval.roles.is_empty()
            && !roles.iter().any(|role| approval.roles.contains(role))
        {
            return Err(AnswerError::NotAllowed {
                task: task.name.clone(),
                roles: approval.roles.join(", "),
                by: format!("{} ({})", operator.by, roles.join(", ")),
            });
        }
        if [Some(&operator.by), operator.reason.as_ref()].into_iter().flatten().any(|text| text.contains('\0')) {
            return Err(AnswerError::Nul("reason or name"));
        }
        let (succeeded, output, reason) = match answer {
            Answer::Approve => (true, None, operator.reason.clone()),
            Answer::Reject => (false, None, operator.reason.clone()),
            Answer::Deliver { output } => (true, Some(output.to_string()), operator.reason.clone()),
            // The text is foreign, and the failure matters more than its wording.
            Answer::DeliverFailure { message } => (false, None, Some(message.replace('\0', ""))),
        };
        let result = WaitResult { kind, succeeded, output, reason };
        let id = self.clock.new_id();
        let told = self.repeat(|| self.store.happened(self.now(), key, &result, Some((id, action, operator)))).await?;
        if !told {
            return Err(AnswerError::DoesNotWait { run: key.run, task: task.name.clone(), what });
        }
        self.announce_work().await;
        Ok(())
    }
}
