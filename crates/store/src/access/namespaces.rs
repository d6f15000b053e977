//! Namespaces: they exist by being used; a row adds quotas and a description.

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::db::{Flavor, Store, Tx, locking, read, within, write};
use crate::error::{Error, Result};
use crate::runs::create::{Created, NewRun, create_all};

/// What a namespace may have; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Quotas {
    pub max_open_runs: Option<i32>,
    pub max_workflows: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct NamespaceRow {
    pub name: String,
    pub description: Option<String>,
    pub max_open_runs: Option<i32>,
    pub max_workflows: Option<i32>,
    /// `None` for one that only exists by being used.
    pub created_at: Option<Micros>,
    pub updated_at: Option<Micros>,
}

/// Tables with a column `namespace` whose rows do not go with it on their own account: routes are interned and waits go
/// with their runs; the audit log stays; workflows and the namespace itself go last.
const SPARED: &[&str] = &["audit_log", "namespaces", "routes", "waits", "workflows"];

#[boxed]
impl Store {
    /// All of them, by name.
    pub async fn namespaces(&self) -> Result<Vec<NamespaceRow>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT u.name, n.description, n.max_open_runs, n.max_workflows, n.created_at, n.updated_at FROM \
             (SELECT name FROM namespaces UNION SELECT namespace FROM workflows UNION SELECT namespace FROM secrets) u \
             LEFT JOIN namespaces n ON n.name = u.name ORDER BY u.name"
        )
        .fetch_all(conn)
        .await?))
    }

    pub async fn namespace(&self, name: &str) -> Result<NamespaceRow> {
        let rows = self.namespaces().await?;
        rows.into_iter().find(|row| row.name == name).ok_or_else(|| Error::not_found(format!("namespace `{name}`")))
    }

    /// Makes a namespace; one that has a row already is a conflict.
    pub async fn add_namespace(
        &self,
        now: Micros,
        name: &str,
        description: Option<&str>,
        quotas: Quotas,
    ) -> Result<()> {
        let made = write!(
            self,
            sqlx::query(
                "INSERT INTO namespaces (name, description, max_open_runs, max_workflows, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (name) DO NOTHING"
            )
            .bind(name)
            .bind(description)
            .bind(quotas.max_open_runs)
            .bind(quotas.max_workflows)
            .bind(now)
        );
        match made {
            0 => Err(Error::Conflict(format!("namespace `{name}` exists already"))),
            _ => Ok(()),
        }
    }

    /// Sets everything of a namespace, with or without a row before.
    pub async fn set_namespace(
        &self,
        now: Micros,
        name: &str,
        description: Option<&str>,
        quotas: Quotas,
    ) -> Result<()> {
        write!(
            self,
            sqlx::query(
                "INSERT INTO namespaces (name, description, max_open_runs, max_workflows, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (name) DO UPDATE \
                 SET description = $2, max_open_runs = $3, max_workflows = $4, updated_at = $5"
            )
            .bind(name)
            .bind(description)
            .bind(quotas.max_open_runs)
            .bind(quotas.max_workflows)
            .bind(now)
        );
        Ok(())
    }

    pub async fn quotas(&self, namespace: &str) -> Result<Quotas> {
        let row: Option<Quotas> =
            read!(self, |conn| sqlx::query_as("SELECT max_open_runs, max_workflows FROM namespaces WHERE name = $1")
                .bind(namespace)
                .fetch_optional(conn)
                .await?);
        Ok(row.unwrap_or_default())
    }

    /// Makes runs, all of them or none, unless the namespace would then have more than `most` open ones: `None`, and nothing
    /// was done. Those who ask at the same time are counted one after the other.
    pub async fn create_runs_within(
        &self,
        now: Micros,
        runs: &[NewRun],
        namespace: &str,
        most: i32,
    ) -> Result<Option<Vec<Created>>> {
        let mut tx = self.begin().await?;
        let sql = locking!(tx, "SELECT name FROM namespaces WHERE name = $1", "FOR NO KEY UPDATE");
        let _: Option<(String,)> = within!(tx, |conn| sqlx::query_as(sql).bind(namespace).fetch_optional(conn).await?);
        let (open,): (i64,) = within!(tx, |conn| sqlx::query_as(
            "SELECT count(*) FROM (SELECT DISTINCT t.run_id FROM task_runs t JOIN routes o ON o.id = t.route \
             WHERE o.namespace = $1 LIMIT $2) open"
        )
        .bind(namespace)
        .bind(i64::from(most))
        .fetch_one(conn)
        .await?);
        if open + i64::try_from(runs.len()).unwrap_or(i64::MAX) > i64::from(most) {
            return Ok(None);
        }
        let created = create_all(&mut tx, now, &runs.iter().collect::<Vec<_>>()).await?;
        tx.commit().await?;
        Ok(Some(created))
    }

    /// How many runs of a namespace are open, counted up to `most`. Looks at live rows only, never at history.
    pub async fn open_runs(&self, namespace: &str, most: i64) -> Result<i64> {
        Ok(i64::try_from(self.open_run_ids(namespace, most).await?.len()).unwrap_or(most))
    }

    /// The number of open runs of a namespace, counted up to a limit.
    pub async fn open_run_ids(&self, namespace: &str, most: i64) -> Result<Vec<RunId>> {
        let rows: Vec<(RunId,)> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT DISTINCT t.run_id FROM task_runs t JOIN routes o ON o.id = t.route WHERE o.namespace = $1 LIMIT $2"
        )
        .bind(namespace)
        .bind(most)
        .fetch_all(conn)
        .await?
        });
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    pub async fn count_workflows(&self, namespace: &str) -> Result<i64> {
        let (count,): (i64,) = read!(self, |conn| sqlx::query_as(
            "SELECT count(*) FROM workflows WHERE namespace = $1 AND check_of IS NULL"
        )
        .bind(namespace)
        .fetch_one(conn)
        .await?);
        Ok(count)
    }

    pub async fn has_workflow(&self, namespace: &str, name: &str) -> Result<bool> {
        let found: Option<(i32,)> =
            read!(self, |conn| sqlx::query_as("SELECT 1 FROM workflows WHERE namespace = $1 AND name = $2")
                .bind(namespace)
                .bind(name)
                .fetch_optional(conn)
                .await?);
        Ok(found.is_some())
    }

    /// Removes a namespace with everything in it. Refused while runs are open: they are cancelled first.
    pub async fn delete_namespace(&self, now: Micros, name: &str) -> Result<()> {
        if self.open_runs(name, 1).await? > 0 {
            return Err(Error::Conflict(format!("namespace `{name}` has open runs: cancel them first")));
        }
        let mut tx = self.begin().await?;
        within!(
            tx,
            sqlx::query(
                "DELETE FROM dead_letters WHERE run_id IN (SELECT r.id FROM runs r JOIN workflows w ON w.id \
                 = r.workflow_id \
                 WHERE w.namespace = $1)"
            )
            .bind(name)
        );
        tx.commit().await?;
        while self.purge_runs(now + 1, Some(name)).await?.runs > 0 {}
        let mut tx = self.begin().await?;
        let (left,): (i64,) = within!(tx, |conn| sqlx::query_as(
            "SELECT count(*) FROM runs r JOIN workflows w ON w.id = r.workflow_id WHERE w.namespace = $1"
        )
        .bind(name)
        .fetch_one(conn)
        .await?);
        if left > 0 {
            return Err(Error::Conflict(format!("namespace `{name}` has got new runs meanwhile: try again")));
        }
        for table in owned_tables(&mut tx).await? {
            let sql = sqlx::AssertSqlSafe(format!("DELETE FROM {table} WHERE namespace = $1"));
            within!(tx, sqlx::query(sql).bind(name));
        }
        take_grants(&mut tx, now, name).await?;
        for sql in ["DELETE FROM workflows WHERE namespace = $1", "DELETE FROM namespaces WHERE name = $1"] {
            within!(tx, sqlx::query(sql).bind(name));
        }
        // Pools and concurrency keys are named `namespace/…`; nothing names them any more.
        let prefix = format!("{name}/");
        within!(
            tx,
            sqlx::query(
                "DELETE FROM limits WHERE substr(key, 1, $2) = $1 AND held = 0 \
                 AND NOT EXISTS (SELECT 1 FROM version_tasks t WHERE t.pool = limits.id)"
            )
            .bind(&prefix)
            .bind(i32::try_from(prefix.len()).unwrap_or(i32::MAX))
        );
        tx.commit().await
    }

    /// Whether anything is in a namespace besides its row.
    pub async fn is_used(&self, name: &str) -> Result<bool> {
        let found: Option<(i32,)> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT 1 FROM workflows WHERE namespace = $1 UNION ALL SELECT 1 FROM secrets WHERE namespace = $1 LIMIT 1"
        )
        .bind(name)
        .fetch_optional(conn)
        .await?
        });
        Ok(found.is_some())
    }
}

/// Takes the grants in a namespace away from every token, and revokes those that have no other: a namespace of the same
/// name that is made later is not theirs.
async fn take_grants(tx: &mut Tx, now: Micros, namespace: &str) -> Result<()> {
    let tokens: Vec<(Uuid, String)> =
        within!(tx, |conn| sqlx::query_as("SELECT id, grants FROM api_tokens WHERE revoked_at IS NULL ORDER BY id")
            .fetch_all(conn)
            .await?);
    for (id, text) in tokens {
        let grants: Vec<serde_json::Value> =
            serde_json::from_str(&text).map_err(|error| Error::bad_row("api_tokens", "grants", id, error))?;
        let left: Vec<&serde_json::Value> = grants.iter().filter(|grant| grant["namespace"] != namespace).collect();
        if left.len() == grants.len() {
            continue;
        }
        let text = serde_json::to_string(&left).unwrap_or_default();
        within!(
            tx,
            sqlx::query("UPDATE api_tokens SET grants = $2, revoked_at = CASE WHEN $3 THEN $4 END WHERE id = $1")
                .bind(id)
                .bind(text)
                .bind(left.is_empty())
                .bind(now)
        );
    }
    Ok(())
}

/// Whatever has a column `namespace` belongs to one: a table that is added later is not forgotten here.
async fn owned_tables(tx: &mut Tx) -> Result<Vec<String>> {
    let sql = match tx.flavor() {
        Flavor::Postgres => {
            "SELECT c.table_name::text FROM information_schema.columns c JOIN information_schema.tables t \
             ON t.table_schema = c.table_schema AND t.table_name = c.table_name AND t.table_type = 'BASE TABLE' \
             WHERE c.table_schema = current_schema() AND c.column_name = 'namespace' ORDER BY 1"
        }
        Flavor::Sqlite => {
            "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c ON c.name = 'namespace' \
             WHERE m.type = 'table' ORDER BY 1"
        }
    };
    let tables: Vec<(String,)> = within!(tx, |conn| sqlx::query_as(sql).fetch_all(conn).await?);
    Ok(tables.into_iter().map(|row| row.0).filter(|name| !SPARED.contains(&name.as_str())).collect())
}

/// Refuses a workflow that was just written if it is one too many for its namespace. The row with the quota is locked, so that
/// two who add a workflow at the same time do not both take the last place.
pub(crate) async fn require_room_for_workflow(tx: &mut Tx, namespace: &str) -> Result<()> {
    let sql = locking!(tx, "SELECT max_workflows FROM namespaces WHERE name = $1", "FOR NO KEY UPDATE");
    let quota: Option<(Option<i32>,)> =
        within!(tx, |conn| sqlx::query_as(sql).bind(namespace).fetch_optional(conn).await?);
    let Some(most) = quota.and_then(|quota| quota.0) else { return Ok(()) };
    let (count,): (i64,) =
        within!(tx, |conn| sqlx::query_as("SELECT count(*) FROM workflows WHERE namespace = $1 AND check_of IS NULL")
            .bind(namespace)
            .fetch_one(conn)
            .await?);
    if count <= i64::from(most) {
        return Ok(());
    }
    Err(Error::Conflict(format!(
        "namespace `{namespace}` may have {most} workflows and has {}: delete some, or raise max_workflows",
        count - 1
    )))
}
