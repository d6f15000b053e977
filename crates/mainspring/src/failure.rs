//! How a command ends: the exit codes, and what a person reads when it could not do its work.

use std::fmt;

use mainspring_engine::CoordinationError;
use mainspring_store::Error as StoreError;

/// Every exit code this program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Success = 0,
    /// The work was done and failed.
    WorkFailed = 1,
    /// Bad input or configuration: nothing was done.
    BadInput = 2,
    /// A database or server is not reachable.
    Unreachable = 3,
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        (exit as u8).into()
    }
}

/// Why a command could not do its work: the place and cause, and a remedy where there is one.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) remedy: Option<String>,
}

pub(crate) type Result<T = Exit, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn bad_input(message: impl Into<String>) -> Self {
        Self { exit: Exit::BadInput, message: message.into(), remedy: None }
    }

    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, message: message.into(), remedy: None }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::WorkFailed, message: message.into(), remedy: None }
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Says first what was being done.
    pub(crate) fn while_doing(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

/// An error of the system in words, without its number.
pub(crate) fn cause(error: &std::io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    words.chars().next().map_or_else(String::new, |first| first.to_lowercase().chain(words.chars().skip(1)).collect())
}

impl From<CoordinationError> for Failure {
    fn from(error: CoordinationError) -> Self {
        match error {
            CoordinationError::Store(error) => error.into(),
            CoordinationError::Unreachable(_) => Self::unreachable(error.to_string())
                .remedy("check that etcd runs there and that --etcd (ETCD_ENDPOINTS, etcd.endpoints) names it"),
            CoordinationError::Refused(message) => Self::bad_input(message)
                .remedy("see etcd.endpoints, username, password_file, ca, cert and key in docs/high-availability.md"),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let remedy = remedy(&error);
        let exit = match &error {
            StoreError::Unavailable(_) | StoreError::InDoubt(_) | StoreError::Repeat(_) => Exit::Unreachable,
            StoreError::BadRow { .. } => Exit::WorkFailed,
            StoreError::Rejected(_)
            | StoreError::NotFound { .. }
            | StoreError::Conflict(_)
            | StoreError::Invalid(_)
            | StoreError::KeyTaken
            | StoreError::NewerSchema { .. }
            | StoreError::OlderSchema { .. }
            | StoreError::BadUrl(_)
            | StoreError::FileInUse(_) => Exit::BadInput,
        };
        Self { exit, message: without_noise(&error.to_string()), remedy }
    }
}

/// Without the driver's preamble and the line of the database's own source.
fn without_noise(message: &str) -> String {
    let message = message.replace("error returned from database: ", "");
    match message.rsplit_once(" at line ") {
        Some((words, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => words.to_owned(),
        _ => message,
    }
}

fn remedy(error: &StoreError) -> Option<String> {
    let text = match error {
        StoreError::Unavailable(_) => {
            "check that the database runs and that --database names it, or ask `mainspring doctor`"
        }
        StoreError::InDoubt(_) => "look with `mainspring runs list`, then repeat with the same --idempotency-key",
        StoreError::Repeat(_) => "the database is overloaded or locked: repeat the command",
        StoreError::NotFound { what } if what.starts_with("run ") => "`mainspring runs list` shows what there is",
        StoreError::Rejected(source) if source.to_string().contains("does not exist") => {
            "create the database first, or correct the name in --database"
        }
        StoreError::Rejected(source) if source.to_string().contains("authentication") => {
            "correct user and password in --database"
        }
        StoreError::BadRow { .. } => "the database was changed by something else; restore it from a backup",
        _ => return None,
    };
    Some(text.to_owned())
}

impl From<mainspring_engine::SubmitError> for Failure {
    fn from(error: mainspring_engine::SubmitError) -> Self {
        use mainspring_engine::SubmitError;
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::Inputs(problems) => {
                let mut message = String::from("the inputs do not fit the workflow");
                for problem in problems.iter() {
                    message.push_str("\n  ");
                    message.push_str(&problem.message);
                    if let Some(help) = &problem.help {
                        message.push_str(&format!(" ({help})"));
                    }
                }
                Self::bad_input(message)
            }
            error @ SubmitError::Quota(_) => Self { exit: Exit::Unreachable, message: error.to_string(), remedy: None },
            error @ (SubmitError::Key(_) | SubmitError::Nul(_)) => Self::bad_input(error.to_string()),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<StoreError>() {
            Ok(error) => error.into(),
            Err(error) => Self::failed(format!("{error:#}")),
        }
    }
}
