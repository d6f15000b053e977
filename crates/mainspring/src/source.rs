//! Workflow files: read within bounds, parsed, and complained about.

use std::io::Read;

use mainspring_core::diagnostic::Place;
use mainspring_core::{Diagnostic, Diagnostics, Workflow};

use crate::app::App;
use crate::failure::{Exit, Failure, Result, cause};
use crate::output::{Output, excerpt, excerpt_of_warning};

/// 16 MiB of YAML, the limit of the dialect.
const LARGEST: u64 = 16 << 20;

/// A file as it was read; `-` is standard input.
#[derive(Debug)]
pub(crate) struct Source {
    /// How messages name it.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Why there is no text to look at.
#[derive(Debug)]
pub(crate) enum Unread {
    Missing(Failure),
    /// There are bytes, but they are no text: this is where.
    NoText(Diagnostic),
}

impl Source {
    pub(crate) fn read(path: &str) -> Result<Self, Unread> {
        let name = if path == "-" { "<stdin>".to_owned() } else { path.to_owned() };
        let missing = |error: std::io::Error| {
            let failure = Failure::bad_input(format!("cannot read {name}: {}", cause(&error)));
            Unread::Missing(match error.kind() {
                std::io::ErrorKind::NotFound => failure.remedy("check the path; `-` reads standard input"),
                std::io::ErrorKind::IsADirectory => failure.remedy("name a file, not a folder"),
                _ => failure,
            })
        };
        let mut bytes = Vec::new();
        if path == "-" {
            std::io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes).map_err(missing)?;
        } else {
            let file = std::fs::File::open(path).map_err(missing)?;
            file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(missing)?;
        }
        if bytes.len() as u64 > LARGEST {
            let failure = Failure::bad_input(format!("{name} is larger than 16 MiB, the most a workflow may have"));
            return Err(Unread::Missing(failure.remedy("keep data in files that tasks read, not in the workflow")));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { name, text }),
            Err(error) => {
                let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
                let line = valid.matches('\n').count() as u32 + 1;
                let column = valid.rsplit('\n').next().map_or(0, |line| line.chars().count()) as u32 + 1;
                Err(Unread::NoText(Diagnostic {
                    place: Place { line, column, length: 1 },
                    path: String::new(),
                    message: "this is not UTF-8 text".into(),
                    help: Some("save the file as UTF-8".into()),
                }))
            }
        }
    }

    /// The folder the file lies in; standard input lies in none.
    pub(crate) fn folder(&self) -> Option<std::path::PathBuf> {
        if self.name == "<stdin>" {
            return None;
        }
        let parent = std::path::Path::new(&self.name).parent()?;
        Some(if parent.as_os_str().is_empty() { ".".into() } else { parent.to_path_buf() })
    }

    pub(crate) fn parse(&self) -> std::result::Result<Workflow, Diagnostics> {
        mainspring_core::parse(&self.text)
    }

    /// Parses and also returns warnings.
    pub(crate) fn parse_with_warnings(&self) -> std::result::Result<(Workflow, Vec<Diagnostic>), Diagnostics> {
        mainspring_core::parse_with_warnings(&self.text)
    }

    /// Shows what is allowed but hardly meant, on standard error.
    pub(crate) fn warn(&self, out: &Output, warnings: &[Diagnostic]) {
        let palette = out.error_palette();
        for warning in warnings {
            out.complaint(&format!("{}\n", excerpt_of_warning(palette, &self.name, &self.text, warning)));
        }
    }

    /// Shows every problem with the line it is about, on standard error.
    pub(crate) fn complain(&self, out: &Output, problems: &Diagnostics) {
        let palette = out.error_palette();
        for problem in problems.iter() {
            out.complaint(&format!("{}\n", excerpt(palette, &self.name, &self.text, problem)));
        }
    }
}

/// Reads one file as text; why that is not possible ends the command.
pub(crate) fn read(path: &str) -> Result<Source> {
    Source::read(path).map_err(|unread| match unread {
        Unread::Missing(failure) => failure,
        Unread::NoText(problem) => {
            let Place { line, column, .. } = problem.place;
            let failure = Failure::bad_input(format!("{path}:{line}:{column}: {}", problem.message));
            Failure { remedy: problem.help, ..failure }
        }
    })
}

/// Reads and parses one workflow; problems are shown and end the command.
pub(crate) fn parsed(out: &Output, path: &str) -> Result<(Workflow, Source)> {
    let source = read(path)?;
    match source.parse() {
        Ok(workflow) => Ok((workflow, source)),
        Err(problems) => {
            source.complain(out, &problems);
            Err(invalid(&source.name, problems.0.len()))
        }
    }
}

/// The one workflow of a command that acts on a store: [`parsed`], in the namespace of the command line.
pub(crate) fn workflow(app: &App<'_>, path: &str) -> Result<(Workflow, Source)> {
    let (mut workflow, source) = parsed(app.out, path)?;
    if let Some(namespace) = &app.namespace
        && workflow.namespace != *namespace
    {
        if workflow.namespace != mainspring_core::workflow::DEFAULT_NAMESPACE {
            return Err(Failure::bad_input(format!(
                "{} says namespace `{}`, the command line says `{namespace}`",
                source.name, workflow.namespace
            ))
            .remedy("leave one of them out"));
        }
        workflow.namespace.clone_from(namespace);
    }
    Ok((workflow, source))
}

pub(crate) fn invalid(name: &str, problems: usize) -> Failure {
    let word = if problems == 1 { "problem" } else { "problems" };
    Failure { exit: Exit::BadInput, message: format!("{name} has {problems} {word}; nothing was done"), remedy: None }
}
