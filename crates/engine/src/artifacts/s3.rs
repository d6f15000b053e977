//! Requests of the S3 client over the HTTP and TLS that the program has anyway: one connection per request, since each
//! carries megabytes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::Uri;
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Until the answer begins; parts are at most some megabytes.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Makes clients for the object store.
#[derive(Clone)]
pub(super) struct HyperConnector {
    tls: TlsConnector,
}

impl std::fmt::Debug for HyperConnector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HyperConnector").finish_non_exhaustive()
    }
}

impl HyperConnector {
    pub(super) fn new() -> Self {
        let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)
            .expect("the provider has the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { tls: TlsConnector::from(Arc::new(config)) }
    }

    async fn open(&self, uri: &Uri) -> io::Result<Box<dyn Stream>> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        if !is_tls {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        Ok(Box::new(self.tls.connect(name, stream).await?))
    }

    async fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri().clone();
        let stream = match tokio::time::timeout(CONNECT_PATIENCE, self.open(&uri)).await {
            Ok(stream) => stream.map_err(|error| HttpError::new(HttpErrorKind::Connect, error))?,
            Err(elapsed) => return Err(HttpError::new(HttpErrorKind::Connect, elapsed)),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(authority).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        request.headers_mut().entry(HOST).or_insert(host);
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        *request.uri_mut() = target.parse::<Uri>().map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let failed = |error: hyper::Error| HttpError::new(HttpErrorKind::Request, error);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // Its errors are returned to the sender.
        tokio::spawn(connection);
        let response = match tokio::time::timeout(ANSWER_PATIENCE, sender.send_request(request)).await {
            Ok(response) => response.map_err(failed)?,
            Err(elapsed) => return Err(HttpError::new(HttpErrorKind::Timeout, elapsed)),
        };
        Ok(response
            .map(|body| HttpResponseBody::new(body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error)))))
    }
}

impl HttpConnector for HyperConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for HyperConnector {
    fn call<'this, 'call>(
        &'this self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'call>>
    where
        'this: 'call,
        Self: 'call,
    {
        Box::pin(self.send(request))
    }
}
