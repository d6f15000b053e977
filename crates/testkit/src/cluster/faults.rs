//! Injects one fault after the other, heals it, and measures what the design promises a time for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::classes::FaultClass;
use super::looking::{Looking, claimed_again};
use super::members::{Node, RemoteWorker};
use super::postgres::OwnPostgres;
use super::report::Times;
use crate::proxy::{Passage, TcpProxy};
use crate::server::ProcessMark;
use crate::services::Service;
use crate::wait::until;

/// The default of `worker.lease_ttl`, which this cluster keeps.
pub(super) const LEASE: Duration = Duration::from_millis(3_500);
/// What is measured longer than this is not waited for: another fault would have come in between.
const MEASURED_AT_MOST: Duration = Duration::from_secs(30);
const STOPS_WITHIN: Duration = Duration::from_secs(90);

/// Everything that faults happen to.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) postgres: OwnPostgres,
    pub(super) etcd: Service,
    pub(super) redis: Service,
    pub(super) nodes: Vec<Node>,
    pub(super) workers: Vec<RemoteWorker>,
    pub(super) looking: Looking,
    pub(super) rng: fastrand::Rng,
    pub(super) times: Times,
    pub(super) injected: BTreeMap<FaultClass, usize>,
    /// What killed processes had started.
    pub(super) orphans: BTreeSet<ProcessMark>,
}

impl Scene {
    /// Goes on until the time is over.
    pub(super) async fn disturb(&mut self, until: Instant) -> anyhow::Result<()> {
        let mut queue: Vec<FaultClass> = FaultClass::ALL.iter().rev().map(|(class, _)| *class).collect();
        while Instant::now() < until {
            let class = match queue.pop() {
                Some(class) => class,
                None => {
                    queue = FaultClass::ALL.iter().map(|(class, _)| *class).collect();
                    self.rng.shuffle(&mut queue);
                    continue;
                }
            };
            self.revive()?;
            if self.inject(class).await? {
                *self.injected.entry(class).or_default() += 1;
            }
            self.pause(0..900).await;
        }
        Ok(())
    }

    pub(super) fn revive(&mut self) -> anyhow::Result<()> {
        self.nodes.iter_mut().try_for_each(Node::revive)?;
        self.workers.iter_mut().try_for_each(RemoteWorker::revive)
    }

    /// Not a wait for a state: how long a fault lasts is what chance decides.
    async fn pause(&mut self, milliseconds: std::ops::Range<u64>) {
        tokio::time::sleep(Duration::from_millis(self.rng.u64(milliseconds))).await;
    }

    fn any_node(&mut self) -> usize {
        self.rng.usize(..self.nodes.len())
    }

    fn any_worker(&mut self) -> usize {
        self.rng.usize(..self.workers.len())
    }

    /// The place of the leader's process, and its epoch.
    async fn leader(&mut self) -> Option<(usize, i64)> {
        let (name, epoch) = self.looking.leader().await?;
        Some((self.nodes.iter().position(|node| node.name == name)?, epoch))
    }

    /// False: there was nothing it could happen to.
    async fn inject(&mut self, class: FaultClass) -> anyhow::Result<bool> {
        match class {
            FaultClass::WorkerKilled => self.kill_worker().await,
            FaultClass::ServerKilled => self.kill_server().await,
            FaultClass::LeaderKilled => self.kill_leader().await,
            FaultClass::LeaderStopped => self.stop_leader().await,
            FaultClass::LeaderPaused => self.pause_leader().await,
            FaultClass::WorkerPaused => {
                let worker = self.any_worker();
                self.pause_worker(worker).await
            }
            FaultClass::BusyWorkerPaused => {
                let busiest = (0..self.workers.len()).max_by_key(|at| self.workers[*at].children());
                self.pause_worker(busiest.unwrap_or(0)).await
            }
            FaultClass::DatabaseRestarted => self.restart_database().await,
            FaultClass::BackendsTerminated => {
                let sql = "SELECT pg_terminate_backend(pid)::int FROM (SELECT pid FROM pg_stat_activity \
                           WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 8) chosen";
                Ok(self.looking.rows::<(i32,)>(sql).await.is_some_and(|rows| !rows.is_empty()))
            }
            FaultClass::EtcdKilled => {
                self.etcd.kill()?;
                self.pause(500..5_000).await;
                self.etcd.restart().await.map(|()| true)
            }
            FaultClass::EtcdWiped => self.etcd.wipe().await.map(|()| true),
            FaultClass::EtcdPaused => {
                self.etcd.pause()?;
                self.pause(1_000..6_000).await;
                self.etcd.resume().map(|()| true)
            }
            FaultClass::RedisKilled => {
                self.redis.kill()?;
                self.pause(200..4_000).await;
                self.redis.restart().await.map(|()| true)
            }
            FaultClass::RedisFlushed => flush(&self.redis.address()).await.map(|()| true),
            _ => self.cut(class).await,
        }
    }

    /// Faults of the ways between processes.
    async fn cut(&mut self, class: FaultClass) -> anyhow::Result<bool> {
        let (node, worker) = (self.any_node(), self.any_worker());
        let one_way = if self.rng.bool() { Passage::AnswersLost } else { Passage::RequestsLost };
        let both_ways = if self.rng.bool() { Passage::Silent } else { Passage::Refused };
        let lasts = Duration::from_millis(self.rng.u64(300..6_000));
        let (at, way) = (&self.nodes[node], self.rng.usize(..self.nodes.len()));
        let of_worker = &self.workers[worker].ways[way];
        match class {
            FaultClass::DatabaseCut => lose(&at.database, both_ways, lasts).await,
            FaultClass::DatabaseCutOneWay => lose(&at.database, one_way, lasts).await,
            FaultClass::DatabaseReset => at.database.cut_all(),
            FaultClass::EtcdCut => lose(&at.etcd, both_ways, lasts).await,
            FaultClass::EtcdCutOneWay => lose(&at.etcd, one_way, lasts).await,
            FaultClass::RedisCut => lose(&at.redis, both_ways, lasts).await,
            FaultClass::RedisCutOneWay => lose(&at.redis, one_way, lasts).await,
            FaultClass::WorkerCut => lose(of_worker, both_ways, lasts).await,
            FaultClass::WorkerAnswersLost => {
                for way in &self.workers[worker].ways {
                    way.set(Passage::AnswersLost);
                }
                tokio::time::sleep(lasts / 4).await;
                self.workers[worker].ways.iter().for_each(|way| way.set(Passage::Open));
            }
            _ => self.workers[worker].ways.iter().for_each(TcpProxy::cut_all),
        }
        Ok(true)
    }

    /// Kills a worker that executes something, and measures when that is claimed by another.
    async fn kill_worker(&mut self) -> anyhow::Result<bool> {
        let first = self.any_worker();
        for at in (0..self.workers.len()).map(|step| (first + step) % self.workers.len()) {
            let running = self.looking.running(&self.workers[at].name).await;
            if running.is_empty() {
                continue;
            }
            let killed = Instant::now();
            let orphans = self.workers[at].kill()?;
            self.orphans.extend(orphans);
            // It counts for all of them that one was found; what was ended in the same moment is not claimed again.
            let sql: Vec<String> = running.iter().map(claimed_again).collect();
            let took = self.looking.until_found(killed, &sql.join(" UNION ALL "), MEASURED_AT_MOST).await;
            self.times.worker_killed.extend(took);
            return self.workers[at].restart().map(|()| true);
        }
        let orphans = self.workers[first].kill()?;
        self.orphans.extend(orphans);
        self.workers[first].restart().map(|()| true)
    }

    async fn kill_server(&mut self) -> anyhow::Result<bool> {
        let node = self.any_node();
        let orphans = self.nodes[node].kill()?;
        self.orphans.extend(orphans);
        self.pause(0..3_000).await;
        self.nodes[node].restart().map(|()| true)
    }

    async fn kill_leader(&mut self) -> anyhow::Result<bool> {
        let Some((at, epoch)) = self.leader().await else { return Ok(false) };
        let killed = Instant::now();
        let orphans = self.nodes[at].kill()?;
        self.orphans.extend(orphans);
        self.next_fire(killed, epoch).await;
        self.nodes[at].restart().map(|()| true)
    }

    /// What the successor of this epoch fires first.
    async fn next_fire(&mut self, since: Instant, epoch: i64) {
        let taken = format!("SELECT 1 FROM terms WHERE epoch > {epoch} AND NOT released");
        if self.looking.until_found(since, &taken, MEASURED_AT_MOST).await.is_none() {
            return;
        }
        let Some(fires) = self.looking.number("SELECT count(*) FROM fires").await else { return };
        let more = format!("SELECT 1 FROM fires HAVING count(*) > {fires}");
        let took = self.looking.until_found(since, &more, MEASURED_AT_MOST).await;
        self.times.leader_killed.extend(took);
    }

    /// SIGTERM: leadership is handed over before the drain.
    async fn stop_leader(&mut self) -> anyhow::Result<bool> {
        let Some((at, epoch)) = self.leader().await else { return Ok(false) };
        let asked = Instant::now();
        kill(Pid::from_raw(self.nodes[at].process.pid() as i32), Signal::SIGTERM)?;
        let taken = format!("SELECT 1 FROM terms WHERE epoch > {epoch} AND NOT released");
        let took = self.looking.until_found(asked, &taken, MEASURED_AT_MOST).await;
        self.times.handed_over.extend(took);
        let node = &mut self.nodes[at];
        until("a server that was asked to stop stops", STOPS_WITHIN, async || node.process.ended()).await?;
        node.restart().map(|()| true)
    }

    async fn pause_leader(&mut self) -> anyhow::Result<bool> {
        let Some((at, _)) = self.leader().await else { return Ok(false) };
        self.nodes[at].process.pause()?;
        tokio::time::sleep(LEASE).await;
        self.pause(500..2_500).await;
        self.nodes[at].process.resume().map(|()| true)
    }

    async fn pause_worker(&mut self, at: usize) -> anyhow::Result<bool> {
        self.workers[at].process.pause()?;
        tokio::time::sleep(LEASE).await;
        self.pause(500..2_500).await;
        self.workers[at].process.resume().map(|()| true)
    }

    async fn restart_database(&mut self) -> anyhow::Result<bool> {
        self.postgres.restart().await?;
        let back = Instant::now();
        // The first question finds that the connection is broken.
        let mut now = None;
        while now.is_none() && back.elapsed() < MEASURED_AT_MOST {
            now = self.looking.number("SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint").await;
        }
        let Some(now) = now else { return Ok(true) };
        let claimed = format!(
            "SELECT 1 FROM task_runs WHERE started_at > {now} UNION ALL SELECT 1 FROM history WHERE started_at > {now} LIMIT 1"
        );
        let took = self.looking.until_found(back, &claimed, MEASURED_AT_MOST).await;
        self.times.database_back.extend(took);
        Ok(true)
    }
}

async fn lose(way: &TcpProxy, passage: Passage, lasts: Duration) {
    way.set(passage);
    tokio::time::sleep(lasts).await;
    way.set(Passage::Open);
}

async fn flush(redis: &str) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(redis).await?;
    stream.write_all(b"*1\r\n$8\r\nFLUSHALL\r\n").await?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await?;
    anyhow::ensure!(&answer == b"+OK\r\n", "Redis answered {answer:?}");
    Ok(())
}
