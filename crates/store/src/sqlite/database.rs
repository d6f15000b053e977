//! The connections to the file: one writer, with what it remembers, and some readers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::Micros;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqlitePool};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::checkpoints::{Checkpoints, LONGEST_LOG, Written};
use super::files::{PassingFolder, ServerLock, make_folder, make_private};
use super::transaction::SqliteTx;
use crate::db::Connect;
use crate::error::{Error, Result};
use crate::runs::exchange::TaskToken;

/// How long a statement waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Every reader is a thread with a page cache of its own.
const MAX_READERS: u32 = 4;
/// Rows that the connection's thread may be ahead of their reader: a whole batch, so that neither waits.
const ROW_BUFFER: usize = 2_048;
/// What the memory of dependents may hold, in edges (an entry counts as eight).
const MAX_REMEMBERED: usize = 400_000;
/// How many running rows are remembered; what is forgotten is read again.
pub(super) const MAX_RUNNING: usize = 100_000;

/// A SQLite database.
#[derive(Debug)]
pub(crate) struct SqliteDb {
    pub(crate) readers: SqlitePool,
    writer: Arc<Mutex<Writer>>,
    checkpoints: Mutex<Checkpoints>,
    file: PathBuf,
    _passing: Option<PassingFolder>,
}

/// The one connection that writes, with what only its holder may use.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` once closed.
    connection: Option<SqliteConnection>,
    /// A transaction was begun and not seen to its end: it is rolled back before anything else happens.
    pub(super) unfinished: bool,
    pub(super) remembered: Dependents,
    pub(super) running: HashMap<TaskToken, Running>,
    /// How many values went into statements since it was taken.
    pub(super) values: usize,
    written: Arc<Written>,
}

/// What is known of a row since it was claimed; it cannot change while the row is claimed. `at` alone may be given to
/// another row once this one is gone, but never together with the claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    /// The row's number in the table.
    pub(super) at: i64,
    pub(super) claim: i64,
    pub(super) version: i64,
    pub(super) flags: i16,
    pub(super) generation: i16,
    pub(super) failures: i16,
    pub(super) lost: i16,
    pub(super) pool: Option<i32>,
    pub(super) started_at: Micros,
}

/// Who depends on a task of a version. Versions never change, so this needs no upkeep.
#[derive(Debug, Default)]
pub(super) struct Dependents {
    pub(super) by_task: HashMap<(i64, i32), Arc<[i32]>>,
    size: usize,
}

impl SqliteDb {
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Opens the file, making it and its folder if they are missing. `sqlite::memory:` is a file that goes with the handle.
    pub(crate) async fn open(connect: &Connect) -> Result<Self> {
        let bad_url = |error: sqlx::Error| Error::BadUrl(format!("the database URL is not readable: {error}"));
        let parsed = SqliteConnectOptions::from_str(&connect.url).map_err(bad_url)?;
        let passing = if connect.url.contains(":memory:") || connect.url.contains("mode=memory") {
            Some(PassingFolder::make()?)
        } else {
            None
        };
        let (options, file) = match &passing {
            // Readers and writer must see one database, which separate in-memory connections would not.
            Some(folder) => {
                let file = folder.0.join("mainspring.db");
                (SqliteConnectOptions::new().filename(&file).synchronous(SqliteSynchronous::Off), file)
            }
            None => {
                let file = parsed.get_filename().to_owned();
                make_folder(&file)?;
                make_private(&file)?;
                (parsed.synchronous(SqliteSynchronous::Full), file)
            }
        };
        let options = options
            .create_if_missing(true)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true)
            .pragma("temp_store", "MEMORY")
            // Every statement has its index; building one for the occasion would read whole tables.
            .pragma("automatic_index", "OFF")
            .row_buffer_size(ROW_BUFFER);
        // What each statement would say is made up even if nothing listens; so it is left out unless something does.
        let listens = tracing::enabled!(target: "sqlx::query", tracing::Level::DEBUG);
        let options = if listens { options } else { options.disable_statement_logging() };
        let connection = options
            .clone()
            .journal_mode(SqliteJournalMode::Wal)
            // What does not fit goes into the log while a large unit is made, and not when all wait for its commit.
            .pragma("cache_size", "-4000")
            .pragma("wal_autocheckpoint", LONGEST_LOG.to_string())
            .pragma("journal_size_limit", "67108864")
            .statement_cache_capacity(256)
            .thread_name(|id| format!("sqlite-writer-{id}"))
            .connect()
            .await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(connect.max_connections.clamp(1, MAX_READERS))
            .acquire_timeout(connect.acquire_timeout.max(BUSY_TIMEOUT))
            .idle_timeout(Duration::from_secs(60))
            .test_before_acquire(false)
            .connect_lazy_with(options.clone().pragma("cache_size", "-2000").pragma("query_only", "ON"));
        let written = Arc::new(Written::default());
        let checkpoints = Checkpoints::begin(options, Arc::clone(&written));
        let writer = Writer {
            connection: Some(connection),
            unfinished: false,
            remembered: Dependents::default(),
            running: HashMap::new(),
            values: 0,
            written,
        };
        Ok(Self {
            readers,
            writer: Arc::new(Mutex::new(writer)),
            checkpoints: Mutex::new(checkpoints),
            file,
            _passing: passing,
        })
    }

    /// The writer for statements of their own.
    pub(crate) async fn writer(&self) -> Result<WriterGuard> {
        let mut guard = Arc::clone(&self.writer).lock_owned().await;
        guard.roll_back().await;
        match guard.connection {
            Some(_) => Ok(WriterGuard(guard)),
            None => Err(Error::Unavailable(sqlx::Error::PoolClosed)),
        }
    }

    /// A transaction that holds the file's write lock from its first moment.
    pub(crate) async fn begin(&self) -> Result<SqliteTx> {
        let mut tx = self.reserve().await?;
        sqlx::query("BEGIN IMMEDIATE").execute(tx.connection().await?).await?;
        Ok(tx)
    }

    /// A transaction whose owner sends `BEGIN IMMEDIATE` together with the first statements.
    pub(super) async fn reserve(&self) -> Result<SqliteTx> {
        let mut guard = self.writer().await?;
        guard.0.unfinished = true;
        Ok(SqliteTx::on(guard))
    }

    /// Keeps other servers from this file until dropped.
    pub(crate) fn server_lock(&self) -> Result<ServerLock> {
        ServerLock::take(&self.file)
    }

    pub(crate) async fn close(&self) {
        self.readers.close().await;
        self.checkpoints.lock().await.end().await;
        let mut writer = self.writer.lock().await;
        writer.roll_back().await;
        if let Some(connection) = writer.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "closing the database file");
        }
    }
}

impl Writer {
    pub(super) async fn roll_back(&mut self) {
        if self.unfinished
            && let Some(connection) = &mut self.connection
        {
            // It fails if the transaction never began or SQLite ended it by itself; either way none is open then.
            if let Err(error) = sqlx::query("ROLLBACK").execute(connection).await {
                tracing::debug!(%error, "rolling back what was left unfinished");
            }
            self.unfinished = false;
        }
    }
}

/// The writer, held.
#[derive(Debug)]
pub(crate) struct WriterGuard(pub(super) OwnedMutexGuard<Writer>);

impl WriterGuard {
    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        self.0.connection.as_mut().expect("a held writer is open")
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.0.values);
        self.0.written.add(values);
    }
}

impl Dependents {
    pub(super) fn add(&mut self, learned: impl Iterator<Item = ((i64, i32), Arc<[i32]>)>) {
        for (task, dependents) in learned {
            self.size += dependents.len() + 8;
            self.by_task.insert(task, dependents);
        }
        if self.size > MAX_REMEMBERED {
            *self = Self::default();
        }
    }
}
