//! Collects the files that a task wants kept.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use mainspring_core::work::{Artifact, Failure};
use nix::fcntl::OFlag;

/// Bytes of all artifacts of one attempt together.
pub const ARTIFACTS_LIMIT: u64 = 10 * 1024 * 1024;
const MOST_ARTIFACTS: usize = 1_000;
/// How many entries are looked at; a pattern over the whole disk is a mistake.
const MOST_LOOKED_AT: usize = 100_000;

const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// Regular files below the directory whose relative path matches a pattern, by name. Links are neither followed nor kept.
pub(super) fn collect(directory: &Path, patterns: &[String]) -> Result<Vec<Artifact>, Failure> {
    let patterns = patterns.iter().map(|text| read_pattern(text)).collect::<Result<Vec<_>, _>>()?;
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
            } else if kind.is_file() && patterns.iter().any(|pattern| pattern.matches_path_with(&path, MATCHING)) {
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
    read_all(directory, found)
}

fn read_all(directory: &Path, paths: Vec<PathBuf>) -> Result<Vec<Artifact>, Failure> {
    let mut artifacts = Vec::with_capacity(paths.len());
    let mut left = ARTIFACTS_LIMIT;
    for path in paths {
        let Some(name) = path.to_str().map(str::to_owned) else {
            return Err(refused(format!("the name of the file `{}` is not UTF-8", path.display())));
        };
        let content = match read(&directory.join(&path), left) {
            Ok(content) => content,
            Err(error) => return Err(refused(format!("cannot read the file `{name}`: {error}"))),
        };
        left = left.checked_sub(content.len() as u64).ok_or_else(|| {
            refused(format!("with `{name}` they have more than 10 MiB together; keep large data elsewhere"))
        })?;
        artifacts.push(Artifact { name, content });
    }
    Ok(artifacts)
}

/// At most one byte more than the limit.
fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no longer a regular file"));
    }
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    Ok(content)
}

fn read_pattern(text: &str) -> Result<Pattern, Failure> {
    let plain = text.strip_prefix("./").unwrap_or(text);
    let outside = plain.starts_with('/') || plain.split('/').any(|part| part == "..");
    if plain.is_empty() || outside {
        return Err(refused(format!("the pattern `{text}` should be relative to the working directory, without `..`")));
    }
    // A folder stands for all that is in it.
    let whole = if plain.ends_with('/') { format!("{plain}**") } else { plain.to_owned() };
    let whole = if whole.ends_with("/**") { format!("{whole}/*") } else { whole };
    Pattern::new(&whole).map_err(|error| refused(format!("`{text}` is not a pattern: {error}; use *, ?, [a-z] and **")))
}

fn refused(message: String) -> Failure {
    let message = format!("the artifacts cannot be kept: {message}");
    Failure { kind: "artifacts".into(), message, permanent: true, ..Failure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path, patterns: &[&str]) -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        collect(directory, &patterns).unwrap().into_iter().map(|artifact| artifact.name).collect()
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
            let failure = collect(directory.path(), &[pattern.to_owned()]).unwrap_err();
            assert_eq!(failure.kind, "artifacts", "{pattern}");
        }
    }

    #[test]
    fn the_limit_counts_all_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let file = fs::File::create(directory.path().join("a")).unwrap();
        file.set_len(ARTIFACTS_LIMIT).unwrap();
        assert_eq!(collect(directory.path(), &["*".into()]).unwrap()[0].content.len() as u64, ARTIFACTS_LIMIT);
        fs::write(directory.path().join("b"), "x").unwrap();
        let failure = collect(directory.path(), &["*".into()]).unwrap_err();
        assert!(failure.message.contains("with `b` they have more than 10 MiB"), "{}", failure.message);
        file.set_len(1 << 40).unwrap();
        assert!(collect(directory.path(), &["a".into()]).is_err(), "a huge file is not read whole");
    }
}
