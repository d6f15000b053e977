//! One commit per request: the claim of its `Idempotency-Key`, what it writes, its audit row and the answer that is kept.
//!
//! A request that is repeated under the same key is answered, not done again. Keys belong to who sends them. The key is
//! claimed with the hash of method, path, query, body and the caller's grants as the first statement of the request's
//! transaction, and its answer is kept for a day; a second request under the same key waits for the first. Answers that
//! tell nothing certain (5xx, 429), and refusals of the caller, are not kept. A handler whose answer must not be stored
//! marks it with [`DoNotKeep`].
//!
//! Work that takes many transactions by nature ([`InPieces`]) claims its key before and keeps its answer afterwards: every
//! piece of it may be repeated.

mod gathering;
mod pieces;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use mainspring_core::Micros;
use mainspring_store::{Claim, Error, KeptAnswer, Record, RequestKey, Unit};
use sha2::{Digest, Sha256};

use self::gathering::Committed;
pub(crate) use self::gathering::Gathering;
use crate::audit::Trace;
use crate::auth::caller::Caller;
use crate::body::{self, BodyLimit};
use crate::detach;
use crate::problem::Problem;
use crate::state::ApiState;

const HEADER: &str = "idempotency-key";
const REPLAY: &str = "idempotent-replay";
const LONGEST: usize = 255;
/// Answers up to this size are kept whole.
const LARGEST_KEPT: usize = 1 << 20;
/// How long answers are kept.
pub(crate) const KEPT_FOR: Micros = 24 * 3_600 * 1_000_000;

/// In the extensions of a response: the answer must not be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoNotKeep;

/// In the extensions of a request: nothing of it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyless;

/// In the extensions of a request: it makes many transactions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InPieces;

/// In the extensions of a response: it is replayed, to the same caller with the same rights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replayed;

pub(crate) async fn layer(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    answer(&state, request, next).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(state: &ApiState, request: Request, next: Next) -> Result<Response, Problem> {
    let caller = request.extensions().get::<Caller>().cloned();
    let (Some(caller), false) = (caller, detach::is_read(request.method())) else {
        return Ok(next.run(request).await);
    };
    let is_keyless = request.extensions().get::<Keyless>().is_some();
    let key = key_of(request.headers())?.filter(|_| !is_keyless).map(str::to_owned);
    let (mut request, key) = match key {
        None => (request, None),
        Some(key) => {
            let (request, hash) = hashed(request, &caller).await?;
            let (claim, at) = (state.client().clock().new_id(), state.client().now());
            let actor = caller.key_owner(request.uri().path());
            (request, Some(RequestKey { actor, key, hash, claim, at }))
        }
    };
    if request.extensions().get::<InPieces>().is_some() {
        return match key {
            None => Ok(next.run(request).await),
            Some(key) => pieces::answer(state, &key, request, next).await,
        };
    }
    // An unverified caller must not see earlier answers.
    if let Some(key) = key.as_ref().filter(|_| !caller.is_unverified())
        && let Some(response) = answered(state, key).await?
    {
        return Ok(response);
    }
    let trace = request.extensions().get::<Trace>().cloned();
    let gathering = Gathering::new(key.clone(), trace.clone());
    request.extensions_mut().insert(gathering.clone());
    let unit = state.client().store().unit(key.clone());
    let response = unit.scope(next.run(request)).await;
    let ended = match unit.key_is_taken() || gathering.key_is_taken() {
        true => Err(Error::KeyTaken),
        false if response.extensions().get::<Committed>().is_some() => Ok(response),
        false => end(state, unit, key.as_ref(), &caller, trace.as_ref(), response).await,
    };
    match (ended, key) {
        (Ok(response), _) => Ok(response),
        // Another request with this key was faster, or is under way.
        (Err(Error::KeyTaken), Some(key)) => Ok(answered(state, &key).await?.unwrap_or_else(under_way)),
        (Err(error), _) => Err(error.into()),
    }
}

/// Commits the request with everything it leaves, or stores only its refusal.
async fn end(
    state: &ApiState,
    unit: Unit,
    key: Option<&RequestKey>,
    caller: &Caller,
    trace: Option<&Trace>,
    response: Response,
) -> Result<Response, Error> {
    let status = response.status();
    let (parts, body) = response.into_parts();
    let Ok(collected) = body.collect().await else { return Ok(Problem::internal().into_response()) };
    let bytes = collected.to_bytes();
    if !is_certain(status) {
        // Dropping the unit rolls it back.
        return Ok(Response::from_parts(parts, Body::from(bytes)));
    }
    if let (Some(trace), Some(namespace)) = (trace, caller.namespace()) {
        trace.facts.namespace(namespace);
    }
    if key.is_some() && is_refusal(status) {
        // Dropping the unit rolls it back. A refusal is not stored, and the key stays free for an authorised caller.
        // The audit log writes its row separately.
        return Ok(Response::from_parts(parts, Body::from(bytes)));
    }
    let answer = key.map(|_| kept(&parts, &bytes));
    let audit = trace.and_then(|trace| trace.row(state, status));
    let is_recorded = audit.is_some();
    let record = Record { answer, audit };
    if status.is_success() || status.is_redirection() {
        if unit.commit(record).await? {
            state.client().committed().await;
        }
    } else {
        unit.refuse(record).await?;
    }
    if let Some(trace) = trace.filter(|_| is_recorded) {
        trace.facts.recorded();
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// Whether a repetition would get the same answer.
fn is_certain(status: StatusCode) -> bool {
    !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS
}

/// Whether the caller was refused, not the request.
fn is_refusal(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// The stored form of an answer.
fn kept(parts: &axum::http::response::Parts, bytes: &Bytes) -> KeptAnswer {
    let secret = parts.extensions.get::<DoNotKeep>().is_some() || bytes.len() > LARGEST_KEPT;
    let content_type = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
    KeptAnswer {
        status: parts.status.as_u16(),
        content_type: content_type.filter(|_| !secret),
        body: (!secret).then(|| bytes.to_vec()),
    }
}

/// The stored answer of this key, if any.
async fn answered(state: &ApiState, key: &RequestKey) -> Result<Option<Response>, Problem> {
    let found = state.client().store().request_under((&key.actor, &key.key), &key.hash).await?;
    Ok(found.and_then(meaning))
}

fn meaning(claim: Claim) -> Option<Response> {
    match claim {
        Claim::Mine => None,
        Claim::Answered(kept) => Some(replay(kept)),
        Claim::UnderWay => Some(under_way()),
        Claim::Differs => {
            let detail = "another request was made under this Idempotency-Key: take a new key for a new request";
            Some(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).into_response())
        }
    }
}

fn under_way() -> Response {
    let problem = Problem::conflict("the same request is under way: repeat it in a moment to get its answer");
    problem.with_header(RETRY_AFTER, HeaderValue::from_static("1")).into_response()
}

fn key_of(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value
        .to_str()
        .ok()
        .filter(|key| !key.is_empty() && key.len() <= LONGEST && key.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key)),
        _ => Err(Problem::malformed("an Idempotency-Key has 1 to 255 visible ASCII characters, and is sent once")),
    }
}

async fn hashed(request: Request, caller: &Caller) -> Result<(Request, [u8; 32]), Problem> {
    let (parts, body) = request.into_parts();
    let limit = parts.extensions.get::<BodyLimit>().map_or(body::USUAL_LIMIT, |limit| limit.0);
    let bytes = body::read(body, limit).await?;
    let mut digest = Sha256::new();
    for part in [parts.method.as_str(), parts.uri.path(), parts.uri.query().unwrap_or("")] {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    digest.update(&bytes);
    // A caller who has lost a right must not get an answer from the store.
    digest.update(format!("{:?}", caller.identity().grants).as_bytes());
    Ok((Request::from_parts(parts, Body::from(bytes)), digest.finalize().into()))
}

fn replay(kept: KeptAnswer) -> Response {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    let mut response = match kept.body {
        Some(body) => (status, body).into_response(),
        None => Problem::conflict("this request was done, and its answer is not kept: look at what it made")
            .of_kind("answer-not-kept")
            .into_response(),
    };
    if let Some(kind) = kept.content_type.and_then(|kind| HeaderValue::from_str(&kind).ok()) {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response.extensions_mut().insert(Replayed);
    response.headers_mut().insert(REPLAY, HeaderValue::from_static("true"));
    response
}
