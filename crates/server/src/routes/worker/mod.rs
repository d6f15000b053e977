//! `/worker/*`: the protocol of remote workers (`docs/worker-protocol.md`).

mod artifacts;
mod exchange;
mod uploads;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use mainspring_api::worker::{
    FENCED, LONGEST_WAIT_MS, OUT_OF_ORDER, OVERTAKEN, PROTOCOL, Register, Registered, SESSION_HEADER, SESSION_LOST,
    SessionEnded, UNKNOWN_PROTOCOL,
};
use mainspring_core::time::rfc3339;
use mainspring_engine::{NewWorker, WorkerError, WorkerGate, WorkerSession};
use sha2::{Digest, Sha256};
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::auth::token::Token;
use crate::body::{self, Path};
use crate::problem::{Fault, Problem};
use crate::state::ApiState;

/// An output of the largest size, with what is around it.
const EXCHANGE_LIMIT: usize = (1 << 20) + (256 << 10);
const LONGEST_WORD: usize = 255;
const MOST_WORDS: usize = 200;
const MOST_SLOTS: u32 = 10_000;

pub(crate) fn register(routes: &mut Routes) {
    let access = Access::Anywhere(Role::Worker);
    routes.at(access, routes!(open_session)).in_pieces().keyless();
    routes.at(access, routes!(exchange::exchange)).body_limit(EXCHANGE_LIMIT).quiet().keyless();
    routes.at(access, routes!(uploads::store_logs)).quiet().keyless();
    routes.at(access, routes!(artifacts::keep, artifacts::get)).streamed().quiet().keyless();
    routes.at(access, routes!(uploads::files)).quiet();
    routes.at(access, routes!(end_session)).in_pieces().keyless();
}

/// The token of the session, from its header.
pub(crate) struct SessionToken(Vec<u8>);

impl<S: Send + Sync> FromRequestParts<S> for SessionToken {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let token = parts.headers.get(SESSION_HEADER).ok_or_else(|| {
            Problem::malformed("the token of the session is missing: send it in the header `Mainspring-Session`")
        })?;
        Ok(Self(Sha256::digest(token.as_bytes()).to_vec()))
    }
}

/// The session of a request, with its credentials.
pub(super) fn session(caller: &Caller, token: SessionToken, id: i64) -> WorkerSession {
    WorkerSession { id, token_hash: token.0, namespaces: caller.identity().namespaces_with(Role::Worker) }
}

pub(super) fn gate(state: &ApiState) -> Result<WorkerGate, Problem> {
    state.client().workers().ok_or_else(|| unavailable("no node runs here that remote workers could talk to"))
}

fn unavailable(detail: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        .of_kind("node-unavailable")
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

impl From<WorkerError> for Problem {
    fn from(error: WorkerError) -> Self {
        let kind = |urn: &'static str| urn.trim_start_matches("urn:mainspring:");
        match error {
            WorkerError::Store(error) => error.into(),
            WorkerError::Artifact(error) => error.into(),
            WorkerError::UnknownSession => Self::not_found(error.to_string()),
            WorkerError::SessionLost => Self::conflict(error.to_string()).of_kind(kind(SESSION_LOST)),
            WorkerError::Fenced => Self::conflict(error.to_string()).of_kind(kind(FENCED)),
            WorkerError::OutOfOrder { seq, last } if seq < last => {
                Self::conflict(error.to_string()).of_kind(kind(OVERTAKEN))
            }
            WorkerError::OutOfOrder { .. } => Self::conflict(error.to_string()).of_kind(kind(OUT_OF_ORDER)),
            WorkerError::Stopping | WorkerError::Moved => unavailable(&error.to_string()),
        }
    }
}

/// Register a remote worker
#[utoipa::path(post, path = "/worker/sessions", tag = "worker", request_body = Register,
    responses((status = 201, body = Registered), (status = 409, description = "The protocol is not spoken here")))]
pub(crate) async fn open_session(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(worker): body::Json<Register>,
) -> Result<(StatusCode, Json<Registered>), Problem> {
    if worker.protocol != PROTOCOL {
        let detail = format!(
            "protocol {} is not spoken here: versions {PROTOCOL} to {PROTOCOL} are; use a worker of the server's version",
            worker.protocol
        );
        return Err(Problem::conflict(detail).of_kind(UNKNOWN_PROTOCOL.trim_start_matches("urn:mainspring:")));
    }
    let faults = faults(&worker);
    if !faults.is_empty() {
        return Err(Problem::faults("the worker cannot be registered", faults));
    }
    let gate = gate(&state)?;
    let client = state.client();
    let token = Token::generate(client.clock().new_id()).map_err(|_| Problem::internal())?;
    let slots = [worker.slots.process, worker.slots.function, worker.slots.remote];
    let new = NewWorker {
        worker: worker.worker_id,
        hostname: worker.hostname,
        queues: worker.queues,
        labels: worker.labels,
        namespaces: caller.identity().namespaces_with(Role::Worker),
        slots: slots.map(|slots| i32::try_from(slots).unwrap_or(i32::MAX)),
        handlers: worker.handlers,
        version: worker.version,
        token_hash: token.hash().to_vec(),
    };
    let session_id = gate.register(new).await?;
    let registered = Registered {
        session_id,
        session_token: token.reveal().to_owned(),
        lease_ttl_ms: u64::try_from(gate.lease_ttl().as_millis()).unwrap_or(u64::MAX),
        exchange_wait_ms: LONGEST_WAIT_MS,
        server_time: rfc3339(client.now()),
    };
    Ok((StatusCode::CREATED, Json(registered)))
}

/// Faults in the worker's description of itself. Words are stored in lists joined by commas.
fn faults(worker: &Register) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut check = |pointer: String, word: &str, may_be_empty: bool| {
        let bad = word.len() > LONGEST_WORD || word.contains([',', '\0']) || word.chars().any(char::is_control);
        if bad || (word.is_empty() && !may_be_empty) {
            let detail = format!("must have 1 to {LONGEST_WORD} bytes, and no comma or control character");
            faults.push(Fault::at(pointer, detail));
        }
    };
    check("/worker_id".into(), &worker.worker_id, false);
    check("/hostname".into(), &worker.hostname, true);
    check("/version".into(), &worker.version, true);
    for (list, words) in [("queues", &worker.queues), ("handlers", &worker.handlers)] {
        for (index, word) in words.iter().enumerate() {
            check(format!("/{list}/{index}"), word, false);
        }
    }
    for (key, value) in &worker.labels {
        check(format!("/labels/{key}"), key, false);
        check(format!("/labels/{key}"), value, true);
    }
    for (list, count) in
        [("queues", worker.queues.len()), ("handlers", worker.handlers.len()), ("labels", worker.labels.len())]
    {
        if count > MOST_WORDS {
            faults.push(Fault::at(format!("/{list}"), format!("must have at most {MOST_WORDS} entries")));
        }
    }
    let slots = worker.slots;
    for (name, count) in [("process", slots.process), ("function", slots.function), ("remote", slots.remote)] {
        if count > MOST_SLOTS {
            faults.push(Fault::at(format!("/slots/{name}"), format!("must be at most {MOST_SLOTS}")));
        }
    }
    if slots.process + slots.function.min(MOST_SLOTS) + slots.remote.min(MOST_SLOTS) == 0 {
        faults.push(Fault::at("/slots", "must have at least one slot"));
    }
    faults
}

/// End a session: what it has not finished runs elsewhere
#[utoipa::path(delete, path = "/worker/sessions/{id}", tag = "worker", params(("id" = i64, Path)),
    responses((status = 200, body = SessionEnded), (status = 404, description = "There is no such session")))]
pub(crate) async fn end_session(
    State(state): State<ApiState>,
    caller: Caller,
    token: SessionToken,
    Path(id): Path<i64>,
) -> Result<Json<SessionEnded>, Problem> {
    let returned = gate(&state)?.end(&session(&caller, token, id)).await?;
    Ok(Json(SessionEnded { returned }))
}
