//! Throwaway databases: every test gets its own, migrated, and leaves none behind.
//!
//! PostgreSQL databases are copies of a template that is migrated once per server and set of migrations. A test that
//! needs PostgreSQL and finds none fails: silence would look like success.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use mainspring_core::Micros;
use mainspring_store::{Connect, Flavor, Store};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

/// The server on which tests make their databases, as the URL of a database to connect to first.
pub const SERVER_VARIABLE: &str = "MAINSPRING_TEST_POSTGRES";

/// An instant of 2026. Tests begin here and move time by hand.
pub const NOW: Micros = 1_780_000_000_000_000;

/// Two processes must not make the template at the same time.
const TEMPLATE_LOCK: i64 = 0x7465_6d70_6c61;

/// A migrated database of this test alone. It goes when this value does.
#[derive(Debug)]
pub struct TestDatabase {
    url: String,
    store: Store,
    _place: Place,
}

/// What goes with the value.
#[derive(Debug)]
enum Place {
    Server { _copy: Copy },
    Folder { _folder: tempfile::TempDir },
}

impl TestDatabase {
    /// A copy of the migrated template on the server of [`SERVER_VARIABLE`].
    pub async fn postgres() -> Self {
        let server = server_url();
        let template = template(&server).await;
        let name = format!("test_{}_{:08x}", std::process::id(), fastrand::u32(..));
        copy(&server, &name, &template).await;
        Self::connect_to_copy(server, name).await
    }

    /// A database on the same server in which nothing was ever made.
    pub async fn empty_postgres() -> Self {
        let server = server_url();
        let name = format!("empty_{}_{:08x}", std::process::id(), fastrand::u32(..));
        copy(&server, &name, "template0").await;
        Self::connect_to_copy(server, name).await
    }

    /// A migrated file in a folder of its own.
    pub async fn sqlite() -> Self {
        let database = Self::empty_sqlite().await;
        database.store.migrate_up(NOW).await.unwrap_or_else(|error| panic!("migrating {}: {error}", database.url));
        database
    }

    /// A file in which nothing was ever made.
    pub async fn empty_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("making a folder for a database: {error}"));
        let url = format!("sqlite://{}", folder.path().join("test.db").display());
        let store = connect(&url).await;
        Self { url, store, _place: Place::Folder { _folder: folder } }
    }

    pub async fn new(flavor: Flavor) -> Self {
        match flavor {
            Flavor::Postgres => Self::postgres().await,
            Flavor::Sqlite => Self::sqlite().await,
        }
    }

    pub async fn empty(flavor: Flavor) -> Self {
        match flavor {
            Flavor::Postgres => Self::empty_postgres().await,
            Flavor::Sqlite => Self::empty_sqlite().await,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Runs a statement on a connection of its own; how many rows it changed.
    pub async fn execute(&self, sql: &str) -> u64 {
        let failed = |error: sqlx::Error| -> u64 { panic!("{sql}: {error}") };
        let statement = AssertSqlSafe(sql.to_owned());
        match self.store.flavor() {
            Flavor::Postgres => {
                let mut connection = connect_to_server(&self.url).await;
                sqlx::query(statement).execute(&mut connection).await.map_or_else(failed, |done| done.rows_affected())
            }
            Flavor::Sqlite => {
                let mut connection = connect_to_file(&self.url).await;
                sqlx::query(statement).execute(&mut connection).await.map_or_else(failed, |done| done.rows_affected())
            }
        }
    }

    /// The first column, a text, of what a query finds.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        let statement = AssertSqlSafe(sql.to_owned());
        let rows: Result<Vec<(String,)>, sqlx::Error> = match self.store.flavor() {
            Flavor::Postgres => sqlx::query_as(statement).fetch_all(&mut connect_to_server(&self.url).await).await,
            Flavor::Sqlite => sqlx::query_as(statement).fetch_all(&mut connect_to_file(&self.url).await).await,
        };
        rows.unwrap_or_else(|error| panic!("{sql}: {error}")).into_iter().map(|row| row.0).collect()
    }

    async fn connect_to_copy(server: String, name: String) -> Self {
        let url = on_server(&server, &name);
        // Made first, so that the database goes even if connecting to it fails.
        let place = Place::Server { _copy: Copy { server, name } };
        let store = connect(&url).await;
        Self { url, store, _place: place }
    }
}

/// Where the file of a `sqlite://` URL lies.
pub fn sqlite_path(url: &str) -> PathBuf {
    PathBuf::from(url.trim_start_matches("sqlite://"))
}

/// A database on the server that is dropped with this value.
#[derive(Debug)]
struct Copy {
    server: String,
    name: String,
}

impl Drop for Copy {
    /// Best effort, and over when it returns: a test's runtime may be gone already, so it brings its own.
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                let mut connection = PgConnection::connect(&server).await.ok()?;
                let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.ok()
            })
        });
        _ = dropping.join();
    }
}

fn server_url() -> String {
    std::env::var(SERVER_VARIABLE).unwrap_or_else(|_| {
        panic!(
            "{SERVER_VARIABLE} is not set, so there is no PostgreSQL to test on: \
             use `make test`, or `scripts/postgres with --fast -- cargo nextest run …`"
        )
    })
}

async fn connect(url: &str) -> Store {
    Store::connect(&Connect::new(url)).await.unwrap_or_else(|error| panic!("connecting to {url}: {error}"))
}

async fn connect_to_file(url: &str) -> SqliteConnection {
    SqliteConnection::connect(url).await.unwrap_or_else(|error| panic!("connecting to {url}: {error}"))
}

async fn connect_to_server(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap_or_else(|error| panic!("connecting to {SERVER_VARIABLE}={url}: {error}"))
}

async fn execute(connection: &mut PgConnection, sql: String) {
    let shown = sql.clone();
    sqlx::query(AssertSqlSafe(sql)).execute(connection).await.unwrap_or_else(|error| panic!("{shown}: {error}"));
}

/// The URL of another database on the same server.
fn on_server(server: &str, name: &str) -> String {
    let (before, parameters) = server.split_once('?').unwrap_or((server, ""));
    let authority_ends = before.find("://").and_then(|at| before[at + 3..].find('/').map(|slash| at + 3 + slash));
    let base = &before[..authority_ends.unwrap_or(before.len())];
    if parameters.is_empty() { format!("{base}/{name}") } else { format!("{base}/{name}?{parameters}") }
}

async fn copy(server: &str, name: &str, template: &str) {
    let mut connection = connect_to_server(server).await;
    execute(&mut connection, format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
    _ = connection.close().await;
}

/// The name of the migrated template, which is made if this server has none for these migrations.
async fn template(server: &str) -> String {
    let name = format!("mainspring_template_{:016x}", migrations_hash(server).await);
    let mut connection = connect_to_server(server).await;
    execute(&mut connection, format!("SELECT pg_advisory_lock({TEMPLATE_LOCK})")).await;
    let found: Option<(i32,)> = sqlx::query_as("SELECT 1 FROM pg_database WHERE datname = $1")
        .bind(&name)
        .fetch_optional(&mut connection)
        .await
        .unwrap_or_else(|error| panic!("looking for the template: {error}"));
    if found.is_none() {
        // Under another name until it is complete: a crash in between leaves no half-made template.
        let making = format!("{name}_making");
        execute(&mut connection, format!("DROP DATABASE IF EXISTS {making} WITH (FORCE)")).await;
        execute(&mut connection, format!("CREATE DATABASE {making} TEMPLATE template0")).await;
        let store = connect(&on_server(server, &making)).await;
        store.migrate_up(NOW).await.unwrap_or_else(|error| panic!("migrating the template: {error}"));
        store.close().await;
        execute(&mut connection, format!("ALTER DATABASE {making} RENAME TO {name}")).await;
    }
    // Closing gives the lock back.
    _ = connection.close().await;
    name
}

async fn migrations_hash(server: &str) -> u64 {
    let store = connect(server).await;
    let steps = store.migration_status().await.unwrap_or_else(|error| panic!("reading the migrations: {error}"));
    store.close().await;
    let mut hasher = DefaultHasher::new();
    for step in &steps {
        step.up_sql(Flavor::Postgres).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::on_server;

    #[test]
    fn urls_of_other_databases_keep_everything_else() {
        assert_eq!(on_server("postgres://u:p@h:1/postgres", "x"), "postgres://u:p@h:1/x");
        assert_eq!(on_server("postgres://u@h:1", "x"), "postgres://u@h:1/x");
        assert_eq!(on_server("postgres://u@h/postgres?sslmode=disable", "x"), "postgres://u@h/x?sslmode=disable");
    }
}
