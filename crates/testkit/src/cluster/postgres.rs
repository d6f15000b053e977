//! A PostgreSQL of one test, which may be shut down while servers use it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The server goes with this value.
#[derive(Debug)]
pub(super) struct OwnPostgres {
    folder: PathBuf,
    url: String,
}

impl OwnPostgres {
    pub(super) fn start() -> anyhow::Result<Self> {
        // Not a folder that vanishes by itself: the script removes it once nothing writes into it any more.
        let folder = std::env::temp_dir().join(format!("mainspring-cluster-{:08x}", fastrand::u32(..)));
        let url = script(&folder, "start", true)?;
        Ok(Self { folder, url })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Immediate shutdown, and a start on the same data: what was not written down is forgotten. Takes its time.
    pub(super) async fn restart(&self) -> anyhow::Result<()> {
        let folder = self.folder.clone();
        tokio::task::spawn_blocking(move || script(&folder, "restart", false)).await??;
        Ok(())
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        _ = script(&self.folder, "stop", false);
    }
}

fn script(folder: &Path, action: &str, fast: bool) -> anyhow::Result<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres");
    // The script ends, the server stays: it must not keep the pipe of its output.
    let printed = std::env::temp_dir().join(format!("mainspring-cluster-{:08x}.out", fastrand::u32(..)));
    let file = std::fs::File::create(&printed).context("making a file for a script's output")?;
    let status = Command::new("bash")
        .arg(script)
        .arg(action)
        .args(fast.then_some("--fast"))
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .context("starting scripts/postgres")?;
    let text = std::fs::read_to_string(&printed)?;
    _ = std::fs::remove_file(&printed);
    if !status.success() {
        bail!("scripts/postgres {action}: {text}");
    }
    Ok(text.trim().to_owned())
}
