//! Moves what was committed from the log into the file, beside the writer.
//!
//! Left to itself, SQLite does so within the commit that made the log long, and that commit then waits for thousands of
//! pages that it did not write. Here a connection of its own does it: right after much was written, when the disk is most likely
//! to be free for it, and a while after little was. A writer that never pauses can outrun it, because the log begins anew
//! only when all of it was moved; from a certain length on each commit moves the rest itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::error::Result;

/// From this many pages on, the writer moves them itself.
pub(super) const LONGEST_LOG: u32 = 16_000;
/// This number of written values is much: some hundred pages if they are scattered, a hundred if not.
const MUCH: usize = 10_000;
/// Between two times, however much is written.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
/// While it is at work the log may grow: what came meanwhile is little, and soon moved.
const MOST_PASSES: usize = 3;
/// After little was written. An idle server writes its heartbeats only, and each checkpoint syncs two files.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What was written since the log was last looked at.
#[derive(Debug, Default)]
pub(super) struct Written {
    values: AtomicUsize,
    some: Notify,
    much: Notify,
}

impl Written {
    pub(super) fn add(&self, values: usize) {
        let before = self.values.fetch_add(values, Ordering::Relaxed);
        self.some.notify_one();
        if before + values >= MUCH {
            self.much.notify_one();
        }
    }

    /// Waits until there is enough of it.
    async fn enough(&self) {
        self.some.notified().await;
        tokio::select! {
            () = self.much.notified() => {}
            () = tokio::time::sleep(LONGEST_PAUSE) => {}
        }
        self.values.store(0, Ordering::Relaxed);
    }
}

/// Works until it is dropped or ended.
#[derive(Debug)]
pub(super) struct Checkpoints {
    work: Option<(JoinHandle<()>, oneshot::Sender<()>)>,
}

impl Checkpoints {
    /// Begins to look whenever a write is signalled.
    pub(super) fn begin(options: SqliteConnectOptions, written: Arc<Written>) -> Self {
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

async fn work(options: SqliteConnectOptions, written: Arc<Written>, mut ended: oneshot::Receiver<()>) {
    let mut connection = None;
    let moves = async {
        loop {
            written.enough().await;
            if let Err(error) = checkpoint(&options, &mut connection).await {
                tracing::debug!(%error, "moving the log into the database file; it is tried again");
                connection = None;
            }
            tokio::time::sleep(SHORTEST_PAUSE).await;
        }
    };
    tokio::select! {
        () = moves => {}
        _ = &mut ended => {}
    }
    if let Some(connection) = connection
        && let Err(error) = connection.close().await
    {
        tracing::debug!(%error, "closing the connection that moves the log");
    }
}

/// Moves what no reader is in the way of.
async fn checkpoint(options: &SqliteConnectOptions, connection: &mut Option<SqliteConnection>) -> Result<()> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(options.connect().await?),
    };
    for _ in 0..MOST_PASSES {
        let (_, log, moved): (i64, i64, i64) =
            sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(&mut *connection).await?;
        if moved >= log {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn much_is_moved_at_once_and_little_after_a_while() {
        let written = Written::default();
        let enough_within = async |time| timeout(time, written.enough()).await.is_ok();
        assert!(!enough_within(SHORTEST_PAUSE).await);
        written.add(5);
        assert!(!enough_within(SHORTEST_PAUSE).await);
        written.add(MUCH);
        assert!(enough_within(LONGEST_PAUSE).await);
        written.add(MUCH - 1);
        written.add(1);
        assert!(enough_within(LONGEST_PAUSE / 2).await);
    }
}
