//! Entries as they are shown, how they are found, and which form a list has.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use mainspring_api::dlq::{DlqAliases, DlqEntry, DlqLinks};
use mainspring_core::Micros;
use mainspring_core::dead_letter::{Reason, Resolution};
use mainspring_core::time::rfc3339;
use mainspring_engine::LetterError;
use mainspring_store::DeadLetter;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::page::{List, Page};
use crate::problem::Problem;
use crate::state::ApiState;

/// Metadata may be so long, written as JSON.
const MOST_METADATA: usize = 64 << 10;
/// How many entries are completed before a list is shown.
const CAPTURED_AT_ONCE: usize = 500;
const V1: &str = "/v1/";
const USUAL_V1: i64 = 50;

/// Which form of the API was asked: under `/v1` lists are plain arrays, and ids have further names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Usual,
    V1,
}

impl<S: Send + Sync> FromRequestParts<S> for Form {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(if parts.uri.path().starts_with(V1) { Self::V1 } else { Self::Usual })
    }
}

impl Form {
    /// How many are shown unless the request says so.
    pub(super) fn page(self, page: Page, usual: i64) -> Page {
        match self {
            Self::Usual => page.or_limit(usual),
            Self::V1 => page.or_limit(usual.max(USUAL_V1)),
        }
    }

    pub(super) fn list<T: Serialize>(self, list: List<T>) -> Response {
        match self {
            Self::Usual => axum::Json(list).into_response(),
            Self::V1 => axum::Json(list.items).into_response(),
        }
    }

    pub(super) fn aliases(self, letter: &DeadLetter) -> DlqAliases {
        match self {
            Self::Usual => DlqAliases::default(),
            Self::V1 => DlqAliases {
                dlq_entry_uuid: Some(letter.id),
                task_uuid: Some(letter.run),
                workflow_step_uuid: letter.task.map(|task| task.to_string()),
            },
        }
    }

    pub(super) fn entry(self, letter: DeadLetter) -> DlqEntry {
        let run = format!("/api/v1/workflow-runs/{}", letter.run);
        let task = letter.task.map(|task| format!("{run}/tasks/{task}"));
        DlqEntry {
            aliases: self.aliases(&letter),
            id: letter.id,
            task_run_id: letter.task.map(|task| task.to_string()),
            run_id: letter.run,
            workflow_id: letter.workflow_id,
            workflow: letter.workflow,
            namespace: letter.namespace,
            task_name: letter.task_name,
            original_state: letter.original_state,
            dlq_reason: letter.reason.word().to_owned(),
            error_type: letter.error_type,
            error_message: letter.error_message,
            stack_trace: letter.stack_trace,
            last_attempt_at: letter.last_attempt_at.map(rfc3339),
            total_attempts: letter.total_attempts,
            task_config: letter.task_config,
            execution_context: letter.execution_context,
            task_snapshot: letter.task_snapshot,
            fingerprint: letter.fingerprint,
            resolution_status: letter.status.word().to_owned(),
            resolution_notes: letter.notes,
            resolved_at: letter.resolved_at.map(rfc3339),
            resolved_by: letter.resolved_by,
            acted_by: letter.acted_by,
            metadata: letter.metadata,
            dlq_timestamp: rfc3339(letter.created_at),
            created_at: rfc3339(letter.created_at),
            updated_at: rfc3339(letter.updated_at),
            links: DlqLinks { logs: task.as_ref().map(|task| format!("{task}/logs")), task, run },
        }
    }
}

/// Completes new entries before they are shown.
pub(super) async fn refresh(state: &ApiState) -> Result<(), Problem> {
    state.client().capture_letters(CAPTURED_AT_ONCE).await?;
    Ok(())
}

/// The entry of this id, once the caller is authorised for its namespace. For others it does not exist.
pub(super) async fn find(state: &ApiState, caller: &Caller, id: Uuid) -> Result<DeadLetter, Problem> {
    let store = state.client().store();
    let mut letter = store.letter(id).await.map_err(|error| unknown(caller, id, error))?;
    if !letter.is_captured {
        refresh(state).await?;
        letter = store.letter(id).await?;
    }
    enter(caller, &letter)?;
    Ok(letter)
}

pub(super) fn enter(caller: &Caller, letter: &DeadLetter) -> Result<(), Problem> {
    let may = caller.enter(&letter.namespace);
    match caller.identity().has_in(Role::Viewer, &letter.namespace) {
        true => may,
        false => Err(not_there(letter.id)),
    }
}

fn unknown(caller: &Caller, id: Uuid, error: mainspring_store::Error) -> Problem {
    match error {
        mainspring_store::Error::NotFound { .. } => {
            caller.sees();
            not_there(id)
        }
        error => error.into(),
    }
}

fn not_there(id: Uuid) -> Problem {
    Problem::not_found(format!("dead letter {id} was not found"))
}

pub(super) fn minutes(time: Micros) -> f64 {
    (time as f64 / 600_000.0).round() / 100.0
}

pub(super) fn reason(text: Option<&str>) -> Result<Option<Reason>, Problem> {
    let words = || Reason::ALL.iter().map(|reason| reason.word()).collect::<Vec<_>>().join(", ");
    let read = |text: &str| {
        text.parse().map_err(|_| Problem::malformed(format!("the query does not fit: reason is one of {}", words())))
    };
    text.map(read).transpose()
}

pub(super) fn resolution(text: Option<&str>) -> Result<Option<Resolution>, Problem> {
    let words = || Resolution::ALL.iter().map(|status| status.word()).collect::<Vec<_>>().join(", ");
    let read = |text: &str| {
        Resolution::parse(text)
            .map_err(|_| Problem::malformed(format!("the query does not fit: status is one of {}", words())))
    };
    text.map(read).transpose()
}

/// Metadata as text; refuses text that is too long.
pub(super) fn metadata(value: Option<Value>) -> Result<Option<String>, Problem> {
    match value.filter(|value| !value.is_null()).map(|value| value.to_string()) {
        Some(text) if text.len() > MOST_METADATA => Err(Problem::invalid(
            "/metadata",
            format!("has {} bytes, but at most {MOST_METADATA} are kept: put a link there", text.len()),
        )),
        text => Ok(text),
    }
}

impl From<LetterError> for Problem {
    fn from(error: LetterError) -> Self {
        match error {
            LetterError::Store(error) => error.into(),
            LetterError::Submit(error) => error.into(),
            LetterError::Action(error) => error.into(),
            LetterError::Purged(_) => Self::new(StatusCode::GONE, error.to_string()),
            LetterError::Closed { .. } => Self::conflict(error.to_string()).of_kind("dead-letter-closed"),
            LetterError::Conflict(cause) => Self::conflict(cause),
        }
    }
}
