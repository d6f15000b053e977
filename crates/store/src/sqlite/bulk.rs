//! Statements over many rows at once: `VALUES` lists of a few fixed lengths, so that each is prepared once.
//!
//! A list is as long as the next fixed length; what is left over stays unbound and so is NULL, which joins with nothing.
//! Inserts leave such rows out by a `WHERE` on a column that is never NULL.
//!
//! Those that make many rows say `OR ROLLBACK`: an error ends the whole transaction, as its caller would, and SQLite need
//! not keep a copy of every page to take back this one statement.

use std::sync::{Arc, OnceLock};

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, Encode, Row as _, Sqlite, Type};
use uuid::Uuid;

use super::SqliteTx;
use crate::error::Result;

const LENGTHS: [usize; 7] = [1, 4, 16, 64, 128, 256, 512];
const LONGEST: usize = LENGTHS[LENGTHS.len() - 1];
/// Statements over this many rows at most go together: a hop to the connection's thread and back then costs more than
/// they do, and few different texts come of it.
pub(super) const SHORT: usize = LENGTHS[2];

/// `head (?, …), (?, …) tail`. Parameters in the head come first.
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

/// Statements that go to the connection's thread together, with their parameters (all of them `?`) in order.
#[derive(Debug, Default)]
pub(super) struct Script {
    text: String,
    values: Values,
}

impl Script {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds one or more statements; their values are added to what this returns.
    pub(super) fn push(&mut self, text: &str) -> &mut Values {
        if !self.text.is_empty() {
            self.text.push_str("; ");
        }
        self.text.push_str(text);
        &mut self.values
    }

    pub(super) fn into_parts(self) -> Result<(String, SqliteArguments)> {
        match self.values.failed {
            None => Ok((self.text, self.values.arguments)),
            Some(error) => Err(sqlx::Error::Encode(error).into()),
        }
    }
}

impl Bulk {
    pub(super) const fn new(head: &'static str, columns: usize, tail: &'static str) -> Self {
        Self { head, columns, tail, texts: [const { OnceLock::new() }; LENGTHS.len()] }
    }

    /// Runs the statement over all rows and returns what it returned.
    pub(super) async fn fetch<R>(
        &self,
        tx: &mut SqliteTx,
        rows: &[R],
        add: impl FnMut(&R, &mut Values),
    ) -> Result<Vec<SqliteRow>> {
        self.fetch_with(tx, |_| (), rows, add).await
    }

    /// The same, with parameters for the head.
    pub(super) async fn fetch_with<R>(
        &self,
        tx: &mut SqliteTx,
        head: impl Fn(&mut Values),
        rows: &[R],
        mut add: impl FnMut(&R, &mut Values),
    ) -> Result<Vec<SqliteRow>> {
        let mut returned = Vec::new();
        for chunk in rows.chunks(LONGEST) {
            if chunk.len() > SHORT {
                // Long texts in every combination would crowd out the prepared ones.
                tx.connection().await?;
            }
            let mut script = tx.script();
            self.push_to(&mut script, &head, chunk, &mut add);
            let part = tx.fetch(script).await?;
            if returned.is_empty() {
                returned = part;
            } else {
                returned.extend(part);
            }
        }
        Ok(returned)
    }

    /// Runs the statement over all rows and returns how many it changed.
    pub(super) async fn execute_with<R>(
        &self,
        tx: &mut SqliteTx,
        head: impl Fn(&mut Values),
        rows: &[R],
        mut add: impl FnMut(&R, &mut Values),
    ) -> Result<u64> {
        let mut changed = 0;
        for chunk in rows.chunks(LONGEST) {
            tx.connection().await?;
            let mut script = Script::default();
            self.push_to(&mut script, &head, chunk, &mut add);
            changed += tx.execute(script).await?;
        }
        Ok(changed)
    }

    /// Runs the statement, which returns nothing, over all rows: together with the next statement if they are few.
    pub(super) async fn defer<R>(
        &self,
        tx: &mut SqliteTx,
        rows: &[R],
        mut add: impl FnMut(&R, &mut Values),
    ) -> Result<()> {
        if rows.len() > SHORT {
            self.fetch(tx, rows, add).await?;
        } else if !rows.is_empty() {
            let script = tx.deferred();
            self.push_to(script, &|_| (), rows, &mut add);
            // The parameters of the next statement begin behind the last of these.
            for _ in 0..self.columns * (self.length(rows.len()) - rows.len()) {
                script.values.add(None::<i64>);
            }
        }
        Ok(())
    }

    /// Adds the statement over these rows to a script.
    pub(super) fn push_to<R>(
        &self,
        script: &mut Script,
        head: &impl Fn(&mut Values),
        rows: &[R],
        add: &mut impl FnMut(&R, &mut Values),
    ) {
        let values = script.push(&self.text(rows.len()));
        head(values);
        let first = values.arguments.len();
        values.arguments.reserve(rows.len() * self.columns, 0);
        for row in rows {
            add(row, values);
        }
        debug_assert_eq!(values.arguments.len(), first + rows.len() * self.columns, "{}", self.head);
    }

    /// The fixed length that these rows take.
    fn length(&self, rows: usize) -> usize {
        LENGTHS.into_iter().find(|length| *length >= rows).unwrap_or(LONGEST)
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

#[cfg(test)]
impl Bulk {
    /// The statement in every length it can have.
    pub(super) fn texts(&self) -> impl Iterator<Item = Arc<str>> {
        LENGTHS.iter().map(|length| self.text(*length))
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
