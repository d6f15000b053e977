//! A client that speaks HTTP over a socket of its own and may vanish at any moment.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer that takes longer is one that was lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request with a JSON body.
#[derive(Debug, Clone)]
pub struct JsonRequest {
    pub method: &'static str,
    pub target: String,
    pub token: String,
    pub key: Option<String>,
    pub body: String,
}

impl JsonRequest {
    fn text(&self) -> String {
        let key = self.key.as_ref().map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        format!(
            "{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer {}\r\n{key}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
            self.method,
            self.target,
            self.token,
            self.body.len(),
            self.body
        )
    }

    /// Sends it and reads the answer: its status and its text.
    pub async fn send(&self, to: SocketAddr) -> anyhow::Result<(u16, String)> {
        let exchange = async {
            let mut stream = self.begin(to).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no answer")?;
            anyhow::Ok((status, answer))
        };
        tokio::time::timeout(PATIENCE, exchange).await.context("no answer in time")?
    }

    /// Sends it and resets the connection after a while, without reading anything.
    pub async fn cut(&self, to: SocketAddr, after: Duration) -> anyhow::Result<()> {
        let stream = self.begin(to).await?;
        tokio::time::sleep(after).await;
        stream.set_zero_linger()?;
        Ok(())
    }

    async fn begin(&self, to: SocketAddr) -> anyhow::Result<TcpStream> {
        let mut stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        stream.write_all(self.text().as_bytes()).await?;
        Ok(stream)
    }
}
