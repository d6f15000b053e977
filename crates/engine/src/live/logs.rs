//! Following what one task run prints, attempt after attempt, until it has ended.

use std::sync::Arc;
use std::time::Duration;

use mainspring_boxed::boxed;
use mainspring_core::TaskKey;
use mainspring_core::work::LogLine;
use mainspring_store::{LogCursor, Result, Store};
use tokio::sync::{broadcast, watch};

use super::hub::{Live, Topic};
use super::message::LiveMessage;
use super::run::Mark;

/// Chunks that are read at once.
const PAGE: i64 = 50;
/// Lines of another process are not always announced: it looks also without an announcement.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A subscription to the log of a task run from a cursor on. Dropping it unsubscribes.
#[derive(Debug)]
pub struct LogSubscription {
    store: Store,
    /// Keeps the hub looking at the run.
    _topic: Arc<Topic>,
    marks: watch::Receiver<Mark>,
    unnumbered: broadcast::Receiver<LiveMessage>,
    key: TaskKey,
    attempt: Option<i32>,
    cursor: LogCursor,
}

impl Live {
    /// Subscribes to the log of a task run behind a cursor, or to that of one attempt.
    pub fn subscribe_to_logs(&self, key: TaskKey, attempt: Option<i32>, after: LogCursor) -> LogSubscription {
        let topic = self.topic(key.run);
        let (marks, unnumbered) = (topic.marks.subscribe(), topic.unnumbered.subscribe());
        LogSubscription { store: self.store().clone(), _topic: topic, marks, unnumbered, key, attempt, cursor: after }
    }
}

#[boxed]
impl LogSubscription {
    /// The next lines with the place behind them, a chunk each; `None` once the task run, or the attempt, has ended and
    /// everything was read.
    pub async fn next(&mut self) -> Result<Option<Vec<(LogCursor, Vec<LogLine>)>>> {
        loop {
            self.marks.mark_unchanged();
            // Before the lines: whatever was printed before the end is stored before the end.
            let over = self.is_over().await?;
            let chunks = self.store.read_logs(self.key, self.attempt, self.cursor, PAGE).await?;
            if let Some((cursor, _)) = chunks.last() {
                self.cursor = *cursor;
                return Ok(Some(chunks));
            }
            if over {
                return Ok(None);
            }
            tokio::select! {
                changed = self.marks.changed() => if changed.is_err() {
                    return Ok(None);
                },
                _ = self.unnumbered.recv() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn is_over(&self) -> Result<bool> {
        let state = self.store.task_run_attempt(self.key).await?;
        Ok(match (state, self.attempt) {
            (None, _) => true,
            (Some((ended, last)), Some(attempt)) => ended || last > attempt,
            (Some((ended, _)), None) => ended,
        })
    }
}
