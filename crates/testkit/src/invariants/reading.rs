//! One snapshot of either database, and the walk through all invariants.

use anyhow::{Context, bail};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use super::{counts, fires, rules};

/// Something that should be impossible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What should hold.
    pub invariant: &'static str,
    /// The run, task run or limit for which it does not, with what was found.
    pub subject: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.invariant, self.subject)
    }
}

/// What is wrong now. Empty: nothing is.
pub async fn check(url: &str) -> anyhow::Result<Vec<Violation>> {
    check_all(url, counts::ALWAYS.iter().copied()).await
}

/// What is wrong now, given that all work was driven to its end.
pub async fn check_at_rest(url: &str) -> anyhow::Result<Vec<Violation>> {
    check_all(url, counts::ALWAYS.iter().chain(counts::AT_REST).copied()).await
}

/// What is wrong with the statistics of jobs, given that every execution has ended and no node works any more.
pub async fn check_jobs(url: &str) -> anyhow::Result<Vec<Violation>> {
    let mut snapshot = Snapshot::open(url).await?;
    let mut violations = Vec::new();
    for (invariant, sql) in super::jobs::AT_REST.iter().copied() {
        let subjects = snapshot.subjects(sql).await.with_context(|| format!("checking that {invariant}"))?;
        violations.extend(subjects.into_iter().map(|subject| Violation { invariant, subject }));
    }
    snapshot.close().await;
    Ok(violations)
}

async fn check_all(
    url: &str,
    counted: impl Iterator<Item = (&'static str, &'static str)>,
) -> anyhow::Result<Vec<Violation>> {
    let mut snapshot = Snapshot::open(url).await?;
    let mut violations = Vec::new();
    for (invariant, sql) in counted {
        let subjects = snapshot.subjects(sql).await.with_context(|| format!("checking that {invariant}"))?;
        violations.extend(subjects.into_iter().map(|subject| Violation { invariant, subject }));
    }
    violations.extend(rules::check(&mut snapshot).await.context("checking trigger rules")?);
    violations.extend(fires::check(&mut snapshot).await.context("checking schedules")?);
    snapshot.close().await;
    Ok(violations)
}

/// A transaction that sees one moment.
pub(crate) enum Snapshot {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Snapshot {
    pub(crate) async fn open(url: &str) -> anyhow::Result<Self> {
        if url.starts_with("postgres") {
            let mut connection = PgConnection::connect(url).await.with_context(|| format!("connecting to {url}"))?;
            sqlx::query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").execute(&mut connection).await?;
            Ok(Self::Postgres(connection))
        } else if url.starts_with("sqlite") {
            let mut connection = SqliteConnection::connect(url).await.with_context(|| format!("opening {url}"))?;
            sqlx::query("BEGIN").execute(&mut connection).await?;
            Ok(Self::Sqlite(connection))
        } else {
            bail!("{url} is neither a PostgreSQL nor a SQLite database");
        }
    }

    /// The subjects a text finds. It may say `ID(column)` for the text of an id, and `EDGES` for a table of
    /// (version, idx, dependent).
    async fn subjects(&mut self, sql: &str) -> anyhow::Result<Vec<String>> {
        let rows: Vec<(String,)> = self.rows(sql).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    pub(crate) async fn rows<R>(&mut self, sql: &str) -> anyhow::Result<Vec<R>>
    where
        R: for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>
            + for<'r> sqlx::FromRow<'r, sqlx::sqlite::SqliteRow>
            + Send
            + Unpin,
    {
        Ok(match self {
            Self::Postgres(connection) => {
                let sql = replace_ids(sql, |column| format!("{column}::text"))
                    .replace("EDGES", "(SELECT version, idx, unnest(dependents) AS dependent FROM version_tasks)");
                sqlx::query_as(AssertSqlSafe(sql)).fetch_all(connection).await?
            }
            Self::Sqlite(connection) => {
                let sql = replace_ids(sql, |column| format!("lower(hex({column}))")).replace(
                    "EDGES",
                    "(SELECT vt.version, vt.idx, e.value AS dependent FROM version_tasks vt, json_each(vt.dependents) e)",
                );
                sqlx::query_as(AssertSqlSafe(sql)).fetch_all(connection).await?
            }
        })
    }

    pub(crate) async fn close(self) {
        match self {
            Self::Postgres(connection) => _ = connection.close().await,
            Self::Sqlite(connection) => _ = connection.close().await,
        }
    }
}

fn replace_ids(sql: &str, text_of: impl Fn(&str) -> String) -> String {
    let mut parts = sql.split("ID(");
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (column, rest) = part.split_once(')').unwrap_or((part, ""));
        replaced.push_str(&text_of(column));
        replaced.push_str(rest);
    }
    replaced
}
