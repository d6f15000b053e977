//! Triggers as they are stored: what each one is, how far it has come, when it fires next.
//!
//! Every nominal instant up to `covered_at` has its row in `fires`. Whatever changes a trigger raises its revision or its
//! next fire, so that a fire that was prepared before finds nothing to fire.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::schedule::{Calendar, CalendarSpec, Fire, GIVE_UP, Progress, Schedule};
use mainspring_core::workflow::{Trigger, TriggerSource};
use uuid::Uuid;

use crate::db::{Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::schedules::fire_unit;
use crate::schedules::fires::{FireOf, NewFire};
use crate::schedules::polls::{self, PollRow};

/// One trigger of the newest version of its workflow, or one that was there before.
#[derive(Debug, Clone)]
pub struct TriggerRow {
    pub id: Uuid,
    pub workflow_id: Uuid,
    pub namespace: String,
    /// The name of its workflow.
    pub workflow: String,
    pub trigger: Trigger,
    pub revision: i64,
    /// Whether the newest version names it.
    pub present: bool,
    /// Whether its workflow is active.
    pub active: bool,
    pub paused: bool,
    /// When an interval without a start began.
    pub anchor_at: Micros,
    pub covered_at: Micros,
    pub next: Option<Fire>,
    pub fired: u64,
    pub last_fire_at: Option<Micros>,
    /// Why it cannot fire.
    pub problem: Option<String>,
    /// Of a poll: how it is doing.
    pub poll: Option<PollRow>,
    pub created_at: Micros,
    pub updated_at: Micros,
}

impl TriggerRow {
    pub fn progress(&self) -> Progress {
        Progress { covered: self.covered_at, fired: self.fired }
    }

    /// When it fires. The calendar must be the one it names.
    pub fn schedule(&self, calendar: Option<&CalendarSpec>) -> std::result::Result<Schedule, String> {
        schedule(self.id, &self.trigger, self.anchor_at, calendar)
    }

    /// Whether the clock looks at it.
    pub fn is_watched(&self) -> bool {
        self.present && self.active && !self.paused && self.next.is_some()
    }
}

/// When a trigger fires. The jitter follows from the row's id: triggers of the same name fire apart.
pub(crate) fn schedule(
    id: Uuid,
    trigger: &Trigger,
    anchor_at: Micros,
    calendar: Option<&CalendarSpec>,
) -> std::result::Result<Schedule, String> {
    let calendar = match (&trigger.calendar, calendar) {
        (None, _) => None,
        (Some(name), None) => return Err(format!("there is no calendar `{name}`")),
        (Some(name), Some(spec)) => {
            Some(Calendar::new(spec).map_err(|error| format!("the calendar `{name}` is not readable: {error}"))?)
        }
    };
    let named = Trigger { id: id.to_string(), ..trigger.clone() };
    Schedule::new(&named, anchor_at, calendar).map_err(|error| error.to_string())
}

/// The number of a kind in the table; `None` for a kind without waiting rows.
pub(crate) fn kind_code(source: &TriggerSource) -> Option<i16> {
    Some(match source {
        TriggerSource::Cron(_) => 0,
        TriggerSource::Every(_) => 1,
        TriggerSource::At(_) => 2,
        TriggerSource::Event(_) => 3,
        TriggerSource::Webhook(_) => 4,
        TriggerSource::Workflow { .. } => 5,
        TriggerSource::Poll(_) => 6,
        TriggerSource::Manual => return None,
    })
}

/// What `triggers` are looked for by; everything that is given must fit.
#[derive(Debug, Clone, Default)]
pub struct TriggerFilter {
    pub namespace: Option<String>,
    /// The name of the workflow.
    pub workflow: Option<String>,
    /// One of the kind words: `cron`, `every`, …
    pub kind: Option<String>,
    pub paused: Option<bool>,
    /// Also those that the newest version does not name any more.
    pub gone: bool,
    /// Those after this one.
    pub after: Option<Uuid>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    workflow_id: Uuid,
    namespace: String,
    workflow: String,
    spec: String,
    revision: i64,
    present: bool,
    active: bool,
    paused: bool,
    anchor_at: Micros,
    covered_at: Micros,
    next_nominal: Option<Micros>,
    next_fire_at: Option<Micros>,
    fired: i64,
    last_fire_at: Option<Micros>,
    problem: Option<String>,
    created_at: Micros,
    updated_at: Micros,
    #[sqlx(flatten)]
    poll: polls::Columns,
}

impl TryFrom<Row> for TriggerRow {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let trigger =
            serde_json::from_str(&row.spec).map_err(|error| Error::bad_row("triggers", "spec", row.id, error))?;
        let next = row.next_nominal.zip(row.next_fire_at);
        Ok(Self {
            id: row.id,
            workflow_id: row.workflow_id,
            namespace: row.namespace,
            workflow: row.workflow,
            trigger,
            revision: row.revision,
            present: row.present,
            active: row.active,
            paused: row.paused,
            anchor_at: row.anchor_at,
            covered_at: row.covered_at,
            next: next.map(|(nominal, fire_at)| Fire { nominal, fire_at }),
            fired: row.fired.max(0) as u64,
            last_fire_at: row.last_fire_at,
            problem: row.problem,
            poll: row.poll.into(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT t.id, t.workflow_id, t.namespace, w.name AS workflow, t.spec, t.revision, t.present, t.active, t.paused, ",
            "t.anchor_at, t.covered_at, t.next_nominal, t.next_fire_at, t.fired, t.last_fire_at, t.problem, t.created_at, ",
            "t.updated_at, p.checks, p.checked_at, p.check_run, p.started, p.last_key, p.last_run, p.failures, p.error ",
            "FROM triggers t JOIN workflows w ON w.id = t.workflow_id LEFT JOIN polls p ON p.trigger_id = t.id ",
            $rest
        )
    };
}

#[boxed]
impl Store {
    pub async fn trigger(&self, id: Uuid) -> Result<TriggerRow> {
        let row: Option<Row> =
            read!(self, |conn| sqlx::query_as(select!("WHERE t.id = $1")).bind(id).fetch_optional(conn).await?);
        row.ok_or_else(|| Error::not_found(format!("schedule {id}")))?.try_into()
    }

    /// A trigger by its name within a workflow.
    pub async fn trigger_of(&self, workflow_id: Uuid, name: &str) -> Result<TriggerRow> {
        let row: Option<Row> = read!(self, |conn| sqlx::query_as(select!("WHERE t.workflow_id = $1 AND t.name = $2"))
            .bind(workflow_id)
            .bind(name)
            .fetch_optional(conn)
            .await?);
        row.ok_or_else(|| Error::not_found(format!("trigger `{name}`")))?.try_into()
    }

    /// The triggers of a workflow that its newest version names, in the order of their names.
    pub async fn triggers_of(&self, workflow_id: Uuid) -> Result<Vec<TriggerRow>> {
        let rows: Vec<Row> =
            read!(self, |conn| sqlx::query_as(select!("WHERE t.workflow_id = $1 AND t.present ORDER BY t.name"))
                .bind(workflow_id)
                .fetch_all(conn)
                .await?);
        rows.into_iter().map(TriggerRow::try_from).collect()
    }

    /// Triggers in the order of their ids.
    pub async fn triggers(&self, filter: &TriggerFilter, limit: i64) -> Result<Vec<TriggerRow>> {
        let words = ["cron", "every", "at", "event", "webhook", "workflow", "poll"];
        let kind = match &filter.kind {
            None => None,
            Some(word) => match words.iter().position(|known| known == word) {
                Some(code) => Some(code as i32),
                None => return Ok(Vec::new()),
            },
        };
        let rows: Vec<Row> = read!(self, |conn| {
            sqlx::query_as(select!(
            "WHERE ($1 IS NULL OR t.namespace = $1) AND ($2 IS NULL OR w.name = $2) AND ($3 IS NULL OR t.kind = $3) \
             AND ($4 IS NULL OR t.paused = $4) AND (t.present OR $5) AND ($6 IS NULL OR t.id > $6) ORDER BY t.id LIMIT $7"
        ))
        .bind(&filter.namespace)
        .bind(&filter.workflow)
        .bind(kind)
        .bind(filter.paused)
        .bind(filter.gone)
        .bind(filter.after)
        .bind(limit)
        .fetch_all(conn)
        .await?
        });
        rows.into_iter().map(TriggerRow::try_from).collect()
    }

    /// Triggers by a condition of the pages: `$1` is a text, `$2` the limit.
    pub(crate) async fn triggers_where(
        &self,
        condition: &str,
        text: Option<String>,
        limit: i64,
    ) -> Result<Vec<TriggerRow>> {
        let sql = sqlx::AssertSqlSafe(format!("{}{condition}", select!("")));
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql).bind(text).bind(limit).fetch_all(conn).await?);
        rows.into_iter().map(TriggerRow::try_from).collect()
    }

    /// Stops a trigger from firing until it is resumed; nothing happens to one that is paused already.
    pub async fn pause_trigger(&self, now: Micros, id: Uuid) -> Result<TriggerRow> {
        let mut tx = self.begin().await?;
        let row = lock(&mut tx, id).await?;
        if !row.paused {
            within!(
                tx,
                sqlx::query(
                    "UPDATE triggers SET paused = TRUE, revision = revision + 1, updated_at = $2 WHERE id = $1"
                )
                .bind(id)
                .bind(now)
            );
        }
        tx.commit().await?;
        self.trigger(id).await
    }

    /// Lets a paused trigger fire again. What fell due meanwhile is up to its catch-up policy: what is not made up for is
    /// written down as missed here, the rest fires right away.
    pub async fn resume_trigger(&self, now: Micros, id: Uuid) -> Result<TriggerRow> {
        let mut tx = self.begin().await?;
        let row = lock(&mut tx, id).await?;
        if row.paused {
            end_break(&mut tx, now, &row, "it was paused").await?;
            within!(tx, sqlx::query("UPDATE triggers SET paused = FALSE WHERE id = $1").bind(id));
        }
        tx.commit().await?;
        self.trigger(id).await
    }
}

/// A trigger that did not fire for a while goes on: what fell due meanwhile is up to its catch-up policy, and without one
/// nothing is made up for, but for a single instant. What is given up is written down as missed, the rest fires right away.
async fn end_break(tx: &mut Tx, now: Micros, row: &TriggerRow, reason: &str) -> Result<()> {
    let mut fires: Vec<NewFire> = Vec::new();
    let (mut covered, mut next) = (row.covered_at, row.next);
    if row.trigger.source.is_scheduled() && row.next.is_some() {
        let calendar = crate::schedules::calendars::of(tx, &row.namespace, row.trigger.calendar.as_deref()).await?;
        let schedule = row.schedule(calendar.as_ref()).map_err(Error::Conflict)?;
        let is_single = matches!(row.trigger.source, TriggerSource::At(_));
        let policy = row.trigger.catchup.or((!is_single).then_some(GIVE_UP));
        let turn = schedule.give_up(row.progress(), now, policy);
        fires.extend(turn.missed.map(|missed| NewFire::missed(missed, reason)));
        fires.extend(turn.blacked_out.iter().map(|closed| NewFire::blacked_out(*closed)));
        (covered, next) = (turn.covered, turn.next);
    }
    fire_unit::insert_without_runs(tx, now, row.id, &fires).await?;
    within!(
        tx,
        sqlx::query(
            "UPDATE triggers SET revision = revision + 1, covered_at = $3, next_nominal = $4, next_fire_at = $5, \
             updated_at = $2 WHERE id = $1"
        )
        .bind(row.id)
        .bind(now)
        .bind(covered)
        .bind(next.map(|next| next.nominal))
        .bind(next.map(|next| next.fire_at))
    );
    Ok(())
}

/// Says whether the triggers of a workflow fire. What fell due while they did not is up to their catch-up policies; a paused
/// one is left to its resumption.
pub(crate) async fn activate(tx: &mut Tx, now: Micros, workflow_id: Uuid, active: bool) -> Result<()> {
    if active {
        let sql = locking!(
            tx,
            "SELECT id FROM triggers WHERE workflow_id = $1 AND NOT active AND NOT paused AND present ORDER BY id",
            "FOR NO KEY UPDATE"
        );
        let idle: Vec<(Uuid,)> = within!(tx, |conn| sqlx::query_as(sql).bind(workflow_id).fetch_all(conn).await?);
        for (id,) in idle {
            let row = lock(tx, id).await?;
            end_break(tx, now, &row, "its workflow was not active").await?;
        }
    }
    within!(
        tx,
        sqlx::query(
            "UPDATE triggers SET active = $2, revision = revision + 1, updated_at = $3 WHERE \
             workflow_id = $1 AND active <> $2",
        )
        .bind(workflow_id)
        .bind(active)
        .bind(now)
    );
    Ok(())
}

/// A trigger, held until the transaction ends.
pub(crate) async fn lock(tx: &mut Tx, id: Uuid) -> Result<TriggerRow> {
    let sql = locking!(tx, "SELECT id FROM triggers WHERE id = $1", "FOR NO KEY UPDATE");
    let found: Option<(Uuid,)> = within!(tx, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
    if found.is_none() {
        return Err(Error::not_found(format!("schedule {id}")));
    }
    let row: Row = within!(tx, |conn| sqlx::query_as(select!("WHERE t.id = $1")).bind(id).fetch_one(conn).await?);
    row.try_into()
}

/// All triggers that a workflow ever had.
pub(crate) async fn all_of(tx: &mut Tx, workflow_id: Uuid) -> Result<Vec<TriggerRow>> {
    let rows: Vec<Row> = within!(tx, |conn| sqlx::query_as(select!("WHERE t.workflow_id = $1"))
        .bind(workflow_id)
        .fetch_all(conn)
        .await?);
    rows.into_iter().map(TriggerRow::try_from).collect()
}

/// Those that name a calendar.
pub(crate) async fn naming_calendar(tx: &mut Tx, namespace: &str, calendar: &str) -> Result<Vec<TriggerRow>> {
    let rows: Vec<Row> = within!(tx, |conn| sqlx::query_as(select!(
        "WHERE t.namespace = $1 AND t.calendar = $2 AND t.present ORDER BY t.id"
    ))
    .bind(namespace)
    .bind(calendar)
    .fetch_all(conn)
    .await?);
    rows.into_iter().map(TriggerRow::try_from).collect()
}

impl NewFire {
    pub(crate) fn describes_no_run(&self) -> bool {
        !matches!(self.what, FireOf::Run(_))
    }
}
