//! What every command that touches a store works with.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::diagnostic::quoted;
use mainspring_engine::{Client, NodeConfig, SystemClock};
use mainspring_store::{Operator, Store};
use mainspring_telemetry::{TraceSettings, Tracer};
use mainspring_worker::http::{Guard, HttpConfig};
use mainspring_worker::{DEFAULT_ENVIRONMENT, PoolConfig, Registry};

use crate::cli::Common;
use crate::config::{Config, LogFormat, Role};
use crate::failure::{Failure, Result};
use crate::first_start;
use crate::host::StoreHost;
use crate::isolation::Isolation;
use crate::local::watchdog_command;
use crate::output::Output;
use crate::telemetry;

pub(crate) struct App<'a> {
    pub(crate) config: Config,
    pub(crate) namespace: Option<String>,
    pub(crate) out: &'a Output,
    /// `--server`.
    pub(crate) server: Option<String>,
    pub(crate) profile: Option<String>,
    /// Whether `--database` was given.
    pub(crate) names_database: bool,
    verbose: u8,
}

/// What is amiss. What became of an event is in the answer of the command that announced it.
const USUAL_OF_COMMANDS: &str = "warn,mainspring_engine::events::event_delivery=error";

impl<'a> App<'a> {
    pub(crate) fn new(config: Config, common: Common, out: &'a Output) -> Result<Self> {
        if let Some(namespace) = &common.namespace {
            require_name("namespace", namespace)?;
        }
        Ok(Self {
            config,
            namespace: common.namespace,
            out,
            server: common.server,
            profile: common.profile,
            names_database: common.database.is_some(),
            verbose: common.verbose,
        })
    }

    /// Starts logging for a command: text, and only what is amiss.
    pub(crate) fn start_logs(&self) {
        self.start_logs_as(USUAL_OF_COMMANDS, LogFormat::Text);
    }

    /// Starts logging for a server: JSON unless it runs on a terminal.
    pub(crate) fn start_server_logs(&self) {
        let is_watched = std::io::stderr().is_terminal();
        self.start_logs_as("info", if is_watched { LogFormat::Text } else { LogFormat::Json });
    }

    fn start_logs_as(&self, usual: &str, usual_format: LogFormat) {
        let level = match (self.out.quiet, self.verbose, &self.config.log_level) {
            (true, _, _) => "error",
            (_, 0, Some(level)) => level,
            (_, 0, None) => usual,
            (_, 1, _) if usual == USUAL_OF_COMMANDS => "info",
            (_, 1, _) => "debug,sqlx=warn",
            _ => "trace,sqlx=info",
        };
        let format = self.config.log_format.unwrap_or(usual_format);
        telemetry::start(level, format, self.out.error_palette());
    }

    pub(crate) fn client(&self, store: Store) -> Result<Client> {
        let client = Client::new(store, Arc::new(SystemClock::new()))
            .with_secrets(first_start::secrets(&self.config))
            .with_handlers(Registry::builder().build().names().into_iter().map(ToOwned::to_owned))
            .with_minimum_interval(self.config.scheduler.minimum_interval)
            .with_event_budget(self.config.scheduler.event_budget)
            .with_artifacts(self.config.artifacts.clone());
        client.map_err(|error| Failure::bad_input(error.to_string()).remedy("correct artifacts.url"))
    }

    /// The client with the configured coordination.
    pub(crate) async fn coordinated(&self, client: Client) -> Result<Client> {
        let client = match &self.config.redis {
            None => client,
            Some(settings) => client.with_redis(settings),
        };
        match &self.config.etcd {
            None => Ok(client),
            Some(settings) => Ok(client.with_etcd(settings).await?),
        }
    }

    /// What sends the spans of this process, as `service`. It must be shut down, or the last ones are lost.
    pub(crate) fn tracer(&self, service: &str, instance: &str) -> Result<Tracer> {
        let Some(settings) = &self.config.traces else { return Ok(Tracer::default()) };
        let settings = TraceSettings { service: service.into(), instance: instance.into(), ..settings.clone() };
        Tracer::start(&settings)
            .map_err(|error| Failure::bad_input(error.to_string()).remedy("correct traces.endpoint and traces.headers"))
    }

    pub(crate) fn api_settings(&self) -> mainspring_server::Settings {
        self.config.api.settings.clone()
    }

    /// Where a server leaves its first token for users who may read its folder.
    pub(crate) fn token_file(&self) -> std::path::PathBuf {
        first_start::data_folder(&self.config).join("admin.token")
    }

    /// Makes a key for secrets beside a database file that has none.
    pub(crate) fn ensure_secrets_key(&self) -> Result<()> {
        first_start::ensure_key(&self.config)
    }

    /// The operator of this command line.
    pub(crate) fn operator(&self, by: Option<String>, reason: Option<String>) -> Operator {
        let user = || std::env::var("USER").ok().filter(|user| !user.is_empty());
        Operator::new(by.or_else(user).unwrap_or_else(|| "cli".into()), reason)
    }

    pub(crate) fn node_config(&self) -> NodeConfig {
        let worker = &self.config.worker;
        let works = self.config.roles.contains(&Role::Worker);
        let defaults = NodeConfig::default();
        let hostname = hostname();
        NodeConfig {
            name: worker.id.clone().unwrap_or_else(|| format!("{hostname}-{}", std::process::id())),
            hostname,
            queues: worker.queues.clone(),
            labels: worker.labels.clone(),
            process_slots: if works { worker.slots.unwrap_or(defaults.process_slots) } else { 0 },
            function_slots: if works { worker.function_slots } else { 0 },
            heartbeat: worker.heartbeat,
            lease_ttl: worker.lease_ttl,
            retention: self.config.retention,
            retention_rules: self.config.retention_rules.clone(),
            serves_remote: worker.serves_remote,
            leads: self.config.roles.contains(&Role::Scheduler),
            roles: self.config.role_names(),
            namespace_weights: self.config.scheduler.namespace_weights.clone(),
            dispatch: self.config.dispatch.clone(),
            schedule_interval: self.config.scheduler.interval,
            schedule_batch: self.config.scheduler.batch_size,
            desk: self.config.desk.clone(),
            messenger: crate::courier::messenger(self.pool_config().http, self.config.smtp.clone()),
            ..defaults
        }
    }

    pub(crate) fn pool_config(&self) -> PoolConfig {
        let worker = &self.config.worker;
        let mut environment: Vec<String> = DEFAULT_ENVIRONMENT.iter().map(ToString::to_string).collect();
        environment.extend(worker.environment.iter().cloned());
        PoolConfig {
            environment,
            grace: worker.grace,
            log_limit: worker.log_limit,
            watchdog: watchdog_command(),
            on_store_loss: worker.on_store_loss,
            lease_ttl: worker.lease_ttl,
            container_engine: worker.container_engine.clone(),
            http: HttpConfig {
                guard: Guard::new(self.config.http.allow.clone()),
                authorities: self.config.http.authorities.clone(),
                ..HttpConfig::default()
            },
            ..PoolConfig::default()
        }
    }

    /// The pool settings of a server, which isolates its tasks from itself.
    pub(crate) fn server_pool_config(&self) -> Result<PoolConfig> {
        let isolation = Isolation::of(&self.config)?;
        match isolation.is_whole() {
            true => tracing::info!("{}", isolation.words()),
            false => tracing::warn!("{}", isolation.words()),
        }
        Ok(isolation.apply(&self.config, self.pool_config()))
    }

    /// The functions that tasks may call, with the store behind those that need it.
    pub(crate) fn registry(&self, client: &Client) -> Registry {
        let mut builder = Registry::builder().host(Arc::new(StoreHost::new(client.clone())));
        if let Some(smtp) = &self.config.smtp {
            builder = builder.smtp(smtp.clone());
        }
        builder.build()
    }

    /// Between two looks at a run that is followed.
    pub(crate) fn follow_every(&self) -> Duration {
        Duration::from_millis(100)
    }
}

pub(crate) fn hostname() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".into())
}

/// Names of namespaces and pools, as everywhere: `^[a-z0-9][a-z0-9_.-]{0,127}$`.
pub(crate) fn require_name(what: &str, name: &str) -> Result<()> {
    let starts = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = name.len() <= 128
        && name.bytes().next().is_some_and(starts)
        && name.bytes().all(|byte| starts(byte) || matches!(byte, b'_' | b'.' | b'-'));
    if fits {
        return Ok(());
    }
    Err(Failure::bad_input(format!("{} is not the name of a {what}", quoted(name)))
        .remedy("names begin with a-z or 0-9, go on with a-z 0-9 _ . - and have at most 128 characters"))
}
