//! A server that answers exactly what a test wants, byte by byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// One request as it arrived.
#[derive(Debug, Clone, Default)]
pub struct Received {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub enum Reply {
    Whole(Vec<u8>),
    /// These bytes, and then nothing until the client goes away.
    Stall(Vec<u8>),
    /// These bytes, and then more and more, up to this size.
    Endless(Vec<u8>, u64),
}

#[derive(Debug, Default)]
struct Seen {
    received: Mutex<Vec<Received>>,
    connections: AtomicUsize,
    written: AtomicU64,
    left: AtomicUsize,
}

#[derive(Debug)]
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Seen>,
}

impl Server {
    pub async fn start(reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", None, reply).await
    }

    pub async fn start_at(
        address: &str,
        tls: Option<TlsAcceptor>,
        reply: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let (shared, reply) = (Arc::clone(&seen), Arc::new(reply));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, reply, tls) = (Arc::clone(&shared), Arc::clone(&reply), tls.clone());
                seen.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &seen, reply.as_ref()).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &seen, reply.as_ref()).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { address, seen }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn received(&self) -> Vec<Received> {
        self.seen.received.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// Bytes of endless replies that were sent.
    pub fn written(&self) -> u64 {
        self.seen.written.load(Ordering::SeqCst)
    }

    /// Clients that went away from a reply that had not ended.
    pub fn left(&self) -> usize {
        self.seen.left.load(Ordering::SeqCst)
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    seen: &Seen,
    reply: &(dyn Fn(&Received) -> Reply + Send + Sync),
) -> Option<()> {
    let request = read_request(&mut stream).await?;
    seen.received.lock().unwrap().push(request.clone());
    match reply(&request) {
        Reply::Whole(bytes) => stream.write_all(&bytes).await.ok()?,
        Reply::Stall(bytes) => {
            stream.write_all(&bytes).await.ok()?;
            let _ = stream.read(&mut [0; 16]).await;
            seen.left.fetch_add(1, Ordering::SeqCst);
        }
        Reply::Endless(bytes, most) => {
            stream.write_all(&bytes).await.ok()?;
            let piece = vec![b'x'; 64 * 1024];
            while seen.written.load(Ordering::SeqCst) < most {
                if stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await.is_err()
                    || stream.write_all(&piece).await.is_err()
                    || stream.write_all(b"\r\n").await.is_err()
                {
                    seen.left.fetch_add(1, Ordering::SeqCst);
                    return None;
                }
                seen.written.fetch_add(piece.len() as u64, Ordering::SeqCst);
            }
        }
    }
    stream.shutdown().await.ok()
}

async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap_or((line, "")))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()))
        .collect();
    let mut request = Received { method, target, headers, body: String::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    request.body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
    Some(request)
}

pub fn answer(status: u16, headers: &str, body: &[u8]) -> Reply {
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    Reply::Whole([head.as_bytes(), body].concat())
}

pub fn redirect(status: u16, location: &str) -> Reply {
    answer(status, &format!("location: {location}\r\n"), b"")
}

/// A self-made certificate for these names, and the file that makes it trusted.
pub fn certificate(names: &[&str], directory: &std::path::Path) -> (TlsAcceptor, std::path::PathBuf) {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let path = directory.join("ca.pem");
    std::fs::write(&path, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let certificates = vec![CertificateDer::from(made.cert.der().to_vec())];
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), path)
}
