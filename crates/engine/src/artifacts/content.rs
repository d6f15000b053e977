//! Reads kept files in pieces.

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use hyper::body::Bytes;
use mainspring_boxed::boxed;
use mainspring_core::TaskKey;
use mainspring_core::work::{ArtifactReader, ArtifactSource, IncomingFile, SourceFuture, Transfer, TransferError};
use mainspring_store::{ArtifactPlace, StoredArtifact};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;

use super::keep::ArtifactError;
use crate::client::Client;

/// A kept file whose content can be read.
pub struct OpenedArtifact {
    pub bytes: i64,
    pub sha256: String,
    pub executable: bool,
    pub reader: Box<dyn ArtifactReader>,
}

impl std::fmt::Debug for OpenedArtifact {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("OpenedArtifact").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[boxed]
impl Client {
    /// Opens a kept file; `None` if there is none of that name.
    pub async fn open_artifact(
        &self,
        key: TaskKey,
        attempt: i32,
        name: &str,
    ) -> Result<Option<OpenedArtifact>, ArtifactError> {
        self.open_stored(self.store.artifact(key, attempt, name).await?).await
    }

    /// Opens a file that an attempt left for later runs; `None` if there is none of that name.
    pub async fn open_cached_file(
        &self,
        key: TaskKey,
        attempt: i32,
        name: &str,
    ) -> Result<Option<OpenedArtifact>, ArtifactError> {
        self.open_stored(self.store.cached_file(key, attempt, name).await?).await
    }

    async fn open_stored(&self, stored: Option<StoredArtifact>) -> Result<Option<OpenedArtifact>, ArtifactError> {
        let Some(stored) = stored else { return Ok(None) };
        let reader: Box<dyn ArtifactReader> = match stored.place {
            ArtifactPlace::Database(content) => Box::new(InMemory(Some(content))),
            ArtifactPlace::Object(object) => {
                let objects = self.artifacts.objects.as_ref().ok_or(ArtifactError::NoObjects)?;
                Box::new(Streamed(objects.get(&Path::from(object)).await?.into_stream()))
            }
        };
        Ok(Some(OpenedArtifact { bytes: stored.bytes, sha256: stored.sha256, executable: stored.executable, reader }))
    }
}

struct InMemory(Option<Vec<u8>>);

impl ArtifactReader for InMemory {
    fn next(&mut self) -> SourceFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move { Ok(self.0.take().filter(|content| !content.is_empty())) })
    }
}

/// Some object stores give a few KiB at a time.
const PIECE: usize = 256 << 10;

struct Streamed(BoxStream<'static, object_store::Result<Bytes>>);

impl ArtifactReader for Streamed {
    fn next(&mut self) -> SourceFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let mut gathered = Vec::new();
            while gathered.len() < PIECE {
                match self.0.next().await {
                    None => break,
                    Some(Ok(piece)) => gathered.extend_from_slice(&piece),
                    Some(Err(error)) => return Err(TransferError::Failed(error.to_string())),
                }
            }
            Ok((!gathered.is_empty()).then_some(gathered))
        })
    }
}

/// The source of files of other tasks for the pool of this process.
#[derive(Debug, Clone)]
pub struct ArtifactContents(Client);

impl ArtifactContents {
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

impl ArtifactSource for ArtifactContents {
    fn open<'a>(&'a self, _: Transfer, file: &'a IncomingFile) -> SourceFuture<'a, Box<dyn ArtifactReader>> {
        Box::pin(async move {
            let opened = match file.cached {
                false => self.0.open_artifact(file.task_run_id, file.attempt, &file.name).await,
                true => self.0.open_cached_file(file.task_run_id, file.attempt, &file.name).await,
            };
            match opened {
                Ok(Some(opened)) => Ok(opened.reader),
                Ok(None) => Err(TransferError::Failed("it is not kept any more".into())),
                Err(error) => Err(TransferError::Failed(error.to_string())),
            }
        })
    }
}
