//! What a task says about the process that executes it.

use serde::{Deserialize, Serialize};

use crate::state::{UnknownState, coded_enum};
use crate::work::Failure;

/// Exit codes that mean something else than a failure. No code stands in both lists, and 0 in none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitCodes {
    /// The task is skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<u8>,
    /// The task has succeeded.
    #[serde(default, rename = "continue", skip_serializing_if = "Vec::is_empty")]
    pub succeed: Vec<u8>,
}

/// What an exit code means besides a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitMeaning {
    Skip,
    Succeed,
}

impl ExitCodes {
    /// `None`: a failure like any other.
    pub fn meaning(&self, code: i32) -> Option<ExitMeaning> {
        let listed = |codes: &[u8]| codes.iter().any(|listed| i32::from(*listed) == code);
        match () {
            () if listed(&self.skip) => Some(ExitMeaning::Skip),
            () if listed(&self.succeed) => Some(ExitMeaning::Succeed),
            () => None,
        }
    }

    /// The same of a failure: only what ended by itself has an exit code, a timeout or a signal has none.
    pub fn meaning_of(&self, failure: &Failure) -> Option<ExitMeaning> {
        failure.exit_code.and_then(|code| self.meaning(code))
    }
}

coded_enum! {
    /// Where the output of a script comes from, besides the file `$MAINSPRING_OUTPUT`.
    OutputFrom("output") {
        /// From the file alone.
        File = 0 "file",
        /// `stdout` is the text that was printed.
        Stdout = 1 "stdout",
        /// What was printed is JSON and the output itself.
        Json = 2 "json",
    }
}

#[expect(clippy::derivable_impls, reason = "the macro that makes the type has no place for a default")]
impl Default for OutputFrom {
    fn default() -> Self {
        Self::File
    }
}

/// The image that a script runs in. Texts may hold `${{ }}` where it is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// May hold expressions.
    pub image: String,
    /// What is executed instead of the image's own command, if there is no script; may hold expressions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A user, or user and group, as the engine understands it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The engine's own unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Thousandths of a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    pub pull: Pull,
    /// At the registry; both may hold expressions, `secrets` too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

coded_enum! {
    /// When an image is fetched from its registry.
    Pull("pull policy") {
        Missing = 0 "missing",
        Always = 1 "always",
        Never = 2 "never",
    }
}

impl Container {
    /// Workers that have a container engine carry this label, and only they get tasks with an image.
    pub const LABEL: (&'static str, &'static str) = ("container", "true");

    pub fn new(image: String) -> Self {
        Self {
            image,
            command: Vec::new(),
            user: None,
            network: None,
            memory_bytes: None,
            cpu_millis: None,
            pull: Pull::Missing,
            username: None,
            password: None,
        }
    }
}
