//! What happens to servers: they are killed at moments that chance decides, or stopped for longer than their lease.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use mainspring_store::Store;
use tokio::sync::{oneshot, watch};

use super::Storm;
use crate::server::{ProcessMark, ServerPlan, ServerProcess};
use crate::wait::until;
use crate::witness;

/// A watchdog notices at once; this is for a busy machine.
pub(super) const WATCHDOG_PATIENCE: Duration = Duration::from_secs(60);
/// The code of a server that did not reach its database when it started: its supervisor starts it again.
const NOT_REACHED: i32 = 3;
/// How often the keeper looks after his servers.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(50);
/// How often a kill that waits for a big unit looks for one.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// The servers of a storm. Each start has a name of its own.
pub(super) struct Fleet<'a> {
    plan: &'a ServerPlan,
    pub(super) servers: Vec<ServerProcess>,
    started: usize,
    survivors: BTreeMap<ProcessMark, String>,
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Havoc {
    pub(super) stops: usize,
    /// Kills that left a big unit half done.
    pub(super) halved: usize,
    pub(super) survivors: Vec<String>,
}

impl<'a> Fleet<'a> {
    pub(super) fn start(plan: &'a ServerPlan, count: usize) -> anyhow::Result<Self> {
        let mut fleet = Self { plan, servers: Vec::new(), started: 0, survivors: BTreeMap::new() };
        for _ in 0..count {
            let server = fleet.start_one()?;
            fleet.servers.push(server);
        }
        Ok(fleet)
    }

    fn start_one(&mut self) -> anyhow::Result<ServerProcess> {
        self.started += 1;
        let mut plan = self.plan.clone();
        if plan.url.starts_with("postgres") {
            plan.url = witness::named(&plan.url, &format!("server-{}", self.started));
        }
        plan.start()
    }

    /// Starts those again that lost their database while they started, as a keeper of servers does. Any other end is a fault.
    pub(super) fn revive(&mut self) -> anyhow::Result<()> {
        for at in 0..self.servers.len() {
            match self.servers[at].ended()? {
                None => {}
                Some(NOT_REACHED) => self.servers[at] = self.start_one()?,
                Some(code) => bail!("a server ended by itself with {code}:\n{}", self.servers[at].last_lines(20)),
            }
        }
        Ok(())
    }

    /// Looks after them until the run ends.
    pub(super) async fn keep_up(&mut self, mut enough: oneshot::Receiver<()>) -> anyhow::Result<()> {
        while enough.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
            self.revive()?;
            tokio::time::sleep(BETWEEN_ROUNDS).await;
        }
        Ok(())
    }

    /// Kills one and starts another in its place.
    async fn replace(&mut self, at: usize) -> anyhow::Result<()> {
        // Stopped first, so that nothing is born while its children are counted.
        self.servers[at].pause()?;
        let mut orphans = self.plan.descendants(self.servers[at].pid());
        self.servers[at].kill()?;
        orphans.retain(|mark| !self.survivors.contains_key(mark));
        self.servers[at] = self.start_one()?;
        self.survivors.extend(outlived(self.plan, &orphans).await);
        Ok(())
    }
}

/// Kills, stops and restarts, until there were as many kills as planned.
pub(super) async fn wreak(
    storm: &Storm,
    fleet: &mut Fleet<'_>,
    store: &Store,
    permits: &watch::Sender<usize>,
) -> anyhow::Result<Havoc> {
    let mut rng = fastrand::Rng::with_seed(storm.seed);
    let mut havoc = Havoc::default();
    for kill in 0..storm.kills {
        permits.send_replace(storm.runs * (kill + 1) / (storm.kills + 1));
        fleet.revive()?;
        // Not a wait for a state: the moment of a kill is what chance decides. Some servers die while they start.
        let life = if rng.u8(..6) == 0 { storm.longest_life / 10 } else { storm.longest_life };
        let life = Duration::from_micros(rng.u64(..life.as_micros() as u64));
        if rng.bool() {
            // Big units are few: a kill that comes during one is worth not leaving to chance.
            _ = tokio::time::timeout(life, big_unit(store)).await;
        } else {
            tokio::time::sleep(life).await;
        }
        let victim = rng.usize(..fleet.servers.len());
        let stops = fleet.servers.len() > 1 && rng.u8(..3) == 0;
        if stops {
            let stopped = (victim + 1) % fleet.servers.len();
            fleet.servers[stopped].pause()?;
            havoc.stops += 1;
            tokio::time::sleep(Duration::from_micros(rng.u64(..super::LEASE.as_micros() as u64 * 3))).await;
        }
        fleet.replace(victim).await?;
        havoc.halved += usize::from(store.has_continuations().await?);
        if stops {
            fleet.servers[(victim + 1) % fleet.servers.len()].resume()?;
        }
    }
    havoc.survivors = std::mem::take(&mut fleet.survivors).into_values().collect();
    Ok(havoc)
}

/// Returns when something big is under way.
async fn big_unit(store: &Store) {
    while !store.has_continuations().await.unwrap_or(false) {
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
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
