//! The files that a workflow brings along: read from beside it, within bounds, and never through a link.

use std::path::{Component, Path, PathBuf};

use mainspring_core::Workflow;
use mainspring_core::diagnostic::quoted;
use mainspring_core::work::BundleFile;

use crate::failure::{Failure, Result, cause};
use crate::source::Source;

/// All files of a workflow together.
const MOST_BYTES: u64 = 10 << 20;
const MOST_FILES: usize = 1_000;

/// Reads what `files:` names, sorted by path. Folders are read with everything in them.
pub(crate) fn read(workflow: &Workflow, source: &Source) -> Result<Vec<BundleFile>> {
    if workflow.files.is_empty() {
        return Ok(Vec::new());
    }
    let Some(folder) = source.folder() else {
        return Err(Failure::bad_input(
            "a workflow from standard input has no folder, so it cannot bring `files` along",
        )
        .remedy("name the workflow's file"));
    };
    let mut reading = Reading { folder, bytes: 0, files: Vec::new() };
    for entry in &workflow.files {
        reading.entry(entry)?;
    }
    reading.files.sort_by(|one, other| one.path.cmp(&other.path));
    reading.files.dedup_by(|one, other| one.path == other.path);
    Ok(reading.files)
}

struct Reading {
    folder: PathBuf,
    bytes: u64,
    files: Vec<BundleFile>,
}

impl Reading {
    fn entry(&mut self, entry: &str) -> Result<()> {
        let relative = Path::new(entry.trim_end_matches('/'));
        let is_inside = relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if entry.is_empty() || !is_inside {
            return Err(Failure::bad_input(format!(
                "`files` names {}, which is outside the workflow's folder",
                quoted(entry)
            ))
            .remedy("name files and folders beside the workflow, without `..`"));
        }
        // A link anywhere on the way could lead elsewhere.
        let mut path = self.folder.clone();
        for part in relative.components() {
            path.push(part);
            let kind = std::fs::symlink_metadata(&path).map_err(|error| {
                Failure::bad_input(format!("`files` names {}, which cannot be read: {}", quoted(entry), cause(&error)))
                    .remedy("paths are relative to the workflow's file")
            })?;
            if kind.file_type().is_symlink() {
                return Err(refuse_link(&path, &self.folder));
            }
        }
        self.add(&path)
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let unreadable =
            |error: std::io::Error| Failure::bad_input(format!("cannot read {}: {}", path.display(), cause(&error)));
        let kind = std::fs::symlink_metadata(path).map_err(unreadable)?;
        if kind.file_type().is_symlink() {
            return Err(refuse_link(path, &self.folder));
        }
        if kind.is_dir() {
            let mut inside: Vec<PathBuf> = std::fs::read_dir(path)
                .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
                .map_err(unreadable)?;
            inside.sort();
            return inside.iter().try_for_each(|path| self.add(path));
        }
        if !kind.is_file() {
            return Err(Failure::bad_input(format!("{} is neither a file nor a folder", path.display())));
        }
        self.bytes += kind.len();
        if self.bytes > MOST_BYTES || self.files.len() >= MOST_FILES {
            return Err(Failure::bad_input("the files of the workflow are more than 10 MiB or 1,000 files in all")
                .remedy("keep data elsewhere and let tasks fetch it"));
        }
        let relative = path.strip_prefix(&self.folder).unwrap_or(path);
        let Some(relative) = relative.to_str() else {
            return Err(Failure::bad_input(format!("the name of {} is not UTF-8", path.display())));
        };
        self.files.push(BundleFile {
            path: relative.to_owned(),
            executable: is_executable(&kind),
            content: std::fs::read(path).map_err(unreadable)?,
        });
        Ok(())
    }
}

fn refuse_link(path: &Path, folder: &Path) -> Failure {
    let shown = path.strip_prefix(folder).unwrap_or(path);
    Failure::bad_input(format!("`files` leads to {}, which is a link", shown.display()))
        .remedy("name the file itself: what a link points to may change or lie outside")
}

#[cfg(unix)]
fn is_executable(kind: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    kind.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &std::fs::Metadata) -> bool {
    false
}
