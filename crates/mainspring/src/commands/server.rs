//! `mainspring server`: a node that serves until it is stopped.

use std::time::{Duration, Instant};

use clap::Args;
use mainspring_engine::Client;
use mainspring_server::{Api, HttpListener, HttpServer, ProbeServer, Settings, Token};
use mainspring_telemetry::Metrics;
use mainspring_worker::PoolConfig;

use crate::app::App;
use crate::config::{Config, Flag, Role};
use crate::database;
use crate::descriptors;
use crate::failure::{Exit, Failure, Result, cause};
use crate::first_start;
use crate::local::LocalNode;
use crate::signals::Signals;

/// The last spans may take so long when the server stops.
pub(crate) const TRACES_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Address and port; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Address and port of a second listener with /metrics and /healthz, for scrapers, without tokens
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// What this node does [default: api,scheduler,worker]
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
    /// How many processes run at once
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Queues to serve [default: all]
    #[arg(long, value_name = "QUEUES")]
    queues: Option<String>,
    /// Labels of this worker
    #[arg(long, value_name = "KEY=VALUE,…")]
    labels: Option<String>,
    /// Redis, for wake-ups and events: redis://HOST:6379 [env: REDIS_URL]
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Endpoints of etcd, for quicker failover: http://HOST:2379,… [env: ETCD_ENDPOINTS]
    #[arg(long, value_name = "URL,…")]
    etcd: Option<String>,
    /// How log lines are written: text or json [default: text on a terminal, otherwise json]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl ServerArgs {
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let slots = self.slots.map(|slots| slots.to_string());
        [
            ("server.listen", "listen", &self.listen),
            ("metrics.listen", "metrics-listen", &self.metrics_listen),
            ("server.roles", "roles", &self.roles),
            ("worker.slots", "slots", &slots),
            ("worker.queues", "queues", &self.queues),
            ("worker.labels", "labels", &self.labels),
            ("redis.url", "redis", &self.redis),
            ("etcd.endpoints", "etcd", &self.etcd),
            ("log.format", "log-format", &self.log_format),
        ]
        .into_iter()
        .filter_map(|(key, flag, value)| Some(Flag { key, flag, value: value.clone()? }))
        .collect()
    }
}

pub(crate) async fn server(app: &App<'_>) -> Result {
    app.start_server_logs();
    serve(app, false, async |_| std::future::pending().await).await
}

/// Serves until it is stopped, and does something beside it. `signs_in` prints an address that signs in at every
/// start, not only at the first one: for a server on the machine of its user.
pub(crate) async fn serve(app: &App<'_>, signs_in: bool, beside: impl AsyncFnOnce(Client)) -> Result {
    let mut signals = Signals::install()?;
    let starting = tokio::select! {
        started = start(app, signs_in) => started?,
        signal = signals.next() => {
            tracing::info!(signal, "stopping before anything was started");
            return Ok(Exit::Interrupted);
        }
    };
    let Running { client, node, http, lock, first_token, code, probe } = starting;
    if let Some(probe) = &probe {
        tracing::info!(address = %probe.address(), "metrics and probes");
    }
    if let Some(http) = &http {
        let scheme = if app.config.api.tls.is_some() { "https" } else { "http" };
        app.out.line(format_args!("listening on {scheme}://{}", http.address()));
        if let Some(token) = first_token {
            first_start::hand_over(app, &token);
        }
        if let Some(code) = code {
            app.out.line(format_args!("open {scheme}://{}/ui/#code={code}", http.address()));
            app.out.note("that address signs in once and within five minutes; `mainspring ui` prints another");
        }
    }
    let tracer = client.tracer().clone();
    let zones = tokio::spawn(crate::zones::keep_up_to_date(client.clone()));
    let signal = tokio::select! {
        signal = signals.next() => signal,
        failure = stopped(http.as_ref()) => {
            tracing::error!(failure, "the HTTP server has stopped");
            "failure"
        }
        () = beside(client) => "end",
    };
    zones.abort();
    let started = Instant::now();
    tracing::info!(signal, timeout = ?app.config.shutdown_timeout, running = node.handle().held(), "draining");
    if let Some(http) = &http {
        http.drain();
    }
    // Leadership is released first, then the node drains. A supervisor may repeat its SIGTERM; a person who has no patience
    // presses Ctrl-C again.
    tokio::select! {
        () = node.shutdown(app.config.shutdown_timeout) => {}
        () = signals.interrupted() => {
            tracing::warn!("stopping at once; what runs is killed and done again elsewhere");
            std::process::exit(Exit::Interrupted as i32);
        }
    }
    if let Some(http) = http {
        http.shutdown(Duration::from_secs(2)).await;
    }
    tracer.shutdown(TRACES_PATIENCE).await;
    drop(lock);
    tracing::info!(duration_ms = started.elapsed().as_millis() as u64, "stopped");
    Ok(if signal == "failure" { Exit::WorkFailed } else { Exit::Success })
}

struct Running {
    client: Client,
    node: LocalNode,
    http: Option<HttpServer>,
    /// Made because there was none.
    first_token: Option<Token>,
    /// Signs in to the web interface once.
    code: Option<String>,
    lock: Option<mainspring_store::ServerLock>,
    probe: Option<ProbeServer>,
}

async fn start(app: &App<'_>, signs_in: bool) -> Result<Running> {
    let config = &app.config;
    // The port first: an address that is taken is noticed before anything is claimed.
    let listener = match config.roles.contains(&Role::Api) {
        true => Some(listen(config).await?),
        false => None,
    };
    let metrics = Metrics::default();
    let probe = probe(config, &metrics).await?;
    app.ensure_secrets_key()?;
    first_start::vault(config)?;
    let store = database::connect_patiently(config).await?;
    let tracer = app.tracer(service(config), &app.node_config().name)?;
    let client = app.coordinated(app.client(store)?.with_metrics(metrics).with_tracer(tracer)).await?;
    let lock = client.store().lock_server()?;
    database::prepare(client.store(), client.now(), lock.is_some()).await?;
    let mut node_config = app.node_config();
    node_config.address = listener.as_ref().map(|listener| listener.address().to_string());
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    tracing::info!(
        worker = node_config.name,
        database = database::shown(&config.database),
        slots = node_config.process_slots,
        roles = node_config.roles.join(","),
        coordination = client.coordination(),
        "starting"
    );
    let registry = app.registry(&client);
    let client = client.with_handlers(registry.names().into_iter().map(ToOwned::to_owned));
    // What can go wrong at the start does so before anything is claimed.
    let (mut api, mut first_token, mut code) = (None, None, None);
    if let Some(listener) = listener {
        let settings = Settings { connections: descriptors::raise(), ..app.api_settings() };
        let served = Api::new(client.clone(), settings).map_err(Failure::bad_input)?;
        first_token = served.first_token().await.map_err(|problem| match problem.status().as_u16() {
            503 => Failure::unreachable("the database went away while the server started"),
            _ => Failure::failed(problem.detail()),
        })?;
        let left = if signs_in { first_start::left_token(app) } else { None };
        if let Some(token) = first_token.as_ref().or(left.as_ref()) {
            // A token of another database makes no code; that is no reason not to start.
            code = served.sign_in_code(token).await.ok();
        }
        api = Some((listener, served));
    }
    // On a developer's machine the author of the tasks is the user who started the server.
    let pool = if signs_in { app.pool_config() } else { app.server_pool_config()? };
    let pool = PoolConfig { tracer: client.tracer().clone(), ..pool };
    let node = LocalNode::start(client.clone(), node_config, pool, registry).await?;
    let http = api.map(|(listener, api)| listener.serve(api));
    Ok(Running { client, node, http, first_token, code, lock, probe })
}

/// The listener of scrapers, if one is wanted. It answers before the database does.
/// What this process is, to those who watch it.
fn service(config: &Config) -> &'static str {
    match (config.roles.contains(&Role::Api), config.roles.contains(&Role::Scheduler)) {
        (true, _) => "mainspring-api",
        (false, true) => "mainspring-scheduler",
        (false, false) => "mainspring-worker",
    }
}

async fn probe(config: &Config, metrics: &Metrics) -> Result<Option<ProbeServer>> {
    let Some(address) = config.metrics_listen else { return Ok(None) };
    ProbeServer::start(address, metrics.clone(), service(config)).await.map(Some).map_err(|error| {
        Failure::bad_input(format!("cannot listen on {address}: {}", cause(&error)))
            .remedy("choose another address with --metrics-listen; port 0 takes a free one")
    })
}

async fn listen(config: &Config) -> Result<HttpListener> {
    let listener = HttpServer::bind(config.listen).await.map_err(|error| {
        Failure::bad_input(format!("cannot listen on {}: {}", config.listen, cause(&error)))
            .remedy("choose another address with --listen; port 0 takes a free one")
    })?;
    match &config.api.tls {
        Some(files) => listener.with_tls(files).map_err(Failure::bad_input),
        None => {
            if !config.listen.ip().is_loopback() {
                tracing::warn!(
                    listen = %config.listen,
                    "other machines can connect, and tokens pass in plain text: set server.tls, or put a proxy with TLS before it"
                );
            }
            Ok(listener)
        }
    }
}

/// Returns only if the HTTP server ends by itself.
async fn stopped(http: Option<&HttpServer>) -> String {
    match http {
        Some(http) => http.stopped().await,
        None => std::future::pending().await,
    }
}
