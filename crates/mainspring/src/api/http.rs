//! The API over HTTP: one connection per request, HTTP/1.1, TLS by the public authorities or a named one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use url::{Host, Url};

use super::answer::{Answer, TokenSource};
use super::events::Events;
use super::profile::{self, Profile, variable};
use crate::app::App;
use crate::failure::{Failure, Result, cause};

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
const LARGEST_ANSWER: usize = 64 << 20;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A server and the token for it.
pub(crate) struct Endpoint {
    url: Url,
    token: Option<String>,
    /// Where the token comes from, for when it is refused.
    source: TokenSource,
    authority: Option<PathBuf>,
}

impl Endpoint {
    /// The server that flags, profile and environment name; none if the database is meant.
    pub(super) fn choose(app: &App<'_>, profile: &Profile) -> Result<Option<Self>> {
        let server = match (&app.server, app.names_database) {
            (Some(_), true) => {
                return Err(Failure::bad_input("--server and --database exclude each other")
                    .remedy("give --server to ask a server, or --database to work on the database itself"));
            }
            (Some(server), false) => Some(server.clone()),
            (None, true) => None,
            (None, false) => variable("MAINSPRING_SERVER").or_else(|| profile.server.clone()),
        };
        let Some(server) = server else { return Ok(None) };
        let url = Url::parse(&server).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = url else {
            return Err(Failure::bad_input(format!("`{server}` is not the address of a server"))
                .remedy("write it like http://127.0.0.1:8080 or https://jobs.example.com"));
        };
        let (token, source) = match (variable("MAINSPRING_TOKEN"), profile.token()?) {
            (Some(token), _) => (Some(token), TokenSource::From("MAINSPRING_TOKEN".into())),
            (None, Some(token)) => (Some(token), TokenSource::From("the profile".into())),
            (None, None) => match local_token(app, &url)? {
                Some(token) => (Some(token), TokenSource::From(app.token_file().display().to_string())),
                None => (None, TokenSource::Missing),
            },
        };
        Ok(Some(Self { url, token, source, authority: profile.authority.clone() }))
    }

    /// The answer, whatever it says.
    pub(super) async fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<Answer> {
        let asking = async {
            let response = self.send(method, target, headers, body).await?;
            let status = response.status().as_u16();
            let etag = response.headers().get(header::ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
            let body = Limited::new(response.into_body(), LARGEST_ANSWER)
                .collect()
                .await
                .map_err(|error| self.unreachable(format!("the answer broke off: {error}")))?;
            Ok(Answer { status, etag, bytes: body.to_bytes().to_vec(), token: self.source.clone() })
        };
        self.patiently(asking).await
    }

    /// A file, written as it comes; however long that takes, as long as something comes.
    pub(super) async fn download(&self, target: &str, sink: &mut dyn Write) -> Result<()> {
        let response = self.patiently(self.send("GET", target, &[], Vec::new())).await?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        if !(200..300).contains(&status) {
            let collected = self.patiently(async { Ok(Limited::new(body, LARGEST_ANSWER).collect().await) }).await?;
            let bytes = collected.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
            return Answer { status, etag: None, bytes, token: self.source.clone() }.content().map(|_| ());
        }
        while let Some(frame) = self.patiently(async { Ok(body.frame().await) }).await? {
            let frame = frame.map_err(|error| self.unreachable(format!("the file broke off: {error}")))?;
            if let Ok(data) = frame.into_data() {
                sink.write_all(&data)
                    .map_err(|error| Failure::failed(format!("cannot write it: {}", cause(&error))))?;
            }
        }
        Ok(())
    }

    /// Server-sent events, for as long as they come.
    pub(super) async fn follow(&self, target: &str) -> Result<Events> {
        let headers = [("accept", "text/event-stream".to_owned())];
        let response = self.patiently(self.send("GET", target, &headers, Vec::new())).await?;
        match response.status().as_u16() {
            200 => Ok(Events::new(response.into_body())),
            status => {
                Err(Failure::unreachable(format!("the server answered {status} instead of telling what happens")))
            }
        }
    }

    async fn patiently<T>(&self, asking: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::time::timeout(ANSWER_PATIENCE, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable(format!("no answer within {} s", ANSWER_PATIENCE.as_secs()))),
        }
    }

    async fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<Response<Incoming>> {
        let stream = self.connect().await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unreachable(error.to_string()))?;
        tokio::spawn(connection);
        let prefix = self.url.path().trim_end_matches('/');
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{prefix}{target}"))
            .header(header::HOST, self.authority_of_url())
            .header(header::USER_AGENT, concat!("mainspring/", env!("CARGO_PKG_VERSION")));
        if !headers.iter().any(|(name, _)| *name == "accept") {
            request = request.header(header::ACCEPT, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|_| {
            Failure::bad_input("the token has characters that no token has").remedy("set MAINSPRING_TOKEN")
        })?;
        sender.send_request(request).await.map_err(|error| self.unreachable(error.to_string()))
    }

    async fn connect(&self) -> Result<Box<dyn Stream>> {
        let port = self.url.port_or_known_default().unwrap_or(80);
        let host = self.url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let connecting = TcpStream::connect((host.as_str(), port));
        let stream = match tokio::time::timeout(CONNECT_PATIENCE, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(self.unreachable(cause(&error))),
            Err(_) => return Err(self.unreachable(format!("no connection within {} s", CONNECT_PATIENCE.as_secs()))),
        };
        _ = stream.set_nodelay(true);
        if self.url.scheme() == "http" {
            return Ok(Box::new(stream));
        }
        let name = match self.url.host() {
            Some(Host::Ipv4(address)) => ServerName::from(std::net::IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => ServerName::from(std::net::IpAddr::V6(address)),
            _ => ServerName::try_from(host).map_err(|error| self.unreachable(error.to_string()))?,
        };
        let connector = tokio_rustls::TlsConnector::from(Arc::new(self.tls()?));
        let stream = connector.connect(name, stream).await.map_err(|error| self.no_tls(&error))?;
        Ok(Box::new(stream))
    }

    fn tls(&self) -> Result<ClientConfig> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(file) = &self.authority {
            let unfit = |error: String| Failure::bad_input(format!("{} is no certificate: {error}", file.display()));
            let items = CertificateDer::pem_file_iter(file).map_err(|error| unfit(error.to_string()))?;
            for certificate in items {
                let certificate = certificate.map_err(|error| unfit(error.to_string()))?;
                roots.add(certificate).map_err(|error| unfit(error.to_string()))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::failed(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth())
    }

    fn authority_of_url(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    pub(super) fn place(&self) -> String {
        format!("{}://{}", self.url.scheme(), self.authority_of_url())
    }

    /// A server that answers in plain HTTP is taken for one that speaks broken TLS.
    fn no_tls(&self, error: &std::io::Error) -> Failure {
        match error.to_string().contains("InvalidContentType") {
            false => self.unreachable(cause(error)),
            true => {
                Failure::unreachable(format!("{} does not speak TLS there: it answers in plain HTTP", self.place()))
                    .remedy(format!("write http://{}, or name the port that serves HTTPS", self.authority_of_url()))
            }
        }
    }

    fn unreachable(&self, cause: String) -> Failure {
        let server = self.place();
        Failure::unreachable(format!("the server {server} is not reachable: {cause}"))
            .remedy("check that it runs and that --server (MAINSPRING_SERVER) names it")
    }
}

/// The token that a server on this machine left for users who may read its folder.
fn local_token(app: &App<'_>, url: &Url) -> Result<Option<String>> {
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    let file = app.token_file();
    if !is_here || !Path::new(&file).exists() {
        return Ok(None);
    }
    profile::read_token(&file).map(Some)
}
