//! Submissions that gather: plain runs with what their requests leave, in one commit.
//!
//! On PostgreSQL it is one statement in autocommit: runs, task runs, keys with their answers, and audit rows. What a
//! request is answered is known before, because nothing about a plain run is decided by the database.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::state::RunState;

use crate::access::{AuditRow, KeptAnswer};
use crate::db::{Db, Flavor, Store};
use crate::error::{Error, Result};
use crate::runs::create::{NewRun, RunSeed, goes_in_bulk, is_plain, pools_of};
use crate::runs::exchange::{Claimed, Lane, Want};
use crate::unit::RequestKey;
use crate::{postgres, sqlite};

/// A plain run and what the request for it leaves.
#[derive(Debug)]
pub struct PlainSubmission {
    pub run: NewRun,
    pub key: Option<(RequestKey, KeptAnswer)>,
    pub audit: Option<AuditRow>,
    /// It is made only if its version is the newest of its workflow; `NotFound` otherwise.
    pub only_latest: bool,
}

impl NewRun {
    /// Whether it starts at once, whatever else there is: no limit, no key of its own, no time, neither none nor very many
    /// tasks.
    pub fn is_plain(&self) -> bool {
        is_plain(self) && goes_in_bulk(self)
    }
}

/// What a unit of submissions writes, by table.
pub(crate) struct Columns<'s> {
    pub(crate) seeds: Vec<RunSeed>,
    pub(crate) pools: Vec<i32>,
    pub(crate) keys: Vec<&'s (RequestKey, KeptAnswer)>,
    pub(crate) audit: Vec<&'s AuditRow>,
}

impl<'s> Columns<'s> {
    fn of(now: Micros, submissions: &'s [PlainSubmission]) -> Self {
        let seed = |one: &PlainSubmission| RunSeed {
            only_latest: one.only_latest,
            ..RunSeed::new(&one.run, now, RunState::Running)
        };
        Self {
            seeds: submissions.iter().map(seed).collect(),
            pools: pools_of(submissions.iter().map(|one| &one.run)),
            keys: submissions.iter().filter_map(|one| one.key.as_ref()).collect(),
            audit: submissions.iter().filter_map(|one| one.audit.as_ref()).collect(),
        }
    }
}

/// What became of first tasks that were to start with their runs.
#[derive(Debug, Default)]
pub struct Started {
    pub claimed: Vec<Claimed>,
    /// Something is left for others to start or to decide.
    pub left: bool,
}

#[boxed]
impl Lane {
    /// Makes them all or none, like [`Store::submit_plain`], and starts as many of their first tasks as are wanted, for one
    /// session. It is a unit of this lane: after `InDoubt` the only legal call is [`Lane::resolve`].
    pub async fn submit(&mut self, now: Micros, submissions: &[PlainSubmission], want: &[Want]) -> Result<Started> {
        self.renew(now).await?;
        let columns = Columns::of(now, submissions);
        let started = match self.store.flavor() {
            Flavor::Postgres => postgres::submit::start(self, now, &columns, want).await,
            Flavor::Sqlite => sqlite::submit::start(self, now, &columns, want).await,
        };
        let started = started.map_err(key_taken)?;
        self.seq += 1;
        Ok(started)
    }
}

#[boxed]
impl Store {
    /// Makes them all or none. [`Error::KeyTaken`] if a request was made before under one of the keys, `NotFound` if a
    /// workflow was deleted or has a newer version than the one that was asked for as its newest.
    pub async fn submit_plain(&self, now: Micros, submissions: &[PlainSubmission]) -> Result<()> {
        let columns = Columns::of(now, submissions);
        match &*self.db {
            Db::Postgres(pg) => {
                let mut connection = pg.warm.take(&pg.pool).await?;
                let made = postgres::submit::submit(&mut connection, now, &columns).await;
                made.map_err(key_taken)?;
                pg.warm.keep(connection);
            }
            Db::Sqlite(sqlite) => {
                let mut tx = sqlite.begin().await?;
                sqlite::runs::create(&mut tx, now, &columns.seeds, &columns.pools).await?;
                sqlite::submit::leave(&mut tx, &columns).await.map_err(key_taken)?;
                tx.commit().await.map_err(key_taken)?;
            }
        }
        Ok(())
    }
}

fn key_taken(error: Error) -> Error {
    match &error {
        Error::Rejected(sqlx::Error::Database(cause))
            if cause.is_unique_violation()
                && (cause.table() == Some("idempotent_requests")
                    || cause.message().contains("idempotent_requests")) =>
        {
            Error::KeyTaken
        }
        _ => error,
    }
}
