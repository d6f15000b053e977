//! An action on all entries that a filter finds: a row that holds its position, from which it goes on after a crash.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::dead_letter::Resolution;
use sqlx::QueryBuilder;
use uuid::Uuid;

use super::read::{FROM, LetterFilter, narrowed};
use crate::db::{Acquired, Store, read, write};
use crate::error::{Error, Result};
use crate::runs::operate::Operator;

/// The request for a batch.
#[derive(Debug, Clone)]
pub struct NewBatch {
    pub id: Uuid,
    pub filter: LetterFilter,
    pub action: String,
    pub operator: Operator,
    pub matched: i64,
}

#[derive(Debug, Clone)]
pub struct BatchRow {
    pub id: Uuid,
    pub filter: LetterFilter,
    pub action: String,
    pub operator: Operator,
    pub is_done: bool,
    pub matched: i64,
    pub done: i64,
    pub failed: i64,
    /// The last entry that was acted on.
    pub position: Option<Uuid>,
    /// What the first failure said.
    pub error: Option<String>,
    pub created_at: Micros,
    pub updated_at: Micros,
    pub finished_at: Option<Micros>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    namespaces: Option<String>,
    filter: String,
    action: String,
    actor: String,
    token: Option<String>,
    reason: Option<String>,
    status: i16,
    matched: i64,
    done: i64,
    failed: i64,
    position: Option<Uuid>,
    error: Option<String>,
    created_at: Micros,
    updated_at: Micros,
    finished_at: Option<Micros>,
}

const COLUMNS: &str = "SELECT id, namespaces, filter, action, actor, token, reason, status, matched, done, failed, position, error, \
    created_at, updated_at, finished_at FROM dlq_batches";

impl TryFrom<Row> for BatchRow {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |column, error: serde_json::Error| Error::bad_row("dlq_batches", column, row.id, error);
        let mut filter: LetterFilter = serde_json::from_str(&row.filter).map_err(|error| bad("filter", error))?;
        filter.namespaces = match &row.namespaces {
            None => None,
            Some(text) => Some(serde_json::from_str(text).map_err(|error| bad("namespaces", error))?),
        };
        Ok(Self {
            id: row.id,
            filter,
            action: row.action,
            operator: Operator { by: row.actor, reason: row.reason, token: row.token, ..Operator::default() },
            is_done: row.status != 0,
            matched: row.matched,
            done: row.done,
            failed: row.failed,
            position: row.position,
            error: row.error,
            created_at: row.created_at,
            updated_at: row.updated_at,
            finished_at: row.finished_at,
        })
    }
}

#[boxed]
impl Store {
    pub async fn add_batch(&self, now: Micros, batch: &NewBatch) -> Result<()> {
        let filter = serde_json::to_string(&batch.filter).unwrap_or_default();
        let namespaces = batch.filter.namespaces.as_ref().and_then(|names| serde_json::to_string(names).ok());
        write!(
            self,
            sqlx::query(
                "INSERT INTO dlq_batches (id, namespaces, filter, action, actor, token, reason, matched, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)"
            )
            .bind(batch.id)
            .bind(namespaces)
            .bind(filter)
            .bind(&batch.action)
            .bind(&batch.operator.by)
            .bind(&batch.operator.token)
            .bind(&batch.operator.reason)
            .bind(batch.matched)
            .bind(now)
        );
        Ok(())
    }

    pub async fn batch(&self, id: Uuid) -> Result<BatchRow> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE id = $1"));
        let row: Option<Row> = read!(self, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
        row.ok_or_else(|| Error::not_found(format!("batch {id}")))?.try_into()
    }

    /// The newest batches first.
    pub async fn batches(&self, limit: i64) -> Result<Vec<BatchRow>> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} ORDER BY id DESC LIMIT $1"));
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql).bind(limit).fetch_all(conn).await?);
        rows.into_iter().map(BatchRow::try_from).collect()
    }

    /// The oldest batch that goes on.
    pub async fn open_batch(&self) -> Result<Option<BatchRow>> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE status = 0 ORDER BY id LIMIT 1"));
        let row: Option<Row> = read!(self, |conn| sqlx::query_as(sql).fetch_optional(conn).await?);
        row.map(BatchRow::try_from).transpose()
    }

    /// The next entries of a batch, oldest first, and whether each is pending. Those that were closed on behalf of this
    /// batch before it was interrupted come along, so that they are counted.
    pub async fn batch_entries(&self, batch: &BatchRow, limit: i64) -> Result<Vec<(Uuid, bool)>> {
        let filter = LetterFilter { status: None, before: None, ..batch.filter.clone() };
        macro_rules! next {
            ($database:ty) => {{
                let mut query = QueryBuilder::<$database>::new("SELECT d.id, d.status");
                query.push(FROM);
                narrowed!(query, &filter);
                // What comes after the batch was asked for is not meant: a retry that fails again would never end.
                query.push(" AND d.created_at <= ").push_bind(batch.created_at);
                query.push(" AND (d.status = ").push_bind(Resolution::Pending.code());
                query.push(" OR (d.resolved_at >= ").push_bind(batch.created_at);
                query.push(" AND d.resolved_by = ").push_bind(batch.operator.by.clone()).push("))");
                if let Some(position) = batch.position {
                    query.push(" AND d.id > ").push_bind(position);
                }
                query.push(" ORDER BY d.id LIMIT ").push_bind(limit);
                query
            }};
        }
        let rows: Vec<(Uuid, i16)> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => next!(sqlx::Postgres).build_query_as().fetch_all(pg.connection()).await?,
            Acquired::Sqlite(sqlite) => {
                next!(sqlx::Sqlite).build_query_as().fetch_all(sqlite.connection().await?).await?
            }
        };
        Ok(rows.into_iter().map(|(id, status)| (id, status == Resolution::Pending.code())).collect())
    }

    /// Notes how far a batch has come; false if another node has brought it further meanwhile.
    pub async fn advance_batch(&self, now: Micros, was: Option<Uuid>, batch: &BatchRow) -> Result<bool> {
        let changed = write!(
            self,
            sqlx::query(
                "UPDATE dlq_batches SET status = $2, done = $3, failed = $4, position = $5, error = coalesce(error, $6), \
                 updated_at = $7, finished_at = $8 WHERE id = $1 AND status = 0 \
                 AND (position = $9 OR (position IS NULL AND CAST($10 AS boolean)))"
            )
            .bind(batch.id)
            .bind(i16::from(batch.is_done))
            .bind(batch.done)
            .bind(batch.failed)
            .bind(batch.position)
            .bind(&batch.error)
            .bind(now)
            .bind(batch.finished_at)
            .bind(was)
            .bind(was.is_none())
        );
        Ok(changed == 1)
    }
}
