//! A node with its worker pool in this process.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use mainspring_core::work::{Completion, LogChunk};
use mainspring_engine::{ArtifactContents, Client, Node, NodeConfig, NodeHandle};
use mainspring_worker::{Pool, PoolConfig, Registry};
use tokio::sync::mpsc;

/// Log chunks that may wait for the store before tasks that print are slowed down.
const LOG_CHANNEL: usize = 1_024;

/// A node and the pool that executes for it.
pub(crate) struct LocalNode {
    node: Node,
    pool: Pool,
}

impl LocalNode {
    pub(crate) async fn start(
        client: Client,
        node: NodeConfig,
        pool: PoolConfig,
        registry: Registry,
    ) -> anyhow::Result<Self> {
        let (completions, finished) = mpsc::unbounded_channel();
        let (logs, chunks) = mpsc::channel(LOG_CHANNEL);
        Self::start_on(client, node, (pool, registry), (completions, finished), (logs, chunks)).await
    }

    /// Also hands every log chunk to the receiver that is returned. An attempt's chunks are there before its end is
    /// stored. A caller that does not read slows the tasks down.
    pub(crate) async fn start_with_tap(
        client: Client,
        node: NodeConfig,
        pool: PoolConfig,
        registry: Registry,
    ) -> anyhow::Result<(Self, mpsc::Receiver<LogChunk>)> {
        let (completions, from_pool) = mpsc::unbounded_channel();
        let (to_node, finished) = mpsc::unbounded_channel();
        let (logs, logs_from_pool) = mpsc::channel(LOG_CHANNEL);
        let (logs_to_node, chunks) = mpsc::channel(LOG_CHANNEL);
        let (tap, tapped) = mpsc::channel(LOG_CHANNEL);
        tokio::spawn(forward(from_pool, to_node, logs_from_pool, logs_to_node, tap));
        let node = Self::start_on(client, node, (pool, registry), (completions, finished), (logs, chunks)).await?;
        Ok((node, tapped))
    }

    async fn start_on(
        client: Client,
        node: NodeConfig,
        (mut pool, registry): (PoolConfig, Registry),
        (completions, finished): (mpsc::UnboundedSender<Completion>, mpsc::UnboundedReceiver<Completion>),
        (logs, chunks): (mpsc::Sender<LogChunk>, mpsc::Receiver<LogChunk>),
    ) -> anyhow::Result<Self> {
        pool.lease_ttl = node.lease_ttl;
        let pool =
            Pool::start(pool, client.clock().clone(), registry, completions, logs).context("starting the worker")?;
        pool.fetch_artifacts_from(Arc::new(ArtifactContents::new(client.clone())));
        let workforce = Arc::new(pool.clone());
        let node = Node::start(client, node, workforce, finished, chunks).await.context("starting the node")?;
        Ok(Self { node, pool })
    }

    pub(crate) fn handle(&self) -> NodeHandle {
        self.node.handle()
    }

    /// Stops claiming, waits for what runs at most `grace`, hands the rest back, and gives up session and leadership.
    pub(crate) async fn shutdown(self, grace: Duration) {
        self.node.drain().await;
        self.pool.shutdown(grace).await;
        self.node.shutdown(Duration::from_secs(10)).await;
    }
}

/// Passes on completions and log chunks, an attempt's chunks always before its completion, as the pool sent them.
async fn forward(
    mut completions: mpsc::UnboundedReceiver<Completion>,
    to_node: mpsc::UnboundedSender<Completion>,
    mut logs: mpsc::Receiver<LogChunk>,
    logs_to_node: mpsc::Sender<LogChunk>,
    tap: mpsc::Sender<LogChunk>,
) {
    let pass = async |chunk: LogChunk| {
        // Either receiver goes away only when the program ends.
        let _ = tap.send(chunk.clone()).await;
        let _ = logs_to_node.send(chunk).await;
    };
    loop {
        tokio::select! {
            biased;
            Some(chunk) = logs.recv() => pass(chunk).await,
            Some(completion) = completions.recv() => {
                while let Ok(chunk) = logs.try_recv() {
                    pass(chunk).await;
                }
                let _ = to_node.send(completion);
            }
            else => return,
        }
    }
}

/// The command line of the watchdog helper: this program again.
pub(crate) fn watchdog_command() -> Option<Vec<OsString>> {
    let program = std::env::current_exe().ok()?;
    Some(vec![program.into_os_string(), "watchdog".into()])
}
