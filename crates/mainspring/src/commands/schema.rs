//! `mainspring schema`: what editors need to complete and check workflow files and their tests.

use clap::Args;

use crate::failure::{Exit, Result};
use crate::output::{Format, Output};

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Of test files (`*.test.yaml`) instead
    #[arg(long)]
    tests: bool,
}

pub(crate) fn schema(out: &Output, args: &SchemaArgs) -> Result {
    let schema = match args.tests {
        true => mainspring_core::schema::test_schema(),
        false => mainspring_core::schema::schema(),
    };
    match out.format {
        Some(Format::Yaml) => out.value(Format::Yaml, &schema),
        // Written to a file by people, so it is written for people.
        _ => out.line(serde_json::to_string_pretty(&schema).unwrap_or_default()),
    }
    Ok(Exit::Success)
}
