//! A workflow as written: typed, but names are not resolved and expressions not checked.

use crate::Workflow;
use crate::diagnostic::Place;
use crate::workflow::{Stage, Task};
use crate::yaml::NodeId;

pub(super) struct Spec<'t> {
    /// Everything but the tasks, which are empty here.
    pub(super) workflow: Workflow,
    pub(super) tasks: Vec<TaskSpec<'t>>,
    pub(super) texts: Vec<Text>,
}

pub(super) struct TaskSpec<'t> {
    pub(super) name: &'t str,
    pub(super) place: Place,
    /// `needs` are empty, texts are as written.
    pub(super) task: Task,
    pub(super) needs: Vec<Need<'t>>,
    /// Where a rule was written, to complain about it.
    pub(super) rule_place: Option<Place>,
    pub(super) texts: Vec<Text>,
}

pub(super) struct Need<'t> {
    pub(super) name: &'t str,
    pub(super) place: Place,
}

/// A text that may hold expressions: which field of the model it is, and the node it was written in.
pub(super) struct Text {
    pub(super) field: Field,
    pub(super) node: NodeId,
    pub(super) path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    Env(String),
    Condition,
    Script,
    Cwd,
    /// A text inside the payload, by its JSON pointer.
    Payload(String),
    InputDefault(String),
    ConcurrencyKey,
}

impl Spec<'_> {
    /// The key under which the tasks of a stage are written.
    pub(super) fn stage_key(stage: Stage) -> &'static str {
        match stage {
            Stage::Main => "tasks",
            Stage::OnFailure => "on_failure",
            Stage::Finally => "finally",
        }
    }
}
