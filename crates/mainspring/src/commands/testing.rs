//! `mainspring test`: plays workflows in virtual time and compares what comes of it with what their tests expect.

mod find;
mod junit;
mod report;

use std::path::{Path, PathBuf};

use clap::Args;
use mainspring_core::diagnostic::Place;
use mainspring_core::simulate::{Suite, compare, play};
use mainspring_core::{Diagnostic, Diagnostics};

use crate::failure::{Exit, Failure, Result, cause};
use crate::output::{Format, Output};
use crate::source::{Source, Unread};

use find::Folder;
pub(crate) use find::{test_files, workflow_files};
use report::{CaseReport, FileReport};

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Test files, or folders with `*.test.yaml` below them [default: this folder]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Only cases whose name holds this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Also write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

pub(crate) fn test(args: &TestArgs, out: &Output) -> Result {
    let here = [PathBuf::from(".")];
    let paths = if args.paths.is_empty() { &here[..] } else { &args.paths };
    let files = find::test_files(paths)?;
    if files.is_empty() {
        let places: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::bad_input(format!("there is no *.test.yaml below {}", places.join(", ")))
            .remedy("write one beside the workflow: etl.test.yaml for etl.yaml; `mainspring init` shows how"));
    }
    let for_people = !matches!(out.format, Some(Format::Json | Format::Yaml));
    let mut reports = Vec::with_capacity(files.len());
    for file in &files {
        let report = test_file(file, args.only.as_deref(), out, for_people);
        if for_people {
            report.print(out);
        }
        reports.push(report);
    }
    if let Some(path) = &args.junit {
        std::fs::write(path, junit::write(&reports)).map_err(|error| {
            Failure::bad_input(format!("cannot write {}: {}", path.display(), cause(&error)))
                .remedy("name a file in a folder that exists and may be written to")
        })?;
    }
    match out.format {
        Some(format @ (Format::Json | Format::Yaml)) => out.value(format, &report::json(&reports)),
        _ => report::summarise(&reports, out),
    }
    if reports.iter().all(|report| report.invalid == 0 && report.cases.is_empty()) {
        return Err(Failure::bad_input("no case has such a name").remedy("--only takes a part of the name of a case"));
    }
    Ok(match () {
        () if reports.iter().any(|report| report.invalid > 0) => Exit::BadInput,
        () if reports.iter().any(|report| report.cases.iter().any(|case| !case.differences.is_empty())) => {
            Exit::WorkFailed
        }
        () => Exit::Success,
    })
}

/// Plays the cases of one file; what is wrong with the file itself is shown at once.
fn test_file(path: &Path, only: Option<&str>, out: &Output, for_people: bool) -> FileReport {
    let mut report = FileReport::new(path);
    let complain = |report: &mut FileReport, source: &Source, problems: Diagnostics| {
        if for_people {
            source.complain(out, &problems);
        }
        report.refuse(&source.name, &problems);
    };
    let source = match read(path) {
        Ok(source) => source,
        Err((source, problems)) => {
            complain(&mut report, &source, problems);
            return report;
        }
    };
    let suite = match Suite::read(&source.text) {
        Ok(suite) => suite,
        Err(problems) => {
            complain(&mut report, &source, problems);
            return report;
        }
    };
    let workflow_file = match find::workflow_file(path, &suite) {
        Ok(file) => file,
        Err(problems) => {
            complain(&mut report, &source, problems);
            return report;
        }
    };
    let subject = match read(&workflow_file).and_then(|source| match source.parse() {
        Ok(workflow) => Ok(workflow),
        Err(problems) => Err((source, problems)),
    }) {
        Ok(workflow) => workflow,
        Err((source, problems)) => {
            complain(&mut report, &source, problems);
            return report;
        }
    };
    if let Err(problems) = suite.check(&subject) {
        complain(&mut report, &source, problems);
        return report;
    }
    report.workflow = Some(subject.name.clone());
    let folder = Folder::new(workflow_file.parent().unwrap_or(Path::new(".")), subject);
    for case in suite.cases.iter().filter(|case| only.is_none_or(|only| case.name.contains(only))) {
        let played = play(folder.subject(), case, &folder);
        let differences = compare(folder.subject().workflow(), case, &played);
        let virtual_micros = played.as_ref().map_or(0, |outcome| outcome.ended - outcome.started);
        report.cases.push(CaseReport { name: case.name.clone(), place: case.place, differences, virtual_micros });
    }
    report
}

/// A file's text, or a problem to show in its place.
fn read(path: &Path) -> std::result::Result<Source, (Source, Diagnostics)> {
    let name = path.display().to_string();
    Source::read(&name).map_err(|unread| {
        let problem = match unread {
            Unread::NoText(problem) => problem,
            Unread::Missing(failure) => Diagnostic {
                place: Place::default(),
                path: String::new(),
                message: failure.message,
                help: failure.remedy,
            },
        };
        (Source { name, text: String::new() }, Diagnostics(vec![problem]))
    })
}
