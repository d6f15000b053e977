//! The program under test: `mainspring` as cargo builds it, beside the test that asks.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use anyhow::{Context, ensure};

/// Names another program to test instead.
pub const BINARY_VARIABLE: &str = "MAINSPRING_TEST_BINARY";

/// The path of `mainspring`, built if it is not there or older than its sources.
pub fn mainspring() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| locate().unwrap_or_else(|error| panic!("finding the program to test: {error:#}")))
}

fn locate() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
        return Ok(path.into());
    }
    // target/PROFILE/deps/test → target/PROFILE
    let test = std::env::current_exe().context("asking for the path of this test")?;
    let profile = test.ancestors().nth(2).context("the test does not lie in a target folder")?;
    let binary = profile.join("mainspring");
    let lock = File::create(profile.join(".mainspring-test-build")).context("making the lock of the build")?;
    lock.lock().context("waiting for another test that builds")?;
    if !is_current(&binary) {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--package", "mainspring"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let status = build.status().context("running cargo build")?;
        ensure!(status.success(), "cargo build --package mainspring: {status}");
    }
    ensure!(binary.exists(), "cargo did not make {}", binary.display());
    Ok(binary)
}

/// Whether the program is younger than everything it is made of.
fn is_current(binary: &Path) -> bool {
    let Ok(built) = binary.metadata().and_then(|metadata| metadata.modified()) else { return false };
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let made_of = ["api", "core", "telemetry", "store", "engine", "worker", "server", "mainspring"];
    made_of.iter().all(|name| {
        let folder = crates.join(name);
        newest(&folder.join("src")).max(newest(&folder.join("sql"))) <= Some(built)
    })
}

fn newest(path: &Path) -> Option<SystemTime> {
    if !path.is_dir() {
        return path.metadata().and_then(|metadata| metadata.modified()).ok();
    }
    std::fs::read_dir(path).ok()?.flatten().filter_map(|entry| newest(&entry.path())).max()
}
