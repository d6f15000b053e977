//! Events and their listeners: each listener reacts to each event exactly once.
//!
//! The row in `event_deliveries` is written in the transaction that starts the run or makes the job and counts it. A second
//! node, or the same one after a crash, finds the row and does nothing.

use mainspring_boxed::boxed;
use mainspring_core::workflow::Trigger;
use mainspring_core::{Micros, RunId};
use serde_json::Value;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Store, read, within, write};
use crate::error::{Error, Result};
use crate::events::announce::EventRow;
use crate::events::budgets::CauseBudget;
use crate::events::handlers::{self, HandlerRow};
use crate::events::reactions::{count, note, react};
use crate::runs::create::NewRun;
use crate::schedules::jobs::NewJob;
use crate::schedules::polls::Finding;

/// The source of events that webhooks announce, named `webhook.` and the name of the webhook.
pub const WEBHOOK: &str = "webhook";
/// The source of events that the system itself announces.
pub const SYSTEM: &str = "system";

/// Whether there is work for the loops that follow runs and events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct PendingEventWork {
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

/// The listener that an event is delivered to.
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

/// How a listener reacts to an event.
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

/// How one listener reacted to one event.
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

    /// Marks an event as delivered: every listener has reacted.
    pub async fn event_handled(&self, id: Uuid) -> Result<()> {
        write!(self, sqlx::query("UPDATE events SET handled = TRUE WHERE id = $1").bind(id));
        Ok(())
    }

    /// The listeners of an event as they are now: handlers by priority, then triggers.
    pub async fn listeners(&self, event: &EventRow) -> Result<Listeners> {
        let mut patterns = patterns(&event.name);
        if event.source == SYSTEM {
            // A handler of all events must not get those that it causes itself: two such handlers would never end.
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

    /// The deliveries of an event so far.
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

    /// Lets a listener react to an event, unless it has done so before: then `None`.
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

    /// Whether there are ends, events or windows to handle, in one statement.
    pub async fn unheard(&self) -> Result<PendingEventWork> {
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

    /// Ends a window and reacts to its last event; `None` if another event came, or another node ended the window.
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

#[cfg(test)]
mod tests {
    use super::patterns;

    #[test]
    fn a_name_is_meant_by_itself_and_by_its_beginnings() {
        assert_eq!(patterns("a.é"), ["*", "a*", "a.*", "a.é", "a.é*"]);
    }
}
