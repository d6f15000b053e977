//! Containers outlive the process that started them, so they are removed by name, and by the label of their worker.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::shell::container::LABEL;

/// Removes containers by force. A container that does not exist counts as removed.
pub(super) fn remove(engine: &Path, names: &[String]) {
    let mut command = Command::new(engine);
    command.args(["rm", "-f"]).args(names).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.status();
}

/// Removes containers with the label of this worker. The worker may have died before it announced their names.
pub(super) fn sweep(engine: &Path, directory: &Path) {
    let mut command = Command::new(engine);
    let filter = format!("label={LABEL}={}", directory.display());
    command.args(["ps", "-aq", "--filter", &filter]).stdin(Stdio::null()).stderr(Stdio::null());
    let Ok(listed) = command.output() else { return };
    let ids: Vec<String> = String::from_utf8_lossy(&listed.stdout).split_whitespace().map(str::to_owned).collect();
    if !ids.is_empty() {
        remove(engine, &ids);
    }
}
