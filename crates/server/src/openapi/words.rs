//! Words and forms of parameters, for the description: the tables of the program itself say which there are.

use mainspring_api::schedules::TriggerKind;
use mainspring_core::dead_letter::{Reason, Resolution};
use mainspring_core::staleness::Health;
use mainspring_core::state::{RunState, TaskState};
use mainspring_store::{ExecutionStatus, JobKind, JobStatus, NotificationState};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

macro_rules! words {
    ($($(#[$meta:meta])* $name:ident: $words:expr;)+) => {$(
        $(#[$meta])*
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let words: Vec<&'static str> = $words;
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
            }
        }

        impl ToSchema for $name {}
    )+};
}

words! {
    /// Of a run.
    RunWord: RunState::ALL.iter().map(|state| state.word()).collect();
    /// Of a task run, as it is shown.
    TaskWord: TaskState::ALL.iter().filter(|state| state.shown() == **state).map(|state| state.word()).collect();
    /// Of a job.
    JobWord: JobStatus::ALL.iter().map(|status| status.word()).collect();
    /// What fires a job.
    JobType: JobKind::ALL.iter().map(|kind| kind.word()).collect();
    /// Of a worker.
    WorkerWord: vec!["active", "draining", "inactive"];
    /// Why a dead letter is there.
    ReasonWord: Reason::ALL.iter().map(|reason| reason.word()).collect();
    /// What became of a dead letter.
    ResolutionWord: Resolution::ALL.iter().map(|status| status.word()).collect();
    /// How an open run does.
    HealthWord: Health::ALL.iter().map(|health| health.word()).collect();
    /// What is shown besides.
    Include: vec!["logs"];
    /// Of an execution of a job.
    ExecutionWord: ExecutionStatus::ALL.iter().map(|status| status.word()).collect();
    /// Of a notification.
    NotificationWord: NotificationState::ALL.iter().map(|state| state.word()).collect();
    /// What fires a schedule.
    KindWord: TriggerKind::ALL.iter().map(|kind| kind.word()).collect();
    /// In which run a dead letter is done again.
    RetryForm: vec!["same_run", "new_run"];
    /// How a log is shown.
    LogFormat: vec!["json", "text"];
    /// Of runs that can be retried.
    RetriedWord: vec![RunState::Failed.word(), RunState::Cancelled.word()];
}

/// The id of a task run: `RUN.INDEX` or `RUN.INDEX.ITEM`.
pub(crate) struct TaskRunId;

impl PartialSchema for TaskRunId {
    fn schema() -> RefOr<Schema> {
        let pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\\.[0-9]{1,6}(\\.[0-9]{1,5})?$";
        ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).into()
    }
}

impl ToSchema for TaskRunId {}

/// The id of a run, or of a task run.
pub(crate) struct AnyRunId;

impl PartialSchema for AnyRunId {
    fn schema() -> RefOr<Schema> {
        let pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\\.[0-9]{1,6}(\\.[0-9]{1,5})?)?$";
        ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).into()
    }
}

impl ToSchema for AnyRunId {}
