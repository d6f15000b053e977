//! Making runs.

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId};

use crate::access::{AuditRow, add_audit_within};
use crate::db::{Db, Store, Tx, read, within};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::admission::{self, Admission};
use crate::runs::flags::{self, CHUNK};
use crate::unit::is_within_unit;
use crate::workflows::versions::VersionRef;
use crate::{postgres, sqlite};
use mainspring_core::state::RunState;
use mainspring_core::workflow::Overlap;

/// A run to be made. Its inputs were validated; its concurrency key, if any, is already a limit's id.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub id: RunId,
    pub version: VersionRef,
    /// Overrides the workflow's priority.
    pub priority: Option<i16>,
    /// JSON object.
    pub inputs: Option<String>,
    pub correlation_id: Option<String>,
    /// What started it, as JSON.
    pub trigger: Option<String>,
    /// The same key in the same namespace makes one run.
    pub idempotency_key: Option<String>,
    /// The concurrency limit this run counts against.
    pub limit: Option<i32>,
    /// What happens when the limit is used up; that of the workflow unless given.
    pub overlap: Option<Overlap>,
    /// The time of day at which it begins, if not at once. It takes its place behind its limit then, whatever `overlap` says.
    pub start_at: Option<Micros>,
    /// The audit row of the creation, in the namespace that it concerns.
    pub audit: Option<AuditRow>,
}

impl NewRun {
    /// Whether making it locks rows that other runs share: those of its limit or of its pools.
    pub fn takes_slots(&self) -> bool {
        self.limit.is_some() || !self.version.pools.is_empty()
    }

    /// What happens when the limit is used up.
    pub fn overlap(&self) -> Option<Overlap> {
        self.overlap.or_else(|| Some(self.version.concurrency.as_ref()?.overlap))
    }
}

/// What became of a request to make a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    New(RunId),
    /// It waits for a concurrency slot.
    Queued(RunId),
    /// The idempotency key was used before; this is the run it made.
    Repeated(RunId),
    /// Left out: the limit is used up and the policy says skip, or the queue is full.
    Refused,
}

impl Created {
    pub fn run(self) -> Option<RunId> {
        match self {
            Self::New(id) | Self::Queued(id) | Self::Repeated(id) => Some(id),
            Self::Refused => None,
        }
    }
}

/// The columns that `create_runs` writes for one run.
#[derive(Debug, Clone)]
pub(crate) struct RunSeed {
    pub(crate) id: RunId,
    pub(crate) version: i64,
    /// Whether it is made only if this is the newest version of its workflow.
    pub(crate) only_latest: bool,
    pub(crate) workflow: uuid::Uuid,
    pub(crate) state: RunState,
    pub(crate) flags: i16,
    pub(crate) rank: i16,
    pub(crate) open: i32,
    pub(crate) limit: Option<i32>,
    pub(crate) deadline_at: Option<Micros>,
    pub(crate) inputs: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) trigger: Option<String>,
}

impl RunSeed {
    pub(crate) fn new(run: &NewRun, now: Micros, state: RunState) -> Self {
        let version = &run.version;
        let begins = run.start_at.unwrap_or(now);
        Self {
            id: run.id,
            version: version.id,
            only_latest: false,
            workflow: version.workflow_id,
            state,
            flags: version.run_flags,
            rank: flags::rank(run.priority.unwrap_or(version.priority)),
            open: version.main_tasks,
            limit: run.limit,
            deadline_at: version.timeout_ms.map(|timeout| begins.saturating_add(timeout as i64 * 1_000)),
            inputs: run.inputs.clone(),
            correlation_id: run.correlation_id.clone(),
            trigger: run.trigger.clone(),
        }
    }

    pub(crate) fn has_details(&self) -> bool {
        self.inputs.is_some() || self.correlation_id.is_some() || self.trigger.is_some()
    }
}

#[boxed]
impl Store {
    /// Makes runs, all of them or none. Most go in bulk; those with an idempotency key, without a task, or with very
    /// many tasks, and those that start later, go one by one in the same transaction.
    pub async fn create_runs(&self, now: Micros, runs: &[NewRun]) -> Result<Vec<Created>> {
        // Within the unit of a request everything goes over its connection.
        if runs.iter().all(is_plain) && !is_within_unit() {
            let seeds: Vec<RunSeed> = runs.iter().map(|run| RunSeed::new(run, now, RunState::Running)).collect();
            let pools = pools_of(runs.iter());
            match &*self.db {
                // A single statement in autocommit: one round trip.
                Db::Postgres(pg) => {
                    let mut connection = pg.warm.take(&pg.pool).await?;
                    postgres::runs::create(&mut connection, now, &seeds, &pools).await?;
                    pg.warm.keep(connection);
                }
                Db::Sqlite(sqlite) => {
                    let mut tx = sqlite.begin().await?;
                    sqlite::runs::create(&mut tx, now, &seeds, &pools).await?;
                    tx.commit().await?;
                }
            }
            return Ok(runs.iter().map(|run| Created::New(run.id)).collect());
        }
        let mut tx = self.begin().await?;
        let created = create_all(&mut tx, now, &runs.iter().collect::<Vec<_>>()).await?;
        tx.commit().await?;
        Ok(created)
    }

    /// The run that a key made before.
    pub async fn submitted_run(&self, namespace: &str, key: &str) -> Result<Option<RunId>> {
        let found: Option<(RunId,)> =
            read!(self, |conn| sqlx::query_as("SELECT run_id FROM submissions WHERE namespace = $1 AND key = $2")
                .bind(namespace)
                .bind(key)
                .fetch_optional(conn)
                .await?);
        Ok(found.map(|row| row.0))
    }
}

/// Makes runs within a transaction: in bulk what can be, the others one by one; what became of them, in order.
pub(crate) async fn create_all(tx: &mut Tx, now: Micros, runs: &[&NewRun]) -> Result<Vec<Created>> {
    admission::lock(tx, runs).await?;
    let bulk: Vec<&NewRun> = runs.iter().copied().filter(|run| goes_in_bulk(run)).collect();
    let mut made = create_bulk(tx, now, &bulk).await?.into_iter();
    let mut created = Vec::with_capacity(runs.len());
    for run in runs {
        created.push(match goes_in_bulk(run) {
            true => made.next().unwrap_or(Created::Refused),
            false => create_one(tx, now, run).await?,
        });
    }
    Ok(created)
}

async fn create_bulk(tx: &mut Tx, now: Micros, runs: &[&NewRun]) -> Result<Vec<Created>> {
    let admissions = admission::admit(tx, runs).await?;
    let (mut created, mut seeds) = (Vec::with_capacity(runs.len()), Vec::with_capacity(runs.len()));
    for (run, admission) in runs.iter().zip(&admissions) {
        let (state, what) = match admission {
            Admission::Admitted => (RunState::Running, Created::New(run.id)),
            Admission::Queued => (RunState::Pending, Created::Queued(run.id)),
            Admission::Refused => {
                created.push(Created::Refused);
                continue;
            }
        };
        created.push(what);
        seeds.push(RunSeed::new(run, now, state));
    }
    if !seeds.is_empty() {
        let pools = pools_of(runs.iter().copied());
        match tx {
            Tx::Postgres(pg) => postgres::runs::create(pg, now, &seeds, &pools).await?,
            Tx::Sqlite(sqlite) => sqlite::runs::create(sqlite, now, &seeds, &pools).await?,
        }
    }
    Ok(created)
}

/// Whether it is made with nothing but its rows.
pub(crate) fn is_plain(run: &NewRun) -> bool {
    run.limit.is_none() && goes_in_bulk(run)
}

pub(crate) fn goes_in_bulk(run: &NewRun) -> bool {
    run.idempotency_key.is_none()
        && run.start_at.is_none()
        && run.audit.is_none()
        && run.version.main_tasks > 0
        && run.version.main_tasks as usize <= CHUNK
}

pub(crate) fn pools_of<'r>(runs: impl Iterator<Item = &'r NewRun>) -> Vec<i32> {
    let mut pools: Vec<i32> = runs.flat_map(|run| run.version.pools.iter().copied()).collect();
    pools.sort_unstable();
    pools.dedup();
    pools
}

pub(crate) async fn create_one(tx: &mut Tx, now: Micros, run: &NewRun) -> Result<Created> {
    let created = create_alone(tx, now, run).await?;
    if let (Some(audit), Created::New(_) | Created::Queued(_)) = (&run.audit, created) {
        add_audit_within(tx, audit).await?;
    }
    Ok(created)
}

async fn create_alone(tx: &mut Tx, now: Micros, run: &NewRun) -> Result<Created> {
    if let Some(earlier) = earlier_submission(tx, now, run).await? {
        return Ok(Created::Repeated(earlier));
    }
    if let Some(until) = run.start_at {
        let mut seed = RunSeed::new(run, now, RunState::Pending);
        seed.flags |= flags::RUN_BEING_MADE;
        if run.limit.is_none() {
            seed.flags |= flags::RUN_ADMITTED;
        }
        insert_run_only(tx, now, &seed).await?;
        crate::runs::starts::put_off(tx, run.id, until).await?;
        return Ok(Created::New(run.id));
    }
    admission::lock(tx, &[run]).await?;
    let admission = admission::admit(tx, &[run]).await?;
    if admission == [Admission::Refused] {
        forget_submission(tx, run).await?;
        return Ok(Created::Refused);
    }
    let admitted = admission == [Admission::Admitted];
    let big = run.version.main_tasks as usize > CHUNK;
    let state = if admitted && !big { RunState::Running } else { RunState::Pending };
    let mut seed = RunSeed::new(run, now, state);
    if big {
        // The rows come in chunks, in units of their own; the run is admitted when they are all there.
        seed.flags |= flags::RUN_BEING_MADE;
        if admitted {
            seed.flags |= flags::RUN_ADMITTED;
        }
        insert_run_only(tx, now, &seed).await?;
        crate::runs::proceed::enqueue(tx, now, run.id, crate::runs::proceed::CREATE).await?;
    } else {
        match tx {
            Tx::Postgres(pg) => {
                postgres::runs::create(pg, now, std::slice::from_ref(&seed), &run.version.pools).await?
            }
            Tx::Sqlite(sqlite) => {
                sqlite::runs::create(sqlite, now, std::slice::from_ref(&seed), &run.version.pools).await?
            }
        }
        if run.version.main_tasks == 0 && admitted {
            crate::runs::operate::end_stage(tx, now, run.id).await?;
        }
    }
    Ok(if admitted { Created::New(run.id) } else { Created::Queued(run.id) })
}

/// Keeps the idempotency key of a run, if it has one. Returns the run that was made under the same key before.
async fn earlier_submission(tx: &mut Tx, now: Micros, run: &NewRun) -> Result<Option<RunId>> {
    let Some(key) = &run.idempotency_key else { return Ok(None) };
    let fresh = within!(
        tx,
        sqlx::query(
            "INSERT INTO submissions (namespace, key, run_id, created_at) VALUES ($1, $2, $3, $4) ON \
             CONFLICT DO NOTHING"
        )
        .bind(&run.version.namespace)
        .bind(key)
        .bind(run.id)
        .bind(now)
    );
    if fresh == 1 {
        return Ok(None);
    }
    let (earlier,): (RunId,) =
        within!(tx, |conn| sqlx::query_as("SELECT run_id FROM submissions WHERE namespace = $1 AND key = $2")
            .bind(&run.version.namespace)
            .bind(key)
            .fetch_one(conn)
            .await?);
    Ok(Some(earlier))
}

async fn insert_run_only(tx: &mut Tx, now: Micros, seed: &RunSeed) -> Result<()> {
    write_run_only(tx, now, seed).await?;
    // In a statement of its own: a deletion of the workflow has committed by now, or will see the run.
    let workflow: Option<(uuid::Uuid,)> = within!(tx, |conn| sqlx::query_as("SELECT id FROM workflows WHERE id = $1")
        .bind(seed.workflow)
        .fetch_optional(conn)
        .await?);
    workflow.map(drop).ok_or_else(|| Error::not_found("the workflow"))
}

async fn write_run_only(tx: &mut Tx, now: Micros, seed: &RunSeed) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            sql!("INSERT INTO runs (id, version, workflow_id, state, flags, rank, open, limit_id, created_at, \
             progress_at, deadline_at, waits_for, holds) \
             VALUES ($1, $2, $3, $4, CAST($5 AS smallint) | coalesce((SELECT {run_flag.followed} FROM workflows w WHERE \
             w.id = $3 AND w.followed), 0), $6, $7, $8, $9, $9, $10, CASE WHEN $11 THEN NULL ELSE \
             $8 END, CASE WHEN $11 THEN $8 END)")
        )
        .bind(seed.id)
        .bind(seed.version)
        .bind(seed.workflow)
        .bind(seed.state.code())
        .bind(seed.flags)
        .bind(seed.rank)
        .bind(seed.open)
        .bind(seed.limit)
        .bind(now)
        .bind(seed.deadline_at)
        .bind(seed.flags & flags::RUN_ADMITTED != 0)
    );
    if seed.has_details() {
        within!(
            tx,
            sqlx::query("INSERT INTO run_details (run_id, inputs, correlation_id, trigger) VALUES ($1, $2, $3, $4)")
                .bind(seed.id)
                .bind(&seed.inputs)
                .bind(&seed.correlation_id)
                .bind(&seed.trigger)
        );
    }
    Ok(())
}

async fn forget_submission(tx: &mut Tx, run: &NewRun) -> Result<()> {
    if let Some(key) = &run.idempotency_key {
        within!(
            tx,
            sqlx::query("DELETE FROM submissions WHERE namespace = $1 AND key = $2 AND run_id = $3")
                .bind(&run.version.namespace)
                .bind(key)
                .bind(run.id)
        );
    }
    Ok(())
}
