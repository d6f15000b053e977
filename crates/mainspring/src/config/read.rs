//! From words to values, with the defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mainspring_core::diagnostic::did_you_mean;
use mainspring_core::workflow::Container;
use mainspring_worker::{OnStoreLoss, SmtpConfig, SmtpSecurity, find_engine};

use super::layers::{Layers, RawValue};
use super::units::{parse_duration, parse_size};
use super::{Config, DEFAULT_DATABASE, HttpSettings, LogFormat, Role, SchedulerSettings, WorkerSettings};

const MOST_SLOTS: i64 = 100_000;
const MOST_WEIGHT: u32 = 1_000;

pub(super) fn read(layers: &mut Layers, file: Option<PathBuf>) -> Option<Config> {
    let worker = worker(layers);
    let log_level = text(layers, "log.level");
    if let Some(level) = &log_level
        && level.parse::<tracing_subscriber::EnvFilter>().is_err()
    {
        layers.complain_about("log.level", "must be error, warn, info, debug or trace");
    }
    let log_format = match text(layers, "log.format").as_deref() {
        None => None,
        Some("text") => Some(LogFormat::Text),
        Some("json") => Some(LogFormat::Json),
        Some(_) => {
            layers.complain_about("log.format", "must be text or json");
            None
        }
    };
    Some(Config {
        database: text(layers, "database").unwrap_or_else(|| DEFAULT_DATABASE.into()),
        database_connections: integer(layers, "database_connections", 1, 1_000).map_or(10, |number| number as u32),
        listen: listen(layers),
        metrics_listen: metrics_listen(layers),
        roles: roles(layers),
        api: super::api::read(layers),
        scheduler: scheduler(layers),
        worker,
        http: http(layers),
        smtp: smtp(layers),
        artifacts: super::artifacts::read(layers),
        etcd: super::coordination::etcd(layers),
        redis: super::coordination::redis(layers),
        dispatch: super::coordination::dispatch(layers),
        shutdown_timeout: duration(layers, "shutdown.timeout").unwrap_or(Duration::from_secs(60)),
        retention: duration(layers, "retention.runs"),
        retention_rules: retention_rules(layers),
        desk: super::desk::read(layers),
        traces: super::traces::read(layers),
        log_level,
        log_format,
        file,
        said: layers.said(),
        notes: layers.notes(),
    })
}

/// How long runs are kept, by namespace or workflow.
fn retention_rules(layers: &mut Layers) -> BTreeMap<String, Duration> {
    let pairs =
        super::traces::pairs(layers, "retention.rules", "must be NAMESPACE=DURATION or NAMESPACE/WORKFLOW=DURATION");
    let mut rules = BTreeMap::new();
    for (name, text) in pairs {
        match parse_duration(&text) {
            Some(kept) => {
                rules.insert(name, kept);
            }
            None => {
                layers.complain_about("retention.rules", format!("`{text}` of `{name}` is not a duration like 30d"))
            }
        }
    }
    rules
}

fn scheduler(layers: &mut Layers) -> SchedulerSettings {
    let interval = duration(layers, "scheduler.interval").unwrap_or(Duration::from_secs(1));
    if interval.is_zero() || interval > Duration::from_secs(60) {
        layers.complain_about("scheduler.interval", "must be longer than nothing and at most 60s");
    }
    SchedulerSettings {
        interval,
        batch_size: integer(layers, "scheduler.batch_size", 1, 1_000).map_or(100, |size| size as usize),
        minimum_interval: duration(layers, "scheduler.minimum_interval"),
        namespace_weights: weights(layers),
        event_budget: integer(layers, "events.budget", 1, 1_000_000).unwrap_or(1_000),
    }
}

fn worker(layers: &mut Layers) -> WorkerSettings {
    let heartbeat = duration(layers, "worker.heartbeat_interval").unwrap_or(Duration::from_secs(1));
    let lease_ttl = duration(layers, "worker.lease_ttl").unwrap_or(Duration::from_millis(3_500));
    if heartbeat.is_zero() {
        layers.complain_about("worker.heartbeat_interval", "must be longer than nothing");
    } else if lease_ttl < heartbeat * 2 {
        let key =
            if layers.get("worker.lease_ttl").is_some() { "worker.lease_ttl" } else { "worker.heartbeat_interval" };
        layers.complain_about(
            key,
            format!(
                "the lease ({lease_ttl:?}) must be at least twice as long as the heartbeat ({heartbeat:?}), \
                 or one late beat loses all running tasks"
            ),
        );
    }
    let on_store_loss = match text(layers, "worker.on_store_loss").as_deref() {
        None | Some("continue") => OnStoreLoss::default(),
        Some("kill") => OnStoreLoss::Kill,
        Some(other) => parse_duration(other).map(OnStoreLoss::Continue).unwrap_or_else(|| {
            layers.complain_about("worker.on_store_loss", "must be kill, continue, or a duration such as 600s");
            OnStoreLoss::Kill
        }),
    };
    let log_limit = match text(layers, "worker.log_limit") {
        None => 8 << 20,
        Some(size) => parse_size(&size).unwrap_or_else(|| {
            layers.complain_about("worker.log_limit", "must be a size such as 8MiB");
            0
        }),
    };
    let wanted = text(layers, "worker.container_engine");
    let container_engine = find_engine(wanted.as_deref());
    if let (Some(wanted), None) = (wanted.as_deref().filter(|wanted| *wanted != "none"), &container_engine) {
        layers.complain_about("worker.container_engine", format!("`{wanted}` is not a program that can be found"));
    }
    let mut labels = labels(layers);
    if container_engine.is_some() {
        let (label, value) = Container::LABEL;
        labels.entry(label.to_owned()).or_insert_with(|| value.to_owned());
    }
    WorkerSettings {
        container_engine,
        id: text(layers, "worker.id"),
        slots: integer(layers, "worker.slots", 0, MOST_SLOTS).map(|slots| slots as usize),
        function_slots: integer(layers, "worker.function_slots", 0, MOST_SLOTS).map_or(1_000, |slots| slots as usize),
        queues: list(layers, "worker.queues"),
        labels,
        heartbeat,
        lease_ttl,
        on_store_loss,
        serves_remote: boolean(layers, "worker.serves_remote"),
        grace: duration(layers, "worker.grace").unwrap_or(Duration::from_secs(10)),
        log_limit,
        environment: list(layers, "worker.environment"),
        user: text(layers, "worker.user"),
        isolates: isolates(layers),
    }
}

fn isolates(layers: &mut Layers) -> bool {
    match text(layers, "worker.isolation").as_deref() {
        None | Some("auto") => true,
        Some("off") => false,
        Some(_) => {
            layers.complain_about("worker.isolation", "must be auto or off");
            true
        }
    }
}

fn http(layers: &mut Layers) -> HttpSettings {
    let mut allow = Vec::new();
    for entry in list(layers, "http.allow") {
        match entry.parse() {
            Ok(entry) => allow.push(entry),
            Err(error) => layers.complain_about("http.allow", format!("{entry}: {error}")),
        }
    }
    let authorities = list(layers, "http.authorities").into_iter().map(PathBuf::from).collect();
    HttpSettings { allow, authorities }
}

fn smtp(layers: &mut Layers) -> Option<SmtpConfig> {
    let Some(host) = text(layers, "smtp.host") else {
        for key in ["smtp.port", "smtp.from", "smtp.user", "smtp.password", "smtp.security"] {
            if layers.get(key).is_some() {
                layers.complain_about(key, "means nothing without smtp.host");
            }
        }
        return None;
    };
    let security = match text(layers, "smtp.security").as_deref() {
        None | Some("starttls") => SmtpSecurity::StartTls,
        Some("tls") => SmtpSecurity::Tls,
        Some("none") => SmtpSecurity::None,
        Some(_) => {
            layers.complain_about("smtp.security", "must be none, starttls or tls");
            SmtpSecurity::StartTls
        }
    };
    let usual_port = if security == SmtpSecurity::Tls { 465 } else { 587 };
    let from = text(layers, "smtp.from").unwrap_or_else(|| {
        layers.complain_about("smtp.host", "needs smtp.from, the sender of e-mails");
        String::new()
    });
    let credentials = text(layers, "smtp.user").zip(text(layers, "smtp.password"));
    Some(SmtpConfig {
        host,
        port: integer(layers, "smtp.port", 1, 65_535).map_or(usual_port, |port| port as u16),
        from,
        credentials,
        security,
        authorities: list(layers, "http.authorities").into_iter().map(PathBuf::from).collect(),
    })
}

/// Without the role api there is no other listener for probes, so there is always one.
fn metrics_listen(layers: &mut Layers) -> Option<SocketAddr> {
    let Some(text) = text(layers, "metrics.listen") else {
        let has_api = layers.get("server.roles").is_none_or(|setting| setting.word.to_string().contains("api"));
        return (!has_api).then(|| SocketAddr::from(([0, 0, 0, 0], 9090)));
    };
    let address = text.replacen("localhost", "127.0.0.1", 1).parse().ok();
    if address.is_none() {
        layers.complain_about("metrics.listen", "must be an address and a port such as 0.0.0.0:9090");
    }
    address
}

fn listen(layers: &mut Layers) -> SocketAddr {
    let default = SocketAddr::from(([127, 0, 0, 1], 8080));
    let Some(text) = text(layers, "server.listen") else { return default };
    let text = text.replace("localhost:", "127.0.0.1:");
    text.parse().unwrap_or_else(|_| {
        layers.complain_about("server.listen", "must be an address and a port such as 127.0.0.1:8080");
        default
    })
}

fn roles(layers: &mut Layers) -> BTreeSet<Role> {
    let all = || Role::ALL.iter().map(|(_, role)| *role).collect();
    if layers.get("server.roles").is_none() {
        return all();
    }
    let mut roles = BTreeSet::new();
    for word in list(layers, "server.roles") {
        match Role::ALL.iter().find(|(name, _)| *name == word) {
            Some((_, role)) => _ = roles.insert(*role),
            None => {
                let near = did_you_mean(&word, Role::ALL.iter().map(|(name, _)| *name));
                let near = near.unwrap_or_else(|| "write one or more of api, scheduler, worker".into());
                layers.complain_about("server.roles", format!("`{word}` is no role: {near}"));
            }
        }
    }
    if roles.is_empty() && list(layers, "server.roles").is_empty() {
        layers.complain_about("server.roles", "a node needs a role: write one or more of api, scheduler, worker");
    }
    roles
}

pub(super) fn text(layers: &Layers, key: &str) -> Option<String> {
    layers.get(key).map(|setting| setting.word.to_string())
}

pub(super) fn integer(layers: &mut Layers, key: &str, least: i64, most: i64) -> Option<i64> {
    let number = match &layers.get(key)?.word {
        RawValue::Integer(number) => Some(*number),
        RawValue::Text(text) => text.trim().parse().ok(),
        RawValue::List(_) | RawValue::Table(_) => None,
    };
    let number = number.filter(|number| (least..=most).contains(number));
    if number.is_none() {
        layers.complain_about(key, format!("must be a whole number from {least} to {most}"));
    }
    number
}

pub(super) fn duration(layers: &mut Layers, key: &str) -> Option<Duration> {
    let duration = parse_duration(text(layers, key)?.trim());
    if duration.is_none() {
        layers.complain_about(key, "must be a duration such as 500ms, 30s, 5m, 2h or 1d");
    }
    duration
}

fn boolean(layers: &mut Layers, key: &'static str) -> bool {
    match text(layers, key).as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            layers.complain_about(key, "must be true or false");
            false
        }
    }
}

pub(super) fn list(layers: &Layers, key: &str) -> Vec<String> {
    match layers.get(key).map(|setting| &setting.word) {
        Some(RawValue::List(items)) => items.clone(),
        Some(word) => {
            word.to_string().split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
        }
        None => Vec::new(),
    }
}

fn weights(layers: &mut Layers) -> BTreeMap<String, u32> {
    const KEY: &str = "scheduler.namespace_weights";
    let mut weights = BTreeMap::new();
    for (namespace, weight) in pairs(layers, KEY) {
        match weight.parse().ok().filter(|weight| (1..=MOST_WEIGHT).contains(weight)) {
            Some(weight) => _ = weights.insert(namespace, weight),
            None => layers.complain_about(KEY, format!("the weight of `{namespace}` must be 1 to {MOST_WEIGHT}")),
        }
    }
    weights
}

fn labels(layers: &mut Layers) -> BTreeMap<String, String> {
    pairs(layers, "worker.labels")
}

/// A table, or `key=value` with commas between.
fn pairs(layers: &mut Layers, key: &'static str) -> BTreeMap<String, String> {
    if let Some(RawValue::Table(pairs)) = layers.get(key).map(|setting| &setting.word) {
        return pairs.iter().cloned().collect();
    }
    let mut labels = BTreeMap::new();
    for pair in list(layers, key) {
        match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => _ = labels.insert(key.to_owned(), value.to_owned()),
            _ => layers.complain_about(key, format!("`{pair}` must be written key=value")),
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::super::layers::Source;
    use super::*;

    fn check(settings: &[(&'static str, &str)]) -> (Config, Vec<String>) {
        let mut layers = Layers::default();
        for (key, value) in settings {
            layers.set(key, RawValue::Text((*value).into()), Source::Flag("flag"));
        }
        let config = read(&mut layers, None).unwrap();
        (config, layers.into_problems())
    }

    #[test]
    fn defaults_are_complete() {
        let (config, problems) = check(&[]);
        assert!(problems.is_empty());
        assert_eq!(config.database, DEFAULT_DATABASE);
        assert_eq!(config.roles.len(), 3);
        assert_eq!(config.worker.lease_ttl, Duration::from_millis(3_500));
    }

    #[test]
    fn values_are_read() {
        let (config, problems) = check(&[
            ("server.roles", "api, worker"),
            ("worker.labels", "arch=arm64,zone=a"),
            ("worker.on_store_loss", "30s"),
            ("worker.log_limit", "1MiB"),
            ("server.listen", "localhost:0"),
            ("scheduler.namespace_weights", "sales=3"),
        ]);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(config.roles.len(), 2);
        assert_eq!(config.worker.labels["zone"], "a");
        assert_eq!(config.worker.on_store_loss, OnStoreLoss::Continue(Duration::from_secs(30)));
        assert_eq!(config.worker.log_limit, 1 << 20);
        assert_eq!(config.listen.port(), 0);
        assert_eq!(config.scheduler.namespace_weights["sales"], 3);
        let (_, problems) = check(&[("scheduler.namespace_weights", "a=0")]);
        assert!(problems.iter().any(|problem| problem.contains("must be 1 to 1000")), "{problems:?}");
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let (_, problems) = check(&[
            ("worker.slots", "many"),
            ("shutdown.timeout", "60"),
            ("server.roles", "wroker"),
            ("log.format", "xml"),
            ("worker.lease_ttl", "1s"),
        ]);
        assert_eq!(problems.len(), 5, "each once: {problems:#?}");
        assert!(problems.iter().any(|problem| problem.contains("did you mean `worker`?")));
    }
}
