//! The database file, its folder, their rights, and the lock that keeps the file to one server.

use std::fs::{File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};

/// A server's hold on a file.
#[derive(Debug)]
pub struct ServerLock {
    _file: File,
}

impl ServerLock {
    /// Keeps other servers from the database until dropped.
    pub(super) fn take(database: &Path) -> Result<Self> {
        let mut name = database.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| Error::Unavailable(sqlx::Error::Io(error)))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::FileInUse(database.display().to_string())),
            Err(TryLockError::Error(error)) => Err(Error::Unavailable(sqlx::Error::Io(error))),
        }
    }
}

/// A folder that goes when its handle goes.
#[derive(Debug)]
pub(super) struct PassingFolder(pub(super) PathBuf);

impl PassingFolder {
    pub(super) fn make() -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("mainspring-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
            let folder = std::env::temp_dir().join(name);
            // No other statement reads what runs were given.
            match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Self(folder)),
                // Left behind by a killed process that had the same number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::Unavailable(sqlx::Error::Io(error))),
            }
        }
    }
}

impl Drop for PassingFolder {
    fn drop(&mut self) {
        // Connections may still have the files open; they live on unnamed until those are closed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes the folder for its owner alone; one that is there already is left as it is.
pub(super) fn make_folder(file: &Path) -> Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| Error::BadUrl(format!("the folder {} cannot be created: {error}", folder.display()))),
        _ => Ok(()),
    }
}

/// The database holds tokens, secrets and everything that tasks printed: only its owner may read it. SQLite gives its
/// log the rights of the file.
pub(super) fn make_private(file: &Path) -> Result<()> {
    let made = File::options().write(true).create_new(true).mode(0o600).open(file);
    match made {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(Error::BadUrl(format!("the database file {} cannot be created: {error}", file.display())));
        }
    }
    for suffix in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        let path = PathBuf::from(name);
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        if metadata.permissions().mode() & 0o077 == 0 {
            continue;
        }
        match std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)) {
            Ok(()) => {
                tracing::warn!(file = %path.display(), "other users could read the database; now only its owner can")
            }
            Err(error) => tracing::warn!(%error, file = %path.display(), "other users can read the database"),
        }
    }
    Ok(())
}
