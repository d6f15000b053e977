//! Ignored tests as processes: the worker and its watchdog are the test binary, started again.

use std::ffi::OsString;

/// The command line that runs one of the ignored tests of this binary in the main thread of a process of its own.
pub fn as_process(name: &str) -> Vec<OsString> {
    let exe = std::env::current_exe().unwrap().into_os_string();
    let flags = ["--exact", name, "--ignored", "--nocapture", "--test-threads=1"];
    std::iter::once(exe).chain(flags.map(OsString::from)).collect()
}

pub fn is_process(name: &str) -> bool {
    std::env::args().any(|argument| argument == name)
}
