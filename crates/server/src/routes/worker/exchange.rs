//! The exchange of a remote worker.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use mainspring_api::worker::{
    Assignment, AttemptRef, Cancel, Exchange, Exchanged, FilesRef, Finished, LONGEST_WAIT_MS, ResultOutcome, Slots,
};
use mainspring_core::time::rfc3339;
use mainspring_core::work::{self, Failure, Outcome};
use mainspring_core::{Micros, TaskKey};
use mainspring_engine::{WorkerAnswer, WorkerExchange, WorkerGate, WorkerResult};
use mainspring_store::TaskToken;
use serde_json::{Value, json};

use super::{SessionToken, gate, session};
use crate::auth::caller::Caller;
use crate::body;
use crate::problem::Problem;
use crate::state::ApiState;

const MOST_RESULTS: usize = 1_000;
const MOST_HELD: usize = 30_000;
const LONGEST_DETAIL: usize = 10_000;

/// Hand in results and take what there is to do
#[utoipa::path(post, path = "/worker/exchange", tag = "worker", request_body = Exchange,
    responses((status = 200, body = Exchanged), (status = 409, description = "The session is dead, or the number is out of order")))]
pub(crate) async fn exchange(
    State(state): State<ApiState>,
    caller: Caller,
    token: SessionToken,
    body::Json(request): body::Json<Exchange>,
) -> Result<Json<Exchanged>, Problem> {
    let gate = gate(&state)?;
    let session = session(&caller, token, request.session_id);
    let now = state.client().now();
    let answer = gate.exchange(&session, read(request, now)?).await?;
    Ok(Json(shown(&gate, session.id, now, answer)))
}

fn read(request: Exchange, now: Micros) -> Result<WorkerExchange, Problem> {
    if request.seq < 1 {
        return Err(Problem::invalid("/seq", "must be a number from 1"));
    }
    if request.finished.len() + request.released.len() > MOST_RESULTS {
        return Err(Problem::invalid(
            "/finished",
            format!("must have at most {MOST_RESULTS} entries: send the rest next"),
        ));
    }
    if request.holding.len() > MOST_HELD {
        return Err(Problem::invalid("/holding", format!("must have at most {MOST_HELD} entries")));
    }
    let mut finished = Vec::with_capacity(request.finished.len() + request.released.len());
    for (index, result) in request.finished.into_iter().enumerate() {
        finished.push(read_result(result, now, &format!("/finished/{index}"))?);
    }
    for (index, released) in request.released.into_iter().enumerate() {
        let key = read_key(&released.task_run_id, &format!("/released/{index}/task_run_id"))?;
        let attempt = released.attempt;
        finished.push(WorkerResult { key, attempt, outcome: Outcome::Released, started_at: now, finished_at: now });
    }
    let mut holding = Vec::with_capacity(request.holding.len());
    for (index, held) in request.holding.into_iter().enumerate() {
        holding.push((
            read_key(&held.task_run_id, &format!("/holding/{index}/task_run_id"))?,
            held.attempt,
            held.started,
        ));
    }
    let Slots { process, function, remote } = request.want;
    Ok(WorkerExchange {
        seq: request.seq,
        finished,
        holding,
        want: [process, function, remote].map(|slots| i32::try_from(slots.min(10_000)).unwrap_or(0)),
        wait: Duration::from_millis(request.wait_ms.min(LONGEST_WAIT_MS)),
    })
}

pub(super) fn read_key(text: &str, pointer: &str) -> Result<TaskKey, Problem> {
    text.parse().map_err(|error: mainspring_core::ids::InvalidTaskKey| Problem::invalid(pointer, error.to_string()))
}

pub(super) fn read_instant(text: Option<&str>, now: Micros, pointer: &str) -> Result<Micros, Problem> {
    match text {
        None => Ok(now),
        Some(text) => mainspring_core::time::parse(text)
            .ok_or_else(|| Problem::invalid(pointer, "must be an instant like 2026-01-31T12:00:00.5Z")),
    }
}

fn read_result(result: Finished, now: Micros, pointer: &str) -> Result<WorkerResult, Problem> {
    let key = read_key(&result.task_run_id, &format!("{pointer}/task_run_id"))?;
    let outcome = match result.outcome {
        ResultOutcome::Success => Outcome::Success { output: result.output },
        ResultOutcome::Cancelled => {
            Outcome::Cancelled { reason: result.error.map_or_else(|| "cancelled".into(), |error| error.message) }
        }
        ResultOutcome::Failed => {
            let Some(error) = result.error else {
                return Err(Problem::invalid(&format!("{pointer}/error"), "must say why it failed: kind and message"));
            };
            Outcome::Failed(Failure {
                kind: error.kind.chars().take(80).collect(),
                message: error.message.chars().take(LONGEST_DETAIL).collect(),
                exit_code: result.exit_code,
                status: error.status,
                detail: error.detail.map(|detail| detail.chars().take(LONGEST_DETAIL).collect()),
                permanent: error.permanent,
            })
        }
    };
    let finished_at = read_instant(result.finished_at.as_deref(), now, &format!("{pointer}/finished_at"))?;
    let started_at = read_instant(result.started_at.as_deref(), finished_at, &format!("{pointer}/started_at"))?;
    Ok(WorkerResult { key, attempt: result.attempt, outcome, started_at, finished_at })
}

fn shown(gate: &WorkerGate, session: i64, now: Micros, answer: WorkerAnswer) -> Exchanged {
    let attempts = |tokens: &[TaskToken]| tokens.iter().map(attempt).collect();
    Exchanged {
        seq: answer.seq,
        acknowledged: attempts(&answer.acknowledged),
        fenced: attempts(&answer.fenced),
        release: attempts(&answer.release),
        cancel: answer
            .cancel
            .into_iter()
            .map(|(token, reason)| Cancel { task_run_id: token.key.to_string(), attempt: token.attempt, reason })
            .collect(),
        drain: answer.drain,
        assignments: answer.assignments.iter().map(|order| assignment(gate, session, now, order)).collect(),
    }
}

fn attempt(token: &TaskToken) -> AttemptRef {
    AttemptRef { task_run_id: token.key.to_string(), attempt: token.attempt }
}

fn assignment(gate: &WorkerGate, session: i64, now: Micros, assigned: &work::Assignment) -> Assignment {
    let order = &assigned.order;
    let deadline = order
        .timeout_ms
        .map(|limit| now.saturating_add(i64::try_from(limit).unwrap_or(i64::MAX).saturating_mul(1_000)));
    let version = gate.version_of(session, assigned.key, assigned.attempt);
    Assignment {
        task_run_id: assigned.key.to_string(),
        attempt: assigned.attempt,
        fencing_token: format!("{}.{}.{}", assigned.key, assigned.session, assigned.attempt),
        idempotency_key: assigned.idempotency_key(),
        generation: assigned.generation,
        order: order_value(order),
        env: order.env.clone(),
        secrets: order.secrets.clone(),
        files: version.filter(|_| order.files.is_some()).map(|version| FilesRef { version }),
        traceparent: assigned.trace.map(|trace| trace.to_string()),
        deadline: deadline.map(rfc3339),
    }
}

/// The order without what the assignment carries beside it.
fn order_value(order: &work::Order) -> Value {
    json!({
        "namespace": order.namespace,
        "workflow": order.workflow,
        "task": order.task,
        "action": order.action,
        "timeout_ms": order.timeout_ms,
        "artifacts": order.artifacts,
        "limits": order.limits,
        "process": order.process,
        "on_store_loss": order.on_store_loss,
    })
}
