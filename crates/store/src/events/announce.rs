//! Events: durable before they are acknowledged, matched against the task runs that wait for them.

use mainspring_boxed::boxed;
use mainspring_core::trace::TraceContext;
use mainspring_core::{Micros, RunId};
use serde_json::Value;
use uuid::Uuid;

use crate::db::{Store, Tx, read, within, write};
use crate::error::{Error, Result};

/// How many events one statement forgets.
const EVENTS_PER_TURN: i64 = 2_000;

/// Something that was announced.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    pub id: Uuid,
    pub namespace: String,
    pub name: String,
    pub key: Option<String>,
    pub data: Value,
    /// Who announced it.
    pub source: String,
    /// The run that announced it.
    pub run: Option<RunId>,
    /// How many runs led to it, each started by an event or by the end of another.
    pub depth: i32,
    /// The event or run at the beginning of what led to it, unless that is itself.
    pub cause: Option<Uuid>,
    /// The span that it was announced in, unless that is one of the run.
    pub trace: Option<TraceContext>,
    pub created_at: Micros,
}

/// What a row is read from.
const COLUMNS: &str = "id, namespace, name, key, data, source, run_id, depth, cause, traceparent, created_at";

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    namespace: String,
    name: String,
    key: Option<String>,
    data: String,
    source: String,
    run_id: Option<RunId>,
    depth: i32,
    cause: Option<Uuid>,
    traceparent: Option<String>,
    created_at: Micros,
}

impl EventRow {
    /// What everything that it leads to is counted against.
    pub fn root(&self) -> Uuid {
        self.cause.unwrap_or(self.id)
    }
}

impl TryFrom<Row> for EventRow {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let data = serde_json::from_str(&row.data).map_err(|error| Error::bad_row("events", "data", row.id, error))?;
        let trace = row.traceparent.map(|text| text.parse()).transpose();
        Ok(Self {
            id: row.id,
            namespace: row.namespace,
            name: row.name,
            key: row.key,
            data,
            source: row.source,
            run: row.run_id,
            depth: row.depth,
            cause: row.cause,
            trace: trace.map_err(|error| Error::bad_row("events", "traceparent", row.id, error))?,
            created_at: row.created_at,
        })
    }
}

#[boxed]
impl Store {
    /// Writes an event down, once for its id.
    pub async fn insert_event(&self, event: &EventRow) -> Result<()> {
        let mut tx = self.begin().await?;
        insert(&mut tx, event).await?;
        tx.commit().await
    }

    /// Events that were not matched yet: those of each namespace oldest first, the namespaces in turns.
    pub async fn unmatched_events(&self, limit: i64) -> Result<Vec<EventRow>> {
        select_in_turns(self, "NOT matched", limit).await
    }

    /// These events were delivered to every waiting task run.
    pub async fn events_matched(&self, id: Uuid) -> Result<()> {
        write!(self, sqlx::query("UPDATE events SET matched = TRUE WHERE id = $1").bind(id));
        Ok(())
    }

    /// Events of a name since an instant, oldest first, at most a thousand; then those behind the last one.
    pub async fn events_since(
        &self,
        namespace: &str,
        name: &str,
        since: Micros,
        behind: Option<&EventRow>,
    ) -> Result<Vec<EventRow>> {
        let (at, id) = behind.map_or((since, Uuid::nil()), |event| (event.created_at, event.id));
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM events WHERE namespace = $1 AND name = $2 AND (created_at, id) > ($3, $4) \
             ORDER BY created_at, id LIMIT 1000"
        ));
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql)
            .bind(namespace)
            .bind(name)
            .bind(at)
            .bind(id)
            .fetch_all(conn)
            .await?);
        rows.into_iter().map(EventRow::try_from).collect()
    }

    /// What the system announced of jobs, behind a position, in the order of its time.
    pub async fn job_events_behind(&self, (at, id): (Micros, Uuid), limit: i64) -> Result<Vec<EventRow>> {
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM events \
             WHERE matched AND (created_at, id) > ($1, $2) AND created_at >= $1 AND source = $3 \
             AND name IN ('scheduler:job.created', 'scheduler:job.completed', 'scheduler:job.failed') \
             ORDER BY created_at, id LIMIT $4"
        ));
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql)
            .bind(at)
            .bind(id)
            .bind(crate::events::deliveries::SYSTEM)
            .bind(limit)
            .fetch_all(conn)
            .await?);
        rows.into_iter().map(EventRow::try_from).collect()
    }

    /// Forgets events from before an instant that no run can match any more: a run may match what was announced since it
    /// was made, as long as it has not ended. Call again until none is forgotten.
    pub async fn forget_events(&self, before: Micros) -> Result<u64> {
        let (oldest,): (Option<Micros>,) = read!(self, |conn| sqlx::query_as(
            "SELECT min(r.created_at) FROM runs r WHERE r.id IN (SELECT run_id FROM task_runs \
             UNION SELECT id FROM runs WHERE waits_for IS NOT NULL UNION SELECT run_id FROM continuations)"
        )
        .fetch_one(conn)
        .await?);
        let mut tx = self.begin().await?;
        let forgotten: Vec<(Uuid,)> = within!(tx, |conn| {
            sqlx::query_as(
            "DELETE FROM events WHERE id IN (SELECT e.id FROM events e WHERE e.matched AND e.handled AND e.created_at < $1 \
             AND NOT EXISTS (SELECT 1 FROM debounces d WHERE d.event_id = e.id) ORDER BY e.created_at LIMIT $2) RETURNING id"
        )
        .bind(oldest.map_or(before, |oldest| before.min(oldest)))
        .bind(EVENTS_PER_TURN)
        .fetch_all(conn)
        .await?
        });
        within!(tx, sqlx::query("DELETE FROM event_causes WHERE since < $1").bind(before));
        for (event,) in &forgotten {
            within!(tx, sqlx::query("DELETE FROM event_deliveries WHERE event_id = $1").bind(event));
        }
        tx.commit().await?;
        Ok(forgotten.len() as u64)
    }
}

/// Events by a condition with one parameter.
pub(crate) async fn select<'q, T>(store: &Store, which: &str, value: T) -> Result<Vec<EventRow>>
where
    T: sqlx::Encode<'q, sqlx::Postgres>
        + sqlx::Type<sqlx::Postgres>
        + sqlx::Encode<'q, sqlx::Sqlite>
        + sqlx::Type<sqlx::Sqlite>
        + Send
        + 'q,
{
    let sql = sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM events WHERE {which}"));
    let rows: Vec<Row> = read!(store, |conn| sqlx::query_as(sql).bind(value).fetch_all(conn).await?);
    rows.into_iter().map(EventRow::try_from).collect()
}

/// Events by a condition: those of each namespace oldest first, the namespaces in turns, so that the flood of one does not
/// hold up the others.
pub(crate) async fn select_in_turns(store: &Store, which: &str, limit: i64) -> Result<Vec<EventRow>> {
    let sql = sqlx::AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM (SELECT e.*, \
         row_number() OVER (PARTITION BY namespace ORDER BY created_at, id) AS turn FROM events e WHERE {which}) AS waiting \
         ORDER BY turn, created_at, id LIMIT $1"
    ));
    let rows: Vec<Row> = read!(store, |conn| sqlx::query_as(sql).bind(limit).fetch_all(conn).await?);
    rows.into_iter().map(EventRow::try_from).collect()
}

/// Writes an event down within a transaction, once for its id.
pub(crate) async fn insert(tx: &mut Tx, event: &EventRow) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO events (id, namespace, name, key, data, source, run_id, depth, cause, traceparent, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO NOTHING",
        )
        .bind(event.id)
        .bind(&event.namespace)
        .bind(&event.name)
        .bind(&event.key)
        .bind(event.data.to_string())
        .bind(&event.source)
        .bind(event.run)
        .bind(event.depth)
        .bind(event.cause)
        .bind(event.trace.map(|trace| trace.to_string()))
        .bind(event.created_at)
    );
    Ok(())
}
