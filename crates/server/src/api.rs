//! The API as a value: served by a listener, or called by this very process without any socket.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use mainspring_engine::Client;
use tower::ServiceExt;

use crate::doors::RouteEntry;
use crate::doors::guard::Local;
use crate::router::assemble;
use crate::state::{ApiState, Settings};

/// Clones share everything.
#[derive(Debug, Clone)]
pub struct Api {
    router: Router,
    state: ApiState,
}

impl Api {
    pub fn new(client: Client, settings: Settings) -> Self {
        let (router, state) = assemble(client, settings);
        Self { router, state }
    }

    /// Answers a request of whoever runs this process, with full rights: they can read and write the database anyway.
    /// It goes through the same router and the same layers as a request from the network, which can never become one
    /// of these.
    pub async fn call(&self, user: &str, mut request: Request<Body>) -> Response {
        request.extensions_mut().insert(Local(Arc::from(user)));
        self.answer(request).await
    }

    /// Answers a request as if it had come over the network.
    pub async fn answer(&self, request: Request<Body>) -> Response {
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Every method and path, with what each demands.
    pub fn routes(&self) -> &[RouteEntry] {
        self.state.routes()
    }

    /// The OpenAPI document as JSON.
    pub fn openapi(&self) -> &str {
        self.state.openapi()
    }

    /// Forgets what has become old. Called now and then by whoever serves.
    pub(crate) async fn tidy(&self) {
        self.state.limits().tidy();
        let client = self.state.client();
        if let Err(error) = client.store().forget_requests(client.now() - crate::idempotency::KEPT_FOR).await {
            tracing::debug!(%error, "forgetting answers of old requests");
        }
    }

    pub(crate) fn router(&self) -> &Router {
        &self.router
    }

    pub(crate) fn state(&self) -> &ApiState {
        &self.state
    }
}
