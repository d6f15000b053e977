//! Gathers spans and sends them: a batch goes when it is full or a second old.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::collector::Collector;
use super::{Exported, Span};

const LARGEST_BATCH: usize = 512;
const OLDEST: Duration = Duration::from_secs(1);

/// Until every tracer is gone.
pub(super) async fn run(mut collector: Collector, mut waiting: mpsc::Receiver<Exported>) {
    let mut batch: Vec<Span> = Vec::new();
    let mut due = Instant::now();
    loop {
        let received = tokio::select! {
            received = waiting.recv() => received,
            () = tokio::time::sleep_until(due), if !batch.is_empty() => {
                collector.send(&mut batch).await;
                continue;
            }
        };
        match received {
            Some(Exported::Span(span)) => {
                if batch.is_empty() {
                    due = Instant::now() + OLDEST;
                }
                batch.push(*span);
                if batch.len() >= LARGEST_BATCH {
                    collector.send(&mut batch).await;
                }
            }
            Some(Exported::Flush(done)) => flushed(&mut collector, &mut batch, done).await,
            None => return collector.send(&mut batch).await,
        }
    }
}

async fn flushed(collector: &mut Collector, batch: &mut Vec<Span>, done: oneshot::Sender<()>) {
    collector.send(batch).await;
    // The caller may have stopped waiting.
    let _ = done.send(());
}
