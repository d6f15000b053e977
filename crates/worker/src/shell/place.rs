//! The private corner of one attempt on disk: working directory, output file, script file.
//!
//! Making and removing files is what hurts on a busy disk: each waits for the journal of the file system, longer than
//! a small process takes. So the output file is not made in advance, and a working directory that an attempt leaves
//! as empty as it got it is given to a later one. Files have names of their own, never used again.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const PRIVATE: u32 = 0o700;
/// The script's name in a working directory of its own, so that what stands beside it is found by interpreters that look
/// for modules beside their script.
pub(super) const SCRIPT_NAME: &str = ".mainspring-script";

/// Removed when dropped, also when the attempt is abandoned half-way.
#[derive(Debug)]
pub(super) struct Place {
    directory: Option<PathBuf>,
    pub(super) output: PathBuf,
    script: Option<PathBuf>,
    /// The place was given to the account of the task.
    prepared: bool,
    /// The container of the script that was started last.
    pub(super) container: Option<String>,
    /// Where the script runs.
    pub(super) working: PathBuf,
}

impl Place {
    /// A place without a working directory.
    pub(super) fn new(root: &Path, number: u64) -> Self {
        Self {
            directory: None,
            output: root.join(format!("{number}.output")),
            script: None,
            prepared: false,
            container: None,
            working: root.to_owned(),
        }
    }

    /// A place with a working directory, a reused one if there is one.
    pub(super) fn with_directory(root: &Path, number: u64, earlier: Option<PathBuf>) -> io::Result<Self> {
        let mut place = Self::new(root, number);
        place.directory = Some(match earlier.filter(|directory| directory.is_dir()) {
            Some(directory) => directory,
            None => {
                let directory = root.join(number.to_string());
                if let Err(error) = make_private(&directory) {
                    // Temporary folders are cleaned of what looks old, even below a server that has been idle.
                    if error.kind() != ErrorKind::NotFound {
                        return Err(error);
                    }
                    make_private(root)?;
                    make_private(&directory)?;
                }
                directory
            }
        });
        place.working = place.directory.clone().unwrap_or_default();
        Ok(place)
    }

    /// The working directory, if nothing in it or about it has changed. Only for attempts none of whose processes is
    /// left.
    pub(super) fn reusable_directory(mut self) -> Option<PathBuf> {
        self.remove_script();
        self.directory.take_if(|directory| is_pristine(directory))
    }

    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Makes what a task that is kept apart needs before it starts: its output file, and everything of it for its account.
    pub(super) fn prepare_for(&mut self, account: Option<(u32, u32)>) -> io::Result<()> {
        // Once: what later steps find here was made by earlier ones, and may be links that lead elsewhere.
        if std::mem::replace(&mut self.prepared, true) {
            return match (account, &self.script) {
                (Some((uid, gid)), Some(script)) => std::os::unix::fs::lchown(script, Some(uid), Some(gid)),
                _ => Ok(()),
            };
        }
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.output)?;
        let Some((uid, gid)) = account else { return Ok(()) };
        std::os::unix::fs::chown(&self.output, Some(uid), Some(gid))?;
        if let Some(script) = &self.script {
            std::os::unix::fs::chown(script, Some(uid), Some(gid))?;
        }
        match &self.directory {
            Some(directory) => give_away(directory, uid, gid),
            None => Ok(()),
        }
    }

    /// The paths that the task may use, whatever else is hidden.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Path> {
        let outside = self.script.as_deref().filter(|_| self.directory.is_none());
        [self.directory.as_deref(), Some(self.output.as_path()), outside].into_iter().flatten()
    }

    /// Writes the script where its interpreter finds it.
    pub(super) fn write_script(&mut self, script: &str) -> io::Result<&Path> {
        let path = match &self.directory {
            Some(directory) => directory.join(SCRIPT_NAME),
            None => self.output.with_extension("script"),
        };
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&path)?;
        file.write_all(script.as_bytes())?;
        Ok(self.script.insert(path))
    }

    pub(super) fn remove_script(&mut self) {
        if let Some(script) = self.script.take() {
            let _ = fs::remove_file(script);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Usually there is no output and nothing in the directory. What is missing is as good as removed.
        let _ = fs::remove_file(&self.output);
        let _ = fs::remove_dir_all(self.output.with_extension("registry"));
        self.remove_script();
        let Some(directory) = self.directory.take() else { return };
        let Err(error) = fs::remove_dir(&directory) else { return };
        if error.kind() == ErrorKind::NotFound {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || remove(&directory))),
            Err(_) => remove(&directory),
        }
    }
}

/// Lets an account have a folder and all that is in it; links are not followed.
fn give_away(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(uid), Some(gid))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give_away(&entry?.path(), uid, gid)?;
        }
    }
    Ok(())
}

fn make_private(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(PRIVATE).create(directory)
}

fn is_pristine(directory: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(directory) else { return false };
    let private = metadata.is_dir() && metadata.permissions().mode() & 0o7777 == PRIVATE;
    private && fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

fn remove(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(directory = %directory.display(), %error, "cannot remove the working directory of a task");
    }
}
