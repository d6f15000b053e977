//! The path that every user takes: requests over sockets, with a token, against the real listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mainspring_engine::Submission;
use mainspring_server::{Api, HttpServer, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::report::Report;
use super::workloads::Bench;

const WORKFLOW: &str = "name: http\ntasks: {a: {function: noop}}";
const TRIGGER: &str = "/api/v1/workflows/http/trigger";
const CLIENTS: usize = 32;
const PER_BULK: usize = 1_000;

/// A server on a port of its own, and the token that opens it.
struct Served {
    server: HttpServer,
    token: String,
}

impl Bench {
    async fn serve(&self) -> anyhow::Result<Served> {
        self.workflow(WORKFLOW).await?;
        // As a server does.
        self.client.announce_in_background();
        let api = Api::new(self.client.clone(), Settings::default()).map_err(anyhow::Error::msg)?;
        let token = match api.first_token().await {
            Ok(Some(token)) => token.reveal().to_owned(),
            _ => bail!("the benchmark needs a database without tokens"),
        };
        let server = HttpServer::bind("127.0.0.1:0".parse()?).await?.serve(api);
        Ok(Served { server, token })
    }

    /// N triggers by one client and by 32, each waiting for its answer before the next.
    pub(crate) async fn http_trigger(&self, n: usize, with_node: bool) -> anyhow::Result<()> {
        let served = self.serve().await?;
        let node = if with_node { Some(self.node().await?) } else { None };
        let request = request("POST", TRIGGER, &served.token, "{}");
        for clients in [1, CLIENTS] {
            let count = if clients == 1 { (n / 10).max(1) } else { n };
            let (took, mut each) = ask(served.server.address(), &request, count, clients).await?;
            let name = if with_node { "http_trigger_started" } else { "http_trigger" };
            Report::new(format!("{name}_{clients}"), count, took).with_percentiles(&mut each).print();
        }
        served.server.shutdown(Duration::from_secs(5)).await;
        if let Some(node) = node {
            node.shutdown(Duration::from_secs(5)).await;
        }
        Ok(())
    }

    /// Lists of 20 runs beside many, without and with a count.
    pub(crate) async fn http_list(&self, n: usize, beside: usize) -> anyhow::Result<()> {
        let served = self.serve().await?;
        let spec = self.workflow(WORKFLOW).await?;
        for _ in 0..beside.div_ceil(PER_BULK) {
            self.client.submit_many(&spec, vec![Submission::default(); PER_BULK]).await?;
        }
        for (name, target) in
            [("http_list", "/api/v1/workflow-runs"), ("http_list_count", "/api/v1/workflow-runs?count=true")]
        {
            let request = request("GET", target, &served.token, "");
            let (took, mut each) = ask(served.server.address(), &request, n, 1).await?;
            Report::new(name.to_owned(), n, took).with_percentiles(&mut each).print();
        }
        served.server.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }

    /// N runs in requests of 1,000.
    pub(crate) async fn bulk(&self, n: usize) -> anyhow::Result<()> {
        let served = self.serve().await?;
        let runs = vec![serde_json::json!({"workflow": "http"}); PER_BULK];
        let body = serde_json::json!({"runs": runs}).to_string();
        let request = request("POST", "/api/v1/workflow-runs/bulk", &served.token, &body);
        let requests = n.div_ceil(PER_BULK);
        let (took, mut each) = ask(served.server.address(), &request, requests, 1).await?;
        Report::new("bulk".to_owned(), requests * PER_BULK, took).with_percentiles(&mut each).print();
        served.server.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }
}

fn request(method: &str, target: &str, token: &str, body: &str) -> Arc<str> {
    format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

/// Sends the request a number of times over a number of connections; how long it took, and how long each.
async fn ask(
    to: SocketAddr,
    request: &Arc<str>,
    count: usize,
    clients: usize,
) -> anyhow::Result<(Duration, Vec<Duration>)> {
    let left = Arc::new(AtomicUsize::new(count));
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (request, left) = (Arc::clone(request), Arc::clone(&left));
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(to).await?;
            stream.set_nodelay(true)?;
            let mut each = Vec::new();
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                let begun = Instant::now();
                stream.write_all(request.as_bytes()).await?;
                read_answer(&mut stream).await?;
                each.push(begun.elapsed());
            }
            anyhow::Ok(each)
        });
    }
    let mut all = Vec::with_capacity(count);
    while let Some(each) = tasks.join_next().await {
        all.extend(each??);
    }
    Ok((started.elapsed(), all))
}

async fn read_answer(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut bytes = Vec::with_capacity(4_096);
    let end = loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            bail!("the server closed the connection");
        }
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    if !head.starts_with("http/1.1 2") {
        bail!("the server answered {}", head.lines().next().unwrap_or_default());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.context("an answer without a length")?.trim().parse()?;
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await? == 0 {
            bail!("the server closed the connection");
        }
    }
    Ok(())
}
