//! Derives the failure of a script from its exit status.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use mainspring_core::work::Failure;
use mainspring_core::workflow::Limits;
use nix::sys::signal::Signal;

use super::limits;
use crate::text::first_characters;

/// `None` for success. `tail` is the end of what was printed.
pub(super) fn judge(status: ExitStatus, tail: Option<String>, limits: &Limits) -> Option<Failure> {
    let (mut kind, mut message) = match (status.code(), status.signal()) {
        (Some(0), _) => return None,
        (Some(127), _) => match tail.as_deref().and_then(not_found) {
            Some(line) => ("spawn", format!("command not found (exit code 127): {line}")),
            None => ("exit", "exited with code 127 (which usually means: command not found)".to_owned()),
        },
        (Some(126), _) => ("exit", "exited with code 126 (which usually means: not executable)".to_owned()),
        (Some(code), _) => ("exit", format!("exited with code {code}")),
        (None, Some(number)) => match Signal::try_from(number) {
            Ok(signal) => ("signal", format!("killed by signal {number} ({signal})")),
            Err(_) => ("signal", format!("killed by signal {number}")),
        },
        (None, None) => ("signal", "ended in an unknown way".to_owned()),
    };
    match limits::reached(limits, status.code(), status.signal(), tail.as_deref().unwrap_or_default()) {
        Some(reached) if reached.certain => {
            kind = "limit";
            message = format!("{message}: a process reached {}", reached.what);
        }
        Some(reached) => message = format!("{message}; perhaps a process reached {}", reached.what),
        None => {}
    }
    Some(Failure { kind: kind.into(), message, exit_code: status.code(), detail: tail, ..Failure::default() })
}

/// The message that shells print about a missing command.
fn not_found(tail: &str) -> Option<&str> {
    let line = tail.lines().rev().find(|line| line.contains("not found") || line.contains("No such file"))?;
    Some(first_characters(line.trim(), 500))
}
