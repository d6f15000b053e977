//! The two databases behind one `Store`.

use std::sync::Arc;
use std::time::Duration;

use mainspring_boxed::boxed;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, PgConnection, PgPool, Postgres, Sqlite};

use crate::error::{Error, Result};
use crate::postgres::transaction::{self, PgTx};
use crate::postgres::warm::Warm;
use crate::sqlite::{ServerLock, SqliteDb, WriterGuard};
use crate::unit::Joined;

/// A connection that was used so recently is taken for alive.
pub(crate) const TRUSTED_FOR: Duration = Duration::from_millis(100);
/// A connection that gives no sign of life for so long is replaced.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// How to reach a database.
#[derive(Debug, Clone)]
pub struct Connect {
    /// `sqlite://path` (or `sqlite::memory:` for nothing that lasts) or `postgres://…`.
    pub url: String,
    pub max_connections: u32,
    pub acquire_timeout: Duration,
}

impl Connect {
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), max_connections: 10, acquire_timeout: Duration::from_secs(5) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    Postgres,
    Sqlite,
}

/// A handle on the database; clones share its connections.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) db: Arc<Db>,
}

#[derive(Debug)]
pub(crate) enum Db {
    Postgres(Box<PgDb>),
    Sqlite(SqliteDb),
}

#[derive(Debug)]
pub(crate) struct PgDb {
    pub(crate) pool: PgPool,
    pub(crate) options: PgConnectOptions,
    pub(crate) warm: Warm,
}

#[boxed]
impl Store {
    /// Connects without touching the schema.
    pub async fn connect(connect: &Connect) -> Result<Self> {
        let url = connect.url.as_str();
        let db = if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Db::Postgres(Box::new(connect_postgres(connect).await?))
        } else if url.starts_with("sqlite:") {
            Db::Sqlite(SqliteDb::open(connect).await?)
        } else {
            if !url.contains("://") {
                return Err(Error::BadUrl(format!(
                    "this is not the URL of a database: write sqlite://{url} for a file, or postgres://HOST/NAME"
                )));
            }
            let scheme: String = url.chars().take_while(|c| *c != ':').take(40).collect();
            return Err(Error::BadUrl(format!(
                "`{scheme}` is not a database this program knows: write sqlite://PATH or postgres://HOST/NAME"
            )));
        };
        Ok(Self { db: Arc::new(db) })
    }

    pub fn flavor(&self) -> Flavor {
        match &*self.db {
            Db::Postgres(_) => Flavor::Postgres,
            Db::Sqlite(_) => Flavor::Sqlite,
        }
    }

    /// The file of the database, if it is one.
    pub fn sqlite_file(&self) -> Option<std::path::PathBuf> {
        match &*self.db {
            Db::Postgres(_) => None,
            Db::Sqlite(sqlite) => Some(sqlite.file().to_owned()),
        }
    }

    /// Opens a transaction; on SQLite it is the one writer's, taken immediately.
    /// Within the unit of a request it is a step of that.
    pub(crate) async fn begin(&self) -> Result<Tx> {
        if let Some(joined) = Joined::step(self).await? {
            return joined.lend();
        }
        match &*self.db {
            Db::Postgres(pg) => Ok(Tx::Postgres(PgTx::begin(&pg.pool).await?)),
            Db::Sqlite(sqlite) => Ok(Tx::Sqlite(sqlite.begin().await?)),
        }
    }

    /// Takes the lock that makes this process the one server of a SQLite file; PostgreSQL needs none.
    pub fn lock_server(&self) -> Result<Option<ServerLock>> {
        match &*self.db {
            Db::Postgres(_) => Ok(None),
            Db::Sqlite(sqlite) => sqlite.server_lock().map(Some),
        }
    }

    /// Connections that are idle and in use.
    pub fn connections(&self) -> (u32, u32) {
        let (size, idle) = match &*self.db {
            Db::Postgres(pg) => (pg.pool.size(), pg.pool.num_idle()),
            Db::Sqlite(sqlite) => (sqlite.readers.size(), sqlite.readers.num_idle()),
        };
        let idle = u32::try_from(idle).unwrap_or(u32::MAX).min(size);
        (idle, size - idle)
    }

    pub async fn close(&self) {
        match &*self.db {
            Db::Postgres(pg) => {
                pg.warm.close();
                pg.pool.close().await;
            }
            Db::Sqlite(sqlite) => sqlite.close().await,
        }
    }
}

async fn connect_postgres(connect: &Connect) -> Result<PgDb> {
    let options: PgConnectOptions = connect
        .url
        .parse()
        .map_err(|error: sqlx::Error| Error::BadUrl(format!("the database URL is not readable: {error}")))?;
    // A client that stalls must not hold locks for long, and a lost peer must be noticed. Every statement has its index;
    // a plan made while a table was small, and kept, must not read it from end to end when it has grown.
    let options = options.application_name("mainspring").options([
        ("statement_timeout", "60s"),
        ("lock_timeout", "30s"),
        ("idle_in_transaction_session_timeout", "60s"),
        ("tcp_user_timeout", "30s"),
        ("jit", "off"),
        // What exists already is no news.
        ("client_min_messages", "warning"),
        ("enable_seqscan", "off"),
    ]);
    let pool = PgPoolOptions::new()
        .max_connections(connect.max_connections)
        .acquire_timeout(connect.acquire_timeout)
        .test_before_acquire(false)
        // A connection that has rested may be from before an outage.
        .before_acquire(|connection, about| {
            Box::pin(async move {
                if about.idle_for < TRUSTED_FOR {
                    return Ok(true);
                }
                Ok(matches!(tokio::time::timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))))
            })
        })
        .after_release(|connection, _| Box::pin(transaction::is_outside(connection)))
        .connect_with(options.clone())
        .await?;
    let warm = Warm::new(connect.max_connections);
    Ok(PgDb { pool, options, warm })
}

/// A connection for statements of their own.
pub(crate) enum Acquired {
    Postgres(PgAcquired),
    Sqlite(SqliteAcquired),
}

pub(crate) enum PgAcquired {
    Pooled(PoolConnection<Postgres>),
    Joined(Box<Joined>),
}

pub(crate) enum SqliteAcquired {
    Reader(PoolConnection<Sqlite>),
    Writer(WriterGuard),
    Joined(Box<Joined>),
}

impl Store {
    /// A connection for reading, or for a single autocommitted statement on PostgreSQL. Within the unit of a request that
    /// has written, it sees what was written.
    pub(crate) async fn to_read(&self) -> Result<Acquired> {
        let joined = Joined::look(self).await?.map(Box::new);
        Ok(match (&*self.db, joined) {
            (Db::Postgres(_), Some(joined)) => Acquired::Postgres(PgAcquired::Joined(joined)),
            (Db::Sqlite(_), Some(joined)) => Acquired::Sqlite(SqliteAcquired::Joined(joined)),
            (Db::Postgres(pg), None) => Acquired::Postgres(PgAcquired::Pooled(transaction::acquire(&pg.pool).await?)),
            (Db::Sqlite(sqlite), None) => Acquired::Sqlite(SqliteAcquired::Reader(sqlite.readers.acquire().await?)),
        })
    }

    /// A connection for one statement that writes: committed by itself, or a step of the unit of a request.
    pub(crate) async fn to_write(&self) -> Result<Acquired> {
        let joined = Joined::step(self).await?.map(Box::new);
        Ok(match (&*self.db, joined) {
            (Db::Postgres(_), Some(joined)) => Acquired::Postgres(PgAcquired::Joined(joined)),
            (Db::Sqlite(_), Some(joined)) => Acquired::Sqlite(SqliteAcquired::Joined(joined)),
            (Db::Postgres(pg), None) => Acquired::Postgres(PgAcquired::Pooled(transaction::acquire(&pg.pool).await?)),
            (Db::Sqlite(sqlite), None) => Acquired::Sqlite(SqliteAcquired::Writer(sqlite.writer().await?)),
        })
    }
}

impl Acquired {
    /// What was written is to stay.
    pub(crate) fn done(&mut self) {
        match self {
            Self::Postgres(PgAcquired::Joined(joined)) | Self::Sqlite(SqliteAcquired::Joined(joined)) => joined.done(),
            Self::Postgres(_) | Self::Sqlite(_) => {}
        }
    }
}

impl PgAcquired {
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        match self {
            Self::Pooled(connection) => connection,
            Self::Joined(joined) => joined.postgres(),
        }
    }
}

impl SqliteAcquired {
    pub(crate) async fn connection(&mut self) -> Result<&mut SqliteConnection> {
        match self {
            Self::Reader(connection) => Ok(connection),
            Self::Writer(writer) => Ok(writer.connection()),
            Self::Joined(joined) => joined.sqlite().await,
        }
    }
}

/// A transaction on either database.
#[derive(Debug)]
pub(crate) enum Tx {
    Postgres(PgTx),
    Sqlite(crate::sqlite::SqliteTx),
}

impl Tx {
    pub(crate) async fn commit(self) -> Result<()> {
        match self {
            Tx::Postgres(tx) => tx.commit().await,
            Tx::Sqlite(tx) => tx.commit().await,
        }
    }

    /// Itself, so that the macros work on an owned and on a borrowed transaction alike.
    pub(crate) fn handle(&mut self) -> &mut Self {
        self
    }

    /// `FOR NO KEY UPDATE` where rows are locked one by one; nothing where the whole file is.
    pub(crate) fn flavor(&self) -> Flavor {
        match self {
            Tx::Postgres(_) => Flavor::Postgres,
            Tx::Sqlite(_) => Flavor::Sqlite,
        }
    }
}

/// Runs one sqlx expression on a connection for reading (or for a single autocommitted statement on PostgreSQL).
macro_rules! read {
    ($store:expr, |$conn:ident| $body:expr) => {{
        let mut acquired = $store.to_read().await?;
        match &mut acquired {
            $crate::db::Acquired::Postgres(acquired) => {
                let $conn = acquired.connection();
                $body
            }
            $crate::db::Acquired::Sqlite(acquired) => {
                let $conn = acquired.connection().await?;
                $body
            }
        }
    }};
}

/// Runs one sqlx expression as a statement of its own on the writer; a query alone is executed, and gives the number of
/// rows that it changed.
macro_rules! write {
    ($store:expr, |$conn:ident| $body:expr) => {{
        let mut acquired = $store.to_write().await?;
        let value = match &mut acquired {
            $crate::db::Acquired::Postgres(acquired) => {
                let $conn = acquired.connection();
                $body
            }
            $crate::db::Acquired::Sqlite(acquired) => {
                let $conn = acquired.connection().await?;
                $body
            }
        };
        acquired.done();
        value
    }};
    ($store:expr, $query:expr) => {
        $crate::db::write!($store, |conn| $query.execute(conn).await?.rows_affected())
    };
}

/// Runs one sqlx expression inside a transaction; a query alone is executed, and gives the number of rows that it changed.
macro_rules! within {
    ($tx:expr, |$conn:ident| $body:expr) => {
        match $tx.handle() {
            $crate::db::Tx::Postgres(tx) => {
                let $conn = &mut **tx;
                $body
            }
            $crate::db::Tx::Sqlite(tx) => {
                let $conn = tx.connection().await?;
                $body
            }
        }
    };
    ($tx:expr, $query:expr) => {
        $crate::db::within!($tx, |conn| $query.execute(conn).await?.rows_affected())
    };
}

/// The text for the database of a transaction, where a lock clause makes the difference.
macro_rules! locking {
    ($tx:expr, $sql:expr, $lock:literal) => {
        match $tx.flavor() {
            $crate::db::Flavor::Postgres => $crate::names::sql!(concat!($sql, " ", $lock)),
            $crate::db::Flavor::Sqlite => $crate::names::sql!($sql),
        }
    };
}

pub(crate) use {locking, read, within, write};
