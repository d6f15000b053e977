//! The schema, by numbered steps with a way back, and the stored functions of PostgreSQL.
//!
//! Functions are source, not history: `sql/postgres/functions` has the text of each, and going up replaces those whose
//! text is another than the installed one. Their names carry a version because nodes of two releases may share a database:
//! what was released keeps its text, and a change is a new name.

use mainspring_boxed::boxed;
use mainspring_core::Micros;

use crate::db::{Db, Flavor, Store, Tx, read, within};
use crate::error::{Error, Result};
use crate::names::render;
use crate::postgres::functions;

/// One numbered step. Nothing has been released yet, so there is one: the whole schema, a file per group of tables. A step
/// that was released is never changed; the next one brings its own files.
struct Migration {
    version: i64,
    name: &'static str,
    postgres: Script,
    sqlite: Script,
}

/// What a step does to one database, in order. Going down drops every view and table that going up creates.
struct Script(&'static [&'static str]);

macro_rules! script {
    ($database:literal: $($file:literal)+) => {
        Script(&[$(include_str!(concat!("../sql/", $database, "/schema/", $file, ".sql"))),+])
    };
}

const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "schema",
    postgres: script!("postgres": "workflows" "runs" "cluster" "schedules" "events" "access" "search" "desk"),
    sqlite: script!("sqlite": "workflows" "runs" "cluster" "schedules" "events" "access" "search" "desk"),
}];

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
    /// The statements that going up would run, for a dry run. The functions go with the newest step.
    pub fn up_sql(&self, flavor: Flavor) -> String {
        let Some(step) = MIGRATIONS.iter().find(|step| step.version == self.version) else { return String::new() };
        let mut text = step.script(flavor).up();
        if flavor == Flavor::Postgres && step.version == known_version() {
            for function in functions::ALL {
                text.push('\n');
                text.push_str(&function.text());
            }
        }
        text
    }
}

impl Migration {
    fn script(&self, flavor: Flavor) -> &Script {
        match flavor {
            Flavor::Postgres => &self.postgres,
            Flavor::Sqlite => &self.sqlite,
        }
    }
}

impl Script {
    fn up(&self) -> String {
        render(&self.0.join("\n"))
    }

    /// Drops the tables in the opposite order of their making; a partition goes with its table.
    fn down(&self) -> String {
        let lines = || self.0.iter().flat_map(|file| file.lines());
        let views: Vec<&str> =
            lines().filter_map(|line| line.strip_prefix("CREATE VIEW ")?.split(' ').next()).collect();
        let created = lines().filter(|line| !line.contains(" PARTITION OF "));
        let tables: Vec<&str> = created
            .filter_map(|line| {
                line.strip_prefix("CREATE TABLE ").or_else(|| line.strip_prefix("CREATE VIRTUAL TABLE "))
            })
            .filter_map(|rest| rest.split(' ').next())
            .collect();
        let views = views.iter().rev().map(|view| format!("DROP VIEW {view};\n"));
        views.chain(tables.iter().rev().map(|table| format!("DROP TABLE {table};\n"))).collect()
    }
}

fn known_version() -> i64 {
    MIGRATIONS.last().map_or(0, |step| step.version)
}

impl SchemaState {
    fn compare(found: i64, known: i64) -> Self {
        match found {
            0 => Self::Empty,
            found if found < known => Self::Behind { found, known },
            found if found > known => Self::Newer { found, known },
            _ => Self::Current,
        }
    }
}

#[boxed]
impl Store {
    pub async fn schema_state(&self) -> Result<SchemaState> {
        let known = known_version();
        let found = self.applied().await?.last().map_or(0, |step| step.0);
        let state = SchemaState::compare(found, known);
        if let (SchemaState::Current, Db::Postgres(pg)) = (state, &*self.db)
            && !functions::outdated(&mut *pg.pool.acquire().await?).await?.is_empty()
        {
            return Ok(SchemaState::Behind { found, known });
        }
        Ok(state)
    }

    /// Refuses a schema this program does not know.
    pub async fn require_current_schema(&self) -> Result<()> {
        match self.schema_state().await? {
            SchemaState::Current => Ok(()),
            SchemaState::Newer { found, known } => Err(Error::NewerSchema { found, known }),
            SchemaState::Behind { found, known } => Err(Error::OlderSchema { found, known }),
            SchemaState::Empty => Err(Error::OlderSchema { found: 0, known: known_version() }),
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
            run_script(&mut tx, step.script(self.flavor()).up()).await?;
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
        self.install_functions().await?;
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
            if let (1, Tx::Postgres(tx)) = (step.version, &mut tx) {
                functions::drop_all(tx).await?;
            }
            run_script(&mut tx, step.script(self.flavor()).down()).await?;
            within!(tx, sqlx::query("DELETE FROM schema_migrations WHERE version = $1").bind(step.version));
            tx.commit().await?;
            done += 1;
        }
        Ok(done)
    }

    /// Brings the stored functions to the text that this program has of them.
    async fn install_functions(&self) -> Result<()> {
        let mut tx = self.begin().await?;
        lock_schema(&mut tx).await?;
        if let Tx::Postgres(tx) = &mut tx {
            functions::install(tx).await?;
        }
        tx.commit().await
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

async fn run_script(tx: &mut Tx, script: String) -> Result<()> {
    let script = sqlx::raw_sql(sqlx::AssertSqlSafe(script));
    match tx {
        Tx::Postgres(tx) => _ = script.execute(&mut **tx).await?,
        Tx::Sqlite(tx) => _ = script.execute(tx.connection().await?).await?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_older_the_same_or_newer() {
        assert_eq!(SchemaState::compare(0, 3), SchemaState::Empty);
        assert_eq!(SchemaState::compare(2, 3), SchemaState::Behind { found: 2, known: 3 });
        assert_eq!(SchemaState::compare(3, 3), SchemaState::Current);
        assert_eq!(SchemaState::compare(4, 3), SchemaState::Newer { found: 4, known: 3 });
    }
}
