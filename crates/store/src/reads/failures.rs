//! What failed in a run so far, for the tasks that begin when its main ones have ended.

use mainspring_boxed::boxed;
use mainspring_core::plan::EndedTasks;
use mainspring_core::state::TaskState;
use mainspring_core::{RunId, TaskError};

use crate::db::{Store, read};
use crate::error::{Error, Result};
use crate::runs::flags::{RUN_CANCELLING, RUN_TIMED_OUT};

/// The longest message that expressions see: it is passed on to webhooks and shells.
const MAX_MESSAGE: usize = 10_000;

type Row = (i32, i16, i32, Option<String>, Option<String>);

#[boxed]
impl Store {
    /// The task runs of a run that ended without success, by index, and whether the run was stopped as a whole.
    pub async fn run_failures(&self, run: RunId) -> Result<EndedTasks> {
        let (flags, rows): (Option<i16>, Vec<Row>) = read!(self, |conn| {
            let flags = sqlx::query_scalar("SELECT flags FROM runs WHERE id = $1").bind(run).fetch_optional(&mut *conn);
            let flags = flags.await?;
            let rows = sqlx::query_as(
                "SELECT idx, state, attempt, error_kind, error FROM history \
                 WHERE run_id = $1 AND item = -1 AND state IN ($2, $3, $4) ORDER BY idx",
            )
            .bind(run)
            .bind(TaskState::Failed.code())
            .bind(TaskState::UpstreamFailed.code())
            .bind(TaskState::Cancelled.code());
            (flags, rows.fetch_all(conn).await?)
        });
        let mut unsuccessful = Vec::with_capacity(rows.len());
        for (index, state, attempt, kind, message) in rows {
            let state = TaskState::try_from(state).map_err(|error| Error::bad_row("history", "state", run, error))?;
            let message = message.unwrap_or_default().chars().take(MAX_MESSAGE).collect();
            unsuccessful.push((index, state, TaskError { kind: kind.unwrap_or_default(), message, attempt }));
        }
        let flags = flags.unwrap_or(0);
        Ok(EndedTasks { cancelled: flags & RUN_CANCELLING != 0, timed_out: flags & RUN_TIMED_OUT != 0, unsuccessful })
    }
}
