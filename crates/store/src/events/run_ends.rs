//! What follows from the ends of followed runs: statistics of jobs, and events that say so.
//!
//! A row of `run_ends` goes in the transaction that does what follows from it, so each end, which is one per generation,
//! counts exactly once, whichever process dies in between and however many look at the same time.

use mainspring_boxed::boxed;
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_core::{Micros, RunId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::db::{Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::events::announce::{self, EventRow};
use crate::events::following::heard;

/// What one call did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Concluded {
    /// Ends that were counted.
    pub ends: usize,
    /// Events that were written down and have to be delivered.
    pub events: usize,
}

#[derive(sqlx::FromRow)]
struct EndRow {
    run_id: RunId,
    generation: i16,
    state: i16,
    finished_at: Micros,
    namespace: String,
    name: String,
    heard: bool,
    #[sqlx(rename = "trigger")]
    started_by: Option<String>,
    job_id: Option<Uuid>,
    job_depth: Option<i32>,
    job_cause: Option<Uuid>,
    started_at: Option<Micros>,
    task_finished_at: Option<Micros>,
}

#[boxed]
impl Store {
    /// Does what follows from a batch of ends, in one transaction. `new_id` makes ids of events.
    pub async fn conclude_run_ends(
        &self,
        now: Micros,
        limit: i64,
        new_id: &(dyn Fn() -> Uuid + Sync),
    ) -> Result<Concluded> {
        let waiting: Vec<(RunId,)> =
            read!(self, |conn| sqlx::query_as("SELECT run_id FROM run_ends LIMIT 1").fetch_all(conn).await?);
        let mut concluded = Concluded::default();
        if waiting.is_empty() {
            return Ok(concluded);
        }
        let mut tx = self.begin().await?;
        for end in take(&mut tx, limit).await? {
            concluded.ends += 1;
            concluded.events += conclude(&mut tx, now, &end, new_id).await?;
        }
        tx.commit().await?;
        Ok(concluded)
    }
}

/// Removes and returns the first ends. Two who do this at once share them out.
async fn take(tx: &mut Tx, limit: i64) -> Result<Vec<EndRow>> {
    let sql = locking!(
        tx,
        "SELECT run_id, generation FROM run_ends ORDER BY run_id, generation LIMIT $1",
        "FOR UPDATE SKIP LOCKED"
    );
    let keys: Vec<(RunId, i16)> = within!(tx, |conn| sqlx::query_as(sql).bind(limit).fetch_all(conn).await?);
    let mut ends = Vec::with_capacity(keys.len());
    for (run, generation) in keys {
        let end: Option<EndRow> =
            within!(tx, |conn| sqlx::query_as(DETAILS).bind(run).bind(generation).fetch_optional(conn).await?);
        let gone = within!(
            tx,
            sqlx::query("DELETE FROM run_ends WHERE run_id = $1 AND generation = $2").bind(run).bind(generation)
        );
        // Without a workflow there is no follower left.
        ends.extend(end.filter(|_| gone == 1));
    }
    Ok(ends)
}

// The task of a job is the first of its workflow; a reopening may have moved its end aside meanwhile.
const DETAILS: &str = concat!(
    "SELECT e.run_id, e.generation, e.state, e.finished_at, w.namespace, w.name, d.trigger, j.id AS job_id, j.depth AS job_depth, j.cause AS job_cause, ",
    heard!(),
    " AS heard, coalesce(h.started_at, s.started_at) AS started_at, coalesce(h.finished_at, s.finished_at) AS task_finished_at \
     FROM run_ends e JOIN workflows w ON w.id = e.workflow_id \
     LEFT JOIN run_details d ON d.run_id = e.run_id \
     LEFT JOIN jobs j ON j.workflow_id = e.workflow_id \
     LEFT JOIN history h ON h.run_id = e.run_id AND h.idx = 0 AND h.item = -1 AND h.generation = e.generation \
     LEFT JOIN history_superseded s ON s.run_id = e.run_id AND s.idx = 0 AND s.item = -1 AND s.generation = e.generation \
     WHERE e.run_id = $1 AND e.generation = $2"
);

async fn conclude(tx: &mut Tx, now: Micros, end: &EndRow, new_id: &(dyn Fn() -> Uuid + Sync)) -> Result<usize> {
    let state =
        RunState::try_from(end.state).map_err(|error| Error::bad_row("run_ends", "state", end.run_id, error))?;
    let mut emitted = 0;
    if end.heard {
        let event = event_of(
            end,
            now,
            new_id(),
            format!("run.{}", state.word()),
            end.run_id.to_string(),
            json!({
                "run": end.run_id,
                "workflow": end.name,
                "namespace": end.namespace,
                "status": state.word(),
                "generation": end.generation,
                "finished_at": rfc3339(end.finished_at),
            }),
        );
        announce::insert(tx, &event).await?;
        emitted += 1;
    }
    let Some(job) = end.job_id else { return Ok(emitted) };
    let duration = end.started_at.zip(end.task_finished_at).map(|(from, to)| (to - from).max(0));
    count(tx, job, end, state, duration).await?;
    let word = match state {
        RunState::Success => "completed",
        RunState::Failed => "failed",
        _ => return Ok(emitted),
    };
    let data = json!({
        "job_id": job,
        "name": end.name,
        "namespace": end.namespace,
        "execution_id": end.run_id,
        "status": state.word(),
        "duration_ms": duration.map(|duration| duration / 1_000),
        "completed_at": rfc3339(end.finished_at),
    });
    let event = event_of(end, now, new_id(), format!("scheduler:job.{word}"), job.to_string(), data);
    announce::insert(tx, &event).await?;
    Ok(emitted + 1)
}

fn event_of(end: &EndRow, now: Micros, id: Uuid, name: String, key: String, data: Value) -> EventRow {
    let lineage = Lineage::of(end.run_id, end.started_by.as_deref(), end.job_depth, end.job_cause);
    EventRow {
        id,
        namespace: end.namespace.clone(),
        name,
        key: Some(key),
        data,
        source: "system".into(),
        run: Some(end.run_id),
        depth: lineage.depth.saturating_add(1),
        cause: Some(lineage.cause),
        trace: None,
        created_at: now,
    }
}

/// What led to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lineage {
    /// How many runs, each started by an event or by the end of another.
    pub depth: i32,
    /// The event or run at the beginning of them; the run itself if there are none.
    pub cause: Uuid,
}

impl Lineage {
    /// As what started the run says, and the job that it executes.
    fn of(run: RunId, trigger: Option<&str>, job_depth: Option<i32>, job_cause: Option<Uuid>) -> Self {
        let trigger: Option<Value> = trigger.and_then(|text| serde_json::from_str(text).ok());
        let field = |name: &str| trigger.as_ref().and_then(|trigger| trigger.get(name));
        let depth = field("depth").and_then(Value::as_i64).and_then(|depth| i32::try_from(depth).ok()).unwrap_or(0);
        let cause = field("cause").and_then(Value::as_str).and_then(|text| text.parse().ok());
        Self { depth: depth.max(job_depth.unwrap_or(0)), cause: cause.or(job_cause).unwrap_or(run) }
    }
}

async fn count(tx: &mut Tx, job: Uuid, end: &EndRow, state: RunState, duration: Option<Micros>) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "UPDATE jobs SET executions = executions + 1, successes = successes + $2, failures = failures + $3, \
             measured = measured + $4, duration = duration + $5, \
             last_run_at = CASE WHEN last_run_at > $6 THEN last_run_at ELSE $6 END WHERE id = $1",
        )
        .bind(job)
        .bind(i64::from(state == RunState::Success))
        .bind(i64::from(state == RunState::Failed))
        .bind(i64::from(duration.is_some()))
        .bind(duration.unwrap_or(0))
        .bind(end.started_at.unwrap_or(end.finished_at))
    );
    Ok(())
}

#[boxed]
impl Store {
    /// What led to a run.
    pub async fn lineage(&self, run: RunId) -> Result<Lineage> {
        type Row = (Option<String>, Option<i32>, Option<Uuid>);
        let row: Option<Row> = read!(self, |conn| sqlx::query_as(
            "SELECT d.trigger, j.depth, j.cause FROM runs r LEFT JOIN run_details d ON d.run_id = r.id \
             LEFT JOIN jobs j ON j.workflow_id = r.workflow_id WHERE r.id = $1"
        )
        .bind(run)
        .fetch_optional(conn)
        .await?);
        let (trigger, depth, cause) = row.unwrap_or_default();
        Ok(Lineage::of(run, trigger.as_deref(), depth, cause))
    }
}
