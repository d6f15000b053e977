//! Requests of many repeatable transactions: the key is claimed before, and the answer stored afterwards. A claim that
//! a dead process left behind is taken over by the same request.

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use mainspring_core::Micros;
use mainspring_store::{Claim, RequestKey};

use super::{is_certain, is_refusal, kept, meaning};
use crate::problem::Problem;
use crate::state::ApiState;

/// A request without an answer after this time was left by a dead process.
const ABANDONED_AFTER: Micros = 120_000_000;

pub(super) async fn answer(
    state: &ApiState,
    key: &RequestKey,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let store = state.client().store();
    let pair = (key.actor.as_str(), key.key.as_str());
    let claimed = store.claim_request(key.at, key.at - ABANDONED_AFTER, pair, &key.hash, key.claim).await?;
    if claimed != Claim::Mine {
        return Ok(meaning(claimed).unwrap_or_else(|| Problem::internal().into_response()));
    }
    let response = next.run(request).await;
    let status = response.status();
    let (parts, body) = response.into_parts();
    let Ok(collected) = body.collect().await else { return Ok(Problem::internal().into_response()) };
    let bytes = collected.to_bytes();
    let ended = match is_certain(status) && !is_refusal(status) {
        true => store.keep_answer(pair, key.claim, &kept(&parts, &bytes)).await,
        false => store.give_back_request(pair, key.claim).await,
    };
    if let Err(error) = ended {
        tracing::warn!(%error, "keeping the answer of a request; a repetition finds it under way for a while");
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}
