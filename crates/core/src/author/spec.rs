//! A workflow as written: typed, but names are not resolved and expressions not checked.

use crate::Workflow;
use crate::diagnostic::Place;
use crate::workflow::{Stage, Task};
use crate::yaml::NodeId;

use super::artifacts::FilesFromSpec;
use super::fields::Path;

pub(super) struct Spec<'t> {
    /// Everything but the tasks, which are empty here.
    pub(super) workflow: Workflow,
    pub(super) tasks: Vec<TaskSpec<'t>>,
    pub(super) texts: Vec<Text>,
    /// Of each trigger.
    pub(super) trigger_places: Vec<TriggerPlaces>,
    /// The checks of polls, with the number of their trigger.
    pub(super) checks: Vec<(usize, TaskSpec<'t>)>,
}

/// Where a trigger and the inputs it gives were written.
pub(super) struct TriggerPlaces {
    pub(super) whole: Place,
    pub(super) inputs: Vec<(String, Place)>,
}

pub(super) struct TaskSpec<'t> {
    pub(super) name: &'t str,
    pub(super) place: Place,
    /// `needs` are empty, texts are as written.
    pub(super) task: Task,
    pub(super) needs: Vec<Need<'t>>,
    pub(super) files_from: Vec<FilesFromSpec<'t>>,
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

impl Text {
    pub(super) fn new(field: Field, node: NodeId, path: Path<'_>) -> Self {
        Self { field, node, path: path.to_string() }
    }
}

/// Pointers are JSON pointers below the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    // Of the workflow and of tasks.
    Env(String),
    // Of tasks.
    Condition,
    Step(usize, StepField),
    Image(ImageField),
    ReuseKey,
    CacheKey,
    RetryCondition,
    Foreach,
    ForeachMember(String),
    Script,
    Cwd,
    Payload(String),
    Url,
    Header(String),
    Query(String),
    Form(String),
    BodyText,
    BodyJson(String),
    Username,
    Password,
    Bearer,
    ExpectJson,
    ChildName,
    ChildInput(String, String),
    Message,
    WaitFor,
    WaitUntil,
    WaitKey,
    WaitCondition,
    // Of the workflow.
    InputDefault(String),
    ConcurrencyKey,
    Output(String, String),
    TriggerCondition(usize),
    TriggerInput(usize, String, String),
    DebounceKey(usize),
    PollKey(usize),
}

/// A text of `image`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ImageField {
    Name,
    Command(usize),
    Username,
    Password,
}

/// A text of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepField {
    Condition,
    Env(String),
    Script,
    Cwd,
}

impl Field {
    /// Whether it is evaluated by the decision about its task.
    pub(super) fn is_decisive(&self) -> bool {
        matches!(self, Self::Condition | Self::Foreach | Self::ForeachMember(_))
    }
}

impl Spec<'_> {
    /// The key under which the tasks of a stage are written.
    pub(super) fn stage_key(stage: Stage) -> &'static str {
        match stage {
            Stage::Main => "tasks",
            Stage::OnFailure => "on_failure",
            Stage::OnSuccess => "on_success",
            Stage::Finally => "finally",
        }
    }
}
