//! The audit log: every write and every refusal, appended and never changed.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use uuid::Uuid;

use crate::db::{Store, Tx, read, within, write};
use crate::error::Result;

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct AuditRow {
    pub id: Uuid,
    pub at: Micros,
    pub actor: String,
    pub address: Option<String>,
    pub method: String,
    pub path: String,
    pub namespace: Option<String>,
    pub status: i16,
    pub request_id: String,
    pub detail: Option<String>,
}

/// Which entries; every condition that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// `None` sees all namespaces and what belongs to none.
    pub namespaces: Option<Vec<String>>,
    pub actor: Option<String>,
    pub since: Option<Micros>,
    pub until: Option<Micros>,
    /// Only entries older than this one.
    pub before: Option<Uuid>,
    pub limit: i64,
    pub offset: i64,
}

/// Written for either database.
macro_rules! insert {
    ($row:expr) => {
        sqlx::query(
            "INSERT INTO audit_log (id, at, actor, address, method, path, namespace, status, request_id, detail) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        )
        .bind($row.id)
        .bind($row.at)
        .bind(&$row.actor)
        .bind(&$row.address)
        .bind(&$row.method)
        .bind(&$row.path)
        .bind(&$row.namespace)
        .bind($row.status)
        .bind(&$row.request_id)
        .bind(&$row.detail)
    };
}

/// Adds an audit row in the transaction of the write it records.
pub(crate) async fn add_audit_within(tx: &mut Tx, row: &AuditRow) -> Result<()> {
    within!(tx, insert!(row));
    Ok(())
}

#[boxed]
impl Store {
    pub async fn add_audit(&self, row: &AuditRow) -> Result<()> {
        write!(self, insert!(row));
        Ok(())
    }

    /// Newest first.
    pub async fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>> {
        // Names are bound as one JSON text: a list of any length in one statement for both databases.
        let namespaces = filter.namespaces.as_ref().map(|names| serde_json::Value::from(names.clone()).to_string());
        let within = match self.flavor() {
            crate::Flavor::Postgres => "namespace IN (SELECT json_array_elements_text($1::json))",
            crate::Flavor::Sqlite => "namespace IN (SELECT value FROM json_each($1))",
        };
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT id, at, actor, address, method, path, namespace, status, request_id, detail FROM audit_log \
             WHERE ($1 IS NULL OR {within}) AND ($2 IS NULL OR actor = $2) AND at >= $3 AND at < $4 AND id < $5 \
             ORDER BY id DESC LIMIT $6 OFFSET $7"
        ));
        Ok(read!(self, |conn| sqlx::query_as(sql)
            .bind(&namespaces)
            .bind(&filter.actor)
            .bind(filter.since.unwrap_or(Micros::MIN))
            .bind(filter.until.unwrap_or(Micros::MAX))
            .bind(filter.before.unwrap_or(Uuid::max()))
            .bind(filter.limit)
            .bind(filter.offset)
            .fetch_all(conn)
            .await?))
    }

    /// Forgets entries from before `before`; returns how many.
    pub async fn forget_audit(&self, before: Micros) -> Result<u64> {
        Ok(write!(self, sqlx::query("DELETE FROM audit_log WHERE at < $1").bind(before)))
    }
}
