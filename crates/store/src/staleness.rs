//! Staleness: how open runs do, and the unit that gives up on those that have gone too long without progress.

use mainspring_core::staleness::{Judgement, OpenRun, OwnThresholds, Phase, Thresholds, judge};
use mainspring_core::state::RunState;
use mainspring_core::workflow::Stage;
use mainspring_core::{Micros, RunId, Workflow};
use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::cluster::sessions::LiveRow;
use crate::cluster::terms::{self, Term};
use crate::db::{Acquired, Store, Tx, within, write};
use crate::dead_letters::NewLetter;
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::flags::{CHUNK, HAS_DEPENDENTS, RUN_BEING_MADE, RUN_CANCELLING, RUN_NO_FINALISERS, RUN_TIMED_OUT};
use crate::runs::operate::{LockedRun, lock_run, stop_run};
use crate::runs::settle::settle;
use crate::runs::transitions::{Transition, goes_on};

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
    /// Leave out runs that a pending entry tells of.
    pub without_entry: bool,
    pub limit: i64,
}

/// A run to give up on, with the entry that tells of it.
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
    ($database:ty, $now:expr, $select:expr) => {{
        let now: Micros = $now;
        let mut query = QueryBuilder::<$database>::new($select);
        query.push(
            " FROM (SELECT p.*, CASE WHEN p.exempt = 1 OR (p.by_life >= 100 AND p.by_phase < 100) \
             OR (p.by_life >= 80 AND p.by_phase < 80) THEN p.by_life ELSE p.by_phase END AS percent FROM (SELECT o.*, \
             CASE WHEN o.exempt = 1 THEN 0 ELSE CAST(",
        );
        query.push_bind(now).push(" - o.moved_at AS double precision) * 100 / o.threshold END AS by_phase, CAST(");
        query
            .push_bind(now)
            .push(" - o.begun_at AS double precision) * 100 / o.lifetime AS by_life FROM v_open_runs o) p) m");
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

    /// How many open runs are healthy, in the warning band, and stale.
    pub async fn runs_by_health(&self, now: Micros) -> Result<(u64, u64, u64)> {
        const COUNTS: &str = "SELECT count(*) FILTER (WHERE percent < 80), count(*) FILTER (WHERE percent >= 80 AND percent < 100), \
            count(*) FILTER (WHERE percent >= 100)";
        let (healthy, warning, stale): (i64, i64, i64) = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                measured!(sqlx::Postgres, now, COUNTS).build_query_as().fetch_one(pg.connection()).await?
            }
            Acquired::Sqlite(sqlite) => {
                measured!(sqlx::Sqlite, now, COUNTS).build_query_as().fetch_one(sqlite.connection().await?).await?
            }
        };
        let count = |runs: i64| u64::try_from(runs).unwrap_or(0);
        Ok((count(healthy), count(warning), count(stale)))
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

    /// Writes the entries and fails the runs, each pair together, all in one transaction. A run that has moved since it was
    /// judged, has ended, or has a pending entry is left alone. With a term only under it.
    pub async fn give_up(&self, now: Micros, term: Option<&Term>, stale: &[StaleRun]) -> Result<Vec<GaveUp>> {
        let mut tx = self.begin().await?;
        if let Some(term) = term
            && !terms::hold(&mut tx, term).await?
        {
            return Ok(Vec::new());
        }
        let mut stale: Vec<&StaleRun> = stale.iter().collect();
        // Runs are locked in order of id, like everywhere.
        stale.sort_by_key(|one| one.letter.run);
        let (mut outcomes, mut plain, mut more) = (Vec::new(), Vec::new(), Vec::new());
        for one in stale {
            let id = one.letter.run;
            let not = GaveUp { run: id, moved_to_dlq: false, failed: false };
            let Some((mut run, moved_at)) = lock_unless_locked(&mut tx, id).await? else {
                outcomes.push(not);
                continue;
            };
            let stopping = run.flags & (RUN_CANCELLING | RUN_TIMED_OUT) != 0;
            if run.state.is_terminal() || moved_at > one.moved_at {
                outcomes.push(not);
                continue;
            }
            if !crate::dead_letters::insert(&mut tx, now, &one.letter).await? {
                outcomes.push(not);
                continue;
            }
            outcomes.push(GaveUp { run: id, moved_to_dlq: true, failed: !stopping });
            if stopping {
                continue;
            }
            run.flags |= RUN_TIMED_OUT;
            if run.stage != Stage::Main.code() {
                run.flags |= RUN_NO_FINALISERS;
            }
            let is_plain = run.state == RunState::Running
                && run.flags & RUN_BEING_MADE == 0
                && (1..=CHUNK as i32).contains(&run.open);
            if is_plain {
                plain.push((run, one.reason.as_str()));
            } else {
                goes_on(&mut tx, now, id, Transition::TimedOut).await?;
                if stop_run(&mut tx, now, &mut run, &one.reason).await? {
                    more.push(id);
                }
            }
        }
        stop_many(&mut tx, now, &plain).await?;
        tx.commit().await?;
        for id in more {
            self.proceed_run(now, id).await?;
        }
        Ok(outcomes)
    }
}

/// Locks a run and says when it moved last, as `v_open_runs` does; `None` if it is gone or locked by another transaction.
async fn lock_unless_locked(tx: &mut Tx, id: RunId) -> Result<Option<(LockedRun, Micros)>> {
    if let Tx::Postgres(pg) = tx {
        let free: Option<(RunId,)> = sqlx::query_as("SELECT id FROM runs WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED")
            .bind(id)
            .fetch_optional(&mut **pg)
            .await?;
        if free.is_none() {
            return Ok(None);
        }
    }
    let run = match lock_run(tx, id).await {
        Ok(run) => run,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (progress, tasks_moved): (Micros, Option<Micros>) = within!(tx, |conn| {
        sqlx::query_as(sql!(
            "SELECT r.progress_at, (SELECT max(CASE WHEN t.state = {task.running} THEN t.started_at \
         WHEN t.state IN ({task.ready}, {task.gated}) THEN t.due_at END) FROM task_runs t WHERE t.run_id = r.id) \
         FROM runs r WHERE r.id = $1"
        ))
        .bind(id)
        .fetch_one(conn)
        .await?
    });
    Ok(Some((run, progress.max(tasks_moved.unwrap_or(0)))))
}

/// Stops running runs with few rows: what [`stop_run`] does, in as many statements for all as for one.
async fn stop_many(tx: &mut Tx, now: Micros, runs: &[(LockedRun, &str)]) -> Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    for (run, reason) in runs {
        within!(
            tx,
            sqlx::query(
                "INSERT INTO run_details (run_id, reason) VALUES ($1, $2) ON CONFLICT (run_id) DO UPDATE SET reason = excluded.reason"
            )
            .bind(run.id)
            .bind(reason)
        );
        within!(
            tx,
            sqlx::query("UPDATE runs SET flags = $2, progress_at = $3, seq = seq + 1 WHERE id = $1")
                .bind(run.id)
                .bind(run.flags)
                .bind(now)
        );
        within!(
            tx,
            sqlx::query(
                "INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) VALUES ($1, $2, $3, $4, $5, $6)"
            )
            .bind(run.id)
            .bind(run.seq + 1)
            .bind(Transition::TimedOut.code())
            .bind(RunState::Running.code())
            .bind(run.stage)
            .bind(now)
        );
    }
    let ids: Vec<RunId> = runs.iter().map(|(run, _)| run.id).collect();
    let rows = clear(tx, now, &ids).await?;
    let gone = rows
        .iter()
        .map(|row| {
            let mut gone = row.gone(now, mainspring_core::state::TaskState::Cancelled, None);
            // What depends on it is cancelled with it, not failed by it.
            gone.flags &= !HAS_DEPENDENTS;
            if let Some((_, reason)) = runs.iter().find(|(run, _)| run.id == row.run_id) {
                gone.failure = Some(mainspring_core::work::Failure {
                    kind: "cancelled".into(),
                    message: (*reason).to_owned(),
                    ..mainspring_core::work::Failure::default()
                });
            }
            gone
        })
        .collect::<Vec<_>>();
    if !gone.is_empty() {
        settle(tx, now, gone, Vec::new()).await?;
    }
    Ok(())
}

/// Takes out the task runs of these runs that no worker executes and no node decides, calls off what they wait for, and asks what runs to stop.
async fn clear(tx: &mut Tx, now: Micros, runs: &[RunId]) -> Result<Vec<LiveRow>> {
    macro_rules! among {
        ($database:ty, $head:expr, $bind:expr, $middle:expr, $tail:expr) => {{
            let mut query = QueryBuilder::<$database>::new($head);
            if let Some(value) = $bind {
                query.push_bind(value).push($middle);
            }
            let mut ids = query.push(" IN (").separated(", ");
            for run in runs {
                ids.push_bind(*run);
            }
            query.push($tail);
            query
        }};
    }
    const CHILDREN: &str =
        sql!("INSERT INTO continuations (run_id, kind, created_at) SELECT child, {continuation.cancel_child}, ");
    const CHILDREN_OF: &str = " FROM waits WHERE child IS NOT NULL AND outcome IS NULL AND run_id";
    const WAITS: &str = sql!("UPDATE waits SET outcome = {waited.moot}, happened_at = ");
    const WAITS_OF: &str = " WHERE outcome IS NULL AND run_id";
    const LIVE: &str = sql!(
        "DELETE FROM task_runs WHERE state <> {task.running} AND NOT (state = {task.deciding} AND session IS NOT NULL) AND run_id"
    );
    const GONE: &str = ") RETURNING run_id, idx, item, state, flags, pool, attempt, failures, lost, max_lost, generation, version, session, started_at";
    const STOP: &str = sql!(
        "INSERT INTO cancel_requests (session, run_id, idx, item, attempt, reason) \
        SELECT t.session, t.run_id, t.idx, t.item, t.attempt, coalesce(x.reason, 'stale') FROM task_runs t \
        LEFT JOIN run_details x ON x.run_id = t.run_id WHERE t.state = {task.running} AND t.run_id"
    );
    macro_rules! all {
        ($database:ty, $connection:expr) => {{
            among!($database, CHILDREN, Some(now), CHILDREN_OF, ")").build().execute(&mut $connection).await?;
            among!($database, WAITS, Some(now), WAITS_OF, ")").build().execute(&mut $connection).await?;
            let rows: Vec<LiveRow> =
                among!($database, LIVE, None::<i64>, "", GONE).build_query_as().fetch_all(&mut $connection).await?;
            // A later statement: a claim that was under way has committed or never will.
            among!($database, STOP, None::<i64>, "", ") ON CONFLICT DO NOTHING")
                .build()
                .execute(&mut $connection)
                .await?;
            rows
        }};
    }
    Ok(match tx {
        Tx::Postgres(tx) => all!(sqlx::Postgres, **tx),
        Tx::Sqlite(tx) => {
            let connection = tx.connection().await?;
            all!(sqlx::Sqlite, *connection)
        }
    })
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
