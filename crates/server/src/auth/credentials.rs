//! From headers to an identity. Whatever is wrong with a credential, the answer is the same.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use mainspring_core::work::Clock as _;

use super::identity::{Grant, Identity};
use super::token::Token;
use crate::problem::Problem;
use crate::state::ApiState;

/// Browsers cannot set headers on a WebSocket; they can name protocols: `mainspring, bearer.TOKEN`.
const WEBSOCKET_BEARER: &str = "bearer.";
const API_KEY: &str = "x-api-key";
/// Longer ones are not even looked at.
const LONGEST: usize = 8 * 1024;

/// Who sent these headers. `Ok(None)` if they carry no credential at all.
pub(crate) async fn identify(state: &ApiState, headers: &HeaderMap) -> Result<Option<Identity>, Problem> {
    let Some(credential) = credential(headers)? else { return Ok(None) };
    let now = state.client().clock().now();
    let Some(token) = Token::read(credential) else {
        let identity = state.jwt().and_then(|jwt| jwt.identify(credential));
        return identity.map(Some).ok_or_else(Problem::unauthorised);
    };
    let row = state.client().store().token(token.id()).await?;
    // Without a row a hash is compared too, so that the time tells nothing about which ids exist.
    let known = row.as_ref().map_or(&[0_u8; 32][..], |row| &row.hash);
    if !token.matches(known) {
        return Err(Problem::unauthorised());
    }
    let Some(row) =
        row.filter(|row| row.revoked_at.is_none() && row.expires_at.is_none_or(|expires_at| now < expires_at))
    else {
        return Err(Problem::unauthorised());
    };
    let grants: Vec<Grant> = serde_json::from_str(&row.grants).map_err(|error| {
        tracing::error!(token = %row.id, %error, "the grants of a token are not readable");
        Problem::unauthorised()
    })?;
    if row.last_used_at.is_none_or(|used| now - used > 60_000_000) {
        let client = state.client().clone();
        let id = row.id;
        tokio::spawn(async move {
            if let Err(error) = client.store().touch_token(client.now(), id).await {
                tracing::debug!(%error, "noting that a token was used");
            }
        });
    }
    Ok(Some(Identity { actor: format!("token:{}", row.id), name: row.name, grants }))
}

/// The one credential of a request. Two of them are refused: which one counts would be a guess.
fn credential(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut found = Vec::new();
    for value in headers.get_all(AUTHORIZATION) {
        let text = value.to_str().map_err(|_| Problem::unauthorised())?;
        let (scheme, rest) = text.split_once(' ').ok_or_else(Problem::unauthorised)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Problem::unauthorised());
        }
        found.push(rest.trim());
    }
    for value in headers.get_all(API_KEY) {
        found.push(value.to_str().map_err(|_| Problem::unauthorised())?.trim());
    }
    if headers.contains_key(UPGRADE) {
        for value in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
            let text = value.to_str().map_err(|_| Problem::unauthorised())?;
            found.extend(text.split(',').filter_map(|word| word.trim().strip_prefix(WEBSOCKET_BEARER)));
        }
    }
    match found.as_slice() {
        [] => Ok(None),
        [one] if !one.is_empty() && one.len() <= LONGEST => Ok(Some(one)),
        _ => Err(Problem::unauthorised()),
    }
}

/// An identity that is shared by what looks at it.
pub(crate) fn shared(identity: Identity) -> Arc<Identity> {
    Arc::new(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&'static str, &str)], expected: Result<Option<&str>, ()>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        assert_eq!(credential(&map).map_err(|_| ()), expected, "{headers:?}");
    }

    #[test]
    fn exactly_one_credential_counts() {
        check(&[], Ok(None));
        check(&[("authorization", "Bearer x")], Ok(Some("x")));
        check(&[("authorization", "bearer  x ")], Ok(Some("x")));
        check(&[("x-api-key", "x")], Ok(Some("x")));
        check(&[("authorization", "Basic eDp5")], Err(()));
        check(&[("authorization", "x")], Err(()));
        check(&[("authorization", "Bearer ")], Err(()));
        check(&[("authorization", "Bearer x"), ("authorization", "Bearer x")], Err(()));
        check(&[("authorization", "Bearer x"), ("x-api-key", "x")], Err(()));
        check(&[("cookie", "token=x")], Ok(None));
        check(&[("sec-websocket-protocol", "mainspring, bearer.x")], Ok(None));
        check(&[("upgrade", "websocket"), ("sec-websocket-protocol", "mainspring, bearer.x")], Ok(Some("x")));
        check(&[("authorization", &format!("Bearer {}", "x".repeat(9_000)))], Err(()));
    }
}
