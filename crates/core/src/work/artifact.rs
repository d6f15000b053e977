//! Files that attempts leave, and how they get to other attempts.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::TaskKey;

/// A file that an attempt left behind on purpose.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// Relative to the working directory, with `/` between its parts.
    pub name: String,
    pub executable: bool,
    pub bytes: u64,
    /// In hexadecimal digits.
    pub sha256: String,
    pub content: ArtifactContent,
    /// It belongs to a cache of this many files, and not to the artifacts of the task.
    pub cache_files: Option<u32>,
}

/// Where the content of a file is until it is stored.
#[derive(Debug, Clone)]
pub enum ArtifactContent {
    Memory(Vec<u8>),
    File(KeptFile),
}

/// A file of the worker that goes away with the last handle on it.
#[derive(Debug, Clone)]
pub struct KeptFile {
    pub path: PathBuf,
    pub keeper: Arc<dyn std::fmt::Debug + Send + Sync>,
}

/// A file of another task that an order needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncomingFile {
    /// The task run that left it.
    #[serde(with = "key_text")]
    pub task_run_id: TaskKey,
    pub attempt: i32,
    /// As it was left.
    pub name: String,
    /// Where it is put: relative to the folder of the task.
    pub path: String,
    #[serde(default)]
    pub executable: bool,
    pub bytes: u64,
    /// In hexadecimal digits.
    pub sha256: String,
    /// It comes from the cache of a task, which may be of another run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

mod key_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::TaskKey;

    pub(super) fn serialize<S: Serializer>(key: &TaskKey, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(key)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskKey, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(|_| D::Error::custom(format!("`{text}` is not a task run id")))
    }
}

/// Which attempt asks for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    pub session: i64,
    pub key: TaskKey,
    pub attempt: i32,
}

/// Why a file does not arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferError {
    /// The session was lost meanwhile: the attempt is another's.
    Lost,
    Failed(String),
}

pub type SourceFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TransferError>> + Send + 'a>>;

/// The content of a file, piece by piece.
pub trait ArtifactReader: Send {
    /// `None` at its end.
    fn next(&mut self) -> SourceFuture<'_, Option<Vec<u8>>>;
}

/// Where a pool gets the files of other tasks from.
pub trait ArtifactSource: Send + Sync + std::fmt::Debug {
    fn open<'a>(&'a self, by: Transfer, file: &'a IncomingFile) -> SourceFuture<'a, Box<dyn ArtifactReader>>;
}
