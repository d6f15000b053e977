//! Files of `cache`: put into the folder of a task before it begins, and collected when it has succeeded without them. A cache
//! saves time and is never needed: without it, or with one that cannot be kept, the task goes on, and its log says why.

use std::path::{Path, PathBuf};

use mainspring_core::work::{Artifact, ArtifactSource, Assignment};
use tokio::time::Instant;

use super::artifacts::{self, CANNOT_BE_KEPT, Collection};
use super::incoming::{self, Missing, NotFetched};
use super::place::Place;
use super::supervise::Surroundings;
use crate::capture::Capture;
use crate::control::Control;

/// Puts the files of earlier runs into the folder. If one of them does not arrive, none is left there.
pub(super) async fn restore(
    around: Surroundings<'_>,
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
    let fetching = fetch_all(around.artifacts, assignment, directory, &mut put);
    let missing = incoming::until_stopped(fetching, assignment, control, limit).await?;
    if let Some(why) = missing {
        for path in put {
            let _ = std::fs::remove_file(path);
        }
        capture.remark(format!("cache: the files are left out: {why}"), around.clock.now());
    }
    Ok(())
}

/// Why not all of them arrived, if so.
async fn fetch_all(
    source: Option<&dyn ArtifactSource>,
    assignment: &Assignment,
    directory: &Path,
    put: &mut Vec<PathBuf>,
) -> Result<Option<String>, Missing> {
    for file in assignment.order.process.cache.iter().flat_map(|cache| &cache.restored) {
        let target = match incoming::new_file(directory, file) {
            Ok(target) => target,
            // What the workflow or another task brings along comes first.
            Err(Missing::Failed(_)) if directory.join(&file.path).symlink_metadata().is_ok() => continue,
            Err(Missing::Failed(failure)) => return Ok(Some(failure.message)),
            Err(Missing::Lost) => return Err(Missing::Lost),
        };
        put.push(directory.join(&file.path));
        match incoming::fetch_file(source, assignment, file, target).await {
            Ok(()) => {}
            Err(Missing::Failed(failure)) => return Ok(Some(failure.message)),
            Err(Missing::Lost) => return Err(Missing::Lost),
        }
    }
    Ok(None)
}

/// Collects what a task that has succeeded leaves for later runs.
pub(super) async fn save(
    around: Surroundings<'_>,
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
    let (copies, token) = (around.workbench.root().to_owned(), around.workbench.copy_token());
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
    capture.remark(format!("cache: {remark}"), around.clock.now());
    let count = u32::try_from(files.len()).ok();
    for file in &mut files {
        file.cache_files = count;
    }
    files
}
