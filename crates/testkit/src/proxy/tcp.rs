//! A proxy that knows nothing of what it carries: it refuses, swallows one or both directions, and cuts; a bug of a
//! program is put into what it sends.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What becomes of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Passage {
    Open = 0,
    /// Connections are cut and refused.
    Refused = 1,
    /// Nothing arrives, and neither side learns of it.
    Silent = 2,
    /// Requests arrive and are acted on; their answers do not come back.
    AnswersLost = 3,
    /// Requests do not arrive; what the server says by itself does.
    RequestsLost = 4,
}

/// A running proxy in front of one address. It ends with this value, and so do its connections.
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    passage: AtomicU8,
    cut: Notify,
    /// Passages of requests, and what arrives instead.
    rewrites: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl Shared {
    fn rewritten(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let rewrites = self.rewrites.lock().unwrap_or_else(PoisonError::into_inner);
        for (passage, instead) in rewrites.iter() {
            let mut from = 0;
            while let Some(at) = bytes[from..].windows(passage.len()).position(|window| window == passage) {
                bytes.splice(from + at..from + at + passage.len(), instead.iter().copied());
                from += at + instead.len();
            }
        }
        bytes
    }

    fn is(&self, passages: &[Passage]) -> bool {
        let now = self.passage.load(Ordering::SeqCst);
        passages.iter().any(|passage| *passage as u8 == now)
    }
}

impl TcpProxy {
    /// Stands before `host:port`, which need not listen yet.
    pub async fn start(upstream: impl Into<String>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listening for a proxy")?;
        let address = listener.local_addr()?;
        let shared = Arc::<Shared>::default();
        let accepting = tokio::spawn(accept(listener, upstream.into(), Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What happens from now on. A connection that is open when the way opens again has missed something and is cut.
    pub fn set(&self, passage: Passage) {
        self.shared.passage.store(passage as u8, Ordering::SeqCst);
        if matches!(passage, Passage::Open | Passage::Refused) {
            self.cut_all();
        }
    }

    /// From now on, requests that contain the passage arrive with another one instead. A passage is found where it was
    /// written at once.
    pub fn rewrite(&self, passage: &str, instead: &str) {
        let mut rewrites = self.shared.rewrites.lock().unwrap_or_else(PoisonError::into_inner);
        rewrites.push((passage.into(), instead.into()));
    }

    /// Cuts every connection there is.
    pub fn cut_all(&self) {
        self.shared.cut.notify_waiters();
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut_all();
    }
}

async fn accept(listener: TcpListener, upstream: String, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let (upstream, shared) = (upstream.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let cut = shared.cut.notified();
            if shared.is(&[Passage::Refused]) {
                return;
            }
            tokio::select! {
                // A connection that breaks is what the proxy is for.
                _ = relay(client, &upstream, &shared) => {}
                () = cut => {}
            }
        });
    }
}

/// Returns when one side has hung up; both sockets are closed then.
async fn relay(client: TcpStream, upstream: &str, shared: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        ended = pump(from_client, to_server, Way::Requests, shared) => ended,
        ended = pump(from_server, to_client, Way::Answers, shared) => ended,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Requests,
    Answers,
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Way, shared: &Shared) -> io::Result<()> {
    let lost = if way == Way::Requests { Passage::RequestsLost } else { Passage::AnswersLost };
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        if shared.is(&[Passage::Silent, lost]) {
            continue;
        }
        match way {
            Way::Requests => to.write_all(&shared.rewritten(buffer[..read].to_vec())).await?,
            Way::Answers => to.write_all(&buffer[..read]).await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Answers every byte with itself, and counts what arrived.
    async fn echo() -> (SocketAddr, Arc<AtomicU8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(AtomicU8::new(0)));
        let counted = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((mut peer, _)) = listener.accept().await {
                let counted = Arc::clone(&counted);
                tokio::spawn(async move {
                    let mut byte = [0; 1];
                    while peer.read_exact(&mut byte).await.is_ok() {
                        counted.fetch_add(1, Ordering::SeqCst);
                        _ = peer.write_all(&byte).await;
                    }
                });
            }
        });
        (address, seen)
    }

    async fn ask(stream: &mut TcpStream) -> bool {
        let mut byte = [7; 1];
        let answer = async {
            stream.write_all(&byte).await?;
            stream.read_exact(&mut byte).await
        };
        tokio::time::timeout(Duration::from_millis(300), answer).await.is_ok_and(|answer| answer.is_ok())
    }

    #[tokio::test]
    async fn it_loses_what_it_says_it_loses() {
        let (address, seen) = echo().await;
        let proxy = TcpProxy::start(address.to_string()).await.unwrap();
        let connect = async || TcpStream::connect(proxy.address()).await.unwrap();
        assert!(ask(&mut connect().await).await);
        proxy.set(Passage::AnswersLost);
        assert!(!ask(&mut connect().await).await);
        assert_eq!(seen.load(Ordering::SeqCst), 2, "the request arrived");
        proxy.set(Passage::RequestsLost);
        assert!(!ask(&mut connect().await).await);
        assert_eq!(seen.load(Ordering::SeqCst), 2);
        let mut waiting = connect().await;
        // Connected is not yet accepted: only what it has asked in vain shows that the proxy has it.
        assert!(!ask(&mut waiting).await);
        proxy.set(Passage::Open);
        assert!(!ask(&mut waiting).await, "who missed something is cut");
        assert!(ask(&mut connect().await).await);
        proxy.set(Passage::Refused);
        assert!(!ask(&mut connect().await).await);
    }
}
