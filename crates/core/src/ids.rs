//! Identities. Runs are UUID v7 made by the server; a task run is addressed inside its run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A run's id: UUID v7, so ids sort by creation time and history partitions by them.
pub type RunId = Uuid;

/// The item number of a task run that is not one of a `foreach` expansion.
pub const NO_ITEM: i32 = -1;

/// One task within one run: `{run}.{index}` or, for an item of a `foreach`, `{run}.{index}.{item}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskKey {
    pub run: RunId,
    pub index: i32,
    pub item: i32,
}

impl TaskKey {
    pub fn new(run: RunId, index: i32) -> Self {
        Self { run, index, item: NO_ITEM }
    }
}

impl fmt::Display for TaskKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.run, self.index)?;
        if self.item != NO_ITEM {
            write!(out, ".{}", self.item)?;
        }
        Ok(())
    }
}

/// Why a text is not a task run id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a task run id: write RUN.INDEX or RUN.INDEX.ITEM")]
pub struct InvalidTaskKey(String);

impl FromStr for TaskKey {
    type Err = InvalidTaskKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidTaskKey(text.chars().take(80).collect());
        let mut parts = text.split('.');
        let run = parts.next().and_then(|part| part.parse().ok()).ok_or_else(invalid)?;
        let index = parts.next().and_then(|part| part.parse().ok()).filter(|index| *index >= 0).ok_or_else(invalid)?;
        let item = match parts.next() {
            None => NO_ITEM,
            Some(part) => part.parse().ok().filter(|item| *item >= 0).ok_or_else(invalid)?,
        };
        if parts.next().is_some() {
            return Err(invalid());
        }
        Ok(Self { run, index, item })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_keys_read_back_as_written() {
        for text in ["0190a1b2-0000-7000-8000-000000000001.0", "0190a1b2-0000-7000-8000-000000000001.12.7"] {
            assert_eq!(text.parse::<TaskKey>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "x.1",
            "0190a1b2-0000-7000-8000-000000000001",
            "0190a1b2-0000-7000-8000-000000000001.-1",
            "0190a1b2-0000-7000-8000-000000000001.1.2.3",
            "0190a1b2-0000-7000-8000-000000000001.1.-1",
        ] {
            assert!(text.parse::<TaskKey>().is_err(), "{text}");
        }
    }
}
