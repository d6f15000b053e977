//! A second listener for scrapers and probes: `/metrics`, `/healthz` and `/live`, nothing else, and no token.

use std::net::SocketAddr;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use mainspring_boxed::boxed;
use mainspring_telemetry::Metrics;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::serve::connection;

/// More connections than this are a mistake or an attack.
const MOST_CONNECTIONS: usize = 64;

/// Answers until it is dropped or shut down.
#[derive(Debug)]
pub struct ProbeServer {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
    _task: JoinHandle<()>,
}

#[boxed]
impl ProbeServer {
    /// Takes the address and answers; `service` is the name that `/healthz` gives.
    pub async fn start(address: SocketAddr, metrics: Metrics, service: &'static str) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(accept(listener, router(metrics, service), stopped));
        Ok(Self { address, _stop: stop, _task: task })
    }

    /// The actual address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn router(metrics: Metrics, service: &'static str) -> Router {
    let healthz = move || async move { axum::Json(json!({"status": "ok", "service": service})) };
    let live = || async { axum::Json(json!({"status": "ok"})) };
    Router::new()
        .route("/metrics", get(move || async move { exposition(&metrics) }))
        .route("/healthz", get(healthz))
        .route("/live", get(live))
}

/// The metrics as an answer.
pub(crate) fn exposition(metrics: &Metrics) -> impl IntoResponse + use<> {
    ([(CONTENT_TYPE, Metrics::CONTENT_TYPE)], metrics.encode())
}

async fn accept(listener: TcpListener, router: Router, mut stopped: oneshot::Receiver<()>) {
    let (closing, _) = watch::channel(false);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                connections.spawn(connection(stream, peer, router.clone(), closing.subscribe()));
            }
            Err(error) => {
                tracing::warn!(%error, "taking a connection of a scraper");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
    closing.send_replace(true);
}
