//! Firing: what is due, and what became of every nominal instant. The unit that fires is in `fire_unit.rs`.

use mainspring_boxed::boxed;
use mainspring_core::schedule::{BlackedOut, Fire, Missed, Progress};
use mainspring_core::workflow::Trigger;
use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::cluster::terms::{self, Term};
use crate::db::{Db, Store, read, within};
use crate::error::{Error, Result};
use crate::postgres;
use crate::runs::create::{self, Created, NewRun};
use crate::schedules::fire_unit::is_plain;
use crate::schedules::triggers::schedule;

/// `backfill` of what the clock fires.
pub(crate) const NO_BACKFILL: Uuid = Uuid::nil();

/// The word for a number of the table.
pub(crate) fn outcome_word(code: i16) -> &'static str {
    OUTCOMES.get(code as usize).copied().unwrap_or("failed")
}

const OUTCOMES: [&str; 5] = ["fired", "skipped", "missed", "blacked_out", "failed"];

/// A trigger whose time has come.
#[derive(Debug, Clone)]
pub struct DueTrigger {
    pub id: Uuid,
    pub revision: i64,
    pub namespace: String,
    /// As it is stored; parsed by a caller that does not have this revision yet.
    pub spec: String,
    pub calendar: Option<String>,
    pub anchor_at: Micros,
    pub progress: Progress,
    pub next_fire_at: Micros,
    /// The newest version of its workflow; of a poll that of its check.
    pub version: Option<i64>,
}

impl DueTrigger {
    pub fn trigger(&self) -> Result<Trigger> {
        serde_json::from_str(&self.spec).map_err(|error| Error::bad_row("triggers", "spec", self.id, error))
    }

    /// When it fires. The calendar must be the one it names.
    pub fn schedule(
        &self,
        trigger: &Trigger,
        calendar: Option<&mainspring_core::schedule::CalendarSpec>,
    ) -> std::result::Result<mainspring_core::schedule::Schedule, String> {
        schedule(self.id, trigger, self.anchor_at, calendar)
    }
}

/// What is written down about one nominal instant, or about a range of them.
#[derive(Debug, Clone)]
pub struct NewFire {
    pub nominal: Micros,
    pub what: FireOf,
}

#[derive(Debug, Clone)]
pub enum FireOf {
    /// It starts this run, unless its limit refuses it: then it is skipped.
    Run(Box<NewRun>),
    /// All instants up to `until` were missed.
    Missed { until: Micros, count: u64, reason: String },
    /// All instants up to `until` lie on closed days.
    BlackedOut { until: Micros },
    /// No run could be made.
    Failed(String),
}

impl NewFire {
    pub fn missed(missed: Missed, reason: &str) -> Self {
        let reason = if missed.exact { reason.to_owned() } else { format!("{reason}; there were more than counted") };
        let what = FireOf::Missed { until: missed.last, count: missed.count, reason };
        Self { nominal: missed.first, what }
    }

    pub fn blacked_out(closed: BlackedOut) -> Self {
        Self { nominal: closed.first, what: FireOf::BlackedOut { until: closed.last } }
    }

    /// The run it starts.
    pub fn run(&self) -> Option<&NewRun> {
        match &self.what {
            FireOf::Run(run) => Some(run),
            _ => None,
        }
    }
}

/// One trigger fires: from exactly this revision and next fire to this progress.
#[derive(Debug, Clone)]
pub struct Firing {
    pub trigger: Uuid,
    pub revision: i64,
    pub next_fire_at: Micros,
    pub fires: Vec<NewFire>,
    pub covered: Micros,
    pub next: Option<Fire>,
    /// What comes next if not all of its runs start: those that do not leave room under `max_executions`.
    pub next_if_refused: Option<Fire>,
}

impl Firing {
    /// Whether it locks nothing but its trigger, so that it can be made ahead and beside others.
    pub fn is_plain(&self) -> bool {
        self.fires.iter().filter_map(NewFire::run).all(is_plain)
    }

    /// Whether it is made with a few statements, together with others.
    pub fn goes_in_bulk(&self) -> bool {
        self.fires.iter().filter_map(NewFire::run).all(create::goes_in_bulk)
    }

    /// How many fires count for `max_executions`: those that start a run.
    pub(crate) fn executions(&self) -> i64 {
        self.fires.iter().filter_map(NewFire::run).count() as i64
    }
}

/// What became of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fired {
    /// What became of its runs, in order.
    Done(Vec<Created>),
    /// A trigger has changed: nothing was done.
    Stale,
    /// Another leads: nothing was done.
    Deposed,
}

/// A row of `fires`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FireRow {
    pub trigger_id: Uuid,
    pub nominal_at: Micros,
    pub backfill: Option<Uuid>,
    /// `fired`, `skipped`, `missed`, `blacked_out` or `failed`.
    pub outcome: &'static str,
    /// The last instant of a range.
    pub until_at: Option<Micros>,
    pub count: i64,
    pub run_id: Option<RunId>,
    pub reason: Option<String>,
    pub fired_at: Micros,
}

#[derive(sqlx::FromRow)]
struct DueRow {
    id: Uuid,
    revision: i64,
    namespace: String,
    spec: String,
    calendar: Option<String>,
    anchor_at: Micros,
    covered_at: Micros,
    fired: i64,
    next_fire_at: Micros,
    version: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct Row {
    trigger_id: Uuid,
    nominal_at: Micros,
    backfill: Uuid,
    outcome: i16,
    until_at: Option<Micros>,
    count: i64,
    run_id: Option<RunId>,
    reason: Option<String>,
    fired_at: Micros,
}

impl From<Row> for FireRow {
    fn from(row: Row) -> Self {
        Self {
            trigger_id: row.trigger_id,
            nominal_at: row.nominal_at,
            backfill: (row.backfill != NO_BACKFILL).then_some(row.backfill),
            outcome: OUTCOMES.get(row.outcome as usize).copied().unwrap_or("failed"),
            until_at: row.until_at,
            count: row.count,
            run_id: row.run_id,
            reason: row.reason,
            fired_at: row.fired_at,
        }
    }
}

#[boxed]
impl Store {
    /// Triggers whose time has come, the longest overdue first.
    pub async fn due_triggers(&self, now: Micros, limit: i64) -> Result<Vec<DueTrigger>> {
        let rows: Vec<DueRow> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT t.id, t.revision, t.namespace, t.spec, t.calendar, t.anchor_at, t.covered_at, t.fired, t.next_fire_at, coalesce(t.check_version, w.latest) AS version \
             FROM triggers t JOIN workflows w ON w.id = t.workflow_id \
             WHERE t.next_fire_at <= $1 AND t.next_fire_at IS NOT NULL AND NOT t.paused AND t.present AND t.active \
             ORDER BY t.next_fire_at LIMIT $2"
        )
        .bind(now)
        .bind(limit)
        .fetch_all(conn)
        .await?
        });
        let due = |row: DueRow| DueTrigger {
            id: row.id,
            revision: row.revision,
            namespace: row.namespace,
            spec: row.spec,
            calendar: row.calendar,
            anchor_at: row.anchor_at,
            progress: Progress { covered: row.covered_at, fired: row.fired.max(0) as u64 },
            next_fire_at: row.next_fire_at,
            version: row.version,
        };
        Ok(rows.into_iter().map(due).collect())
    }

    /// When the next trigger fires, and up to where that trigger is settled.
    pub async fn next_fire(&self) -> Result<Option<(Micros, Micros)>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT next_fire_at, covered_at FROM triggers WHERE next_fire_at IS NOT NULL AND NOT paused AND present AND active \
             ORDER BY next_fire_at LIMIT 1"
        )
        .fetch_optional(conn)
        .await?
        }))
    }

    /// Has the database understand once what firing will ask of it, so that the first who fire are not late for it.
    pub async fn prepare_to_fire(&self) -> Result<()> {
        let Db::Postgres(pg) = &*self.db else { return Ok(()) };
        let mut connections = Vec::new();
        for _ in 0..pg.warm.size() {
            let connection = pg.warm.take(&pg.pool).await?;
            connections.push(postgres::fires::prepare(connection).await?);
        }
        connections.into_iter().for_each(|connection| pg.warm.keep(connection));
        Ok(())
    }

    /// Takes a trigger that cannot fire out of the clock's sight until it is changed, and says why.
    pub async fn park_trigger(&self, now: Micros, term: &Term, due: &DueTrigger, problem: &str) -> Result<()> {
        let mut tx = self.begin().await?;
        if terms::hold(&mut tx, term).await? {
            within!(
                tx,
                sqlx::query(
                    "UPDATE triggers SET next_nominal = NULL, next_fire_at = NULL, problem = $4, updated_at = $5 \
                     WHERE id = $1 AND revision = $2 AND next_fire_at = $3"
                )
                .bind(due.id)
                .bind(due.revision)
                .bind(due.next_fire_at)
                .bind(problem)
                .bind(now)
            );
        }
        tx.commit().await
    }

    /// Up to where all triggers that the clock watches are settled; `None` if there is none.
    pub async fn settled_schedules(&self) -> Result<Option<Micros>> {
        let (covered,): (Option<Micros>,) = read!(self, |conn| {
            sqlx::query_as(
            "SELECT min(covered_at) FROM triggers WHERE next_fire_at IS NOT NULL AND NOT paused AND present AND active"
        )
        .fetch_one(conn)
        .await?
        });
        Ok(covered)
    }

    /// How many rows there are per outcome.
    pub async fn fire_counts(&self) -> Result<Vec<(&'static str, i64)>> {
        let rows: Vec<(i16, i64)> =
            read!(self, |conn| sqlx::query_as("SELECT outcome, count(*) FROM fires GROUP BY outcome ORDER BY outcome")
                .fetch_all(conn)
                .await?);
        Ok(rows.into_iter().filter_map(|row| Some((*OUTCOMES.get(row.0 as usize)?, row.1))).collect())
    }

    /// What became of a trigger's instants, the latest first, those before `before`.
    pub async fn fires_of(&self, trigger: Uuid, before: Micros, limit: i64) -> Result<Vec<FireRow>> {
        let rows: Vec<Row> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT trigger_id, nominal_at, backfill, outcome, until_at, count, run_id, reason, fired_at FROM fires \
             WHERE trigger_id = $1 AND nominal_at < $2 ORDER BY nominal_at DESC, backfill DESC LIMIT $3"
        )
        .bind(trigger)
        .bind(before)
        .bind(limit)
        .fetch_all(conn)
        .await?
        });
        Ok(rows.into_iter().map(FireRow::from).collect())
    }
}
