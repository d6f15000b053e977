//! Everything that follows from task runs having ended: the twin of `settle_v1`.
//!
//! The rows have left `task_runs`. History and the runs' counters are written; dependents are counted, placed, skipped or
//! failed, round by round until nothing more follows; stages and runs end; slots are handed on.

use std::collections::HashMap;
use std::sync::Arc;

use mainspring_core::rule::Verdict;
use mainspring_core::state::{RunState, TaskState, Upstream};
use mainspring_core::{Micros, RunId};

pub(crate) use super::limits::limits;
pub(crate) use super::stages::next_stage;

use super::bulk::{Bulk, Columns, Values};
use super::placing::{Candidate, Demand, candidate_columns, place};
use super::{SqliteTx, history, items};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::exchange::Reply;
use crate::runs::flags::{
    BIG_FAN_OUT, CHUNK, CONTINUES, HAS_DEPENDENTS, RUN_FOLLOWED, RUN_HAS_FINALISERS, RUN_HAS_PARENT, upstream,
};
use crate::runs::settle::{Count, EndedTaskRun};

// The runs' counters; a run without further stages ends in the same statement.
macro_rules! count_runs {
    ($n:literal, $bad:literal, $now:literal) => {
        concat!(
            "UPDATE runs SET open = open - ",
            $n,
            ", failed = failed + ",
            $bad,
            ", progress_at = ",
            $now,
            ", \
                 seq = seq + ",
            $n,
            " + (open = ",
            $n,
            " AND flags & {run_flag.has_finalisers} = 0), \
                 state = CASE WHEN open = ",
            $n,
            " AND flags & {run_flag.has_finalisers} = 0 \
                              THEN CASE WHEN flags & {run_flag.cancelling} <> 0 THEN {run.cancelled} WHEN failed + ",
            $bad,
            " > 0 OR flags & {run_flag.timed_out} <> 0 THEN {run.failed} ELSE {run.success} END \
                              ELSE state END, \
                 finished_at = CASE WHEN open = ",
            $n,
            " AND flags & {run_flag.has_finalisers} = 0 THEN ",
            $now,
            " END, \
                 holds = CASE WHEN open = ",
            $n,
            " AND flags & {run_flag.has_finalisers} = 0 THEN NULL ELSE holds END, \
                 deadline_at = CASE WHEN open = ",
            $n,
            " AND flags & {run_flag.has_finalisers} = 0 THEN NULL ELSE deadline_at END"
        )
    };
}

pub(super) static COUNT_RUNS: Bulk = Bulk::new(
    "WITH v(run, n, bad, now) AS (VALUES ",
    4,
    sql!(concat!(
        ") ",
        count_runs!("v.n", "v.bad", "v.now"),
        " FROM v WHERE runs.id = v.run RETURNING id, seq, state, open, limit_id, flags"
    )),
);

// The same where all runs lose as many rows, none of them badly: no join.
pub(super) static COUNT_RUNS_ALIKE: Bulk = Bulk::new(
    sql!(concat!(
        "WITH c(n, now) AS (SELECT ?, ?) ",
        count_runs!("(SELECT n FROM c)", "0", "(SELECT now FROM c)"),
        " WHERE id IN (VALUES "
    )),
    1,
    ") RETURNING id, seq, state, open, limit_id, flags",
);

pub(super) static CONTINUATIONS: Bulk = Bulk::new(
    "WITH v(run, idx, counts, now) AS (VALUES ",
    4,
    ") INSERT INTO continuations (run_id, kind, idx, counts, created_at) SELECT run, 3, idx, counts, now FROM v WHERE v.run IS NOT NULL",
);

pub(super) static DEPENDENTS: Bulk = Bulk::new(
    "WITH v(version, idx) AS (VALUES ",
    2,
    ") SELECT t.version, t.idx, t.dependents FROM v CROSS JOIN version_tasks t ON t.version = v.version AND t.idx = v.idx",
);

pub(super) static PENDING: Bulk = Bulk::new(
    "WITH v(run, idx) AS (VALUES ",
    2,
    sql!(concat!(
        ") SELECT ",
        candidate_columns!(),
        " FROM v CROSS JOIN task_runs t ON t.run_id = v.run AND t.idx = v.idx AND t.item = -1 WHERE t.state = {task.pending}"
    )),
);

pub(super) static RUN_STATES: Bulk =
    Bulk::new("WITH v(run) AS (VALUES ", 1, ") SELECT r.id, r.state FROM v CROSS JOIN runs r ON r.id = v.run");

// Apart from placing, because this touches no index.
pub(super) static COUNT: Bulk = Bulk::new(
    "WITH v(at, open, succeeded, failed, skipped) AS (VALUES ",
    5,
    ") UPDATE task_runs SET open = v.open, succeeded = v.succeeded, failed = v.failed, skipped = v.skipped \
     FROM v WHERE task_runs.rowid = v.at",
);

pub(super) static REMOVE: Bulk = Bulk::new("DELETE FROM task_runs WHERE rowid IN (VALUES ", 1, ")");

/// Applies what follows; nothing is claimed here. `ended_rows` is sorted by key.
pub(crate) async fn settle(
    tx: &mut SqliteTx,
    now: Micros,
    ended_rows: &[EndedTaskRun],
    counts: &[Count],
) -> Result<Reply> {
    let mut reply = Reply::default();
    settle_into(tx, now, ended_rows, counts, &mut Demand::default(), &mut reply).await?;
    Ok(reply)
}

/// Applies what follows; dependents that may start go straight to the wanted slots.
pub(super) async fn settle_into(
    tx: &mut SqliteTx,
    now: Micros,
    ended_rows: &[EndedTaskRun],
    counts: &[Count],
    demand: &mut Demand,
    reply: &mut Reply,
) -> Result<()> {
    let mut settling = Settling {
        tx,
        now,
        demand,
        reply,
        budget: CHUNK as i64,
        released: Vec::new(),
        touched: Vec::new(),
        ended: Vec::new(),
    };
    // What was skipped or failed without running is itself an end: the next round.
    let mut next = settling.round(ended_rows, counts).await?;
    while !next.is_empty() {
        next = settling.round(&next, &[]).await?;
    }
    let Settling { released, ended, touched, .. } = settling;
    limits(tx, now, &released, &ended, &touched).await
}

/// Deletes live rows by their numbers.
pub(super) async fn remove(tx: &mut SqliteTx, rows: &[i64]) -> Result<()> {
    let add = |row: &i64, values: &mut Values| {
        values.add(*row);
    };
    REMOVE.defer(tx, rows, add).await?;
    Ok(())
}

struct Settling<'u> {
    tx: &'u mut SqliteTx,
    now: Micros,
    demand: &'u mut Demand,
    reply: &'u mut Reply,
    /// How many more dependents this unit places or ends before it leaves the rest to continuations.
    budget: i64,
    released: Vec<i32>,
    touched: Vec<i32>,
    ended: Vec<i32>,
}

/// A run with what ended of it in this round, and where that left it.
pub(super) struct CountedRun {
    pub(super) run: RunId,
    ended: i32,
    bad: i32,
    /// The number before the first that this round gives.
    pub(super) base: i64,
    state: i16,
    open: i32,
    limit: Option<i32>,
    flags: i16,
}

impl Settling<'_> {
    async fn round(&mut self, ended_rows: &[EndedTaskRun], counts: &[Count]) -> Result<Vec<EndedTaskRun>> {
        let runs = self.count_runs(ended_rows).await?;
        history::write(self.tx, ended_rows, &runs).await?;
        history::write_dead_letters(self.tx, self.now, ended_rows).await?;
        self.released.extend(ended_rows.iter().filter_map(|row| row.pool));
        self.count_items(ended_rows, &runs).await?;
        let next = self.count_dependents(ended_rows, counts, &runs).await?;
        self.end_stages(&runs).await?;
        Ok(next)
    }

    async fn count_runs(&mut self, ended_rows: &[EndedTaskRun]) -> Result<Vec<CountedRun>> {
        let mut runs: Vec<CountedRun> = Vec::new();
        for row in ended_rows {
            // An item fails its task, not its run.
            let bad = row.key.item < 0
                && (row.state == TaskState::UpstreamFailed
                    || (row.state == TaskState::Failed && row.flags & CONTINUES == 0));
            match runs.last_mut() {
                Some(last) if last.run == row.key.run => {
                    last.ended += 1;
                    last.bad += i32::from(bad);
                }
                _ => {
                    let (run, bad) = (row.key.run, i32::from(bad));
                    runs.push(CountedRun { run, ended: 1, bad, base: -1, state: 0, open: 0, limit: None, flags: 0 });
                }
            }
        }
        let now = self.now;
        let add = |counted: &CountedRun, values: &mut Values| {
            values.add(counted.run).add(counted.ended).add(counted.bad).add(now);
        };
        let rows = match runs.first().map(|first| first.ended) {
            Some(n) if runs.len() > 1 && runs.iter().all(|counted| counted.ended == n && counted.bad == 0) => {
                let head = |values: &mut Values| {
                    values.add(n).add(now);
                };
                let add = |counted: &CountedRun, values: &mut Values| {
                    values.add(counted.run);
                };
                COUNT_RUNS_ALIKE.fetch_with(self.tx, head, &runs, add).await?
            }
            _ => COUNT_RUNS.fetch(self.tx, &runs, add).await?,
        };
        for row in &rows {
            let mut columns = Columns::of(row);
            let id = columns.uuid()?;
            let Ok(at) = runs.binary_search_by_key(&id, |counted| counted.run) else { continue };
            let counted = &mut runs[at];
            let seq: i64 = columns.get()?;
            counted.state = columns.get()?;
            counted.open = columns.get()?;
            counted.limit = columns.get()?;
            counted.flags = columns.get()?;
            // Where stages may follow, whatever comes next numbers itself.
            let ends = counted.open == 0 && counted.flags & RUN_HAS_FINALISERS == 0;
            counted.base = seq - i64::from(counted.ended) - i64::from(ends);
        }
        match runs.iter().find(|counted| counted.base < 0) {
            Some(missing) => Err(Error::bad_row("task_runs", "run_id", missing.run, "its run is missing")),
            None => Ok(runs),
        }
    }

    /// Items: counted by the task they belong to, each end letting the next one go.
    async fn count_items(&mut self, ended_rows: &[EndedTaskRun], runs: &[CountedRun]) -> Result<()> {
        if ended_rows.iter().all(|row| row.key.item < 0) {
            return Ok(());
        }
        self.reply.decidable = true;
        let is_running = |run: RunId| {
            runs.binary_search_by_key(&run, |counted| counted.run)
                .is_ok_and(|at| runs[at].state == RunState::Running.code())
        };
        let pools = items::count(self.tx, self.now, ended_rows, is_running).await?;
        self.touched.extend(pools);
        Ok(())
    }

    /// Dependents: counted once per upstream that really ended, placed where their rule, their run and the slots allow.
    /// Returns those that ended by it.
    async fn count_dependents(
        &mut self,
        ended_rows: &[EndedTaskRun],
        counts: &[Count],
        runs: &[CountedRun],
    ) -> Result<Vec<EndedTaskRun>> {
        let upstream: Vec<&EndedTaskRun> = ended_rows.iter().filter(|row| row.flags & HAS_DEPENDENTS != 0).collect();
        if upstream.is_empty() && counts.is_empty() {
            return Ok(Vec::new());
        }
        let spent = self.budget < 0;
        let later: Vec<&EndedTaskRun> =
            upstream.iter().copied().filter(|row| spent || row.flags & BIG_FAN_OUT != 0).collect();
        let now = self.now;
        let add = |row: &&EndedTaskRun, values: &mut Values| {
            values.add(row.key.run).add(row.key.index).add(counts_code(row)).add(now);
        };
        CONTINUATIONS.defer(self.tx, &later, add).await?;
        if spent {
            return Ok(Vec::new());
        }
        let tally = self.tally(&upstream, counts).await?;
        let states = self.run_states(counts, runs).await?;
        let add = |counted: &(RunId, i32, [i32; 4]), values: &mut Values| {
            values.add(counted.0).add(counted.1);
        };
        let rows = PENDING.fetch(self.tx, &tally, add).await?;
        let (mut waiting, mut starting, mut ending, mut removed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let mut row = Candidate::read(&mut Columns::of(row))?;
            row.run_is_running = states.get(&row.key.run) == Some(&RunState::Running.code());
            let place = (row.key.run, row.key.index);
            let Ok(at) = tally.binary_search_by_key(&place, |counted| (counted.0, counted.1)) else { continue };
            let [_, succeeded, failed, skipped] = tally[at].2;
            row.counters.open -= succeeded + failed + skipped;
            row.counters.succeeded += succeeded;
            row.counters.failed += failed;
            row.counters.skipped += skipped;
            let verdict = row.rule.verdict(row.counters);
            match verdict {
                Verdict::Wait => waiting.push(row),
                Verdict::Start => starting.push(row),
                Verdict::Skip | Verdict::UpstreamFailed => {
                    let skipped = verdict == Verdict::Skip;
                    removed.push(row.at);
                    ending.push(row.end(now, if skipped { TaskState::Skipped } else { TaskState::UpstreamFailed }));
                }
            }
        }
        ending.sort_unstable_by_key(|row| row.key);
        self.budget -= (starting.len() + ending.len()) as i64;
        let add = |row: &Candidate, values: &mut Values| {
            let counters = row.counters;
            values.add(row.at).add(counters.open).add(counters.succeeded).add(counters.failed).add(counters.skipped);
        };
        COUNT.defer(self.tx, &waiting, add).await?;
        remove(self.tx, &removed).await?;
        let pools = place(self.tx, self.now, starting, self.demand, self.reply).await?;
        self.touched.extend(pools);
        Ok(ending)
    }

    /// How often each dependent is to be counted, per outcome (by its code), sorted by run and dependent.
    async fn tally(&mut self, upstream: &[&EndedTaskRun], counts: &[Count]) -> Result<Vec<(RunId, i32, [i32; 4])>> {
        let upstream: Vec<&EndedTaskRun> =
            upstream.iter().copied().filter(|row| row.flags & BIG_FAN_OUT == 0).collect();
        self.learn_dependents(&upstream).await?;
        let mut single: Vec<(RunId, i32, i16)> = Vec::with_capacity(upstream.len() + counts.len());
        for row in &upstream {
            let dependents = self.tx.dependents(row.version, row.key.index);
            let code = counts_code(row);
            single.extend(
                dependents.iter().flat_map(|list| list.iter()).map(|dependent| (row.key.run, *dependent, code)),
            );
        }
        single.extend(counts.iter().map(|count| (count.run, count.dependent, count.counts)));
        single.sort_unstable();
        let mut tally: Vec<(RunId, i32, [i32; 4])> = Vec::with_capacity(single.len());
        for (run, dependent, code) in single {
            if tally.last().is_none_or(|last| (last.0, last.1) != (run, dependent)) {
                tally.push((run, dependent, [0; 4]));
            }
            if let Some(last) = tally.last_mut() {
                last.2[usize::from(code.clamp(0, 3) as u16)] += 1;
            }
        }
        Ok(tally)
    }

    async fn learn_dependents(&mut self, upstream: &[&EndedTaskRun]) -> Result<()> {
        let task = |row: &&EndedTaskRun| (row.version, row.key.index);
        let unknown = |task: &(i64, i32)| self.tx.dependents(task.0, task.1).is_none();
        let mut unknown: Vec<(i64, i32)> = upstream.iter().map(task).filter(unknown).collect();
        unknown.sort_unstable();
        unknown.dedup();
        let add = |task: &(i64, i32), values: &mut Values| {
            values.add(task.0).add(task.1);
        };
        for row in &DEPENDENTS.fetch(self.tx, &unknown, add).await? {
            let mut columns = Columns::of(row);
            let (version, idx) = (columns.get()?, columns.get()?);
            let text: &str = columns.get()?;
            let dependents: Arc<[i32]> = serde_json::from_str::<Vec<i32>>(text)
                .map_err(|error| Error::bad_row("version_tasks", "dependents", format!("{version}.{idx}"), error))?
                .into();
            self.tx.learn(version, idx, dependents);
        }
        Ok(())
    }

    /// The states of all runs whose dependents are counted, as this unit has left them.
    async fn run_states(&mut self, counts: &[Count], runs: &[CountedRun]) -> Result<HashMap<RunId, i16>> {
        let mut states: HashMap<RunId, i16> = runs.iter().map(|counted| (counted.run, counted.state)).collect();
        let mut others: Vec<RunId> =
            counts.iter().map(|count| count.run).filter(|run| !states.contains_key(run)).collect();
        others.sort_unstable();
        others.dedup();
        let add = |run: &RunId, values: &mut Values| {
            values.add(*run);
        };
        for row in &RUN_STATES.fetch(self.tx, &others, add).await? {
            let mut columns = Columns::of(row);
            states.insert(columns.uuid()?, columns.get()?);
        }
        Ok(states)
    }

    /// Runs whose stage is over: those that ended are reported, the others enter their next stage.
    async fn end_stages(&mut self, runs: &[CountedRun]) -> Result<()> {
        for counted in runs.iter().filter(|counted| counted.open == 0) {
            let mut state = counted.state;
            if state < RunState::Success.code() {
                next_stage(self.tx, self.now, counted.run).await?;
                (state,) = sqlx::query_as("SELECT state FROM runs WHERE id = $1")
                    .bind(counted.run)
                    .fetch_one(self.tx.connection().await?)
                    .await?;
                let pools: Vec<(i32,)> = sqlx::query_as(sql!(
                    "SELECT DISTINCT pool FROM task_runs WHERE run_id = $1 AND state = {task.gated}"
                ))
                .bind(counted.run)
                .fetch_all(self.tx.connection().await?)
                .await?;
                self.touched.extend(pools.into_iter().map(|pool| pool.0));
            }
            let state =
                RunState::try_from(state).map_err(|error| Error::bad_row("runs", "state", counted.run, error))?;
            if state.is_terminal() {
                if state != RunState::Success {
                    sqlx::query("INSERT INTO unsuccessful_runs (run_id, state) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                        .bind(counted.run)
                        .bind(state.code())
                        .execute(self.tx.connection().await?)
                        .await?;
                }
                if counted.flags & RUN_FOLLOWED != 0 {
                    leave_word(self.tx, counted.run).await?;
                    self.reply.followed = true;
                }
                if counted.flags & RUN_HAS_PARENT != 0 {
                    items::child_ended(self.tx, self.now, counted.run).await?;
                    self.reply.decidable = true;
                }
                self.ended.extend(counted.limit);
                self.reply.ended_runs.push((counted.run, state));
            }
        }
        Ok(())
    }
}

/// Records the end of a followed run in `run_ends`, once per generation.
async fn leave_word(tx: &mut SqliteTx, run: RunId) -> Result<()> {
    sqlx::query(
        "INSERT INTO run_ends (run_id, generation, workflow_id, state, finished_at) \
         SELECT id, generation, workflow_id, state, finished_at FROM runs WHERE id = $1 ON CONFLICT DO NOTHING",
    )
    .bind(run)
    .execute(tx.connection().await?)
    .await?;
    Ok(())
}

/// How an ended task counts for its dependents: 1 succeeded, 2 failed, 3 skipped.
pub(super) fn counts_code(row: &EndedTaskRun) -> i16 {
    match upstream(row.state, row.flags) {
        Some(Upstream::Succeeded) => 1,
        Some(Upstream::Skipped) => 3,
        Some(Upstream::Failed) | None => 2,
    }
}
