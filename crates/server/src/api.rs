//! The API as a value: served by a listener, or called by this very process without any socket.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use mainspring_boxed::boxed;
use mainspring_engine::{Client, CoordinationError};
use mainspring_store::NewToken;
use tower::ServiceExt;

use crate::auth::guard::Local;
use crate::auth::{Grant, Role, RouteEntry, Token};
use crate::openapi;
use crate::problem::Problem;
use crate::router::assemble;
use crate::state::{ApiState, Settings};

const FIRST_TOKEN_TRIES: u32 = 30;
/// How long a node that dies while it creates the first token delays the others.
const FIRST_TOKEN_LOCK: Duration = Duration::from_secs(10);
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// Clones share everything.
#[derive(Debug, Clone)]
pub struct Api {
    router: Router,
    state: ApiState,
}

/// A request of this process.
#[derive(Debug, Clone, Default)]
pub struct LocalRequest {
    /// The user that runs the process.
    pub user: String,
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// Its answer.
#[derive(Debug, Clone)]
pub struct LocalAnswer {
    pub status: u16,
    /// The edition of the object, for `If-Match`.
    pub etag: Option<String>,
    pub body: Vec<u8>,
}

#[boxed]
impl Api {
    /// Fails with the fault of the settings.
    pub fn new(client: Client, settings: Settings) -> Result<Self, String> {
        let (router, state) = assemble(client, settings)?;
        Ok(Self { router, state })
    }

    /// Answers a request of this process with full rights: its user can read and write the database anyway. The request
    /// passes the same router and layers as one from the network, which can never become a local one.
    pub async fn call(&self, user: &str, mut request: Request<Body>) -> Response {
        request.extensions_mut().insert(Local(Arc::from(user)));
        self.answer(request).await
    }

    /// [`Api::call`] for callers without HTTP types.
    pub async fn ask(&self, request: LocalRequest) -> LocalAnswer {
        let mut builder = Request::builder().method(request.method.as_str()).uri(&request.target);
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        let response = match builder.body(Body::from(request.body)) {
            Ok(built) => self.call(&request.user, built).await,
            Err(error) => Problem::malformed(format!("this is no request: {error}")).into_response(),
        };
        let status = response.status().as_u16();
        let etag = response.headers().get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        let body = match response.into_body().collect().await {
            Ok(collected) => collected.to_bytes().to_vec(),
            Err(_) => Vec::new(),
        };
        LocalAnswer { status, etag, body }
    }

    /// Creates the first token of an installation, with all rights in all namespaces. `None` if there is a token
    /// already.
    pub async fn first_token(&self) -> Result<Option<Token>, Problem> {
        let client = self.state.client();
        if client.store().has_tokens(client.now()).await? {
            return Ok(None);
        }
        // Only one of several nodes that start on an empty database creates it.
        let lock = client.lock_in_database("first-token", FIRST_TOKEN_LOCK).await.map_err(|error| match error {
            CoordinationError::Store(error) => Problem::from(error),
            _ => Problem::internal(),
        })?;
        let made = self.make_first_token().await;
        lock.release().await;
        made
    }

    async fn make_first_token(&self) -> Result<Option<Token>, Problem> {
        let client = self.state.client();
        let now = client.now();
        if client.store().has_tokens(now).await? {
            return Ok(None);
        }
        let token = Token::generate(client.clock().new_id()).map_err(|_| Problem::internal())?;
        let grants = [Grant::everywhere(Role::Admin)];
        let new = NewToken {
            id: token.id(),
            name: "first".into(),
            hash: token.hash(),
            grants: serde_json::to_string(&grants).map_err(|_| Problem::internal())?,
            created_by: "server".into(),
            expires_at: None,
        };
        // If the reply is lost, the same token is stored again: a token that was never printed would lock all users
        // out.
        let mut tries = 0;
        while let Err(error) = client.store().add_token(now, &new).await {
            tries += 1;
            if !error.is_transient() || tries == FIRST_TOKEN_TRIES {
                return Err(error.into());
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        Ok(Some(token))
    }

    /// A one-time code that signs in to the web interface as the holder of this token, for five minutes.
    pub async fn sign_in_code(&self, token: &Token) -> Result<String, Problem> {
        Ok(crate::ui::session::new_code(&self.state, token.id()).await?.0)
    }

    /// Answers a request as if it had come over the network.
    pub async fn answer(&self, request: Request<Body>) -> Response {
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Every method and path, with the access it demands.
    pub fn routes(&self) -> &[RouteEntry] {
        self.state.routes()
    }

    /// The OpenAPI document as JSON.
    pub fn openapi(&self) -> &'static str {
        openapi::text()
    }

    /// Removes expired state. The server calls it periodically.
    pub(crate) async fn tidy(&self) {
        self.state.limits().tidy();
        let client = self.state.client();
        if let Err(error) = client.store().forget_requests(client.now() - crate::idempotency::KEPT_FOR).await {
            tracing::debug!(%error, "forgetting answers of old requests");
        }
        let over = client.now() - crate::ui::session::ABSOLUTE;
        if let Err(error) = client.store().forget_ui_sessions(client.now(), over).await {
            tracing::debug!(%error, "forgetting sessions that are over");
        }
        if let Some(kept) = self.state.settings().audit_kept {
            let kept = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
            if let Err(error) = client.store().forget_audit(client.now().saturating_sub(kept)).await {
                tracing::debug!(%error, "forgetting old entries of the audit log");
            }
        }
    }

    pub(crate) fn router(&self) -> &Router {
        &self.router
    }

    pub(crate) fn state(&self) -> &ApiState {
        &self.state
    }
}
