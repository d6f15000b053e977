//! Files of other tasks: fetched into the folder of a task before it begins, and checked as they arrive.

use std::path::Path;
use std::time::Duration;

use mainspring_core::work::{ArtifactSource, Assignment, Failure, IncomingFile, Outcome, Transfer, TransferError};
use ring::digest::{Context, SHA256};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep_until};

use super::bundle::{checked, create};
use crate::control::{Control, Stop};
use crate::function::timed_out;
use crate::text::{first_characters, hex};

/// How often a transfer that breaks off is begun again.
const MOST_TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);

/// Why the files are not there.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The attempt belongs to another session.
    Lost,
    Failed(Failure),
}

/// Why a task does not begin.
#[derive(Debug)]
pub(super) enum NotFetched {
    Lost,
    Ended(Outcome),
}

/// Fetches every file that an order needs into the folder, unless the attempt is asked to end or its time is up.
pub(super) async fn fetch(
    source: Option<&dyn ArtifactSource>,
    assignment: &Assignment,
    directory: &Path,
    control: &Control,
    limit: Option<Instant>,
) -> Result<(), NotFetched> {
    until_stopped(fetch_all(source, assignment, directory), assignment, control, limit).await
}

/// Awaits the fetch, unless the attempt is asked to end or its time is up.
pub(super) async fn until_stopped<T>(
    fetching: impl Future<Output = Result<T, FetchError>>,
    assignment: &Assignment,
    control: &Control,
    limit: Option<Instant>,
) -> Result<T, NotFetched> {
    tokio::select! {
        fetched = fetching => fetched.map_err(|missing| match missing {
            FetchError::Lost => NotFetched::Lost,
            FetchError::Failed(failure) => NotFetched::Ended(Outcome::Failed(failure)),
        }),
        () = control.stopped.cancelled() => Err(match control.reason() {
            Some(Stop::Lost) => NotFetched::Lost,
            Some(Stop::Cancel(reason)) => NotFetched::Ended(Outcome::Cancelled { reason }),
            _ => NotFetched::Ended(Outcome::Released),
        }),
        () = sleep_until(limit.unwrap_or_else(Instant::now)), if limit.is_some() => {
            let limit = Duration::from_millis(assignment.order.timeout_ms.unwrap_or_default());
            Err(NotFetched::Ended(Outcome::Failed(timed_out(limit))))
        }
    }
}

async fn fetch_all(
    source: Option<&dyn ArtifactSource>,
    assignment: &Assignment,
    directory: &Path,
) -> Result<(), FetchError> {
    for file in &assignment.order.process.incoming {
        let target = new_file(directory, file)?;
        fetch_file(source, assignment, file, target).await?;
    }
    Ok(())
}

/// Creates the empty file that a transfer is written to.
pub(super) fn new_file(directory: &Path, file: &IncomingFile) -> Result<std::fs::File, FetchError> {
    let path = checked(&file.path).map_err(|why| failed(file, why, true))?;
    create(directory, &path, file.executable).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => failed(file, "there is a file of that name already", true),
        _ => failed(file, &error.to_string(), false),
    })
}

pub(super) async fn fetch_file(
    source: Option<&dyn ArtifactSource>,
    assignment: &Assignment,
    file: &IncomingFile,
    target: std::fs::File,
) -> Result<(), FetchError> {
    let by = Transfer { session: assignment.session, key: assignment.key, attempt: assignment.attempt };
    let source = source.ok_or_else(|| failed(file, "this worker cannot fetch files", true))?;
    fetch_one(source, by, file, tokio::fs::File::from_std(target)).await
}

async fn fetch_one(
    source: &dyn ArtifactSource,
    by: Transfer,
    file: &IncomingFile,
    mut target: tokio::fs::File,
) -> Result<(), FetchError> {
    let mut tries = 0;
    loop {
        match transfer(source, by, file, &mut target).await {
            Ok(sha256) if sha256.eq_ignore_ascii_case(&file.sha256) => return Ok(()),
            Ok(sha256) => {
                let why =
                    format!("it is corrupted: it was kept with the SHA-256 {}, but {sha256} arrived", file.sha256);
                return Err(failed(file, &why, false));
            }
            Err(TransferError::Lost) => return Err(FetchError::Lost),
            Err(TransferError::Failed(why)) => {
                tries += 1;
                if tries >= MOST_TRIES {
                    return Err(failed(file, &why, false));
                }
                tracing::warn!(why, file = file.name, "a file of another task did not arrive; it is fetched again");
                tokio::time::sleep(PAUSE).await;
            }
        }
        let emptied = async {
            target.set_len(0).await?;
            tokio::io::AsyncSeekExt::rewind(&mut target).await
        };
        emptied.await.map_err(|error| failed(file, &error.to_string(), false))?;
    }
}

/// Writes the bytes of a transfer, and returns their digest.
async fn transfer(
    source: &dyn ArtifactSource,
    by: Transfer,
    file: &IncomingFile,
    target: &mut tokio::fs::File,
) -> Result<String, TransferError> {
    let written = |error: std::io::Error| TransferError::Failed(format!("it cannot be written: {error}"));
    let mut reader = source.open(by, file).await?;
    let (mut digest, mut bytes) = (Context::new(&SHA256), 0);
    while let Some(piece) = reader.next().await? {
        digest.update(&piece);
        bytes += piece.len() as u64;
        if bytes > file.bytes {
            // A transfer that is longer than the stored file is not that file.
            break;
        }
        target.write_all(&piece).await.map_err(written)?;
    }
    target.flush().await.map_err(written)?;
    Ok(hex(digest.finish().as_ref()))
}

fn failed(file: &IncomingFile, why: &str, permanent: bool) -> FetchError {
    let name = first_characters(&file.name, 200).escape_debug().to_string();
    let message = format!("the file `{name}` of the task run {} did not arrive: {why}", file.task_run_id);
    FetchError::Failed(Failure { kind: "files".into(), message, permanent, ..Failure::default() })
}
