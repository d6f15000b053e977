//! Staleness: how open runs do, and the unit that gives up on those that have gone too long without progress.

use mainspring_boxed::boxed;
use mainspring_core::staleness::{Judgement, OpenRun, OwnThresholds, Phase, Thresholds, WARNING_PERCENT, judge};
use mainspring_core::state::RunState;
use mainspring_core::{Micros, RunId, Workflow};
use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::db::{Acquired, Store, Tx, read, within, write};
use crate::dead_letters::NewLetter;
use crate::error::{Error, Result};
use crate::names::sql;
use crate::reads::task_list::first_id;

/// An open run and how it does.
#[derive(Debug, Clone)]
pub struct WatchedRun {
    pub run: RunId,
    pub namespace: String,
    pub workflow_id: Uuid,
    pub workflow: String,
    pub version: i64,
    pub priority: i16,
    pub state: RunState,
    pub phase: Phase,
    pub created_at: Micros,
    pub moved_at: Micros,
    pub judgement: Judgement,
}

/// Which runs to watch.
#[derive(Debug, Clone, Default)]
pub struct WatchFilter {
    /// `None` is all of them.
    pub namespaces: Option<Vec<String>>,
    /// At least this percentage of the threshold.
    pub from_percent: f64,
    /// Less than that; 0 is no bound.
    pub below_percent: f64,
    /// Leave out runs with a pending dead letter.
    pub without_entry: bool,
    pub limit: i64,
}

/// A run to give up, with its dead letter.
#[derive(Debug, Clone)]
pub struct StaleRun {
    pub letter: NewLetter,
    /// Its last progress when it was judged: if it has moved since, it is left alone.
    pub moved_at: Micros,
    pub reason: String,
}

/// What became of a stale run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GaveUp {
    pub run: RunId,
    pub moved_to_dlq: bool,
    pub failed: bool,
}

#[derive(sqlx::FromRow)]
struct Row {
    run_id: RunId,
    namespace: String,
    workflow_id: Uuid,
    workflow: String,
    version: i64,
    state: i16,
    rank: i16,
    created_at: Micros,
    phase: i32,
    moved_at: Micros,
    begun_at: Micros,
    exempt: i32,
    threshold: Micros,
    lifetime: Micros,
}

impl Row {
    fn watched(self, now: Micros) -> Result<WatchedRun> {
        let bad = |column: &'static str, error: String| Error::bad_row("v_open_runs", column, self.run_id, error);
        let phase = Phase::try_from(self.phase as i16).map_err(|error| bad("phase", error.to_string()))?;
        let open =
            OpenRun { phase, moved_at: self.moved_at.min(now), begun_at: self.begun_at, exempt: self.exempt != 0 };
        // Of the phases only the one that it is in counts.
        let thresholds = Thresholds {
            waiting_for_dependencies: self.threshold,
            waiting_for_retry: self.threshold,
            steps_in_process: self.threshold,
            lifetime: self.lifetime,
        };
        Ok(WatchedRun {
            run: self.run_id,
            namespace: self.namespace,
            workflow_id: self.workflow_id,
            workflow: self.workflow,
            version: self.version,
            priority: mainspring_core::workflow::MAX_PRIORITY - self.rank,
            state: RunState::try_from(self.state).map_err(|error| bad("state", error.to_string()))?,
            phase,
            created_at: self.created_at,
            moved_at: self.moved_at,
            judgement: judge(open, thresholds, now),
        })
    }
}

/// Open runs with the measure that each is judged by, in percent; the twin of `judge`.
macro_rules! measured {
    ($database:ty, $now:expr, $select:expr) => {
        measured!($database, $now, $select, None)
    };
    // Only of runs whose ids are less than this one.
    ($database:ty, $now:expr, $select:expr, $before:expr) => {{
        let now: Micros = $now;
        let before: Option<Uuid> = $before;
        let mut query = QueryBuilder::<$database>::new($select);
        query.push(
            " FROM (SELECT p.*, CASE WHEN p.exempt = 1 OR (p.by_life >= 100 AND p.by_phase < 100) \
             OR (p.by_life >= 80 AND p.by_phase < 80) THEN p.by_life ELSE p.by_phase END AS percent FROM (SELECT o.*, \
             CASE WHEN o.exempt = 1 THEN 0 ELSE CAST(",
        );
        query.push_bind(now).push(" - o.moved_at AS double precision) * 100 / o.threshold END AS by_phase, CAST(");
        query
            .push_bind(now)
            .push(" - o.begun_at AS double precision) * 100 / o.lifetime AS by_life FROM v_open_runs o");
        if let Some(before) = before {
            query.push(" WHERE o.run_id < ").push_bind(before);
        }
        query.push(") p) m");
        query
    }};
}

macro_rules! watched {
    ($database:ty, $now:expr, $filter:expr) => {{
        let filter: &WatchFilter = $filter;
        let mut query = measured!(
            $database,
            $now,
            "SELECT run_id, namespace, workflow_id, workflow, version, state, rank, created_at, phase, moved_at, begun_at, exempt, \
             threshold, lifetime"
        );
        query.push(" WHERE m.percent >= ").push_bind(filter.from_percent);
        if filter.below_percent > 0.0 {
            query.push(" AND m.percent < ").push_bind(filter.below_percent);
        }
        if let Some(namespaces) = &filter.namespaces {
            query.push(" AND m.namespace IN (SELECT NULL");
            for namespace in namespaces {
                query.push(" UNION ALL SELECT ").push_bind(namespace.clone());
            }
            query.push(")");
        }
        if filter.without_entry {
            query.push(sql!(
                " AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.run_id = m.run_id AND d.status = {letter.pending})"
            ));
        }
        query.push(" ORDER BY m.percent DESC, m.run_id LIMIT ").push_bind(filter.limit);
        query
    }};
}

#[boxed]
impl Store {
    /// Open runs, the worst first.
    pub async fn watched_runs(&self, now: Micros, filter: &WatchFilter) -> Result<Vec<WatchedRun>> {
        let rows: Vec<Row> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                watched!(sqlx::Postgres, now, filter).build_query_as().fetch_all(pg.connection()).await?
            }
            Acquired::Sqlite(sqlite) => {
                watched!(sqlx::Sqlite, now, filter).build_query_as().fetch_all(sqlite.connection().await?).await?
            }
        };
        rows.into_iter().map(|row| row.watched(now)).collect()
    }

    /// How many open runs are healthy, in the warning band, and stale. Runs that are younger than the warning band of the
    /// shortest threshold are healthy, and only counted: their ids tell when they were made.
    pub async fn runs_by_health(&self, now: Micros) -> Result<(u64, u64, u64)> {
        const COUNTS: &str =
            "SELECT count(*) FILTER (WHERE percent >= 80 AND percent < 100), count(*) FILTER (WHERE percent >= 100)";
        let (open, shortest): (i64, Micros) = read!(self, |conn| {
            sqlx::query_as(
                "SELECT (SELECT count(*) FROM (SELECT 1 FROM task_runs GROUP BY run_id) o), \
                 (SELECT min(m.threshold) FROM (SELECT waiting_for_dependencies AS threshold FROM staleness_defaults \
                  UNION ALL SELECT waiting_for_retry FROM staleness_defaults UNION ALL SELECT steps_in_process FROM staleness_defaults \
                  UNION ALL SELECT lifetime FROM staleness_defaults UNION ALL SELECT waiting_for_dependencies FROM version_thresholds \
                  UNION ALL SELECT waiting_for_retry FROM version_thresholds UNION ALL SELECT steps_in_process FROM version_thresholds \
                  UNION ALL SELECT lifetime FROM version_thresholds) m)",
            )
            .fetch_one(conn)
            .await?
        });
        let before = Some(first_id(now - shortest / 100 * WARNING_PERCENT as Micros));
        let (warning, stale): (i64, i64) = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                measured!(sqlx::Postgres, now, COUNTS, before).build_query_as().fetch_one(pg.connection()).await?
            }
            Acquired::Sqlite(sqlite) => {
                let mut query = measured!(sqlx::Sqlite, now, COUNTS, before);
                query.build_query_as().fetch_one(sqlite.connection().await?).await?
            }
        };
        let count = |runs: i64| u64::try_from(runs).unwrap_or(0);
        Ok((count(open - warning - stale), count(warning), count(stale)))
    }

    /// The thresholds of workflows that say nothing else.
    pub async fn set_staleness_defaults(&self, thresholds: Thresholds) -> Result<()> {
        write!(
            self,
            sqlx::query(
                "UPDATE staleness_defaults SET waiting_for_dependencies = $1, waiting_for_retry = $2, steps_in_process = $3, \
                 lifetime = $4 WHERE id = 1"
            )
            .bind(thresholds.waiting_for_dependencies)
            .bind(thresholds.waiting_for_retry)
            .bind(thresholds.steps_in_process)
            .bind(thresholds.lifetime)
        );
        Ok(())
    }
}

/// Keeps what a version says for itself.
pub(crate) async fn keep_thresholds(tx: &mut Tx, version: i64, workflow: &Workflow) -> Result<()> {
    let own = OwnThresholds::of(workflow);
    if own == OwnThresholds::default() {
        return Ok(());
    }
    within!(
        tx,
        sqlx::query(
            "INSERT INTO version_thresholds (version, waiting_for_dependencies, waiting_for_retry, steps_in_process, lifetime, \
             longest_timeout, run_timeout) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING"
        )
        .bind(version)
        .bind(own.waiting_for_dependencies)
        .bind(own.waiting_for_retry)
        .bind(own.steps_in_process)
        .bind(own.lifetime)
        .bind(own.longest_timeout)
        .bind(own.run_timeout)
    );
    Ok(())
}
