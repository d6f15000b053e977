//! Events and who listens to them: each listener makes of each event what it makes of it, exactly once.
//!
//! The row in `event_deliveries` is written in the transaction that starts the run or makes the job and counts it. A node that
//! comes second, or again after a crash, finds the row and does nothing.

use mainspring_boxed::boxed;
use mainspring_core::workflow::Trigger;
use mainspring_core::{Micros, RunId};
use serde_json::Value;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Store, Tx, read, within, write};
use crate::error::{Error, Result};
use crate::events::announce::EventRow;
use crate::events::budgets::{self, CauseBudget, Overspent};
use crate::events::handlers::{self, HandlerRow};
use crate::names::sql;
use crate::runs::create::{Created, NewRun, create_one};
use crate::schedules::jobs::{self, NewJob};
use crate::schedules::polls::{self, Finding};

/// What webhooks are announced as: `webhook.` and their name, by this source.
pub const WEBHOOK: &str = "webhook";
/// Who announces what the system itself does.
pub const SYSTEM: &str = "system";

/// Whether there is anything for those who follow runs and events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Unheard {
    /// Runs whose end was not counted.
    pub ends: bool,
    /// Events that were not delivered.
    pub events: bool,
    /// Windows that wait for further events.
    pub windows: bool,
}

/// A trigger that waits for something other than the clock.
#[derive(Debug, Clone)]
pub struct ListeningTrigger {
    pub id: Uuid,
    /// The workflow it starts.
    pub namespace: String,
    pub workflow: String,
    pub spec: Trigger,
}

#[derive(sqlx::FromRow)]
struct TriggerRow {
    id: Uuid,
    namespace: String,
    workflow: String,
    spec: String,
}

impl TryFrom<TriggerRow> for ListeningTrigger {
    type Error = Error;

    fn try_from(row: TriggerRow) -> Result<Self> {
        let spec =
            serde_json::from_str(&row.spec).map_err(|error| Error::bad_row("triggers", "spec", row.id, error))?;
        Ok(Self { id: row.id, namespace: row.namespace, workflow: row.workflow, spec })
    }
}

/// The listeners of an event, in the order of delivery.
#[derive(Debug, Clone, Default)]
pub struct Listeners {
    pub handlers: Vec<HandlerRow>,
    pub triggers: Vec<ListeningTrigger>,
}

/// Who makes something of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    Handler(Uuid),
    Trigger {
        id: Uuid,
        /// It fires no more often.
        max: Option<u64>,
    },
}

impl Recipient {
    pub fn id(self) -> Uuid {
        match self {
            Self::Handler(id) | Self::Trigger { id, .. } => id,
        }
    }
}

/// What a listener makes of an event.
#[derive(Debug, Clone)]
pub enum Reaction {
    Start(Box<NewRun>),
    CreateJob(Box<NewJob>),
    /// It waits whether another follows within the window.
    Debounce {
        key: String,
        due_at: Micros,
    },
    /// A check of a poll has ended.
    Poll(Finding),
    /// Its condition says no.
    Ignore {
        reason: String,
    },
    Fail {
        reason: String,
        /// The run at which a circle of events was broken.
        circle: Option<RunId>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i16)]
pub enum DeliveryOutcome {
    Started = 0,
    Ignored = 1,
    Failed = 2,
    Debounced = 3,
    Superseded = 4,
}

impl DeliveryOutcome {
    const ALL: [Self; 5] = [Self::Started, Self::Ignored, Self::Failed, Self::Debounced, Self::Superseded];

    pub fn word(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Ignored => "ignored",
            Self::Failed => "failed",
            Self::Debounced => "debounced",
            Self::Superseded => "superseded",
        }
    }
}

/// What one listener made of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    pub listener: Uuid,
    pub outcome: DeliveryOutcome,
    pub run: Option<RunId>,
    pub job: Option<Uuid>,
    pub reason: Option<String>,
}

/// The last event within a window that has passed.
#[derive(Debug, Clone)]
pub struct DueDebounce {
    pub trigger: ListeningTrigger,
    pub key: String,
    pub event: Uuid,
    pub due_at: Micros,
}

/// Every pattern that stands for a name: itself, and each of its beginnings with a `*` behind it.
fn patterns(name: &str) -> Vec<String> {
    let beginnings = name.char_indices().map(|(end, _)| format!("{}*", &name[..end]));
    beginnings.chain([name.to_owned(), format!("{name}*")]).collect()
}

fn placeholders(from: usize, count: usize) -> String {
    (from..from + count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

const TRIGGERS: &str = "SELECT t.id, t.namespace, w.name AS workflow, t.spec FROM triggers t JOIN workflows w ON w.id = t.workflow_id WHERE t.present AND t.active AND NOT t.paused AND t.listens IS NOT NULL";

#[boxed]
impl Store {
    /// Events that were not delivered to every listener: those of each namespace oldest first, the namespaces in turns.
    pub async fn unhandled_events(&self, limit: i64) -> Result<Vec<EventRow>> {
        crate::events::announce::select_in_turns(self, "NOT handled", limit).await
    }

    /// Every listener has made of it what it makes of it.
    pub async fn event_handled(&self, id: Uuid) -> Result<()> {
        write!(self, sqlx::query("UPDATE events SET handled = TRUE WHERE id = $1").bind(id));
        Ok(())
    }

    /// Who listens to an event now: handlers by priority, then triggers.
    pub async fn listeners(&self, event: &EventRow) -> Result<Listeners> {
        let mut patterns = patterns(&event.name);
        if event.source == SYSTEM {
            // What is done about everything must not hear of what it does itself: two such handlers would never end.
            patterns.retain(|pattern| pattern != "*");
        }
        let names = placeholders(2, patterns.len());
        let sql = AssertSqlSafe(format!(
            "{} WHERE enabled AND (namespace IS NULL OR namespace = $1) AND event_name IN ({names}) ORDER BY priority DESC, created_at, id",
            handlers::COLUMNS
        ));
        let rows: Vec<handlers::Row> = read!(self, |conn| {
            let query = sqlx::query_as(sql).bind(&event.namespace);
            patterns.iter().fold(query, |query, pattern| query.bind(pattern)).fetch_all(conn).await?
        });
        let handlers = rows.into_iter().map(HandlerRow::try_from).collect::<Result<_>>()?;
        let sql = AssertSqlSafe(format!(
            "{TRIGGERS} AND t.namespace = $1 AND t.kind = 3 AND t.listens IN ({names}) ORDER BY t.created_at, t.id"
        ));
        let mut rows: Vec<TriggerRow> = read!(self, |conn| {
            let query = sqlx::query_as(sql).bind(&event.namespace);
            patterns.iter().fold(query, |query, pattern| query.bind(pattern)).fetch_all(conn).await?
        });
        if event.source == WEBHOOK
            && let Some(name) = event.name.strip_prefix("webhook.")
        {
            rows.extend(
                self.listening("t.namespace = $1 AND t.kind = 4 AND t.listens = $2", &event.namespace, name).await?,
            );
        }
        if event.source == SYSTEM
            && event.name.starts_with("run.")
            && let Some(workflow) = event.data.get("workflow").and_then(Value::as_str)
        {
            rows.extend(
                self.listening("t.kind >= 5 AND t.listens = $1 || '/' || $2", &event.namespace, workflow).await?,
            );
        }
        let triggers = rows.into_iter().map(ListeningTrigger::try_from).collect::<Result<_>>()?;
        Ok(Listeners { handlers, triggers })
    }

    async fn listening(&self, which: &str, namespace: &str, name: &str) -> Result<Vec<TriggerRow>> {
        let sql = AssertSqlSafe(format!("{TRIGGERS} AND {which} ORDER BY t.created_at, t.id"));
        Ok(read!(self, |conn| sqlx::query_as(sql).bind(namespace).bind(name).fetch_all(conn).await?))
    }

    /// Whether anything listens to a webhook of that name.
    pub async fn webhook_exists(&self, namespace: &str, name: &str) -> Result<bool> {
        let which = "t.namespace = $1 AND t.kind = 4 AND t.listens = $2";
        Ok(!self.listening(which, namespace, name).await?.is_empty())
    }

    /// What has been made of an event so far.
    pub async fn deliveries(&self, event: Uuid) -> Result<Vec<DeliveryRow>> {
        type Row = (Uuid, i16, Option<RunId>, Option<Uuid>, Option<String>);
        let rows: Vec<Row> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT listener, outcome, run_id, job_id, reason FROM event_deliveries WHERE event_id = $1 ORDER BY created_at, listener"
        )
        .bind(event)
        .fetch_all(conn)
        .await?
        });
        rows.into_iter()
            .map(|(listener, code, run, job, reason)| {
                let outcome = DeliveryOutcome::ALL.into_iter().find(|outcome| *outcome as i16 == code);
                let outcome = outcome.ok_or_else(|| Error::bad_row("event_deliveries", "outcome", event, code))?;
                Ok(DeliveryRow { listener, outcome, run, job, reason })
            })
            .collect()
    }

    /// Does what a listener makes of an event, unless that was done before: then `None`.
    pub async fn deliver(
        &self,
        now: Micros,
        event: &EventRow,
        listener: Recipient,
        reaction: &Reaction,
        budget: CauseBudget,
    ) -> Result<Option<DeliveryRow>> {
        let mut tx = self.begin().await?;
        let fresh = within!(
            tx,
            sqlx::query(
                "INSERT INTO event_deliveries (event_id, listener, outcome, created_at) VALUES \
                 ($1, $2, 1, $3) ON CONFLICT DO NOTHING"
            )
            .bind(event.id)
            .bind(listener.id())
            .bind(now)
        );
        if fresh == 0 {
            return Ok(None);
        }
        let delivery = react(&mut tx, now, event, listener, reaction, budget).await?;
        note(&mut tx, event.id, &delivery).await?;
        if let Recipient::Handler(id) = listener {
            count(&mut tx, now, id, delivery.outcome).await?;
        }
        tx.commit().await?;
        Ok(Some(delivery))
    }

    /// Windows that have passed, oldest first.
    pub async fn due_debounces(&self, now: Micros, limit: i64) -> Result<Vec<DueDebounce>> {
        type Row = (Uuid, String, Uuid, Micros, String, String, String);
        let rows: Vec<Row> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT d.trigger_id, d.key, d.event_id, d.due_at, t.namespace, w.name, t.spec FROM debounces d JOIN triggers t ON t.id = d.trigger_id JOIN workflows w ON w.id = t.workflow_id \
             WHERE d.due_at <= $1 ORDER BY d.due_at LIMIT $2"
        )
        .bind(now)
        .bind(limit)
        .fetch_all(conn)
        .await?
        });
        rows.into_iter()
            .map(|(id, key, event, due_at, namespace, workflow, spec)| {
                let trigger = TriggerRow { id, namespace, workflow, spec }.try_into()?;
                Ok(DueDebounce { trigger, key, event, due_at })
            })
            .collect()
    }

    /// What those who follow runs and events have to look after, in one look.
    pub async fn unheard(&self) -> Result<Unheard> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT EXISTS (SELECT 1 FROM run_ends) AS ends, EXISTS (SELECT 1 FROM events WHERE NOT handled) AS events, \
                    EXISTS (SELECT 1 FROM debounces) AS windows"
        )
        .fetch_one(conn)
        .await?
        }))
    }

    /// When the next window passes.
    pub async fn next_debounce(&self) -> Result<Option<Micros>> {
        let row: (Option<Micros>,) = read!(self, |conn| sqlx::query_as(
            "SELECT min(d.due_at) FROM debounces d JOIN triggers t ON t.id = d.trigger_id"
        )
        .fetch_one(conn)
        .await?);
        Ok(row.0)
    }

    /// Ends a window with what its last event leads to; `None` if another event came, or another node did it.
    pub async fn end_debounce(
        &self,
        now: Micros,
        due: &DueDebounce,
        event: &EventRow,
        reaction: &Reaction,
        budget: CauseBudget,
    ) -> Result<Option<DeliveryRow>> {
        let mut tx = self.begin().await?;
        let ended = within!(
            tx,
            sqlx::query("DELETE FROM debounces WHERE trigger_id = $1 AND key = $2 AND event_id = $3 AND due_at = $4")
                .bind(due.trigger.id)
                .bind(&due.key)
                .bind(due.event)
                .bind(due.due_at)
        );
        if ended == 0 {
            return Ok(None);
        }
        let listener = Recipient::Trigger { id: due.trigger.id, max: due.trigger.spec.max_executions };
        let delivery = react(&mut tx, now, event, listener, reaction, budget).await?;
        note(&mut tx, event.id, &delivery).await?;
        tx.commit().await?;
        Ok(Some(delivery))
    }

    /// An event by its id, while it is kept.
    pub async fn event(&self, id: Uuid) -> Result<Option<EventRow>> {
        Ok(crate::events::announce::select(self, "id = $1", id).await?.pop())
    }
}

async fn react(
    tx: &mut Tx,
    now: Micros,
    event: &EventRow,
    listener: Recipient,
    reaction: &Reaction,
    budget: CauseBudget,
) -> Result<DeliveryRow> {
    if matches!(reaction, Reaction::Start(_) | Reaction::CreateJob(_))
        && let Some(refusal) = budgets::spend(tx, now, event, budget).await?
    {
        return refuse(tx, now, event, listener, refusal).await;
    }
    let mut delivery =
        DeliveryRow { listener: listener.id(), outcome: DeliveryOutcome::Ignored, run: None, job: None, reason: None };
    match reaction {
        Reaction::Ignore { reason } => delivery.reason = Some(reason.clone()),
        Reaction::Fail { reason, circle } => {
            delivery.outcome = DeliveryOutcome::Failed;
            delivery.reason = Some(reason.clone());
            if let Some(run) = circle {
                enter_circle(tx, now, event.id, *run, reason).await?;
            }
        }
        Reaction::Debounce { key, due_at } => {
            supersede(tx, listener.id(), key).await?;
            debounce(tx, event.id, listener.id(), key, *due_at).await?;
            delivery.outcome = DeliveryOutcome::Debounced;
        }
        Reaction::CreateJob(job) => {
            jobs::create_in(tx, now, job).await?;
            delivery.outcome = DeliveryOutcome::Started;
            delivery.job = Some(job.id);
        }
        Reaction::Poll(finding) => return polls::note(tx, now, event, listener.id(), finding).await,
        Reaction::Start(run) => {
            if !may_fire(tx, now, listener).await? {
                delivery.reason = Some("it has fired as often as `max_executions` allows".into());
                return Ok(delivery);
            }
            match create_one(tx, now, run).await? {
                Created::Refused => {
                    delivery.reason = Some("the workflow's concurrency limit is used up".into());
                }
                created => {
                    delivery.outcome = DeliveryOutcome::Started;
                    delivery.run = created.run();
                }
            }
        }
    }
    Ok(delivery)
}

/// What would exceed the budget of its cause leads to nothing; the first time a dead letter says so.
async fn refuse(
    tx: &mut Tx,
    now: Micros,
    event: &EventRow,
    listener: Recipient,
    refusal: Overspent,
) -> Result<DeliveryRow> {
    if let Some(run) = event.run.filter(|_| refusal.is_first) {
        enter_circle(tx, now, event.id, run, &refusal.reason).await?;
    }
    Ok(DeliveryRow {
        listener: listener.id(),
        outcome: DeliveryOutcome::Failed,
        run: None,
        job: None,
        reason: Some(refusal.reason),
    })
}

/// Counts a fire of a trigger, as often as that may fire.
async fn may_fire(tx: &mut Tx, now: Micros, listener: Recipient) -> Result<bool> {
    let Recipient::Trigger { id, max } = listener else { return Ok(true) };
    let counted = within!(
        tx,
        sqlx::query("UPDATE triggers SET fired = fired + 1, last_fire_at = $2 WHERE id = $1 AND fired < $3")
            .bind(id)
            .bind(now)
            .bind(max.and_then(|max| i64::try_from(max).ok()).unwrap_or(i64::MAX))
    );
    Ok(counted == 1)
}

/// The event that waited in the same window so far makes way.
async fn supersede(tx: &mut Tx, trigger: Uuid, key: &str) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "UPDATE event_deliveries SET outcome = 4 WHERE listener = $1 AND outcome = 3 \
             AND event_id IN (SELECT event_id FROM debounces WHERE trigger_id = $1 AND key = $2)",
        )
        .bind(trigger)
        .bind(key)
    );
    Ok(())
}

async fn debounce(tx: &mut Tx, event: Uuid, trigger: Uuid, key: &str, due_at: Micros) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO debounces (trigger_id, key, event_id, due_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (trigger_id, key) DO UPDATE SET event_id = excluded.event_id, due_at = excluded.due_at",
        )
        .bind(trigger)
        .bind(key)
        .bind(event)
        .bind(due_at)
    );
    Ok(())
}

async fn note(tx: &mut Tx, event: Uuid, delivery: &DeliveryRow) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "UPDATE event_deliveries SET outcome = $3, run_id = $4, job_id = $5, reason = $6 WHERE \
             event_id = $1 AND listener = $2",
        )
        .bind(event)
        .bind(delivery.listener)
        .bind(delivery.outcome as i16)
        .bind(delivery.run)
        .bind(delivery.job)
        .bind(&delivery.reason)
    );
    Ok(())
}

async fn count(tx: &mut Tx, now: Micros, handler: Uuid, outcome: DeliveryOutcome) -> Result<()> {
    let well = outcome == DeliveryOutcome::Started;
    within!(
        tx,
        sqlx::query(
            "UPDATE event_handlers SET trigger_count = trigger_count + 1, success_count = success_count \
             + $2, failure_count = failure_count + $3, \
             last_triggered = $4 WHERE id = $1",
        )
        .bind(handler)
        .bind(i64::from(well))
        .bind(i64::from(!well))
        .bind(now)
    );
    Ok(())
}

/// A circle of events is broken at the run that announced the last of them: one entry for an operator to look at.
async fn enter_circle(tx: &mut Tx, now: Micros, id: Uuid, run: RunId, reason: &str) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            sql!("INSERT INTO dead_letters (id, run_id, version, reason, original_state, error_type, \
             error_message, total_attempts, created_at, updated_at) \
             SELECT $1, r.id, r.version, {letter_reason.dependency_cycle_detected}, CASE r.state WHEN {run.success} THEN 'success' WHEN {run.failed} THEN 'failed' \
             WHEN {run.cancelled} THEN 'cancelled' ELSE 'running' END, \
                    'dependency_cycle_detected', $3, 0, $4, $4 FROM runs r WHERE r.id = $2 ON CONFLICT \
             DO NOTHING"),
        )
        .bind(id)
        .bind(run)
        .bind(reason)
        .bind(now)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::patterns;

    #[test]
    fn a_name_is_meant_by_itself_and_by_its_beginnings() {
        assert_eq!(patterns("a.é"), ["*", "a*", "a.*", "a.é", "a.é*"]);
    }
}
