//! One connection to Redis. An error ends it; the loop that owns it opens another.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::resp::{self, Reply, RespError};
use super::settings::{RedisSettings, authorities};

const PATIENCE: Duration = Duration::from_secs(3);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RedisError {
    #[error("{place}: {cause}")]
    Unreachable { place: String, cause: String },
    /// The server refused the command.
    #[error("{place} refuses: {message}")]
    Refused { place: String, message: String },
}

pub(crate) struct Connection {
    stream: BufStream<Box<dyn Stream>>,
    place: String,
}

impl Connection {
    pub(crate) async fn open(settings: &RedisSettings) -> Result<Self, RedisError> {
        match tokio::time::timeout(PATIENCE, Self::open_patiently(settings)).await {
            Ok(opened) => opened,
            Err(_) => Err(RedisError::Unreachable {
                place: settings.shown(),
                cause: format!("no answer within {} s", PATIENCE.as_secs()),
            }),
        }
    }

    async fn open_patiently(settings: &RedisSettings) -> Result<Self, RedisError> {
        let place = settings.shown();
        let unreachable = |cause: String| RedisError::Unreachable { place: settings.shown(), cause };
        let url = &settings.url;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, url.port().unwrap_or(6379)))
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = match url.scheme() {
            "rediss" => Box::new(
                secure(settings, host, stream)
                    .await
                    .map_err(|error| unreachable(format!("no secure connection: {error}")))?,
            ),
            _ => Box::new(stream),
        };
        let mut connection = Self { stream: BufStream::new(stream), place };
        let decoded = |text: &str| percent_decoded(text);
        if let Some(password) = url.password() {
            let (user, password) = (decoded(url.username()), decoded(password));
            match user.as_str() {
                "" => connection.ask(&["AUTH", &password]).await?,
                user => connection.ask(&["AUTH", user, &password]).await?,
            };
        }
        match url.path().trim_start_matches('/') {
            "" | "0" => {}
            number => _ = connection.ask(&["SELECT", number]).await?,
        }
        connection.ask(&["PING"]).await?;
        Ok(connection)
    }

    /// Sends a command that is answered at once.
    pub(crate) async fn ask(&mut self, arguments: &[&str]) -> Result<Reply, RedisError> {
        self.ask_within(arguments, PATIENCE).await
    }

    /// Sends a command that may block for this long.
    pub(crate) async fn ask_blocking(&mut self, arguments: &[&str], block: Duration) -> Result<Reply, RedisError> {
        self.ask_within(arguments, block + PATIENCE).await
    }

    async fn ask_within(&mut self, arguments: &[&str], patience: Duration) -> Result<Reply, RedisError> {
        let asking = async {
            self.stream.write_all(&resp::command(arguments)).await?;
            self.stream.flush().await?;
            resp::read(&mut self.stream).await
        };
        let answer = match tokio::time::timeout(patience, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(RespError::Io(std::io::ErrorKind::TimedOut.into())),
        };
        match answer {
            Ok(Reply::Error(message)) => Err(RedisError::Refused { place: self.place.clone(), message }),
            Ok(reply) => Ok(reply),
            Err(error) => Err(RedisError::Unreachable { place: self.place.clone(), cause: error.to_string() }),
        }
    }
}

async fn secure(
    settings: &RedisSettings,
    host: &str,
    stream: TcpStream,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    // Read for every connection, because certificates are renewed while a node runs.
    let roots = match &settings.ca {
        None => RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => authorities(file).map_err(std::io::Error::other)?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Decodes %XX in a URL.
fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match (bytes[at], hex.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_may_be_written_with_percent_signs() {
        assert_eq!(percent_decoded("a%40b%2Fc"), "a@b/c");
        assert_eq!(percent_decoded("100%"), "100%");
        assert_eq!(percent_decoded("%zz"), "%zz");
    }
}
