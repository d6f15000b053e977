//! Collects the files that a task wants kept.
//!
//! Small ones are read into memory. Others are copied beside the folder of the task, which is removed or used again: what
//! is sent later is what was there when the task ended. Each is read once, and its digest is that of what was read.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainspring_core::artifacts::ArtifactPatterns;
use mainspring_core::work::{Artifact, ArtifactContent, Failure, KeptFile};
use nix::fcntl::OFlag;
use ring::digest::{Context, SHA256};

use crate::text::hex;

/// Bytes of all artifacts of one attempt together, unless the order says otherwise.
pub const ARTIFACTS_LIMIT: u64 = 10 * 1024 * 1024;
const MOST_ARTIFACTS: usize = 1_000;
/// How many entries are looked at; a pattern over the whole disk is a mistake.
const MOST_LOOKED_AT: usize = 100_000;
/// Larger files are not held in memory, and neither are more bytes than this together.
const MOST_IN_MEMORY: u64 = 256 << 10;
const PIECE: usize = 256 << 10;
/// How failures of the collection begin.
pub(super) const CANNOT_BE_KEPT: &str = "the artifacts cannot be kept: ";

/// What is collected, and where copies go.
#[derive(Debug)]
pub(super) struct Collection<'a> {
    pub(super) directory: &'a Path,
    pub(super) patterns: &'a [String],
    /// The limit for the bytes of all files together.
    pub(super) limit: u64,
    /// A folder for copies that tasks do not see.
    pub(super) copies: &'a Path,
    /// Held by every copy, so that the folder stays as long as one is needed.
    pub(super) token: Arc<()>,
}

/// Regular files below the directory whose relative path matches a pattern, by name. Links are neither followed nor kept.
pub(super) fn collect(collection: &Collection<'_>) -> Result<Vec<Artifact>, Failure> {
    let directory = collection.directory;
    let patterns = ArtifactPatterns::read(collection.patterns.iter().map(String::as_str)).map_err(refused)?;
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    let mut looked_at = 0;
    while let Some(folder) = open.pop() {
        let entries = match fs::read_dir(directory.join(&folder)) {
            Ok(entries) => entries,
            Err(error) if folder.as_os_str().is_empty() => {
                return Err(refused(format!("cannot read the working directory: {error}")));
            }
            // A folder that the task closed to itself, or removed meanwhile.
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            looked_at += 1;
            if looked_at > MOST_LOOKED_AT {
                return Err(refused(format!(
                    "the working directory has more than {MOST_LOOKED_AT} entries; run the task in a folder of its own"
                )));
            }
            let path = folder.join(entry.file_name());
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && patterns.matches(&path.to_string_lossy()) {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    if found.len() > MOST_ARTIFACTS {
        return Err(refused(format!(
            "{} files match; at most {MOST_ARTIFACTS} are kept: pack them into one",
            found.len()
        )));
    }
    read_all(collection, found)
}

fn read_all(collection: &Collection<'_>, paths: Vec<PathBuf>) -> Result<Vec<Artifact>, Failure> {
    let mut artifacts = Vec::with_capacity(paths.len());
    let (mut left, mut in_memory) = (collection.limit, 0);
    for path in paths {
        let Some(name) = path.to_str().map(str::to_owned) else {
            return Err(refused(format!("the name of the file `{}` is not UTF-8", path.display())));
        };
        let artifact = match read(collection, &name, left, in_memory) {
            Ok(artifact) => artifact,
            Err(error) => return Err(refused(format!("cannot read the file `{name}`: {error}"))),
        };
        if let ArtifactContent::Memory(content) = &artifact.content {
            in_memory += content.len() as u64;
        }
        left = left.checked_sub(artifact.bytes).ok_or_else(|| {
            let limit = collection.limit >> 20;
            refused(format!(
                "with `{name}` they have more than {limit} MiB together; keep less, or have the server keep more \
                 (artifacts.url, artifacts.max_bytes)"
            ))
        })?;
        artifacts.push(artifact);
    }
    Ok(artifacts)
}

/// At most one byte more than the limit.
fn read(collection: &Collection<'_>, name: &str, limit: u64, in_memory: u64) -> io::Result<Artifact> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(collection.directory.join(name))?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is no longer a regular file"));
    }
    let executable = about.permissions().mode() & 0o100 != 0;
    if about.len() > limit {
        // The caller reports the file as too large, so its content is not read.
        let content = ArtifactContent::Memory(Vec::new());
        let (name, bytes) = (name.to_owned(), about.len());
        return Ok(Artifact { name, executable, bytes, sha256: String::new(), content, cache_files: None });
    }
    let mut source = file.take(limit.saturating_add(1));
    let mut digest = Context::new(&SHA256);
    let (bytes, content) = if about.len() + in_memory <= MOST_IN_MEMORY {
        let mut content = Vec::new();
        // A file that grows meanwhile is kept with the length it had.
        source.by_ref().take(about.len()).read_to_end(&mut content)?;
        digest.update(&content);
        (content.len() as u64, ArtifactContent::Memory(content))
    } else {
        let mut copy = tempfile::Builder::new().prefix("artifact-").tempfile_in(collection.copies)?;
        let (mut piece, mut bytes) = (vec![0; PIECE], 0);
        loop {
            let read = source.read(&mut piece)?;
            if read == 0 {
                break;
            }
            digest.update(&piece[..read]);
            copy.write_all(&piece[..read])?;
            bytes += read as u64;
        }
        let path = copy.into_temp_path();
        (
            bytes,
            ArtifactContent::File(KeptFile {
                path: path.to_path_buf(),
                keeper: Arc::new((path, Arc::clone(&collection.token))),
            }),
        )
    };
    let sha256 = hex(digest.finish().as_ref());
    Ok(Artifact { name: name.to_owned(), executable, bytes, sha256, content, cache_files: None })
}

fn refused(message: String) -> Failure {
    let message = format!("{CANNOT_BE_KEPT}{message}");
    Failure { kind: "artifacts".into(), message, permanent: true, ..Failure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path, patterns: &[&str]) -> Vec<String> {
        let collected = collect_within(directory, patterns, ARTIFACTS_LIMIT);
        collected.unwrap().into_iter().map(|artifact| artifact.name).collect()
    }

    fn collect_within(directory: &Path, patterns: &[&str], limit: u64) -> Result<Vec<Artifact>, Failure> {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        let copies = std::env::temp_dir();
        collect(&Collection { directory, patterns: &patterns, limit, copies: &copies, token: Arc::new(()) })
    }

    #[test]
    fn patterns_choose_files_below_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("out/deep")).unwrap();
        for name in ["a.txt", "b.csv", ".hidden", "out/c.txt", "out/deep/d.txt"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link.txt")).unwrap();
        std::os::unix::fs::symlink("/etc", directory.path().join("etc")).unwrap();
        nix::unistd::mkfifo(&directory.path().join("pipe.txt"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (patterns, expected) in [
            (&["*.txt"][..], &["a.txt"][..]),
            (&["**/*.txt"], &["a.txt", "out/c.txt", "out/deep/d.txt"]),
            (&["out/"], &["out/c.txt", "out/deep/d.txt"]),
            (&["out/**"], &["out/c.txt", "out/deep/d.txt"]),
            (&["./b.csv", "*.csv"], &["b.csv"]),
            (&["etc/*", "link.txt", "pipe.txt", "none"], &[]),
            (&["[ab].*"], &["a.txt", "b.csv"]),
        ] {
            assert_eq!(names(directory.path(), patterns), expected, "{patterns:?}");
        }
    }

    #[test]
    fn path_traversal_by_artifacts_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        for pattern in ["/etc/passwd", "../*", "a/../../b", "", "[", "***"] {
            let failure = collect_within(directory.path(), &[pattern], ARTIFACTS_LIMIT).unwrap_err();
            assert_eq!(failure.kind, "artifacts", "{pattern}");
        }
    }

    #[test]
    fn the_limit_counts_all_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let file = fs::File::create(directory.path().join("a")).unwrap();
        file.set_len(ARTIFACTS_LIMIT).unwrap();
        let kept = collect_within(directory.path(), &["*"], ARTIFACTS_LIMIT).unwrap();
        let ArtifactContent::File(copy) = &kept[0].content else { panic!("{:?}", kept[0].content) };
        assert_eq!((kept[0].bytes, fs::metadata(&copy.path).unwrap().len()), (ARTIFACTS_LIMIT, ARTIFACTS_LIMIT));
        let path = copy.path.clone();
        drop(kept);
        assert!(!path.exists(), "the copy goes with its handle");
        fs::write(directory.path().join("b"), "x").unwrap();
        let failure = collect_within(directory.path(), &["*"], ARTIFACTS_LIMIT).unwrap_err();
        assert!(failure.message.contains("with `b` they have more than 10 MiB"), "{}", failure.message);
        file.set_len(1 << 40).unwrap();
        assert!(collect_within(directory.path(), &["a"], ARTIFACTS_LIMIT).is_err(), "a huge file is not read whole");
    }

    #[test]
    fn a_file_has_the_digest_of_what_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("small"), "abc").unwrap();
        fs::write(directory.path().join("large"), vec![b'x'; 1 << 20]).unwrap();
        let kept = collect_within(directory.path(), &["*"], ARTIFACTS_LIMIT).unwrap();
        let of = |name: &str| kept.iter().find(|file| file.name == name).unwrap();
        assert_eq!(of("small").sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let ArtifactContent::File(copy) = &of("large").content else { panic!("it is in memory") };
        let digest = ring::digest::digest(&SHA256, &fs::read(&copy.path).unwrap());
        assert_eq!(of("large").sha256, hex(digest.as_ref()));
    }
}
