//! The bus over PostgreSQL: one channel, heard on one connection.

use mainspring_store::{Listener, Store};

use super::transport::{BoxFuture, BusError, BusTransport, Subscription};

/// What one notification can carry, with room to spare.
const LONGEST_TEXT: usize = 7_500;

#[derive(Debug)]
pub(crate) struct PostgresNotify(pub(crate) Store);

impl BusTransport for PostgresNotify {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn longest_text(&self) -> usize {
        LONGEST_TEXT
    }

    fn send<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(async { self.0.announce(text).await.map_err(BusError::new) })
    }

    fn subscribe(&self) -> BoxFuture<'_, Result<Box<dyn Subscription>, BusError>> {
        Box::pin(async {
            let listener = self.0.listen().await.map_err(BusError::new)?;
            Ok(Box::new(Channel(listener)) as Box<dyn Subscription>)
        })
    }
}

struct Channel(Listener);

impl Subscription for Channel {
    fn next(&mut self) -> BoxFuture<'_, Result<String, BusError>> {
        Box::pin(async { self.0.next_message().await.map_err(BusError::new) })
    }
}
