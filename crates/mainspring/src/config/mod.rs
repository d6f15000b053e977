//! What an operator can choose: `mainspring.toml`, then the environment, then flags; later ones are stronger.
//!
//! Every setting has one dotted key. [`layers`] gathers the words with where they were said, [`read`] makes them values,
//! and everything that is wrong is said at once. A key or a `MAINSPRING_*` variable that is not known is an error: a
//! setting that silently does nothing is worse than none.

mod api;
mod artifacts;
mod coordination;
mod desk;
mod environment;
mod file;
mod layers;
mod read;
mod traces;
mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mainspring_engine::{EtcdSettings, RedisSettings};
use mainspring_worker::http::Allow;
use mainspring_worker::{OnStoreLoss, SmtpConfig};

pub(crate) use environment::variable;
pub(crate) use layers::{Layers, Setting, Source};
pub(crate) use units::parse_duration;

use crate::failure::{Failure, Result};

pub(crate) const DEFAULT_DATABASE: &str = "sqlite://.mainspring/mainspring.db";
const DEFAULT_FILE: &str = "mainspring.toml";

/// A setting: its key, the kind of value for messages, and what it means.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
}

macro_rules! keys {
    ($($name:literal: $meaning:literal,)+) => {
        pub(crate) const KEYS: &[Key] = &[$(Key { name: $name, meaning: $meaning },)+];
    };
}

keys! {
    "database": "sqlite://PATH or postgres://HOST/NAME",
    "database_connections": "how many connections to PostgreSQL are held at most",
    "server.listen": "address and port of the HTTP server",
    "server.roles": "what this node does: api, scheduler, worker",
    "server.hosts": "names under which the HTTP server is reached, besides addresses and localhost; * is any",
    "server.origins": "origins of web pages on other hosts that may call the API, like https://ops.example.com",
    "server.proxies": "addresses and networks of proxies whose X-Forwarded-For counts",
    "server.rate_per_address": "requests per second from one address",
    "server.rate_per_token": "requests per second with one token",
    "server.rate_of_failures": "wrong credentials per minute from one address",
    "server.tls_certificate": "a PEM file with the certificate chain; with it the server speaks HTTPS",
    "server.tls_key": "the PEM file of its private key",
    "jwt.algorithm": "HS256, RS256 or EdDSA: how JSON Web Tokens that count are signed",
    "jwt.key_file": "the shared secret (HS256) or the public key as PEM",
    "jwt.audience": "one of these must be in aud",
    "jwt.issuer": "iss must be one of these",
    "jwt.leeway": "by how much clocks may differ",
    "secrets.key_file": "the file of the keys that seal secrets, one per line, the newest first",
    "secrets.directory": "a folder with one file per secret",
    "secrets.allow": "which namespaces see MAINSPRING_SECRET_… and that folder: NAMESPACE or NAMESPACE/NAME; * is all, default unless given",
    "audit.retention": "entries of the audit log are forgotten after this long",
    "scheduler.interval": "the longest sleep of the loop that fires schedules",
    "scheduler.batch_size": "how many fires go into one batch when few are due",
    "scheduler.minimum_interval": "workflows whose schedules fire more often are refused",
    "events.budget": "how many runs and jobs events may start for one cause within an hour",
    "scheduler.namespace_weights": "how many shares of the slots a namespace gets while others have work, like sales=3; 1 unless given",
    "worker.id": "the name of this worker",
    "worker.slots": "processes at once",
    "worker.function_slots": "functions at once",
    "worker.queues": "queues to serve; none means all",
    "worker.labels": "labels of this worker",
    "worker.heartbeat_interval": "how often the lease is renewed",
    "worker.lease_ttl": "a worker that is silent for this long is taken for dead",
    "worker.on_store_loss": "`kill`, or how long running tasks go on while the database is away",
    "worker.serves_remote": "true: execute remote tasks with functions of the same names",
    "worker.grace": "between TERM and KILL",
    "worker.log_limit": "bytes of log kept per attempt",
    "worker.user": "the account that tasks of a server run as, if the server is root; mainspring-task unless given, where there is one",
    "worker.isolation": "auto: tasks of a server cannot see its files where the system has Landlock; off: they can",
    "worker.container_engine": "the program that runs tasks with an image: docker, podman, a path, or none; the first of the two in PATH unless given",
    "worker.environment": "variables that tasks see besides the usual ones",
    "http.allow": "hosts and networks that http tasks may reach although they are private",
    "http.authorities": "PEM files of certificate authorities to trust besides the public ones",
    "smtp.host": "the mail server that notify:send hands e-mails to",
    "smtp.port": "its port",
    "smtp.from": "the sender of e-mails",
    "smtp.user": "the user at the mail server",
    "smtp.password": "the password at the mail server",
    "smtp.security": "none, starttls or tls",
    "etcd.endpoints": "endpoints of etcd, like http://HOST:2379; with them nodes notice each other's end sooner",
    "etcd.username": "the user at etcd",
    "etcd.password_file": "the file with its password",
    "etcd.ca": "a PEM file with the authority that signed etcd's certificates",
    "etcd.cert": "a PEM file with a certificate of this node for etcd",
    "etcd.key": "the PEM file of its private key",
    "etcd.prefix": "what every key in etcd begins with",
    "redis.url": "redis://HOST:6379 or rediss://HOST:6379, for wake-ups, events and dispatch",
    "redis.ca": "a PEM file with the authority that signed the certificate of a Redis at rediss://",
    "redis.consumer_group": "the group of nodes that share the entries of dispatch streams; scheduler-workers unless given",
    "redis.batch_size": "how many entries of a dispatch stream a node reads at once",
    "redis.block_ms": "how many milliseconds an idle node waits for entries of dispatch streams at a time",
    "queues.transport": "how nodes hear what is claimable: [queues.NAME] transport = \"redis\" in the file, NAME=redis in the variable; database unless given",
    "artifacts.url": "where larger files of tasks are kept: file:///FOLDER, which every server reaches, or s3://BUCKET/PREFIX with AWS_… in the environment",
    "artifacts.database_limit": "files of more bytes go there; 1MiB unless given",
    "artifacts.max_bytes": "what one attempt may leave there; 10GiB unless given",
    "shutdown.timeout": "how long running tasks may take to finish on shutdown",
    "retention.runs": "ended runs are forgotten after this long",
    "retention.rules": "the same for a namespace or a workflow: {reports = \"7d\", \"reports/audit\" = \"365d\"}, or reports=7d,…",
    "staleness_detection.enabled": "false: runs that make no progress are left alone",
    "staleness_detection.dry_run": "true: only log which runs would be given up",
    "staleness_detection.batch_size": "how many stale runs one transaction gives up",
    "staleness_detection.detection_interval_seconds": "how often stale runs are looked for",
    "staleness_detection.default_waiting_deps_threshold_minutes": "how long a run may wait for dependencies",
    "staleness_detection.default_waiting_retry_threshold_minutes": "how long a run may wait for a retry",
    "staleness_detection.default_steps_in_process_threshold_minutes": "how long a run may execute without progress",
    "staleness_detection.default_task_max_lifetime_hours": "how long a run may be open",
    "dead_letters.worker_unavailable_after": "a task that is ready for this long without a worker gets an entry",
    "dead_letters.batch_size": "how many dead letters one transaction of a batch acts on",
    "dead_letters.retention": "closed dead letters are forgotten after this long",
    "traces.endpoint": "where traces go over OTLP, like http://127.0.0.1:4318; without it nothing is traced",
    "traces.headers": "headers for the collector of traces",
    "traces.protocol": "http/protobuf or grpc: how traces go there; http/protobuf unless given",
    "traces.sample_percent": "how many of 100 traces that begin here are recorded",
    "metrics.listen": "address and port of a second listener with /metrics and /healthz and without tokens",
    "log.level": "error, warn, info, debug, trace, or a filter",
    "log.format": "text or json",
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Api,
    Scheduler,
    Worker,
}

impl Role {
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("api", Self::Api), ("scheduler", Self::Scheduler), ("worker", Self::Worker)];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone)]
pub(crate) struct WorkerSettings {
    pub(crate) id: Option<String>,
    pub(crate) slots: Option<usize>,
    pub(crate) function_slots: usize,
    pub(crate) queues: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) heartbeat: Duration,
    pub(crate) lease_ttl: Duration,
    pub(crate) on_store_loss: OnStoreLoss,
    pub(crate) serves_remote: bool,
    pub(crate) grace: Duration,
    pub(crate) log_limit: usize,
    pub(crate) container_engine: Option<PathBuf>,
    /// Besides the usual ones.
    pub(crate) environment: Vec<String>,
    /// The account of tasks.
    pub(crate) user: Option<String>,
    /// Whether tasks are kept away from the server's files.
    pub(crate) isolates: bool,
}

/// Who may call, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApiSettings {
    pub(crate) settings: mainspring_server::Settings,
    pub(crate) tls: Option<mainspring_server::TlsFiles>,
    pub(crate) secrets_key_file: Option<PathBuf>,
    pub(crate) secrets_directory: Option<PathBuf>,
    /// Who sees the secrets of the environment and the folder.
    pub(crate) secrets_allow: Vec<String>,
}

/// How schedules are kept.
#[derive(Debug, Clone)]
pub(crate) struct SchedulerSettings {
    pub(crate) interval: Duration,
    pub(crate) batch_size: usize,
    pub(crate) minimum_interval: Option<Duration>,
    /// Shares of namespaces; one each unless given.
    pub(crate) namespace_weights: BTreeMap<String, u32>,
    /// How many runs and jobs events may start for one cause.
    pub(crate) event_budget: i64,
}

/// What `http` tasks may reach.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpSettings {
    pub(crate) allow: Vec<Allow>,
    pub(crate) authorities: Vec<PathBuf>,
}

#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) database: String,
    pub(crate) database_connections: u32,
    pub(crate) listen: SocketAddr,
    /// A second listener, for scrapers and probes.
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) api: ApiSettings,
    pub(crate) scheduler: SchedulerSettings,
    pub(crate) worker: WorkerSettings,
    pub(crate) http: HttpSettings,
    pub(crate) smtp: Option<SmtpConfig>,
    /// Where files of tasks are kept.
    pub(crate) artifacts: mainspring_engine::ArtifactSettings,
    pub(crate) etcd: Option<EtcdSettings>,
    pub(crate) redis: Option<RedisSettings>,
    /// Which queues Redis dispatches.
    pub(crate) dispatch: mainspring_engine::DispatchConfig,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) retention: Option<Duration>,
    /// What holds instead for `NAMESPACE` or `NAMESPACE/WORKFLOW`.
    pub(crate) retention_rules: BTreeMap<String, Duration>,
    pub(crate) desk: mainspring_engine::DeskConfig,
    /// Where traces go.
    pub(crate) traces: Option<mainspring_telemetry::TraceSettings>,
    /// A filter of log lines; `None` leaves it to the command.
    pub(crate) log_level: Option<String>,
    pub(crate) log_format: Option<LogFormat>,
    pub(crate) file: Option<PathBuf>,
    /// What was said and where, to explain the result.
    pub(crate) said: Vec<(&'static str, Setting)>,
    /// What was said without effect, and why; a server logs it when it starts.
    pub(crate) notes: Vec<String>,
}

impl Config {
    /// What this node does, in words.
    pub(crate) fn role_names(&self) -> Vec<String> {
        Role::ALL.iter().filter(|(_, role)| self.roles.contains(role)).map(|(name, _)| (*name).to_owned()).collect()
    }
}

/// A flag that sets a key.
#[derive(Debug, Clone)]
pub(crate) struct Flag {
    pub(crate) key: &'static str,
    pub(crate) flag: &'static str,
    pub(crate) value: String,
}

/// Reads everything and says everything that is wrong.
pub(crate) fn load(file: Option<PathBuf>, flags: &[Flag]) -> Result<Config> {
    let mut layers = Layers::default();
    let variables: Vec<_> = std::env::vars_os().collect();
    let file = match file.or_else(|| std::env::var_os("MAINSPRING_CONFIG").map(PathBuf::from)) {
        Some(file) => Some(file),
        None => Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.exists()),
    };
    if let Some(file) = &file {
        file::read(&mut layers, file)?;
    }
    environment::read(&mut layers, &variables);
    for flag in flags {
        layers.set(flag.key, layers::RawValue::Text(flag.value.clone()), Source::Flag(flag.flag));
    }
    let config = read::read(&mut layers, file);
    let problems = layers.into_problems();
    match config {
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(Failure::bad_input(problems.join("\nerror: "))),
    }
}
