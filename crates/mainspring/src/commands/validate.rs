//! `mainspring validate`: every problem of every file.

use clap::Args;
use mainspring_core::{Diagnostic, Diagnostics};
use serde_json::{Value, json};

use super::testing::workflow_files;
use crate::failure::{Exit, Result};
use crate::output::{Format, Output, Paint};
use crate::source::{Source, Unread};

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Workflow files, or folders of them; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    files: Vec<String>,
}

pub(crate) fn validate(args: &ValidateArgs, out: &Output) -> Result {
    let files = workflow_files(&args.files)?;
    let mut reports = Vec::with_capacity(files.len());
    let mut is_valid = true;
    for path in &files {
        let report = check(path, out)?;
        is_valid &= report["valid"] == true;
        reports.push(report);
    }
    if let Some(format @ (Format::Json | Format::Yaml)) = out.format {
        out.value(format, &json!({"valid": is_valid, "files": reports}));
    }
    Ok(if is_valid { Exit::Success } else { Exit::BadInput })
}

/// Checks one file. Problems are shown unless a program reads the answer.
fn check(path: &str, out: &Output) -> Result<Value> {
    let for_people = !matches!(out.format, Some(Format::Json | Format::Yaml));
    let source = match Source::read(path) {
        Ok(source) => source,
        Err(Unread::Missing(failure)) => {
            if for_people {
                out.failure(&failure);
            }
            let problem = Diagnostic {
                place: Default::default(),
                path: String::new(),
                message: failure.message,
                help: failure.remedy,
            };
            return Ok(report(path, None, &[problem]));
        }
        Err(Unread::NoText(problem)) => {
            if for_people {
                let empty = Source { name: path.to_owned(), text: String::new() };
                empty.complain(out, &Diagnostics(vec![problem.clone()]));
            }
            return Ok(report(path, None, &[problem]));
        }
    };
    match source.parse_with_warnings() {
        Ok((workflow, warnings)) => {
            if for_people && !warnings.is_empty() {
                source.warn(out, &warnings);
            }
            if for_people && !out.quiet {
                let count = workflow.tasks.len();
                let tasks = if count == 1 { "1 task".into() } else { format!("{count} tasks") };
                let valid = out.palette().paint(Paint::Green, "valid");
                out.line(format_args!("{}: {valid}, workflow `{}` with {tasks}", source.name, workflow.name));
            }
            let mut report = report(path, Some(&workflow.name), &[]);
            if !warnings.is_empty() {
                report["warnings"] = json!(warnings);
            }
            Ok(report)
        }
        Err(problems) => {
            if for_people {
                source.complain(out, &problems);
                let word = if problems.0.len() == 1 { "problem" } else { "problems" };
                let count = out.error_palette().paint(Paint::Red, format_args!("{} {word}", problems.0.len()));
                out.complaint(&format!("{}: {count}\n", source.name));
            }
            Ok(report(path, None, &problems.0))
        }
    }
}

fn report(file: &str, workflow: Option<&str>, problems: &[Diagnostic]) -> Value {
    json!({"file": file, "valid": problems.is_empty(), "workflow": workflow, "errors": problems})
}
