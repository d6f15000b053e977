//! The processes of a cluster, and the proxies between them.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::Tokens;
use crate::proxy::{Fault, Proxy, TcpProxy};
use crate::server::{ProcessMark, ServerPlan, ServerProcess};
use crate::services::Service;
use crate::{binary, witness};

/// The code of a program that did not reach what it needs when it started: its supervisor starts it again.
const NOT_REACHED: i32 = 3;
/// One round trip to the database in this number loses its reply, or its request.
const TRIPS_PER_FAULT: u32 = 2_000;

/// One server, with ways of its own to everything it needs.
#[derive(Debug)]
pub(super) struct Node {
    plan: ServerPlan,
    url: String,
    started: usize,
    /// The name of the present process, for the witness and in `members`.
    pub(super) name: String,
    pub(super) process: ServerProcess,
    /// Loses replies after the commit.
    pub(super) trips: Proxy,
    pub(super) database: TcpProxy,
    pub(super) etcd: TcpProxy,
    pub(super) redis: TcpProxy,
    pub(super) address: String,
    label: String,
}

/// One remote worker.
#[derive(Debug)]
pub(super) struct RemoteWorker {
    plan: ServerPlan,
    started: usize,
    pub(super) name: String,
    pub(super) process: ServerProcess,
    /// Its ways to the servers.
    pub(super) ways: Vec<TcpProxy>,
    servers: String,
    label: String,
    is_python: bool,
}

/// Where everything is.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) folder: &'a Path,
    /// The database without anything in between.
    pub(super) url: &'a str,
    pub(super) etcd: &'a Service,
    pub(super) redis: &'a Service,
    pub(super) tokens: &'a Tokens,
    pub(super) seed: u64,
}

impl Node {
    pub(super) async fn start(at: &Surroundings<'_>, number: usize) -> anyhow::Result<Self> {
        let trips = Proxy::start(at.url).await?;
        let kinds = [Fault::LoseReply, Fault::LoseReply, Fault::LoseRequest];
        trips.disturb(at.seed + number as u64, TRIPS_PER_FAULT, &kinds);
        let host = host_of(trips.url())?;
        let database = TcpProxy::start(host.clone()).await?;
        let url = trips.url().replacen(&host, &database.address().to_string(), 1);
        let (etcd, redis) = (TcpProxy::start(at.etcd.address()).await?, TcpProxy::start(at.redis.address()).await?);
        let address = free_address()?;
        let mut plan = ServerPlan::new(url.clone(), at.folder)
            .set("ETCD_ENDPOINTS", format!("http://{}", etcd.address()))
            .set("REDIS_URL", format!("redis://{}", redis.address()))
            .set("MAINSPRING_STALENESS_DETECTION_DETECTION_INTERVAL_SECONDS", "2")
            .set("MAINSPRING_WORKER_SLOTS", "4")
            .set("MAINSPRING_LOG_LEVEL", "warn");
        plan.listen.clone_from(&address);
        if number == 2 {
            // One of them only serves workers.
            plan.arguments = vec!["--roles".into(), "api,scheduler".into()];
        }
        let label = format!("node{number}");
        let (name, process) = start_node(&plan, &url, &label, 1)?;
        Ok(Self { plan, url, started: 1, name, process, trips, database, etcd, redis, address, label })
    }

    /// Starts the next process in the place of the one that ended.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        self.started += 1;
        (self.name, self.process) = start_node(&self.plan, &self.url, &self.label, self.started)?;
        Ok(())
    }

    /// What it had started, after it was killed. Stopped first, so that nothing is born while its children are counted.
    pub(super) fn kill(&mut self) -> anyhow::Result<BTreeSet<ProcessMark>> {
        kill(&self.plan, &mut self.process)
    }

    pub(super) fn revive(&mut self) -> anyhow::Result<()> {
        match self.process.ended()? {
            None => Ok(()),
            Some(NOT_REACHED) => self.restart(),
            Some(code) => bail!("{} ended by itself with {code}:\n{}", self.name, self.process.last_lines(20)),
        }
    }
}

fn start_node(plan: &ServerPlan, url: &str, label: &str, started: usize) -> anyhow::Result<(String, ServerProcess)> {
    let name = format!("{label}-{started}");
    let mut plan = plan.clone().set("WORKER_ID", &name);
    plan.url = witness::named(url, &name);
    let process = plan.start()?;
    Ok((name, process))
}

impl RemoteWorker {
    pub(super) async fn start(at: &Surroundings<'_>, nodes: &[Node], number: usize) -> anyhow::Result<Self> {
        let mut ways = Vec::new();
        for node in nodes {
            ways.push(TcpProxy::start(node.address.clone()).await?);
        }
        let urls: Vec<String> = ways.iter().map(|way| format!("http://{}", way.address())).collect();
        let servers = urls.join(",");
        let plan = ServerPlan::new("", at.folder)
            .set("MAINSPRING_TOKEN", &at.tokens.worker)
            .set("MAINSPRING_SERVER", &servers)
            .set("METRICS_PORT", "0")
            .set("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python/src"))
            .set("MAINSPRING_LOG_LEVEL", "warn");
        let (label, is_python) = (format!("worker{number}"), number == 3);
        let (name, process) = start_worker(&plan, &servers, &label, 1, is_python)?;
        Ok(Self { plan, started: 1, name, process, ways, servers, label, is_python })
    }

    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        self.started += 1;
        (self.name, self.process) = start_worker(&self.plan, &self.servers, &self.label, self.started, self.is_python)?;
        Ok(())
    }

    pub(super) fn kill(&mut self) -> anyhow::Result<BTreeSet<ProcessMark>> {
        kill(&self.plan, &mut self.process)
    }

    /// How many processes it has started.
    pub(super) fn children(&self) -> usize {
        self.plan.descendants(self.process.pid()).len()
    }

    pub(super) fn revive(&mut self) -> anyhow::Result<()> {
        match self.process.ended()? {
            None => Ok(()),
            Some(NOT_REACHED) => self.restart(),
            Some(code) => bail!("{} ended by itself with {code}:\n{}", self.name, self.process.last_lines(20)),
        }
    }
}

fn start_worker(
    plan: &ServerPlan,
    servers: &str,
    label: &str,
    started: usize,
    is_python: bool,
) -> anyhow::Result<(String, ServerProcess)> {
    let name = format!("{label}-{started}");
    let mut command = Command::new(if is_python { Path::new("python3") } else { binary::mainspring() });
    if is_python {
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cluster/worker.py"));
    } else {
        command.args(["worker", "--server", servers, "--slots", "4", "--log-format", "text"]);
    }
    let process = plan.clone().set("WORKER_ID", &name).spawn(command, &format!("{label}.log"))?;
    Ok((name, process))
}

fn kill(plan: &ServerPlan, process: &mut ServerProcess) -> anyhow::Result<BTreeSet<ProcessMark>> {
    process.pause()?;
    let orphans = plan.descendants(process.pid());
    process.kill()?;
    Ok(orphans)
}

/// `host:port` of a URL of PostgreSQL.
fn host_of(url: &str) -> anyhow::Result<String> {
    let after = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = after.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.contains(':') { Ok(host.to_owned()) } else { bail!("{url} names no host and port") }
}

fn free_address() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(listener.local_addr()?.to_string())
}
