//! The storm: a server is killed at random moments, and replies are lost, while clients submit and cancel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use mainspring_engine::{Client, SystemClock};
use mainspring_store::{Connect, Store};

use crate::audit::{Evidence, audit};
use crate::customer::Customer;
use crate::effects;
use crate::invariants::{Snapshot, Violation};
use crate::proxy::{Fault, Proxy};
use crate::server::{ProcessMark, ServerPlan, ServerProcess};
use crate::wait::until;
use crate::workload::{self, Kind};

/// Short, so that the dead are found between two kills.
const LEASE: &str = "600ms";
const HEARTBEAT: &str = "150ms";
/// A watchdog notices at once; this is for a busy machine.
const WATCHDOG_PATIENCE: Duration = Duration::from_secs(10);
/// One round trip in so many goes wrong.
const TRIPS_PER_FAULT: u32 = 150;

/// How long and how hard.
#[derive(Debug, Clone)]
pub struct Storm {
    pub seed: u64,
    pub runs: usize,
    pub kills: usize,
    /// A server lives at most so long.
    pub longest_life: Duration,
    /// How long the rest may take once nobody is killed any more.
    pub patience: Duration,
}

/// What happened.
#[derive(Debug, Default)]
pub struct Report {
    pub seed: u64,
    pub runs: usize,
    pub cancels: usize,
    pub kills: usize,
    /// Answers that clients did not get.
    pub unknown: usize,
    pub lost_replies: usize,
    pub faults: usize,
    pub effects: usize,
    /// Attempts that ended with their worker.
    pub lost_attempts: usize,
    pub violations: Vec<Violation>,
    /// The last words of the server.
    pub log: String,
}

impl std::fmt::Display for Report {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, runs, cancels, kills, unknown, lost_replies, faults, effects, lost_attempts, violations, log } =
            self;
        write!(
            out,
            "seed {seed}: {runs} runs ({cancels} cancelled), {kills} kills, {lost_attempts} attempts lost, {faults} faults between server and database \
             ({lost_replies} replies lost after the commit), {unknown} answers clients did not get, {effects} effects, \
             {} violations",
            violations.len()
        )?;
        for violation in violations.iter().take(40) {
            write!(out, "\n  {violation}")?;
        }
        if !violations.is_empty() {
            write!(out, "\n{log}")?;
        }
        Ok(())
    }
}

/// Lets the storm pass over a database and checks what is left. Through a proxy where there can be one.
pub async fn storm(storm: &Storm, url: &str) -> anyhow::Result<Report> {
    let folder = tempfile::tempdir().context("making a folder for the storm")?;
    let proxy = if url.starts_with("postgres") { Some(Proxy::start(url).await?) } else { None };
    let way = proxy.as_ref().map_or(url, Proxy::url).to_owned();
    let client = Client::new(Store::connect(&Connect::new(&way)).await?, Arc::new(SystemClock::new()));
    let kinds = workload::store(&client, &folder.path().join("effects")).await?;
    if let Some(proxy) = &proxy {
        let kinds = [Fault::LoseReply, Fault::LoseReply, Fault::LoseRequest, Fault::Stall(Duration::from_millis(30))];
        proxy.disturb(storm.seed, TRIPS_PER_FAULT, &kinds);
    }
    let plan = ServerPlan::new(way, folder.path())
        .set("MAINSPRING_WORKER_LEASE_TTL", LEASE)
        .set("MAINSPRING_WORKER_HEARTBEAT_INTERVAL", HEARTBEAT)
        .set("MAINSPRING_LOG_LEVEL", "warn");

    let (permits, quota) = tokio::sync::watch::channel(0usize);
    let customers = tokio::spawn(demand(storm.clone(), Customer::new(client.clone()), kinds, quota));
    let (mut server, survivors) = kill_and_restart(storm, &plan, &permits).await?;
    permits.send_replace(storm.runs);
    let (mut evidence, unknown) = customers.await??;
    if let Some(proxy) = &proxy {
        proxy.calm();
    }
    evidence.survivors = survivors;
    let rested = rest(&client, &mut server, &plan, storm.patience).await;
    evidence.effects = effects::read(&folder.path().join("effects"))?;
    client.store().close().await;

    let injected = proxy.as_ref().map(Proxy::injected).unwrap_or_default();
    let mut report = Report {
        seed: storm.seed,
        runs: evidence.acknowledged.len(),
        cancels: evidence.cancelled.len(),
        kills: storm.kills,
        unknown,
        lost_replies: injected.iter().filter(|fault| **fault == Fault::LoseReply).count(),
        faults: injected.len(),
        effects: evidence.effects.len(),
        lost_attempts: lost_attempts(url).await?,
        violations: Vec::new(),
        log: server.last_lines(40),
    };
    if let Err(error) = rested {
        report.violations.push(Violation { invariant: "everything comes to rest", subject: format!("{error:#}") });
    }
    report.violations.extend(audit(url, &evidence).await?);
    if !report.violations.is_empty() {
        keep(folder, &mut report);
    }
    Ok(report)
}

/// How often work was interrupted: a storm that touched nothing proves nothing.
async fn lost_attempts(url: &str) -> anyhow::Result<usize> {
    let mut snapshot = Snapshot::open(url).await?;
    let rows: Vec<(i64,)> = snapshot.rows("SELECT count(*) FROM attempts WHERE outcome = 1").await?;
    snapshot.close().await;
    Ok(rows.first().map_or(0, |row| row.0 as usize))
}

/// Leaves the folder for whoever wants to know why.
fn keep(folder: tempfile::TempDir, report: &mut Report) {
    let path = folder.keep();
    report.log.push_str(&format!("\n(kept in {})", path.display()));
}

/// Submits and cancels, as far as the quota allows, until everything was submitted.
async fn demand(
    storm: Storm,
    mut customer: Customer,
    kinds: Vec<Kind>,
    mut quota: tokio::sync::watch::Receiver<usize>,
) -> anyhow::Result<(Evidence, usize)> {
    let mut rng = fastrand::Rng::with_seed(storm.seed ^ 0x9e37_79b9);
    let mut evidence = Evidence::default();
    let mut to_cancel = Vec::new();
    for number in 0..storm.runs {
        quota.wait_for(|allowed| *allowed > number).await?;
        let order = workload::draw(&mut rng, &kinds, number);
        let acknowledged = customer.submit(&order).await?;
        if order.cancel {
            to_cancel.push((order, acknowledged.run));
        }
        evidence.acknowledged.push(acknowledged);
        // Some are cancelled at once, some when they have been running for a while.
        if !to_cancel.is_empty() && rng.u8(..3) == 0 {
            let (order, run) = to_cancel.swap_remove(rng.usize(..to_cancel.len()));
            evidence.cancelled.push(customer.cancel(&order, run).await?);
        }
    }
    for (order, run) in to_cancel {
        evidence.cancelled.push(customer.cancel(&order, run).await?);
    }
    Ok((evidence, customer.unknown))
}

/// Kills and restarts; the last server stays. Also returns what outlived its server.
async fn kill_and_restart(
    storm: &Storm,
    plan: &ServerPlan,
    permits: &tokio::sync::watch::Sender<usize>,
) -> anyhow::Result<(ServerProcess, Vec<String>)> {
    let mut rng = fastrand::Rng::with_seed(storm.seed);
    let mut survivors = BTreeMap::new();
    let mut server = plan.start()?;
    for kill in 0..storm.kills {
        permits.send_replace(storm.runs * (kill + 1) / (storm.kills + 1));
        // Not a wait for a state: the moment of a kill is what chance decides. Some servers die while they start.
        let life = if rng.u8(..6) == 0 { storm.longest_life / 10 } else { storm.longest_life };
        tokio::time::sleep(Duration::from_micros(rng.u64(..life.as_micros() as u64))).await;
        server.kill()?;
        let mut orphans = plan.processes();
        orphans.retain(|mark| !survivors.contains_key(mark));
        server = plan.start()?;
        survivors.extend(outlived(plan, &orphans).await);
    }
    Ok((server, survivors.into_values().collect()))
}

/// What is still there after the watchdog had its time.
async fn outlived(plan: &ServerPlan, orphans: &BTreeSet<ProcessMark>) -> BTreeMap<ProcessMark, String> {
    let gone =
        until("orphans end", WATCHDOG_PATIENCE, async || Ok(orphans.is_disjoint(&plan.processes()).then_some(())));
    match gone.await {
        Ok(()) => BTreeMap::new(),
        Err(_) => orphans.intersection(&plan.processes()).map(|mark| (mark.clone(), describe(mark.0))).collect(),
    }
}

fn describe(pid: i32) -> String {
    let command = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
    format!("{pid} {}", String::from_utf8_lossy(&command).replace('\0', " "))
}

/// Waits until every run has ended, then stops the server in peace.
async fn rest(
    client: &Client,
    server: &mut ServerProcess,
    plan: &ServerPlan,
    patience: Duration,
) -> anyhow::Result<()> {
    until("every run ends", patience, async || {
        if let Some(code) = server.ended()? {
            anyhow::bail!("the server ended by itself with {code}");
        }
        let counts = client.store().run_counts().await?;
        Ok(counts.iter().all(|count| count.state.is_terminal() || count.runs == 0).then_some(()))
    })
    .await?;
    server.stop(Duration::from_secs(30)).await?;
    until("all processes end", WATCHDOG_PATIENCE, async || Ok(plan.processes().is_empty().then_some(()))).await
}
