//! `reuse`: results that are not computed again; `cache`: files that are kept from one run to the next.

use crate::artifacts::ArtifactPatterns;
use crate::expr::has_expression;
use crate::workflow::{DEFAULT_CACHE_TTL_MS, FileCache, MAX_CACHE_KEY, MAX_CACHE_TTL_MS, Reuse};
use crate::yaml::{Kind, NodeId};

use super::dialect::{CACHE, REUSE};
use super::fields::{Entry, Path, Reader, unread};
use super::http::template;
use super::spec::{Field, TaskSpec, Text};

/// The kinds of tasks whose result can be reused: those that a worker executes.
pub(super) const REUSABLE: [&str; 5] = ["run", "steps", "http", "function", "remote"];

pub(super) fn read_reuse(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    texts: &mut Vec<Text>,
) -> Option<Reuse> {
    let (mut key, mut ttl_ms) = (None, DEFAULT_CACHE_TTL_MS);
    for entry in reader.entries(id, path, &REUSE)? {
        let at = path.key(entry.name);
        match entry.name {
            "key" => key = Some(read_key(reader, entry.value, at, Field::ReuseKey, texts)?),
            "ttl" => ttl_ms = read_ttl(reader, entry.value, at)?,
            other => unread(other),
        }
    }
    let Some(key) = key else {
        let help = "add the key that says when a result is the same, like `key: \"${{ inputs.day }}\"`";
        reader.report.add_with_help(reader.place(id), path, "`reuse` has no `key`", help);
        return None;
    };
    Some(Reuse { key, ttl_ms })
}

pub(super) fn read_files(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    texts: &mut Vec<Text>,
) -> Option<FileCache> {
    let (mut key, mut paths, mut ttl_ms) = (None, None, DEFAULT_CACHE_TTL_MS);
    for entry in reader.entries(id, path, &CACHE)? {
        let at = path.key(entry.name);
        match entry.name {
            "key" => key = Some(read_key(reader, entry.value, at, Field::CacheKey, texts)?),
            "paths" if matches!(&reader.node(entry.value).kind, Kind::Sequence(items) if items.is_empty()) => {}
            "paths" => paths = Some(read_paths(reader, entry.value, at)),
            "ttl" => ttl_ms = read_ttl(reader, entry.value, at)?,
            other => unread(other),
        }
    }
    let Some(key) = key else {
        let help = "add the key that says when the files are the same, like `key: \"deps-${{ inputs.version }}\"`";
        reader.report.add_with_help(reader.place(id), path, "`cache` has no `key`", help);
        return None;
    };
    let Some(paths) = paths else {
        let help = "add the files to keep, like `paths: [node_modules/]`";
        reader.report.add_with_help(reader.place(id), path, "`cache` has no `paths`", help);
        return None;
    };
    Some(FileCache { key, paths, ttl_ms })
}

/// A result without files stands for one with files: the tasks that take those would find none.
pub(super) fn check(reader: &mut Reader<'_, '_>, spec: &TaskSpec<'_>, path: Path<'_>, written: &[Entry<'_>]) {
    let Some(entry) = written.iter().find(|entry| entry.name == "reuse") else { return };
    if spec.task.reuse.is_some() && !spec.task.artifacts.is_empty() {
        let message =
            "`reuse` keeps the output of a task, not its `artifacts`: a run that reuses it would lack the files";
        let help = "keep files by `cache`, or make a task of its own for the artifacts";
        reader.report.add_with_help(reader.place(entry.key), path.key(entry.name), message, help);
    }
}

fn read_key(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    field: Field,
    texts: &mut Vec<Text>,
) -> Option<String> {
    let text = template(reader, id, path, field, texts)?;
    if !has_expression(&text) && (text.len() > MAX_CACHE_KEY || text.chars().any(char::is_control)) {
        let message = format!("a key has at most {MAX_CACHE_KEY} bytes, on one line");
        reader.report.add(reader.place(id), path, message);
        return None;
    }
    Some(text)
}

fn read_ttl(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Option<u64> {
    let ttl_ms = reader.positive_duration(id, path)?;
    if ttl_ms > MAX_CACHE_TTL_MS {
        reader.report.add_with_help(reader.place(id), path, "`ttl` is at most 366d", "write a shorter time, like `7d`");
        return None;
    }
    Some(ttl_ms)
}

fn read_paths(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Vec<String> {
    reader.members(id, path, "a path or a list of paths", |reader, id, path| {
        let text = reader.relative_path(id, path)?;
        if let Err(cause) = ArtifactPatterns::read([text]) {
            reader.report.add(reader.place(id), path, cause);
            return None;
        }
        Some(text)
    })
}
