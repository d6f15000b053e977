//! Transports to other processes, and the loops that send and receive.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::handle::Links;

/// The pause between two batches. Messages of that time are merged.
const SEND_EVERY: Duration = Duration::from_millis(5);
/// The pause before a lost subscription is opened again.
const AFTER_LOSS: Duration = Duration::from_secs(1);

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a message could not be sent or received. Nothing depends on messages: the loops also poll.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BusError(String);

impl BusError {
    pub(crate) fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// A transport of messages to other processes.
pub(crate) trait BusTransport: Send + Sync + std::fmt::Debug + 'static {
    fn name(&self) -> &'static str;
    /// The longest text of one message.
    fn longest_text(&self) -> usize;
    fn send<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<(), BusError>>;
    fn subscribe(&self) -> BoxFuture<'_, Result<Box<dyn Subscription>, BusError>>;
}

pub(crate) trait Subscription: Send {
    /// The next text of any process, including this one.
    fn next(&mut self) -> BoxFuture<'_, Result<String, BusError>>;
}

/// Sends published messages, at most every few milliseconds.
pub(crate) async fn send_loop(links: Arc<Links>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = links.outbox.added() => {}
            () = links.hints.outward_added() => {}
            () = stop.cancelled() => return,
        }
        links.flush().await;
        tokio::time::sleep(SEND_EVERY).await;
    }
}

/// Receives the messages of other processes until the process ends.
pub(crate) async fn listen_loop(links: Arc<Links>, transport: Arc<dyn BusTransport>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        match stop.run_until_cancelled(transport.subscribe()).await {
            None => return,
            Some(Ok(mut subscription)) => {
                links.connected_transports.fetch_add(1, Ordering::AcqRel);
                // Messages may have been missed while the subscription was lost.
                links.look_at_everything();
                let lost = stop.run_until_cancelled(receive_all(&links, subscription.as_mut())).await;
                links.connected_transports.fetch_sub(1, Ordering::AcqRel);
                if let Some(error) = lost {
                    tracing::debug!(%error, transport = transport.name(), "hearing other nodes; polling meanwhile");
                }
            }
            Some(Err(error)) => {
                tracing::debug!(%error, transport = transport.name(), "subscribing to other nodes; polling meanwhile");
            }
        }
        let _ = stop.run_until_cancelled(tokio::time::sleep(AFTER_LOSS)).await;
    }
}

async fn receive_all(links: &Links, subscription: &mut dyn Subscription) -> BusError {
    loop {
        match subscription.next().await {
            Ok(text) => links.receive_text(&text),
            Err(error) => return error,
        }
    }
}
