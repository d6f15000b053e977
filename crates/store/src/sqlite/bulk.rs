//! Statements over many rows at once: `VALUES` lists of a few fixed lengths, so that each is prepared once.
//!
//! A list is as long as the next fixed length; what is left over stays unbound and so is NULL, which joins with nothing.
//! Inserts leave such rows out by a `WHERE` on a column that is never NULL.

use std::sync::{Arc, OnceLock};

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Encode, Row as _, Sqlite, Type};
use uuid::Uuid;

use crate::error::Result;

const LENGTHS: [usize; 7] = [1, 4, 16, 64, 128, 256, 512];

/// `head (?, …), (?, …) tail`.
#[derive(Debug)]
pub(super) struct Bulk {
    head: &'static str,
    columns: usize,
    tail: &'static str,
    texts: [OnceLock<Arc<str>>; LENGTHS.len()],
}

/// The values of the rows of one statement.
#[derive(Debug, Default)]
pub(super) struct Values {
    arguments: SqliteArguments,
    failed: Option<sqlx::error::BoxDynError>,
}

impl Values {
    pub(super) fn add<'q, T: Encode<'q, Sqlite> + Type<Sqlite>>(&mut self, value: T) -> &mut Self {
        if let Err(error) = self.arguments.add(value) {
            self.failed = Some(error);
        }
        self
    }
}

impl Bulk {
    pub(super) const fn new(head: &'static str, columns: usize, tail: &'static str) -> Self {
        Self { head, columns, tail, texts: [const { OnceLock::new() }; LENGTHS.len()] }
    }

    /// Runs the statement over all rows and returns what it returned.
    pub(super) async fn fetch<R>(
        &self,
        connection: &mut SqliteConnection,
        rows: &[R],
        mut add: impl FnMut(&R, &mut Values),
    ) -> Result<Vec<SqliteRow>> {
        let mut returned = Vec::new();
        for chunk in rows.chunks(LENGTHS[LENGTHS.len() - 1]) {
            let mut values = Values::default();
            values.arguments.reserve(chunk.len() * self.columns, 0);
            for row in chunk {
                add(row, &mut values);
            }
            if let Some(error) = values.failed {
                return Err(sqlx::Error::Encode(error).into());
            }
            debug_assert_eq!(values.arguments.len(), chunk.len() * self.columns, "{}", self.head);
            let text = AssertSqlSafe(self.text(chunk.len()));
            let part = sqlx::query_with(text, values.arguments).fetch_all(&mut *connection).await?;
            if returned.is_empty() {
                returned = part;
            } else {
                returned.extend(part);
            }
        }
        Ok(returned)
    }

    fn text(&self, rows: usize) -> Arc<str> {
        let which = LENGTHS.iter().position(|length| *length >= rows).unwrap_or(LENGTHS.len() - 1);
        let make = || {
            let row = format!("({})", vec!["?"; self.columns].join(","));
            let list = vec![row.as_str(); LENGTHS[which]].join(",");
            format!("{}{list}{}", self.head, self.tail).into()
        };
        Arc::clone(self.texts[which].get_or_init(make))
    }
}

/// Reads the columns of a row from left to right.
pub(super) struct Columns<'r> {
    row: &'r SqliteRow,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(super) fn of(row: &'r SqliteRow) -> Self {
        Self { row, next: 0 }
    }

    pub(super) fn get<T: sqlx::Decode<'r, Sqlite>>(&mut self) -> Result<T> {
        let value = self.row.try_get_unchecked(self.next)?;
        self.next += 1;
        Ok(value)
    }

    pub(super) fn uuid(&mut self) -> Result<Uuid> {
        self.get()
    }
}
