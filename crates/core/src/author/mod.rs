//! From a text to a validated workflow: text → [`spec`] (as written) → `Workflow` (the only constructor).
//!
//! Every problem of a text is reported at once, each with its place, its cause and, where there is one, a remedy.

mod actions;
mod artifacts;
mod cache;
mod command;
mod container;
pub(crate) mod dialect;
mod expressions;
mod fields;
mod grammar;
mod http;
mod inputs;
mod listed;
mod matrix;
mod notifications;
mod other_words;
mod places;
mod poll;
mod process;
mod python;
pub(crate) mod quotes;
mod resolve;
mod retry;
mod script;
mod slots;
mod spec;
mod steps;
mod task;
mod triggers;
mod values;
mod workflow;

#[cfg(test)]
mod tests;

pub(crate) use values::{is_name, parse_duration};

use crate::Workflow;
use crate::diagnostic::{Diagnostic, Diagnostics, Report};
use crate::yaml;

/// Reads and validates the text of a workflow, YAML or JSON.
pub fn parse(source: &str) -> Result<Workflow, Diagnostics> {
    parse_with_warnings(source).map(|(workflow, _)| workflow)
}

/// The same with what is allowed but hardly meant.
pub fn parse_with_warnings(source: &str) -> Result<(Workflow, Vec<Diagnostic>), Diagnostics> {
    let tree = yaml::parse(source)?;
    let mut report = Report::default();
    let spec = workflow::read(&tree, &mut report);
    let workflow = spec.and_then(|spec| resolve::resolve(&tree, spec, &mut report));
    let warnings = report.take_warnings();
    report.finish(workflow.map(|workflow| (workflow, warnings)))
}

/// A text as plain JSON, nothing checked.
#[cfg(test)]
pub(crate) fn as_json(source: &str) -> Result<serde_json::Value, Diagnostics> {
    let tree = yaml::parse(source)?;
    let mut report = Report::default();
    let mut reader = fields::Reader { tree: &tree, report: &mut report };
    let value = reader.json(tree.root(), fields::Path::ROOT, "", &mut |_, _, _| {});
    report.finish(value)
}
