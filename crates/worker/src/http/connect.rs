//! Opens the connection for one request: look up once, let the guard judge, connect to what it judged.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use mainspring_core::work::Failure;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::{Host, Url};

use super::client::HttpClient;
use crate::text;

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(super) type Connection = TokioIo<Box<dyn Stream>>;

impl HttpClient {
    pub(super) async fn connect(&self, url: &Url) -> Result<Connection, Failure> {
        let patience = self.config().connect_timeout;
        match timeout(patience, self.connect_within(url, patience)).await {
            Ok(connected) => connected,
            Err(_) => Err(unreachable(format!("no connection to {} within {}", origin(url), text::duration(patience)))),
        }
    }

    async fn connect_within(&self, url: &Url, patience: Duration) -> Result<Connection, Failure> {
        let addresses = self.addresses(url).await?;
        let port = url.port_or_known_default().unwrap_or_default();
        // Each address gets its share of the time, or a dead one would use up that of the others.
        let share = patience / u32::try_from(addresses.len()).unwrap_or(1).max(1);
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in &addresses {
            match timeout(share, TcpStream::connect(SocketAddr::new(*address, port))).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return self.secure(url, stream).await;
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        let tried: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        Err(unreachable(format!("cannot connect to {} ({}, port {port}): {last}", origin(url), tried.join(", "))))
    }

    /// The only look-up of a hop. Whatever a name server would answer next time, these are the addresses used.
    async fn addresses(&self, url: &Url) -> Result<Vec<IpAddr>, Failure> {
        let name = url.host_str().unwrap_or_default();
        let addresses = match url.host() {
            Some(Host::Ipv4(address)) => vec![IpAddr::V4(address)],
            Some(Host::Ipv6(address)) => vec![IpAddr::V6(address)],
            Some(Host::Domain(domain)) => match self.config().resolver.resolve(domain).await {
                Ok(addresses) if !addresses.is_empty() => addresses,
                Ok(_) => return Err(unknown(domain, "it has no address")),
                Err(error) => return Err(unknown(domain, &error.to_string())),
            },
            None => return Err(unknown(name, "the URL names no host")),
        };
        self.config().guard.check(name, &addresses)?;
        Ok(addresses)
    }

    async fn secure(&self, url: &Url, stream: TcpStream) -> Result<Connection, Failure> {
        if url.scheme() != "https" {
            return Ok(TokioIo::new(Box::new(stream)));
        }
        let name = match url.host() {
            Some(Host::Domain(domain)) => ServerName::try_from(domain.trim_end_matches('.').to_owned())
                .map_err(|error| unreachable(format!("`{domain}` cannot stand in a certificate: {error}")))?,
            Some(Host::Ipv4(address)) => ServerName::from(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => ServerName::from(IpAddr::V6(address)),
            None => return Err(unknown("", "the URL names no host")),
        };
        match self.tls().connect(name, stream).await {
            Ok(stream) => Ok(TokioIo::new(Box::new(stream))),
            Err(error) => Err(unreachable(format!("no secure connection to {}: {error}", origin(url)))),
        }
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

pub(super) fn unreachable(message: String) -> Failure {
    Failure { kind: "connect".into(), message, ..Failure::default() }
}

fn unknown(host: &str, reason: &str) -> Failure {
    let message = format!("the host `{}` cannot be looked up: {reason}", text::first_characters(host, 200));
    Failure { kind: "dns".into(), message, ..Failure::default() }
}
