//! Sends requests: one hop after the other, reading no more than the limit.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderValue, LOCATION};
use hyper::{Response, Uri};
use mainspring_core::work::{Failure, LogStream};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::answer::{Answer, too_large};
use super::connect::unreachable;
use super::guard::Guard;
use super::request::{Request, refused};
use super::resolve::{Resolve, SystemResolver};
use crate::function::LogSink;
use crate::text;

/// What an operator can choose about requests.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    pub guard: Guard,
    pub resolver: Arc<dyn Resolve>,
    /// PEM files of authorities that are trusted beside the public ones.
    pub authorities: Vec<PathBuf>,
    /// From the look-up of the name to the first byte of the request.
    pub connect_timeout: Duration,
    /// For tasks that have no timeout of their own.
    pub timeout: Duration,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            guard: Guard::default(),
            resolver: Arc::new(SystemResolver),
            authorities: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(300),
        }
    }
}

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot read the certificates in {}: {reason}; the file should hold PEM blocks `BEGIN CERTIFICATE`", path.display())]
    Authorities { path: PathBuf, reason: String },
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Sends requests under the guard. Clones share everything.
#[derive(Clone)]
pub struct HttpClient {
    config: Arc<HttpConfig>,
    tls: TlsConnector,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HttpClient").field("config", &self.config).finish_non_exhaustive()
    }
}

impl HttpClient {
    pub fn new(config: HttpConfig) -> Result<Self, ClientError> {
        let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for path in &config.authorities {
            let fail = |reason: String| ClientError::Authorities { path: path.clone(), reason };
            let before = roots.len();
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| fail(error.to_string()))? {
                let certificate = certificate.map_err(|error| fail(error.to_string()))?;
                roots.add(certificate).map_err(|error| fail(error.to_string()))?;
            }
            if roots.len() == before {
                return Err(fail("there are none".into()));
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), tls: TlsConnector::from(Arc::new(tls)) })
    }

    pub(super) fn config(&self) -> &HttpConfig {
        &self.config
    }

    pub(super) fn tls(&self) -> &TlsConnector {
        &self.tls
    }

    /// The last answer after at most `redirects` redirects. A body larger than `limit` is not read to its end.
    pub(crate) async fn send(
        &self,
        mut request: Request,
        redirects: u8,
        limit: u64,
        log: &LogSink,
    ) -> Result<Answer, Failure> {
        let mut left = redirects;
        loop {
            let begin = Instant::now();
            let (response, _connection) = match self.ask(&request).await {
                Ok(answered) => answered,
                Err(failure) => {
                    let line = format!("{} {}: {}", request.method, request.shown_url(), failure.message);
                    log.write(LogStream::System, &line).await;
                    return Err(failure);
                }
            };
            let status = response.status();
            let target = if status.is_redirection() { response.headers().get(LOCATION).cloned() } else { None };
            let line = |more: &str| {
                let took = text::duration(Duration::from_millis(begin.elapsed().as_millis() as u64));
                format!("{} {} → {} in {took}{more}", request.method, request.shown_url(), status.as_u16())
            };
            let Some(target) = target.filter(|_| redirects > 0) else {
                let answer = read(response, limit).await;
                let more = match &answer {
                    Ok(answer) => format!(", {} bytes", answer.body.len()),
                    Err(failure) => format!(": {}", failure.message),
                };
                log.write(LogStream::System, &line(&more)).await;
                return answer;
            };
            log.write(LogStream::System, &line(", redirected")).await;
            if left == 0 {
                let message = format!("the server redirects more than {redirects} times; see `follow_redirects`");
                return Err(Failure { kind: "redirect".into(), message, ..Failure::default() });
            }
            left -= 1;
            let target = String::from_utf8_lossy(target.as_bytes()).into_owned();
            request = request.redirected(status, &target)?;
        }
    }

    /// Sends one request on one connection, which lives as long as the driver that is returned with the answer.
    async fn ask(&self, request: &Request) -> Result<(Response<Incoming>, Driver), Failure> {
        let stream = self.connect(&request.url).await?;
        let broken = |error: hyper::Error| {
            unreachable(format!(
                "the connection to {} broke: {}",
                request.url.origin().ascii_serialization(),
                with_causes(&error)
            ))
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(broken)?;
        let driver = Driver(tokio::spawn(async move {
            // An error of the connection is returned to the reader of the answer.
            let _ = connection.await;
        }));
        let response = sender.send_request(on_the_wire(request)?).await.map_err(broken)?;
        Ok((response, driver))
    }
}

/// Drives a connection, and ends it when dropped.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn on_the_wire(request: &Request) -> Result<hyper::Request<Full<Bytes>>, Failure> {
    let url = &request.url;
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let unfit =
        |error: &dyn std::fmt::Display| refused(format!("the URL {} cannot be sent: {error}", request.shown_url()));
    let target: Uri = target.parse().map_err(|error: hyper::http::uri::InvalidUri| unfit(&error))?;
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let host = HeaderValue::from_str(host).map_err(|error| unfit(&error))?;
    let mut message = hyper::Request::new(Full::new(request.body.clone()));
    *message.method_mut() = request.method.clone();
    *message.uri_mut() = target;
    *message.headers_mut() = request.headers.clone();
    message.headers_mut().insert(HOST, host);
    message.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(message)
}

async fn read(response: Response<Incoming>, limit: u64) -> Result<Answer, Failure> {
    let (head, mut body) = response.into_parts();
    let refuse = || {
        too_large(format!(
            "the answer has more than {limit} bytes; raise `max_response_bytes` (at most 1 MiB) or ask for less"
        ))
    };
    if body.size_hint().lower() > limit {
        return Err(refuse());
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreachable(format!("the answer broke off: {}", with_causes(&error))))?;
        let Ok(data) = frame.into_data() else { continue };
        if (bytes.len() + data.len()) as u64 > limit {
            return Err(refuse());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Answer { status: head.status, headers: head.headers, body: bytes })
}

/// The text of an error with its causes, because the first error alone rarely shows what happened.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
