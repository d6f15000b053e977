//! The storm: servers are killed and stopped at random moments, and replies are lost, while clients submit, cancel, pause
//! and reopen.

pub(crate) mod demand;
mod havoc;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use mainspring_engine::{Client, SystemClock};
use mainspring_store::{Connect, Store};

use self::demand::Demand;
use self::havoc::{Fleet, WATCHDOG_PATIENCE};
use crate::audit::audit;
use crate::customer::Customer;
use crate::database::sqlite_path;
use crate::effects;
use crate::invariants::{Snapshot, Violation};
use crate::proxy::{Fault, Proxy};
use crate::server::ServerPlan;
use crate::wait::{until, until_nothing_moves};
use crate::{transactions, witness, workload};

/// Short, so that the dead are found between two kills.
const LEASE: Duration = Duration::from_millis(600);
const HEARTBEAT: Duration = Duration::from_millis(150);
/// A server stops at once; this is for a busy machine.
const LONGEST_STOP: Duration = Duration::from_secs(60);
/// One round trip in this many goes wrong.
const TRIPS_PER_FAULT: u32 = 150;

/// What tells most about a violation.
const KEPT_TABLES: [&str; 13] = [
    "runs",
    "task_runs",
    "history",
    "history_superseded",
    "attempts",
    "operator_actions",
    "continuations",
    "sessions",
    "waits",
    "limits",
    "terms",
    "witness_takeovers",
    "witness_writes",
];

/// How long and how hard.
#[derive(Debug, Clone)]
pub struct Storm {
    pub seed: u64,
    pub runs: usize,
    pub kills: usize,
    /// How many there are at a time. SQLite has room for one; more of them are also stopped for a while.
    pub servers: usize,
    /// A server lives at most so long.
    pub longest_life: Duration,
    /// How long it may take until anything gets done once no process is killed any more.
    pub patience: Duration,
}

/// What happened.
#[derive(Debug, Default)]
pub struct Report {
    pub seed: u64,
    pub runs: usize,
    pub cancels: usize,
    pub pauses: usize,
    pub reopenings: usize,
    pub kills: usize,
    /// Kills that left a big unit half done.
    pub halved: usize,
    /// Servers that stood still for a while.
    pub stops: usize,
    /// Terms of leaders, and what they wrote as such.
    pub terms: i64,
    pub leader_writes: i64,
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
        write!(
            out,
            "seed {}: {} runs ({} cancelled, {} paused, {} reopened), {} kills ({} within a big unit), {} stops, {} attempts lost, \
             {} terms with {} writes, {} faults between server and database ({} replies lost after the commit), \
             {} answers clients did not get, {} effects, {} violations",
            self.seed,
            self.runs,
            self.cancels,
            self.pauses,
            self.reopenings,
            self.kills,
            self.halved,
            self.stops,
            self.lost_attempts,
            self.terms,
            self.leader_writes,
            self.faults,
            self.lost_replies,
            self.unknown,
            self.effects,
            self.violations.len()
        )?;
        for violation in self.violations.iter().take(40) {
            write!(out, "\n  {violation}")?;
        }
        if !self.violations.is_empty() {
            write!(out, "\n{}", self.log)?;
        }
        Ok(())
    }
}

/// Lets the storm pass over a database and checks what is left. Through a proxy where there can be one.
pub async fn storm(storm: &Storm, url: &str) -> anyhow::Result<Report> {
    let folder = tempfile::tempdir().context("making a folder for the storm")?;
    let proxy = if url.starts_with("postgres") {
        witness::install(url).await?;
        Some(Proxy::start(url).await?)
    } else {
        None
    };
    let way = proxy.as_ref().map_or(url, Proxy::url).to_owned();
    let client = Client::new(Store::connect(&Connect::new(&way)).await?, Arc::new(SystemClock::new()));
    let effects_path = folder.path().join("effects");
    let workload = workload::store(&client, &effects_path).await?;
    if let Some(proxy) = &proxy {
        let kinds = [Fault::LoseReply, Fault::LoseReply, Fault::LoseRequest, Fault::Stall(Duration::from_millis(30))];
        proxy.disturb(storm.seed, TRIPS_PER_FAULT, &kinds);
    }
    let plan = ServerPlan::new(way, folder.path())
        .set("MAINSPRING_WORKER_LEASE_TTL", format!("{}ms", LEASE.as_millis()))
        .set("MAINSPRING_WORKER_HEARTBEAT_INTERVAL", format!("{}ms", HEARTBEAT.as_millis()))
        .set("MAINSPRING_LOG_LEVEL", "warn");

    let (permits, quota) = tokio::sync::watch::channel(0usize);
    let demand = Demand::new(storm, url, Customer::new(client.clone())).make(workload, quota);
    // What chance decides by must not be disturbed itself.
    let undisturbed = Store::connect(&Connect::new(url)).await?;
    let mut fleet = Fleet::start(&plan, storm.servers)?;
    let (over, calm) = tokio::sync::oneshot::channel();
    let wreaking = async {
        let havoc = havoc::wreak(storm, &mut fleet, &undisturbed, &permits).await?;
        permits.send_replace(storm.runs);
        fleet.keep_up(calm).await?;
        anyhow::Ok(havoc)
    };
    let demand = async {
        let made = demand.await?;
        _ = over.send(());
        anyhow::Ok(made)
    };
    let (havoc, (mut evidence, unknown)) = match tokio::try_join!(wreaking, demand) {
        Ok(done) => done,
        Err(error) => {
            let path = keep(folder, url).await?;
            return Err(error.context(format!("kept in {}", path.display())));
        }
    };
    if let Some(proxy) = &proxy {
        proxy.calm();
    }
    evidence.survivors = havoc.survivors;
    let rested = rest(&undisturbed, url, &mut fleet, &plan, storm.patience).await;
    evidence.effects = effects::read(&effects_path)?;
    client.store().close().await;
    undisturbed.close().await;

    let injected = proxy.as_ref().map(Proxy::injected).unwrap_or_default();
    let (terms, leader_writes) = if proxy.is_some() { witness::counts(url).await? } else { (0, 0) };
    let mut report = Report {
        seed: storm.seed,
        runs: evidence.acknowledged.len(),
        cancels: evidence.cancelled.len(),
        pauses: evidence.paused.len(),
        reopenings: evidence.reopened.len(),
        kills: storm.kills,
        halved: havoc.halved,
        stops: havoc.stops,
        terms,
        leader_writes,
        unknown,
        lost_replies: injected.iter().filter(|fault| **fault == Fault::LoseReply).count(),
        faults: injected.len(),
        effects: evidence.effects.len(),
        lost_attempts: lost_attempts(url).await?,
        violations: Vec::new(),
        log: fleet.servers[0].last_lines(40),
    };
    if let Err(error) = rested {
        report.violations.push(Violation { invariant: "everything comes to rest", subject: format!("{error:#}") });
    }
    report.violations.extend(audit(url, &evidence).await?);
    if proxy.is_some() {
        report.violations.extend(witness::check(url).await?);
    }
    if !report.violations.is_empty() {
        let path = keep(folder, url).await?;
        report.log.push_str(&format!("\n(kept in {})", path.display()));
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

/// Leaves the folder for the investigation, and in it what the database says.
async fn keep(folder: tempfile::TempDir, url: &str) -> anyhow::Result<PathBuf> {
    let path = folder.keep();
    if !url.starts_with("postgres") {
        std::fs::copy(sqlite_path(url), path.join("storm.db")).context("keeping the database")?;
        return Ok(path);
    }
    let mut snapshot = Snapshot::open(url).await?;
    for table in KEPT_TABLES {
        let rows: Vec<(String,)> = snapshot.rows(&format!("SELECT row_to_json(t)::text FROM {table} t")).await?;
        let text: String = rows.into_iter().map(|row| row.0 + "\n").collect();
        std::fs::write(path.join(format!("{table}.json")), text).with_context(|| format!("keeping {table}"))?;
    }
    snapshot.close().await;
    Ok(path)
}

/// Everything that ever got done. What is lost and done again is not: a storm that only loses is at its end.
async fn work_done(url: &str) -> anyhow::Result<i64> {
    let mut snapshot = Snapshot::open(url).await?;
    let rows: Vec<(i64,)> = snapshot
        .rows(
            "SELECT count(*) FROM history UNION ALL SELECT count(*) FROM history_superseded \
             UNION ALL SELECT count(*) FROM attempts WHERE outcome = 0 UNION ALL SELECT count(*) FROM operator_actions",
        )
        .await?;
    snapshot.close().await;
    Ok(rows.iter().map(|row| row.0).sum())
}

/// Waits until every run has ended, then stops the servers in peace.
async fn rest(
    store: &Store,
    url: &str,
    fleet: &mut Fleet<'_>,
    plan: &ServerPlan,
    patience: Duration,
) -> anyhow::Result<()> {
    let look = async || {
        fleet.revive()?;
        let counts = store.run_counts().await?;
        Ok(counts.iter().all(|count| count.state.is_terminal() || count.runs == 0).then_some(()))
    };
    until_nothing_moves("every run ends", patience, async || work_done(url).await, look).await?;
    // No request is under way now: a connection inside a transaction was forgotten.
    if let Some(violation) = transactions::check(url).await?.first() {
        anyhow::bail!("{violation}");
    }
    for server in &mut fleet.servers {
        server.stop(LONGEST_STOP).await?;
    }
    until("all processes end", WATCHDOG_PATIENCE, async || Ok(plan.processes().is_empty().then_some(()))).await
}
