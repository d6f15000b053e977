//! The listener and its end.

use std::net::SocketAddr;
use std::time::Duration;

use mainspring_engine::Client;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::health::Health;
use crate::router::router;

/// An address that is taken, but not served yet.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
}

/// A server that answers.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    health: Health,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    /// Why serving ended, once it has.
    ended: watch::Receiver<Option<String>>,
}

impl HttpListener {
    /// Answers from now on.
    pub fn serve(self, client: Client) -> HttpServer {
        let health = Health::new(client);
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, ended) = watch::channel(None);
        let service = router(health.clone());
        let task = tokio::spawn(async move {
            let until = async move { _ = stopped.await };
            let result = axum::serve(self.listener, service).with_graceful_shutdown(until).await;
            let why = result.map_or_else(|error| error.to_string(), |()| "it was told to".to_owned());
            tell.send_replace(Some(why));
        });
        HttpServer { address: self.address, health, stop, task, ended }
    }
}

impl HttpServer {
    /// Takes the address; port 0 takes a free one.
    pub async fn bind(address: SocketAddr) -> std::io::Result<HttpListener> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(HttpListener { listener, address })
    }

    /// Where it really listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Says that nobody should send work here any more; goes on answering.
    pub fn drain(&self) {
        self.health.drain();
    }

    /// Returns the reason when serving has ended by itself.
    pub async fn stopped(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "it panicked".to_owned(),
        }
    }

    /// Takes no more connections and waits for those that are answered, at most for `patience`.
    pub async fn shutdown(self, patience: Duration) {
        let _ = self.stop.send(());
        let mut task = self.task;
        if tokio::time::timeout(patience, &mut task).await.is_err() {
            tracing::debug!("connections were still open and are cut");
            task.abort();
        }
    }
}
