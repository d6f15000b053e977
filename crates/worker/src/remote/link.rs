//! HTTP requests to the servers of a worker. Connections are kept alive, and the next server is used when one does
//! not answer.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use mainspring_api::worker::SESSION_HEADER;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::text::locked;

const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// Files of a version and a full answer are smaller than this.
const LARGEST_ANSWER: usize = 64 << 20;
/// Connections that are kept for the next request.
const MOST_IDLE: usize = 8;

/// A request body: a few bytes, or a file that is streamed.
pub(crate) type Outgoing = UnsyncBoxBody<Bytes, io::Error>;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Why a request has no useful answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The server was not reached, did not answer, or asked to retry.
    #[error("{0}")]
    Unavailable(String),
    /// The server understood the request and refuses it.
    #[error("the server answered {status}: {detail}")]
    Refused { status: u16, kind: String, detail: String },
}

impl LinkError {
    pub(crate) fn is_kind(&self, urn: &str) -> bool {
        matches!(self, Self::Refused { kind, .. } if kind == urn)
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Unavailable(_) => None,
        }
    }
}

/// Why a link cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LinkSetupError {
    #[error("`{0}` is not the address of a server: write it like http://127.0.0.1:8080 or https://jobs.example.com")]
    Url(String),
    #[error("cannot read the certificates in {}: {reason}", path.display())]
    Authority { path: PathBuf, reason: String },
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the token has characters that no token has")]
    Token,
}

#[derive(Debug, Deserialize)]
struct ProblemBody {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    detail: String,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) session_token: Option<String>,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
    pub(crate) patience: Duration,
}

/// The list of servers. Clones share its state.
#[derive(Clone)]
pub(crate) struct Link(Arc<Inner>);

struct Inner {
    servers: Vec<Url>,
    /// The server that gets the next request.
    current: AtomicUsize,
    token: String,
    tls: TlsConnector,
    idle: Mutex<Vec<(usize, SendRequest<Outgoing>)>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Link").field("servers", &self.0.servers).finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(servers: &[String], token: &str, authority: Option<&PathBuf>) -> Result<Self, LinkSetupError> {
        let read = |text: &String| {
            let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            url.ok_or_else(|| LinkSetupError::Url(text.clone()))
        };
        let servers: Vec<Url> = servers.iter().map(read).collect::<Result<_, _>>()?;
        if servers.is_empty() {
            return Err(LinkSetupError::Url(String::new()));
        }
        if header::HeaderValue::from_str(token).is_err() {
            return Err(LinkSetupError::Token);
        }
        let (current, idle) = (AtomicUsize::new(0), Mutex::default());
        Ok(Self(Arc::new(Inner { servers, current, token: token.to_owned(), tls: connector(authority)?, idle })))
    }

    /// The server that gets the next request.
    pub(crate) fn server(&self) -> String {
        self.0.servers[self.0.current.load(Ordering::Relaxed) % self.0.servers.len()].to_string()
    }

    /// Sends a request to the current server and reads the answer. After [`LinkError::Unavailable`] the next request goes
    /// to the next server.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: &Call) -> Result<T, LinkError> {
        let at = self.0.current.load(Ordering::Relaxed);
        let answer = match tokio::time::timeout(call.patience, self.send(at % self.0.servers.len(), call)).await {
            Ok(answer) => answer,
            Err(_) => Err(LinkError::Unavailable(format!("no answer within {:?}", call.patience))),
        };
        if matches!(answer, Err(LinkError::Unavailable(_))) {
            // Another request may have switched the server already.
            let _ = self.0.current.compare_exchange(at, at + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
        let body = answer?;
        serde_json::from_slice(&body)
            .map_err(|error| LinkError::Unavailable(format!("the answer is not understood: {error}")))
    }

    /// Streams a body to the current server on a new connection, and reads the answer.
    pub(crate) async fn upload<T: DeserializeOwned>(&self, call: &Call, body: Outgoing) -> Result<T, LinkError> {
        let answer = self.send_on_new_connection(call, body).await?;
        let status = answer.status().as_u16();
        let body = self.switch_server_if_unavailable(read_body(answer).await)?;
        let body = self.switch_server_if_unavailable(check_status(status, body))?;
        serde_json::from_slice(&body)
            .map_err(|error| LinkError::Unavailable(format!("the answer is not understood: {error}")))
    }

    /// Requests a body on a new connection; the caller streams it.
    pub(crate) async fn download(&self, call: &Call) -> Result<Incoming, LinkError> {
        let answer = self.send_on_new_connection(call, full_body(call.body.clone())).await?;
        let status = answer.status().as_u16();
        if matches!(status, 200..=299) {
            return Ok(answer.into_body());
        }
        let body = self.switch_server_if_unavailable(read_body(answer).await)?;
        Err(self
            .switch_server_if_unavailable(check_status(status, body))
            .err()
            .unwrap_or_else(|| LinkError::Unavailable("no content".into())))
    }

    async fn send_on_new_connection(&self, call: &Call, body: Outgoing) -> Result<Response<Incoming>, LinkError> {
        let at = self.0.current.load(Ordering::Relaxed) % self.0.servers.len();
        let asking = async {
            let mut sender = self.connect(at).await.map_err(unavailable)?;
            sender.send_request(self.request(at, call, body)?).await.map_err(unavailable)
        };
        let answer = match tokio::time::timeout(call.patience, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(LinkError::Unavailable(format!("no answer within {:?}", call.patience))),
        };
        self.switch_server_if_unavailable(answer)
    }

    /// After [`LinkError::Unavailable`] the next request goes to the next server.
    fn switch_server_if_unavailable<T>(&self, answer: Result<T, LinkError>) -> Result<T, LinkError> {
        if matches!(answer, Err(LinkError::Unavailable(_))) {
            self.0.current.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    async fn send(&self, server: usize, call: &Call) -> Result<Bytes, LinkError> {
        let (mut sender, kept) = match self.take_idle(server) {
            Some(sender) => (sender, true),
            None => (self.connect(server).await.map_err(unavailable)?, false),
        };
        let response = match sender.send_request(self.request(server, call, full_body(call.body.clone()))?).await {
            Ok(response) => response,
            Err(_) if kept => {
                // The server may have closed it just then. Every request of a worker may be repeated.
                sender = self.connect(server).await.map_err(unavailable)?;
                sender
                    .send_request(self.request(server, call, full_body(call.body.clone()))?)
                    .await
                    .map_err(unavailable)?
            }
            Err(error) => return Err(unavailable(error)),
        };
        let status = response.status().as_u16();
        let body = read_body(response).await?;
        let mut idle = locked(&self.0.idle);
        if idle.len() < MOST_IDLE && !sender.is_closed() {
            idle.push((server, sender));
        }
        drop(idle);
        check_status(status, body)
    }

    fn take_idle(&self, server: usize) -> Option<SendRequest<Outgoing>> {
        let mut idle = locked(&self.0.idle);
        idle.retain(|(_, sender)| !sender.is_closed());
        let position = idle.iter().rposition(|(of, sender)| *of == server && sender.is_ready())?;
        Some(idle.swap_remove(position).1)
    }

    fn request(&self, server: usize, call: &Call, body: Outgoing) -> Result<Request<Outgoing>, LinkError> {
        let url = &self.0.servers[server];
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", url.path().trim_end_matches('/'), call.path))
            .header(header::HOST, authority(url))
            .header(header::USER_AGENT, concat!("mainspring-worker/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.0.token));
        if let Some(token) = &call.session_token {
            request = request.header(SESSION_HEADER, token);
        }
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        request.body(body).map_err(unavailable)
    }

    async fn connect(&self, server: usize) -> io::Result<SendRequest<Outgoing>> {
        let url = &self.0.servers[server];
        let stream = match tokio::time::timeout(CONNECT_PATIENCE, self.open(url)).await {
            Ok(stream) => stream?,
            Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time")),
        };
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // Its errors are returned to the sender.
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn open(&self, url: &Url) -> io::Result<Box<dyn Stream>> {
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let stream = TcpStream::connect((host.as_str(), url.port_or_known_default().unwrap_or(80))).await?;
        stream.set_nodelay(true)?;
        if url.scheme() == "http" {
            return Ok(Box::new(stream));
        }
        let name = match url.host() {
            Some(Host::Ipv4(address)) => ServerName::from(std::net::IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => ServerName::from(std::net::IpAddr::V6(address)),
            _ => ServerName::try_from(host).map_err(io::Error::other)?,
        };
        Ok(Box::new(self.0.tls.connect(name, stream).await?))
    }
}

fn full_body(body: Bytes) -> Outgoing {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

async fn read_body(answer: Response<Incoming>) -> Result<Bytes, LinkError> {
    let body = Limited::new(answer.into_body(), LARGEST_ANSWER).collect().await;
    Ok(body.map_err(|error| LinkError::Unavailable(format!("the answer broke off: {error}")))?.to_bytes())
}

fn check_status(status: u16, body: Bytes) -> Result<Bytes, LinkError> {
    match status {
        200..=299 => Ok(body),
        429 | 500..=599 => {
            Err(LinkError::Unavailable(format!("the server answered {status}: {}", problem(&body).detail)))
        }
        _ => {
            let problem = problem(&body);
            Err(LinkError::Refused { status, kind: problem.r#type, detail: problem.detail })
        }
    }
}

fn unavailable(error: impl std::fmt::Display) -> LinkError {
    LinkError::Unavailable(error.to_string())
}

fn problem(body: &[u8]) -> ProblemBody {
    serde_json::from_slice(body).unwrap_or_else(|_| ProblemBody {
        r#type: String::new(),
        detail: String::from_utf8_lossy(body).chars().take(200).collect(),
    })
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn connector(authority: Option<&PathBuf>) -> Result<TlsConnector, LinkSetupError> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = authority {
        let fail = |reason: String| LinkSetupError::Authority { path: path.clone(), reason };
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| fail(error.to_string()))? {
            let certificate = certificate.map_err(|error| fail(error.to_string()))?;
            roots.add(certificate).map_err(|error| fail(error.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
