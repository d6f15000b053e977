//! Pauses: no task of a paused queue or namespace, or of any, is started for now.
//!
//! Nodes read them with the routes and ask for no task of a paused one. What was claimed before goes on to its end.

use mainspring_boxed::boxed;
use mainspring_core::Micros;

use crate::db::{Store, read, write};
use crate::error::{Error, Result};

/// A pause that is in force. Without a namespace it holds in all of them, without a queue for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseRow {
    pub namespace: Option<String>,
    pub queue: Option<String>,
    pub paused_by: String,
    pub reason: Option<String>,
    pub paused_at: Micros,
}

impl PauseRow {
    /// Whether tasks of this queue in this namespace are not started.
    pub fn covers(&self, namespace: &str, queue: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
            && self.queue.as_deref().is_none_or(|own| own == queue)
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    namespace: String,
    queue: String,
    paused_by: String,
    reason: Option<String>,
    paused_at: Micros,
}

impl From<Row> for PauseRow {
    fn from(row: Row) -> Self {
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        Self {
            namespace: given(row.namespace),
            queue: given(row.queue),
            paused_by: row.paused_by,
            reason: row.reason,
            paused_at: row.paused_at,
        }
    }
}

#[boxed]
impl Store {
    /// Puts a pause in force. One that is in force already keeps its time.
    pub async fn put_pause(&self, pause: &PauseRow) -> Result<()> {
        write!(
            self,
            sqlx::query(
                "INSERT INTO pauses (namespace, queue, paused_by, reason, paused_at) VALUES ($1, $2, $3, $4, $5) \
                 ON CONFLICT (namespace, queue) DO UPDATE SET paused_by = excluded.paused_by, reason = excluded.reason, \
                 paused_at = CASE WHEN pauses.resumed_at IS NULL THEN pauses.paused_at ELSE excluded.paused_at END, \
                 resumed_at = NULL"
            )
            .bind(pause.namespace.as_deref().unwrap_or_default())
            .bind(pause.queue.as_deref().unwrap_or_default())
            .bind(&pause.paused_by)
            .bind(&pause.reason)
            .bind(pause.paused_at)
        );
        Ok(())
    }

    /// Ends the pause of exactly this namespace and queue.
    pub async fn end_pause(&self, now: Micros, namespace: Option<&str>, queue: Option<&str>) -> Result<()> {
        let ended = write!(
            self,
            sqlx::query("UPDATE pauses SET resumed_at = $3 WHERE namespace = $1 AND queue = $2 AND resumed_at IS NULL")
                .bind(namespace.unwrap_or_default())
                .bind(queue.unwrap_or_default())
                .bind(now)
        );
        match ended {
            0 => Err(Error::not_found(format!("a pause of {}", paused_scope(namespace, queue)))),
            _ => Ok(()),
        }
    }

    /// All pauses that are in force, the widest first.
    pub async fn pauses(&self) -> Result<Vec<PauseRow>> {
        let rows: Vec<Row> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT namespace, queue, paused_by, reason, paused_at FROM pauses WHERE resumed_at IS NULL ORDER BY namespace, queue"
        )
        .fetch_all(conn)
        .await?
        });
        Ok(rows.into_iter().map(PauseRow::from).collect())
    }
}

/// What a pause is of, in words.
pub fn paused_scope(namespace: Option<&str>, queue: Option<&str>) -> String {
    match (namespace, queue) {
        (None, None) => "everything".into(),
        (None, Some(queue)) => format!("queue `{queue}`"),
        (Some(namespace), None) => format!("namespace `{namespace}`"),
        (Some(namespace), Some(queue)) => format!("queue `{queue}` in namespace `{namespace}`"),
    }
}
