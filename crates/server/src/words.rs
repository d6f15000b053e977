//! From the words of core, engine and store to those of the API.

use std::str::FromStr;

use mainspring_api::List;
use mainspring_api::jobs::{JobStatus, JobType};
use mainspring_api::runs::{LogLevel, LogStream, RunPhase, RunStatus, TaskStatus};
use mainspring_api::words::UnknownWord;
use mainspring_api::workflows::{Stage, TaskKind};
use mainspring_core::diagnostic::did_you_mean;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work;
use mainspring_core::workflow::Action;
use mainspring_store::{JobKind, Phase};

use crate::problem::Problem;

/// A word that the store keeps as text.
pub(crate) fn known<T: FromStr<Err = UnknownWord>>(word: &str) -> Result<T, Problem> {
    word.parse().map_err(|error| {
        tracing::error!(%error, "a word that the API does not know");
        Problem::internal()
    })
}

/// A word of the query.
pub(crate) fn one_of<T: FromStr<Err = UnknownWord>>(word: &str) -> Result<T, Problem> {
    word.parse().map_err(|error: UnknownWord| {
        let hint = did_you_mean(word, error.known.iter().copied()).map(|hint| format!(": {hint}")).unwrap_or_default();
        Problem::malformed(format!("the query does not fit: {error}{hint}"))
    })
}

/// The list, if every item of it could be shown.
pub(crate) fn all_of<T>(list: List<Result<T, Problem>>) -> Result<List<T>, Problem> {
    let items = list.items.into_iter().collect::<Result<_, _>>()?;
    Ok(List { items, next: list.next, total: list.total })
}

pub(crate) fn run_status(state: RunState) -> RunStatus {
    match state {
        RunState::Pending => RunStatus::Pending,
        RunState::Running => RunStatus::Running,
        RunState::Paused => RunStatus::Paused,
        RunState::Success => RunStatus::Success,
        RunState::Failed => RunStatus::Failed,
        RunState::Cancelled => RunStatus::Cancelled,
    }
}

pub(crate) fn run_phase(phase: Phase) -> RunPhase {
    match phase {
        Phase::WaitingForDependencies => RunPhase::WaitingForDependencies,
        Phase::WaitingForRetry => RunPhase::WaitingForRetry,
        Phase::StepsInProcess => RunPhase::StepsInProcess,
    }
}

pub(crate) fn task_status(state: TaskState) -> TaskStatus {
    match state.shown() {
        TaskState::Ready => TaskStatus::Ready,
        TaskState::Running => TaskStatus::Running,
        TaskState::Retrying => TaskStatus::Retrying,
        TaskState::Waiting => TaskStatus::Waiting,
        TaskState::Success => TaskStatus::Success,
        TaskState::Failed => TaskStatus::Failed,
        TaskState::Skipped => TaskStatus::Skipped,
        TaskState::UpstreamFailed => TaskStatus::UpstreamFailed,
        TaskState::Cancelled => TaskStatus::Cancelled,
        TaskState::ResolvedManually => TaskStatus::ResolvedManually,
        // Pending, and what is shown as that.
        _ => TaskStatus::Pending,
    }
}

pub(crate) fn log_stream(stream: work::LogStream) -> LogStream {
    match stream {
        work::LogStream::Stdout => LogStream::Stdout,
        work::LogStream::Stderr => LogStream::Stderr,
        work::LogStream::System => LogStream::System,
    }
}

pub(crate) fn log_level(stream: work::LogStream) -> LogLevel {
    if stream == work::LogStream::Stderr { LogLevel::Error } else { LogLevel::Info }
}

pub(crate) fn stage(stage: mainspring_core::workflow::Stage) -> Stage {
    match stage {
        mainspring_core::workflow::Stage::Main => Stage::Main,
        mainspring_core::workflow::Stage::OnFailure => Stage::OnFailure,
        mainspring_core::workflow::Stage::OnSuccess => Stage::OnSuccess,
        mainspring_core::workflow::Stage::Finally => Stage::Finally,
    }
}

pub(crate) fn task_kind(action: &Action) -> TaskKind {
    match action {
        Action::Run { .. } => TaskKind::Run,
        Action::Steps { .. } => TaskKind::Steps,
        Action::Function { .. } => TaskKind::Function,
        Action::Http(_) => TaskKind::Http,
        Action::Workflow(_) => TaskKind::Workflow,
        Action::Remote { .. } => TaskKind::Remote,
        Action::Approval(_) => TaskKind::Approval,
        Action::Wait(_) => TaskKind::Wait,
    }
}

pub(crate) fn job_type(kind: JobKind) -> JobType {
    match kind {
        JobKind::Cron => JobType::Cron,
        JobKind::OneTime => JobType::OneTime,
        JobKind::Recurring => JobType::Recurring,
        JobKind::Dependent => JobType::Dependent,
    }
}

pub(crate) fn job_status(status: mainspring_store::JobStatus) -> JobStatus {
    match status {
        mainspring_store::JobStatus::Active => JobStatus::Active,
        mainspring_store::JobStatus::Paused => JobStatus::Paused,
        mainspring_store::JobStatus::Completed => JobStatus::Completed,
        mainspring_store::JobStatus::Cancelled => JobStatus::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_the_same_on_both_sides() {
        for state in RunState::ALL.iter().copied() {
            assert_eq!(run_status(state).word(), state.word());
        }
        for state in TaskState::ALL.iter().copied() {
            assert_eq!(task_status(state).word(), state.shown().word());
        }
        for kind in JobKind::ALL {
            assert_eq!(job_type(kind).word(), kind.word());
        }
        for status in mainspring_store::JobStatus::ALL {
            assert_eq!(job_status(status).word(), status.word());
        }
    }
}
