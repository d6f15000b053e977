//! The settings of the API: who may call, over what, and with which keys.

use std::path::PathBuf;

use mainspring_core::workflow::DEFAULT_NAMESPACE;
use mainspring_server::{JwtAlgorithm, JwtSettings, Origins, Rates, Settings, TlsFiles};

use super::ApiSettings;
use super::layers::Layers;
use super::read::{duration, integer, list, text};

const MOST_PER_SECOND: i64 = 1_000_000;

pub(super) fn read(layers: &mut Layers) -> ApiSettings {
    let mut proxies = Vec::new();
    for entry in list(layers, "server.proxies") {
        match entry.parse() {
            Ok(network) => proxies.push(network),
            Err(error) => layers.complain_about("server.proxies", error),
        }
    }
    let origins = Origins { hosts: list(layers, "server.hosts"), origins: list(layers, "server.origins") };
    for origin in &origins.origins {
        if !(origin.starts_with("http://") || origin.starts_with("https://")) || origin.ends_with('/') {
            layers.complain_about("server.origins", format!("{origin}: write it like https://ops.example.com"));
        }
    }
    let usual = Rates::default();
    let rate = |layers: &mut Layers, key: &str, usual: u32| {
        integer(layers, key, 1, MOST_PER_SECOND).map_or(usual, |rate| u32::try_from(rate).unwrap_or(u32::MAX))
    };
    let rates = Rates {
        per_address: rate(layers, "server.rate_per_address", usual.per_address),
        per_identity: rate(layers, "server.rate_per_token", usual.per_identity),
        failures_per_minute: rate(layers, "server.rate_of_failures", usual.failures_per_minute),
    };
    let audit_kept = duration(layers, "audit.retention");
    let settings = Settings { origins, proxies, rates, jwt: jwt(layers), audit_kept, ..Settings::default() };
    ApiSettings {
        settings,
        tls: tls(layers),
        secrets_key_file: text(layers, "secrets.key_file").map(PathBuf::from),
        secrets_directory: text(layers, "secrets.directory").map(PathBuf::from),
        secrets_allow: Some(list(layers, "secrets.allow"))
            .filter(|allowed| !allowed.is_empty())
            .unwrap_or_else(|| vec![DEFAULT_NAMESPACE.to_owned()]),
    }
}

fn tls(layers: &mut Layers) -> Option<TlsFiles> {
    let files = (text(layers, "server.tls_certificate"), text(layers, "server.tls_key"));
    match files {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate: certificate.into(), key: key.into() }),
        (None, None) => None,
        (Some(_), None) => {
            layers.complain_about("server.tls_certificate", "needs server.tls_key");
            None
        }
        (None, Some(_)) => {
            layers.complain_about("server.tls_key", "needs server.tls_certificate");
            None
        }
    }
}

fn jwt(layers: &mut Layers) -> Option<JwtSettings> {
    let Some(word) = text(layers, "jwt.algorithm") else {
        for key in ["jwt.key_file", "jwt.audience", "jwt.issuer", "jwt.leeway"] {
            if layers.get(key).is_some() {
                layers.complain_about(key, "means nothing without jwt.algorithm");
            }
        }
        return None;
    };
    let algorithm = match word.as_str() {
        "HS256" => JwtAlgorithm::Hs256,
        "RS256" => JwtAlgorithm::Rs256,
        "EdDSA" => JwtAlgorithm::EdDsa,
        _ => {
            layers.complain_about("jwt.algorithm", "must be HS256, RS256 or EdDSA");
            return None;
        }
    };
    let Some(key_file) = text(layers, "jwt.key_file") else {
        layers.complain_about("jwt.algorithm", "needs jwt.key_file");
        return None;
    };
    Some(JwtSettings {
        algorithm,
        key_file: key_file.into(),
        audiences: list(layers, "jwt.audience"),
        issuers: list(layers, "jwt.issuer"),
        leeway: duration(layers, "jwt.leeway").map_or(30, |leeway| leeway.as_secs()),
    })
}
