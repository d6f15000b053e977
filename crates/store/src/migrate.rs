//! The schema, by numbered steps with a way back. Append-only: a step that was released is never changed.

use mainspring_core::Micros;

use crate::db::{Db, Flavor, Store, Tx, read, within};
use crate::error::{Error, Result};

struct Migration {
    version: i64,
    name: &'static str,
    postgres: (&'static str, &'static str),
    sqlite: (&'static str, &'static str),
}

macro_rules! migration {
    ($version:literal, $name:literal, $file:literal) => {
        Migration {
            version: $version,
            name: $name,
            postgres: (
                include_str!(concat!("../migrations/postgres/", $file, ".up.sql")),
                include_str!(concat!("../migrations/postgres/", $file, ".down.sql")),
            ),
            sqlite: (
                include_str!(concat!("../migrations/sqlite/", $file, ".up.sql")),
                include_str!(concat!("../migrations/sqlite/", $file, ".down.sql")),
            ),
        }
    };
}

const MIGRATIONS: &[Migration] = &[
    migration!(1, "spine", "0001_spine"),
    migration!(2, "exchange", "0002_exchange"),
    migration!(3, "waiting", "0003_waiting"),
    migration!(4, "search", "0004_search"),
    migration!(5, "time", "0005_time"),
    migration!(6, "doors", "0006_doors"),
    migration!(7, "jobs", "0007_jobs"),
    migration!(8, "live", "0008_live"),
];

/// Two processes must not migrate one PostgreSQL database at the same time.
const MIGRATION_LOCK: i64 = 0x6d61_696e_7370;

/// How the schema compares with what this program knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    Empty,
    Behind { found: i64, known: i64 },
    Current,
    Newer { found: i64, known: i64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    pub version: i64,
    pub name: &'static str,
    pub applied_at: Option<Micros>,
}

impl MigrationStatus {
    /// The statements that going up would run, for a dry run.
    pub fn up_sql(&self, flavor: Flavor) -> &'static str {
        MIGRATIONS.iter().find(|step| step.version == self.version).map_or("", |step| match flavor {
            Flavor::Postgres => step.postgres.0,
            Flavor::Sqlite => step.sqlite.0,
        })
    }
}

impl Store {
    pub async fn schema_state(&self) -> Result<SchemaState> {
        let known = MIGRATIONS.last().map_or(0, |step| step.version);
        let found = self.applied().await?.last().map_or(0, |step| step.0);
        Ok(match found {
            0 => SchemaState::Empty,
            found if found < known => SchemaState::Behind { found, known },
            found if found > known => SchemaState::Newer { found, known },
            _ => SchemaState::Current,
        })
    }

    /// Refuses a schema this program does not know.
    pub async fn require_current_schema(&self) -> Result<()> {
        match self.schema_state().await? {
            SchemaState::Current => Ok(()),
            SchemaState::Newer { found, known } => Err(Error::NewerSchema { found, known }),
            SchemaState::Behind { found, known } => Err(Error::OlderSchema { found, known }),
            SchemaState::Empty => {
                Err(Error::OlderSchema { found: 0, known: MIGRATIONS.last().map_or(0, |step| step.version) })
            }
        }
    }

    pub async fn migration_status(&self) -> Result<Vec<MigrationStatus>> {
        let applied = self.applied().await?;
        Ok(MIGRATIONS
            .iter()
            .map(|step| MigrationStatus {
                version: step.version,
                name: step.name,
                applied_at: applied.iter().find(|row| row.0 == step.version).map(|row| row.1),
            })
            .collect())
    }

    /// Applies every step that is missing; returns how many. Each step is a transaction.
    pub async fn migrate_up(&self, now: Micros) -> Result<usize> {
        if let SchemaState::Newer { found, known } = self.schema_state().await? {
            return Err(Error::NewerSchema { found, known });
        }
        let mut done = 0;
        for step in MIGRATIONS {
            let mut tx = self.begin().await?;
            lock_schema(&mut tx).await?;
            if is_applied(&mut tx, step.version).await? {
                continue;
            }
            run_script(&mut tx, step.postgres.0, step.sqlite.0).await?;
            within!(
                tx,
                sqlx::query("INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, $3)")
                    .bind(step.version)
                    .bind(step.name)
                    .bind(now)
            );
            tx.commit().await?;
            done += 1;
        }
        self.ensure_history_partitions(now).await?;
        Ok(done)
    }

    /// Takes back the newest `steps` steps; returns how many were taken back. Their data is lost.
    pub async fn migrate_down(&self, steps: usize) -> Result<usize> {
        let mut done = 0;
        for step in MIGRATIONS.iter().rev() {
            if done == steps {
                break;
            }
            let mut tx = self.begin().await?;
            lock_schema(&mut tx).await?;
            if !is_applied(&mut tx, step.version).await? {
                continue;
            }
            run_script(&mut tx, step.postgres.1, step.sqlite.1).await?;
            within!(tx, sqlx::query("DELETE FROM schema_migrations WHERE version = $1").bind(step.version));
            tx.commit().await?;
            done += 1;
        }
        Ok(done)
    }

    /// The applied steps, oldest first; none if the database was never used.
    async fn applied(&self) -> Result<Vec<(i64, i64)>> {
        let exists = match &*self.db {
            Db::Postgres(pg) => {
                let (found,): (bool,) =
                    sqlx::query_as("SELECT to_regclass('schema_migrations') IS NOT NULL").fetch_one(&pg.pool).await?;
                found
            }
            Db::Sqlite(sqlite) => {
                let (found,): (i64,) = sqlx::query_as(
                    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'",
                )
                .fetch_one(&sqlite.readers)
                .await?;
                found > 0
            }
        };
        if !exists {
            return Ok(Vec::new());
        }
        Ok(read!(self, |conn| sqlx::query_as("SELECT version, applied_at FROM schema_migrations ORDER BY version")
            .fetch_all(conn)
            .await?))
    }
}

async fn lock_schema(tx: &mut Tx) -> Result<()> {
    if let Tx::Postgres(tx) = tx {
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(MIGRATION_LOCK).execute(&mut **tx).await?;
    }
    within!(
        tx,
        sqlx::query(
            "CREATE TABLE IF NOT EXISTS schema_migrations (version bigint PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)"
        )
    );
    Ok(())
}

async fn is_applied(tx: &mut Tx, version: i64) -> Result<bool> {
    let found: Option<(i64,)> =
        within!(tx, |conn| sqlx::query_as("SELECT version FROM schema_migrations WHERE version = $1")
            .bind(version)
            .fetch_optional(conn)
            .await?);
    Ok(found.is_some())
}

async fn run_script(tx: &mut Tx, postgres: &'static str, sqlite: &'static str) -> Result<()> {
    match tx {
        Tx::Postgres(tx) => {
            sqlx::raw_sql(postgres).execute(&mut **tx).await?;
        }
        Tx::Sqlite(tx) => {
            sqlx::raw_sql(sqlite).execute(tx.connection().await?).await?;
        }
    }
    Ok(())
}
