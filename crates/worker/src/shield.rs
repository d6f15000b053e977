//! Hides this process from the tasks it starts.
//!
//! Tasks run as the same user, and on Linux whoever is the same user may read another process's environment and memory
//! through `/proc`, where the database's password stands. A process that is not dumpable is closed to everybody but root.
//! Programs that it starts are dumpable again.

/// Closes `/proc/PID/environ`, `mem`, `fd` and tracing of this process to tasks of the same user. Its crashes leave no core
/// dump then. Root, more exactly whoever has `CAP_SYS_PTRACE`, can still look: do not run a worker as root.
#[cfg(target_os = "linux")]
pub fn hide_process() -> std::io::Result<()> {
    nix::sys::prctl::set_dumpable(false).map_err(Into::into)
}

/// Other systems show a process's environment to its user by means that cannot be closed from here.
#[cfg(not(target_os = "linux"))]
pub fn hide_process() -> std::io::Result<()> {
    Ok(())
}
