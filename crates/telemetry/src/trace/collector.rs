//! The collector that batches of spans are posted to.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Span, TraceSettings, wire};

/// Where collectors take spans.
const PATH: &str = "/v1/traces";
/// From the look-up of the collector to its whole answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A longer answer is not one of a collector.
const LONGEST_ANSWER: usize = 1 << 20;

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum TraceSetupError {
    #[error("`{0}` is not the address of a collector of traces")]
    Endpoint(String),
    #[error("the header `{0}` for the collector of traces is not one")]
    Header(String),
    #[error("setting up TLS to the collector of traces: {0}")]
    Tls(#[from] rustls::Error),
}

type SendError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct Collector {
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    process: Vec<(&'static str, String)>,
    tls: TlsConnector,
    /// Whether the last batch was refused: said once, not with every batch.
    is_away: bool,
}

impl Collector {
    pub(super) fn new(settings: &TraceSettings) -> Result<Self, TraceSetupError> {
        let bad = || TraceSetupError::Endpoint(settings.endpoint.clone());
        let uri: Uri = endpoint(&settings.endpoint).parse().map_err(|_| bad())?;
        if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(bad());
        }
        let headers = settings.headers.iter().map(|(name, value)| {
            let bad = || TraceSetupError::Header(name.clone());
            Ok((HeaderName::try_from(name).map_err(|_| bad())?, HeaderValue::try_from(value).map_err(|_| bad())?))
        });
        let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            uri,
            headers: headers.collect::<Result<_, TraceSetupError>>()?,
            process: vec![
                ("service.name", settings.service.clone()),
                ("service.instance.id", settings.instance.clone()),
                ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            ],
            tls: TlsConnector::from(Arc::new(tls)),
            is_away: false,
        })
    }

    /// Sends the batch and empties it, whatever becomes of it: spans are not worth a queue that grows.
    pub(super) async fn send(&mut self, batch: &mut Vec<Span>) {
        if batch.is_empty() {
            return;
        }
        let body = wire::request(&self.process, batch);
        let cause = match tokio::time::timeout(PATIENCE, self.post(body)).await {
            Ok(Ok(status)) if status.is_success() => None,
            Ok(Ok(status)) => Some(format!("it answered {status}")),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it does not answer".to_owned()),
        };
        if let Some(cause) = &cause
            && !self.is_away
        {
            tracing::warn!(cause, collector = %self.uri, spans = batch.len(), "the collector of traces takes none; they are dropped");
        }
        self.is_away = cause.is_some();
        batch.clear();
    }

    async fn post(&self, body: Vec<u8>) -> Result<StatusCode, SendError> {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_secure = self.uri.scheme_str() == Some("https");
        let port = self.uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let path = self.uri.path_and_query().map_or(PATH, |path| path.as_str());
        let mut request = Request::post(path).body(Full::new(Bytes::from(body)))?;
        let authority = self.uri.authority().map_or(host.as_str(), |authority| authority.as_str());
        request.headers_mut().insert(HOST, HeaderValue::from_str(authority)?);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        request.headers_mut().extend(self.headers.iter().cloned());
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        match is_secure {
            true => exchange(self.tls.connect(ServerName::try_from(host)?, stream).await?, request).await,
            false => exchange(stream, request).await,
        }
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode, SendError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driving = tokio::spawn(connection);
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await?;
    driving.abort();
    Ok(status)
}

/// An address without a path stands for the usual path.
fn endpoint(address: &str) -> String {
    let after_scheme = address.find("://").map_or(0, |at| at + 3);
    match address[after_scheme..].trim_end_matches('/').contains('/') {
        true => address.to_owned(),
        false => format!("{}{PATH}", address.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn an_address_without_a_path_stands_for_the_usual_one() {
        assert_eq!(endpoint("http://c:4318"), "http://c:4318/v1/traces");
        assert_eq!(endpoint("http://c:4318/"), "http://c:4318/v1/traces");
        assert_eq!(endpoint("https://c/otlp/v1/traces"), "https://c/otlp/v1/traces");
    }
}
