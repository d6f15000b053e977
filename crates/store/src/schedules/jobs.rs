//! Jobs: a workflow of one task and its trigger, made in one call, with statistics.
//!
//! A job has no state of its own besides being cancelled: whether it is active, paused or completed is what its trigger
//! says. So a fire, a pause and an end cannot leave the two at odds.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::trace::TraceContext;
use mainspring_core::workflow::Workflow;
use serde_json::Value;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::schedules::job_creation::create_in;
use crate::workflows::versions::{PutOptions, put_in};

/// The id that the trigger of a job has within its workflow.
pub const JOB_TRIGGER: &str = "schedule";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i16)]
pub enum JobKind {
    Cron = 0,
    OneTime = 1,
    Recurring = 2,
    Dependent = 3,
}

impl JobKind {
    pub const ALL: [Self; 4] = [Self::Cron, Self::OneTime, Self::Recurring, Self::Dependent];

    pub fn word(self) -> &'static str {
        match self {
            Self::Cron => "cron",
            Self::OneTime => "one_time",
            Self::Recurring => "recurring",
            Self::Dependent => "dependent",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i16)]
pub enum JobStatus {
    Active = 0,
    Paused = 1,
    Completed = 2,
    Cancelled = 3,
}

impl JobStatus {
    pub const ALL: [Self; 4] = [Self::Active, Self::Paused, Self::Completed, Self::Cancelled];

    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }
}

/// A job to be made.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub id: Uuid,
    /// For the workflow, unless one of its name is there: then the job gets another name.
    pub workflow_id: Uuid,
    /// The id of the event about the end.
    pub event_id: Uuid,
    pub kind: JobKind,
    pub workflow: Workflow,
    /// The workflow as a document; its name is replaced by the one that was free.
    pub document: Value,
    pub spec: Value,
    pub tags: Vec<String>,
    /// Of a dependent job.
    pub max_executions: Option<i64>,
    pub depth: i32,
    /// What is at the beginning of what led to it.
    pub cause: Option<Uuid>,
    /// The span that it is made in.
    pub trace: Option<TraceContext>,
    pub created_by: String,
    pub if_named: IfNamed,
}

/// What becomes of a new job whose name is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfNamed {
    /// It is refused, unless the name belongs to a job that fires no more.
    Refuse,
    /// It gets a number behind its name.
    Number,
}

#[derive(Debug, Clone)]
pub struct JobRow {
    pub id: Uuid,
    pub namespace: String,
    pub name: String,
    pub kind: JobKind,
    pub status: JobStatus,
    pub workflow_id: Uuid,
    pub trigger_id: Uuid,
    pub spec: Value,
    pub created_by: String,
    pub created_at: Micros,
    pub updated_at: Micros,
    pub completed_at: Option<Micros>,
    pub cancelled_at: Option<Micros>,
    pub next_run: Option<Micros>,
    pub last_run: Option<Micros>,
    pub statistics: JobStatistics,
    /// Why its trigger cannot fire.
    pub problem: Option<String>,
}

/// What was counted, each end of an execution once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct JobStatistics {
    pub executions: i64,
    pub successes: i64,
    pub failures: i64,
    /// How many executions `duration` sums up.
    pub measured: i64,
    /// Microseconds.
    pub duration: i64,
}

impl JobStatistics {
    pub fn average_ms(&self) -> Option<i64> {
        (self.measured > 0).then(|| self.duration / self.measured / 1_000)
    }
}

/// Jobs of one kind and status, added up.
#[derive(Debug, Clone, Copy)]
pub struct JobTotals {
    pub kind: JobKind,
    pub status: JobStatus,
    pub jobs: i64,
    pub statistics: JobStatistics,
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    id: Uuid,
    namespace: String,
    name: String,
    kind: i16,
    status: i32,
    workflow_id: Uuid,
    trigger_id: Uuid,
    spec: String,
    created_by: String,
    created_at: Micros,
    updated_at: Micros,
    trigger_updated_at: Micros,
    cancelled_at: Option<Micros>,
    next_nominal: Option<Micros>,
    last_fire_at: Option<Micros>,
    last_run_at: Option<Micros>,
    problem: Option<String>,
    #[sqlx(flatten)]
    statistics: JobStatistics,
}

impl TryFrom<Row> for JobRow {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |column, reason: String| Error::bad_row("jobs", column, row.id, reason);
        let status = status_of(row.status).ok_or_else(|| bad("status", row.status.to_string()))?;
        let completed_at = row.last_fire_at.filter(|_| status == JobStatus::Completed);
        Ok(Self {
            kind: kind_of(row.kind).ok_or_else(|| bad("kind", row.kind.to_string()))?,
            spec: serde_json::from_str(&row.spec).map_err(|error| bad("spec", error.to_string()))?,
            status,
            id: row.id,
            namespace: row.namespace,
            name: row.name,
            workflow_id: row.workflow_id,
            trigger_id: row.trigger_id,
            created_by: row.created_by,
            created_at: row.created_at,
            // A pause, a resumption and the last fire are in the row of its trigger.
            updated_at: row.updated_at.max(row.trigger_updated_at).max(completed_at.unwrap_or(Micros::MIN)),
            completed_at,
            cancelled_at: row.cancelled_at,
            next_run: row.next_nominal.filter(|_| status == JobStatus::Active),
            last_run: row.last_run_at,
            statistics: row.statistics,
            problem: row.problem,
        })
    }
}

fn kind_of(code: i16) -> Option<JobKind> {
    JobKind::ALL.into_iter().find(|kind| *kind as i16 == code)
}

fn status_of(code: i32) -> Option<JobStatus> {
    JobStatus::ALL.into_iter().find(|status| *status as i32 == code)
}

macro_rules! status {
    () => {
        "CASE WHEN j.cancelled_at IS NOT NULL THEN 3 WHEN t.paused THEN 1 \
         WHEN j.kind < 3 AND t.next_nominal IS NULL AND t.problem IS NULL THEN 2 \
         WHEN j.kind = 3 AND t.fired >= j.max_executions THEN 2 ELSE 0 END"
    };
}

macro_rules! from {
    () => {
        " FROM jobs j JOIN triggers t ON t.workflow_id = j.workflow_id AND t.name = 'schedule'"
    };
}

/// Binds what a filter of jobs names.
macro_rules! bound {
    ($query:expr, $filter:expr) => {{
        let query = $query
            .bind($filter.kind.map(|kind| kind as i16))
            .bind(&$filter.tag)
            .bind($filter.before)
            .bind($filter.limit)
            .bind($filter.offset);
        $filter.namespaces.iter().flatten().fold(query, |query, name| query.bind(name))
    }};
}

pub(super) const COLUMNS: &str = concat!(
    "SELECT j.id, j.namespace, j.name, j.kind, ",
    status!(),
    " AS status, j.workflow_id, t.id AS trigger_id, j.spec, j.created_by, j.created_at, j.updated_at, t.updated_at AS trigger_updated_at, j.cancelled_at, \
     CASE WHEN t.active THEN t.next_nominal END AS next_nominal, t.last_fire_at, j.last_run_at, t.problem, j.executions, j.successes, j.failures, j.measured, j.duration",
    from!()
);

/// Which jobs to list; newest first.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Of these namespaces; `None` is all.
    pub namespaces: Option<Vec<String>>,
    pub kind: Option<JobKind>,
    pub status: Option<JobStatus>,
    pub tag: Option<String>,
    /// Only those older than this one.
    pub before: Option<Uuid>,
    pub limit: i64,
    pub offset: i64,
}

#[boxed]
impl Store {
    /// Makes jobs, all of them or none; returns their names.
    pub async fn create_jobs(&self, now: Micros, jobs: &[NewJob]) -> Result<Vec<String>> {
        let mut tx = self.begin().await?;
        let mut names = Vec::with_capacity(jobs.len());
        for job in jobs {
            names.push(create_in(&mut tx, now, job).await?);
        }
        tx.commit().await?;
        Ok(names)
    }

    pub async fn job(&self, id: Uuid) -> Result<JobRow> {
        let sql = AssertSqlSafe(format!("{COLUMNS} WHERE j.id = $1"));
        let row: Option<Row> = read!(self, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
        row.ok_or_else(|| Error::not_found(format!("job {id}")))?.try_into()
    }

    /// A job by the name it has in its namespace.
    pub async fn job_named(&self, namespace: &str, name: &str) -> Result<JobRow> {
        let sql = AssertSqlSafe(format!("{COLUMNS} WHERE j.namespace = $1 AND j.name = $2"));
        let row: Option<Row> =
            read!(self, |conn| sqlx::query_as(sql).bind(namespace).bind(name).fetch_optional(conn).await?);
        row.ok_or_else(|| Error::not_found(format!("job `{name}` in namespace `{namespace}`")))?.try_into()
    }

    pub async fn jobs(&self, filter: &JobFilter) -> Result<Vec<JobRow>> {
        let which = self.which_jobs(filter);
        let sql = AssertSqlSafe(format!("{COLUMNS} WHERE {which} ORDER BY j.id DESC LIMIT $4 OFFSET $5"));
        let rows: Vec<Row> = read!(self, |conn| bound!(sqlx::query_as(sql), filter).fetch_all(conn).await?);
        rows.into_iter().map(JobRow::try_from).collect()
    }

    /// How many there are, counted up to `most` by the database.
    pub async fn count_jobs(&self, filter: &JobFilter, most: i64) -> Result<i64> {
        let filter = &JobFilter { before: None, offset: 0, limit: most, ..filter.clone() };
        let which = self.which_jobs(filter);
        let sql =
            AssertSqlSafe(format!("SELECT count(*) FROM (SELECT 1{} WHERE {which} LIMIT $4 OFFSET $5) c", from!()));
        let (count,): (i64,) = read!(self, |conn| bound!(sqlx::query_as(sql), filter).fetch_one(conn).await?);
        Ok(count)
    }

    /// The condition of a filter, with the parameters that `bound!` binds.
    fn which_jobs(&self, filter: &JobFilter) -> String {
        let mut which = String::from(
            "(CAST($1 AS smallint) IS NULL OR j.kind = $1) AND (CAST($2 AS text) IS NULL OR EXISTS (SELECT 1 FROM job_tags g WHERE g.tag = $2 AND g.job_id = j.id)) \
             AND (CAST($3 AS uuid) IS NULL OR j.id < $3)",
        );
        if matches!(self.flavor(), crate::Flavor::Sqlite) {
            which = which.replace("CAST($3 AS uuid)", "$3");
        }
        if let Some(status) = filter.status {
            which.push_str(&format!(" AND ({}) = {}", status!(), status as i16));
        }
        if let Some(namespaces) = &filter.namespaces {
            let names: Vec<String> = (6..6 + namespaces.len()).map(|number| format!("${number}")).collect();
            which.push_str(&match names.is_empty() {
                true => " AND FALSE".into(),
                false => format!(" AND j.namespace IN ({})", names.join(", ")),
            });
        }
        which
    }

    /// Jobs by kind and status, in these namespaces or in all.
    pub async fn job_totals(&self, namespaces: Option<&[String]>) -> Result<Vec<JobTotals>> {
        type Totals = (i16, i32, i64, i64, i64, i64, i64, i64);
        let names = namespaces.unwrap_or_default();
        let which = match namespaces {
            None => String::new(),
            Some([]) => " WHERE FALSE".into(),
            Some(names) => {
                let names: Vec<String> = (1..=names.len()).map(|number| format!("${number}")).collect();
                format!(" WHERE j.namespace IN ({})", names.join(", "))
            }
        };
        let sum = |column: &str| format!("CAST(coalesce(sum(j.{column}), 0) AS bigint)");
        let sql = AssertSqlSafe(format!(
            "SELECT j.kind, {} AS status, count(*), {}, {}, {}, {}, {} {}{which} GROUP BY 1, 2 ORDER BY 1, 2",
            status!(),
            sum("executions"),
            sum("successes"),
            sum("failures"),
            sum("measured"),
            sum("duration"),
            from!()
        ));
        let rows: Vec<Totals> = read!(self, |conn| {
            let query = sqlx::query_as(sql);
            names.iter().fold(query, |query, name| query.bind(name)).fetch_all(conn).await?
        });
        rows.into_iter()
            .map(|(kind, status, jobs, executions, successes, failures, measured, duration)| {
                let bad = |column, code: i32| Error::bad_row("jobs", column, "a sum", code);
                Ok(JobTotals {
                    kind: kind_of(kind).ok_or_else(|| bad("kind", kind.into()))?,
                    status: status_of(status).ok_or_else(|| bad("status", status))?,
                    jobs,
                    statistics: JobStatistics { executions, successes, failures, measured, duration },
                })
            })
            .collect()
    }

    /// Gives a job another schedule: a new version of its workflow, and what was asked for, together.
    pub async fn change_job(
        &self,
        now: Micros,
        id: Uuid,
        workflow: &Workflow,
        document: &Value,
        spec: &Value,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        require_live(&mut tx, id).await?;
        put_in(&mut tx, now, id, workflow, &document.to_string(), &[], &PutOptions::default()).await?;
        within!(
            tx,
            sqlx::query("UPDATE jobs SET spec = $2, updated_at = $3 WHERE id = $1")
                .bind(id)
                .bind(spec.to_string())
                .bind(now)
        );
        tx.commit().await
    }

    /// Ends a job for good: it does not fire any more; what it did stays.
    pub async fn cancel_job(&self, now: Micros, id: Uuid) -> Result<()> {
        let mut tx = self.begin().await?;
        let workflow = require_live(&mut tx, id).await?;
        for sql in [
            "UPDATE jobs SET cancelled_at = $2, updated_at = $2 WHERE workflow_id = $1",
            "UPDATE workflows SET active = FALSE, updated_at = $2 WHERE id = $1",
            "UPDATE triggers SET active = FALSE, revision = revision + 1, updated_at = $2 WHERE workflow_id = $1",
        ] {
            within!(tx, sqlx::query(sql).bind(workflow).bind(now));
        }
        tx.commit().await
    }
}

/// Locks a job that is not cancelled; returns its workflow.
async fn require_live(tx: &mut Tx, id: Uuid) -> Result<Uuid> {
    let sql = locking!(tx, "SELECT workflow_id, cancelled_at FROM jobs WHERE id = $1", "FOR UPDATE");
    let row: Option<(Uuid, Option<Micros>)> =
        within!(tx, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
    match row {
        None => Err(Error::not_found(format!("job {id}"))),
        Some((_, Some(_))) => Err(Error::Conflict(format!("job {id} is cancelled: make another one"))),
        Some((workflow, None)) => Ok(workflow),
    }
}
