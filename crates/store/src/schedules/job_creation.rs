//! Makes a job: claims its name, writes its row and its workflow, and announces it, within a transaction.

use mainspring_core::Micros;
use mainspring_core::time::rfc3339;
use serde_json::json;
use sqlx::AssertSqlSafe;

use crate::access::require_room_for_workflow;
use crate::db::{Tx, within};
use crate::error::{Error, Result};
use crate::events::announce::{self, EventRow};
use crate::events::deliveries::SYSTEM;
use crate::schedules::jobs::{COLUMNS, IfNamed, JobRow, JobStatus, NewJob, Row};
use crate::workflows::versions::{PutOptions, put_in};

/// How many numbered names are tried before one gets a piece of its id.
const NUMBERED_NAMES: u32 = 9;

/// Makes a job under its name, or under the first that is free if the name may get a number.
pub(crate) async fn create_in(tx: &mut Tx, now: Micros, job: &NewJob) -> Result<String> {
    let mut workflow = job.workflow.clone();
    workflow.name = claim_name(tx, now, job).await?;
    let mut document = job.document.clone();
    document["name"] = workflow.name.clone().into();
    within!(
        tx,
        sqlx::query(
            "INSERT INTO jobs (id, namespace, name, kind, workflow_id, spec, max_executions, depth, \
             cause, created_by, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)",
        )
        .bind(job.id)
        .bind(&workflow.namespace)
        .bind(&workflow.name)
        .bind(job.kind as i16)
        .bind(job.workflow_id)
        .bind(job.spec.to_string())
        .bind(job.max_executions)
        .bind(job.depth)
        .bind(job.cause)
        .bind(&job.created_by)
        .bind(now)
    );
    for tag in &job.tags {
        within!(
            tx,
            sqlx::query("INSERT INTO job_tags (tag, job_id) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                .bind(tag)
                .bind(job.id)
        );
    }
    put_in(tx, now, job.workflow_id, &workflow, &document.to_string(), &[], &PutOptions::default()).await?;
    let event = EventRow {
        id: job.event_id,
        namespace: workflow.namespace.clone(),
        name: "scheduler:job.created".into(),
        key: Some(job.id.to_string()),
        data: json!({
            "job_id": job.id,
            "name": workflow.name,
            "namespace": workflow.namespace,
            "type": job.kind.word(),
            "created_by": job.created_by,
            "created_at": rfc3339(now),
        }),
        source: SYSTEM.into(),
        run: None,
        depth: job.depth.saturating_add(1),
        cause: job.cause,
        trace: job.trace,
        created_at: now,
    };
    announce::insert(tx, &event).await?;
    Ok(workflow.name)
}

/// Takes the wanted name, or it with a number behind it; the row of the workflow is what makes it taken.
async fn claim_name(tx: &mut Tx, now: Micros, job: &NewJob) -> Result<String> {
    let wanted = &job.workflow.name;
    let numbered = (2..=NUMBERED_NAMES).map(|number| format!("{wanted}-{number}"));
    let last = format!("{wanted}-{}", job.id.simple());
    for name in std::iter::once(wanted.clone()).chain(numbered).chain([last]) {
        let claimed = within!(
            tx,
            sqlx::query(
                "INSERT INTO workflows (id, namespace, name, created_at, updated_at, created_by) VALUES ($1, $2, \
                 $3, $4, $4, $5) ON CONFLICT (namespace, name) DO NOTHING",
            )
            .bind(job.workflow_id)
            .bind(&job.workflow.namespace)
            .bind(&name)
            .bind(now)
            .bind(&job.created_by)
        );
        if claimed == 1 {
            require_room_for_workflow(tx, &job.workflow.namespace).await?;
            return Ok(name);
        }
        if job.if_named == IfNamed::Refuse && name == *wanted {
            require_ended(tx, &job.workflow.namespace, wanted).await?;
        }
    }
    Err(Error::Conflict(format!("no name like `{wanted}` is free: choose another")))
}

/// Refuses the name of a workflow and of a job that still fires. Asked after the name was found taken, in the transaction
/// that wanted it: of two requests for one name the second is refused.
async fn require_ended(tx: &mut Tx, namespace: &str, name: &str) -> Result<()> {
    let sql = AssertSqlSafe(format!("{COLUMNS} WHERE j.namespace = $1 AND j.name = $2"));
    let row: Option<Row> =
        within!(tx, |conn| sqlx::query_as(sql).bind(namespace).bind(name).fetch_optional(conn).await?);
    match row.map(JobRow::try_from).transpose()?.map(|job| job.status) {
        Some(JobStatus::Completed | JobStatus::Cancelled) => Ok(()),
        Some(JobStatus::Active | JobStatus::Paused) => Err(Error::Conflict(format!(
            "a job has the name `{name}` in namespace `{namespace}` already: choose another, or replace it (`replace`, \
             `--replace`)"
        ))),
        None => Err(Error::Conflict(format!(
            "a workflow has the name `{name}` in namespace `{namespace}` already: choose another"
        ))),
    }
}
