//! The collector that batches of spans are posted to.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, TE};
use hyper::{Request, Uri};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::exchange::exchange;
use super::{Span, TraceProtocol, TraceSettings, grpc, wire};

/// From the look-up of the collector to its whole answer.
const PATIENCE: Duration = Duration::from_secs(10);

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

pub(super) type SendError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct Collector {
    protocol: TraceProtocol,
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
        let target = settings.protocol.target(&settings.endpoint).ok_or_else(bad)?;
        let uri: Uri = target.parse().map_err(|_| bad())?;
        if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(bad());
        }
        let headers = settings.headers.iter().map(|(name, value)| {
            let bad = || TraceSetupError::Header(name.clone());
            Ok((HeaderName::try_from(name).map_err(|_| bad())?, HeaderValue::try_from(value).map_err(|_| bad())?))
        });
        let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = settings.protocol.alpn();
        Ok(Self {
            protocol: settings.protocol,
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
            Ok(Ok(())) => None,
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

    async fn post(&self, body: Vec<u8>) -> Result<(), SendError> {
        let request = self.request(body)?;
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_secure = self.uri.scheme_str() == Some("https");
        let port = self.uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        match is_secure {
            true => {
                let stream = self.tls.connect(ServerName::try_from(host)?, stream).await?;
                exchange(self.protocol, stream, request).await
            }
            false => exchange(self.protocol, stream, request).await,
        }
    }

    fn request(&self, body: Vec<u8>) -> Result<Request<Full<Bytes>>, SendError> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let request = match self.protocol {
            TraceProtocol::HttpProtobuf => Request::post(path).header(HOST, authority),
            TraceProtocol::Grpc => Request::post(self.uri.clone()).header(TE, "trailers"),
        };
        let body = match self.protocol {
            TraceProtocol::HttpProtobuf => body,
            TraceProtocol::Grpc => grpc::framed(&body).ok_or("more spans than one message holds")?,
        };
        let mut request = request.body(Full::new(Bytes::from(body)))?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.protocol.content_type()));
        request.headers_mut().extend(self.headers.iter().cloned());
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;

    use http_body_util::BodyExt as _;
    use hyper::body::Incoming;
    use hyper::http::request::Parts;
    use hyper::service::service_fn;
    use hyper::{HeaderMap, Response, Version};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::io::{AsyncRead, AsyncWrite};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    type Call = (Parts, Bytes);

    fn collector(endpoint: String) -> Collector {
        let settings = TraceSettings {
            endpoint,
            protocol: TraceProtocol::Grpc,
            headers: vec![("x-tenant".into(), "ops".into())],
            sample_ratio: 1.0,
            service: "s".into(),
            instance: "i".into(),
        };
        Collector::new(&settings).unwrap()
    }

    /// Answers one call on one connection with that status, in the headers or in the trailers.
    async fn answer(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        calls: mpsc::UnboundedSender<Call>,
        status: &'static str,
        in_trailers: bool,
    ) {
        let service = service_fn(|request: Request<Incoming>| {
            let calls = calls.clone();
            async move {
                let (head, body) = request.into_parts();
                calls.send((head, body.collect().await.unwrap().to_bytes())).unwrap();
                let status = HeaderMap::from_iter([("grpc-status".parse().unwrap(), status.parse().unwrap())]);
                let mut answer = Response::new(match in_trailers {
                    true => Full::new(Bytes::from_static(&[0; 5])).with_trailers(ready(Some(Ok(status)))).boxed(),
                    false => {
                        let body = http_body_util::Empty::new().boxed();
                        let mut answer = Response::new(body);
                        answer.headers_mut().extend(status);
                        return Ok::<_, Infallible>(answer);
                    }
                });
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
                Ok(answer)
            }
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        // The client leaves when it has its answer.
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }

    #[tokio::test]
    async fn a_call_is_refused_and_the_next_one_succeeds() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (calls, mut taken) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for (status, in_trailers) in [("14", false), ("8", true), ("0", true)] {
                let (stream, _) = listener.accept().await.unwrap();
                answer(stream, calls.clone(), status, in_trailers).await;
            }
        });
        let collector = collector(format!("http://{address}"));
        let refused = async || collector.post(vec![1, 2]).await.unwrap_err().to_string();
        assert_eq!(refused().await, "it answered UNAVAILABLE");
        assert_eq!(refused().await, "it answered RESOURCE_EXHAUSTED");
        collector.post(vec![1, 2]).await.unwrap();
        for _ in 0..3 {
            let (head, body) = taken.recv().await.unwrap();
            assert_eq!((head.method.as_str(), head.version), ("POST", Version::HTTP_2));
            assert_eq!(head.uri.to_string(), format!("http://{address}{}", head.uri.path()));
            assert_eq!(head.uri.path(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
            let sent = ["content-type", "te", "x-tenant"].map(|name| head.headers[name].to_str().unwrap().to_owned());
            assert_eq!(sent, ["application/grpc", "trailers", "ops"]);
            assert_eq!(body[..], [0, 0, 0, 0, 2, 1, 2]);
        }
    }

    #[tokio::test]
    async fn tls_agrees_on_http_2() {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = certified.cert.der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        // A server that also speaks HTTP/1.1 takes what the client offers.
        server.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut collector = collector(format!("https://localhost:{}", listener.local_addr().unwrap().port()));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let mut trusting = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        trusting.alpn_protocols = collector.tls.config().alpn_protocols.clone();
        collector.tls = TlsConnector::from(Arc::new(trusting));
        let (calls, mut taken) = mpsc::unbounded_channel();
        let agreed = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let stream = TlsAcceptor::from(Arc::new(server)).accept(stream).await.unwrap();
            let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            answer(stream, calls, "0", true).await;
            agreed
        });
        collector.post(vec![7]).await.unwrap();
        assert_eq!(taken.recv().await.unwrap().1[..], [0, 0, 0, 0, 1, 7]);
        assert_eq!(agreed.await.unwrap().as_deref(), Some(&b"h2"[..]));
    }
}
