//! Workflows as people list, switch and delete them.

use mainspring_boxed::boxed;
use mainspring_core::workflow::{Trigger, TriggerSource};
use mainspring_core::{Micros, RunId};
use serde::Deserialize;
use serde_json::Value;
use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::db::{Acquired, Flavor, Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::reads::clauses::{in_namespaces, tagged};

/// How many ended runs go with their workflow in one transaction.
const RUNS_PER_UNIT: i64 = 200;

/// Which workflows to list; by namespace and name.
#[derive(Debug, Clone, Default)]
pub struct WorkflowFilter {
    /// `None` is all of them.
    pub namespaces: Option<Vec<String>>,
    pub active: Option<bool>,
    pub tag: Option<String>,
    /// Occurs in the name, the title or the description, whatever its case.
    pub text: Option<String>,
    /// Only those behind this namespace and name: the cursor.
    pub after: Option<(String, String)>,
    pub offset: i64,
    pub limit: i64,
}

/// A workflow with what its newest version says about itself.
#[derive(Debug, Clone)]
pub struct WorkflowRow {
    pub id: Uuid,
    pub namespace: String,
    pub name: String,
    pub active: bool,
    /// The id of the newest version.
    pub latest: i64,
    pub number: i32,
    pub created_at: Micros,
    pub updated_at: Micros,
    /// Who stored its first version, where that is known.
    pub created_by: Option<String>,
    pub about: WorkflowDescription,
}

/// What a workflow says about itself, without its tasks.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WorkflowDescription {
    pub title: Option<String>,
    pub description: Option<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub metadata: Value,
    #[serde(default)]
    pub triggers: Vec<Trigger>,
}

impl WorkflowDescription {
    /// The first cron expression that starts it.
    pub fn schedule_cron(&self) -> Option<&str> {
        self.triggers.iter().find_map(|trigger| match &trigger.source {
            TriggerSource::Cron(expression) => Some(expression.as_str()),
            _ => None,
        })
    }
}

impl WorkflowRow {
    /// Changes with everything that can be read of it.
    pub fn edition(&self) -> Edition {
        Edition { latest: self.latest, updated_at: self.updated_at }
    }
}

/// One state of a workflow, to change it only if it has not changed meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edition {
    pub latest: i64,
    pub updated_at: Micros,
}

/// One version in the history of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct VersionSummary {
    pub number: i32,
    pub hash: String,
    pub created_at: Micros,
}

/// A version with its text.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct VersionText {
    pub id: i64,
    pub number: i32,
    pub hash: String,
    pub created_at: Micros,
    pub source: String,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    namespace: String,
    name: String,
    active: bool,
    latest: i64,
    number: i32,
    created_at: Micros,
    updated_at: Micros,
    created_by: Option<String>,
    spec: String,
}

impl TryFrom<Row> for WorkflowRow {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let about =
            serde_json::from_str(&row.spec).map_err(|error| Error::bad_row("versions", "spec", row.latest, error))?;
        Ok(Self {
            id: row.id,
            namespace: row.namespace,
            name: row.name,
            active: row.active,
            latest: row.latest,
            number: row.number,
            created_at: row.created_at,
            updated_at: row.updated_at,
            created_by: row.created_by,
            about,
        })
    }
}

const COLUMNS: &str = "SELECT w.id, w.namespace, w.name, w.active, v.id AS latest, v.number, w.created_at, w.updated_at, w.created_by, v.spec \
    FROM workflows w JOIN versions v ON v.id = w.latest";

macro_rules! filtered {
    ($database:ty, $flavor:expr, $filter:expr) => {
        filtered!($database, $flavor, $filter, COLUMNS)
    };
    ($database:ty, $flavor:expr, $filter:expr, $head:expr) => {{
        let filter = $filter;
        let (json, found) = match $flavor {
            Flavor::Postgres => ("CAST(v.spec AS json)", "strpos"),
            Flavor::Sqlite => ("v.spec", "instr"),
        };
        let mut query = QueryBuilder::<$database>::new($head);
        query.push(" WHERE w.check_of IS NULL");
        in_namespaces!(query, &filter.namespaces);
        if let Some(active) = filter.active {
            query.push(" AND w.active = ").push_bind(active);
        }
        tagged!(query, $flavor, &filter.tag);
        if let Some(text) = &filter.text {
            query.push(format_args!(
                " AND {found}(lower(w.name || ' ' || coalesce({json} ->> 'title', '') || ' ' || coalesce({json} ->> 'description', '')), "
            ));
            query.push_bind(text.to_lowercase()).push(") > 0");
        }
        if let Some((namespace, name)) = &filter.after {
            query.push(" AND (w.namespace, w.name) > (").push_bind(namespace).push(", ").push_bind(name).push(")");
        }
        query.push(" ORDER BY w.namespace, w.name LIMIT ").push_bind(filter.limit);
        query.push(" OFFSET ").push_bind(filter.offset);
        query
    }};
}

#[boxed]
impl Store {
    pub async fn list_workflows(&self, filter: &WorkflowFilter) -> Result<Vec<WorkflowRow>> {
        let rows: Vec<Row> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                filtered!(sqlx::Postgres, Flavor::Postgres, filter).build_query_as().fetch_all(pg.connection()).await?
            }
            Acquired::Sqlite(sqlite) => {
                filtered!(sqlx::Sqlite, Flavor::Sqlite, filter)
                    .build_query_as()
                    .fetch_all(sqlite.connection().await?)
                    .await?
            }
        };
        rows.into_iter().map(WorkflowRow::try_from).collect()
    }

    /// How many there are, counted up to `most` by the database.
    pub async fn count_listed_workflows(&self, filter: &WorkflowFilter, most: i64) -> Result<i64> {
        let filter = &WorkflowFilter { after: None, offset: 0, limit: most, ..filter.clone() };
        let head = format!("SELECT count(*) FROM ({COLUMNS}");
        let (count,): (i64,) = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                let mut query = filtered!(sqlx::Postgres, Flavor::Postgres, filter, head);
                query.push(") c").build_query_as().fetch_one(pg.connection()).await?
            }
            Acquired::Sqlite(sqlite) => {
                let mut query = filtered!(sqlx::Sqlite, Flavor::Sqlite, filter, head);
                query.push(") c").build_query_as().fetch_one(sqlite.connection().await?).await?
            }
        };
        Ok(count)
    }

    pub async fn workflow(&self, namespace: &str, name: &str) -> Result<WorkflowRow> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE w.namespace = $1 AND w.name = $2"));
        let row: Option<Row> =
            read!(self, |conn| sqlx::query_as(sql).bind(namespace).bind(name).fetch_optional(conn).await?);
        row.ok_or_else(|| Error::not_found(format!("workflow `{name}` in namespace `{namespace}`")))?.try_into()
    }

    pub async fn workflow_by_id(&self, id: Uuid) -> Result<WorkflowRow> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE w.id = $1"));
        let row: Option<Row> = read!(self, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
        row.ok_or_else(|| Error::not_found(format!("workflow {id}")))?.try_into()
    }

    /// The versions of a workflow, the newest first, those below `before` if it is given.
    pub async fn list_versions(&self, workflow: Uuid, before: Option<i32>, limit: i64) -> Result<Vec<VersionSummary>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT number, hash, created_at FROM versions WHERE workflow_id = $1 AND number < $2 ORDER BY number DESC LIMIT $3"
        )
        .bind(workflow)
        .bind(before.unwrap_or(i32::MAX))
        .bind(limit)
        .fetch_all(conn)
        .await?
        }))
    }

    pub async fn version_text(&self, workflow: Uuid, number: i32) -> Result<VersionText> {
        let row: Option<VersionText> = read!(self, |conn| sqlx::query_as(
            "SELECT id, number, hash, created_at, source FROM versions WHERE workflow_id = $1 AND number = $2"
        )
        .bind(workflow)
        .bind(number)
        .fetch_optional(conn)
        .await?);
        row.ok_or_else(|| Error::not_found(format!("version {number} of this workflow")))
    }

    /// Switches a workflow and its triggers on or off. `Conflict` if it is not the edition that was expected.
    pub async fn set_workflow_active(
        &self,
        now: Micros,
        id: Uuid,
        active: bool,
        expected: Option<Edition>,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        let sql = locking!(tx, "SELECT latest, updated_at FROM workflows WHERE id = $1", "FOR NO KEY UPDATE");
        let found: Option<(Option<i64>, Micros)> =
            within!(tx, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
        let (latest, updated_at) = found.ok_or_else(|| Error::not_found(format!("workflow {id}")))?;
        if expected.is_some_and(|expected| Some(expected.latest) != latest || expected.updated_at != updated_at) {
            return Err(Error::Conflict("the workflow was changed meanwhile".into()));
        }
        within!(
            tx,
            sqlx::query("UPDATE workflows SET active = $2, updated_at = $3 WHERE id = $1")
                .bind(id)
                .bind(active)
                .bind(now.max(updated_at + 1))
        );
        crate::schedules::triggers::activate(&mut tx, now, id, active).await?;
        tx.commit().await
    }

    /// The open runs of a workflow and of its checks, at most `limit`.
    pub async fn open_runs_of(&self, workflow: Uuid, limit: i64) -> Result<Vec<RunId>> {
        let rows: Vec<(RunId,)> = read!(self, |conn| {
            sqlx::query_as(sql!(
                "SELECT id FROM runs WHERE workflow_id IN (SELECT id FROM workflows WHERE id = $1 OR check_of = $1) \
                 AND state < {run.success} ORDER BY id LIMIT $2"
            ))
            .bind(workflow)
            .bind(limit)
            .fetch_all(conn)
            .await?
        });
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Deletes a workflow with its versions and everything its ended runs left. `Conflict` while runs are open.
    pub async fn delete_workflow(&self, id: Uuid) -> Result<()> {
        self.refuse_open_runs(id).await?;
        loop {
            let ended: Vec<(RunId,)> = read!(self, |conn| {
                sqlx::query_as(sql!(
                    "SELECT id FROM runs WHERE workflow_id IN (SELECT id FROM workflows WHERE id = $1 OR check_of = $1) \
                     AND state >= {run.success} ORDER BY id LIMIT $2"
                ))
                .bind(id)
                .bind(RUNS_PER_UNIT)
                .fetch_all(conn)
                .await?
            });
            if ended.is_empty() {
                break;
            }
            for (run,) in ended {
                self.forget_run(run).await?;
            }
        }
        let mut tx = self.begin().await?;
        if let Tx::Postgres(tx) = &mut tx {
            // Waits for the runs that are being made, and has those that come later find no workflow.
            sqlx::query("LOCK TABLE runs IN SHARE MODE").execute(&mut **tx).await?;
        }
        let sql = locking!(tx, "SELECT id FROM workflows WHERE id = $1", "FOR UPDATE");
        let found: Option<(Uuid,)> = within!(tx, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
        if found.is_none() {
            return Err(Error::not_found(format!("workflow {id}")));
        }
        let of_it = "SELECT id FROM runs WHERE workflow_id IN (SELECT id FROM workflows WHERE id = $1 OR check_of = $1) LIMIT 1";
        let open: Option<(RunId,)> = within!(tx, |conn| sqlx::query_as(of_it).bind(id).fetch_optional(conn).await?);
        if open.is_some() {
            return Err(still_open());
        }
        within!(tx, sqlx::query("DELETE FROM workflows WHERE id = $1 OR check_of = $1").bind(id));
        tx.commit().await
    }

    async fn refuse_open_runs(&self, id: Uuid) -> Result<()> {
        if self.open_runs_of(id, 1).await?.is_empty() { Ok(()) } else { Err(still_open()) }
    }
}

fn still_open() -> Error {
    Error::Conflict("the workflow has runs that go on: cancel them, or delete with ?cancel=true".into())
}
