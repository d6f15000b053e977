//! A transaction on the writer: its statements, and what goes into the writer's memory with its commit.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe};

use super::bulk::Script;
use super::database::{MAX_RUNNING, Running, WriterGuard};
use crate::error::Result;
use crate::runs::exchange::TaskToken;
use crate::unit::Joined;

/// A transaction on the writer. Dropped without a commit, it is rolled back before the writer is used again.
#[derive(Debug)]
pub(crate) struct SqliteTx {
    /// `None` once finished.
    guard: Option<WriterGuard>,
    /// Statements whose answers no caller waits for. They go along with the next one.
    deferred: Script,
    /// What goes into the writer's memory with the commit: before it, a version read here may never come to exist.
    learned: HashMap<(i64, i32), Arc<[i32]>>,
    /// Rows that run once this commits, and rows that no longer do.
    claimed: Vec<(TaskToken, Running)>,
    ended: Vec<TaskToken>,
    /// The unit of a request that this is a step of.
    joined: Option<Box<Joined>>,
}

impl SqliteTx {
    /// A transaction of its own.
    pub(super) fn on(guard: WriterGuard) -> Self {
        Self::new(Some(guard), None)
    }

    /// A step of a request's unit, which holds the writer.
    pub(crate) fn lent(guard: Option<WriterGuard>, joined: Joined) -> Self {
        Self::new(guard, Some(Box::new(joined)))
    }

    fn new(guard: Option<WriterGuard>, joined: Option<Box<Joined>>) -> Self {
        Self {
            guard,
            deferred: Script::default(),
            learned: HashMap::new(),
            claimed: Vec::new(),
            ended: Vec::new(),
            joined,
        }
    }

    pub(crate) fn take_guard(&mut self) -> Option<WriterGuard> {
        self.guard.take()
    }

    /// The connection, after the deferred statements were executed on it.
    pub(crate) async fn connection(&mut self) -> Result<&mut SqliteConnection> {
        if !self.deferred.is_empty() {
            let script = self.script();
            self.fetch(script).await?;
        }
        Ok(self.held())
    }

    fn held(&mut self) -> &mut SqliteConnection {
        self.guard.as_mut().expect("a transaction in use is unfinished").connection()
    }

    /// Takes the deferred statements, to add more behind them.
    pub(super) fn script(&mut self) -> Script {
        std::mem::take(&mut self.deferred)
    }

    /// The deferred statements. What is added must have no answer.
    pub(super) fn deferred(&mut self) -> &mut Script {
        &mut self.deferred
    }

    /// Executes a script, and returns the rows of all its statements.
    pub(super) async fn fetch(&mut self, script: Script) -> Result<Vec<SqliteRow>> {
        debug_assert!(self.deferred.is_empty(), "a script begins with the deferred statements");
        let (text, arguments) = self.parts(script)?;
        Ok(sqlx::query_with(AssertSqlSafe(text), arguments).fetch_all(self.held()).await?)
    }

    /// How many rows the one statement of a script changed.
    pub(super) async fn execute(&mut self, script: Script) -> Result<u64> {
        let (text, arguments) = self.parts(script)?;
        Ok(sqlx::query_with(AssertSqlSafe(text), arguments).execute(self.held()).await?.rows_affected())
    }

    /// The text and the values of a script; the values count as written.
    fn parts(&mut self, script: Script) -> Result<(String, SqliteArguments)> {
        let (text, arguments) = script.into_parts()?;
        if let Some(guard) = &mut self.guard {
            guard.0.values += arguments.len();
        }
        Ok((text, arguments))
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        if self.joined.is_some() {
            let mut script = self.script();
            script.push("RELEASE SAVEPOINT request_step");
            self.fetch(script).await?;
            let (learned, claimed, ended) =
                (std::mem::take(&mut self.learned), std::mem::take(&mut self.claimed), std::mem::take(&mut self.ended));
            if let Some(joined) = &mut self.joined {
                if let Some(base) = joined.base() {
                    base.learned.extend(learned);
                    base.claimed.extend(claimed);
                    base.ended.extend(ended);
                }
                joined.done();
            }
            return Ok(());
        }
        let mut script = self.script();
        script.push("COMMIT");
        self.fetch(script).await?;
        self.committed();
        Ok(())
    }

    /// For an owner whose last statement was `COMMIT`.
    pub(super) fn committed(mut self) {
        debug_assert!(self.deferred.is_empty(), "no statement is deferred beyond the commit");
        if let Some(mut guard) = self.guard.take() {
            guard.0.unfinished = false;
            guard.0.remembered.add(self.learned.drain());
            let running = &mut guard.0.running;
            for token in &self.ended {
                running.remove(token);
            }
            if running.len() > MAX_RUNNING {
                running.clear();
            }
            running.extend(self.claimed.drain(..));
        }
    }

    /// Who depends on the task, if that is remembered.
    pub(super) fn dependents(&self, version: i64, idx: i32) -> Option<Arc<[i32]>> {
        let remembered = &self.guard.as_ref()?.0.remembered.by_task;
        let task = (version, idx);
        remembered.get(&task).or_else(|| self.learned.get(&task)).cloned()
    }

    /// What is known of a running row.
    pub(super) fn running(&self, token: &TaskToken) -> Option<Running> {
        self.guard.as_ref()?.0.running.get(token).copied()
    }

    pub(super) fn now_runs(&mut self, token: TaskToken, running: Running) {
        self.claimed.push((token, running));
    }

    pub(super) fn runs_no_more(&mut self, token: TaskToken) {
        self.ended.push(token);
    }

    pub(super) fn learn(&mut self, version: i64, idx: i32, dependents: Arc<[i32]>) {
        self.learned.insert((version, idx), dependents);
    }
}

impl Drop for SqliteTx {
    fn drop(&mut self) {
        if let Some(mut joined) = self.joined.take() {
            if let Some(base) = joined.base() {
                base.guard = self.guard.take();
            }
            return;
        }
        // Rolling back at once frees the file for other processes; without a runtime the next holder does it.
        if let (Some(mut guard), Ok(runtime)) = (self.guard.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { guard.0.roll_back().await });
        }
    }
}
