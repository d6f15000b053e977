//! Submissions that gather: plain runs with what their requests leave, in one commit.
//!
//! On PostgreSQL it is one statement in autocommit: runs, task runs, keys with their answers, and audit rows. What a
//! request is answered is known before, because nothing about a plain run is decided by the database.

use mainspring_core::Micros;
use mainspring_core::state::RunState;

use crate::access::{AuditRow, KeptAnswer};
use crate::db::{Db, Store};
use crate::error::{Error, Result};
use crate::runs::create::{NewRun, RunSeed, goes_in_bulk, is_plain, pools_of};
use crate::unit::RequestKey;
use crate::{postgres, sqlite};

/// A plain run and what the request for it leaves.
#[derive(Debug)]
pub struct PlainSubmission {
    pub run: NewRun,
    pub key: Option<(RequestKey, KeptAnswer)>,
    pub audit: Option<AuditRow>,
}

impl NewRun {
    /// Whether it starts at once, whatever else there is: no limit, no key of its own, no time, neither none nor very many
    /// tasks.
    pub fn is_plain(&self) -> bool {
        is_plain(self) && goes_in_bulk(self)
    }
}

impl Store {
    /// Makes them all or none. [`Error::KeyTaken`] if a request was made before under one of the keys.
    pub async fn submit_plain(&self, now: Micros, submissions: &[PlainSubmission]) -> Result<()> {
        let seeds: Vec<RunSeed> =
            submissions.iter().map(|one| RunSeed::new(&one.run, now, RunState::Running)).collect();
        let pools = pools_of(submissions.iter().map(|one| &one.run));
        let keys: Vec<&(RequestKey, KeptAnswer)> = submissions.iter().filter_map(|one| one.key.as_ref()).collect();
        let audit: Vec<&AuditRow> = submissions.iter().filter_map(|one| one.audit.as_ref()).collect();
        match &*self.db {
            Db::Postgres(pg) => {
                let mut connection = pg.warm.take(&pg.pool).await?;
                let made = postgres::submit::submit(&mut connection, now, &seeds, &pools, &keys, &audit).await;
                made.map_err(key_taken)?;
                pg.warm.keep(connection);
            }
            Db::Sqlite(sqlite) => {
                let mut tx = sqlite.begin().await?;
                sqlite::runs::create(&mut tx, now, &seeds, &pools).await?;
                sqlite::submit::leave(&mut tx, &keys, &audit).await.map_err(key_taken)?;
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
