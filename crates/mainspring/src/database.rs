//! Reaching the database: say quickly and exactly why it cannot be reached, and never show a password.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_store::{Connect, Flavor, SchemaState, Store};

use crate::config::Config;
use crate::failure::{Exit, Failure, Result, cause};

/// How long a server that starts waits for its database.
pub(crate) const START_PATIENCE: Duration = Duration::from_secs(30);
const RETRY_EVERY: Duration = Duration::from_secs(1);
const PROBE_PATIENCE: Duration = Duration::from_secs(3);

/// Connects without touching the schema.
pub(crate) async fn connect(config: &Config) -> Result<Store> {
    probe(&config.database).await?;
    let connect = Connect { max_connections: config.database_connections, ..Connect::new(&config.database) };
    Store::connect(&connect).await.map_err(|error| explained(config, Failure::from(error)))
}

/// What databases say briefly, in words that name the remedy.
fn explained(config: &Config, failure: Failure) -> Failure {
    let message = failure.message.clone();
    let failure = failure.while_doing(shown(&config.database));
    if message.contains("role \"") && message.contains("does not exist") {
        let user = message.split('"').nth(1).unwrap_or_default();
        return failure.remedy(format!("make it with `createuser {user}`, or name another user in the URL"));
    }
    if message.contains("database \"") && message.contains("does not exist") {
        let name = message.split('"').nth(1).unwrap_or_default();
        return failure.remedy(format!("make it with `createdb {name}`, or name another database in the URL"));
    }
    if message.contains("password authentication failed") {
        return failure.remedy("check the user and the password in --database (DATABASE_URL)");
    }
    let is_unwritable = ["unable to open database file", "readonly database", "Permission denied", "permission denied"]
        .iter()
        .any(|words| message.contains(words));
    match sqlite_file(&config.database).filter(|_| is_unwritable) {
        Some(file) => Failure::bad_input(format!("the database file {} cannot be opened for writing", file.display()))
            .remedy("let this user write to its folder, or name another place with --database sqlite://PATH"),
        None => failure,
    }
}

/// Connects, however long it takes the database to come up, within [`START_PATIENCE`].
pub(crate) async fn connect_patiently(config: &Config) -> Result<Store> {
    let started = Instant::now();
    loop {
        let failure = match connect(config).await {
            Ok(store) => return Ok(store),
            Err(failure) => failure,
        };
        let left = START_PATIENCE.saturating_sub(started.elapsed());
        if failure.exit != Exit::Unreachable || left.is_zero() {
            return Err(failure);
        }
        tracing::warn!(cause = failure.message, "the database is away; trying again for {} s", left.as_secs());
        tokio::time::sleep(RETRY_EVERY.min(left)).await;
    }
}

/// For a command that looks at or changes what is there: the schema must be the one this program knows.
pub(crate) async fn open(config: &Config) -> Result<Store> {
    if let Some(file) = sqlite_file(&config.database)
        && !file.exists()
    {
        return Err(Failure::bad_input(format!("there is no database file {}", file.display())).remedy(
            "start `mainspring server` here first, or name a database with --database or a server with --server",
        ));
    }
    let store = connect(config).await?;
    store.require_current_schema().await?;
    Ok(store)
}

/// For a command that may be the first: an empty database is prepared, and so is an older file that is ours alone.
/// An older PostgreSQL schema may be in use by other servers, so that is left to `migrate up`.
pub(crate) async fn prepare(store: &Store, now: Micros, is_ours_alone: bool) -> Result<()> {
    match store.schema_state().await? {
        SchemaState::Current => {}
        SchemaState::Empty => _ = store.migrate_up(now).await?,
        SchemaState::Behind { .. } if store.flavor() == Flavor::Sqlite && is_ours_alone => {
            _ = store.migrate_up(now).await?;
        }
        SchemaState::Behind { .. } | SchemaState::Newer { .. } => store.require_current_schema().await?,
    }
    Ok(())
}

/// The file of a `sqlite:` URL.
pub(crate) fn sqlite_file(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("sqlite:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest).split('?').next().unwrap_or_default();
    (!path.is_empty() && !path.contains(":memory:")).then(|| PathBuf::from(path))
}

/// The URL as it may be shown: without the password.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
    let path = path.split('?').next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{host}{path}")
        }
        None => format!("{scheme}://{authority}{path}"),
    }
}

/// Whether a server listens where PostgreSQL should: the pool alone would only say that it timed out.
async fn probe(url: &str) -> Result<()> {
    let Some((host, port)) = postgres_address(url) else { return Ok(()) };
    let cause = match tokio::time::timeout(PROBE_PATIENCE, tokio::net::TcpStream::connect((host.as_str(), port))).await
    {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => cause(&error),
        Err(_) => format!("no answer within {} s", PROBE_PATIENCE.as_secs()),
    };
    Err(Failure::unreachable(format!("the database at {host}:{port} is not reachable: {cause}"))
        .remedy("check that PostgreSQL runs there and that --database (DATABASE_URL) names it"))
}

/// Host and port of a `postgres://` URL; none for a Unix socket, or where the URL is not readable anyway.
fn postgres_address(url: &str) -> Option<(String, u16)> {
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
    if rest.contains("host=") {
        return None;
    }
    let authority = rest.split(['/', '?']).next()?;
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (address, 5432),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty() && !host.contains('%')).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, expected) in [
            ("postgres://me:secret@host:5432/db?sslmode=require", "postgres://me@host:5432/db"),
            ("postgres://me:p@ss@host/db", "postgres://me@host/db"),
            ("postgres://host/db?password=secret", "postgres://host/db"),
            ("sqlite://.mainspring/mainspring.db", "sqlite://.mainspring/mainspring.db"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }

    #[test]
    fn addresses_are_found() {
        for (url, expected) in [
            ("postgres://me:p@host:1/db", Some(("host", 1))),
            ("postgresql://host", Some(("host", 5432))),
            ("postgres://[::1]:2/db", Some(("::1", 2))),
            ("postgres://[::1]/db", Some(("::1", 5432))),
            ("postgres:///db?host=/run/postgresql", None),
            ("postgres://%2Frun/db", None),
            ("sqlite://x", None),
        ] {
            assert_eq!(postgres_address(url), expected.map(|(host, port)| (host.to_owned(), port)), "{url}");
        }
    }

    #[test]
    fn sqlite_urls_name_files() {
        assert_eq!(sqlite_file("sqlite://a/b.db?mode=rwc"), Some("a/b.db".into()));
        assert_eq!(sqlite_file("sqlite:///abs.db"), Some("/abs.db".into()));
        assert_eq!(sqlite_file("sqlite::memory:"), None);
        assert_eq!(sqlite_file("postgres://x"), None);
    }
}
