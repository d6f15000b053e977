//! Restores the files of `cache` into the folder of a task before it begins, and saves them after a success. A
//! cache only saves time: when it is missing or cannot be saved, the task goes on, and its log shows why.

use std::path::{Path, PathBuf};

use mainspring_core::work::{Artifact, ArtifactSource, Assignment};
use tokio::time::Instant;

use super::artifacts::{self, CANNOT_BE_KEPT, Collection};
use super::incoming::{self, FetchError, NotFetched};
use super::place::Place;
use super::supervise::PoolContext;
use crate::capture::Capture;
use crate::control::Control;

/// Restores the files of earlier runs. If a file does not arrive, all of them are removed again.
pub(super) async fn restore(
    pool: PoolContext<'_>,
    assignment: &Assignment,
    directory: &Path,
    control: &Control,
    limit: Option<Instant>,
    capture: &mut Capture,
) -> Result<(), NotFetched> {
    let Some(cache) = assignment.order.process.cache.as_deref().filter(|cache| !cache.restored.is_empty()) else {
        return Ok(());
    };
    let mut put = Vec::with_capacity(cache.restored.len());
    let fetching = fetch_all(pool.artifacts, assignment, directory, &mut put);
    let missing = incoming::until_stopped(fetching, assignment, control, limit).await?;
    if let Some(why) = missing {
        for path in put {
            let _ = std::fs::remove_file(path);
        }
        capture.remark(format!("cache: the files are left out: {why}"), pool.clock.now());
    }
    Ok(())
}

/// The reason why a file did not arrive, if one did not.
async fn fetch_all(
    source: Option<&dyn ArtifactSource>,
    assignment: &Assignment,
    directory: &Path,
    put: &mut Vec<PathBuf>,
) -> Result<Option<String>, FetchError> {
    for file in assignment.order.process.cache.iter().flat_map(|cache| &cache.restored) {
        let target = match incoming::new_file(directory, file) {
            Ok(target) => target,
            // A file of the workflow or of another task takes precedence.
            Err(FetchError::Failed(_)) if directory.join(&file.path).symlink_metadata().is_ok() => continue,
            Err(FetchError::Failed(failure)) => return Ok(Some(failure.message)),
            Err(FetchError::Lost) => return Err(FetchError::Lost),
        };
        put.push(directory.join(&file.path));
        match incoming::fetch_file(source, assignment, file, target).await {
            Ok(()) => {}
            Err(FetchError::Failed(failure)) => return Ok(Some(failure.message)),
            Err(FetchError::Lost) => return Err(FetchError::Lost),
        }
    }
    Ok(None)
}

/// Collects the files that a successful task leaves for later runs.
pub(super) async fn save(
    pool: PoolContext<'_>,
    assignment: &Assignment,
    place: &mut Place,
    capture: &mut Capture,
) -> Vec<Artifact> {
    let Some(cache) = assignment.order.process.cache.as_deref().filter(|cache| !cache.saved.is_empty()) else {
        return Vec::new();
    };
    place.remove_script();
    let Some(directory) = place.directory().map(Path::to_owned) else { return Vec::new() };
    let (patterns, limit) = (cache.saved.clone(), cache.limit);
    let (copies, token) = (pool.workbench.root().to_owned(), pool.workbench.copy_token());
    let collected = tokio::task::spawn_blocking(move || {
        artifacts::collect(&Collection { directory: &directory, patterns: &patterns, limit, copies: &copies, token })
    })
    .await;
    let (mut files, remark) = match collected {
        Ok(Ok(files)) if files.is_empty() => (files, "no file matches its paths, so nothing is kept".to_owned()),
        Ok(Ok(files)) => {
            let bytes: u64 = files.iter().map(|file| file.bytes).sum();
            let remark = format!("{} files of {bytes} bytes are kept for later runs", files.len());
            (files, remark)
        }
        Ok(Err(failure)) => {
            let why = failure.message.trim_start_matches(CANNOT_BE_KEPT).to_owned();
            (Vec::new(), format!("nothing is kept: {why}"))
        }
        Err(error) => (Vec::new(), format!("nothing is kept: {error}")),
    };
    capture.remark(format!("cache: {remark}"), pool.clock.now());
    let count = u32::try_from(files.len()).ok();
    for file in &mut files {
        file.cache_files = count;
    }
    files
}
