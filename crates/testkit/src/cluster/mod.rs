//! A cluster under faults: three servers, four remote workers (one of them in Python), PostgreSQL, etcd and Redis on
//! loopback, with proxies between all of them; load of every kind, one fault after the other, and the checker at the end.

mod classes;
mod faults;
mod load;
mod looking;
mod members;
mod postgres;
mod report;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use mainspring_core::work::Clock;
use mainspring_engine::{Client, SystemClock};
use mainspring_store::{Connect, Store};
use tokio::sync::watch;

pub use self::classes::FaultClass;
use self::faults::Scene;
use self::load::{Acted, Requested};
use self::looking::Looking;
use self::members::{Node, RemoteWorker, Surroundings};
use self::postgres::OwnPostgres;
pub use self::report::{ClusterReport, Operations, Times};
use crate::audit::{Evidence, audit};
use crate::chaos::Storm;
use crate::chaos::demand::Demand;
use crate::customer::Customer;
use crate::invariants::Violation;
use crate::proxy::{Fault, Proxy};
use crate::server::ServerPlan;
use crate::services::Service;
use crate::wait::{until, until_nothing_moves};
use crate::{effects, transactions, witness, workload};

const NODES: usize = 3;
const WORKERS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(120);
/// Nothing is submitted while this number of runs is open.
const MOST_OPEN: i64 = 120;
/// How often more may be submitted.
const BETWEEN_QUOTAS: Duration = Duration::from_millis(200);
const PER_QUOTA: usize = 4;
const TRIPS_PER_FAULT: u32 = 400;

/// How long and how hard.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    pub seed: u64,
    pub lasts: Duration,
}

/// Tokens of the API, made by the test from the client of the migrated database.
#[derive(Debug, Clone)]
pub struct Tokens {
    pub admin: String,
    pub worker: String,
}

/// Lets it all happen and checks what is left.
pub async fn run<F>(plan: &ClusterPlan, make_tokens: impl FnOnce(Client) -> F) -> anyhow::Result<ClusterReport>
where
    F: Future<Output = Tokens>,
{
    // Clients that insist are futures of one thread.
    tokio::task::LocalSet::new().run_until(run_here(plan, make_tokens)).await
}

async fn run_here<F>(plan: &ClusterPlan, make_tokens: impl FnOnce(Client) -> F) -> anyhow::Result<ClusterReport>
where
    F: Future<Output = Tokens>,
{
    let folder = tempfile::tempdir().context("making a folder for the cluster")?;
    let postgres = OwnPostgres::start()?;
    let url = postgres.url().to_owned();
    let direct = Client::new(Store::connect(&Connect::new(&url)).await?, Arc::new(SystemClock::new()));
    direct.store().migrate_up(direct.now()).await?;
    witness::install(&url).await?;
    let tokens = make_tokens(direct.clone()).await;
    let mut rng = fastrand::Rng::with_seed(plan.seed);
    let effects_path = folder.path().join("effects");
    let workload = workload::store_for_cluster(&direct, &effects_path, &mut rng).await?;
    let (etcd, redis) = (Service::etcd().await?, Service::redis().await?);
    let at =
        Surroundings { folder: folder.path(), url: &url, etcd: &etcd, redis: &redis, tokens: &tokens, seed: plan.seed };
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let node = Node::start(&at, number).await?;
        // One after the other: the first makes what there must be one of.
        let listens = async || Ok(tokio::net::TcpStream::connect(&node.address).await.ok());
        until("a server listens", PATIENCE, listens).await.with_context(|| node.process.last_lines(20))?;
        nodes.push(node);
    }
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        workers.push(RemoteWorker::start(&at, &nodes, number).await?);
    }
    let looking = Looking::new(&url);
    let mut scene = Scene {
        postgres,
        etcd,
        redis,
        nodes,
        workers,
        looking,
        rng,
        times: Times::default(),
        injected: std::collections::BTreeMap::new(),
        orphans: std::collections::BTreeSet::new(),
    };
    // The schedules end with the storm, so that everything can come to rest.
    let end = direct.clock().now() + i64::try_from(plan.lasts.as_micros())?;
    load::store_schedules(&direct, &mainspring_core::time::rfc3339(end)).await?;

    let began = Instant::now();
    let demanded = Demanded::start(plan, &url, &scene, &tokens, workload).await?;
    let disturbed = scene.disturb(began + plan.lasts).await;
    let lasted = began.elapsed();
    demanded.proxy.calm();
    scene.nodes.iter().for_each(|node| node.trips.calm());
    let mut report = ClusterReport { seed: plan.seed, lasted, ..ClusterReport::default() };
    let mut evidence = match disturbed {
        Ok(()) => demanded.finish(&mut scene, &mut report).await?,
        Err(error) => return Err(error.context(last_words(&scene))),
    };
    let rested = rest(&mut scene, &url).await;
    report.violations.extend(witness::check(&url).await?);
    report.violations.extend(witness::check_patience(&url, faults::LEASE).await?);
    if let Err(error) = rested.and(stop(&mut scene, folder.path()).await) {
        let subject = format!("{error:#}");
        report.violations.push(Violation { invariant: "everything comes to rest and stops", subject });
    }
    evidence.effects = effects::read(&effects_path)?;
    report.effects = evidence.effects.len();
    report.violations.extend(audit(&url, &evidence).await?);
    count(&mut scene, &mut report).await;
    report.log = last_words(&scene);
    if !report.violations.is_empty() {
        report.log.push_str(&format!("\n(logs kept in {})", folder.keep().display()));
    }
    Ok(report)
}

/// What clients do meanwhile.
struct Demanded {
    /// Between the clients and the database.
    proxy: Proxy,
    over: watch::Sender<bool>,
    quota: watch::Sender<usize>,
    demand: tokio::task::JoinHandle<anyhow::Result<(Evidence, usize)>>,
    requests: tokio::task::JoinHandle<anyhow::Result<Requested>>,
    desk: tokio::task::JoinHandle<anyhow::Result<Acted>>,
    giving: tokio::task::JoinHandle<()>,
}

impl Demanded {
    async fn start(
        plan: &ClusterPlan,
        url: &str,
        scene: &Scene,
        tokens: &Tokens,
        workload: workload::Workload,
    ) -> anyhow::Result<Self> {
        let proxy = Proxy::start(url).await?;
        let kinds = [Fault::LoseReply, Fault::LoseRequest];
        let disturbed = Store::connect(&Connect::new(proxy.url())).await?;
        let client = Client::new(disturbed, Arc::new(SystemClock::new()));
        proxy.disturb(plan.seed, TRIPS_PER_FAULT, &kinds);
        let (quota, allowed) = watch::channel(0);
        let (over, calm) = watch::channel(false);
        let storm = Storm {
            seed: plan.seed,
            runs: usize::MAX,
            kills: 0,
            servers: NODES,
            longest_life: Duration::ZERO,
            patience: PATIENCE,
        };
        let demand = Demand::new(&storm, url, Customer::new(client.clone()));
        let demand = tokio::task::spawn_local(demand.make(workload, allowed));
        let servers: Vec<SocketAddr> = scene.nodes.iter().map(|node| node.address.parse()).collect::<Result<_, _>>()?;
        let requests = tokio::task::spawn_local(load::request(servers, tokens.admin.clone(), plan.seed, calm.clone()));
        let desk = tokio::task::spawn_local(load::act_on_letters(client, plan.seed, calm));
        let giving = tokio::spawn(give_quota(quota.clone(), Looking::new(url)));
        Ok(Self { proxy, over, quota, demand, requests, desk, giving })
    }

    /// Ends the load, and waits for what was asked for to be answered.
    async fn finish(self, scene: &mut Scene, report: &mut ClusterReport) -> anyhow::Result<Evidence> {
        self.over.send_replace(true);
        self.giving.abort();
        // On a loaded machine clients are far behind what they may submit: what was not submitted by now never is.
        self.quota.send_replace(0);
        drop(self.quota);
        let waiting = async {
            let (demand, requests, desk) = tokio::join!(self.demand, self.requests, self.desk);
            anyhow::Ok((demand??, requests??, desk??))
        };
        tokio::pin!(waiting);
        let ((mut evidence, unknown), requested, acted) = loop {
            tokio::select! {
                done = &mut waiting => break done?,
                () = tokio::time::sleep(Duration::from_millis(200)) => scene.revive()?,
            }
        };
        let known = evidence.acknowledged.len()
            + evidence.cancelled.len()
            + evidence.paused.len() * 2
            + evidence.reopened.len();
        let submitted = Operations { tried: known + unknown, answered: known };
        report.operations.insert("submit, cancel, pause, resume, reopen", submitted);
        report.operations.insert("trigger over HTTP", requested.operations);
        report.operations.insert("act on a dead letter", acted.operations);
        report.clients_cut = requested.cut;
        report.lost_trips =
            self.proxy.injected().len() + scene.nodes.iter().map(|node| node.trips.injected().len()).sum::<usize>();
        evidence.requested = requested.runs;
        evidence.acted = acted.letters;
        Ok(evidence)
    }
}

/// Allows more to be submitted as long as not too much is open.
async fn give_quota(quota: watch::Sender<usize>, mut looking: Looking) {
    loop {
        tokio::time::sleep(BETWEEN_QUOTAS).await;
        let open = looking.number("SELECT count(*) FROM runs WHERE state < 3").await;
        if open.is_some_and(|open| open < MOST_OPEN) {
            quota.send_modify(|allowed| *allowed += PER_QUOTA);
        }
    }
}

/// Waits until every run has ended and every schedule is done.
async fn rest(scene: &mut Scene, url: &str) -> anyhow::Result<()> {
    let mut counting = Looking::new(url);
    let progress = async || {
        Ok(counting.number("SELECT (SELECT count(*) FROM history) + (SELECT count(*) FROM fires)").await.unwrap_or(0))
    };
    let look = async || {
        scene.revive()?;
        // Jobs that clients have left behind would fire next year.
        let sql = "SELECT (SELECT count(*) FROM runs WHERE state < 3) + (SELECT count(*) FROM triggers t \
                   JOIN workflows w ON w.id = t.workflow_id WHERE t.next_fire_at IS NOT NULL AND w.name LIKE 'schedule-%')";
        Ok((scene.looking.number(sql).await == Some(0)).then_some(()))
    };
    until_nothing_moves("every run ends", PATIENCE, progress, look).await?;
    if let Some(violation) = transactions::check(url).await?.first() {
        anyhow::bail!("{violation}");
    }
    Ok(())
}

/// Stops everything in peace; nothing of it may live on, nor what killed processes had started.
async fn stop(scene: &mut Scene, folder: &Path) -> anyhow::Result<()> {
    let plan = ServerPlan::new("", folder);
    let gone = async || Ok(scene.orphans.is_disjoint(&plan.processes()).then_some(()));
    until("what killed processes had started ends", PATIENCE, gone).await?;
    for worker in &mut scene.workers {
        worker.process.stop(PATIENCE).await.with_context(|| worker.name.clone())?;
    }
    for node in &mut scene.nodes {
        node.process.stop(PATIENCE).await.with_context(|| node.name.clone())?;
    }
    until("all processes end", PATIENCE, async || Ok(plan.processes().is_empty().then_some(()))).await
}

async fn count(scene: &mut Scene, report: &mut ClusterReport) {
    report.faults = std::mem::take(&mut scene.injected);
    report.times = std::mem::take(&mut scene.times);
    let mut number = async |sql: &str| scene.looking.number(sql).await.unwrap_or(0);
    report.task_runs =
        number("SELECT (SELECT count(*) FROM history) + (SELECT count(*) FROM history_superseded)").await;
    report.lost_attempts = number("SELECT count(*) FROM attempts WHERE outcome = 1").await;
    report.attempts = number(
        "SELECT (SELECT count(*) FROM attempts) + (SELECT count(*) FROM history WHERE session IS NOT NULL) \
         + (SELECT count(*) FROM history_superseded WHERE session IS NOT NULL)",
    )
    .await;
    report.fires = number("SELECT count(*) FROM fires WHERE outcome = 0").await;
    report.terms = number("SELECT count(*) FROM witness_takeovers").await;
    report.letters = number("SELECT count(*) FROM dead_letters").await;
    report.stale = number("SELECT count(*) FROM dead_letters WHERE reason = 0").await;
}

fn last_words(scene: &Scene) -> String {
    let nodes = scene.nodes.first().map(|node| node.process.last_lines(30)).unwrap_or_default();
    let workers = scene.workers.iter().map(|worker| format!("{}:\n{}", worker.name, worker.process.last_lines(5)));
    std::iter::once(nodes).chain(workers).collect::<Vec<_>>().join("\n")
}
