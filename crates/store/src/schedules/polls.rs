//! Polls: the workflows of their checks, what checks find, and the keys that runs were started for.
//!
//! A key is remembered in the transaction that starts its run, which is also the one that delivers the end of the check. So a
//! key has its run exactly once, whichever process dies in between. A key whose run was refused is not remembered: the next
//! check finds it again.

use mainspring_boxed::boxed;
use mainspring_core::work::BundleFile;
use mainspring_core::workflow::Workflow;
use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::db::{Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::events::announce::EventRow;
use crate::events::deliveries::{DeliveryOutcome, DeliveryRow};
use crate::runs::create::{Created, NewRun, create_one};
use crate::schedules::trigger_sync::id_of;
use crate::workflows::versions::{PutOptions, put_in};

/// How many keys of one trigger are remembered, those that were found last.
const MOST_KEYS: i64 = 10_000;
/// A key that was not found for this long is forgotten: 90 days.
const FORGOTTEN_AFTER: Micros = 90 * 24 * 60 * 60 * 1_000_000;
/// The longest error that is kept, in characters.
const LONGEST_ERROR: usize = 2_000;

/// How a poll is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollRow {
    /// How many checks have ended.
    pub checks: i64,
    pub checked_at: Option<Micros>,
    /// The last of them.
    pub check_run: Option<RunId>,
    /// How many runs it has started.
    pub started: i64,
    pub last_key: Option<String>,
    /// The run that it started last.
    pub last_run: Option<RunId>,
    /// How many checks in a row have failed.
    pub failures: i64,
    pub error: Option<String>,
}

/// The columns of `polls` beside those of a trigger, which need not have a row there.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Columns {
    checks: Option<i64>,
    checked_at: Option<Micros>,
    check_run: Option<RunId>,
    started: Option<i64>,
    last_key: Option<String>,
    last_run: Option<RunId>,
    failures: Option<i64>,
    error: Option<String>,
}

impl From<Columns> for Option<PollRow> {
    fn from(row: Columns) -> Self {
        Some(PollRow {
            checks: row.checks?,
            checked_at: row.checked_at,
            check_run: row.check_run,
            started: row.started.unwrap_or(0),
            last_key: row.last_key,
            last_run: row.last_run,
            failures: row.failures.unwrap_or(0),
            error: row.error,
        })
    }
}

/// What the end of a check means.
#[derive(Debug, Clone)]
pub enum Finding {
    /// It failed, or what it put out could not be understood.
    Failed(String),
    /// It found nothing that counts.
    NothingFound(String),
    /// It found a key that a run was started for.
    KnownKey(String),
    /// It found a key that is new, as far as could be seen, and this run is to be started for it.
    New { key: String, run: Box<NewRun> },
}

#[boxed]
impl Store {
    /// Whether a run was started for this key.
    pub async fn knows_poll_key(&self, trigger: Uuid, key: &str) -> Result<bool> {
        let found: Option<(i32,)> =
            read!(self, |conn| sqlx::query_as("SELECT 1 FROM poll_keys WHERE trigger_id = $1 AND key = $2")
                .bind(trigger)
                .bind(key)
                .fetch_optional(conn)
                .await?);
        Ok(found.is_some())
    }
}

/// Stores the workflows that execute the checks of a version which becomes the newest, and has its polls start runs of them.
pub(crate) async fn put_checks(
    tx: &mut Tx,
    now: Micros,
    workflow_id: Uuid,
    workflow: &Workflow,
    files: &[BundleFile],
) -> Result<()> {
    for trigger in &workflow.triggers {
        let Some(check) = workflow.check_of(trigger) else { continue };
        // One check per trigger: they share their id.
        let id = id_of(workflow_id, &trigger.id);
        within!(
            tx,
            sqlx::query(
                "INSERT INTO workflows (id, namespace, name, check_of, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (namespace, name) DO NOTHING"
            )
            .bind(id)
            .bind(&check.namespace)
            .bind(&check.name)
            .bind(workflow_id)
            .bind(now)
        );
        let source = serde_json::to_string(&check)
            .map_err(|error| Error::Conflict(format!("the check of a poll cannot be stored: {error}")))?;
        let version = Box::pin(put_in(tx, now, id, &check, &source, files, &PutOptions::default())).await?;
        within!(tx, sqlx::query("UPDATE triggers SET check_version = $2 WHERE id = $1").bind(id).bind(version.id));
        within!(
            tx,
            sqlx::query("INSERT INTO polls (trigger_id) VALUES ($1) ON CONFLICT (trigger_id) DO NOTHING").bind(id)
        );
    }
    Ok(())
}

/// Does what follows from the end of a check.
pub(crate) async fn note(
    tx: &mut Tx,
    now: Micros,
    event: &EventRow,
    trigger: Uuid,
    finding: &Finding,
) -> Result<DeliveryRow> {
    let mut delivery =
        DeliveryRow { listener: trigger, outcome: DeliveryOutcome::Ignored, run: None, job: None, reason: None };
    lock(tx, trigger).await?;
    let mut error = None;
    let key = match finding {
        Finding::Failed(reason) => {
            let reason: String = reason.replace('\0', "").chars().take(LONGEST_ERROR).collect();
            error = Some(reason.clone());
            (delivery.outcome, delivery.reason) = (DeliveryOutcome::Failed, Some(reason));
            None
        }
        Finding::NothingFound(reason) => {
            delivery.reason = Some(reason.clone());
            None
        }
        Finding::KnownKey(key) => {
            see(tx, now, trigger, key).await?;
            delivery.reason = Some(KNOWN.into());
            Some(key)
        }
        Finding::New { key, run } => {
            delivery = start(tx, now, trigger, key, run, delivery).await?;
            Some(key)
        }
    };
    within!(
        tx,
        sqlx::query(
            "UPDATE polls SET checks = checks + 1, checked_at = $2, check_run = $3, started = started + $4, \
             last_key = coalesce($5, last_key), last_run = coalesce($6, last_run), \
             failures = CASE WHEN $7 IS NULL THEN 0 ELSE failures + 1 END, error = $7 WHERE trigger_id = $1"
        )
        .bind(trigger)
        .bind(now)
        .bind(event.run)
        .bind(i64::from(delivery.run.is_some()))
        .bind(key.map(String::as_str))
        .bind(delivery.run)
        .bind(error)
    );
    Ok(delivery)
}

const KNOWN: &str = "a run was started for its key before";

/// Two ends of checks of one trigger come one after the other.
async fn lock(tx: &mut Tx, trigger: Uuid) -> Result<()> {
    let sql = locking!(tx, "SELECT trigger_id FROM polls WHERE trigger_id = $1", "FOR NO KEY UPDATE");
    let found: Option<(Uuid,)> = within!(tx, |conn| sqlx::query_as(sql).bind(trigger).fetch_optional(conn).await?);
    match found {
        Some(_) => Ok(()),
        None => Err(Error::not_found(format!("poll {trigger}"))),
    }
}

/// Notes that a key was found; whether it is known.
async fn see(tx: &mut Tx, now: Micros, trigger: Uuid, key: &str) -> Result<bool> {
    let known = within!(
        tx,
        sqlx::query("UPDATE poll_keys SET seen_at = $3 WHERE trigger_id = $1 AND key = $2")
            .bind(trigger)
            .bind(key)
            .bind(now)
    );
    Ok(known > 0)
}

async fn start(
    tx: &mut Tx,
    now: Micros,
    trigger: Uuid,
    key: &str,
    run: &NewRun,
    mut delivery: DeliveryRow,
) -> Result<DeliveryRow> {
    if see(tx, now, trigger, key).await? {
        delivery.reason = Some(KNOWN.into());
        return Ok(delivery);
    }
    let Some(started) = Some(create_one(tx, now, run).await?).filter(|made| *made != Created::Refused) else {
        delivery.reason = Some("the workflow's concurrency limit is used up: the next check finds it again".into());
        return Ok(delivery);
    };
    (delivery.outcome, delivery.run) = (DeliveryOutcome::Started, started.run());
    within!(
        tx,
        sqlx::query("INSERT INTO poll_keys (trigger_id, key, run_id, seen_at) VALUES ($1, $2, $3, $4)")
            .bind(trigger)
            .bind(key)
            .bind(run.id)
            .bind(now)
    );
    forget(tx, now, trigger).await?;
    Ok(delivery)
}

/// Forgets keys that are old or too many.
async fn forget(tx: &mut Tx, now: Micros, trigger: Uuid) -> Result<()> {
    let oldest: Option<(Micros,)> = within!(tx, |conn| sqlx::query_as(
        "SELECT seen_at FROM poll_keys WHERE trigger_id = $1 ORDER BY seen_at DESC LIMIT 1 OFFSET $2"
    )
    .bind(trigger)
    .bind(MOST_KEYS - 1)
    .fetch_optional(conn)
    .await?);
    let expired = now.saturating_sub(FORGOTTEN_AFTER);
    within!(
        tx,
        sqlx::query("DELETE FROM poll_keys WHERE trigger_id = $1 AND seen_at < $2")
            .bind(trigger)
            .bind(oldest.map_or(expired, |oldest| oldest.0.max(expired)))
    );
    Ok(())
}
