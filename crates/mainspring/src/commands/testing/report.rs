//! The results of tests, for people and for programs.

use std::path::Path;

use mainspring_core::Diagnostics;
use mainspring_core::diagnostic::Place;
use mainspring_core::simulate::Difference;
use serde_json::{Value, json};

use crate::output::{Output, Paint, plain};

pub(super) struct CaseReport {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) differences: Vec<Difference>,
    /// How long the run took in virtual time.
    pub(super) virtual_micros: i64,
}

pub(super) struct FileReport {
    pub(super) file: String,
    pub(super) workflow: Option<String>,
    pub(super) cases: Vec<CaseReport>,
    /// How many problems keep the file from being played.
    pub(super) invalid: usize,
    pub(super) errors: Vec<Value>,
}

impl FileReport {
    pub(super) fn new(path: &Path) -> Self {
        let file = path.display().to_string();
        Self { file, workflow: None, cases: Vec::new(), invalid: 0, errors: Vec::new() }
    }

    pub(super) fn refuse(&mut self, file: &str, problems: &Diagnostics) {
        self.invalid = problems.0.len();
        self.errors = problems
            .iter()
            .map(|problem| {
                let mut error = json!(problem);
                error["file"] = file.into();
                error
            })
            .collect();
    }

    pub(super) fn print(&self, out: &Output) {
        let palette = out.palette();
        let failed = self.cases.iter().filter(|case| !case.differences.is_empty()).count();
        if self.invalid > 0 {
            let problems = if self.invalid == 1 { "problem" } else { "problems" };
            out.line(format_args!(
                "{}  {}",
                palette.paint(Paint::Bold, plain(&self.file)),
                palette.paint(Paint::Red, format_args!("{} {problems}", self.invalid))
            ));
            return;
        }
        if self.cases.is_empty() || out.quiet && failed == 0 {
            return;
        }
        let mut text = format!("{}\n", palette.paint(Paint::Bold, plain(&self.file)));
        for case in self.cases.iter().filter(|case| !out.quiet || !case.differences.is_empty()) {
            let name = plain(&case.name);
            if case.differences.is_empty() {
                text.push_str(&format!("  {}      {name}\n", palette.paint(Paint::Green, "ok")));
                continue;
            }
            text.push_str(&format!("  {}  {name}\n", palette.paint(Paint::Red, "FAILED")));
            for difference in &case.differences {
                let place = format!("{}:{}:{}", self.file, difference.place.line, difference.place.column);
                text.push_str(&format!(
                    "          {}  {}\n",
                    plain(&difference.about),
                    palette.paint(Paint::Dim, place)
                ));
                let expected = indented(&difference.expected);
                let actual = indented(&difference.actual);
                text.push_str(&format!("            expected {}\n", palette.paint(Paint::Green, expected)));
                text.push_str(&format!("            but was  {}\n", palette.paint(Paint::Red, actual)));
            }
        }
        out.raw(&text);
    }

    fn json(&self) -> Value {
        let cases: Vec<Value> = self
            .cases
            .iter()
            .map(|case| {
                let differences: Vec<Value> = case
                    .differences
                    .iter()
                    .map(|difference| {
                        json!({
                            "about": difference.about,
                            "expected": difference.expected,
                            "actual": difference.actual,
                            "line": difference.place.line,
                            "column": difference.place.column,
                        })
                    })
                    .collect();
                json!({
                    "name": case.name,
                    "status": if differences.is_empty() { "passed" } else { "failed" },
                    "line": case.place.line,
                    "virtual_duration_ms": case.virtual_micros / 1_000,
                    "differences": differences,
                })
            })
            .collect();
        json!({"file": self.file, "workflow": self.workflow, "cases": cases, "errors": self.errors})
    }
}

/// Texts of several lines stay under their first one.
fn indented(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n                     ")
}

/// Cases that passed, cases that failed, files that are invalid.
fn counts(reports: &[FileReport]) -> (usize, usize, usize) {
    let cases = reports.iter().flat_map(|report| &report.cases);
    let (passed, failed): (Vec<_>, Vec<_>) = cases.partition(|case| case.differences.is_empty());
    (passed.len(), failed.len(), reports.iter().filter(|report| report.invalid > 0).count())
}

pub(super) fn json(reports: &[FileReport]) -> Value {
    let (passed, failed, invalid) = counts(reports);
    let files: Vec<Value> = reports.iter().map(FileReport::json).collect();
    json!({"passed": passed, "failed": failed, "invalid": invalid, "files": files})
}

pub(super) fn summarise(reports: &[FileReport], out: &Output) {
    let (passed, failed, invalid) = counts(reports);
    let palette = out.palette();
    let word = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let mut parts = vec![palette.paint(Paint::Green, format_args!("{passed} passed"))];
    if failed > 0 {
        parts.push(palette.paint(Paint::Red, format_args!("{failed} failed")));
    }
    if invalid > 0 {
        parts.push(palette.paint(Paint::Red, word(invalid, "file invalid", "files invalid")));
    }
    let cases = word(passed + failed, "case", "cases");
    out.line(format_args!("{cases} in {}: {}", word(reports.len(), "file", "files"), parts.join(", ")));
}
