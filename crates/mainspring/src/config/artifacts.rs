//! Where files of tasks are kept.

use mainspring_engine::ArtifactSettings;

use super::layers::Layers;
use super::read::text;
use super::units::parse_size;

pub(super) fn read(layers: &mut Layers) -> ArtifactSettings {
    let usual = ArtifactSettings::default();
    let url = text(layers, "artifacts.url");
    let is_store = |url: &String| {
        url::Url::parse(url).is_ok_and(|url| match url.scheme() {
            "file" => url.to_file_path().is_ok_and(|path| path.parent().is_some()),
            "s3" => url.has_host(),
            _ => false,
        })
    };
    if url.as_ref().is_some_and(|url| !is_store(url)) {
        layers.complain_about("artifacts.url", "must be file:///FOLDER or s3://BUCKET/PREFIX");
    }
    for key in ["artifacts.database_limit", "artifacts.max_bytes"] {
        if url.is_none() && layers.get(key).is_some() {
            layers.complain_about(key, "means nothing without artifacts.url");
        }
    }
    ArtifactSettings {
        url,
        database_limit: size(layers, "artifacts.database_limit", usual.database_limit),
        max_bytes: size(layers, "artifacts.max_bytes", usual.max_bytes),
    }
}

fn size(layers: &mut Layers, key: &'static str, usual: u64) -> u64 {
    let Some(written) = text(layers, key) else { return usual };
    parse_size(&written).map(|bytes| bytes as u64).unwrap_or_else(|| {
        layers.complain_about(key, "must be a size such as 1MiB");
        usual
    })
}
