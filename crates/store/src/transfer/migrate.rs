//! The move from SQLite to PostgreSQL: every row of every table, in one transaction of the target.
//!
//! Both schemas have the same tables and columns; the types differ. Rows travel as JSON, with binary values in hexadecimal
//! digits, and PostgreSQL makes its own types of them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt;
use mainspring_boxed::boxed;
use sqlx::{AssertSqlSafe, PgConnection, SqlitePool};

use crate::db::{Db, Store};
use crate::error::{Error, Result};

const ROWS_AT_ONCE: usize = 500;
/// Of one process each, or kept by the migration itself.
const LEFT_OUT: [&str; 3] = ["schema_migrations", "lanes", "terms"];

/// The schema itself puts a row into them, which gives way to the one that is copied.
const SEEDED: [&str; 1] = ["staleness_defaults"];

/// A table that was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    pub name: String,
    pub rows: u64,
}

#[derive(Debug, sqlx::FromRow)]
struct Column {
    table_name: String,
    column_name: String,
    udt_name: String,
    is_identity: String,
    is_generated: String,
}

#[boxed]
impl Store {
    /// Copies everything into a PostgreSQL database with the same schema and no workflows. All of it or nothing.
    pub async fn copy_to(&self, target: &Store) -> Result<Vec<CopiedTable>> {
        let (Db::Sqlite(from), Db::Postgres(to)) = (&*self.db, &*target.db) else {
            return Err(Error::BadUrl("a store moves from sqlite://… to postgres://…".to_owned()));
        };
        let mut tx = to.pool.begin().await?;
        let (taken,): (bool,) = sqlx::query_as("SELECT EXISTS (SELECT 1 FROM workflows)").fetch_one(&mut *tx).await?;
        if taken {
            return Err(Error::BadUrl("the target holds workflows already: name an empty database".to_owned()));
        }
        let tables = columns(&mut tx).await?;
        let mut copied = Vec::new();
        for name in in_order(&mut tx, tables.keys().cloned().collect()).await? {
            let columns = common(&from.readers, &name, &tables[&name]).await?;
            if columns.is_empty() {
                continue;
            }
            if SEEDED.contains(&name.as_str()) {
                sqlx::query(AssertSqlSafe(format!("DELETE FROM {}", quoted(&name)))).execute(&mut *tx).await?;
            }
            let rows = copy_table(&from.readers, &mut tx, &name, &columns).await?;
            for column in tables[&name].iter().filter(|column| column.is_identity == "YES") {
                let (table, column) = (quoted(&name), quoted(&column.column_name));
                let sql = format!(
                    "SELECT setval(pg_get_serial_sequence('{table}', trim('\"' from '{column}')), \
                     greatest(coalesce(max({column}), 1), 1)) FROM {table}"
                );
                sqlx::query(AssertSqlSafe(sql)).execute(&mut *tx).await?;
            }
            copied.push(CopiedTable { name, rows });
        }
        tx.commit().await?;
        Ok(copied)
    }
}

/// The columns of the target's tables, without partitions.
async fn columns(target: &mut PgConnection) -> Result<BTreeMap<String, Vec<Column>>> {
    let rows: Vec<Column> = sqlx::query_as(
        "SELECT c.table_name::text, c.column_name::text, c.udt_name::text, c.is_identity::text, c.is_generated::text \
         FROM information_schema.columns c JOIN pg_class k ON k.relname = c.table_name \
         AND k.relnamespace = current_schema()::regnamespace AND k.relkind IN ('r', 'p') AND NOT k.relispartition \
         WHERE c.table_schema = current_schema() ORDER BY c.table_name, c.ordinal_position",
    )
    .fetch_all(target)
    .await?;
    let mut tables: BTreeMap<String, Vec<Column>> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| !LEFT_OUT.contains(&row.table_name.as_str())) {
        tables.entry(row.table_name.clone()).or_default().push(row);
    }
    Ok(tables)
}

/// Tables after those that they refer to.
async fn in_order(target: &mut PgConnection, mut left: BTreeSet<String>) -> Result<Vec<String>> {
    let references: Vec<(String, String)> = sqlx::query_as(
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f' \
         AND connamespace = current_schema()::regnamespace",
    )
    .fetch_all(target)
    .await?;
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let free: Vec<String> = left
            .iter()
            .filter(|name| !references.iter().any(|(of, to)| of == *name && to != of && left.contains(to)))
            .cloned()
            .collect();
        if free.is_empty() {
            return Err(Error::BadUrl("tables refer to each other in a circle".to_owned()));
        }
        for name in free {
            left.remove(&name);
            order.push(name);
        }
    }
    Ok(order)
}

/// The columns that both sides have.
async fn common<'a>(source: &SqlitePool, table: &str, columns: &'a [Column]) -> Result<Vec<&'a Column>> {
    let names: Vec<(String,)> =
        sqlx::query_as("SELECT name FROM pragma_table_info($1)").bind(table).fetch_all(source).await?;
    Ok(columns
        .iter()
        .filter(|column| column.is_generated == "NEVER" && names.iter().any(|(name,)| *name == column.column_name))
        .collect())
}

async fn copy_table(source: &SqlitePool, target: &mut PgConnection, table: &str, columns: &[&Column]) -> Result<u64> {
    let reading = columns.iter().map(|column| {
        let name = quoted(&column.column_name);
        match column.udt_name.as_str() {
            "uuid" | "bytea" => format!("CASE WHEN {name} IS NULL THEN NULL ELSE hex({name}) END"),
            _ => name,
        }
    });
    let reading = format!("SELECT json_array({}) FROM {}", reading.collect::<Vec<_>>().join(", "), quoted(table));
    let names = columns.iter().map(|column| quoted(&column.column_name)).collect::<Vec<_>>().join(", ");
    let values = columns.iter().enumerate().map(|(at, column)| value(at, &column.udt_name)).collect::<Vec<_>>();
    let writing = format!(
        "INSERT INTO {} ({names}) OVERRIDING SYSTEM VALUE SELECT {} FROM json_array_elements($1::json) AS r",
        quoted(table),
        values.join(", ")
    );
    let mut rows = sqlx::query_as::<_, (String,)>(AssertSqlSafe(reading)).fetch(source);
    let (mut batch, mut copied) = (Vec::with_capacity(ROWS_AT_ONCE), 0);
    loop {
        let row = rows.try_next().await?;
        let is_last = row.is_none();
        batch.extend(row.map(|(row,)| row));
        if batch.len() >= ROWS_AT_ONCE || (is_last && !batch.is_empty()) {
            let values = format!("[{}]", batch.join(","));
            let written = sqlx::query(AssertSqlSafe(writing.clone())).bind(values).execute(&mut *target).await?;
            copied += written.rows_affected();
            batch.clear();
        }
        if is_last {
            return Ok(copied);
        }
    }
}

/// How PostgreSQL reads the value of a column from a row.
fn value(at: usize, kind: &str) -> String {
    let text = format!("(r->>{at})");
    match kind {
        "uuid" => format!("{text}::uuid"),
        "bytea" => format!("decode({text}, 'hex')"),
        "bool" => format!("{text}::integer::boolean"),
        "text" | "varchar" => text,
        array if array.starts_with('_') => {
            let element = array.trim_start_matches('_');
            format!("ARRAY(SELECT e::{element} FROM json_array_elements_text({text}::json) AS e)")
        }
        other => format!("{text}::{other}"),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
