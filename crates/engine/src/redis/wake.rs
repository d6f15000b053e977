//! The bus over a stream of Redis. Each node reads from its own position; polling covers entries that were trimmed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::connection::{Connection, RedisError};
use super::resp::Reply;
use super::settings::{RedisSettings, RedisStatus};
use crate::bus::transport::{BoxFuture, BusError, BusTransport, Subscription};

const STREAM: &str = "stream:scheduler:wake";
/// The length of the stream. Nodes that are further behind poll anyway.
const KEPT: &str = "10000";
const LONGEST_TEXT: usize = 64 * 1024;
const BLOCK: Duration = Duration::from_secs(5);

pub(crate) struct RedisWake {
    settings: RedisSettings,
    status: Arc<RedisStatus>,
    sending: Mutex<Option<Connection>>,
}

impl std::fmt::Debug for RedisWake {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("RedisWake").field(&self.settings).finish()
    }
}

impl RedisWake {
    pub(crate) fn new(settings: RedisSettings, status: Arc<RedisStatus>) -> Self {
        Self { settings, status, sending: Mutex::new(None) }
    }

    async fn add(&self, text: &str) -> Result<(), RedisError> {
        let mut sending = self.sending.lock().await;
        let mut connection = match sending.take() {
            Some(connection) => connection,
            None => Connection::open(&self.settings).await?,
        };
        connection.ask(&["XADD", STREAM, "MAXLEN", "~", KEPT, "*", "messages", text]).await?;
        *sending = Some(connection);
        Ok(())
    }
}

impl BusTransport for RedisWake {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn longest_text(&self) -> usize {
        LONGEST_TEXT
    }

    fn send<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(async move {
            self.add(text).await.map_err(|error| {
                self.status.trouble(error.to_string());
                BusError::new(error)
            })
        })
    }

    fn subscribe(&self) -> BoxFuture<'_, Result<Box<dyn Subscription>, BusError>> {
        Box::pin(async {
            let opened = async {
                let mut connection = Connection::open(&self.settings).await?;
                let newest = connection.ask(&["XREVRANGE", STREAM, "+", "-", "COUNT", "1"]).await?;
                let newest = newest.list().first().and_then(|entry| entry.list().first()?.text().map(str::to_owned));
                Ok::<_, RedisError>((connection, newest.unwrap_or_else(|| "0-0".into())))
            };
            match opened.await {
                Ok((connection, position)) => {
                    self.status.recovered();
                    let status = Arc::clone(&self.status);
                    Ok(Box::new(Reading { connection, position, pending: Vec::new(), status }) as Box<dyn Subscription>)
                }
                Err(error) => {
                    self.status.trouble(error.to_string());
                    Err(BusError::new(error))
                }
            }
        })
    }
}

struct Reading {
    connection: Connection,
    position: String,
    /// Texts that were read and not yet returned, in reverse order.
    pending: Vec<String>,
    status: Arc<RedisStatus>,
}

impl Reading {
    async fn read(&mut self) -> Result<(), RedisError> {
        let block = BLOCK.as_millis().to_string();
        let arguments = ["XREAD", "COUNT", "100", "BLOCK", &block, "STREAMS", STREAM, &self.position];
        let reply = self.connection.ask_blocking(&arguments, BLOCK).await?;
        let entries = reply.list().first().and_then(|stream| stream.list().get(1)).map_or(&[][..], Reply::list);
        for entry in entries {
            if let Some(id) = entry.list().first().and_then(Reply::text) {
                self.position = id.to_owned();
            }
            if let Some(text) = entry.list().get(1).and_then(|fields| fields.list().get(1)).and_then(Reply::text) {
                self.pending.push(text.to_owned());
            }
        }
        self.pending.reverse();
        if entries.is_empty() {
            self.notice_a_flush().await?;
        }
        Ok(())
    }

    /// Detects a flushed Redis: its ids restart only if its clock went back, but a stream that was deleted has no entry
    /// at our position.
    async fn notice_a_flush(&mut self) -> Result<(), RedisError> {
        let newest = self.connection.ask(&["XREVRANGE", STREAM, "+", "-", "COUNT", "1"]).await?;
        if newest.list().is_empty() {
            self.position = "0-0".into();
        }
        Ok(())
    }
}

impl Subscription for Reading {
    fn next(&mut self) -> BoxFuture<'_, Result<String, BusError>> {
        Box::pin(async {
            loop {
                if let Some(text) = self.pending.pop() {
                    return Ok(text);
                }
                if let Err(error) = self.read().await {
                    self.status.trouble(error.to_string());
                    return Err(BusError::new(error));
                }
                self.status.recovered();
            }
        })
    }
}
