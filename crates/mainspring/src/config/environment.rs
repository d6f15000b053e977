//! The environment: `MAINSPRING_*` by the name of the key, and the names that other programs made common.

use std::ffi::OsString;

use mainspring_core::diagnostic::did_you_mean;

use super::KEYS;
use super::layers::{Layers, RawValue, Source};

const PREFIX: &str = "MAINSPRING_";
const SECRET_PREFIX: &str = "MAINSPRING_SECRET_";

/// Variables that have a meaning elsewhere: what a task is given (a task may call this program), what tests are given.
const NOT_SETTINGS: &[&str] = &[
    "MAINSPRING_ATTEMPT",
    "MAINSPRING_CONFIG",
    "MAINSPRING_FENCE",
    "MAINSPRING_FENCING_TOKEN",
    "MAINSPRING_IDEMPOTENCY_KEY",
    "MAINSPRING_NAMESPACE",
    "MAINSPRING_OUTPUT",
    "MAINSPRING_OUTPUT_FORMAT",
    "MAINSPRING_PROFILE",
    "MAINSPRING_PROFILES",
    "MAINSPRING_RUN_ID",
    "MAINSPRING_SECRETS_KEY",
    "MAINSPRING_SERVER",
    "MAINSPRING_TASK",
    "MAINSPRING_TASK_ID",
    "MAINSPRING_TOKEN",
    "MAINSPRING_WORKFLOW",
];
const NOT_SETTINGS_PREFIXES: &[&str] = &[SECRET_PREFIX, "MAINSPRING_EXPR_", "MAINSPRING_TEST_"];

/// Names that are common elsewhere, weakest first, and the key each one sets.
const COMMON: &[(&str, &str)] = &[
    ("DATABASE_URL", "database"),
    ("DB_MAX_OPEN_CONNS", "database_connections"),
    ("ETCD_ENDPOINTS", "etcd.endpoints"),
    ("LOG_LEVEL", "log.level"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "traces.endpoint"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "traces.headers"),
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "traces.protocol"),
    ("REDIS_URL", "redis.url"),
    ("SCHEDULER_BATCH_SIZE", "scheduler.batch_size"),
    ("WORKER_ID", "worker.id"),
];
/// Understood, but without effect.
const MAX_IDLE: &str = "DB_MAX_IDLE_CONNS";
const MAX_IDLE_NOTE: &str = "DB_MAX_IDLE_CONNS has no effect: connections that rest have no bound of their own, each is closed after \
    10 minutes of rest; DB_MAX_OPEN_CONNS bounds all connections";
/// A short name for the setting that is said most often.
const LISTEN: (&str, &str) = ("MAINSPRING_LISTEN", "server.listen");

pub(super) fn read(layers: &mut Layers, variables: &[(OsString, OsString)]) {
    let mut known = Vec::with_capacity(variables.len());
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        match value.to_str() {
            // A deployment that leaves a variable empty has not said anything.
            Some("") => {}
            Some(value) => known.push((name, value)),
            None if is_ours(name) => layers.complain(format!("{name} is not readable: it is not UTF-8")),
            None => {}
        }
    }
    let find = |wanted: &str| known.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    if let Some(path) = find("DATABASE_URL_FILE") {
        match std::fs::read_to_string(path) {
            Ok(url) => set(layers, "database", url.trim(), "DATABASE_URL_FILE"),
            Err(error) => layers.complain(format!("DATABASE_URL_FILE: {path} cannot be read: {error}")),
        }
    }
    for (name, key) in COMMON {
        if let Some(value) = find(name) {
            set(layers, key, value, name);
        }
    }
    if find(MAX_IDLE).is_some() {
        layers.note(MAX_IDLE_NOTE);
    }
    if let Some(interval) = find("SCHEDULER_INTERVAL_MS") {
        set(layers, "scheduler.interval", &format!("{interval}ms"), "SCHEDULER_INTERVAL_MS");
    }
    if let Some(port) = find("PORT") {
        let host = layers.get("server.listen").map_or("127.0.0.1".to_owned(), |setting| {
            let listen = setting.word.to_string();
            listen.rsplit_once(':').map_or(listen.clone(), |(host, _)| host.to_owned())
        });
        set(layers, "server.listen", &format!("{host}:{port}"), "PORT");
    }
    if let Some(port) = find("METRICS_PORT") {
        set(layers, "metrics.listen", &format!("0.0.0.0:{port}"), "METRICS_PORT");
    }
    if let Some(listen) = find(LISTEN.0) {
        set(layers, LISTEN.1, listen, LISTEN.0);
    }
    for key in KEYS {
        let name = variable(key.name);
        if let Some(value) = find(&name) {
            set(layers, key.name, value, &name);
        }
    }
    drop_roles(layers, &find);
    for (name, _) in &known {
        if is_ours(name) && !is_known(name) {
            let names: Vec<String> = KEYS.iter().map(|key| variable(key.name)).collect();
            let near = did_you_mean(name, names.iter().map(String::as_str));
            let near = near.unwrap_or_else(|| "`mainspring doctor -v` lists what can be set".into());
            layers.complain(format!("the variable {name} sets nothing: {near}"));
        }
    }
}

/// `ENABLE_JOB_DISPATCHER` and `ENABLE_JOB_CONSUMER` take a role away.
fn drop_roles<'a>(layers: &mut Layers, find: &impl Fn(&str) -> Option<&'a str>) {
    for (name, role) in [("ENABLE_JOB_DISPATCHER", "scheduler"), ("ENABLE_JOB_CONSUMER", "worker")] {
        match find(name) {
            Some("false" | "0") => {
                let roles = layers
                    .get("server.roles")
                    .map_or("api,scheduler,worker".into(), |setting| setting.word.to_string());
                let left: Vec<&str> = roles.split(',').filter(|word| word.trim() != role).collect();
                set(layers, "server.roles", &left.join(","), name);
            }
            None | Some("true" | "1") => {}
            Some(other) => layers.complain(format!("{name} is `{other}`, but must be true or false")),
        }
    }
}

fn set(layers: &mut Layers, key: &str, value: &str, name: &str) {
    if let Some(key) = KEYS.iter().find(|known| known.name == key) {
        layers.set(key.name, RawValue::Text(value.to_owned()), Source::Variable(name.to_owned()));
    }
}

/// `worker.lease_ttl` → `MAINSPRING_WORKER_LEASE_TTL`.
pub(crate) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

fn is_ours(name: &str) -> bool {
    name.starts_with(PREFIX)
}

fn is_known(name: &str) -> bool {
    NOT_SETTINGS.contains(&name)
        || NOT_SETTINGS_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name == LISTEN.0
        || KEYS.iter().any(|key| variable(key.name) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(variables: &[(&str, &str)]) -> Layers {
        let mut layers = Layers::default();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        read(&mut layers, &variables);
        layers
    }

    #[test]
    fn names_follow_the_keys_and_beat_common_ones() {
        let layers = layers(&[
            ("MAINSPRING_DATABASE", "sqlite://ours"),
            ("DATABASE_URL", "postgres://common"),
            ("MAINSPRING_WORKER_LEASE_TTL", "500ms"),
            ("LOG_LEVEL", ""),
        ]);
        assert_eq!(layers.get("database").unwrap().word.to_string(), "sqlite://ours");
        assert_eq!(layers.get("worker.lease_ttl").unwrap().word.to_string(), "500ms");
        assert!(layers.get("log.level").is_none());
        assert!(layers.into_problems().is_empty());
    }

    #[test]
    fn a_port_keeps_the_host_and_switches_take_roles_away() {
        let variables: Vec<_> = [("PORT", "9000"), ("ENABLE_JOB_CONSUMER", "false")]
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let mut layers = Layers::default();
        layers.set("server.listen", RawValue::Text("0.0.0.0:1".into()), Source::Flag("file"));
        read(&mut layers, &variables);
        assert_eq!(layers.get("server.listen").unwrap().word.to_string(), "0.0.0.0:9000");
        assert_eq!(layers.get("server.roles").unwrap().word.to_string(), "api,scheduler");
    }

    #[test]
    fn a_variable_without_effect_is_noted() {
        let layers = layers(&[("DB_MAX_IDLE_CONNS", "5")]);
        assert_eq!(layers.notes(), [MAX_IDLE_NOTE]);
        assert!(layers.into_problems().is_empty());
    }

    #[test]
    fn variables_nobody_knows_are_errors() {
        let problems =
            layers(&[("MAINSPRING_WORKER_SLOT", "4"), ("MAINSPRING_SECRET_X", "s"), ("MAINSPRING_OUTPUT", "/x")])
                .into_problems();
        assert_eq!(
            problems,
            ["the variable MAINSPRING_WORKER_SLOT sets nothing: did you mean `MAINSPRING_WORKER_SLOTS`?"]
        );
    }
}
