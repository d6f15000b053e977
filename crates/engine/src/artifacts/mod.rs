//! Files that tasks leave: small ones in the database, larger ones in an object store; and their delivery to other
//! tasks.

mod content;
mod incoming;
mod keep;
mod objects;
mod s3;

pub use content::{ArtifactContents, OpenedArtifact};
pub(crate) use incoming::incoming_files;
pub(crate) use keep::keep_completed;
pub use keep::{ArtifactError, ArtifactUpload};
pub(crate) use objects::Artifacts;
pub use objects::{ArtifactSettings, ArtifactSettingsError};

use std::fmt::Write as _;

/// Bytes of all files of one attempt that are kept in the database.
pub(crate) const DATABASE_LIMIT: u64 = 10 * 1024 * 1024;

/// A digest in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
