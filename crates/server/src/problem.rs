//! Errors as `application/problem+json` (RFC 9457). Internals are logged, never returned: no SQL, no stack trace.
//!
//! A handler returns `Result<_, Problem>` and uses `?` on what the store and the engine return.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
pub use mainspring_api::Fault;
use mainspring_api::auth::Role;
use mainspring_core::diagnostic::{Diagnostic, Diagnostics};
use mainspring_engine::{AnswerError, SubmitError, VaultError};

/// What is wrong, for the answer.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    kind: Option<&'static str>,
    detail: String,
    errors: Vec<Fault>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, kind: None, detail: detail.into(), errors: Vec::new(), headers: Vec::new() }
    }

    /// 400: not even readable.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 422: readable, but wrong; one fault.
    pub fn invalid(pointer: &str, detail: impl Into<String>) -> Self {
        let fault = Fault::at(pointer, detail);
        let detail = format!("{pointer}: {}", fault.detail);
        Self { errors: vec![fault], ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    /// 422 with everything that is wrong.
    pub fn faults(detail: impl Into<String>, errors: Vec<Fault>) -> Self {
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// 401, the same for every cause: no token, a wrong, revoked or expired one, a token of another server.
    pub fn unauthorised() -> Self {
        let detail = "a valid token is needed: send `Authorization: Bearer TOKEN`";
        Self::new(StatusCode::UNAUTHORIZED, detail).with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// 403. The namespace is not named: it may be one that the caller must not know of.
    pub fn forbidden(role: Option<Role>) -> Self {
        let needs = role.map_or(String::new(), |role| format!(" it needs the role {role};"));
        Self::new(
            StatusCode::FORBIDDEN,
            format!("this token does not permit that:{needs} `GET /api/v1/auth/me` shows what it permits"),
        )
    }

    pub fn too_many(seconds: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, format!("too many requests: try again in {} s", seconds.max(1)))
            .of_kind("rate-limited")
            .with_header(RETRY_AFTER, HeaderValue::from(seconds.max(1)))
    }

    /// 503: whether it happened is unknown.
    pub fn outcome_unknown() -> Self {
        let detail = "the database is away; the outcome is unknown: repeat the request with the same Idempotency-Key";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            .of_kind("outcome-unknown")
            .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    pub fn internal() -> Self {
        let detail = "something is wrong here, not with the request: the server's log tells more under this request id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    #[must_use]
    pub fn of_kind(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What is wrong, place by place; the whole as one fault if there are no places.
    pub(crate) fn into_faults(self) -> Vec<Fault> {
        match self.errors.is_empty() {
            true => vec![Fault::new(self.detail)],
            false => self.errors,
        }
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl Problem {
    /// What is said of it.
    pub(crate) fn body(&self) -> mainspring_api::Problem {
        mainspring_api::Problem {
            r#type: self.kind.map_or("about:blank".into(), |kind| format!("urn:mainspring:{kind}")),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.detail.clone(),
            errors: self.errors.clone(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body();
        let text = serde_json::to_string(&body).unwrap_or_default();
        let mut response = (self.status, text).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.extend(self.headers.into_iter().map(|(name, value)| (Some(name), value)).collect::<Vec<_>>());
        response
    }
}

impl From<mainspring_store::Error> for Problem {
    fn from(error: mainspring_store::Error) -> Self {
        use mainspring_store::Error;
        match error {
            Error::Unavailable(_) | Error::InDoubt(_) | Error::Repeat(_) => {
                tracing::warn!(%error, "the database did not answer a request");
                Self::outcome_unknown()
            }
            Error::NotFound { what } => Self::not_found(format!("{what} was not found")),
            Error::Conflict(cause) => Self::conflict(cause),
            error @ Error::KeyTaken => Self::conflict(error.to_string()),
            Error::Invalid(cause) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, cause),
            error @ (Error::Rejected(_)
            | Error::BadRow { .. }
            | Error::NewerSchema { .. }
            | Error::OlderSchema { .. }
            | Error::BadUrl(_)
            | Error::FileInUse(_)) => {
                tracing::error!(%error, "a request failed in the store");
                Self::internal()
            }
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::Inputs(diagnostics) => {
                let mut problem = Self::from_diagnostics("the inputs do not fit the workflow", &diagnostics);
                // Inputs have names, but no lines.
                for fault in &mut problem.errors {
                    (fault.line, fault.column) = (None, None);
                }
                problem
            }
            SubmitError::Quota(cause) => Self::new(StatusCode::TOO_MANY_REQUESTS, cause)
                .of_kind("quota")
                .with_header(RETRY_AFTER, HeaderValue::from_static("5")),
            error @ (SubmitError::Key(_) | SubmitError::Nul(_)) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
            }
        }
    }
}

impl From<VaultError> for Problem {
    fn from(error: VaultError) -> Self {
        let status = match &error {
            VaultError::NoKey => StatusCode::CONFLICT,
            VaultError::TooLarge => StatusCode::UNPROCESSABLE_ENTITY,
            VaultError::OtherKey(_) | VaultError::Broken(_) | VaultError::NoRandomness => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Self::new(status, error.to_string())
    }
}

impl From<AnswerError> for Problem {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Store(error) => error.into(),
            error => {
                let status = match &error {
                    AnswerError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
                    AnswerError::DoesNotWait { .. } => StatusCode::CONFLICT,
                    AnswerError::NotAllowed { .. } => StatusCode::FORBIDDEN,
                    AnswerError::Name(_) | AnswerError::Nul(_) | AnswerError::Store(_) => {
                        StatusCode::UNPROCESSABLE_ENTITY
                    }
                };
                Self::new(status, error.to_string())
            }
        }
    }
}

impl Problem {
    /// 422 with the places of a text.
    pub fn from_diagnostics(detail: &str, diagnostics: &Diagnostics) -> Self {
        Self::faults(detail, diagnostics.iter().map(Self::fault_of).collect())
    }

    /// One place of a text, and what is said of it.
    pub(crate) fn fault_of(one: &Diagnostic) -> Fault {
        Fault {
            detail: one.message.clone(),
            pointer: (!one.path.is_empty()).then(|| one.path.clone()),
            line: Some(one.place.line),
            column: Some(one.place.column),
            help: one.help.clone(),
        }
    }
}
