//! Hides this process, and what it holds open, from the tasks it starts.
//!
//! Tasks run as the same user, and on Linux every process of that user may read another process's environment and memory
//! through `/proc`, where the database's password stands. A process that is not dumpable is closed to every user but root.
//! Programs that it starts are dumpable again.
//!
//! Whatever this program opens itself is closed in its tasks. What it inherits from the program that started it (a service manager,
//! a shell, a lock that guards a whole session) is not, and would be handed on.

/// Closes `/proc/PID/environ`, `mem`, `fd` and tracing of this process to tasks of the same user. Its crashes leave no core
/// dump then. Root, more exactly a process with `CAP_SYS_PTRACE`, can still look: do not run a worker as root.
#[cfg(target_os = "linux")]
pub fn hide_process() -> std::io::Result<()> {
    nix::sys::prctl::set_dumpable(false).map_err(Into::into)
}

/// Other systems show a process's environment to its user by means that cannot be closed from here.
#[cfg(not(target_os = "linux"))]
pub fn hide_process() -> std::io::Result<()> {
    Ok(())
}

/// Closes every descriptor beyond the standard streams that would be handed on to programs started from here, unless
/// `keep` says that it is needed. To be called first of all: what is closed must not be in use yet.
#[cfg(target_os = "linux")]
pub fn close_inherited(keep: impl Fn(i32) -> bool) -> std::io::Result<()> {
    const STANDARD: std::ops::RangeInclusive<i32> = 0..=2;
    let open =
        std::fs::read_dir("/proc/self/fd")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let inherited: Vec<i32> = open.filter(|fd| !STANDARD.contains(fd) && !keep(*fd) && is_handed_on(*fd)).collect();
    for descriptor in inherited {
        nix::unistd::close(descriptor)?;
    }
    Ok(())
}

/// Other systems do not tell which descriptors would be handed on.
#[cfg(not(target_os = "linux"))]
pub fn close_inherited(_keep: impl Fn(i32) -> bool) -> std::io::Result<()> {
    Ok(())
}

/// Whether an open descriptor stays open in programs started from here.
#[cfg(target_os = "linux")]
fn is_handed_on(descriptor: i32) -> bool {
    let Ok(info) = std::fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")) else { return false };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & nix::fcntl::OFlag::O_CLOEXEC.bits() == 0)
}
