//! Accepts, forwards, counts, and cuts.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::faults::{Fault, Faults};
use super::trips::{Requests, Trip};
use super::wire::{self, Message, Opening};

/// A running proxy. It ends with this value, and so do its connections.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    faults: Mutex<Faults>,
    trips: Mutex<Vec<Trip>>,
    records: AtomicBool,
    /// Passages of statements, and what the server receives instead.
    rewrites: Mutex<Vec<(String, String)>>,
    connections: AtomicU64,
    /// Every connection is closed.
    cut: Notify,
    /// No connection is let through.
    away: AtomicBool,
}

impl Shared {
    fn rewritten(&self, message: Message) -> Message {
        let rewrites = self.rewrites.lock().unwrap_or_else(PoisonError::into_inner);
        rewrites.iter().fold(message, |message, (passage, instead)| message.with(passage, instead))
    }
}

impl Proxy {
    /// Stands before the server that a `postgres://` URL names.
    pub async fn start(server: &str) -> anyhow::Result<Self> {
        let (upstream, at) = address(server).with_context(|| format!("{server} names no host and port"))?;
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listening for the proxy")?;
        let url = format!("{}{}{}", &server[..at], listener.local_addr()?, &server[at + upstream.len()..]);
        let shared = Arc::<Shared>::default();
        let accepting = tokio::spawn(accept(listener, upstream.to_owned(), Arc::clone(&shared)));
        Ok(Self { url, shared, accepting })
    }

    /// The server's URL by way of this proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on, one round trip in this many goes wrong in one of these ways.
    pub fn disturb(&self, seed: u64, one_in: u32, kinds: &[Fault]) {
        self.faults().disturb(seed, one_in, kinds);
    }

    /// From now on nothing goes wrong.
    pub fn calm(&self) {
        self.faults().calm();
    }

    /// The next round trip that executes a statement with these words goes wrong.
    pub fn plan(&self, words: &str, fault: Fault) {
        self.faults().plan(words, fault);
    }

    /// What went wrong so far.
    pub fn injected(&self) -> Vec<Fault> {
        self.faults().injected.clone()
    }

    /// From now on, statements that contain the passage are prepared with another one instead.
    pub fn rewrite(&self, passage: &str, instead: &str) {
        self.shared
            .rewrites
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((passage.to_owned(), instead.to_owned()));
    }

    /// Cuts every connection there is.
    pub fn cut_all(&self) {
        self.shared.cut.notify_waiters();
    }

    /// The server is out of reach from now on: what is connected is cut, and who comes is sent away.
    pub fn go_away(&self) {
        self.shared.away.store(true, Ordering::SeqCst);
        self.cut_all();
    }

    /// The server is there again.
    pub fn come_back(&self) {
        self.shared.away.store(false, Ordering::SeqCst);
    }

    /// Remembers round trips from now on.
    pub fn record(&self) {
        self.shared.records.store(true, Ordering::Relaxed);
    }

    /// The round trips since the last call.
    pub fn take_trips(&self) -> Vec<Trip> {
        std::mem::take(&mut self.shared.trips.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut_all();
    }
}

/// `host:port` of a URL, and where it stands.
fn address(url: &str) -> Option<(&str, usize)> {
    let start = url.find("://")? + 3;
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    let start = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    let address = &url[start..end];
    address.contains(':').then_some((address, start))
}

async fn accept(listener: TcpListener, upstream: String, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let (upstream, shared) = (upstream.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let number = shared.connections.fetch_add(1, Ordering::Relaxed);
            let cut = shared.cut.notified();
            // Looked at after listening for the cut: who comes while the server goes away misses at most one of them.
            if shared.away.load(Ordering::SeqCst) {
                return;
            }
            tokio::select! {
                // A connection that breaks is what the proxy is for.
                _ = relay(client, &upstream, number, &shared) => {}
                () = cut => {}
            }
        });
    }
}

/// Returns when one side has hung up or a fault cuts; both sockets are closed then.
async fn relay(mut client: TcpStream, upstream: &str, number: u64, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let startup = loop {
        match wire::read_opening(&mut client).await? {
            Opening::Encryption => client.write_all(b"N").await?,
            Opening::Startup(bytes) => break bytes,
        }
    };
    let mut server = TcpStream::connect(upstream).await?;
    server.set_nodelay(true)?;
    server.write_all(&startup).await?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let lost = Lost::default();
    tokio::select! {
        ended = forward_requests(from_client, to_server, number, shared, &lost) => ended,
        ended = forward_replies(from_server, to_client, &lost) => ended,
    }
}

/// The number of the reply that is not to arrive. The first one ends the startup.
#[derive(Debug)]
struct Lost(AtomicU64);

impl Default for Lost {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

async fn forward_requests(
    client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    number: u64,
    shared: &Shared,
    lost: &Lost,
) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let mut pending = Vec::new();
    let mut requests = Requests::default();
    let mut sent = 1;
    while let Some(message) = wire::read_message(&mut client).await? {
        let message = shared.rewritten(message);
        requests.note(&message);
        pending.extend_from_slice(&message.bytes);
        if message.is_part() {
            continue;
        }
        if message.ends_request() {
            sent += 1;
            let trip = requests.end(number);
            let mut stall = None;
            let executes = !trip.only_prepares;
            match shared.faults.lock().unwrap_or_else(PoisonError::into_inner).decide(&trip.text, executes) {
                None => {}
                Some(Fault::LoseReply) => lost.0.store(sent, Ordering::SeqCst),
                Some(Fault::LoseRequest) => return Ok(()),
                Some(Fault::Stall(time)) => stall = Some(time),
            }
            if shared.records.load(Ordering::Relaxed) {
                shared.trips.lock().unwrap_or_else(PoisonError::into_inner).push(trip);
            }
            if let Some(time) = stall {
                tokio::time::sleep(time).await;
            }
        }
        server.write_all(&pending).await?;
        pending.clear();
    }
    Ok(())
}

async fn forward_replies(server: OwnedReadHalf, mut client: OwnedWriteHalf, lost: &Lost) -> io::Result<()> {
    let mut server = BufReader::new(server);
    let mut complete = 0;
    let mut pending = Vec::new();
    while let Some(Message { tag, bytes }) = wire::read_message(&mut server).await? {
        let is_lost = lost.0.load(Ordering::SeqCst) == complete + 1;
        if tag == b'Z' {
            complete += 1;
            if is_lost {
                return Ok(());
            }
        }
        if !is_lost {
            pending.extend_from_slice(&bytes);
        }
        if server.buffer().is_empty() {
            client.write_all(&pending).await?;
            pending.clear();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_are_found_in_urls() {
        for (url, expected) in [
            ("postgres://u:p@h:1/db?x=y", Some("h:1")),
            ("postgres://h:1", Some("h:1")),
            ("postgres://u@h/db", None),
            ("sqlite://x", None),
        ] {
            assert_eq!(address(url).map(|found| found.0), expected, "{url}");
        }
    }
}
