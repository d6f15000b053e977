//! Workflows and their immutable versions.

use std::collections::BTreeMap;

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::work::BundleFile;
use mainspring_core::workflow::{Concurrency, SlotClass, Stage, Workflow};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::access::require_room_for_workflow;
use crate::db::{Acquired, Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::flags;
use crate::workflows::catalog::Edition;
use crate::workflows::task_templates::insert_templates;

/// How many versions are read at once.
const VERSIONS_AT_ONCE: usize = 1_000;

/// A version, with what making runs of it needs to know.
#[derive(Debug, Clone)]
pub struct VersionRef {
    pub id: i64,
    pub number: i32,
    pub workflow_id: Uuid,
    pub namespace: String,
    pub name: String,
    pub main_tasks: i32,
    pub priority: i16,
    pub timeout_ms: Option<u64>,
    pub concurrency: Option<Concurrency>,
    pub(crate) run_flags: i16,
    /// Pools that tasks without dependencies wait for.
    pub(crate) pools: Vec<i32>,
    /// Of tasks that can start at once: how many there are on each route.
    pub first_routes: Vec<(i32, i32)>,
}

/// The columns of [`RootRow`], and the end of a statement over `version_tasks t` that reads them.
macro_rules! root_columns {
    () => {
        "SELECT t.version, t.route, t.pool, \
         sum(CASE WHEN t.pool IS NULL AND t.flags & {task_flag.has_condition} = 0 THEN 1 ELSE 0 END) AS startable"
    };
}
macro_rules! of_roots {
    () => {
        " AND t.stage = {stage.main} AND t.needs = 0 GROUP BY t.version, t.route, t.pool ORDER BY t.version, t.route, t.pool"
    };
}

/// Tasks without dependencies that share route and pool, and how many of them nothing but a slot keeps from starting.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
struct RootRow {
    version: i64,
    route: i32,
    pool: Option<i32>,
    startable: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct RouteRow {
    pub id: i32,
    pub namespace: String,
    pub queue: String,
    /// Canonical text: `key=value` pairs, sorted, joined by commas.
    pub labels: String,
    class: i16,
    /// No task of it is started for now.
    pub paused: bool,
}

impl RouteRow {
    pub fn new(id: i32, namespace: &str, queue: &str, labels: &str, class: SlotClass) -> Self {
        Self {
            id,
            namespace: namespace.into(),
            queue: queue.into(),
            labels: labels.into(),
            class: class.code(),
            paused: false,
        }
    }

    pub fn class(&self) -> SlotClass {
        SlotClass::try_from(self.class).unwrap_or(SlotClass::Process)
    }

    /// Whether this program knows what its tasks are: a newer one may have made it.
    pub fn is_understood(&self) -> bool {
        SlotClass::try_from(self.class).is_ok()
    }

    /// Whether a worker that serves these queues (none: all) and has these labels may execute its tasks. A task's labels
    /// are demands: the worker must have each of them.
    pub fn suits(&self, queues: &[String], labels: &BTreeMap<String, String>) -> bool {
        let has = |pair: &str| {
            pair.split_once('=').is_some_and(|(key, value)| labels.get(key).is_some_and(|have| have == value))
        };
        let queue = queues.is_empty() || queues.contains(&self.queue);
        queue && (self.labels.is_empty() || self.labels.split(',').all(has))
    }
}

/// Under which conditions a version is stored, and by whom.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// Only over this edition: `Some(None)` if there must be no such workflow yet.
    pub expected: Option<Option<Edition>>,
    /// Kept with a workflow that is new.
    pub created_by: Option<String>,
}

#[derive(sqlx::FromRow)]
struct VersionRow {
    id: i64,
    number: i32,
    workflow_id: Uuid,
    spec: String,
}

#[boxed]
impl Store {
    /// Stores the workflow as its newest version, with its triggers; the same content again is the same version.
    pub async fn put_version(
        &self,
        now: Micros,
        new_id: Uuid,
        workflow: &Workflow,
        source: &str,
        files: &[BundleFile],
    ) -> Result<VersionRef> {
        self.put_version_over(now, new_id, workflow, source, files, &PutOptions::default()).await
    }

    /// The same with options; `Conflict` if another edition is current than the one that was expected.
    pub async fn put_version_over(
        &self,
        now: Micros,
        new_id: Uuid,
        workflow: &Workflow,
        source: &str,
        files: &[BundleFile],
        options: &PutOptions,
    ) -> Result<VersionRef> {
        let mut tx = self.begin().await?;
        let version = put_in(&mut tx, now, new_id, workflow, source, files, options).await?;
        tx.commit().await?;
        Ok(version)
    }

    /// A version by its id, with the workflow it stores.
    pub async fn version(&self, id: i64) -> Result<(VersionRef, Workflow)> {
        let row: VersionRow =
            read!(self, |conn| sqlx::query_as("SELECT id, number, workflow_id, spec FROM versions WHERE id = $1")
                .bind(id)
                .fetch_optional(conn)
                .await?)
            .ok_or_else(|| Error::not_found(format!("version {id}")))?;
        self.read_version(row).await
    }

    /// Several versions by their ids, those that exist, in one or two round trips.
    pub async fn versions(&self, ids: &[i64]) -> Result<Vec<(VersionRef, Workflow)>> {
        let mut found = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(VERSIONS_AT_ONCE) {
            let list = serde_json::to_string(chunk).unwrap_or_default();
            let (rows, roots) = match &mut self.to_read().await? {
                Acquired::Postgres(pg) => {
                    let rows: Vec<VersionRow> =
                        sqlx::query_as("SELECT id, number, workflow_id, spec FROM versions WHERE id = ANY ($1)")
                            .bind(chunk)
                            .fetch_all(pg.connection())
                            .await?;
                    let roots: Vec<RootRow> = sqlx::query_as(sql!(concat!(
                        root_columns!(),
                        " FROM version_tasks t WHERE t.version = ANY ($1)",
                        of_roots!()
                    )))
                    .bind(chunk)
                    .fetch_all(pg.connection())
                    .await?;
                    (rows, roots)
                }
                Acquired::Sqlite(sqlite) => {
                    let rows: Vec<VersionRow> = sqlx::query_as(
                        "SELECT v.id, v.number, v.workflow_id, v.spec FROM json_each($1) j CROSS JOIN versions v ON v.id = j.value",
                    )
                    .bind(&list)
                    .fetch_all(sqlite.connection().await?)
                    .await?;
                    let roots: Vec<RootRow> = sqlx::query_as(sql!(concat!(
                        root_columns!(),
                        " FROM json_each($1) j CROSS JOIN version_tasks t ON t.version = j.value WHERE TRUE",
                        of_roots!()
                    )))
                    .bind(&list)
                    .fetch_all(sqlite.connection().await?)
                    .await?;
                    (rows, roots)
                }
            };
            for row in rows {
                let workflow: Workflow = serde_json::from_str(&row.spec)
                    .map_err(|error| Error::bad_row("versions", "spec", row.id, error))?;
                let own: Vec<RootRow> = roots.iter().filter(|root| root.version == row.id).copied().collect();
                found.push((reference(row.id, row.number, row.workflow_id, &workflow, &own), workflow));
            }
        }
        Ok(found)
    }

    /// The newest version of a workflow.
    pub async fn latest_version(&self, namespace: &str, name: &str) -> Result<(VersionRef, Workflow)> {
        let row: VersionRow = read!(self, |conn| sqlx::query_as(
            "SELECT v.id, v.number, v.workflow_id, v.spec FROM workflows w JOIN versions v ON v.id = w.latest WHERE w.namespace = $1 AND w.name = $2"
        )
        .bind(namespace)
        .bind(name)
        .fetch_optional(conn)
        .await?)
        .ok_or_else(|| Error::not_found(format!("workflow `{name}` in namespace `{namespace}`")))?;
        self.read_version(row).await
    }

    async fn read_version(&self, row: VersionRow) -> Result<(VersionRef, Workflow)> {
        let workflow: Workflow =
            serde_json::from_str(&row.spec).map_err(|error| Error::bad_row("versions", "spec", row.id, error))?;
        let roots: Vec<RootRow> = read!(self, |conn| sqlx::query_as(ROOTS).bind(row.id).fetch_all(conn).await?);
        Ok((reference(row.id, row.number, row.workflow_id, &workflow, &roots), workflow))
    }

    pub async fn routes(&self) -> Result<Vec<RouteRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT r.id, r.namespace, r.queue, r.labels, r.class, EXISTS (SELECT 1 FROM pauses p WHERE p.namespace IN ('', r.namespace) \
             AND p.queue IN ('', r.queue) AND p.resumed_at IS NULL) AS paused FROM routes r ORDER BY r.id"
        )
        .fetch_all(conn)
        .await?
        }))
    }
}

/// Stores the workflow as its newest version, within a transaction.
pub(crate) async fn put_in(
    tx: &mut Tx,
    now: Micros,
    new_id: Uuid,
    workflow: &Workflow,
    source: &str,
    files: &[BundleFile],
    options: &PutOptions,
) -> Result<VersionRef> {
    let spec = serde_json::to_string(workflow)
        .map_err(|error| Error::Conflict(format!("the workflow cannot be stored: {error}")))?;
    let hash = content_hash(&spec, files);
    let is_new = within!(
        tx,
        sqlx::query(
            "INSERT INTO workflows (id, namespace, name, created_at, updated_at, created_by) VALUES ($1, $2, $3, $4, \
             $4, $5) ON CONFLICT (namespace, name) DO NOTHING"
        )
        .bind(new_id)
        .bind(&workflow.namespace)
        .bind(&workflow.name)
        .bind(now)
        .bind(&options.created_by)
    ) > 0;
    if is_new {
        require_room_for_workflow(tx, &workflow.namespace).await?;
    }
    let sql = locking!(
        tx,
        "SELECT id, active, latest, updated_at FROM workflows WHERE namespace = $1 AND name = $2",
        "FOR NO KEY UPDATE"
    );
    let (workflow_id, active, latest, updated_at): (Uuid, bool, Option<i64>, Micros) =
        within!(tx, |conn| sqlx::query_as(sql).bind(&workflow.namespace).bind(&workflow.name).fetch_one(conn).await?);
    let found = latest.map(|latest| Edition { latest, updated_at });
    if options.expected.is_some_and(|expected| expected != found) {
        return Err(Error::Conflict("the workflow was changed meanwhile".into()));
    }
    let known: Option<(i64, i32)> =
        within!(tx, |conn| sqlx::query_as("SELECT id, number FROM versions WHERE workflow_id = $1 AND hash = $2")
            .bind(workflow_id)
            .bind(&hash)
            .fetch_optional(conn)
            .await?);
    let (id, number) = match known {
        Some(known) => known,
        None => insert_version(tx, now, workflow_id, &hash, &spec, (workflow, source, files)).await?,
    };
    within!(
        tx,
        sqlx::query("UPDATE workflows SET latest = $2, updated_at = $3 WHERE id = $1")
            .bind(workflow_id)
            .bind(id)
            // Every edition has a time of its own.
            .bind(now.max(updated_at + 1))
    );
    crate::schedules::trigger_sync::sync(tx, now, (workflow_id, active), workflow).await?;
    crate::schedules::polls::put_checks(tx, now, workflow_id, workflow, files).await?;
    crate::events::following::follow_workflow(tx, workflow_id, &workflow.namespace).await?;
    let roots: Vec<RootRow> = within!(tx, |conn| sqlx::query_as(ROOTS).bind(id).fetch_all(conn).await?);
    Ok(reference(id, number, workflow_id, workflow, &roots))
}

/// A version that is not there yet, with everything that belongs to it.
async fn insert_version(
    tx: &mut Tx,
    now: Micros,
    workflow_id: Uuid,
    hash: &str,
    spec: &str,
    (workflow, source, files): (&Workflow, &str, &[BundleFile]),
) -> Result<(i64, i32)> {
    let (id, number): (i64, i32) = within!(tx, |conn| {
        sqlx::query_as(
            "INSERT INTO versions (workflow_id, number, hash, spec, source, created_at) \
             SELECT $1, coalesce(max(number), 0) + 1, $2, $3, $4, $5 FROM versions WHERE workflow_id = $1 RETURNING id, number",
        )
        .bind(workflow_id)
        .bind(hash)
        .bind(spec)
        .bind(source)
        .bind(now)
        .fetch_one(conn)
        .await?
    });
    insert_templates(tx, id, workflow).await?;
    crate::workflows::files::insert(tx, id, files).await?;
    crate::staleness::keep_thresholds(tx, id, workflow).await?;
    Ok((id, number))
}

/// What makes a version another one: the workflow and everything it brings along.
fn content_hash(spec: &str, files: &[BundleFile]) -> String {
    let mut hash = Sha256::new();
    hash.update(spec.as_bytes());
    for file in files {
        for part in [file.path.as_bytes(), &[u8::from(file.executable)], &file.content] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

const ROOTS: &str = sql!(concat!(root_columns!(), " FROM version_tasks t WHERE t.version = $1", of_roots!()));

fn reference(id: i64, number: i32, workflow_id: Uuid, workflow: &Workflow, roots: &[RootRow]) -> VersionRef {
    let mut pools: Vec<i32> = roots.iter().filter_map(|root| root.pool).collect();
    pools.sort_unstable();
    pools.dedup();
    let startable = |root: &RootRow| (root.route, i32::try_from(root.startable).unwrap_or(i32::MAX));
    let first_routes = roots.iter().map(startable).filter(|(_, count)| *count > 0).collect();
    VersionRef {
        id,
        number,
        workflow_id,
        namespace: workflow.namespace.clone(),
        name: workflow.name.clone(),
        main_tasks: workflow.stage(Stage::Main).len() as i32,
        priority: workflow.priority,
        timeout_ms: workflow.deadline_ms(),
        concurrency: workflow.concurrency.clone(),
        run_flags: flags::of_run(workflow),
        pools,
        first_routes,
    }
}
