//! The log writer: stores chunks in the order they came, in as few statements as the store's pace allows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::TaskKey;
use mainspring_core::work::LogChunk;
use mainspring_store::StoredChunk;
use tokio::sync::{mpsc, oneshot};

use crate::live::Hint;
use crate::node::Shared;

const AT_ONCE: usize = 256;
/// Counters of attempts that have logged; forgotten when there are many, since numbers only have to rise.
const COUNTERS_KEPT: usize = 20_000;

/// Waits until everything logged so far is stored.
#[derive(Debug)]
pub(crate) struct LogBarrier {
    requests: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

impl LogBarrier {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<oneshot::Sender<()>>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        (Self { requests }, receiver)
    }

    /// Returns once the log of every attempt that has ended by now is stored.
    pub(crate) async fn stored(&self) {
        let (done, stored) = oneshot::channel();
        if self.requests.send(done).is_ok() {
            // A writer that stopped stores nothing more, so there is nothing to wait for.
            let _ = stored.await;
        }
    }
}

pub(crate) async fn run(
    shared: Arc<Shared>,
    mut logs: mpsc::Receiver<LogChunk>,
    mut barriers: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
) {
    let mut numbers: HashMap<(TaskKey, i32), i32> = HashMap::new();
    let mut chunks = Vec::new();
    loop {
        let mut waiting = Vec::new();
        tokio::select! {
            biased;
            received = logs.recv_many(&mut chunks, AT_ONCE) => if received == 0 && barriers.is_closed() { return },
            Some(barrier) = barriers.recv() => {
                waiting.push(barrier);
                while let Ok(barrier) = barriers.try_recv() {
                    waiting.push(barrier);
                }
                // Chunks sent before the barrier are in the channel by now.
                while let Ok(chunk) = logs.try_recv() {
                    chunks.push(chunk);
                }
            }
            () = shared.stop.cancelled() => return,
        }
        if !chunks.is_empty() {
            store(&shared, number(&mut numbers, chunks.drain(..))).await;
        }
        for barrier in waiting {
            let _ = barrier.send(());
        }
        if numbers.len() > COUNTERS_KEPT {
            numbers.retain(|(key, attempt), _| shared.gatherer().holds_attempt(*key, *attempt));
        }
    }
}

fn number(numbers: &mut HashMap<(TaskKey, i32), i32>, chunks: impl Iterator<Item = LogChunk>) -> Vec<StoredChunk> {
    chunks
        .map(|chunk| {
            let number = numbers.entry((chunk.key, chunk.attempt)).or_insert(0);
            *number += 1;
            StoredChunk { key: chunk.key, attempt: chunk.attempt, chunk: *number, lines: chunk.lines }
        })
        .collect()
}

fn notify_subscribers(shared: &Shared, chunks: &[StoredChunk]) {
    let hints = &shared.client.bus.hints();
    if hints.wanted() {
        for chunk in chunks {
            hints.publish(Hint::Logged { key: chunk.key, attempt: chunk.attempt, chunk: chunk.chunk });
        }
    }
}

/// Stores chunks and retries while the store is unreachable. The channel fills meanwhile, and tasks that print are
/// slowed down.
async fn store(shared: &Shared, chunks: Vec<StoredChunk>) {
    let mut backoff = Duration::from_millis(20);
    loop {
        match shared.client.store.append_logs(&chunks).await {
            Ok(()) => return notify_subscribers(shared, &chunks),
            Err(error) if error.is_transient() => tracing::warn!(%error, "storing log lines"),
            Err(error) => {
                tracing::error!(%error, chunks = chunks.len(), "the store refuses log lines; they are dropped");
                return;
            }
        }
        if shared.stop.run_until_cancelled(tokio::time::sleep(backoff)).await.is_none() {
            return;
        }
        backoff = (backoff * 2).min(Duration::from_secs(1));
    }
}
