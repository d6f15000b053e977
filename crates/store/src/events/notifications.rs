//! The outbox: messages that are to go out, once per cause and target, and what became of each.

use mainspring_boxed::boxed;
use mainspring_core::workflow::{Notice, Notification};
use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::db::{Store, Tx, read, within, write};
use crate::error::{Error, Result};
use crate::runs::flags::RUN_TIMED_OUT;

/// A message to be sent.
#[derive(Debug, Clone)]
pub struct NewNotification {
    pub id: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub notice: Notice,
    /// What it is about: a target receives the same cause once.
    pub cause: String,
    pub run: Option<RunId>,
    /// JSON.
    pub target: String,
    pub target_key: String,
    /// JSON.
    pub body: String,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationState {
    Waiting,
    Sent,
    GivenUp,
    /// Sent together with other messages.
    InDigest,
}

impl NotificationState {
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Sent, Self::GivenUp, Self::InDigest];

    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sent => "sent",
            Self::GivenUp => "given_up",
            Self::InDigest => "in_digest",
        }
    }

    fn code(self) -> i16 {
        match self {
            Self::Waiting => 0,
            Self::Sent => 1,
            Self::GivenUp => 2,
            Self::InDigest => 3,
        }
    }
}

/// A message as it is kept.
#[derive(Debug, Clone)]
pub struct NotificationRow {
    pub id: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub notice: Notice,
    pub run: Option<RunId>,
    pub target: String,
    pub target_key: String,
    pub body: String,
    pub state: NotificationState,
    pub attempts: i32,
    pub due_at: Micros,
    pub error: Option<String>,
    pub created_at: Micros,
    pub sent_at: Option<Micros>,
}

/// A failed run without a notification.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct UnnoticedRun {
    pub run_id: RunId,
    pub version: i64,
    pub state: i16,
    pub generation: i16,
    flags: i16,
    pub finished_at: Option<Micros>,
    pub reason: Option<String>,
}

impl UnnoticedRun {
    pub fn timed_out(&self) -> bool {
        self.flags & RUN_TIMED_OUT != 0
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    namespace: String,
    workflow: String,
    kind: i16,
    run_id: Option<RunId>,
    target: String,
    target_key: String,
    body: String,
    status: i16,
    attempts: i32,
    due_at: Micros,
    error: Option<String>,
    created_at: Micros,
    sent_at: Option<Micros>,
}

impl TryFrom<Row> for NotificationRow {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |column, value: i16| Error::bad_row("notifications", column, row.id, value);
        Ok(Self {
            id: row.id,
            namespace: row.namespace,
            workflow: row.workflow,
            notice: Notice::try_from(row.kind).map_err(|_| bad("kind", row.kind))?,
            run: row.run_id,
            target: row.target,
            target_key: row.target_key,
            body: row.body,
            state: NotificationState::ALL
                .into_iter()
                .find(|state| state.code() == row.status)
                .ok_or_else(|| bad("status", row.status))?,
            attempts: row.attempts,
            due_at: row.due_at,
            error: row.error,
            created_at: row.created_at,
            sent_at: row.sent_at,
        })
    }
}

const COLUMNS: &str = "SELECT id, namespace, workflow, kind, run_id, target, target_key, body, status, attempts, due_at, error, \
    created_at, sent_at FROM notifications";

#[boxed]
impl Store {
    /// Runs that did not succeed and have no notification yet, oldest first.
    pub async fn unnoticed_runs(&self, limit: i64) -> Result<Vec<UnnoticedRun>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT u.run_id, r.version, r.state, r.generation, r.flags, r.finished_at, d.reason FROM unsuccessful_runs u \
             JOIN runs r ON r.id = u.run_id LEFT JOIN run_details d ON d.run_id = u.run_id \
             WHERE NOT u.noticed ORDER BY u.run_id LIMIT $1"
        )
        .bind(limit)
        .fetch_all(conn)
        .await?
        }))
    }

    /// Marks these runs as looked at, together with their notifications.
    pub async fn notice_runs(&self, now: Micros, runs: &[RunId], messages: &[NewNotification]) -> Result<()> {
        let mut tx = self.begin().await?;
        for run in runs {
            within!(tx, sqlx::query("UPDATE unsuccessful_runs SET noticed = TRUE WHERE run_id = $1").bind(run));
        }
        for message in messages {
            add(&mut tx, now, message).await?;
        }
        tx.commit().await
    }

    /// Messages that are due, oldest first, with the time of the last message to their target.
    pub async fn due_notifications(&self, now: Micros, limit: i64) -> Result<Vec<NotificationRow>> {
        let sql =
            sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE status = 0 AND due_at <= $1 ORDER BY due_at, id LIMIT $2"));
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql).bind(now).bind(limit).fetch_all(conn).await?);
        rows.into_iter().map(NotificationRow::try_from).collect()
    }

    /// The time of the last message to a target.
    pub async fn last_told(&self, target_key: &str) -> Result<Option<Micros>> {
        let (at,): (Option<Micros>,) =
            read!(self, |conn| sqlx::query_as("SELECT max(sent_at) FROM notifications WHERE target_key = $1")
                .bind(target_key)
                .fetch_one(conn)
                .await?);
        Ok(at)
    }

    /// Notes what became of messages that were sent together: the first as `state`, the others as sent with it.
    pub async fn notifications_sent(&self, now: Micros, ids: &[Uuid]) -> Result<()> {
        let mut tx = self.begin().await?;
        for (index, id) in ids.iter().enumerate() {
            let state = if index == 0 { NotificationState::Sent } else { NotificationState::InDigest };
            within!(
                tx,
                sqlx::query(
                    "UPDATE notifications SET status = $2, sent_at = $3, attempts = attempts + 1, error = NULL \
                     WHERE id = $1 AND status = 0"
                )
                .bind(id)
                .bind(state.code())
                .bind(now)
            );
        }
        tx.commit().await
    }

    /// Puts messages off; `None` gives them up.
    pub async fn put_notifications_off(&self, ids: &[Uuid], until: Option<Micros>, error: Option<&str>) -> Result<()> {
        let mut tx = self.begin().await?;
        for id in ids {
            within!(
                tx,
                sqlx::query(
                    "UPDATE notifications SET status = $2, due_at = coalesce($3, due_at), error = coalesce($4, error), \
                     attempts = attempts + CASE WHEN CAST($4 AS text) IS NULL THEN 0 ELSE 1 END WHERE id = $1 AND status = 0"
                )
                .bind(id)
                .bind(if until.is_some() { NotificationState::Waiting.code() } else { NotificationState::GivenUp.code() })
                .bind(until)
                .bind(error)
            );
        }
        tx.commit().await
    }

    /// The newest messages of these namespaces (`None` is all), in one state or in any.
    pub async fn notifications(
        &self,
        namespaces: Option<&[String]>,
        state: Option<NotificationState>,
        limit: i64,
    ) -> Result<Vec<NotificationRow>> {
        let sql = sqlx::AssertSqlSafe(format!(
            "{COLUMNS} WHERE (CAST($1 AS smallint) IS NULL OR status = $1) ORDER BY created_at DESC, id DESC LIMIT $2"
        ));
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql)
            .bind(state.map(NotificationState::code))
            .bind(limit)
            .fetch_all(conn)
            .await?);
        let seen = |row: &Row| namespaces.is_none_or(|names| names.contains(&row.namespace));
        rows.into_iter().filter(seen).map(NotificationRow::try_from).collect()
    }

    pub async fn forget_notifications(&self, before: Micros) -> Result<u64> {
        Ok(write!(self, sqlx::query("DELETE FROM notifications WHERE created_at < $1 AND status <> 0").bind(before)))
    }

    /// The notification targets of a namespace, for all its workflows.
    pub async fn namespace_notifications(&self, namespace: &str) -> Result<Vec<Notification>> {
        let text: Option<(Option<String>,)> =
            read!(self, |conn| sqlx::query_as("SELECT notifications FROM namespaces WHERE name = $1")
                .bind(namespace)
                .fetch_optional(conn)
                .await?);
        match text.and_then(|row| row.0) {
            None => Ok(Vec::new()),
            Some(text) => serde_json::from_str(&text)
                .map_err(|error| Error::bad_row("namespaces", "notifications", namespace, error)),
        }
    }

    pub async fn set_namespace_notifications(&self, now: Micros, namespace: &str, all: &[Notification]) -> Result<()> {
        let text = (!all.is_empty()).then(|| serde_json::to_string(all).unwrap_or_default());
        write!(
            self,
            sqlx::query(
                "INSERT INTO namespaces (name, notifications, created_at, updated_at) VALUES ($1, $2, $3, $3) \
                 ON CONFLICT (name) DO UPDATE SET notifications = $2, updated_at = $3"
            )
            .bind(namespace)
            .bind(text)
            .bind(now)
        );
        Ok(())
    }
}

/// A target receives the same cause once.
pub(crate) async fn add(tx: &mut Tx, now: Micros, message: &NewNotification) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO notifications (id, namespace, workflow, kind, cause, run_id, target, target_key, body, due_at, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10) ON CONFLICT DO NOTHING"
        )
        .bind(message.id)
        .bind(&message.namespace)
        .bind(&message.workflow)
        .bind(message.notice.code())
        .bind(&message.cause)
        .bind(message.run)
        .bind(&message.target)
        .bind(&message.target_key)
        .bind(&message.body)
        .bind(now)
    );
    Ok(())
}
