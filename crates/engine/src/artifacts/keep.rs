//! Stores a file while it is received, without holding it in memory.

use mainspring_boxed::boxed;
use mainspring_core::TaskKey;
use mainspring_core::work::{
    Artifact, ArtifactContent, ArtifactReader, Completion, Failure, Outcome, SourceFuture, TransferError,
};
use mainspring_store::{ArtifactPlace, StoredArtifact};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt as _};
use ring::digest;
use tokio::io::AsyncReadExt as _;

use super::{DATABASE_LIMIT, hex};
use crate::client::Client;
use crate::exchange::scopes::pause;
use crate::node::Shared;

/// What is sent to an object store at once.
const PART: usize = 8 << 20;
/// What is read from a file at once.
const PIECE: usize = 256 << 10;
/// An upload that has not ended by then is abandoned.
const LONGEST_UPLOAD: i64 = 24 * 3_600 * 1_000_000;
/// How often a failing object store is retried before the task fails.
const MOST_TRIES: u32 = 5;

/// A file that is being uploaded.
#[derive(Debug, Clone)]
pub struct ArtifactUpload {
    pub name: String,
    pub executable: bool,
    /// The digest that its sender computed, in hexadecimal digits.
    pub sha256: String,
    /// It belongs to a cache of this many files.
    pub cache_files: Option<u32>,
}

/// Why a file was not kept or did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error("the file has more than {limit} bytes: keep less, or {remedy}")]
    TooLarge { limit: u64, remedy: &'static str },
    #[error(
        "the files of the attempt have more than {} bytes together: keep less, or set artifacts.url",
        DATABASE_LIMIT
    )]
    TooMuch,
    #[error("the file has the SHA-256 {found}, but its sender computed {said}: send it again")]
    Digest { said: String, found: String },
    #[error("the file does not come: {0}")]
    Sender(String),
    #[error("the object store does not take or give the file: {0}")]
    Objects(#[from] object_store::Error),
    #[error("the file is in an object store, but artifacts.url is not set here")]
    NoObjects,
    #[error("the upload took too long: nothing waits for the file any more")]
    TooLate,
    #[error(transparent)]
    Store(#[from] mainspring_store::Error),
}

impl ArtifactError {
    /// Whether a retry can help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Objects(_)) || matches!(self, Self::Store(error) if error.is_transient())
    }
}

#[boxed]
impl Client {
    /// Stores a file of an attempt while it is received. The same name again replaces it.
    pub async fn keep_artifact(
        &self,
        key: TaskKey,
        attempt: i32,
        upload: &ArtifactUpload,
        reader: &mut dyn ArtifactReader,
    ) -> Result<StoredArtifact, ArtifactError> {
        let limit = self.artifacts.database_limit();
        let mut read = Receiving { reader, digest: digest::Context::new(&digest::SHA256), bytes: 0 };
        let mut head = Vec::new();
        let mut fits = true;
        while fits && let Some(piece) = read.next().await? {
            head.extend_from_slice(&piece);
            fits = head.len() as u64 <= limit;
        }
        if fits {
            let others = match upload.cache_files {
                None => self.store.artifact_bytes(key, attempt, &upload.name).await?,
                Some(_) => self.store.cached_bytes(key, attempt, &upload.name).await?,
            };
            fits = others.unsigned_abs() + read.bytes <= DATABASE_LIMIT;
            if !fits && self.artifacts.objects.is_none() {
                return Err(ArtifactError::TooMuch);
            }
        }
        let place = match fits {
            true => ArtifactPlace::Database(head),
            false => self.keep_object(key, head, &mut read, upload).await?,
        };
        let (bytes, sha256) = (read.bytes, read.checked(upload)?);
        let artifact = StoredArtifact {
            name: upload.name.clone(),
            bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            sha256,
            executable: upload.executable,
            place,
        };
        let kept = match upload.cache_files {
            None => self.store.keep_artifact(self.now(), key, attempt, &artifact).await?,
            Some(files) => self.store.keep_cached_file(self.now(), key, attempt, files, &artifact).await?,
        };
        match kept {
            true => Ok(artifact),
            false => Err(ArtifactError::TooLate),
        }
    }

    /// Writes the received pieces and the remaining ones as an object. The object counts as unused until the artifact
    /// names it.
    async fn keep_object(
        &self,
        key: TaskKey,
        head: Vec<u8>,
        read: &mut Receiving<'_>,
        upload: &ArtifactUpload,
    ) -> Result<ArtifactPlace, ArtifactError> {
        let Some(objects) = &self.artifacts.objects else {
            let limit = self.artifacts.database_limit();
            return Err(ArtifactError::TooLarge { limit, remedy: "set artifacts.url, where larger files go" });
        };
        let object = format!("artifacts/{}/{}", key.run, self.clock.new_id());
        self.store.announce_object(&object, self.now() + LONGEST_UPLOAD).await?;
        let mut parts = objects.put_multipart(&Path::from(object.as_str())).await?;
        match self.write_parts(parts.as_mut(), head, read, upload).await {
            Ok(()) => Ok(ArtifactPlace::Object(object)),
            Err(error) => {
                // Remaining parts are deleted with other unused objects.
                let _ = parts.abort().await;
                Err(error)
            }
        }
    }

    async fn write_parts(
        &self,
        parts: &mut dyn MultipartUpload,
        mut pending: Vec<u8>,
        read: &mut Receiving<'_>,
        upload: &ArtifactUpload,
    ) -> Result<(), ArtifactError> {
        let limit = self.artifacts.settings.max_bytes;
        while let Some(piece) = read.next().await? {
            pending.extend_from_slice(&piece);
            if read.bytes > limit {
                return Err(ArtifactError::TooLarge { limit, remedy: "raise artifacts.max_bytes" });
            }
            while pending.len() >= PART {
                let rest = pending.split_off(PART);
                parts.put_part(std::mem::replace(&mut pending, rest).into()).await?;
            }
        }
        // The digest is checked before the object is completed.
        read.checked(upload)?;
        if !pending.is_empty() {
            parts.put_part(pending.into()).await?;
        }
        parts.complete().await?;
        Ok(())
    }
}

/// Counts and digests the received pieces.
struct Receiving<'r> {
    reader: &'r mut dyn ArtifactReader,
    digest: digest::Context,
    bytes: u64,
}

impl Receiving<'_> {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, ArtifactError> {
        let piece = self.reader.next().await.map_err(|error| match error {
            TransferError::Failed(cause) => ArtifactError::Sender(cause),
            TransferError::Lost => ArtifactError::Sender("the connection was lost".into()),
        })?;
        if let Some(piece) = &piece {
            self.digest.update(piece);
            self.bytes += piece.len() as u64;
        }
        Ok(piece)
    }

    /// The digest of the received bytes, if it equals the one of the sender.
    fn checked(&self, upload: &ArtifactUpload) -> Result<String, ArtifactError> {
        let found = hex(self.digest.clone().finish().as_ref());
        match found.eq_ignore_ascii_case(&upload.sha256) {
            true => Ok(found),
            false => Err(ArtifactError::Digest { said: upload.sha256.clone(), found }),
        }
    }
}

/// Stores the files of an attempt before its end is reported, so that a reader who sees the end finds the files.
/// Retries while the store is unreachable, because the attempt belongs to this node. A file that cannot be kept fails a
/// task that succeeded, unless it is part of a cache: an incomplete cache is never found.
pub(crate) async fn keep_completed(shared: &Shared, completion: &mut Completion) {
    for artifact in std::mem::take(&mut completion.artifacts) {
        let Some(kept) = keep_one(shared, completion, &artifact).await else { return };
        if let Err(error) = kept {
            tracing::warn!(%error, task = %completion.key, name = artifact.name, "a file of a task cannot be kept");
            if artifact.cache_files.is_none() && matches!(completion.outcome, Outcome::Success { .. }) {
                completion.outcome = Outcome::Failed(Failure {
                    kind: "artifacts".into(),
                    message: format!("the file `{}` cannot be kept: {error}", artifact.name),
                    permanent: !error.is_transient(),
                    ..Failure::default()
                });
            }
        }
    }
}

/// `None` when the node stops.
async fn keep_one(
    shared: &Shared,
    completion: &Completion,
    artifact: &Artifact,
) -> Option<Result<StoredArtifact, ArtifactError>> {
    let (name, sha256) = (artifact.name.clone(), artifact.sha256.clone());
    let (executable, cache_files) = (artifact.executable, artifact.cache_files);
    let upload = ArtifactUpload { name, executable, sha256, cache_files };
    let mut tries = 0;
    loop {
        let mut reader = ContentReader::of(artifact).await;
        let kept = shared.client.keep_artifact(completion.key, completion.attempt, &upload, &mut reader).await;
        match kept {
            Err(error @ ArtifactError::Objects(_)) => {
                tries += 1;
                if tries >= MOST_TRIES {
                    return Some(Err(error));
                }
                tracing::warn!(%error, task = %completion.key, "keeping what a task left");
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, task = %completion.key, "keeping what a task left");
            }
            kept => return Some(kept),
        }
        pause(shared).await?;
    }
}

/// The content of a file that a task of this process left.
enum ContentReader {
    Memory(Option<Vec<u8>>),
    File(std::io::Result<tokio::fs::File>),
}

impl ContentReader {
    async fn of(artifact: &Artifact) -> Self {
        match &artifact.content {
            ArtifactContent::Memory(content) => Self::Memory(Some(content.clone())),
            ArtifactContent::File(file) => Self::File(tokio::fs::File::open(&file.path).await),
        }
    }
}

impl ArtifactReader for ContentReader {
    fn next(&mut self) -> SourceFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let failed = |error: &std::io::Error| TransferError::Failed(error.to_string());
            match self {
                Self::Memory(content) => Ok(content.take().filter(|content| !content.is_empty())),
                Self::File(Err(error)) => Err(failed(error)),
                Self::File(Ok(file)) => {
                    let mut piece = vec![0; PIECE];
                    let read = file.read(&mut piece).await.map_err(|error| failed(&error))?;
                    piece.truncate(read);
                    Ok((read > 0).then_some(piece))
                }
            }
        })
    }
}
