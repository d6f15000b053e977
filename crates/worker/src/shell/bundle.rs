//! Unpacks the files that a workflow brings along.
//!
//! They were checked when they were stored, and are checked again: what is written here comes from another machine. The
//! folder is new and empty, so a path without `..` that follows no link cannot lead out of it.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use mainspring_core::work::{Bundle, BundleFile, Failure};

use super::place::SCRIPT_NAME;
use crate::text::first_characters;

const MOST_FILES: usize = 10_000;
const MOST_BYTES: usize = 10 * 1024 * 1024;
const MOST_PARTS: usize = 64;

pub(super) fn unpack(bundle: &Bundle, directory: &Path) -> Result<(), Failure> {
    if bundle.files.len() > MOST_FILES {
        return Err(refused(format!(
            "the workflow brings {} files; at most {MOST_FILES} are allowed",
            bundle.files.len()
        )));
    }
    let bytes: usize = bundle.files.iter().map(|file| file.content.len()).sum();
    if bytes > MOST_BYTES {
        return Err(refused(format!("the files of the workflow have {bytes} bytes; at most 10 MiB are allowed")));
    }
    for file in &bundle.files {
        let shown = first_characters(&file.path, 200).escape_debug().to_string();
        let path = checked(&file.path).map_err(|why| refused(format!("the file `{shown}` is not unpacked: {why}")))?;
        write(directory, &path, file).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                refused(format!("the file `{shown}` is not unpacked: there is a file of that name already"))
            }
            _ => refused(format!("cannot unpack the file `{shown}`: {error}")),
        })?;
    }
    Ok(())
}

/// The path, if it can only lead down.
pub(super) fn checked(text: &str) -> Result<PathBuf, &'static str> {
    if text.is_empty() {
        return Err("its path is empty");
    }
    if text.contains(['\0', '\\']) {
        return Err("its path contains a NUL character or a backslash");
    }
    let path = Path::new(text);
    if path.components().count() > MOST_PARTS {
        return Err("its path has more than 64 parts");
    }
    // `components` swallows `.` and doubled slashes; a path with those hides something.
    let plain = text.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !plain || !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err("its path should be relative and without `.` and `..`");
    }
    if text == SCRIPT_NAME {
        return Err("this name is reserved");
    }
    Ok(path.to_owned())
}

fn write(directory: &Path, path: &Path, file: &BundleFile) -> io::Result<()> {
    create(directory, path, file.executable)?.write_all(&file.content)
}

/// A new file below a folder; no link on the way to it is followed.
pub(super) fn create(directory: &Path, path: &Path, executable: bool) -> io::Result<fs::File> {
    let mut parent = directory.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        parent.push(part);
        match fs::DirBuilder::new().mode(0o700).create(&parent) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(&parent)?.is_dir() {
                    return Err(io::Error::new(ErrorKind::NotADirectory, "a part of its path is not a folder"));
                }
            }
            made => made?,
        }
    }
    let mode = if executable { 0o700 } else { 0o600 };
    // A link of that name is never followed: the file must be new.
    fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(directory.join(path))
}

fn refused(message: String) -> Failure {
    Failure { kind: "files".into(), message, permanent: true, ..Failure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(path: &str, executable: bool) -> BundleFile {
        BundleFile { path: path.into(), executable, content: b"content".to_vec() }
    }

    #[test]
    fn files_arrive_with_their_folders_and_modes() {
        let directory = tempfile::tempdir().unwrap();
        let bundle = Bundle { files: vec![file("run.sh", true), file("sql/a/b.sql", false), file("sql/c.sql", false)] };
        unpack(&bundle, directory.path()).unwrap();
        let mode = |path: &str| fs::metadata(directory.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("run.sh"), mode("sql/a/b.sql"), mode("sql/c.sql")), (0o700, 0o600, 0o600));
        assert_eq!(fs::read(directory.path().join("sql/a/b.sql")).unwrap(), b"content");
    }

    #[test]
    fn path_traversal_by_files_is_refused() {
        let outside = tempfile::tempdir().unwrap();
        for path in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a/..",
            "..",
            ".",
            "./x",
            "a//b",
            "a/",
            "a\0b",
            "..\\x",
            "a\\b",
            "//x",
            "a/./b",
            ".mainspring-script",
        ] {
            let directory = outside.path().join("inside");
            fs::create_dir_all(&directory).unwrap();
            let failure = unpack(&Bundle { files: vec![file(path, false)] }, &directory).unwrap_err();
            assert_eq!((failure.kind.as_str(), failure.permanent), ("files", true), "{path:?}");
            assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{path:?}");
            assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "{path:?}");
        }
    }

    #[test]
    fn links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), directory.path().join("folder")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("target"), directory.path().join("file")).unwrap();
        for path in ["folder/x", "file"] {
            assert!(unpack(&Bundle { files: vec![file(path, false)] }, directory.path()).is_err(), "{path}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        let twice = Bundle { files: vec![file("x", false), file("x", false)] };
        assert!(unpack(&twice, directory.path()).unwrap_err().message.contains("already"));
        let too_much = BundleFile { path: "big".into(), executable: false, content: vec![0; MOST_BYTES + 1] };
        assert!(unpack(&Bundle { files: vec![too_much] }, directory.path()).unwrap_err().message.contains("10 MiB"));
    }
}
