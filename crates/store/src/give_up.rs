//! Gives up runs that have gone too long without progress: the entry and the failed run are one transaction, for many runs in
//! as many statements as for one.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::Failure;
use mainspring_core::workflow::Stage;
use mainspring_core::{Micros, RunId};
use sqlx::QueryBuilder;

use crate::cluster::terms::{self, Term};
use crate::db::{Store, Tx};
use crate::dead_letters::insert_many;
use crate::error::Result;
use crate::names::sql;
use crate::over_rows::{fetch_over_rows, over_rows};
use crate::runs::flags::{CHUNK, HAS_DEPENDENTS, RUN_BEING_MADE, RUN_CANCELLING, RUN_NO_FINALISERS, RUN_TIMED_OUT};
use crate::runs::live_row::{LiveRow, live_columns};
use crate::runs::locked::{LockedRun, lock_free_runs};
use crate::runs::operate::stop_run;
use crate::runs::settle::settle;
use crate::runs::transitions::{Transition, append_transition};
use crate::staleness::{GaveUp, StaleRun};

#[boxed]
impl Store {
    /// Writes the entries and fails the runs, each pair together, all in one transaction. A run that has moved since it was
    /// judged, has ended, is held by another transaction, or has a pending entry is left alone. With a term only under it.
    pub async fn give_up(&self, now: Micros, term: Option<&Term>, stale: &[StaleRun]) -> Result<Vec<GaveUp>> {
        let mut tx = self.begin().await?;
        if let Some(term) = term
            && !terms::hold(&mut tx, term).await?
        {
            return Ok(Vec::new());
        }
        let ids: Vec<RunId> = stale.iter().map(|one| one.letter.run).collect();
        let mut locked = lock_free_runs(&mut tx, &ids).await?;
        let moved = last_moves(&mut tx, &ids).await?;
        let still: Vec<&StaleRun> = stale
            .iter()
            .filter(|one| {
                let is_open = locked.get(&one.letter.run).is_some_and(|run| !run.state.is_terminal());
                is_open && moved.get(&one.letter.run).is_some_and(|moved_at| *moved_at <= one.moved_at)
            })
            .collect();
        let letters: Vec<_> = still.iter().map(|one| &one.letter).collect();
        let entered = insert_many(&mut tx, now, &letters).await?;
        let mut failed: HashMap<RunId, bool> = HashMap::new();
        let (mut plain, mut more) = (Vec::new(), Vec::new());
        for one in still.iter().filter(|one| entered.contains(&one.letter.id)) {
            let Some(mut run) = locked.remove(&one.letter.run) else { continue };
            let stopping = run.flags & (RUN_CANCELLING | RUN_TIMED_OUT) != 0;
            failed.insert(run.id, !stopping);
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
                append_transition(&mut tx, now, run.id, Transition::TimedOut).await?;
                if stop_run(&mut tx, now, &mut run, &one.reason).await? {
                    more.push(run.id);
                }
            }
        }
        stop_many(&mut tx, now, &plain).await?;
        tx.commit().await?;
        for id in more {
            self.proceed_run(now, id).await?;
        }
        let outcome = |run: &RunId| GaveUp {
            run: *run,
            moved_to_dlq: failed.contains_key(run),
            failed: failed.get(run).copied().unwrap_or(false),
        };
        Ok(ids.iter().map(outcome).collect())
    }
}

/// When these runs moved last, as `v_open_runs` says it.
async fn last_moves(tx: &mut Tx, runs: &[RunId]) -> Result<HashMap<RunId, Micros>> {
    let rows: Vec<(RunId, Micros, Option<Micros>)> =
        fetch_over_rows!(tx, "id", runs, |values, id| _ = values.push_bind(*id), |query| _ = query.push(sql!(
            "SELECT r.id, r.progress_at, (SELECT max(CASE WHEN t.state = {task.running} THEN t.started_at \
             WHEN t.state IN ({task.ready}, {task.gated}) THEN t.due_at END) FROM task_runs t WHERE t.run_id = r.id) \
             FROM k CROSS JOIN runs r WHERE r.id = k.id"
        )));
    Ok(rows.into_iter().map(|(id, progress, tasks)| (id, progress.max(tasks.unwrap_or(0)))).collect())
}

/// Stops running runs with few rows: what [`stop_run`] does, in as many statements for all as for one.
async fn stop_many(tx: &mut Tx, now: Micros, runs: &[(LockedRun, &str)]) -> Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    over_rows!(
        tx,
        "run_id, reason",
        runs,
        |values, (run, reason)| _ = values.push_bind(run.id).push_bind((*reason).to_owned()),
        |query| _ = query.push(
            "INSERT INTO run_details (run_id, reason) SELECT k.run_id, k.reason FROM k WHERE true \
             ON CONFLICT (run_id) DO UPDATE SET reason = excluded.reason"
        )
    );
    over_rows!(tx, "id, flags", runs, |values, (run, _)| _ = values.push_bind(run.id).push_bind(run.flags), |query| {
        query.push("UPDATE runs SET flags = k.flags, seq = seq + 1, progress_at = ").push_bind(now);
        query.push(" FROM k WHERE runs.id = k.id AND runs.id IN (SELECT k.id FROM k)");
    });
    over_rows!(
        tx,
        "run_id, seq, stage",
        runs,
        |values, (run, _)| _ = values.push_bind(run.id).push_bind(run.seq + 1).push_bind(run.stage),
        |query| {
            query.push(sql!(
                "INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) \
                 SELECT k.run_id, k.seq, {transition.timed_out}, {run.running}, k.stage, "
            ));
            query.push_bind(now).push(" FROM k");
        }
    );
    let ids: Vec<RunId> = runs.iter().map(|(run, _)| run.id).collect();
    let rows = clear(tx, now, &ids).await?;
    let ended_rows = rows
        .iter()
        .map(|row| {
            let mut ended_row = row.ended(now, TaskState::Cancelled, None);
            // What depends on it is cancelled with it, not failed by it.
            ended_row.flags &= !HAS_DEPENDENTS;
            if let Some((_, reason)) = runs.iter().find(|(run, _)| run.id == row.run_id) {
                ended_row.failure =
                    Some(Failure { kind: "cancelled".into(), message: (*reason).to_owned(), ..Failure::default() });
            }
            ended_row
        })
        .collect::<Vec<_>>();
    if !ended_rows.is_empty() {
        settle(tx, now, ended_rows, Vec::new()).await?;
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
    const GONE: &str = concat!(") RETURNING ", live_columns!());
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
