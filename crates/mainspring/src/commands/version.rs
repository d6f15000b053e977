//! `mainspring version`.

use serde_json::json;

use crate::failure::{Exit, Result};
use crate::output::{Format, Output};

pub(crate) fn version(out: &Output) -> Result {
    let version = env!("CARGO_PKG_VERSION");
    match out.format {
        Some(format @ (Format::Json | Format::Yaml)) => out.value(format, &json!({"version": version})),
        _ => out.line(format_args!("mainspring {version}")),
    }
    Ok(Exit::Success)
}
