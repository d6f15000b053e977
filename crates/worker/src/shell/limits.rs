//! Limits on what each process of a task may use, and the signs that one was reached.
//!
//! They are the operating system's resource limits. A process can only set its own, so a small shell sets them and then
//! becomes the program: from its first instruction on it is bound, and so is whatever it starts.

use mainspring_core::workflow::Limits;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::Signal;

/// The shell that every system has. It reads nothing of the task's but its arguments.
pub(super) const SHELL: &str = "/bin/sh";

/// The argument of the shell: numbers only, the command comes in its arguments. `None` without limits.
pub(super) fn instruction(limits: &Limits) -> Option<String> {
    let mut commands = Vec::new();
    if let Some(bytes) = limits.memory_bytes {
        let bytes = at_most_own(Resource::RLIMIT_AS, bytes);
        commands.push(format!("ulimit -v {}", bytes.div_ceil(1024)));
    }
    if let Some(files) = limits.files {
        commands.push(format!("ulimit -n {}", at_most_own(Resource::RLIMIT_NOFILE, files)));
    }
    if let Some(milliseconds) = limits.cpu_ms {
        // The first may not exceed the second, which brings the signal that cannot be caught.
        let hard = at_most_own(Resource::RLIMIT_CPU, seconds(milliseconds) + 1);
        commands.push(format!("ulimit -S -t {} && ulimit -H -t {hard}", seconds(milliseconds).min(hard)));
    }
    (!commands.is_empty()).then(|| format!("{} && exec \"$@\"", commands.join(" && ")))
}

/// The system counts whole seconds.
fn seconds(milliseconds: u64) -> u64 {
    milliseconds.div_ceil(1_000).max(1)
}

/// No task can get more than the worker has.
fn at_most_own(resource: Resource, wanted: u64) -> u64 {
    getrlimit(resource).map_or(wanted, |(_, hard)| wanted.min(hard))
}

/// The limit that a failed process has reached, judged by its exit status and the end of its output.
pub(super) fn reached(limits: &Limits, code: Option<i32>, signal: Option<i32>, tail: &str) -> Option<ReachedLimit> {
    let ended_by = |wanted: Signal| signal == Some(wanted as i32) || code == Some(128 + wanted as i32);
    if let Some(milliseconds) = limits.cpu_ms
        && ended_by(Signal::SIGXCPU)
    {
        return Some(ReachedLimit {
            what: format!("its limit of {} s of CPU time", seconds(milliseconds)),
            certain: true,
        });
    }
    let says = |words: &[&str]| {
        let tail = tail.to_ascii_lowercase();
        words.iter().any(|word| tail.contains(word))
    };
    if let Some(files) = limits.files
        && says(&["too many open files", "emfile"])
    {
        return Some(ReachedLimit { what: format!("its limit of {files} open files"), certain: false });
    }
    let out_of_memory = [
        "cannot allocate",
        "out of memory",
        "memoryerror",
        "bad_alloc",
        "memory exhausted",
        "enomem",
        "memory allocation",
    ];
    let fatal = [Signal::SIGKILL, Signal::SIGSEGV, Signal::SIGABRT, Signal::SIGBUS].into_iter().any(ended_by);
    if let Some(bytes) = limits.memory_bytes
        && (says(&out_of_memory) || fatal)
    {
        return Some(ReachedLimit { what: format!("its limit of {} of memory", size(bytes)), certain: false });
    }
    None
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReachedLimit {
    pub(super) what: String,
    /// Only the system ends a process in this way.
    pub(super) certain: bool,
}

fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_hold_numbers_only() {
        assert_eq!(instruction(&Limits::default()), None);
        let limits = Limits { memory_bytes: Some(64 << 20), files: Some(16), cpu_ms: Some(1_500) };
        let text = "ulimit -v 65536 && ulimit -n 16 && ulimit -S -t 2 && ulimit -H -t 3 && exec \"$@\"";
        assert_eq!(instruction(&limits).as_deref(), Some(text));
    }

    #[test]
    fn ends_tell_which_limit_was_reached() {
        let limits = Limits { memory_bytes: Some(64 << 20), files: Some(16), cpu_ms: Some(900) };
        let what =
            |code, signal, tail| reached(&limits, code, signal, tail).map(|reached| (reached.what, reached.certain));
        let is = |text: &str, certain| Some((text.to_owned(), certain));
        assert_eq!(what(None, Some(24), ""), is("its limit of 1 s of CPU time", true));
        assert_eq!(what(Some(152), None, ""), is("its limit of 1 s of CPU time", true));
        assert_eq!(what(Some(1), None, "x: Too many open files"), is("its limit of 16 open files", false));
        assert_eq!(what(Some(1), None, "MemoryError"), is("its limit of 64 MiB of memory", false));
        assert_eq!(what(Some(139), None, ""), is("its limit of 64 MiB of memory", false));
        assert_eq!(what(Some(1), None, "something else"), None);
        assert_eq!(reached(&Limits::default(), None, Some(24), "MemoryError"), None);
    }
}
