//! Requests that write run to their end in a task of their own, even if the connection breaks.
//!
//! A client may vanish at any moment, and then the future that answers it is dropped. The body is read before, within
//! the connection's time; from there on the request belongs to the server.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use mainspring_engine::{current_trace, within_trace};
use tracing::Instrument as _;

use crate::body::{self, BodyLimit, Streamed};
use crate::problem::Problem;
use crate::state::ApiState;

pub(crate) async fn layer(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    if is_read(request.method()) || request.extensions().get::<Streamed>().is_some() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let limit = parts.extensions.get::<BodyLimit>().map_or(body::USUAL_LIMIT, |limit| limit.0);
    let bytes = match body::read(body, limit).await {
        Ok(bytes) => bytes,
        Err(problem) => return problem.into_response(),
    };
    let request = Request::from_parts(parts, Body::from(bytes));
    finish(&state, async move { next.run(request).await }).await.unwrap_or_else(|| Problem::internal().into_response())
}

/// Awaits a future to its end even if the caller is dropped; `None` if it panicked.
pub(crate) async fn finish<T: Send + 'static>(
    state: &ApiState,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let work = within_trace(current_trace(), work);
    state.writes().spawn(work.in_current_span()).await.ok()
}

/// Whether a request of this method changes nothing.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
