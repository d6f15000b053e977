//! Moves what was committed from the log into the file, beside the writer.
//!
//! Left to itself, SQLite does so within the commit that made the log long, and whoever commits then waits for thousands of
//! pages that are not his. Here a connection of its own does it a while after something was written: sooner if that is
//! much. A writer who never pauses can outrun it, because the log begins anew only when all of it was moved; from a
//! certain length on each commit moves the rest itself.

use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::error::Result;

/// From so many pages on, the writer moves them itself.
pub(super) const LONGEST_LOG: u32 = 16_000;
/// How many pages are moved at a time if the pauses allow it.
const PAGES: u32 = 1_000;
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Works until it is dropped or ended.
#[derive(Debug)]
pub(super) struct Checkpoints {
    work: Option<(JoinHandle<()>, oneshot::Sender<()>)>,
}

impl Checkpoints {
    /// Begins to look whenever it is told that something was written.
    pub(super) fn begin(options: SqliteConnectOptions, written: Arc<Notify>) -> Self {
        let options = options.pragma("cache_size", "-100").thread_name(|id| format!("sqlite-log-{id}"));
        let (end, ended) = oneshot::channel();
        Self { work: Some((tokio::spawn(work(options, written, ended)), end)) }
    }

    /// Waits until its connection is closed.
    pub(super) async fn end(&mut self) {
        let Some((task, end)) = self.work.take() else { return };
        drop(end);
        if let Err(error) = task.await {
            tracing::warn!(%error, "moving the log into the database file");
        }
    }
}

async fn work(options: SqliteConnectOptions, written: Arc<Notify>, mut ended: oneshot::Receiver<()>) {
    let mut connection = None;
    let (mut pause, mut before) = (SHORTEST_PAUSE, 0);
    loop {
        let due = async {
            written.notified().await;
            tokio::time::sleep(pause).await;
        };
        tokio::select! {
            () = due => {}
            _ = &mut ended => break,
        }
        match checkpoint(&options, &mut connection).await {
            Ok(log) => {
                pause = next_pause(pause, if log < before { log } else { log - before });
                before = log;
            }
            Err(error) => {
                tracing::debug!(%error, "moving the log into the database file; it is tried again");
                connection = None;
            }
        }
    }
    if let Some(connection) = connection
        && let Err(error) = connection.close().await
    {
        tracing::debug!(%error, "closing the connection that moves the log");
    }
}

/// Moves what no reader is in the way of; says how many pages the log has.
async fn checkpoint(options: &SqliteConnectOptions, connection: &mut Option<SqliteConnection>) -> Result<u32> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(options.connect().await?),
    };
    let (_, log, _): (i64, i64, i64) = sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(connection).await?;
    Ok(u32::try_from(log).unwrap_or(0))
}

/// How long to wait if so many pages came in so long.
fn next_pause(pause: Duration, pages: u32) -> Duration {
    (pause * PAGES / pages.max(1)).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_is_written_the_shorter_the_pause() {
        let second = Duration::from_secs(1);
        assert_eq!(next_pause(second, 1_000), second);
        assert_eq!(next_pause(second, 2_000), second / 2);
        assert_eq!(next_pause(second, u32::MAX), SHORTEST_PAUSE);
        assert_eq!(next_pause(LONGEST_PAUSE, 0), LONGEST_PAUSE);
    }
}
