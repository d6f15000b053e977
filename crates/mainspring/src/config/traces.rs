//! Where traces go.

use mainspring_telemetry::{TraceProtocol, TraceSettings};

use super::layers::{Layers, RawValue};
use super::read::{integer, text};

pub(super) fn read(layers: &mut Layers) -> Option<TraceSettings> {
    let percent = integer(layers, "traces.sample_percent", 0, 100).unwrap_or(100);
    let headers = pairs(layers, "traces.headers", "must be name=value,…");
    let protocol = protocol(layers);
    let Some(endpoint) = text(layers, "traces.endpoint") else {
        for key in ["traces.headers", "traces.protocol", "traces.sample_percent"] {
            if layers.get(key).is_some() {
                layers.complain_about(key, "means nothing without traces.endpoint");
            }
        }
        return None;
    };
    let url = url::Url::parse(&endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let wanted = match (protocol, url) {
        (TraceProtocol::HttpProtobuf, Some(_)) => None,
        (TraceProtocol::HttpProtobuf, None) => Some("must be an address like http://127.0.0.1:4318"),
        (TraceProtocol::Grpc, Some(url)) if url.path() == "/" => None,
        (TraceProtocol::Grpc, _) => {
            Some("must be an address without a path, like http://127.0.0.1:4317, because traces.protocol is grpc")
        }
    };
    if let Some(wanted) = wanted {
        layers.complain_about("traces.endpoint", wanted);
        return None;
    }
    Some(TraceSettings {
        endpoint,
        protocol,
        headers,
        sample_ratio: percent as f64 / 100.0,
        // The process that sends them says what it is.
        service: String::new(),
        instance: String::new(),
    })
}

fn protocol(layers: &mut Layers) -> TraceProtocol {
    let Some(word) = text(layers, "traces.protocol") else { return TraceProtocol::default() };
    TraceProtocol::from_word(&word).unwrap_or_else(|| {
        let words: Vec<&str> = TraceProtocol::ALL.into_iter().map(TraceProtocol::word).collect();
        layers.complain_about("traces.protocol", format!("must be {}", words.join(" or ")));
        TraceProtocol::default()
    })
}

/// `{name = "value"}` in the file, `name=value,…` elsewhere.
pub(super) fn pairs(layers: &mut Layers, key: &'static str, shape: &str) -> Vec<(String, String)> {
    let words = match layers.get(key).map(|setting| setting.word.clone()) {
        None => return Vec::new(),
        Some(RawValue::Table(pairs)) => return pairs,
        Some(RawValue::List(items)) => items,
        Some(word) => word.to_string().split(',').map(ToOwned::to_owned).collect(),
    };
    let pairs: Option<Vec<_>> = words
        .iter()
        .map(|pair| pair.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())))
        .collect();
    pairs.unwrap_or_else(|| {
        layers.complain_about(key, shape);
        Vec::new()
    })
}
