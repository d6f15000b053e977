//! From a text to a validated workflow: text → [`spec`] (as written) → `Workflow` (the only constructor).
//!
//! Every problem of a text is reported at once, each with its place, its cause and, where there is one, a remedy.

mod expressions;
mod fields;
mod quotes;
mod resolve;
mod script;
mod spec;
mod task;
mod values;
mod workflow;

#[cfg(test)]
mod tests;

pub(crate) use values::parse_duration;

use crate::Workflow;
use crate::diagnostic::{Diagnostics, Report};
use crate::yaml;

/// Reads and validates the text of a workflow, YAML or JSON.
pub fn parse(source: &str) -> Result<Workflow, Diagnostics> {
    let tree = yaml::parse(source)?;
    let mut report = Report::default();
    let spec = workflow::read(&tree, &mut report);
    let workflow = spec.and_then(|spec| resolve::resolve(&tree, spec, &mut report));
    report.finish(workflow)
}
