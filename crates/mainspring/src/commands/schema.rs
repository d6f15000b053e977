//! `mainspring schema`: what editors need to complete and check workflow files.

use crate::failure::{Exit, Result};
use crate::output::{Format, Output};

pub(crate) fn schema(out: &Output) -> Result {
    let schema = mainspring_core::schema::schema();
    match out.format {
        Some(Format::Yaml) => out.value(Format::Yaml, &schema),
        // Written to a file by people, so it is written for people.
        _ => out.line(serde_json::to_string_pretty(&schema).unwrap_or_default()),
    }
    Ok(Exit::Success)
}
