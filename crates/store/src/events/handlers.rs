//! Event handlers: what is done whenever an event of a name is announced, with statistics.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use serde_json::Value;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::events::following::follow_event;

/// What a handler does with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i16)]
pub enum HandlerAction {
    CreateJob = 0,
    TriggerWorkflow = 1,
    DispatchAgent = 2,
}

impl HandlerAction {
    pub const ALL: [Self; 3] = [Self::CreateJob, Self::TriggerWorkflow, Self::DispatchAgent];

    pub fn word(self) -> &'static str {
        match self {
            Self::CreateJob => "create_job",
            Self::TriggerWorkflow => "trigger_workflow",
            Self::DispatchAgent => "dispatch_agent",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.word() == word)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct HandlerRow {
    pub id: Uuid,
    /// `None` for one that handles the events of every namespace.
    pub namespace: Option<String>,
    /// A `*` at its end stands for any rest.
    pub event_name: String,
    pub handler_name: String,
    pub handler_type: String,
    pub enabled: bool,
    /// Higher ones first.
    pub priority: i32,
    pub action: HandlerAction,
    pub config: Value,
    pub trigger_count: i64,
    pub success_count: i64,
    pub failure_count: i64,
    pub last_triggered: Option<Micros>,
    pub created_by: String,
    pub created_at: Micros,
    pub updated_at: Micros,
}

#[derive(sqlx::FromRow)]
pub(crate) struct Row {
    id: Uuid,
    namespace: Option<String>,
    event_name: String,
    handler_name: String,
    handler_type: String,
    enabled: bool,
    priority: i32,
    action: i16,
    config: String,
    trigger_count: i64,
    success_count: i64,
    failure_count: i64,
    last_triggered: Option<Micros>,
    created_by: String,
    created_at: Micros,
    updated_at: Micros,
}

impl TryFrom<Row> for HandlerRow {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |column, reason: String| Error::bad_row("event_handlers", column, row.id, reason);
        Ok(Self {
            action: HandlerAction::ALL
                .into_iter()
                .find(|action| *action as i16 == row.action)
                .ok_or_else(|| bad("action", row.action.to_string()))?,
            config: serde_json::from_str(&row.config).map_err(|error| bad("config", error.to_string()))?,
            id: row.id,
            namespace: row.namespace,
            event_name: row.event_name,
            handler_name: row.handler_name,
            handler_type: row.handler_type,
            enabled: row.enabled,
            priority: row.priority,
            trigger_count: row.trigger_count,
            success_count: row.success_count,
            failure_count: row.failure_count,
            last_triggered: row.last_triggered,
            created_by: row.created_by,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

pub(crate) const COLUMNS: &str = "SELECT id, namespace, event_name, handler_name, handler_type, enabled, priority, action, config, trigger_count, \
     success_count, failure_count, last_triggered, created_by, created_at, updated_at FROM event_handlers";

/// Which handlers to list.
#[derive(Debug, Clone, Default)]
pub struct HandlerFilter {
    /// Of this namespace, and the global ones.
    pub namespace: Option<String>,
    pub event_name: Option<String>,
    /// Only those behind this one.
    pub after: Option<Uuid>,
    pub limit: i64,
    pub offset: i64,
}

#[boxed]
impl Store {
    pub async fn insert_handler(&self, handler: &HandlerRow) -> Result<()> {
        let mut tx = self.begin().await?;
        within!(
            tx,
            sqlx::query(
                "INSERT INTO event_handlers (id, namespace, event_name, handler_name, handler_type, \
                 enabled, priority, action, config, created_by, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)",
            )
            .bind(handler.id)
            .bind(&handler.namespace)
            .bind(&handler.event_name)
            .bind(&handler.handler_name)
            .bind(&handler.handler_type)
            .bind(handler.enabled)
            .bind(handler.priority)
            .bind(handler.action as i16)
            .bind(handler.config.to_string())
            .bind(&handler.created_by)
            .bind(handler.created_at)
        );
        follow_event(&mut tx, &handler.event_name, handler.namespace.as_deref()).await?;
        tx.commit().await
    }

    pub async fn handler(&self, id: Uuid) -> Result<HandlerRow> {
        let sql = AssertSqlSafe(format!("{COLUMNS} WHERE id = $1"));
        let row: Option<Row> = read!(self, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
        row.ok_or_else(|| Error::not_found(format!("event handler {id}")))?.try_into()
    }

    /// Handlers in the order in which they were made.
    pub async fn handlers(&self, filter: &HandlerFilter) -> Result<Vec<HandlerRow>> {
        let sql = AssertSqlSafe(format!(
            "{COLUMNS} WHERE (CAST($1 AS text) IS NULL OR namespace IS NULL OR namespace = $1) AND (CAST($2 AS text) IS NULL OR event_name = $2) \
             AND id > $3 ORDER BY id LIMIT $4 OFFSET $5"
        ));
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql)
            .bind(&filter.namespace)
            .bind(&filter.event_name)
            .bind(filter.after.unwrap_or(Uuid::nil()))
            .bind(filter.limit)
            .bind(filter.offset)
            .fetch_all(conn)
            .await?);
        rows.into_iter().map(HandlerRow::try_from).collect()
    }

    /// Changes everything but identity and statistics. Who follows what is settled in the same transaction.
    pub async fn update_handler(&self, now: Micros, handler: &HandlerRow) -> Result<()> {
        let mut tx = self.begin().await?;
        let (event, namespace) = lock(&mut tx, handler.id).await?;
        within!(
            tx,
            sqlx::query(
                "UPDATE event_handlers SET event_name = $2, handler_name = $3, handler_type = $4, \
                 enabled = $5, priority = $6, action = $7, config = $8, \
                 updated_at = $9 WHERE id = $1",
            )
            .bind(handler.id)
            .bind(&handler.event_name)
            .bind(&handler.handler_name)
            .bind(&handler.handler_type)
            .bind(handler.enabled)
            .bind(handler.priority)
            .bind(handler.action as i16)
            .bind(handler.config.to_string())
            .bind(now)
        );
        for name in [&event, &handler.event_name] {
            follow_event(&mut tx, name, namespace.as_deref()).await?;
        }
        tx.commit().await
    }

    pub async fn delete_handler(&self, id: Uuid) -> Result<()> {
        let mut tx = self.begin().await?;
        let (event, namespace) = lock(&mut tx, id).await?;
        within!(tx, sqlx::query("DELETE FROM event_handlers WHERE id = $1").bind(id));
        follow_event(&mut tx, &event, namespace.as_deref()).await?;
        tx.commit().await
    }
}

async fn lock(tx: &mut Tx, id: Uuid) -> Result<(String, Option<String>)> {
    let sql = locking!(tx, "SELECT event_name, namespace FROM event_handlers WHERE id = $1", "FOR UPDATE");
    let row: Option<(String, Option<String>)> =
        within!(tx, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
    row.ok_or_else(|| Error::not_found(format!("event handler {id}")))
}
