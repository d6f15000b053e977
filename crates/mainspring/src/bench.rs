//! `mainspring bench`: the workloads that show what a database and a machine can carry.

mod desk;
mod http;
mod latency;
mod report;
mod retention;
mod schedules;
mod workloads;

use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use mainspring_engine::{Client, SystemClock};
use mainspring_store::{Connect, Store};
use mainspring_telemetry::Metrics;

use self::schedules::TriggerOwner;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// No-op tasks in runs of 100, submitted first; then the time from starting the node to the last task finished.
    Drain,
    /// The same with runs of one task.
    Jobs,
    /// One run of sequential no-op tasks: submit to run finished, median of 5.
    Chain,
    /// One run 1 → N → 1 of no-op tasks.
    Fanout,
    /// An idle system and one no-op job every 20 ms: submit begins to handler starts.
    Latency,
    /// Submitting one-task runs, in batches of 1,000 and one by one.
    Enqueue,
    /// A chain of 40 and a fan-out of N with `run: "true"`.
    Shell,
    /// Triggers over HTTP, by one client and by 32.
    HttpTrigger,
    /// Lists of 20 runs beside many (--beside), without and with a count.
    HttpList,
    /// One-task runs over HTTP, 1,000 in a request.
    Bulk,
    /// N cron triggers that are due in the same second: until all have fired.
    Schedules,
    /// N failing runs, their entries, and one batch that retries them all.
    DeadLetters,
    /// N open runs, a tenth of them stale: a dry run of the detector, four calls at once, one call.
    Staleness,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure
    #[arg(long, value_enum)]
    workload: Workload,
    /// How many tasks (drain, jobs, enqueue, fanout, shell), links (chain), jobs (latency) or triggers (schedules)
    #[arg(long)]
    n: Option<usize>,
    /// Lanes of the node
    #[arg(long, default_value_t = 2)]
    lanes: usize,
    /// HTTP list only: how many runs there are
    #[arg(long, default_value_t = 1_000_000)]
    beside: usize,
    /// HTTP trigger only: a node executes what is triggered
    #[arg(long)]
    with_node: bool,
    /// Drain and jobs only: hold an old snapshot open meanwhile, as a dump or an analyst would (PostgreSQL)
    #[arg(long)]
    held_snapshot: bool,
    /// Drain and jobs only: this many ended runs are beyond their retention and are deleted meanwhile
    #[arg(long, value_name = "RUNS", conflicts_with = "held_snapshot")]
    retention: Option<usize>,
    /// Count nothing: what the metrics cost is the difference to the same workload without this
    #[arg(long)]
    without_metrics: bool,
    /// Schedules only: N triggers in every second of a minute, and how late they are
    #[arg(long, conflicts_with = "idle")]
    steady: bool,
    /// With --steady: each trigger has a workflow of its own that allows one run at a time, as jobs do
    #[arg(long, requires = "steady")]
    limited: bool,
    /// Schedules only: N triggers, none due, against 1,000
    #[arg(long)]
    idle: bool,
}

/// Runs one workload on a database that should hold nothing else and prints one JSON line per result.
pub(crate) async fn run(database: &str, args: BenchArgs) -> anyhow::Result<()> {
    let store = Store::connect(&Connect::new(database)).await.context("connecting")?;
    let clock = Arc::new(SystemClock::new());
    let metrics = if args.without_metrics { Metrics::off() } else { Metrics::default() };
    let client = Client::new(store, clock).with_metrics(metrics);
    client.store().migrate_up(client.now()).await.context("migrating")?;
    let _lock = client.store().lock_server()?;
    let bench = workloads::Bench { database: database.to_owned(), client, lanes: args.lanes };
    match args.workload {
        Workload::Drain | Workload::Jobs => {
            let (n, per_run) = if args.workload == Workload::Drain { (200_000, 100) } else { (100_000, 1) };
            let n = args.n.unwrap_or(n);
            match args.retention {
                Some(old) => bench.drain_beside_retention(n, per_run, old).await,
                None => bench.drain(n, per_run, args.held_snapshot).await,
            }
        }
        Workload::Chain => bench.chain(args.n.unwrap_or(40)).await,
        Workload::Fanout => bench.fanout(args.n.unwrap_or(1_000)).await,
        Workload::Latency => bench.latency(args.n.unwrap_or(500)).await,
        Workload::Enqueue => bench.enqueue(args.n.unwrap_or(100_000)).await,
        Workload::Shell => bench.shell(args.n.unwrap_or(1_000)).await,
        Workload::HttpTrigger => bench.http_trigger(args.n.unwrap_or(20_000), args.with_node).await,
        Workload::HttpList => bench.http_list(args.n.unwrap_or(1_000), args.beside).await,
        Workload::Bulk => bench.bulk(args.n.unwrap_or(100_000)).await,
        Workload::Schedules if args.steady => {
            let of = if args.limited { TriggerOwner::Jobs } else { TriggerOwner::Workflows };
            bench.schedules_steady(args.n.unwrap_or(1_000), of).await
        }
        Workload::Schedules if args.idle => bench.schedules_idle(args.n.unwrap_or(1_000_000)).await,
        Workload::DeadLetters => bench.dead_letters(args.n.unwrap_or(10_000)).await,
        Workload::Staleness => bench.staleness(args.n.unwrap_or(10_000)).await,
        Workload::Schedules => bench.schedules(args.n.unwrap_or(100_000)).await,
    }
}
