//! Named pools and concurrency keys.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId};

use crate::cluster::terms::{self, Term};
use crate::db::{Acquired, Store, Tx, read, within};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::rates::PoolRate;
use crate::{postgres, sqlite};

pub(crate) const POOL: i16 = 0;
pub(crate) const CONCURRENCY: i16 = 1;

/// A limit with what it holds.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct LimitRow {
    pub id: i32,
    pub kind: i16,
    pub key: String,
    pub capacity: Option<i32>,
    pub held: i32,
}

/// A named pool as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRow {
    pub namespace: String,
    pub name: String,
    /// `None` while it is not set: unlimited.
    pub slots: Option<i32>,
    pub held: i32,
    /// As it was last changed; [`PoolRate::at`] says what it is now.
    pub rate: Option<PoolRate>,
}

#[derive(sqlx::FromRow)]
struct StoredPool {
    key: String,
    capacity: Option<i32>,
    held: i32,
    rate: Option<i32>,
    period: Option<i64>,
    used: i32,
    window_began: Option<i64>,
}

impl From<StoredPool> for PoolRow {
    fn from(row: StoredPool) -> Self {
        let (namespace, name) = row.key.split_once('/').unwrap_or(("", &row.key));
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            slots: row.capacity,
            held: row.held,
            rate: PoolRate::of((row.rate, row.period, row.used, row.window_began)),
        }
    }
}

#[boxed]
impl Store {
    /// Sets the capacity of a named pool, which has no rate, and lets waiters in if it grew.
    pub async fn set_pool(&self, now: Micros, namespace: &str, name: &str, slots: Option<i32>) -> Result<()> {
        self.set_pool_with_rate(now, namespace, name, slots, None).await
    }

    /// Sets the capacity of a named pool and how many task runs it lets in per period, and lets in what waits. A window that is under
    /// way goes on under another rate.
    pub async fn set_pool_with_rate(
        &self,
        now: Micros,
        namespace: &str,
        name: &str,
        slots: Option<i32>,
        rate: Option<(i32, Micros)>,
    ) -> Result<()> {
        if slots.is_some_and(|slots| slots < 0) {
            return Err(Error::Conflict("a pool cannot have fewer than 0 slots".into()));
        }
        let mut tx = self.begin().await?;
        let id = intern_limit(&mut tx, POOL, &format!("{namespace}/{name}"), slots).await?;
        within!(
            tx,
            sqlx::query(
                "UPDATE limits SET capacity = $2, rate = $3, period = $4, used = CASE WHEN $5 THEN used ELSE 0 END, \
                 window_began = CASE WHEN $5 THEN window_began END WHERE id = $1"
            )
            .bind(id)
            .bind(slots)
            .bind(rate.map(|rate| rate.0))
            .bind(rate.map(|rate| rate.1))
            .bind(rate.is_some())
        );
        hand_on(&mut tx, now, &[], &[], &[id]).await?;
        tx.commit().await
    }

    pub async fn pools(&self) -> Result<Vec<PoolRow>> {
        let rows: Vec<StoredPool> = read!(self, |conn| sqlx::query_as(
            "SELECT key, capacity, held, rate, period, used, window_began FROM limits WHERE kind = $1 ORDER BY key"
        )
        .bind(POOL)
        .fetch_all(conn)
        .await?);
        Ok(rows.into_iter().map(PoolRow::from).collect())
    }

    /// One pool by its name.
    pub async fn pool(&self, namespace: &str, name: &str) -> Result<PoolRow> {
        let row: Option<StoredPool> = read!(self, |conn| sqlx::query_as(
            "SELECT key, capacity, held, rate, period, used, window_began FROM limits WHERE kind = $1 AND key = $2"
        )
        .bind(POOL)
        .bind(format!("{namespace}/{name}"))
        .fetch_optional(conn)
        .await?);
        row.map(PoolRow::from).ok_or_else(|| Error::not_found(format!("pool `{name}` in namespace `{namespace}`")))
    }

    /// Removes a pool that no version of a workflow names; one that is named can only become unlimited.
    pub async fn delete_pool(&self, namespace: &str, name: &str) -> Result<()> {
        let key = format!("{namespace}/{name}");
        let deleted = crate::db::write!(
            self,
            sqlx::query(
                "DELETE FROM limits WHERE kind = $1 AND key = $2 AND held = 0 \
                 AND NOT EXISTS (SELECT 1 FROM version_tasks t WHERE t.pool = limits.id) \
                 AND NOT EXISTS (SELECT 1 FROM task_runs t WHERE t.pool = limits.id)"
            )
            .bind(POOL)
            .bind(&key)
        );
        if deleted == 0 {
            let PoolRow { held, .. } = self.pool(namespace, name).await?;
            return Err(Error::Conflict(format!(
                "pool `{name}` is named by workflows and {held} of its slots are held: give it unlimited slots instead"
            )));
        }
        Ok(())
    }

    pub async fn limits(&self, kind: i16) -> Result<Vec<LimitRow>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT id, kind, key, capacity, held FROM limits WHERE kind = $1 ORDER BY key"
        )
        .bind(kind)
        .fetch_all(conn)
        .await?))
    }

    /// The limit of a concurrency key, made on first use; its capacity follows the workflow's newest word.
    pub async fn concurrency_limit(&self, key: &str, capacity: i32) -> Result<i32> {
        let ids = self.concurrency_limits(&[(key.to_owned(), capacity)]).await?;
        ids.first().copied().ok_or_else(|| Error::Conflict(format!("limit `{key}` is gone")))
    }

    /// Finds or creates many limits, each named once, and returns their ids in order. Unchanged limits cost one read.
    pub async fn concurrency_limits(&self, wanted: &[(String, i32)]) -> Result<Vec<i32>> {
        let keys: Vec<&str> = wanted.iter().map(|(key, _)| key.as_str()).collect();
        let mut found = self.limits_named(&keys).await?;
        let is_right = |found: &HashMap<String, (i32, Option<i32>)>, (key, capacity): &&(String, i32)| {
            found.get(key).is_some_and(|limit| limit.1 == Some(*capacity))
        };
        let mut others: Vec<&(String, i32)> = wanted.iter().filter(|one| !is_right(&found, one)).collect();
        if !others.is_empty() {
            // Every transaction that makes or changes the same ones does it in the same order.
            others.sort_unstable();
            let mut tx = self.begin().await?;
            match &mut tx {
                Tx::Postgres(tx) => postgres::limits::make(tx, CONCURRENCY, &others).await?,
                Tx::Sqlite(tx) => sqlite::limits::make(tx, CONCURRENCY, &others).await?,
            }
            tx.commit().await?;
            found = self.limits_named(&keys).await?;
        }
        let id_of = |key: &str| found.get(key).map(|limit| limit.0);
        keys.iter().map(|key| id_of(key).ok_or_else(|| Error::Conflict(format!("limit `{key}` is gone")))).collect()
    }

    /// Ids and capacities of the concurrency limits that exist.
    async fn limits_named(&self, keys: &[&str]) -> Result<HashMap<String, (i32, Option<i32>)>> {
        let rows: Vec<(String, i32, Option<i32>)> =
            match &mut self.to_read().await? {
                Acquired::Postgres(pg) => {
                    sqlx::query_as("SELECT key, id, capacity FROM limits WHERE kind = $1 AND key = ANY($2)")
                        .bind(CONCURRENCY)
                        .bind(keys)
                        .fetch_all(pg.connection())
                        .await?
                }
                Acquired::Sqlite(sqlite) => sqlx::query_as(
                    "SELECT key, id, capacity FROM limits WHERE kind = $1 AND key IN (SELECT value FROM json_each($2))",
                )
                .bind(CONCURRENCY)
                .bind(serde_json::json!(keys).to_string())
                .fetch_all(sqlite.connection().await?)
                .await?,
            };
        Ok(rows.into_iter().map(|(key, id, capacity)| (key, (id, capacity))).collect())
    }

    /// The runs that hold a slot of a limit and are older than `newcomer`.
    pub async fn runs_on_limit(&self, limit: i32, newcomer: RunId) -> Result<Vec<RunId>> {
        let rows: Vec<(RunId,)> =
            read!(self, |conn| sqlx::query_as("SELECT id FROM runs WHERE holds = $1 AND id < $2 ORDER BY id")
                .bind(limit)
                .bind(newcomer)
                .fetch_all(conn)
                .await?);
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Recounts what limits hold from the rows that hold them, and hands on what is free. For the sweep.
    pub async fn reconcile_limits(&self, now: Micros, term: &Term) -> Result<u64> {
        let ids: Vec<(i32, i16)> =
            read!(self, |conn| sqlx::query_as("SELECT id, kind FROM limits ORDER BY id").fetch_all(conn).await?);
        let mut mended = 0;
        for (id, kind) in ids {
            let mut tx = self.begin().await?;
            if !terms::hold(&mut tx, term).await? {
                break;
            }
            let sql = crate::db::locking!(tx, "SELECT held FROM limits WHERE id = $1", "FOR NO KEY UPDATE");
            let (held,): (i32,) = within!(tx, |conn| sqlx::query_as(sql).bind(id).fetch_one(conn).await?);
            let counting = if kind == POOL {
                sql!("SELECT count(*) FROM task_runs WHERE pool = $1 AND state IN ({task.ready}, {task.running})")
            } else {
                "SELECT count(*) FROM runs WHERE holds = $1"
            };
            let (counted,): (i64,) = within!(tx, |conn| sqlx::query_as(counting).bind(id).fetch_one(conn).await?);
            if i64::from(held) != counted {
                within!(tx, sqlx::query("UPDATE limits SET held = $2 WHERE id = $1").bind(id).bind(counted as i32));
                mended += 1;
            }
            hand_on(&mut tx, now, &[], &[], &[id]).await?;
            tx.commit().await?;
        }
        Ok(mended)
    }
}

/// Gives back and hands on slots: `released` names a pool once per slot, `ended` a concurrency limit once per ended run,
/// `touched` limits that may have gained waiters.
pub(crate) async fn hand_on(tx: &mut Tx, now: Micros, released: &[i32], ended: &[i32], touched: &[i32]) -> Result<()> {
    if released.is_empty() && ended.is_empty() && touched.is_empty() {
        return Ok(());
    }
    match tx {
        Tx::Postgres(tx) => {
            sqlx::query("SELECT limits_v1($1, $2, $3, $4)")
                .bind(now)
                .bind(released)
                .bind(ended)
                .bind(touched)
                .execute(&mut **tx)
                .await?;
            Ok(())
        }
        Tx::Sqlite(tx) => crate::sqlite::settle::limits(tx, now, released, ended, touched).await,
    }
}

pub(crate) async fn intern_limit(tx: &mut Tx, kind: i16, key: &str, capacity: Option<i32>) -> Result<i32> {
    within!(
        tx,
        sqlx::query("INSERT INTO limits (kind, key, capacity) VALUES ($1, $2, $3) ON CONFLICT (kind, key) DO NOTHING")
            .bind(kind)
            .bind(key)
            .bind(capacity)
    );
    let (id,): (i32,) = within!(tx, |conn| sqlx::query_as("SELECT id FROM limits WHERE kind = $1 AND key = $2")
        .bind(kind)
        .bind(key)
        .fetch_one(conn)
        .await?);
    Ok(id)
}
