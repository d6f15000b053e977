//! Calls to etcd's JSON gateway. Keys and values travel as base64, numbers as text.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::{EtcdSettings, tls};
use crate::coordination::CoordinationError;

/// How long one endpoint may take before the next is tried.
const PATIENCE: Duration = Duration::from_secs(2);
/// A watch may be silent for hours: the kernel probes at this interval, and ends the connection after this number of unanswered probes.
const PROBE_EVERY: Duration = Duration::from_secs(2);
const PROBES: u32 = 3;
const LARGEST_ANSWER: usize = 8 << 20;

type Result<T> = std::result::Result<T, CoordinationError>;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(super) struct Gateway {
    endpoints: Vec<Url>,
    tls: TlsConnector,
    credentials: Option<(String, String)>,
    /// The token that etcd issued for the credentials.
    token: Mutex<Option<String>>,
    /// The endpoint that answered last.
    preferred: AtomicUsize,
    prefix: String,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Gateway").field("endpoints", &self.endpoints.len()).finish_non_exhaustive()
    }
}

impl Gateway {
    pub(super) fn new(settings: &EtcdSettings) -> Result<Self> {
        let endpoints = settings.endpoints.iter().map(|text| endpoint(text)).collect::<Result<Vec<_>>>()?;
        if endpoints.is_empty() {
            return Err(CoordinationError::Refused("etcd.endpoints names no endpoint".into()));
        }
        let credentials = match (&settings.username, &settings.password) {
            (Some(name), Some(password)) => Some((name.clone(), password.clone())),
            (None, None) => None,
            _ => {
                let message = "etcd needs both a user name and a password: etcd.username and etcd.password_file";
                return Err(CoordinationError::Refused(message.into()));
            }
        };
        Ok(Self {
            endpoints,
            tls: tls::connector(settings)?,
            credentials,
            token: Mutex::new(None),
            preferred: AtomicUsize::new(0),
            prefix: settings.prefix.trim_end_matches('/').to_owned(),
        })
    }

    /// A key under the prefix of this installation.
    pub(super) fn key(&self, rest: &str) -> String {
        format!("{}/{rest}", self.prefix)
    }

    /// Calls endpoints until one has answered. A refusal is an answer.
    pub(super) async fn call(&self, path: &str, body: &Value) -> Result<Value> {
        let (url, response) = self.send_to_any(path, body).await?;
        match tokio::time::timeout(PATIENCE, read_answer(url, response)).await {
            Ok(answer) => answer,
            Err(_) => Err(silent(url)),
        }
    }

    /// Opens a streaming call.
    pub(super) async fn open(&self, path: &str, body: &Value) -> Result<Incoming> {
        let (url, response) = self.send_to_any(path, body).await?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            _ => read_answer(url, response).await.and_then(|_| Err(not_etcd(url))),
        }
    }

    async fn send_to_any(&self, path: &str, body: &Value) -> Result<(&Url, Response<Incoming>)> {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut last = CoordinationError::Unreachable("there is no endpoint".into());
        for number in 0..self.endpoints.len() {
            let number = (first + number) % self.endpoints.len();
            let url = &self.endpoints[number];
            match tokio::time::timeout(PATIENCE, self.send(url, path, body)).await {
                Err(_) => last = silent(url),
                Ok(Err(error @ CoordinationError::Unreachable(_))) => last = error,
                Ok(answer) => {
                    self.preferred.store(number, Ordering::Relaxed);
                    return answer.map(|response| (url, response));
                }
            }
        }
        Err(last)
    }

    async fn send(&self, url: &Url, path: &str, body: &Value) -> Result<Response<Incoming>> {
        let response = self.post(url, path, body, self.token(url).await?.as_deref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED || self.credentials.is_none() {
            return Ok(response);
        }
        // Tokens of etcd last five minutes, and none outlives its restart.
        self.set_token(None);
        self.post(url, path, body, self.token(url).await?.as_deref()).await
    }

    fn set_token(&self, token: Option<String>) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }

    async fn token(&self, url: &Url) -> Result<Option<String>> {
        let Some((name, password)) = &self.credentials else { return Ok(None) };
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_some() {
            return Ok(known);
        }
        let body = json!({"name": name, "password": password});
        let answer = read_answer(url, self.post(url, "/v3/auth/authenticate", &body, None).await?).await?;
        let token = answer.get("token").and_then(Value::as_str).map(str::to_owned);
        self.set_token(token.clone());
        Ok(token)
    }

    async fn post(&self, url: &Url, path: &str, body: &Value, token: Option<&str>) -> Result<Response<Incoming>> {
        let unreachable = |error: String| CoordinationError::Unreachable(format!("{}: {error}", origin(url)));
        let stream = self.connect(url).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method("POST")
            .uri(path)
            .header(header::HOST, url.authority())
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|error| CoordinationError::Refused(format!("the call to etcd cannot be written: {error}")))?;
        sender.send_request(request).await.map_err(|error| unreachable(error.to_string()))
    }

    async fn connect(&self, url: &Url) -> Result<Box<dyn Stream>> {
        let unreachable = |error: std::io::Error| CoordinationError::Unreachable(format!("{}: {error}", origin(url)));
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = url.port_or_known_default().unwrap_or(2379);
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(unreachable)?;
        let _ = stream.set_nodelay(true);
        if let Err(error) = keep_probing(&stream) {
            tracing::debug!(%error, "setting the keepalive of a connection to etcd");
        }
        if url.scheme() != "https" {
            return Ok(Box::new(stream));
        }
        let name = match url.host() {
            Some(Host::Ipv4(address)) => ServerName::from(std::net::IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => ServerName::from(std::net::IpAddr::V6(address)),
            _ => ServerName::try_from(host.clone())
                .map_err(|error| CoordinationError::Refused(format!("{}: {error}", origin(url))))?,
        };
        match self.tls.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            // A certificate that does not match will not match on a retry.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(CoordinationError::Refused(format!(
                "no secure connection to etcd at {}: {error}; see etcd.ca, etcd.cert and etcd.key",
                origin(url)
            ))),
            Err(error) => Err(unreachable(error)),
        }
    }
}

/// Lets the kernel notice that a connection was dropped without a word.
fn keep_probing(stream: &TcpStream) -> std::io::Result<()> {
    let keepalive = TcpKeepalive::new().with_time(PROBE_EVERY).with_interval(PROBE_EVERY).with_retries(PROBES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

fn endpoint(text: &str) -> Result<Url> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    Url::parse(&with_scheme)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host() && url.password().is_none())
        .ok_or_else(|| {
            CoordinationError::Refused(
                "an endpoint of etcd is written http://HOST:2379 or https://HOST:2379, without a password".into(),
            )
        })
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn silent(url: &Url) -> CoordinationError {
    CoordinationError::Unreachable(format!("{} does not answer within {} s", origin(url), PATIENCE.as_secs()))
}

fn not_etcd(url: &Url) -> CoordinationError {
    CoordinationError::Refused(format!(
        "what listens at {} is not etcd, or has its JSON gateway switched off (--enable-grpc-gateway)",
        origin(url)
    ))
}

async fn read_answer(url: &Url, response: Response<Incoming>) -> Result<Value> {
    let status = response.status();
    let body = Limited::new(response.into_body(), LARGEST_ANSWER)
        .collect()
        .await
        .map_err(|error| CoordinationError::Unreachable(format!("{}: the answer broke off: {error}", origin(url))))?
        .to_bytes();
    // A stream wraps its single answer.
    let answer =
        serde_json::Deserializer::from_slice(&body).into_iter::<Value>().next().and_then(std::result::Result::ok);
    let Some(answer) = answer else {
        return Err(not_etcd(url));
    };
    if status == StatusCode::OK {
        return match answer.get("error") {
            None => Ok(answer),
            Some(error) => Err(refusal(url, error.get("message").unwrap_or(error), error.get("grpc_code"))),
        };
    }
    match answer.get("error").or_else(|| answer.get("message")) {
        Some(message) => Err(refusal(url, message, answer.get("code"))),
        None => Err(not_etcd(url)),
    }
}

/// Classifies a refusal of etcd. Some are temporary: it has no leader, or is starting.
fn refusal(url: &Url, message: &Value, code: Option<&Value>) -> CoordinationError {
    const UNAVAILABLE: u64 = 14;
    const DEADLINE_EXCEEDED: u64 = 4;
    let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
    let passes = code.and_then(Value::as_u64).is_some_and(|code| code == UNAVAILABLE || code == DEADLINE_EXCEEDED);
    match passes {
        true => CoordinationError::Unreachable(format!("{}: {message}", origin(url))),
        false => CoordinationError::Refused(format!("etcd at {} refuses: {message}", origin(url))),
    }
}

pub(super) fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

pub(super) fn decoded(value: Option<&Value>) -> Option<String> {
    String::from_utf8(STANDARD.decode(value?.as_str()?).ok()?).ok()
}

/// The end of the range of all keys with this prefix.
pub(super) fn range_end(prefix: &str) -> String {
    let mut bytes = prefix.as_bytes().to_vec();
    if let Some(last) = bytes.last_mut() {
        *last += 1;
    }
    STANDARD.encode(bytes)
}

/// A number, which etcd writes as text.
pub(super) fn number(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_i64(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_probes_connections_that_are_silent() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        keep_probing(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_EVERY);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), PROBE_EVERY);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
    }
}
