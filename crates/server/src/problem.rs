//! Errors as `application/problem+json` (RFC 9457). Internals are logged, never returned.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: &'static str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: &'static str) -> Self {
        Self { status, detail }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let body =
            json!({"type": "about:blank", "title": title, "status": self.status.as_u16(), "detail": self.detail});
        let kind = HeaderValue::from_static("application/problem+json");
        (self.status, [(header::CONTENT_TYPE, kind)], body.to_string()).into_response()
    }
}
