//! The listener and its end.
//!
//! A client has a bounded time for the head of each request and to receive each answer; bodies are bounded where they are
//! read. Connections are bounded in number, altogether and per address, so that clients that only connect cannot exhaust the
//! process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mainspring_boxed::boxed;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::api::Api;
use crate::auth::address::Peer;
use crate::crowd::ConnectionCounts;
use crate::health::Readiness;
use crate::timed::TimedStream;
use crate::tls::{self, TlsFiles};

/// A client that needs longer for the head of a request is disconnected.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_HEAD: usize = 64 * 1024;
const MOST_HEADERS: usize = 100;
/// A client that takes nothing of an answer for this long is cut.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// The pause after an error of `accept` (such as no more file descriptors), so that the loop does not spin.
const AFTER_TROUBLE: Duration = Duration::from_millis(100);
/// How often expired state is removed.
const TIDY_EVERY: Duration = Duration::from_secs(600);

/// A bound address that is not served yet.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
}

#[derive(Clone)]
struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Tls")
    }
}

/// A server that answers.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    health: Readiness,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    /// The reason why serving ended, once it has.
    ended: watch::Receiver<Option<String>>,
}

impl HttpListener {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves TLS with this certificate. Fails with the fault of the files.
    pub fn with_tls(mut self, files: &TlsFiles) -> Result<Self, String> {
        self.tls = Some(Tls(tls::acceptor(files)?));
        Ok(self)
    }

    /// Answers from now on.
    pub fn serve(self, api: Api) -> HttpServer {
        let (stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = watch::channel(None);
        let health = api.state().health().clone();
        let task = tokio::spawn(async move {
            accept(self.listener, self.tls, api, stopped).await;
            end.send_replace(Some("a signal asked for it".to_owned()));
        });
        HttpServer { address: self.address, health, stop, task, ended }
    }
}

#[boxed]
impl HttpServer {
    /// Takes the address; port 0 takes a free one.
    pub async fn bind(address: SocketAddr) -> std::io::Result<HttpListener> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(HttpListener { listener, address, tls: None })
    }

    /// Where it really listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reports not ready, so that load balancers send no more requests; goes on answering.
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

/// Accepts connections until it is asked to stop, then waits for those that are open.
async fn accept(listener: TcpListener, tls: Option<Tls>, api: Api, mut stopped: oneshot::Receiver<()>) {
    let limits = api.state().settings().connections;
    let places = Arc::new(Semaphore::new(limits.most));
    let crowd = ConnectionCounts::new(limits.per_address);
    let (closing, _) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut tidy = tokio::time::interval(TIDY_EVERY);
    loop {
        let place = tokio::select! {
            _ = &mut stopped => break,
            _ = tidy.tick() => {
                api.tidy().await;
                continue;
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            place = places.clone().acquire_owned() => place,
        };
        let Ok(place) = place else { break };
        let accepted = tokio::select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let is_proxy = api.state().settings().proxies.iter().any(|proxy| proxy.contains(peer.ip()));
                let counted = crowd.enter(peer.ip());
                if counted.is_none() && !is_proxy {
                    tracing::debug!(%peer, "an address has too many connections; this one is closed");
                    continue;
                }
                _ = stream.set_nodelay(true);
                let (router, closing, tls) = (api.router().clone(), closing.subscribe(), tls.clone());
                connections.spawn(async move {
                    greet(stream, peer, tls, router, closing).await;
                    drop((place, counted));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "taking a connection");
                tokio::time::sleep(AFTER_TROUBLE).await;
            }
        }
    }
    drop(listener);
    closing.send_replace(true);
    api.state().live().close();
    while connections.join_next().await.is_some() {}
    // What was begun for clients that have gone meanwhile.
    api.state().writes().close();
    api.state().writes().wait().await;
}

/// Speaks TLS first where that is wanted.
async fn greet(stream: TcpStream, peer: SocketAddr, tls: Option<Tls>, router: Router, closing: watch::Receiver<bool>) {
    let Some(Tls(acceptor)) = tls else { return connection(stream, peer, router, closing).await };
    match tokio::time::timeout(HEAD_PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => connection(stream, peer, router, closing).await,
        Ok(Err(error)) => tracing::trace!(%error, %peer, "a TLS handshake failed"),
        Err(_) => tracing::trace!(%peer, "a TLS handshake took too long"),
    }
}

/// Answers on one connection until it ends, or until its current answer is given when the server stops.
pub(crate) async fn connection<S>(stream: S, peer: SocketAddr, router: Router, mut closing: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let router = router.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        async move { router.oneshot(request).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(TimedStream::new(stream, WRITE_PATIENCE)), service)
        .with_upgrades();
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = closes(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::trace!(%error, %peer, "a connection ended early");
    }
}

async fn closes(closing: &mut watch::Receiver<bool>) {
    _ = closing.wait_for(|closing| *closing).await;
}
