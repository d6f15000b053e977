//! The span of one request, and the W3C trace context that it came with.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use mainspring_core::Micros;
use mainspring_core::trace::TraceContext;
use mainspring_telemetry::{Kind, Span};

use crate::state::ApiState;

const HEADER: &str = "traceparent";
/// Machines request these all the time, so they are traced only if the client sends a sampled trace.
const QUIET: &[&str] = &["/health", "/healthz", "/ready", "/live", "/metrics"];

#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestSpan {
    /// The context of the work for this request. Without a collector it is the one that the client sent.
    pub(crate) context: Option<TraceContext>,
    parent: Option<TraceContext>,
    start: Micros,
    is_recorded: bool,
}

impl RequestSpan {
    /// An invalid header is ignored, as the standard demands.
    pub(crate) fn begin(state: &ApiState, request: &Request, route: Option<&str>) -> Self {
        let parent = request.headers().get(HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
        let tracer = state.client().tracer();
        let start = state.client().now();
        let is_quiet = route.is_none_or(|route| QUIET.contains(&route) || route.contains("/worker/"));
        if !tracer.is_on() || (is_quiet && parent.is_none()) {
            return Self { context: parent, parent, start, is_recorded: false };
        }
        let id = state.client().clock().new_id();
        let mut span_id = [0; 8];
        span_id.copy_from_slice(&id.as_bytes()[8..]);
        let context = tracer.child(parent, *id.as_bytes(), span_id);
        Self { context: Some(context), parent, start, is_recorded: true }
    }

    pub(crate) fn end(
        &self,
        state: &ApiState,
        method: &Method,
        route: Option<&str>,
        request_id: &str,
        status: StatusCode,
    ) {
        let Some(context) = self.context.filter(|_| self.is_recorded) else { return };
        state.client().tracer().record(Span {
            context,
            parent: self.parent.map(|parent| parent.span_id),
            kind: Kind::Server,
            name: format!("{method} {}", route.unwrap_or("none")).into(),
            start: self.start,
            end: state.client().now(),
            attributes: vec![
                ("http.request.method", method.to_string()),
                ("http.route", route.unwrap_or("none").to_owned()),
                ("http.response.status_code", status.as_u16().to_string()),
                ("request_id", request_id.to_owned()),
            ],
            error: status.is_server_error().then(|| status.as_u16().to_string()),
        });
    }
}
