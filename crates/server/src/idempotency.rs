//! `Idempotency-Key`: a write that is repeated under the same key is answered, not done again.
//!
//! Keys belong to who sends them. The key is claimed with the hash of method, path, query, body and the caller's
//! grants before the handler
//! runs; its answer is kept beside it for a day. Answers that say "nobody knows" (5xx, 429) are not kept: the claim is
//! given back and the repetition is done. A handler whose answer must not be stored marks it with [`DoNotKeep`].

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use mainspring_core::Micros;
use mainspring_store::{Claim, KeptAnswer};
use sha2::{Digest, Sha256};

use crate::auth::caller::Caller;
use crate::body::{self, BodyLimit};
use crate::problem::Problem;
use crate::state::ApiState;

const HEADER: &str = "idempotency-key";
const REPLAY: &str = "idempotent-replay";
const LONGEST: usize = 255;
/// Answers up to this size are kept whole.
const LARGEST_KEPT: usize = 1 << 20;
/// A request without an answer for so long was left by a process that died.
const ABANDONED_AFTER: Micros = 120_000_000;
/// How long answers are kept.
pub(crate) const KEPT_FOR: Micros = 24 * 3_600 * 1_000_000;

/// In the extensions of a response: it was given, but may not be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoNotKeep;

/// In the extensions of a request: nothing of it is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyless;

/// In the extensions of a response: it was given before, to the same caller with the same rights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replayed;

/// The key of this request, for handlers that hand it on to where the work is made.
#[derive(Debug, Clone)]
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(key_of(&parts.headers)?.map(str::to_owned)))
    }
}

pub(crate) async fn layer(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    match answer(&state, request, next).await {
        Ok(response) | Err(response) => response,
    }
}

async fn answer(state: &ApiState, request: Request, next: Next) -> Result<Response, Response> {
    let is_write = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && request.extensions().get::<Keyless>().is_none();
    let key = key_of(request.headers()).map_err(IntoResponse::into_response)?.map(str::to_owned);
    let caller = request.extensions().get::<Caller>().cloned();
    let (Some(key), Some(caller), true) = (key, caller, is_write) else {
        return Ok(next.run(request).await);
    };
    let (request, hash) = hashed(request, &caller).await.map_err(IntoResponse::into_response)?;
    let (client, actor) = (state.client(), caller.identity().actor.as_str());
    let store = client.store();
    let (now, claim) = (client.now(), client.clock().new_id());
    let claimed = store
        .claim_request(now, now - ABANDONED_AFTER, (actor, &key), &hash, claim)
        .await
        .map_err(|error| Problem::from(error).into_response())?;
    match claimed {
        Claim::Mine => {}
        Claim::Answered(kept) => return Ok(replay(kept)),
        Claim::UnderWay => {
            let problem = Problem::conflict("the same request is under way: repeat it in a moment to get its answer");
            return Ok(problem.with_header(RETRY_AFTER, HeaderValue::from_static("1")).into_response());
        }
        Claim::Differs => {
            let detail = "another request was made under this Idempotency-Key: take a new key for a new request";
            return Ok(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).into_response());
        }
    }
    let response = next.run(request).await;
    Ok(keep(state, (actor, &key), claim, response).await)
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
    // Who has lost a right since must not be answered from memory.
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

/// Keeps the answer, or gives the claim back if there is nothing certain to keep.
async fn keep(state: &ApiState, key: (&str, &str), claim: uuid::Uuid, response: Response) -> Response {
    let store = state.client().store();
    let status = response.status();
    let is_certain = !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS;
    let (parts, body) = response.into_parts();
    let bytes: Bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(_) => return Problem::internal().into_response(),
    };
    let kept = if is_certain {
        let secret = parts.extensions.get::<DoNotKeep>().is_some() || bytes.len() > LARGEST_KEPT;
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        let answer = KeptAnswer {
            status: status.as_u16(),
            content_type: content_type.filter(|_| !secret),
            body: (!secret).then(|| bytes.to_vec()),
        };
        store.keep_answer(key, claim, &answer).await
    } else {
        store.give_back_request(key, claim).await
    };
    if let Err(error) = kept {
        tracing::warn!(%error, "keeping the answer of a request; a repetition finds it under way for a while");
    }
    Response::from_parts(parts, Body::from(bytes))
}
