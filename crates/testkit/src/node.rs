//! The real engine inside a test: one node with a real worker pool, and handlers of the test's own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use mainspring_engine::{ArtifactContents, Client, Node, NodeConfig, NodeHandle, SystemClock};
use mainspring_store::Store;
use mainspring_worker::{Pool, PoolConfig, Registry};
use tokio::sync::mpsc;

const LOG_CHANNEL: usize = 1_024;

/// A node that works in this process until [`TestNode::stop`].
#[derive(Debug)]
pub struct TestNode {
    client: Client,
    node: Node,
    pool: Pool,
}

impl TestNode {
    /// Beats often, so that a test need not wait for deadlines and lost sessions to be noticed.
    pub async fn start(store: &Store, registry: Registry) -> anyhow::Result<Self> {
        let client = Client::new(store.clone(), Arc::new(SystemClock::new()));
        let config = NodeConfig {
            name: "test".into(),
            heartbeat: Duration::from_millis(50),
            lease_ttl: Duration::from_secs(30),
            process_slots: 8,
            ..NodeConfig::default()
        };
        Self::start_as(client, config, registry).await
    }

    pub async fn start_as(client: Client, config: NodeConfig, registry: Registry) -> anyhow::Result<Self> {
        let (completions, finished) = mpsc::unbounded_channel();
        let (logs, chunks) = mpsc::channel(LOG_CHANNEL);
        let pool_config = PoolConfig {
            lease_ttl: config.lease_ttl,
            grace: Duration::from_secs(2),
            function_grace: Duration::from_millis(200),
            ..PoolConfig::default()
        };
        let pool = Pool::start(pool_config, client.clock().clone(), registry, completions, logs)
            .context("starting the worker")?;
        pool.fetch_artifacts_from(Arc::new(ArtifactContents::new(client.clone())));
        let workforce = Arc::new(pool.clone());
        let node =
            Node::start(client.clone(), config, workforce, finished, chunks).await.context("starting the node")?;
        Ok(Self { client, node, pool })
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn handle(&self) -> NodeHandle {
        self.node.handle()
    }

    /// How many attempts its worker executes.
    pub fn running(&self) -> usize {
        self.pool.running()
    }

    /// Hands back what still runs and ends the session.
    pub async fn stop(self) {
        self.node.drain().await;
        self.pool.shutdown(Duration::ZERO).await;
        self.node.shutdown(Duration::from_secs(10)).await;
    }
}
