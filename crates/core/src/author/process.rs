//! Limits and exit codes of a process.

use crate::workflow::{ExitCodes, Limits};
use crate::yaml::NodeId;

use super::dialect::{EXIT_CODES, LIMITS};
use super::fields::{Path, Reader, unread};

/// Codes from 1 to 255, each in one list.
pub(super) fn exit_codes(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> ExitCodes {
    let mut read = ExitCodes::default();
    for entry in reader.entries(id, path, &EXIT_CODES).unwrap_or_default() {
        let at = path.key(entry.name);
        let items = reader.one_or_many(entry.value, at, "an exit code or a list of exit codes").unwrap_or_default();
        for (index, item) in items.into_iter().enumerate() {
            let Some(code) = reader.integer(item, at.index(index), 1..=255) else { continue };
            if read.meaning(code as i32).is_some() {
                let message = format!("the exit code {code} is listed twice");
                reader.report.add_with_help(reader.place(item), at.index(index), message, "a code means one thing");
                continue;
            }
            match entry.name {
                "skip" => read.skip.push(code as u8),
                "continue" => read.succeed.push(code as u8),
                other => unread(other),
            }
        }
    }
    read
}

pub(super) fn limits(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Limits {
    let mut limits = Limits::default();
    for entry in reader.entries(id, path, &LIMITS).unwrap_or_default() {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "memory" => limits.memory_bytes = reader.size(value, at),
            "files" => limits.files = reader.integer(value, at, 1..=1_048_576).map(|number| number as u64),
            "cpu" => limits.cpu_ms = reader.positive_duration(value, at),
            other => unread(other),
        }
    }
    limits
}
