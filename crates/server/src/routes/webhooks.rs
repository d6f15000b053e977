//! `/webhooks/{namespace}/{name}`: another program announces an event.
//!
//! The body is signed with the secret `WEBHOOK_NAME` (the name in capitals, other characters as `_`), or the caller
//! shows the secret itself, or a token that permits operating in the namespace. With `X-Mainspring-Timestamp` the signature
//! is of `TIMESTAMP.BODY` and holds for five minutes. What was called is durable before the
//! answer, as an event named `webhook.NAME`.

use std::borrow::Cow;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode};
use mainspring_api::events::Called;
use mainspring_core::signature::hmac_sha256;
use mainspring_engine::NewEvent;
use mainspring_store::WEBHOOK;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::{Identity, Role};
use crate::body::{self, BodyLimit, Name, Path};
use crate::problem::Problem;
use crate::state::ApiState;

/// Where the signature of the body may stand: `sha256=` and its hexadecimal digits.
const SIGNATURES: [&str; 2] = ["x-mainspring-signature", "x-hub-signature-256"];
const TOKEN: &str = "x-webhook-token";
/// When it was signed, in seconds since 1970: then `TIMESTAMP.BODY` is what is signed, and an old call cannot be sent again.
const TIMESTAMP: &str = "x-mainspring-timestamp";
/// How far the clocks may differ, and how long a call may take.
const TOLERANCE_SECONDS: i64 = 300;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::Signed(Role::Operator), routes!(call)).also_at("/webhooks/{namespace}/{name}");
}

/// The bytes of the body, which the signature covers.
pub(crate) struct Raw(Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let limit = request.extensions().get::<BodyLimit>().map_or(body::USUAL_LIMIT, |limit| limit.0);
        body::read(request.into_body(), limit).await.map(Self)
    }
}

/// Start what listens to a webhook
#[utoipa::path(post, path = "/webhooks/{namespace}/{name}", tag = "events",
    params(("namespace" = Name, Path), ("name" = Name, Path)), request_body(content = Option<Value>, description = "JSON, or any text"),
    responses((status = 202, body = Called), (status = 401, description = "Neither a signature nor a token that fits")))]
pub(crate) async fn call(
    State(state): State<ApiState>,
    caller: Caller,
    Path((namespace, name)): Path<(Name, Name)>,
    headers: HeaderMap,
    Raw(bytes): Raw,
) -> Result<(StatusCode, Json<Called>), Problem> {
    let (namespace, name) = (namespace.as_str(), name.as_str());
    let client = state.client();
    let secret = client.secret(namespace, &secret_name(name)).await?;
    let now = client.clock().wall() / 1_000_000;
    authenticate(&caller, secret.as_deref(), namespace, &headers, &bytes, now)?;
    if !client.store().webhook_exists(namespace, name).await? {
        return Err(Problem::not_found(format!(
            "nothing listens to webhook `{name}` in namespace `{namespace}`: give a workflow the trigger `webhook: {name}`"
        )));
    }
    let event = NewEvent {
        namespace: namespace.to_owned(),
        name: format!("webhook.{name}"),
        key: None,
        data: data_of(&bytes)?,
        source: WEBHOOK.into(),
    };
    let receipt = client.emit(event).await?;
    let runs = receipt.deliveries.iter().filter_map(|delivery| delivery.run).collect();
    Ok((StatusCode::ACCEPTED, Json(Called { id: receipt.id, runs })))
}

/// JSON as it is; any other text as `{"text": …}`; nothing as an empty object.
fn data_of(bytes: &[u8]) -> Result<Value, Problem> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(json!({}));
    }
    match serde_json::from_slice::<Value>(bytes) {
        Ok(_) => body::from_json(bytes),
        Err(_) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Ok(json!({"text": text})),
            _ => Err(Problem::malformed("the body is neither JSON nor text: send one of both")),
        },
    }
}

/// The secret that belongs to a webhook.
fn secret_name(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("WEBHOOK_{}", name.chars().map(word).collect::<String>())
}

fn authenticate(
    caller: &Caller,
    secret: Option<&str>,
    namespace: &str,
    headers: &HeaderMap,
    bytes: &[u8],
    now: i64,
) -> Result<(), Problem> {
    let wrong = || {
        let detail = "the signature or token of this webhook does not fit: sign the body as it is sent with the webhook's secret, \
                      `X-Mainspring-Signature: sha256=HEX`, or send the secret as `X-Webhook-Token`";
        Problem::new(StatusCode::UNAUTHORIZED, detail)
    };
    if let Some(signature) = SIGNATURES.iter().find_map(|name| headers.get(*name)) {
        let given = signature.to_str().ok().and_then(|text| text.strip_prefix("sha256=")).and_then(unhex);
        let fits = match (secret, given, signed(headers, bytes, now)) {
            (Some(secret), Some(given), Some(signed)) => {
                bool::from(given.ct_eq(&hmac_sha256(secret.as_bytes(), &signed)))
            }
            _ => false,
        };
        if !fits {
            return Err(wrong());
        }
        caller.vouched(namespace);
        return Ok(());
    }
    if let Some(token) = headers.get(TOKEN) {
        // Hashes are compared, so that not even the length is revealed.
        let digest = |text: &[u8]| <[u8; 32]>::from(Sha256::digest(text));
        let fits = secret.is_some_and(|secret| bool::from(digest(token.as_bytes()).ct_eq(&digest(secret.as_bytes()))));
        if !fits {
            return Err(wrong());
        }
        caller.vouched(namespace);
        return Ok(());
    }
    if caller.identity().actor == Identity::unsigned().actor {
        return Err(wrong());
    }
    caller.enter(namespace)
}

/// The signed bytes; `None` if the timestamp is too old or in the future.
fn signed<'b>(headers: &HeaderMap, bytes: &'b [u8], now: i64) -> Option<Cow<'b, [u8]>> {
    let Some(timestamp) = headers.get(TIMESTAMP) else { return Some(Cow::Borrowed(bytes)) };
    let timestamp = timestamp.to_str().ok()?;
    let at: i64 = timestamp.parse().ok()?;
    if now.abs_diff(at) > TOLERANCE_SECONDS.unsigned_abs() {
        return None;
    }
    Some(Cow::Owned([timestamp.as_bytes(), b".", bytes].concat()))
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_signature_is_none() {
        let at = |text: &str| HeaderMap::from_iter([(TIMESTAMP.parse().unwrap(), text.parse().unwrap())]);
        let now = 1_800_000_000;
        assert_eq!(signed(&HeaderMap::new(), b"x", now).as_deref(), Some(&b"x"[..]));
        assert_eq!(signed(&at("1799999700"), b"x", now).as_deref(), Some(&b"1799999700.x"[..]));
        for wrong in ["1799999699", "1800000301", "", "soon", "-1", "99999999999999999999"] {
            assert_eq!(signed(&at(wrong), b"x", now), None, "{wrong}");
        }
    }

    #[test]
    fn secrets_are_named_after_their_webhook() {
        assert_eq!(secret_name("orders.eu-1"), "WEBHOOK_ORDERS_EU_1");
        assert_eq!(unhex("zz"), None);
        assert_eq!(unhex(&"0f".repeat(32)), Some([15; 32]));
    }
}
