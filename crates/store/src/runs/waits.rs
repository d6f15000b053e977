//! What waiting task runs wait for, and what makes them decidable again.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{Micros, RunId, TaskKey};
use serde_json::Value;
use uuid::Uuid;

use crate::db::{Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::locked::lock_run;
use crate::runs::operate::{Operator, record};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum WaitKind {
    Timer = 0,
    Event = 1,
    Approval = 2,
    Result = 3,
    Child = 4,
    Items = 5,
}

impl WaitKind {
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Event => "event",
            Self::Approval => "approval",
            Self::Result => "result",
            Self::Child => "workflow",
            Self::Items => "items",
        }
    }

    fn from_code(code: i16) -> Option<Self> {
        [Self::Timer, Self::Event, Self::Approval, Self::Result, Self::Child, Self::Items]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// The result of the wait, once it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    Badly,
    Well,
    /// It no longer waits.
    CalledOff,
}

/// What one task run waits, or waited, for.
#[derive(Debug, Clone)]
pub struct WaitRow {
    pub key: TaskKey,
    pub kind: WaitKind,
    pub attempt: i32,
    pub namespace: Option<String>,
    pub event: Option<String>,
    /// The key that an event must carry.
    pub event_key: Option<String>,
    pub child: Option<RunId>,
    pub body: Option<Value>,
    pub due_at: Option<Micros>,
    pub created_at: Micros,
    pub outcome: Option<WaitOutcome>,
    pub output: Option<Value>,
    pub actor: Option<String>,
    pub reason: Option<String>,
}

#[derive(sqlx::FromRow)]
struct Row {
    run_id: RunId,
    idx: i32,
    item: i32,
    kind: i16,
    attempt: i32,
    namespace: Option<String>,
    event: Option<String>,
    key: Option<String>,
    child: Option<Uuid>,
    body: Option<String>,
    due_at: Option<Micros>,
    created_at: Micros,
    outcome: Option<i16>,
    output: Option<String>,
    actor: Option<String>,
    reason: Option<String>,
}

impl TryFrom<Row> for WaitRow {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let key = TaskKey { run: row.run_id, index: row.idx, item: row.item };
        let json = |text: Option<String>, column| {
            text.map(|text| serde_json::from_str(&text))
                .transpose()
                .map_err(|error| Error::bad_row("waits", column, key, error))
        };
        Ok(Self {
            key,
            kind: WaitKind::from_code(row.kind).ok_or_else(|| Error::bad_row("waits", "kind", key, row.kind))?,
            attempt: row.attempt,
            namespace: row.namespace,
            event: row.event,
            event_key: row.key,
            child: row.child,
            body: json(row.body, "body")?,
            due_at: row.due_at,
            created_at: row.created_at,
            outcome: row.outcome.map(|code| match code {
                0 => WaitOutcome::Badly,
                1 => WaitOutcome::Well,
                _ => WaitOutcome::CalledOff,
            }),
            output: json(row.output, "output")?,
            actor: row.actor,
            reason: row.reason,
        })
    }
}

/// An answer to a waiting task run.
#[derive(Debug, Clone)]
pub struct WaitResult {
    pub kind: WaitKind,
    pub succeeded: bool,
    /// JSON.
    pub output: Option<String>,
    pub reason: Option<String>,
}

/// What an ended item left.
#[derive(Debug, Clone)]
pub struct ItemResult {
    pub item: i32,
    pub state: TaskState,
    /// It counts as a failure for the whole.
    pub failed: bool,
    pub error: Option<String>,
    pub output: Option<Value>,
}

const COLUMNS: &str = "SELECT run_id, idx, item, kind, attempt, namespace, event, key, child, body, due_at, created_at, outcome, output, actor, reason FROM waits";

#[boxed]
impl Store {
    /// What these task runs wait for; those that never waited are missing.
    pub async fn waits(&self, keys: &[TaskKey]) -> Result<HashMap<TaskKey, WaitRow>> {
        let mut found = HashMap::with_capacity(keys.len());
        for key in keys {
            if let Some(row) = self.wait(*key).await? {
                found.insert(*key, row);
            }
        }
        Ok(found)
    }

    pub async fn wait(&self, key: TaskKey) -> Result<Option<WaitRow>> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE run_id = $1 AND idx = $2 AND item = $3"));
        let row: Option<Row> = read!(self, |conn| sqlx::query_as(sql)
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .fetch_optional(conn)
            .await?);
        row.map(WaitRow::try_from).transpose()
    }

    /// Everything that a run waits or waited for.
    pub async fn waits_of_run(&self, run: RunId) -> Result<Vec<WaitRow>> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE run_id = $1 ORDER BY idx, item"));
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql).bind(run).fetch_all(conn).await?);
        rows.into_iter().map(WaitRow::try_from).collect()
    }

    /// The approvals that no person has answered yet, the oldest first.
    pub async fn open_approvals(&self, limit: i64) -> Result<Vec<WaitRow>> {
        let sql = sqlx::AssertSqlSafe(format!(
            "{COLUMNS} WHERE kind = $1 AND outcome IS NULL ORDER BY created_at, run_id, idx, item LIMIT $2"
        ));
        let kind = WaitKind::Approval.code();
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql).bind(kind).bind(limit).fetch_all(conn).await?);
        rows.into_iter().map(WaitRow::try_from).collect()
    }

    /// Who waits for an event of that name.
    pub async fn waits_for_event(&self, namespace: &str, event: &str) -> Result<Vec<WaitRow>> {
        let sql = sqlx::AssertSqlSafe(format!(
            "{COLUMNS} WHERE namespace = $1 AND event = $2 AND event IS NOT NULL AND outcome IS NULL"
        ));
        let rows: Vec<Row> =
            read!(self, |conn| sqlx::query_as(sql).bind(namespace).bind(event).fetch_all(conn).await?);
        rows.into_iter().map(WaitRow::try_from).collect()
    }

    /// Tells a waiting task run what it waits for. False if it does not wait for that (any more).
    pub async fn happened(
        &self,
        now: Micros,
        key: TaskKey,
        result: &WaitResult,
        operator: Option<(Uuid, &str, &Operator)>,
    ) -> Result<bool> {
        let mut tx = self.begin().await?;
        let mut run = lock_run(&mut tx, key.run).await?;
        let waits = within!(
            tx,
            sqlx::query(sql!(
                "UPDATE waits SET outcome = $5, output = $6, actor = $7, reason = $8, happened_at = $9 \
                 WHERE run_id = $1 AND idx = $2 AND item = $3 AND kind = $4 AND outcome IS NULL \
                 AND EXISTS (SELECT 1 FROM task_runs t WHERE t.run_id = $1 AND t.idx = $2 AND t.item = \
                 $3 AND t.state = {task.waiting})"
            ),)
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .bind(result.kind.code())
            .bind(i16::from(result.succeeded))
            .bind(&result.output)
            .bind(operator.map(|(_, _, operator)| operator.by.as_str()))
            .bind(&result.reason)
            .bind(now)
        );
        if waits == 0 {
            return Ok(false);
        }
        // What happened to a paused run is concluded when that goes on.
        let next = if run.state == RunState::Running { TaskState::Deciding } else { TaskState::Held };
        within!(
            tx,
            sqlx::query(sql!(
                "UPDATE task_runs SET state = $5, due_at = $4 WHERE run_id = $1 AND idx = $2 \
                 AND item = $3 AND state = {task.waiting}"
            ))
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .bind(now)
            .bind(next.code())
        );
        if let Some((id, action, operator)) = operator {
            record(&mut tx, now, id, &mut run, action, operator).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// The value of an item, as it was when the task was expanded.
    pub async fn item_value(&self, key: TaskKey) -> Result<Option<Value>> {
        let row: Option<(String,)> =
            read!(self, |conn| sqlx::query_as("SELECT value FROM items WHERE run_id = $1 AND idx = $2 AND item = $3")
                .bind(key.run)
                .bind(key.index)
                .bind(key.item)
                .fetch_optional(conn)
                .await?);
        row.map(|(text,)| serde_json::from_str(&text).map_err(|error| Error::bad_row("items", "value", key, error)))
            .transpose()
    }

    /// What the items of a task left, in their order.
    pub async fn item_results(&self, run: RunId, index: i32) -> Result<Vec<ItemResult>> {
        type Ended = (i32, i16, i16, Option<String>, Option<String>);
        let rows: Vec<Ended> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT item, state, flags, error, output FROM history WHERE run_id = $1 AND idx = $2 AND item >= 0 ORDER BY item"
        )
        .bind(run)
        .bind(index)
        .fetch_all(conn)
        .await?
        });
        rows.into_iter()
            .map(|(item, state, flags, error, output)| {
                let key = TaskKey { run, index, item };
                let state =
                    TaskState::try_from(state).map_err(|error| Error::bad_row("history", "state", key, error))?;
                let failed =
                    crate::runs::flags::upstream(state, flags) == Some(mainspring_core::state::Upstream::Failed);
                let output = output
                    .map(|text| serde_json::from_str(&text))
                    .transpose()
                    .map_err(|error| Error::bad_row("history", "output", key, error))?;
                Ok(ItemResult { item, state, failed, error, output })
            })
            .collect()
    }
}

/// Removes what a stopped run waited for; its children are called off, durably.
pub(crate) async fn call_off(tx: &mut Tx, now: Micros, run: RunId) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO continuations (run_id, kind, created_at) SELECT child, 4, $2 FROM waits \
             WHERE run_id = $1 AND child IS NOT NULL AND outcome IS NULL",
        )
        .bind(run)
        .bind(now)
    );
    within!(
        tx,
        sqlx::query("UPDATE waits SET outcome = 2, happened_at = $2 WHERE run_id = $1 AND outcome IS NULL")
            .bind(run)
            .bind(now)
    );
    Ok(())
}

/// A task run stopped waiting for its child before that ended: the child is called off.
#[boxed]
impl Store {
    pub async fn call_off_child(&self, now: Micros, key: TaskKey) -> Result<()> {
        let mut tx = self.begin().await?;
        let sql = locking!(
            tx,
            "SELECT child FROM waits WHERE run_id = $1 AND idx = $2 AND item = $3 AND child IS NOT NULL AND outcome IS NULL",
            "FOR UPDATE"
        );
        let child: Option<(RunId,)> = within!(tx, |conn| sqlx::query_as(sql)
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .fetch_optional(conn)
            .await?);
        let Some((child,)) = child else { return Ok(()) };
        within!(
            tx,
            sqlx::query("UPDATE waits SET outcome = 2, happened_at = $4 WHERE run_id = $1 AND idx = $2 AND item = $3")
                .bind(key.run)
                .bind(key.index)
                .bind(key.item)
                .bind(now)
        );
        crate::runs::proceed::enqueue(&mut tx, now, child, crate::runs::proceed::CANCEL_CHILD).await?;
        tx.commit().await
    }
}
