//! What a task need not do again: its result, and files that it would make anew.

use serde::{Deserialize, Serialize};

use crate::state::{UnknownState, coded_enum};

/// How long something is kept unless the task says.
pub const DEFAULT_CACHE_TTL_MS: u64 = 7 * 24 * 3_600_000;
/// Nothing is kept for longer.
pub const MAX_CACHE_TTL_MS: u64 = 366 * 24 * 3_600_000;
/// Bytes of a key.
pub const MAX_CACHE_KEY: usize = 512;

coded_enum! {
    /// What is kept for later runs.
    CacheKind("kind of cache") {
        Result = 0 "result",
        Files = 1 "files",
    }
}

/// The result of an earlier attempt with the same key stands for that of the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// May hold `${{ }}`.
    pub key: String,
    /// Counted from the beginning of the attempt that computed the result.
    pub ttl_ms: u64,
}

/// Files that are put into the folder of the task before it begins, and kept when it has succeeded without them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCache {
    /// May hold `${{ }}`.
    pub key: String,
    /// Patterns below the folder of the task.
    pub paths: Vec<String>,
    /// Counted from the beginning of the attempt that left the files.
    pub ttl_ms: u64,
}
