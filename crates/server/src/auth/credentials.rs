//! From headers to an identity. The answer is the same whatever is wrong with a credential.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use axum::http::{HeaderMap, Method};
use mainspring_core::Micros;
use mainspring_core::work::Clock as _;
use mainspring_store::TokenRow;

use super::identity::{Grant, Identity};
use super::token::Token;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::ui::{cookie, session};

/// Browsers cannot set headers on a WebSocket; they can name protocols: `mainspring, bearer.TOKEN`.
const WEBSOCKET_BEARER: &str = "bearer.";
const API_KEY: &str = "x-api-key";
/// Longer credentials are refused unread.
const LONGEST: usize = 8 * 1024;

/// The identity of a request. `Ok(None)` without any credential.
pub(crate) async fn identify(
    state: &ApiState,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Option<Identity>, Problem> {
    let credential = credential(headers)?;
    match (credential, cookie::session(method, headers)?) {
        (None, None) => Ok(None),
        (None, Some(session)) => session::identify(state, &session).await.map(Some),
        (Some(_), Some(_)) => Err(Problem::unauthorised()),
        (Some(text), None) if Token::read(text).is_none() => {
            let identity = state.jwt().and_then(|jwt| jwt.identify(text));
            identity.map(Some).ok_or_else(Problem::unauthorised)
        }
        (Some(text), None) => identity_of(token_row(state, text).await?).map(Some),
    }
}

/// Whether a stored token is neither revoked nor expired.
pub(crate) fn is_valid(row: &TokenRow, now: Micros) -> bool {
    row.revoked_at.is_none() && row.expires_at.is_none_or(|expires_at| now < expires_at)
}

/// The identity of the holder of a valid token.
pub(crate) fn identity_of(row: TokenRow) -> Result<Identity, Problem> {
    let grants: Vec<Grant> = serde_json::from_str(&row.grants).map_err(|error| {
        tracing::error!(token = %row.id, %error, "the grants of a token are not readable");
        Problem::unauthorised()
    })?;
    Ok(Identity { actor: format!("token:{}", row.id), name: row.name, grants })
}

/// The stored row of a valid API token.
pub(crate) async fn token_row(state: &ApiState, credential: &str) -> Result<TokenRow, Problem> {
    let now = state.client().clock().now();
    let token = Token::read(credential).ok_or_else(Problem::unauthorised)?;
    let row = state.tokens().get(state.client(), token.id()).await?;
    // Without a row another hash is compared, so that the time does not reveal which ids exist.
    let known = row.as_ref().map_or(&[0_u8; 32][..], |row| &row.hash);
    if !token.matches(known) {
        return Err(Problem::unauthorised());
    }
    let row = row.filter(|row| is_valid(row, now)).ok_or_else(Problem::unauthorised)?;
    if row.last_used_at.is_none_or(|used| now - used > 60_000_000) {
        let client = state.client().clone();
        let id = row.id;
        state.tokens().note_use(id, now);
        tokio::spawn(async move {
            if let Err(error) = client.store().touch_token(now, id).await {
                tracing::debug!(%error, "noting that a token was used");
            }
        });
    }
    Ok(row)
}

/// The single credential of a request. Two credentials are refused, because it would be a guess which one counts.
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
