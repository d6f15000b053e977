//! One statement over many rows: `WITH k (…) AS (VALUES …)` before a text that both databases understand. Nothing happens
//! for no rows.
//!
//! Names and order of the columns are given once, each row pushes its values in that order, and what comes after them is
//! pushed by the caller, with its own parameters. The texts differ with the number of rows, so they are not kept prepared.

/// Executes the statement; how many rows it changed.
macro_rules! over_rows {
    ($tx:expr, $columns:literal, $rows:expr, |$values:ident, $row:pat_param| $bind:expr, |$query:ident| $tail:expr) => {
        if $rows.is_empty() {
            0
        } else {
            match $tx.handle() {
                $crate::db::Tx::Postgres(tx) => {
                    $crate::over_rows::built!(sqlx::Postgres, $columns, $rows, |$values, $row| $bind, |$query| $tail);
                    $query.build().persistent(false).execute(&mut **tx).await?.rows_affected()
                }
                $crate::db::Tx::Sqlite(tx) => {
                    $crate::over_rows::built!(sqlx::Sqlite, $columns, $rows, |$values, $row| $bind, |$query| $tail);
                    $query.build().persistent(false).execute(tx.connection().await?).await?.rows_affected()
                }
            }
        }
    };
}

/// Reads what the statement finds.
macro_rules! fetch_over_rows {
    ($tx:expr, $columns:literal, $rows:expr, |$values:ident, $row:pat_param| $bind:expr, |$query:ident| $tail:expr) => {
        if $rows.is_empty() {
            Vec::new()
        } else {
            match $tx.handle() {
                $crate::db::Tx::Postgres(tx) => {
                    $crate::over_rows::built!(sqlx::Postgres, $columns, $rows, |$values, $row| $bind, |$query| $tail);
                    $query.build_query_as().persistent(false).fetch_all(&mut **tx).await?
                }
                $crate::db::Tx::Sqlite(tx) => {
                    $crate::over_rows::built!(sqlx::Sqlite, $columns, $rows, |$values, $row| $bind, |$query| $tail);
                    $query.build_query_as().persistent(false).fetch_all(tx.connection().await?).await?
                }
            }
        }
    };
}

/// The same outside of a transaction.
macro_rules! read_over_rows {
    ($store:expr, $columns:literal, $rows:expr, |$values:ident, $row:pat_param| $bind:expr, |$query:ident| $tail:expr) => {
        if $rows.is_empty() {
            Vec::new()
        } else {
            match &mut $store.to_read().await? {
                $crate::db::Acquired::Postgres(pg) => {
                    $crate::over_rows::built!(sqlx::Postgres, $columns, $rows, |$values, $row| $bind, |$query| $tail);
                    $query.build_query_as().persistent(false).fetch_all(pg.connection()).await?
                }
                $crate::db::Acquired::Sqlite(sqlite) => {
                    $crate::over_rows::built!(sqlx::Sqlite, $columns, $rows, |$values, $row| $bind, |$query| $tail);
                    $query.build_query_as().persistent(false).fetch_all(sqlite.connection().await?).await?
                }
            }
        }
    };
}

macro_rules! built {
    ($database:ty, $columns:literal, $rows:expr, |$values:ident, $row:pat_param| $bind:expr, |$query:ident| $tail:expr) => {
        let mut $query = sqlx::QueryBuilder::<$database>::new(concat!("WITH k (", $columns, ") AS ("));
        $query.push_values($rows.iter(), |mut $values, $row| $bind);
        $query.push(") ");
        $tail;
    };
}

pub(crate) use {built, fetch_over_rows, over_rows, read_over_rows};
