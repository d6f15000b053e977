//! `/ui/session`: signing in with a token or a one-time code, and signing out.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use mainspring_api::session::{NewCode, OneTimeCode, SessionInfo, SignIn};
use mainspring_core::Micros;
use mainspring_core::time::rfc3339;
use mainspring_store::{TokenRow, UiSession};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::cookie::{self, SessionId, WRITE_HEADER};
use crate::audit::RequestFacts;
use crate::auth::access::{Access, Routes};
use crate::auth::address::{self, Peer};
use crate::auth::caller::Caller;
use crate::auth::credentials;
use crate::auth::identity::Identity;
use crate::body::{self, MaybeJson, Query};
use crate::problem::Problem;
use crate::state::ApiState;

/// A session that is unused for this long is over.
pub(crate) const IDLE: Micros = 3_600 * 1_000_000;
/// A session is over after so long, however much it is used.
pub(crate) const ABSOLUTE: Micros = 12 * 3_600 * 1_000_000;
const CODE_LASTS: Micros = 5 * 60 * 1_000_000;
const ACTOR: &str = "token:";
const MICROS: i64 = 1_000_000;

pub(super) fn register(routes: &mut Routes) {
    // Open, since who signs in has no credential yet; the handler checks host, origin and how often it fails.
    routes.at_root(Access::Open, routes!(sign_in)).keyless();
    routes.at_root(Access::Anyone, routes!(show));
    routes.at_root(Access::Anyone, routes!(sign_out)).keyless();
    routes.at(Access::Anyone, routes!(make_code)).keyless();
}

/// Sign in: exchange a token or a one-time code for a session cookie
#[utoipa::path(post, path = "/ui/session", tag = "interface", request_body = SignIn,
    responses((status = 200, body = SessionInfo), (status = 401, description = "The token or code is not valid"),
        (status = 403, description = "The request comes with a session already, or from another page")))]
pub(crate) async fn sign_in(State(state): State<ApiState>, request: Request) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let peer = request.extensions().get::<Peer>().copied();
    let facts = request.extensions().get::<RequestFacts>().cloned().unwrap_or_default();
    let address = address::client(peer, &headers, &state.settings().proxies);
    if let Some(address) = address {
        state.limits().address(address)?;
    }
    state.settings().origins.check_host(&headers, request.uri())?;
    // A foreign page must not sign its visitor in as another person.
    if !cookie::is_own_page(&headers) || !headers.contains_key(WRITE_HEADER) || headers.contains_key(AUTHORIZATION) {
        return Err(Problem::forbidden(None));
    }
    let bytes = body::read(request.into_body(), body::USUAL_LIMIT).await?;
    let given: SignIn = body::from_json(&bytes)?;
    let found = match (given.token, given.code) {
        (Some(token), None) => credentials::token_row(&state, &token).await,
        (None, Some(code)) => redeemed(&state, &code).await,
        _ => return Err(Problem::invalid("", "send either `token` or `code`")),
    };
    let token = match found {
        Ok(token) => token,
        Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => {
            if let Some(address) = address {
                state.limits().failure(address)?;
            }
            return Err(problem);
        }
        Err(problem) => return Err(problem),
    };
    facts.actor(&format!("{ACTOR}{}", token.id));
    // The session that the browser had is over, whatever it was.
    if let Ok(Some(old)) = cookie::session(&Method::GET, &headers) {
        state.client().store().end_ui_session(&old.hash()).await?;
    }
    let id = SessionId::generate().map_err(|_| Problem::internal())?;
    let now = state.client().now();
    state.client().store().add_ui_session(now, &id.hash(), token.id).await?;
    let mut response = Json(info(&token, now)?).into_response();
    if let Some(value) = cookie::set(&headers, &id, ABSOLUTE / MICROS) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    Ok(response)
}

/// Show who is signed in and until when
#[utoipa::path(get, path = "/ui/session", tag = "interface", responses((status = 200, body = SessionInfo)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Json<SessionInfo>, Problem> {
    let now = state.client().now();
    let created_at = match cookie::session(&Method::GET, &headers)? {
        Some(id) => find(&state, &id).await?.map_or(now, |session| session.created_at),
        None => now,
    };
    let identity = caller.identity();
    Ok(Json(SessionInfo {
        name: identity.name.clone(),
        grants: serde_json::to_value(&identity.grants).map_err(|_| Problem::internal())?,
        expires_at: rfc3339(created_at + ABSOLUTE),
    }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SignOut {
    /// End every session of this token, not only the one of this browser
    everywhere: Option<bool>,
}

/// Sign out of this browser, or everywhere
#[utoipa::path(delete, path = "/ui/session", tag = "interface", params(SignOut),
    responses((status = 204, description = "The session is over")))]
pub(crate) async fn sign_out(
    State(state): State<ApiState>,
    caller: Caller,
    Query(params): Query<SignOut>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let store = state.client().store();
    if let Some(id) = cookie::session(&Method::DELETE, &headers)? {
        store.end_ui_session(&id.hash()).await?;
    }
    if params.everywhere.unwrap_or(false)
        && let Some(token) = token_of(caller.identity())
    {
        store.end_ui_sessions_of(token).await?;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(value) = cookie::forget(&headers) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    Ok(response)
}

/// Make a one-time code that signs in to the interface as the holder of a token
///
/// For five minutes and one use. A session cannot make one: it would outlive itself.
#[utoipa::path(post, path = "/auth/codes", tag = "interface", request_body(content = Option<NewCode>),
    responses((status = 201, body = OneTimeCode), (status = 403, description = "A session, or no API token")))]
pub(crate) async fn make_code(
    State(state): State<ApiState>,
    caller: Caller,
    headers: HeaderMap,
    MaybeJson(body): MaybeJson<NewCode>,
) -> Result<Response, Problem> {
    if cookie::session(&Method::POST, &headers)?.is_some() {
        return Err(Problem::forbidden(None));
    }
    let token = match body.and_then(|body| body.token) {
        Some(text) => credentials::token_row(&state, &text).await?.id,
        None => token_of(caller.identity()).ok_or_else(|| Problem::forbidden(None))?,
    };
    let (code, expires_at) = new_code(&state, token).await?;
    Ok((StatusCode::CREATED, Json(OneTimeCode { code, expires_at: rfc3339(expires_at) })).into_response())
}

/// A code for the holder of a token, and when it expires.
pub(crate) async fn new_code(state: &ApiState, token: Uuid) -> Result<(String, Micros), Problem> {
    let code = SessionId::generate().map_err(|_| Problem::internal())?;
    let expires_at = state.client().now() + CODE_LASTS;
    state.client().store().add_ui_code(&code.hash(), token, expires_at).await?;
    Ok((code.reveal(), expires_at))
}

/// Who uses this session. One that is over, unknown, or whose token is revoked or expired is no credential.
pub(crate) async fn identify(state: &ApiState, id: &SessionId) -> Result<Identity, Problem> {
    let session = find(state, id).await?.ok_or_else(Problem::unauthorised)?;
    let client = state.client().clone();
    let now = client.now();
    if now - session.used_at > 60 * MICROS {
        let hash = id.hash();
        tokio::spawn(async move {
            if let Err(error) = client.store().touch_ui_session(now, &hash).await {
                tracing::debug!(%error, "noting that a session was used");
            }
        });
    }
    credentials::identity_of(session.token)
}

async fn find(state: &ApiState, id: &SessionId) -> Result<Option<UiSession>, Problem> {
    let client = state.client();
    let now = client.now();
    let found = client.store().ui_session(&id.hash(), now - ABSOLUTE, now - IDLE).await?;
    Ok(found.filter(|session| credentials::is_valid(&session.token, now)))
}

async fn redeemed(state: &ApiState, code: &str) -> Result<TokenRow, Problem> {
    let code = SessionId::read(code).ok_or_else(Problem::unauthorised)?;
    let client = state.client();
    let now = client.now();
    let token = client.store().redeem_ui_code(now, &code.hash()).await?.ok_or_else(Problem::unauthorised)?;
    let row = client.store().token(token).await?;
    row.filter(|row| credentials::is_valid(row, now)).ok_or_else(Problem::unauthorised)
}

fn info(token: &TokenRow, created_at: Micros) -> Result<SessionInfo, Problem> {
    Ok(SessionInfo {
        name: token.name.clone(),
        grants: serde_json::from_str(&token.grants).map_err(|_| Problem::unauthorised())?,
        expires_at: rfc3339(created_at + ABSOLUTE),
    })
}

fn token_of(identity: &Identity) -> Option<Uuid> {
    identity.actor.strip_prefix(ACTOR)?.parse().ok()
}
