//! The settings of what coordinates nodes beside the database.

use std::path::PathBuf;
use std::time::Duration;

use mainspring_engine::{DispatchConfig, EtcdSettings, RedisSettings};

use super::layers::Layers;
use super::read::{integer, list, text};
use super::traces::pairs;

const DEFAULT_PREFIX: &str = "/mainspring";

pub(super) fn etcd(layers: &mut Layers) -> Option<EtcdSettings> {
    let endpoints = list(layers, "etcd.endpoints");
    if endpoints.is_empty() {
        for key in ["etcd.username", "etcd.password_file", "etcd.ca", "etcd.cert", "etcd.key", "etcd.prefix"] {
            if layers.get(key).is_some() {
                layers.complain_about(key, "means nothing without etcd.endpoints");
            }
        }
        return None;
    }
    let username = text(layers, "etcd.username");
    let password = text(layers, "etcd.password_file").and_then(|file| match std::fs::read_to_string(&file) {
        Ok(password) => Some(password.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => {
            layers.complain_about("etcd.password_file", format!("it cannot be read: {error}"));
            None
        }
    });
    match (&username, layers.get("etcd.password_file").is_some()) {
        (Some(_), false) => layers.complain_about("etcd.username", "needs etcd.password_file"),
        (None, true) => layers.complain_about("etcd.password_file", "needs etcd.username"),
        _ => {}
    }
    let path = |key: &str| text(layers, key).map(PathBuf::from);
    let (ca, certificate, key) = (path("etcd.ca"), path("etcd.cert"), path("etcd.key"));
    let certificate = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (Some(_), None) => {
            layers.complain_about("etcd.cert", "needs etcd.key");
            None
        }
        (None, Some(_)) => {
            layers.complain_about("etcd.key", "needs etcd.cert");
            None
        }
        (None, None) => None,
    };
    let prefix = text(layers, "etcd.prefix").unwrap_or_else(|| DEFAULT_PREFIX.into());
    if !prefix.starts_with('/') || prefix.trim_end_matches('/').is_empty() {
        layers.complain_about("etcd.prefix", "must begin with / and name something, like /mainspring");
    }
    Some(EtcdSettings { endpoints, username, password, ca, certificate, prefix })
}

pub(super) fn redis(layers: &mut Layers) -> Option<RedisSettings> {
    let ca = text(layers, "redis.ca").map(PathBuf::from);
    let Some(url) = text(layers, "redis.url") else {
        if ca.is_some() {
            layers.complain_about("redis.ca", "means nothing without redis.url");
        }
        return None;
    };
    let settings = match RedisSettings::parse(&url) {
        Ok(settings) => settings,
        Err(cause) => {
            // Without the value: it may hold a password.
            layers.complain(format!("redis.url: {cause}"));
            return None;
        }
    };
    match ca.map(|ca| settings.clone().with_ca(ca)) {
        None => Some(settings),
        Some(Ok(settings)) => Some(settings),
        Some(Err(cause)) => {
            layers.complain_about("redis.ca", cause);
            None
        }
    }
}

/// Which queues streams of Redis dispatch, and how.
pub(super) fn dispatch(layers: &mut Layers) -> DispatchConfig {
    const KEY: &str = "queues.transport";
    let mut config = DispatchConfig::default();
    for (queue, transport) in pairs(layers, KEY, "must be QUEUE=redis or QUEUE=database") {
        match transport.as_str() {
            "redis" => _ = config.queues.insert(queue),
            "database" => {}
            other => layers.complain_about(KEY, format!("`{other}` of queue `{queue}` must be redis or database")),
        }
    }
    if !config.queues.is_empty() && layers.get("redis.url").is_none() {
        layers.complain_about(KEY, "needs redis.url");
    }
    if let Some(group) = text(layers, "redis.consumer_group") {
        if group.trim().is_empty() {
            layers.complain_about("redis.consumer_group", "must name something");
        }
        config.group = group;
    }
    if let Some(batch) = integer(layers, "redis.batch_size", 1, 1_000) {
        config.batch = batch as usize;
    }
    if let Some(block) = integer(layers, "redis.block_ms", 1, 60_000) {
        config.block = Duration::from_millis(block as u64);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::super::layers::{RawValue, Source};
    use super::*;

    #[test]
    fn queues_are_dispatched_by_redis_only_where_there_is_one() {
        let read = |settings: &[(&'static str, &str)]| {
            let mut layers = Layers::default();
            for (key, value) in settings {
                layers.set(key, RawValue::Text((*value).into()), Source::Flag("flag"));
            }
            (dispatch(&mut layers), layers.into_problems())
        };
        let (config, problems) = read(&[("queues.transport", "mail=redis, web=database"), ("redis.url", "redis://h")]);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(config.queues, ["mail".to_owned()].into());
        for (settings, cause) in [
            (vec![("queues.transport", "mail=redis")], "needs redis.url"),
            (vec![("queues.transport", "mail=carrier"), ("redis.url", "redis://h")], "must be redis or database"),
            (vec![("queues.transport", "mail"), ("redis.url", "redis://h")], "must be QUEUE=redis"),
            (vec![("redis.batch_size", "0")], "whole number"),
        ] {
            let problems = read(&settings).1;
            assert!(problems.iter().any(|problem| problem.contains(cause)), "{settings:?}: {problems:?}");
        }
    }

    fn check(settings: &[(&'static str, &str)]) -> (Option<EtcdSettings>, Vec<String>) {
        let mut layers = Layers::default();
        for (key, value) in settings {
            layers.set(key, RawValue::Text((*value).into()), Source::Flag("flag"));
        }
        (etcd(&mut layers), layers.into_problems())
    }

    #[test]
    fn endpoints_switch_etcd_on() {
        assert!(check(&[]).0.is_none());
        let (settings, problems) = check(&[("etcd.endpoints", "http://a:2379, http://b:2379")]);
        assert!(problems.is_empty(), "{problems:?}");
        let settings = settings.unwrap();
        assert_eq!((settings.endpoints.len(), settings.prefix.as_str()), (2, "/mainspring"));
    }

    #[test]
    fn halves_of_settings_are_refused() {
        for (settings, cause) in [
            (vec![("etcd.prefix", "/x")], "means nothing without"),
            (vec![("etcd.endpoints", "a"), ("etcd.username", "u")], "needs etcd.password_file"),
            (vec![("etcd.endpoints", "a"), ("etcd.cert", "c")], "needs etcd.key"),
            (vec![("etcd.endpoints", "a"), ("etcd.prefix", "x")], "must begin with /"),
            (
                vec![("etcd.endpoints", "a"), ("etcd.username", "u"), ("etcd.password_file", "/nowhere")],
                "cannot be read",
            ),
        ] {
            let problems = check(&settings).1;
            assert!(problems.iter().any(|problem| problem.contains(cause)), "{settings:?}: {problems:?}");
        }
    }
}
