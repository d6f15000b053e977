//! A folder in which the real program is called with hardly any environment, and the canary that must not appear.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use mainspring_testkit::binary::mainspring;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Place {
    folder: TempDir,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder can be made") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What hostile values try to make.
    pub(crate) fn canary(&self) -> PathBuf {
        self.path("canary")
    }

    #[track_caller]
    pub(crate) fn assert_no_canary(&self) {
        assert!(!self.canary().exists(), "a value was executed: {} exists", self.canary().display());
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file can be written");
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(mainspring());
        command.current_dir(self.folder.path()).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn call(&self, arguments: &[&str]) -> Ended {
        ended(&mut self.command(arguments))
    }

    /// Runs the workflow and returns its outputs.
    #[track_caller]
    pub(crate) fn outputs(&self, workflow: &str, inputs: &[String]) -> Value {
        self.write("w.yaml", workflow);
        let mut arguments = vec!["run", "w.yaml", "--json"];
        arguments.extend(inputs.iter().flat_map(|input| ["-i", input.as_str()]));
        let ended = self.call(&arguments);
        assert_eq!(ended.code, 0, "{workflow}\n{}\n{}", ended.stdout, ended.stderr);
        ended.json()["outputs"].clone()
    }
}

pub(crate) fn ended(command: &mut Command) -> Ended {
    let output = command.output().expect("the program can be called");
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Ended {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Bad input: refused before anything was done, with an error that holds these words.
    #[track_caller]
    pub(crate) fn refused(&self, words: &[&str]) {
        assert_eq!(self.code, 2, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is missing: {self:?}");
        }
    }
}
