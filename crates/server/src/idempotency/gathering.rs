//! Requests that start a plain run: run, key, answer and audit row are batched with those of other requests in one
//! commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use mainspring_core::Micros;
use mainspring_engine::{Leaves, Newness};
use mainspring_store::{Error, KeptAnswer, NewRun, RequestKey};
use serde::Serialize;

use crate::audit::Trace;
use crate::auth::caller::Caller;
use crate::problem::Problem;
use crate::state::ApiState;

const JSON: &str = "application/json";

/// In the extensions of a response: the request is committed already.
#[derive(Debug, Clone, Copy)]
pub(super) struct Committed;

/// What a request leaves when it is done. Clones share whether its key was taken.
#[derive(Debug, Clone)]
pub(crate) struct Gathering {
    pub(super) key: Option<RequestKey>,
    pub(super) trace: Option<Trace>,
    key_is_taken: Arc<AtomicBool>,
}

impl Gathering {
    pub(super) fn new(key: Option<RequestKey>, trace: Option<Trace>) -> Self {
        Self { key, trace, key_is_taken: Arc::default() }
    }

    pub(super) fn key_is_taken(&self) -> bool {
        self.key_is_taken.load(Ordering::Acquire)
    }

    /// Creates a plain run and answers 201 with the body that `show` builds from its creation time.
    pub(crate) async fn submit<T: Serialize>(
        &self,
        state: &ApiState,
        caller: &Caller,
        run: NewRun,
        edition: Newness,
        show: impl Fn(Micros) -> T + Send + Sync + 'static,
    ) -> Result<Response, Problem> {
        if let (Some(trace), Some(namespace)) = (&self.trace, caller.namespace()) {
            trace.facts.namespace(namespace);
        }
        let status = StatusCode::CREATED;
        let show = Arc::new(move |at: Micros| serde_json::to_vec(&show(at)).unwrap_or_default());
        let (key, trace, shown) = (self.key.clone(), self.trace.clone(), Arc::clone(&show));
        let of = state.clone();
        let leaves = move |at: Micros| Leaves {
            key: key.map(|key| {
                let body = Some(shown(at));
                (key, KeptAnswer { status: status.as_u16(), content_type: Some(JSON.to_owned()), body })
            }),
            audit: trace.and_then(|trace| trace.row(&of, status)),
        };
        let made = state.client().submit_plain(run, edition, Box::new(leaves)).await;
        if matches!(made, Err(Error::KeyTaken)) {
            self.key_is_taken.store(true, Ordering::Release);
        }
        let body = show(made?);
        if let Some(trace) = &self.trace {
            trace.facts.recorded();
        }
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        response.extensions_mut().insert(Committed);
        Ok(response)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Gathering {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::internal)
    }
}
