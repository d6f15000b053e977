//! The file: one writer, some readers, and the lock that keeps it to one server.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mainspring_core::Micros;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{Arguments, AssertSqlSafe, ConnectOptions, Connection, SqlitePool};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::bulk::Script;
use super::checkpoints::{Checkpoints, LONGEST_LOG, Written};
use crate::db::Connect;
use crate::error::{Error, Result};
use crate::runs::exchange::TaskToken;
use crate::unit::Joined;

/// How long a statement waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Every reader is a thread with a page cache of its own.
const MAX_READERS: u32 = 4;
/// Rows that the connection's thread may be ahead of their reader: a whole batch, so that neither waits.
const ROW_BUFFER: usize = 2_048;
/// What the memory of dependents may hold, in edges (an entry counts as eight).
const MAX_REMEMBERED: usize = 400_000;
/// How many running rows are remembered; what is forgotten is read again.
const MAX_RUNNING: usize = 100_000;

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
struct Writer {
    /// `None` once closed.
    connection: Option<SqliteConnection>,
    /// A transaction was begun and not seen to its end: it is rolled back before anything else happens.
    unfinished: bool,
    remembered: Dependents,
    running: HashMap<TaskToken, Running>,
    /// How many values went into statements since it was taken.
    values: usize,
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
struct Dependents {
    by_task: HashMap<(i64, i32), Arc<[i32]>>,
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

    /// A transaction whose owner says `BEGIN IMMEDIATE` himself, together with his first statements.
    pub(super) async fn reserve(&self) -> Result<SqliteTx> {
        let mut guard = self.writer().await?;
        guard.0.unfinished = true;
        Ok(SqliteTx {
            guard: Some(guard),
            later: Script::default(),
            learned: HashMap::new(),
            claimed: Vec::new(),
            ended: Vec::new(),
            joined: None,
        })
    }

    /// Keeps other servers from this file until dropped.
    pub(crate) fn server_lock(&self) -> Result<ServerLock> {
        let mut name = self.file.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| Error::Unavailable(sqlx::Error::Io(error)))?;
        match file.try_lock() {
            Ok(()) => Ok(ServerLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::FileInUse(self.file.display().to_string())),
            Err(TryLockError::Error(error)) => Err(Error::Unavailable(sqlx::Error::Io(error))),
        }
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
    async fn roll_back(&mut self) {
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
pub(crate) struct WriterGuard(OwnedMutexGuard<Writer>);

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

/// A transaction on the writer. Dropped without a commit, it is rolled back before the writer is used again.
#[derive(Debug)]
pub(crate) struct SqliteTx {
    /// `None` once finished.
    guard: Option<WriterGuard>,
    /// Statements whose answers no caller waits for. They go along with the next one.
    later: Script,
    /// What goes into the writer's memory with the commit: before it, a version read here may never come to exist.
    learned: HashMap<(i64, i32), Arc<[i32]>>,
    /// Rows that run once this commits, and rows that no longer do.
    claimed: Vec<(TaskToken, Running)>,
    ended: Vec<TaskToken>,
    /// The unit of a request that this is a step of.
    joined: Option<Box<Joined>>,
}

impl SqliteTx {
    /// A step of a request's unit, which holds the writer.
    pub(crate) fn lent(guard: Option<WriterGuard>, joined: Joined) -> Self {
        Self {
            guard,
            later: Script::default(),
            learned: HashMap::new(),
            claimed: Vec::new(),
            ended: Vec::new(),
            joined: Some(Box::new(joined)),
        }
    }

    pub(crate) fn take_guard(&mut self) -> Option<WriterGuard> {
        self.guard.take()
    }

    /// The connection, on which everything has been said that was left for later.
    pub(crate) async fn connection(&mut self) -> Result<&mut SqliteConnection> {
        if !self.later.is_empty() {
            let script = self.script();
            self.fetch(script).await?;
        }
        Ok(self.held())
    }

    fn held(&mut self) -> &mut SqliteConnection {
        self.guard.as_mut().expect("a transaction in use is unfinished").connection()
    }

    /// What was left for later, to say more after it.
    pub(super) fn script(&mut self) -> Script {
        std::mem::take(&mut self.later)
    }

    /// Where statements without an answer are left for later.
    pub(super) fn later(&mut self) -> &mut Script {
        &mut self.later
    }

    /// What the statements of a script answered, one after the other.
    pub(super) async fn fetch(&mut self, script: Script) -> Result<Vec<SqliteRow>> {
        debug_assert!(self.later.is_empty(), "a script begins with what was left for later");
        let (text, arguments) = self.parts(script)?;
        Ok(sqlx::query_with(AssertSqlSafe(text), arguments).fetch_all(self.held()).await?)
    }

    /// How many rows the one statement of a script changed.
    pub(super) async fn execute(&mut self, script: Script) -> Result<u64> {
        let (text, arguments) = self.parts(script)?;
        Ok(sqlx::query_with(AssertSqlSafe(text), arguments).execute(self.held()).await?.rows_affected())
    }

    /// What a script says, counted as written.
    fn parts(&mut self, script: Script) -> Result<(String, SqliteArguments)> {
        let (text, arguments) = script.into_parts()?;
        if let Some(guard) = &mut self.guard {
            guard.0.values += arguments.len();
        }
        Ok((text, arguments))
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        if self.joined.is_some() {
            let mut script = self.script();
            script.say("RELEASE SAVEPOINT request_step");
            self.fetch(script).await?;
            let (learned, claimed, ended) =
                (std::mem::take(&mut self.learned), std::mem::take(&mut self.claimed), std::mem::take(&mut self.ended));
            if let Some(joined) = &mut self.joined {
                if let Some(base) = joined.base() {
                    base.learned.extend(learned);
                    base.claimed.extend(claimed);
                    base.ended.extend(ended);
                }
                joined.done();
            }
            return Ok(());
        }
        let mut script = self.script();
        script.say("COMMIT");
        self.fetch(script).await?;
        self.committed();
        Ok(())
    }

    /// For an owner whose last statement was `COMMIT`.
    pub(super) fn committed(mut self) {
        debug_assert!(self.later.is_empty(), "nothing is left for later than the commit");
        if let Some(mut guard) = self.guard.take() {
            guard.0.unfinished = false;
            guard.0.remembered.add(self.learned.drain());
            let running = &mut guard.0.running;
            for token in &self.ended {
                running.remove(token);
            }
            if running.len() > MAX_RUNNING {
                running.clear();
            }
            running.extend(self.claimed.drain(..));
        }
    }

    /// Who depends on the task, if that is remembered.
    pub(super) fn dependents(&self, version: i64, idx: i32) -> Option<Arc<[i32]>> {
        let remembered = &self.guard.as_ref()?.0.remembered.by_task;
        let task = (version, idx);
        remembered.get(&task).or_else(|| self.learned.get(&task)).cloned()
    }

    /// What is known of a running row.
    pub(super) fn running(&self, token: &TaskToken) -> Option<Running> {
        self.guard.as_ref()?.0.running.get(token).copied()
    }

    pub(super) fn now_runs(&mut self, token: TaskToken, running: Running) {
        self.claimed.push((token, running));
    }

    pub(super) fn runs_no_more(&mut self, token: TaskToken) {
        self.ended.push(token);
    }

    pub(super) fn learn(&mut self, version: i64, idx: i32, dependents: Arc<[i32]>) {
        self.learned.insert((version, idx), dependents);
    }
}

impl Drop for SqliteTx {
    fn drop(&mut self) {
        if let Some(mut joined) = self.joined.take() {
            if let Some(base) = joined.base() {
                base.guard = self.guard.take();
            }
            return;
        }
        // Rolling back at once frees the file for other processes; without a runtime the next holder does it.
        if let (Some(mut guard), Ok(runtime)) = (self.guard.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { guard.0.roll_back().await });
        }
    }
}

impl Dependents {
    fn add(&mut self, learned: impl Iterator<Item = ((i64, i32), Arc<[i32]>)>) {
        for (task, dependents) in learned {
            self.size += dependents.len() + 8;
            self.by_task.insert(task, dependents);
        }
        if self.size > MAX_REMEMBERED {
            *self = Self::default();
        }
    }
}

/// A server's hold on a file.
#[derive(Debug)]
pub struct ServerLock {
    _file: File,
}

/// A folder that goes when its handle goes.
#[derive(Debug)]
struct PassingFolder(PathBuf);

impl PassingFolder {
    fn make() -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("mainspring-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
            let folder = std::env::temp_dir().join(name);
            // No other statement reads what runs were given.
            match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Self(folder)),
                // Left behind by a killed process that had the same number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::Unavailable(sqlx::Error::Io(error))),
            }
        }
    }
}

impl Drop for PassingFolder {
    fn drop(&mut self) {
        // Connections may still have the files open; they live on unnamed until those are closed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes the folder for its owner alone; one that is there already is left as it is.
fn make_folder(file: &Path) -> Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| Error::BadUrl(format!("the folder {} cannot be created: {error}", folder.display()))),
        _ => Ok(()),
    }
}

/// The database holds tokens, secrets and everything that tasks printed: only its owner may read it. SQLite gives its
/// log the rights of the file.
fn make_private(file: &Path) -> Result<()> {
    let made = File::options().write(true).create_new(true).mode(0o600).open(file);
    match made {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(Error::BadUrl(format!("the database file {} cannot be created: {error}", file.display())));
        }
    }
    for suffix in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        let path = PathBuf::from(name);
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        if metadata.permissions().mode() & 0o077 == 0 {
            continue;
        }
        match std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)) {
            Ok(()) => {
                tracing::warn!(file = %path.display(), "other users could read the database; now only its owner can")
            }
            Err(error) => tracing::warn!(%error, file = %path.display(), "other users can read the database"),
        }
    }
    Ok(())
}
