//! `mainspring worker`: executes for servers elsewhere, over the protocol that any worker can speak.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use clap::Args;
use mainspring_engine::SystemClock;
use mainspring_server::ProbeServer;
use mainspring_telemetry::Metrics;
use mainspring_worker::{LinkSetupError, Pool, PoolConfig, Registry, RemoteConfig, RemoteError, RemoteWorker};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::api::Endpoints;
use crate::app::{App, hostname};
use crate::commands::server::TRACES_PATIENCE;
use crate::config::Flag;
use crate::failure::{Exit, Failure, Result, cause};
use crate::signals::Signals;

/// Log chunks that may wait for a server before tasks that print are slowed down.
const LOG_CHANNEL: usize = 1_024;
/// Where probes are answered unless METRICS_PORT says otherwise.
const PROBE_PORT: u16 = 9_091;
/// The name that `/healthz` gives.
const SERVICE: &str = "mainspring-worker";

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Queues to serve [default: all]
    #[arg(long, value_name = "QUEUES")]
    queues: Option<String>,
    /// Labels of this worker
    #[arg(long, value_name = "KEY=VALUE,…")]
    labels: Option<String>,
    /// How many processes run at once
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// How many tasks it holds beyond its slots, which hides the way to the server [default: half of the slots]
    #[arg(long, value_name = "N")]
    prefetch: Option<u32>,
    /// Its name [env: WORKER_ID] [default: host name and process id]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// How log lines are written: text or json [default: text on a terminal, otherwise json]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl WorkerArgs {
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let slots = self.slots.map(|slots| slots.to_string());
        [
            ("worker.queues", "queues", &self.queues),
            ("worker.labels", "labels", &self.labels),
            ("worker.slots", "slots", &slots),
            ("worker.id", "id", &self.id),
            ("log.format", "log-format", &self.log_format),
        ]
        .into_iter()
        .filter_map(|(key, flag, value)| Some(Flag { key, flag, value: value.clone()? }))
        .collect()
    }
}

pub(crate) async fn worker(app: &App<'_>, args: WorkerArgs) -> Result {
    app.start_server_logs();
    let mut signals = Signals::install()?;
    let endpoints = Endpoints::choose(app)?;
    let registry = registry(app);
    let config = config(app, &args, endpoints, &registry)?;
    let (completions, finished) = mpsc::unbounded_channel();
    let (logs, chunks) = mpsc::channel(LOG_CHANNEL);
    let clock = Arc::new(SystemClock::new());
    let metrics = Metrics::default();
    let tracer = app.tracer(SERVICE, &config.worker_id)?;
    let pool_config = PoolConfig { tracer: tracer.clone(), metrics: Some(metrics.clone()), ..app.pool_config() };
    let pool = Pool::start(pool_config, clock.clone(), registry, completions, logs)
        .map_err(|error| Failure::failed(error.to_string()))?;
    tracing::info!(worker = config.worker_id, servers = config.servers.join(","), slots = config.slots[0], "starting");
    let shown = config.worker_id.clone();
    let worker = RemoteWorker::new(config, pool.clone(), clock, finished, chunks).map_err(failure)?;
    let probes = probes(app, &metrics).await?;
    match &probes {
        Some(probes) => {
            app.out.line(format_args!("worker {shown} answers probes on http://{}/healthz", probes.address()))
        }
        None => app.out.line(format_args!("worker {shown} started")),
    }
    let stop = CancellationToken::new();
    let mut running = tokio::spawn(worker.run(stop.clone()));
    let ended = tokio::select! {
        ended = &mut running => ended,
        signal = signals.next() => {
            tracing::info!(signal, "stopping");
            stop.cancel();
            tokio::select! {
                ended = &mut running => ended,
                signal = signals.next() => {
                    tracing::warn!(signal, "stopping at once; what runs is killed and done again elsewhere");
                    std::process::exit(Exit::Interrupted as i32);
                }
            }
        }
    };
    pool.shutdown(std::time::Duration::ZERO).await;
    tracer.shutdown(TRACES_PATIENCE).await;
    match ended {
        Ok(Ok(())) => Ok(Exit::Success),
        Ok(Err(error)) => Err(failure(error)),
        Err(_) => Err(Failure::failed("the worker has stopped unexpectedly")),
    }
}

fn config(app: &App<'_>, args: &WorkerArgs, endpoints: Endpoints, registry: &Registry) -> Result<RemoteConfig> {
    let settings = &app.config.worker;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let process = settings.slots.unwrap_or(cores * 4);
    let count = |slots: usize| u32::try_from(slots).unwrap_or(u32::MAX);
    let hostname = hostname();
    // Remote tasks are for workers that have their handler: taken by one that has not, they would only fail.
    let remote = if settings.serves_remote { settings.function_slots } else { 0 };
    Ok(RemoteConfig {
        servers: endpoints.servers,
        token: endpoints.token,
        authority: endpoints.authority,
        worker_id: settings.id.clone().unwrap_or_else(|| format!("{hostname}-{}", std::process::id())),
        hostname,
        queues: settings.queues.clone(),
        labels: settings.labels.clone(),
        slots: [count(process), count(settings.function_slots), count(remote)],
        prefetch: args.prefetch.unwrap_or_else(|| count(process) / 2),
        handlers: registry.names().into_iter().map(ToOwned::to_owned).collect(),
        shutdown_timeout: app.config.shutdown_timeout,
    })
}

/// Where `/metrics` and `/healthz` are answered: as METRICS_PORT says, else on the usual port, if that is free.
async fn probes(app: &App<'_>, metrics: &Metrics) -> Result<Option<ProbeServer>> {
    let metrics = metrics.clone();
    match app.config.metrics_listen {
        Some(address) => ProbeServer::start(address, metrics, SERVICE).await.map(Some).map_err(|error| {
            Failure::bad_input(format!("cannot listen on {address}: {}", cause(&error)))
                .remedy("choose another port with METRICS_PORT; 0 takes a free one")
        }),
        None => {
            let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PROBE_PORT);
            match ProbeServer::start(address, metrics, SERVICE).await {
                Ok(probes) => Ok(Some(probes)),
                Err(error) => {
                    tracing::warn!(%address, %error, "no port for probes; set METRICS_PORT to choose one");
                    Ok(None)
                }
            }
        }
    }
}

/// The functions that tasks may call here. Those that need the store are the server's.
fn registry(app: &App<'_>) -> Registry {
    let mut builder = Registry::builder();
    if let Some(smtp) = &app.config.smtp {
        builder = builder.smtp(smtp.clone());
    }
    builder.build()
}

fn failure(error: RemoteError) -> Failure {
    let text = error.to_string();
    match error {
        RemoteError::Link(LinkSetupError::Url(_)) => Failure::bad_input(text).remedy("give --server URL[,URL…]"),
        RemoteError::Link(_) => Failure::bad_input(text),
        RemoteError::Refused(_) => Failure::bad_input(text)
            .remedy("make a token for workers with `mainspring tokens create --role worker` and set MAINSPRING_TOKEN"),
    }
}
