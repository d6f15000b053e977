//! The time zones of this machine: `TZDIR`, else where operating systems keep them. Without either the program uses the
//! tables it was built with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mainspring_core::schedule::{ZoneTables, install_zones, zone_version};
use mainspring_engine::Client;

const FOLDERS: [&str; 3] = ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo"];
/// Far above the largest file of a zone.
const LARGEST_FILE: u64 = 256 * 1024;
/// How often a server looks whether the tables were replaced.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// Reads the tables and uses them from now on; true if they differ from those before.
pub(crate) fn install() -> bool {
    let Some(folder) = folder() else { return install_zones(ZoneTables::default()) };
    let mut tables = ZoneTables::new(folder.display().to_string(), version(&folder));
    for name in ZoneTables::names() {
        let file = folder.join(name);
        if std::fs::metadata(&file).is_ok_and(|about| about.is_file() && about.len() <= LARGEST_FILE)
            && let Ok(bytes) = std::fs::read(&file)
        {
            tables.add(name, &bytes);
        }
    }
    install_zones(tables)
}

/// Moves the next fires to what this machine's tables say, now and whenever these are replaced. Ends with the process.
pub(crate) async fn keep_up_to_date(client: Client) {
    realign(&client).await;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if tokio::task::spawn_blocking(install).await.unwrap_or(false) {
            let version = zone_version();
            tracing::info!(version = version.version, source = version.source, "the time zones were replaced");
            realign(&client).await;
        }
    }
}

async fn realign(client: &Client) {
    match client.realign_schedules().await {
        Ok(0) => {}
        Ok(moved) => tracing::info!(moved, "schedules were moved to what the time zones say now"),
        Err(error) => tracing::warn!(%error, "moving schedules to what the time zones say now"),
    }
}

fn folder() -> Option<PathBuf> {
    let chosen = std::env::var_os("TZDIR").map(PathBuf::from);
    let usual = FOLDERS.iter().map(PathBuf::from);
    chosen.into_iter().chain(usual).find(|folder| folder.is_dir())
}

/// `2026a`; `unknown` where the folder does not say.
fn version(folder: &Path) -> String {
    let first_line = |name: &str| {
        let text = std::fs::read(folder.join(name)).ok()?;
        let line = String::from_utf8_lossy(text.split(|byte| *byte == b'\n').next()?).trim().to_owned();
        Some(line.strip_prefix("# version ").unwrap_or(&line).to_owned()).filter(|line| !line.is_empty())
    };
    first_line("tzdata.zi").or_else(|| first_line("+VERSION")).unwrap_or_else(|| "unknown".into())
}
