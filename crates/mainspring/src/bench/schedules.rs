//! Schedules: how fast many fire that are due in the same second, how late each one is at a steady rate, and what those cost
//! that are not due.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mainspring_core::Micros;
use mainspring_core::schedule::Fire;
use mainspring_core::workflow::{Trigger, Workflow};
use mainspring_engine::{NodeConfig, TimekeepingStatus};
use mainspring_store::{NewTrigger, Store, Term};
use mainspring_worker::PoolConfig;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::latency::EVERY;
use super::report::{Report, median, percentile};
use super::workloads::Bench;
use crate::local::{LocalNode, watchdog_command};

const SECOND: Micros = 1_000_000;
/// Writing workflows down takes time: at least this many a second.
const WORKFLOWS_PER_SECOND: usize = 200;
/// How often, and over how many ticks of the loop each, the idle cost is measured.
const WHILES: usize = 60;
const TURNS: u64 = 20;
const STEADY_SECONDS: usize = 60;
const FEW: usize = 1_000;
/// No worker serves it: what is measured is the firing.
const QUEUE: &str = "nobody";

/// Whose triggers are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TriggerOwner {
    /// A hundred each.
    Workflows,
    /// One each, with one open run at a time.
    Jobs,
}

impl TriggerOwner {
    fn per_workflow(self) -> usize {
        match self {
            Self::Workflows => 100,
            Self::Jobs => 1,
        }
    }

    fn limit(self) -> &'static str {
        match self {
            Self::Workflows => "",
            Self::Jobs => "concurrency: {limit: 1, overlap: skip}\n",
        }
    }
}

impl Bench {
    /// All of `n` triggers are due in one second.
    pub(crate) async fn schedules(&self, n: usize) -> anyhow::Result<()> {
        // The same number of runs, submitted: what firing is compared with.
        let submitted = self.enqueue_batched(n).await?;
        // Time enough to write them all down and to lead.
        let due = self.soon(n, TriggerOwner::Workflows);
        self.seed(n, TriggerOwner::Workflows, &|_| due).await?;
        let node = self.scheduling_node(Duration::from_secs(1)).await?;
        // Writing them down may have taken longer than was thought.
        let began = due.max(self.client.clock().wall());
        let status = wait(&node, |status| status.fired as usize >= n).await?;
        let took = Duration::from_micros(u64::try_from(self.client.clock().wall() - began).unwrap_or(0));
        ensure!(status.fired as usize == n, "{} fires instead of {n}", status.fired);
        let fired: i64 = self.client.store().fire_counts().await?.iter().map(|count| count.1).sum();
        let runs: i64 = self.client.store().run_counts().await?.iter().map(|count| count.runs).sum();
        ensure!((fired, runs) == (n as i64, 2 * n as i64), "{fired} rows and {runs} runs instead of {n} and {}", 2 * n);
        let rate = n as f64 / took.as_secs_f64();
        let of_enqueue = rate / (n as f64 / submitted.as_secs_f64());
        Report::new("schedules", n, took).with("of_enqueue", json!(of_enqueue)).print();
        node.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }

    /// This many due in every second of a minute: how late they are, and what a bare commit takes at the same time.
    pub(crate) async fn schedules_steady(&self, per_second: usize, of: TriggerOwner) -> anyhow::Result<()> {
        let n = per_second * STEADY_SECONDS;
        let first = self.soon(n, of);
        self.seed(n, of, &|at| first + (at % STEADY_SECONDS) as i64 * SECOND).await?;
        let node = self.scheduling_node(Duration::from_secs(1)).await?;
        let mut commits = Vec::new();
        let started = Instant::now();
        let status = tokio::select! {
            status = wait(&node, |status| status.fired as usize >= n) => status?,
            failed = self.paced_commits(&mut commits) => match failed? {},
        };
        let took = started.elapsed();
        let mut lags: Vec<Duration> = Vec::with_capacity(n);
        for (millis, count) in status.lags.iter().enumerate() {
            // A lag in whole milliseconds was up to one more.
            lags.extend(std::iter::repeat_n(Duration::from_millis(millis as u64 + 1), *count as usize));
        }
        let worst = lags.last().copied().unwrap_or_default();
        commits.sort_unstable();
        Report::new(if of == TriggerOwner::Jobs { "schedules_lag_of_jobs" } else { "schedules_lag" }, n, took)
            .with_percentiles(&mut lags)
            .with("worst_ms", json!(worst.as_secs_f64() * 1_000.0))
            .with("histogram_10_ms", json!(histogram(&status.lags)))
            .with("made_ahead", json!(status.made_ahead))
            .with("commit_p99_ms", json!(percentile(&commits, 0.99)))
            .with("commit_worst_ms", json!(percentile(&commits, 1.0)))
            .print();
        node.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }

    /// Nothing is due for a year: what looking costs with a thousand triggers, and with `n`.
    pub(crate) async fn schedules_idle(&self, n: usize) -> anyhow::Result<()> {
        let far = self.client.clock().wall() + 365 * 86_400 * SECOND;
        self.seed(FEW, TriggerOwner::Workflows, &|_| far).await?;
        let few = self.idle_turn().await?;
        self.seed(n.saturating_sub(FEW), TriggerOwner::Workflows, &|_| far).await?;
        let many = self.idle_turn().await?;
        let ratio = |many: Duration, few: Duration| json!(many.as_secs_f64() / few.as_secs_f64().max(1e-9));
        Report::new("schedules_idle", n, many.median)
            .with("turn_us", json!(many.median.as_micros() as u64))
            .with("turn_us_of_1000", json!(few.median.as_micros() as u64))
            .with("of_1000", ratio(many.median, few.median))
            .with("mean_of_1000", ratio(many.mean, few.mean))
            .with("more_memory_mb", json!((many.resident - few.resident) as f64 / 1e6))
            .print();
        Ok(())
    }

    /// What one look of the loop costs. A database that has just taken a million rows tidies up, which slows some looks
    /// down: the median of many whiles leaves those out, the mean does not.
    async fn idle_turn(&self) -> anyhow::Result<Idle> {
        let node = self.scheduling_node(Duration::from_millis(5)).await?;
        let warm = wait(&node, |status| status.turns >= 5 * TURNS).await?;
        let (mut last, mut whiles) = (warm.clone(), Vec::with_capacity(WHILES));
        for _ in 0..WHILES {
            let end = wait(&node, |status| status.turns >= last.turns + TURNS).await?;
            whiles.push(per_turn(&last, &end));
            last = end;
        }
        let resident = resident()?;
        node.shutdown(Duration::from_secs(5)).await;
        Ok(Idle { median: median(&mut whiles), mean: per_turn(&warm, &last), resident })
    }

    async fn scheduling_node(&self, interval: Duration) -> anyhow::Result<LocalNode> {
        let config = NodeConfig {
            name: "bench".into(),
            lanes: self.lanes,
            queues: vec!["somebody".into()],
            schedule_interval: interval,
            ..NodeConfig::default()
        };
        let pool = PoolConfig { watchdog: watchdog_command(), ..PoolConfig::default() };
        LocalNode::start(self.client.clone(), config, pool, mainspring_worker::Registry::default()).await
    }

    /// A second before which the triggers are written down and a node leads.
    fn soon(&self, n: usize, of: TriggerOwner) -> Micros {
        let seconds = 8 + n.div_ceil(of.per_workflow()) / WORKFLOWS_PER_SECOND;
        (self.client.clock().wall() / SECOND + seconds as i64) * SECOND
    }

    /// Writes down `n` cron triggers, each due at a given time.
    async fn seed(&self, n: usize, of: TriggerOwner, due: &dyn Fn(usize) -> Micros) -> anyhow::Result<()> {
        let now = self.client.clock().wall();
        let (per_workflow, limit) = (of.per_workflow(), of.limit());
        let mut batch: Vec<NewTrigger> = Vec::new();
        let mut known: HashMap<Micros, Trigger> = HashMap::new();
        for workflow in 0..n.div_ceil(per_workflow) {
            let source =
                format!("name: bench-{now}-{workflow}\n{limit}tasks:\n  t: {{function: noop, queue: {QUEUE}}}\n");
            let spec = self.workflow(&source).await?;
            for at in workflow * per_workflow..((workflow + 1) * per_workflow).min(n) {
                let nominal = due(at);
                if let Entry::Vacant(unknown) = known.entry(nominal) {
                    unknown.insert(daily(nominal)?);
                }
                batch.push(NewTrigger {
                    workflow_id: spec.version.workflow_id,
                    namespace: "default".into(),
                    trigger: Trigger { id: format!("t{}", at % per_workflow), ..known[&nominal].clone() },
                    next: Some(Fire { nominal, fire_at: nominal }),
                });
            }
            if batch.len() >= 5_000 {
                self.client.store().insert_triggers(now, &std::mem::take(&mut batch)).await?;
            }
        }
        Ok(self.client.store().insert_triggers(now, &batch).await?)
    }

    /// How long a bare commit takes, tried every 20 ms: no fire can be faster than that.
    async fn paced_commits(&self, took: &mut Vec<Duration>) -> anyhow::Result<Infallible> {
        let mut bare = CommitFloor::of(self).await?;
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            let began = Instant::now();
            bare.commit().await?;
            took.push(began.elapsed());
        }
    }
}

/// The least that a commit is.
enum CommitFloor {
    /// A row of the same database.
    Row(Store, Term),
    /// On SQLite that would wait for its turn among the fires: a page of a file beside it, which no other code sees.
    Page(tokio::fs::File),
}

impl CommitFloor {
    async fn of(bench: &Bench) -> anyhow::Result<Self> {
        let (store, clock) = (bench.client.store(), bench.client.clock());
        if !store.fire_policy().writes_alone {
            let row = store.take_term("bench", clock.new_id(), clock.new_id(), None).await?;
            return Ok(Self::Row(store.clone(), row.context("the row of the benchmark is locked")?));
        }
        let path = bench.database.trim_start_matches("sqlite:").trim_start_matches("//");
        let path = format!("{}-beside", path.split('?').next().unwrap_or(path));
        let file = tokio::fs::File::create(&path).await.with_context(|| format!("making {path}"))?;
        tokio::fs::remove_file(&path).await?;
        Ok(Self::Page(file))
    }

    async fn commit(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Row(store, row) => _ = store.beat_term(row).await?,
            Self::Page(file) => {
                file.write_all(&[0; 4_096]).await?;
                file.sync_data().await?;
            }
        }
        Ok(())
    }
}

/// What a loop costs that has nothing to fire: time per look, and bytes of memory.
struct Idle {
    median: Duration,
    mean: Duration,
    resident: i64,
}

fn per_turn(begin: &TimekeepingStatus, end: &TimekeepingStatus) -> Duration {
    (end.busy - begin.busy) / u32::try_from(end.turns - begin.turns).unwrap_or(u32::MAX).max(1)
}

/// How many were less than 10 ms late, less than 20 ms, and so on, up to the last that was.
fn histogram(lags: &[u64]) -> Vec<u64> {
    let mut counts: Vec<u64> = lags.chunks(10).map(|millis| millis.iter().sum()).collect();
    counts.truncate(counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1));
    counts
}

/// A trigger that fires at this time of every day.
fn daily(at: Micros) -> anyhow::Result<Trigger> {
    let seconds = at.div_euclid(SECOND).rem_euclid(86_400);
    let cron = format!("{} {} {} * * *", seconds % 60, seconds / 60 % 60, seconds / 3_600);
    let yaml = format!("{{name: bench, triggers: [{{cron: '{cron}'}}]}}");
    let workflow: Workflow =
        mainspring_core::parse(&yaml).map_err(|errors| anyhow::anyhow!("{}", errors.display("bench")))?;
    workflow.triggers.into_iter().next().context("the benchmark's own trigger is missing")
}

async fn wait(node: &LocalNode, enough: impl Fn(&TimekeepingStatus) -> bool) -> anyhow::Result<TimekeepingStatus> {
    let deadline = Instant::now() + Duration::from_secs(600);
    loop {
        let status = node.handle().timekeeping();
        if enough(&status) {
            return Ok(status);
        }
        ensure!(
            Instant::now() < deadline,
            "the loop does not come so far: {} fired in {} turns",
            status.fired,
            status.turns
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What this process holds in memory, in bytes.
fn resident() -> anyhow::Result<i64> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading how much memory is held")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("the kernel tells no VmRSS")?;
    let kilobytes: i64 = line.split_whitespace().nth(1).context("VmRSS has no number")?.parse()?;
    Ok(kilobytes * 1024)
}
