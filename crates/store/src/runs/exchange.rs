//! The exchange: hand in what ended, say what was decided, take what may start, as one atomic unit.

use mainspring_boxed::boxed;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::{Assignment, Failure};
use mainspring_core::{Micros, RunId, TaskKey};
use uuid::Uuid;

use crate::db::{Flavor, Store, write};
use crate::error::{Error, Result};
use crate::postgres::answer;
use crate::{postgres, sqlite};

/// A lane is replaced after this many exchanges: its row's dead versions would slow the guard while an old snapshot is held.
const EXCHANGES_PER_LANE: i64 = 20_000;

/// A claimed row: key and fencing token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskToken {
    pub key: TaskKey,
    pub session: i64,
    pub attempt: i32,
}

impl TaskToken {
    pub fn of(assignment: &Assignment) -> Self {
        Self { key: assignment.key, session: assignment.session, attempt: assignment.attempt }
    }
}

/// An attempt that ends its task run, or a decision that ends it without an attempt.
#[derive(Debug, Clone)]
pub struct Ended {
    pub token: TaskToken,
    /// `Running` for an attempt, `Deciding` for a decision.
    pub from: TaskState,
    /// `Success`, `Failed`, `Skipped` or `Cancelled`.
    pub state: TaskState,
    pub started_at: Option<Micros>,
    pub finished_at: Micros,
    pub failure: Option<Failure>,
    /// JSON.
    pub output: Option<String>,
}

/// An attempt after which the task run goes on, unless its budget is used up or its run is being cancelled.
#[derive(Debug, Clone)]
pub struct ContinuedAttempt {
    pub token: TaskToken,
    pub how: ContinuedAs,
    pub started_at: Option<Micros>,
    pub finished_at: Micros,
    pub failure: Option<Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContinuedAs {
    /// Failed; the next attempt is due then, if the budget allows one.
    Retry { due_at: Micros },
    /// Handed back; costs nothing of the budget.
    Released,
}

/// A decision that a `deciding` row may start.
#[derive(Debug, Clone, Copy)]
pub struct DecidedStart {
    pub key: TaskKey,
    pub session: i64,
}

/// Demand of one session for one route.
#[derive(Debug, Clone, Copy)]
pub struct Want {
    pub session: i64,
    pub route: i32,
    pub slots: i32,
    /// Dependents up to this rank may skip the queue; a higher number means that no better row is known to wait.
    pub hand_over_rank: i16,
    /// Where the last claim of this route stood, (rank, due): rows before it are dead or taken. Dropped now and then.
    pub floor: Option<(i16, Micros)>,
}

#[derive(Debug, Clone, Default)]
pub struct Exchange {
    pub now: Micros,
    /// Every session that appears below; all must be live.
    pub sessions: Vec<i64>,
    pub ended: Vec<Ended>,
    pub continued: Vec<ContinuedAttempt>,
    pub starts: Vec<DecidedStart>,
    /// At most one entry per route.
    pub want: Vec<Want>,
    /// The session that decides, and how many decisions it takes.
    pub decide_session: i64,
    pub decide: i32,
    /// Also look for rows that no node decides yet.
    pub look_for_undecided: bool,
}

/// A claim: what to execute or decide, and under which token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    pub token: TaskToken,
    pub version: i64,
    pub route: i32,
    pub rank: i16,
    pub due_at: Micros,
    /// Failed attempts of this generation so far.
    pub failures: i16,
    pub generation: i16,
}

#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub claimed: Vec<Claimed>,
    pub to_decide: Vec<Claimed>,
    pub ended_runs: Vec<(RunId, RunState)>,
    /// The end of a run or of items made task runs decidable that no node decides yet.
    pub decidable: bool,
    /// A followed run has ended.
    pub followed: bool,
    /// Refused: the row is not claimed by this token, and this is not what ended it.
    pub fenced: Vec<TaskToken>,
    /// Attempts of ours that were asked to stop. Repeated until they end.
    pub cancel: Vec<TaskToken>,
    /// Sessions marked dead: nothing of this exchange was applied.
    pub dead_sessions: Vec<i64>,
}

/// What became of an exchange whose reply was lost.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// Applied; this is what it claimed. What it handed in is acknowledged, or was fenced.
    Applied(Reply),
    /// Not applied, and it never will be.
    NotApplied,
}

/// One sequence of exchanges. Exchange n happens once and only after n − 1.
#[derive(Debug)]
pub struct Lane {
    pub(crate) store: Store,
    pub(crate) node: Uuid,
    pub(crate) id: i64,
    pub(crate) seq: i64,
    /// PostgreSQL: the connection of this lane, dropped on every doubt.
    pub(crate) connection: Option<sqlx::PgConnection>,
}

#[boxed]
impl Store {
    pub async fn open_lane(&self, node: Uuid, now: Micros) -> Result<Lane> {
        let id = self.insert_lane(node, now).await?;
        Ok(Lane { store: self.clone(), node, id, seq: 0, connection: None })
    }

    async fn insert_lane(&self, node: Uuid, now: Micros) -> Result<i64> {
        let (id,): (i64,) =
            write!(self, |conn| sqlx::query_as("INSERT INTO lanes (node, created_at) VALUES ($1, $2) RETURNING id")
                .bind(node)
                .bind(now)
                .fetch_one(conn)
                .await?);
        Ok(id)
    }

    /// Moves the guard of an exchange in its place, so that it never will be applied, unless it was. True if it was not;
    /// the same however often it is asked, whatever answers were lost. `None` if the lane was forgotten.
    async fn void_exchange(&self, id: i64, seq: i64) -> Result<Option<bool>> {
        write!(
            self,
            sqlx::query("UPDATE lanes SET seq = $2, voided = $2 WHERE id = $1 AND seq = $2 - 1").bind(id).bind(seq)
        );
        // The moved row alone would not tell: who moved it may not have learned of it.
        let row: Option<(i64,)> = write!(self, |conn| sqlx::query_as("SELECT voided FROM lanes WHERE id = $1")
            .bind(id)
            .fetch_optional(conn)
            .await?);
        Ok(row.map(|(voided,)| voided == seq))
    }

    /// Forgets lanes of nodes that are long gone.
    pub async fn forget_lanes(&self, before: Micros) -> Result<u64> {
        Ok(write!(
            self,
            sqlx::query(
                "DELETE FROM lanes WHERE created_at < $1 AND NOT EXISTS (SELECT 1 FROM sessions s WHERE \
                 s.node = lanes.node AND NOT s.dead)"
            )
            .bind(before)
        ))
    }
}

#[boxed]
impl Lane {
    /// Applies the exchange, once. After `InDoubt` the only legal call is [`Lane::resolve`].
    pub async fn exchange(&mut self, exchange: &Exchange) -> Result<Reply> {
        self.renew(exchange.now).await?;
        let reply = match self.store.flavor() {
            Flavor::Postgres => postgres::exchange::exchange(self, exchange).await?,
            Flavor::Sqlite => sqlite::exchange::exchange(self, exchange).await?,
        };
        self.seq += 1;
        Ok(reply)
    }

    /// Begins another lane where this one has gone on for long.
    pub(crate) async fn renew(&mut self, now: Micros) -> Result<()> {
        if self.seq >= EXCHANGES_PER_LANE {
            self.id = self.store.insert_lane(self.node, now).await?;
            self.seq = 0;
        }
        Ok(())
    }

    /// The node that it belongs to.
    pub fn node(&self) -> Uuid {
        self.node
    }

    /// Settles the exchange in doubt by moving its guard on another connection: if the guard moves, the exchange was
    /// not applied and never can be; if it does not, it was. Waits for the backend in doubt. After an error it can be
    /// asked again: the lane goes on only when all of the answer is in.
    pub async fn resolve(&mut self, sessions: &[i64]) -> Result<Resolution> {
        self.connection = None;
        let next = self.seq + 1;
        let resolution = match self.store.void_exchange(self.id, next).await? {
            Some(true) => Resolution::NotApplied,
            Some(false) => Resolution::Applied(self.store.claimed_by((self.id << 32) | next, sessions).await?),
            None => {
                // Forgotten when its node had no live session left: whatever it claimed was returned. The next exchange
                // opens another lane.
                self.seq = EXCHANGES_PER_LANE;
                return Ok(Resolution::NotApplied);
            }
        };
        self.seq = next;
        Ok(resolution)
    }

    /// The number that rows claimed by the exchange under way carry.
    pub(crate) fn next_claim(&self) -> i64 {
        (self.id << 32) | (self.seq + 1)
    }
}

impl Reply {
    /// Sorts one answer row (see `exchange_v1`) into its list.
    pub(crate) fn push(&mut self, kind: i16, row: Claimed) -> Result<()> {
        match kind {
            answer::CLAIMED => self.claimed.push(row),
            answer::DECIDE => self.to_decide.push(row),
            answer::RUN_ENDED => {
                let code = row.token.key.index as i16;
                let state = RunState::try_from(code)
                    .map_err(|error| Error::bad_row("runs", "state", row.token.key.run, error))?;
                self.ended_runs.push((row.token.key.run, state));
                // Another run waits for it.
                self.decidable |= row.token.key.item >= 0;
                self.followed |= row.token.attempt > 0;
            }
            answer::FENCED => self.fenced.push(row.token),
            answer::CANCEL => self.cancel.push(row.token),
            answer::SESSION_DEAD => self.dead_sessions.push(row.token.session),
            other => return Err(Error::bad_row("exchange", "kind", row.token.key, other)),
        }
        Ok(())
    }
}
