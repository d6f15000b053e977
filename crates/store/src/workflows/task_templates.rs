//! The rows of `version_tasks`: what the hot path makes task runs from.

use std::collections::BTreeMap;

use mainspring_core::workflow::Workflow;

use crate::db::{Tx, within};
use crate::error::Result;
use crate::postgres::transaction::PgTx;
use crate::runs::flags;
use crate::runs::limits::intern_limit;
use crate::sqlite::SqliteTx;

/// How many rows are sent at once.
const ROWS_PER_STATEMENT: usize = 5_000;

/// One row of `version_tasks`, with its dependents as comma-separated text.
struct Template {
    idx: i32,
    stage: i16,
    needs: i32,
    rule: i16,
    rank: Option<i16>,
    flags: i16,
    route: i32,
    pool: Option<i32>,
    max_failures: i16,
    max_lost: i16,
    dependents: String,
}

pub(super) async fn insert_templates(tx: &mut Tx, version: i64, workflow: &Workflow) -> Result<()> {
    let mut routes: BTreeMap<(String, String, i16), i32> = BTreeMap::new();
    let mut pools: BTreeMap<String, i32> = BTreeMap::new();
    let mut rows = Vec::with_capacity(workflow.tasks.len().min(ROWS_PER_STATEMENT));
    for (index, task) in workflow.tasks.iter().enumerate() {
        let route_key = (task.queue.clone(), labels_text(&task.labels), task.action.slot_class().code());
        let route = match routes.get(&route_key) {
            Some(route) => *route,
            None => {
                let route = intern_route(tx, &workflow.namespace, &route_key).await?;
                routes.insert(route_key, route);
                route
            }
        };
        let pool = match &task.pool {
            None => None,
            Some(name) => match pools.get(name) {
                Some(pool) => Some(*pool),
                None => {
                    let pool =
                        intern_limit(tx, crate::runs::limits::POOL, &format!("{}/{name}", workflow.namespace), None)
                            .await?;
                    pools.insert(name.clone(), pool);
                    Some(pool)
                }
            },
        };
        rows.push(Template {
            idx: index as i32,
            stage: task.stage.code(),
            needs: task.needs.len() as i32,
            rule: task.rule.code(),
            rank: task.priority.map(flags::rank),
            flags: flags::of_task(task),
            route,
            pool,
            max_failures: task.retry.attempts as i16,
            max_lost: task.max_lost as i16,
            dependents: task.dependents.iter().map(i32::to_string).collect::<Vec<_>>().join(","),
        });
        if rows.len() == ROWS_PER_STATEMENT {
            send_templates(tx, version, &rows).await?;
            rows.clear();
        }
    }
    send_templates(tx, version, &rows).await
}

async fn send_templates(tx: &mut Tx, version: i64, rows: &[Template]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    match tx {
        Tx::Postgres(tx) => send_to_postgres(tx, version, rows).await,
        Tx::Sqlite(tx) => send_to_sqlite(tx, version, rows).await,
    }
}

async fn send_to_postgres(tx: &mut PgTx, version: i64, rows: &[Template]) -> Result<()> {
    sqlx::query(
        "INSERT INTO version_tasks (version, idx, stage, needs, rule, rank, flags, route, pool, max_failures, max_lost, dependents) \
         SELECT $1, u.a, u.b, u.c, u.d, u.e, u.f, u.g, u.h, u.i, u.j, string_to_array(u.k, ',')::integer[] \
         FROM unnest($2::integer[], $3::smallint[], $4::integer[], $5::smallint[], $6::smallint[], $7::smallint[], $8::integer[], \
                     $9::integer[], $10::smallint[], $11::smallint[], $12::text[]) AS u(a, b, c, d, e, f, g, h, i, j, k)",
    )
    .bind(version)
    .bind(rows.iter().map(|row| row.idx).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.stage).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.needs).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.rule).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.rank).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.flags).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.route).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.pool).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.max_failures).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.max_lost).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.dependents.clone()).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn send_to_sqlite(tx: &mut SqliteTx, version: i64, rows: &[Template]) -> Result<()> {
    let json: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            serde_json::json!([
                row.idx,
                row.stage,
                row.needs,
                row.rule,
                row.rank,
                row.flags,
                row.route,
                row.pool,
                row.max_failures,
                row.max_lost,
                format!("[{}]", row.dependents)
            ])
        })
        .collect();
    sqlx::query(
        "INSERT INTO version_tasks (version, idx, stage, needs, rule, rank, flags, route, pool, max_failures, max_lost, dependents) \
         SELECT $1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, \
                value ->> 9, value ->> 10 FROM json_each($2)",
    )
    .bind(version)
    .bind(serde_json::Value::Array(json).to_string())
    .execute(tx.connection().await?)
    .await?;
    Ok(())
}

async fn intern_route(tx: &mut Tx, namespace: &str, (queue, labels, class): &(String, String, i16)) -> Result<i32> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO routes (namespace, queue, labels, class) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"
        )
        .bind(namespace)
        .bind(queue)
        .bind(labels)
        .bind(*class)
    );
    let (id,): (i32,) = within!(tx, |conn| sqlx::query_as(
        "SELECT id FROM routes WHERE namespace = $1 AND queue = $2 AND labels = $3 AND class = $4"
    )
    .bind(namespace)
    .bind(queue)
    .bind(labels)
    .bind(*class)
    .fetch_one(conn)
    .await?);
    Ok(id)
}

/// The canonical text of labels.
fn labels_text(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}
