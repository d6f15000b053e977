//! Files that go from one task to another.

use serde::{Deserialize, Serialize};

use super::Workflow;
use crate::artifacts::ArtifactPatterns;

/// Artifacts of another task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesFrom {
    /// The index of the task, which has ended when this one begins.
    pub task: i32,
    /// One of its named artifacts; all of them unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
}

impl Workflow {
    /// The patterns of the files that are meant.
    pub fn patterns_of(&self, from: &FilesFrom) -> ArtifactPatterns {
        let Some(task) = usize::try_from(from.task).ok().and_then(|index| self.tasks.get(index)) else {
            return ArtifactPatterns::default();
        };
        let texts = match &from.set {
            None => task.artifacts.as_slice(),
            Some(set) => task.artifact_sets.get(set).map_or(&[][..], Vec::as_slice),
        };
        // They were read when the version was validated.
        ArtifactPatterns::read(texts.iter().map(String::as_str)).unwrap_or_default()
    }

    /// How an entry of `files_from` is written.
    pub fn describe_files(&self, from: &FilesFrom) -> String {
        let task = usize::try_from(from.task).ok().and_then(|index| self.tasks.get(index));
        let task = task.map_or("", |task| task.name.as_str());
        match &from.set {
            None => format!("tasks.{task}.artifacts"),
            Some(set) => format!("tasks.{task}.artifacts.{set}"),
        }
    }
}
