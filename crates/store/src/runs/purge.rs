//! Deleting ended runs with everything they left, oldest first, a chunk per transaction.
//!
//! A chunk is found on a reading connection and deleted by statements over all of its runs: it takes the writer of SQLite for
//! a few milliseconds. On PostgreSQL it waits for no lock, and nothing that executes waits for its locks: they are on ended runs.
//! How long to rest between two chunks is the caller's decision. The rows of one run go together, but its logs may
//! go before it: only they have no bound.

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId};
use sqlx::{Postgres, QueryBuilder, Sqlite};
use uuid::Uuid;

use crate::db::{Store, Tx, locking, read, within};
use crate::error::Result;
use crate::names::sql;
use crate::runs::{artifacts, caches};

const RUNS_PER_CHUNK: i64 = 100;
/// A chunk ends before the run whose events would make it more than this many; one run alone may have more.
const EVENTS_PER_CHUNK: i64 = 1_000;
/// How many rows of logs one transaction deletes.
const LOG_CHUNKS_PER_STEP: u64 = 1_000;

/// Everything a run leaves behind.
const TABLES: &[&str] = &[
    "logs",
    "attempts",
    "history",
    "history_superseded",
    "operator_actions",
    "run_transitions",
    "run_details",
    "cancel_requests",
    "unsuccessful_runs",
    "continuations",
    "starts",
    "waits",
    "items",
    "artifacts",
    "cache_uses",
    "task_overrides",
    "submissions",
];

/// What was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    pub runs: u64,
    pub task_runs: u64,
    pub log_chunks: u64,
}

/// Which runs are to be deleted, and how far that has come. What ends behind that position is found by the next scope.
#[derive(Debug, Clone)]
pub struct PurgeScope {
    before: Micros,
    namespace: Option<String>,
    workflow: Option<Uuid>,
    after: RunId,
}

impl PurgeScope {
    /// Runs that ended before this time.
    pub fn ended_before(before: Micros) -> Self {
        Self { before, namespace: None, workflow: None, after: Uuid::nil() }
    }

    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self }
    }

    pub fn of_workflow(self, workflow: Uuid) -> Self {
        Self { workflow: Some(workflow), ..self }
    }

    /// Every run that ended before the time was made before it, and its id is the time at which it was made: runs from
    /// this id on are not looked at. One that a node made whose clock was ahead is found that much later.
    fn end(&self) -> Uuid {
        const LAST: i64 = (1 << 48) - 1;
        let milliseconds = (self.before / 1_000).saturating_add(1).clamp(0, LAST);
        Uuid::from_u128((milliseconds as u128) << 80)
    }
}

/// The next runs of a scope that meet a condition over `$5`.
macro_rules! find {
    ($store:expr, $scope:expr, $condition:literal, $value:expr) => {
        read!($store, |conn| {
            sqlx::query_as(sql!(concat!(
                "SELECT r.id, r.seq FROM runs r WHERE r.id > $1 AND r.id < $2 AND r.state >= {run.success} AND r.finished_at < $3 AND ",
                $condition,
                " AND NOT EXISTS (SELECT 1 FROM run_ends e WHERE e.run_id = r.id) \
                 AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.run_id = r.id AND d.status = {letter.pending}) ORDER BY r.id LIMIT $4"
            )))
            .bind($scope.after)
            .bind($scope.end())
            .bind($scope.before)
            .bind(RUNS_PER_CHUNK)
            .bind($value)
            .fetch_all(conn)
            .await?
        })
    };
}

#[boxed]
impl Store {
    /// Deletes the next chunk of runs, and everything of theirs but dead letters; `None` when no run is left. Runs with a
    /// pending dead letter stay, and so do those whose end is not yet counted. A chunk may be of logs alone.
    pub async fn purge_chunk(&self, scope: &mut PurgeScope) -> Result<Option<Purged>> {
        let runs = self.next_to_purge(scope).await?;
        let Some(last) = runs.last().copied() else { return Ok(None) };
        let purged = self.purge_together(&runs, scope.before).await?;
        // A chunk that was logs alone is looked at again.
        if purged.runs > 0 || purged.log_chunks < LOG_CHUNKS_PER_STEP {
            scope.after = last;
        }
        Ok(Some(purged))
    }

    /// Deletes some runs that ended before `before`, in one namespace or in all. Call again until no run is deleted.
    pub async fn purge_runs(&self, before: Micros, namespace: Option<&str>) -> Result<Purged> {
        let mut scope = PurgeScope::ended_before(before);
        scope.namespace = namespace.map(str::to_owned);
        let mut all = Purged::default();
        while all.runs == 0
            && let Some(purged) = self.purge_chunk(&mut scope).await?
        {
            all.runs += purged.runs;
            all.task_runs += purged.task_runs;
            all.log_chunks += purged.log_chunks;
        }
        Ok(all)
    }

    async fn next_to_purge(&self, scope: &PurgeScope) -> Result<Vec<RunId>> {
        let found: Vec<(RunId, i64)> = match scope.workflow {
            None => find!(
                self,
                scope,
                "(CAST($5 AS text) IS NULL OR EXISTS (SELECT 1 FROM workflows w WHERE w.id = r.workflow_id AND w.namespace = $5))",
                &scope.namespace
            ),
            Some(workflow) => find!(self, scope, "r.workflow_id = $5", workflow),
        };
        let mut events = 0;
        let fits = found.iter().take_while(|(_, seq)| {
            events += seq;
            events <= EVENTS_PER_CHUNK
        });
        let count = fits.count().max(1);
        Ok(found.into_iter().take(count).map(|(id, _)| id).collect())
    }

    /// Deletes those of these runs that nothing has reopened meanwhile and no other unit has locked, or only some of their
    /// logs if these are many.
    async fn purge_together(&self, runs: &[RunId], before: Micros) -> Result<Purged> {
        let mut tx = self.begin().await?;
        let ended = sql!("SELECT id FROM runs WHERE state >= {run.success} AND id");
        let old = format!(" AND finished_at < {before}{}", locking!(tx, "", "ORDER BY id FOR UPDATE SKIP LOCKED"));
        let ended = fetch_over_runs(&mut tx, ended, runs, &old).await?;
        let log_chunks = purge_some_logs(&mut tx, &ended).await?;
        let mut purged = Purged::default();
        if log_chunks < LOG_CHUNKS_PER_STEP {
            purged = purge_rows(&mut tx, &ended).await?;
        }
        purged.log_chunks += log_chunks;
        tx.commit().await?;
        Ok(purged)
    }

    /// Deletes an ended run and everything of it, whatever waits for an operator.
    pub(crate) async fn forget_run(&self, id: RunId) -> Result<()> {
        let mut tx = self.begin().await?;
        let text = locking!(tx, "SELECT id FROM runs WHERE id = $1 AND state >= {run.success}", "FOR UPDATE");
        let found: Option<(RunId,)> = within!(tx, |conn| sqlx::query_as(text).bind(id).fetch_optional(conn).await?);
        if found.is_some() {
            purge_rows(&mut tx, &[id]).await?;
            within!(tx, sqlx::query("DELETE FROM dead_letters WHERE run_id = $1").bind(id));
        }
        tx.commit().await
    }
}

/// Deletes runs that this transaction has locked, and what they left in other tables, dead letters apart.
async fn purge_rows(tx: &mut Tx, runs: &[RunId]) -> Result<Purged> {
    let deleted = execute_over_runs(tx, "DELETE FROM runs WHERE id", runs, "").await?;
    let mut purged = Purged { runs: deleted, ..Purged::default() };
    artifacts::give_up_objects(tx, runs).await?;
    caches::keep_results(tx, runs).await?;
    for table in TABLES {
        let rows = execute_over_runs(tx, &format!("DELETE FROM {table} WHERE run_id"), runs, "").await?;
        match *table {
            "history" => purged.task_runs += rows,
            "logs" => purged.log_chunks += rows,
            _ => {}
        }
    }
    Ok(purged)
}

async fn purge_some_logs(tx: &mut Tx, runs: &[RunId]) -> Result<u64> {
    const SOME: &str = "DELETE FROM logs WHERE (run_id, idx, item, attempt, chunk) IN \
        (SELECT run_id, idx, item, attempt, chunk FROM logs WHERE run_id";
    execute_over_runs(tx, SOME, runs, &format!(" LIMIT {LOG_CHUNKS_PER_STEP})")).await
}

/// `head IN (…) tail`. Not kept prepared: a plan for these very runs leaves the partitions of other months alone.
macro_rules! over_runs {
    ($database:ty, $head:expr, $runs:expr, $tail:expr) => {{
        let mut query = QueryBuilder::<$database>::new($head);
        let mut list = query.push(" IN (").separated(", ");
        for run in $runs {
            list.push_bind(*run);
        }
        query.push(")").push($tail);
        query
    }};
}

/// Executes a statement over these runs; how many rows it changed. Nothing happens for no runs.
pub(crate) async fn execute_over_runs(tx: &mut Tx, head: &str, runs: &[RunId], tail: &str) -> Result<u64> {
    if runs.is_empty() {
        return Ok(0);
    }
    Ok(match tx {
        Tx::Postgres(tx) => {
            let mut query = over_runs!(Postgres, head, runs, tail);
            query.build().persistent(false).execute(&mut **tx).await?.rows_affected()
        }
        Tx::Sqlite(tx) => {
            let mut query = over_runs!(Sqlite, head, runs, tail);
            query.build().persistent(false).execute(tx.connection().await?).await?.rows_affected()
        }
    })
}

/// Reads the ids that the statement finds.
async fn fetch_over_runs(tx: &mut Tx, head: &str, runs: &[RunId], tail: &str) -> Result<Vec<RunId>> {
    let found: Vec<(RunId,)> = match tx {
        Tx::Postgres(tx) => {
            let mut query = over_runs!(Postgres, head, runs, tail);
            query.build_query_as().persistent(false).fetch_all(&mut **tx).await?
        }
        Tx::Sqlite(tx) => {
            let mut query = over_runs!(Sqlite, head, runs, tail);
            query.build_query_as().persistent(false).fetch_all(tx.connection().await?).await?
        }
    };
    Ok(found.into_iter().map(|(id,)| id).collect())
}
