//! The log line of each request, and the audit row of every write and every refusal.
//!
//! Queries and bodies are not recorded, because they may hold secrets.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use mainspring_engine::within_trace;
use mainspring_store::AuditRow;
use mainspring_telemetry::Event;

use crate::detach;
use crate::headers::{REQUEST_ID, RequestId};
use crate::idempotency::Replayed;
use crate::request_span::RequestSpan;
use crate::state::ApiState;

const LONGEST_PATH: usize = 500;

/// What the guard learnt about a request. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestFacts(Arc<Mutex<Facts>>);

#[derive(Debug, Clone, Default)]
struct Facts {
    actor: Option<String>,
    address: Option<IpAddr>,
    namespace: Option<String>,
    quiet: bool,
    /// The audit row was written in the transaction of the request.
    recorded: bool,
}

/// What is known of a request from its first moment, for its audit row. Clones share what is learnt.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) facts: RequestFacts,
    id: RequestId,
    method: Method,
    path: String,
}

impl Trace {
    /// The audit row for this answer, unless the request leaves none or has one already.
    pub(crate) fn row(&self, state: &ApiState, status: StatusCode) -> Option<AuditRow> {
        let facts = self.facts.with(|facts| facts.clone());
        is_recorded(&self.method, status, &facts).then(|| row(state, self, status, facts))
    }
}

impl RequestFacts {
    pub(crate) fn actor(&self, actor: &str) {
        self.with(|facts| facts.actor = Some(actor.to_owned()));
    }

    pub(crate) fn address(&self, address: IpAddr) {
        self.with(|facts| facts.address = Some(address));
    }

    pub(crate) fn namespace(&self, namespace: String) {
        self.with(|facts| facts.namespace = Some(namespace));
    }

    /// Suppresses the audit row.
    pub(crate) fn quiet(&self, quiet: bool) {
        self.with(|facts| facts.quiet = quiet);
    }

    /// Notes that the audit row is written.
    pub(crate) fn recorded(&self) {
        self.with(|facts| facts.recorded = true);
    }

    fn with<T>(&self, change: impl FnOnce(&mut Facts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) async fn layer(State(state): State<ApiState>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = RequestId::of(request.headers(), || state.client().clock().new_id());
    let facts = RequestFacts::default();
    let method = request.method().clone();
    let path: String = request.uri().path().chars().take(LONGEST_PATH).collect();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let trace = Trace { facts: facts.clone(), id: id.clone(), method: method.clone(), path };
    request.extensions_mut().insert(id.clone());
    request.extensions_mut().insert(facts);
    request.extensions_mut().insert(trace.clone());
    let span = RequestSpan::begin(&state, &request, route.as_deref());
    let mut response = within_trace(span.context, next.run(request)).await;
    let status = response.status();
    span.end(&state, &method, route.as_deref(), &id.0, status);
    tracing::debug!(
        request_id = id.0,
        trace_id = span.context.map(|context| context.trace_id_hex()),
        span_id = span.context.map(|context| context.span_id_hex()),
        %method,
        route = route.as_deref().unwrap_or("none"),
        status = status.as_u16(),
        duration_ms = started.elapsed().as_millis() as u64,
        "answered"
    );
    state.client().metrics().record(Event::RequestAnswered {
        method: metered_method(&method),
        route: route.as_deref().unwrap_or("none"),
        status: status.as_u16(),
        seconds: started.elapsed().as_secs_f64(),
    });
    // A replayed answer is not a new write.
    let is_new = response.extensions().get::<Replayed>().is_none();
    if let Some(row) = trace.row(&state, status).filter(|_| is_new) {
        let client = state.client().clone();
        // Runs to its end even if the client does not wait for the answer.
        let recorded = detach::finish(&state, async move {
            if let Err(error) = client.store().add_audit(&row).await {
                let (id, actor, method) = (row.request_id, row.actor, row.method);
                tracing::error!(%error, request_id = id, actor, method, "the audit log lacks a request");
            }
        });
        recorded.await;
    }
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Counts every admitted write and every refusal. Clients can invent methods, so the label is bounded.
fn metered_method(method: &Method) -> &str {
    match *method {
        Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE | Method::HEAD | Method::OPTIONS => {
            method.as_str()
        }
        _ => "other",
    }
}

fn is_recorded(method: &Method, status: StatusCode, facts: &Facts) -> bool {
    let is_refusal =
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST);
    let is_write = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && facts.actor.is_some();
    if facts.recorded {
        return false;
    }
    // A quiet route is recorded only when it refuses an authenticated caller.
    match facts.quiet {
        true => is_refusal && facts.actor.is_some(),
        false => is_refusal || is_write,
    }
}

fn row(state: &ApiState, trace: &Trace, status: StatusCode, facts: Facts) -> AuditRow {
    AuditRow {
        id: state.client().clock().new_id(),
        at: state.client().now(),
        actor: facts.actor.unwrap_or_else(|| "unknown".into()),
        address: facts.address.map(|address| address.to_string()),
        method: trace.method.as_str().chars().take(20).collect(),
        path: trace.path.replace('\0', ""),
        namespace: facts.namespace.map(|name| name.chars().take(128).filter(|c| *c != '\0').collect()),
        status: i16::try_from(status.as_u16()).unwrap_or(0),
        request_id: trace.id.0.clone(),
        detail: None,
    }
}
