//! Processes that were not announced: the worker died between the start of a process and its announcement.
//!
//! They are known by their environment, which names a file in the worker's directory. The pipe closes only after such a
//! process was executed, because until then it holds the pipe open itself, so one look afterwards sees it. Processes
//! that left the worker's session did so on purpose and stay.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgrp, getsid};

/// For an instant a process is executed and has no environment yet.
const SECOND_LOOK: Duration = Duration::from_millis(10);
const MOST_LOOKS: usize = 5;

/// Kills the groups of all processes that work for the worker of this directory.
pub(super) fn kill(directory: &Path) {
    for _ in 0..MOST_LOOKS {
        if !look(directory) {
            return;
        }
        std::thread::sleep(SECOND_LOOK);
    }
}

/// One look; true if there was a process that could not be identified yet.
fn look(directory: &Path) -> bool {
    let Ok(session) = getsid(None) else { return false };
    let mark = [b"MAINSPRING_OUTPUT=".as_slice(), directory.as_os_str().as_bytes(), b"/"].concat();
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let mut unsure = false;
    for process in processes.flatten() {
        let Ok(stat) = fs::read_to_string(process.path().join("stat")) else { continue };
        let Some(group) = group_in_session(&stat, session).filter(|group| *group != getpgrp()) else { continue };
        let Ok(environment) = fs::read(process.path().join("environ")) else { continue };
        if environment.is_empty() {
            unsure = true;
        } else if environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(&mark)) {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
    unsure
}

/// The process group, if the process lives and belongs to the session. proc(5): after the name in brackets come state,
/// parent, group and session.
fn group_in_session(stat: &str, session: Pid) -> Option<Pid> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let group: i32 = fields.nth(1)?.parse().ok()?;
    let found: i32 = fields.next()?.parse().ok()?;
    (state != "Z" && found == session.as_raw() && group > 1).then(|| Pid::from_raw(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_behind_any_name() {
        let session = Pid::from_raw(7);
        assert_eq!(group_in_session("5 (a) b) S 1 6 7 0 -1", session), Some(Pid::from_raw(6)));
        assert_eq!(group_in_session("5 (x) Z 1 6 7 0 -1", session), None);
        assert_eq!(group_in_session("5 (x) S 1 6 8 0 -1", session), None);
        assert_eq!(group_in_session("5 (x) S 1 0 7 0 -1", session), None);
        assert_eq!(group_in_session("nonsense", session), None);
    }
}
