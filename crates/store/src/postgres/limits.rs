//! Many limits with a statement each.

use std::collections::BTreeMap;

use sqlx::PgConnection;

use crate::error::Result;
use crate::names::sql;
use crate::runs::admission::Slots;

/// Locks these limits in their order. Nothing is read from the rows: what a statement saw before it waited is old.
pub(crate) async fn lock(connection: &mut PgConnection, limits: &[i32]) -> Result<()> {
    sqlx::query("SELECT id FROM limits WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE")
        .bind(limits)
        .execute(connection)
        .await?;
    Ok(())
}

/// What these limits, whose locks are held, have free.
pub(crate) async fn slots(connection: &mut PgConnection, limits: &[i32]) -> Result<BTreeMap<i32, Slots>> {
    let rows: Vec<(i32, Option<i32>, i32, i64)> = sqlx::query_as(
        sql!("SELECT l.id, l.capacity, l.held, (SELECT count(*) FROM runs r WHERE r.waits_for = l.id AND r.flags & {run_flag.being_made} = 0) \
         FROM limits l WHERE l.id = ANY($1)"),
    )
    .bind(limits)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|(id, capacity, held, queued)| (id, Slots { capacity, held, queued })).collect())
}

/// Takes the given number of slots of each.
pub(crate) async fn take(connection: &mut PgConnection, taken: &[(i32, i32)]) -> Result<()> {
    sqlx::query(
        "UPDATE limits l SET held = l.held + u.taken FROM unnest($1::integer[], $2::integer[]) u(id, taken) WHERE l.id = u.id",
    )
    .bind(taken.iter().map(|taken| taken.0).collect::<Vec<_>>())
    .bind(taken.iter().map(|taken| taken.1).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes those that do not exist, and gives the others their capacity.
pub(crate) async fn make(connection: &mut PgConnection, kind: i16, wanted: &[&(String, i32)]) -> Result<()> {
    let keys: Vec<&str> = wanted.iter().map(|wanted| wanted.0.as_str()).collect();
    let capacities: Vec<i32> = wanted.iter().map(|wanted| wanted.1).collect();
    sqlx::query(
        "INSERT INTO limits (kind, key, capacity) SELECT $1, u.* FROM unnest($2::text[], $3::integer[]) u \
         ON CONFLICT (kind, key) DO NOTHING",
    )
    .bind(kind)
    .bind(&keys)
    .bind(&capacities)
    .execute(&mut *connection)
    .await?;
    let other: Vec<(i32,)> = sqlx::query_as(
        "SELECT l.id FROM limits l JOIN unnest($2::text[], $3::integer[]) u(key, capacity) ON l.key = u.key \
         WHERE l.kind = $1 AND l.capacity IS DISTINCT FROM u.capacity",
    )
    .bind(kind)
    .bind(&keys)
    .bind(&capacities)
    .fetch_all(&mut *connection)
    .await?;
    if other.is_empty() {
        return Ok(());
    }
    let mut other: Vec<i32> = other.into_iter().map(|row| row.0).collect();
    other.sort_unstable();
    lock(connection, &other).await?;
    sqlx::query(
        "UPDATE limits l SET capacity = u.capacity FROM unnest($2::text[], $3::integer[]) u(key, capacity) \
         WHERE l.kind = $1 AND l.key = u.key AND l.id = ANY($4)",
    )
    .bind(kind)
    .bind(&keys)
    .bind(&capacities)
    .bind(&other)
    .execute(connection)
    .await?;
    Ok(())
}
