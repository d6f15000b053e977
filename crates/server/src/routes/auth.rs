//! `/auth`: API tokens, and who one is.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mainspring_api::auth::{CreateToken, MadeToken, Me, ShownToken};
use mainspring_core::Micros;
use mainspring_core::time::{parse, rfc3339};
use mainspring_engine::{AccessChange, AccessKind};
use mainspring_store::{NewToken, TokenRow};
use utoipa_axum::routes;
use uuid::Uuid;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::{Grant, Role, Where};
use crate::auth::token::Token;
use crate::body::{self, Name, Path};
use crate::idempotency::DoNotKeep;
use crate::page::{List, Page, PageParams};
use crate::problem::{Fault, Problem};
use crate::state::ApiState;

const LONGEST_NAME: usize = 255;
const MOST_GRANTS: usize = 100;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::Anyone, routes!(me));
    // A token is as wide as its grants, so only a caller with all rights may create one.
    routes.at(Access::Everywhere(Role::Admin), routes!(list));
    routes.at(Access::Everywhere(Role::Admin), routes!(create));
    routes.at(Access::Everywhere(Role::Admin), routes!(revoke));
}

/// Who am I, and what may I do
#[utoipa::path(get, path = "/auth/me", tag = "auth", responses((status = 200, body = Me)))]
pub(crate) async fn me(caller: Caller) -> Json<Me> {
    let identity = caller.identity().clone();
    Json(Me { actor: identity.actor, name: identity.name, grants: identity.grants })
}

/// List tokens, newest first
#[utoipa::path(get, path = "/auth/tokens", tag = "auth", params(PageParams),
    responses((status = 200, body = List<ShownToken>)))]
pub(crate) async fn list(State(state): State<ApiState>, page: Page) -> Result<Json<List<ShownToken>>, Problem> {
    let before: Option<Uuid> = page.after("tokens")?;
    let rows = state.client().store().tokens(before, page.fetch(), page.offset).await?;
    Ok(Json(page.list("tokens", rows, |row| row.id, shown)))
}

/// Make a token; it is shown this once
#[utoipa::path(post, path = "/auth/tokens", tag = "auth", request_body = CreateToken,
    responses((status = 201, body = MadeToken)))]
pub(crate) async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(wanted): body::Json<CreateToken>,
) -> Result<Response, Problem> {
    let client = state.client();
    let now = client.now();
    let (grants, expires_at) = check_token(&wanted, now)?;
    let token = Token::generate(client.clock().new_id()).map_err(|_| Problem::internal())?;
    let new = NewToken {
        id: token.id(),
        name: wanted.name.clone(),
        hash: token.hash(),
        grants: serde_json::to_string(&grants).map_err(|_| Problem::internal())?,
        created_by: caller.identity().actor.clone(),
        expires_at,
    };
    client.store().add_token(now, &new).await?;
    let made = MadeToken {
        id: token.id(),
        token: token.reveal().to_owned(),
        name: wanted.name,
        grants,
        expires_at: expires_at.map(rfc3339),
    };
    let mut response = (StatusCode::CREATED, Json(made)).into_response();
    response.extensions_mut().insert(DoNotKeep);
    Ok(response)
}

/// Revoke a token: from now on it opens nothing
#[utoipa::path(delete, path = "/auth/tokens/{id}", tag = "auth", params(("id" = Uuid, Path)),
    responses((status = 204, description = "It is revoked")))]
pub(crate) async fn revoke(State(state): State<ApiState>, Path(id): Path<Uuid>) -> Result<StatusCode, Problem> {
    let client = state.client();
    client.store().revoke_token(client.now(), id).await?;
    client.access_changed(AccessChange { kind: AccessKind::Tokens, namespace: None }).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Collects all faults at once.
fn check_token(wanted: &CreateToken, now: Micros) -> Result<(Vec<Grant>, Option<Micros>), Problem> {
    let mut faults = Vec::new();
    if wanted.name.trim().is_empty() || wanted.name.len() > LONGEST_NAME || wanted.name.chars().any(char::is_control) {
        faults.push(Fault::at("/name", format!("must have 1 to {LONGEST_NAME} printable characters")));
    }
    let grants = match (&wanted.role, &wanted.grants) {
        (Some(role), None) => {
            let namespace = Where::from(wanted.namespace.clone().unwrap_or_else(|| "*".into()));
            vec![Grant { namespace, role: *role }]
        }
        (None, Some(grants)) if wanted.namespace.is_none() => grants.clone(),
        _ => {
            faults.push(Fault::at("/role", "give `role` (with `namespace`), or `grants`, one of the two"));
            Vec::new()
        }
    };
    for (number, grant) in grants.iter().enumerate() {
        if let Where::Namespace(name) = &grant.namespace
            && let Err(cause) = Name::try_from(name.clone())
        {
            let pointer =
                if wanted.role.is_some() { "/namespace".into() } else { format!("/grants/{number}/namespace") };
            faults.push(Fault::at(pointer, cause));
        }
    }
    if faults.is_empty() && (grants.is_empty() || grants.len() > MOST_GRANTS) {
        faults.push(Fault::at("/grants", format!("must have 1 to {MOST_GRANTS} entries")));
    }
    let expires_at = wanted.expires_at.as_deref().map(parse);
    match expires_at {
        Some(None) => faults.push(Fault::at("/expires_at", "must be a time of RFC 3339 like 2030-01-31T12:00:00Z")),
        Some(Some(at)) if at <= now => faults.push(Fault::at("/expires_at", "must lie in the future")),
        _ => {}
    }
    match faults.is_empty() {
        true => Ok((grants, expires_at.flatten())),
        false => Err(Problem::faults("the token cannot be made", faults)),
    }
}

fn shown(row: TokenRow) -> ShownToken {
    ShownToken {
        id: row.id,
        name: row.name,
        grants: serde_json::from_str(&row.grants).unwrap_or_default(),
        created_by: row.created_by,
        created_at: rfc3339(row.created_at),
        expires_at: row.expires_at.map(rfc3339),
        last_used_at: row.last_used_at.map(rfc3339),
        revoked_at: row.revoked_at.map(rfc3339),
    }
}
