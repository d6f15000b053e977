//! The layer that every request passes. A path outside the list of routes does not exist, and a route is reached only
//! by a caller with its access.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ALLOW, CONTENT_ENCODING};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use mainspring_core::diagnostic::did_you_mean;

use super::access::{Access, RouteEntry};
use super::address::{self, Peer};
use super::caller::Caller;
use super::credentials;
use super::identity::{Identity, Role};
use crate::audit::RequestFacts;
use crate::body::{BodyLimit, Streamed};
use crate::idempotency::{InPieces, Keyless, Replayed};
use crate::problem::Problem;
use crate::state::ApiState;

/// The size limit for all headers of a request.
const LONGEST_HEAD: usize = 64 * 1024;

/// Marks a request of this process. Only [`Api::call`](crate::Api::call) sets it; no header can.
#[derive(Debug, Clone)]
pub(crate) struct Local(pub(crate) Arc<str>);

/// The demands by path.
#[derive(Debug, Default)]
pub(crate) struct Demands {
    by_path: HashMap<String, Vec<RouteEntry>>,
}

impl Demands {
    pub(crate) fn new(entries: &[RouteEntry]) -> Self {
        let mut by_path: HashMap<String, Vec<RouteEntry>> = HashMap::new();
        for entry in entries {
            by_path.entry(entry.path.clone()).or_default().push(entry.clone());
        }
        Self { by_path }
    }

    fn methods(&self, path: &str) -> &[RouteEntry] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }
}

pub(crate) async fn guard(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(axum::http::header::ORIGIN).cloned();
    let mut response = match state.settings().origins.preflight(request.method(), request.headers()) {
        Some(response) => response,
        None => match pass(&state, request, next).await {
            Ok(response) => response,
            Err(problem) => problem.into_response(),
        },
    };
    state.settings().origins.allow(origin.as_ref(), &mut response);
    response
}

async fn pass(state: &ApiState, mut request: Request, next: Next) -> Result<Response, Problem> {
    let matched = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let known = matched.as_deref().map_or(&[][..], |path| state.demands().methods(path));
    // A HEAD request is a GET without a body.
    let wanted = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let entry = known.iter().find(|entry| entry.method == *wanted);
    let local = request.extensions().get::<Local>().cloned();
    let address =
        address::client(request.extensions().get::<Peer>().copied(), request.headers(), &state.settings().proxies);
    // A copy, because a borrowed request cannot be held across a database call.
    let headers = request.headers().clone();
    let method = request.method().clone();
    let facts = request.extensions().get::<RequestFacts>().cloned().unwrap_or_default();
    if let Some(address) = address {
        facts.address(address);
    }
    check_head(&headers)?;
    if local.is_none() && !entry.is_some_and(|entry| entry.access == Access::Open) {
        if let Some(address) = address.filter(|_| !entry.is_some_and(|entry| is_for_workers(entry.access))) {
            state.limits().address(address)?;
        }
        state.settings().origins.check_host(request.headers(), request.uri())?;
        state.settings().origins.check_origin(request.headers(), request.uri())?;
    }
    if request.uri().path_and_query().is_some_and(|target| target.as_str().contains("%00")) {
        return Err(Problem::malformed("the path or the query holds a NUL character: leave it out"));
    }
    let Some(entry) = entry else {
        // A caller without a token learns nothing, not even which paths exist.
        identify(state, (&method, &headers), local, address, &facts, Access::Anyone).await?;
        return Err(not_there(known));
    };
    if request.headers().get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "compressed bodies are not accepted: send the body as it is, without Content-Encoding",
        ));
    }
    describe_body(&mut request, entry);
    facts.quiet(entry.quiet);
    if entry.access == Access::Open {
        return Ok(next.run(request).await);
    }
    let identity = identify(state, (&method, &headers), local, address, &facts, entry.access).await?;
    if !admits(entry.access, &identity) {
        return Err(Problem::forbidden(entry.access.role()));
    }
    known_query(entry, request.uri().query().unwrap_or(""))?;
    let caller = Caller::new(credentials::shared(identity), entry.access);
    request.extensions_mut().insert(caller.clone());
    let response = next.run(request).await;
    if let Some(namespace) = caller.namespace() {
        facts.namespace(namespace);
    }
    if matches!(entry.access, Access::Signed(_)) && response.status() == StatusCode::UNAUTHORIZED {
        // A wrong signature counts like a wrong token.
        if let Some(Err(too_many)) = address.map(|address| state.limits().failure(address)) {
            facts.quiet(true);
            return Err(too_many);
        }
    }
    let is_new = response.extensions().get::<Replayed>().is_none();
    if entry.access.must_ask() && is_new && response.status().is_success() && !caller.has_asked() {
        tracing::error!(method = %entry.method, path = entry.path, "a handler answered without asking whether it may");
        return Err(Problem::internal());
    }
    Ok(response)
}

/// Says to the layers below how the route wants its body read and its answer kept.
fn describe_body(request: &mut Request, entry: &RouteEntry) {
    let extensions = request.extensions_mut();
    extensions.insert(BodyLimit(entry.body_limit));
    if entry.streamed {
        extensions.insert(Streamed);
    }
    if entry.keyless {
        extensions.insert(Keyless);
    }
    if entry.in_pieces || entry.quiet {
        extensions.insert(InPieces);
    }
}

/// Headers that are longer than the limit are refused.
fn check_head(headers: &HeaderMap) -> Result<(), Problem> {
    let head: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if head <= LONGEST_HEAD {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        format!("the headers have {head} bytes, but at most {LONGEST_HEAD} are read: shorten them"),
    ))
}

/// The caller: this process, the holder of a valid token, or for signed routes an unverified caller.
async fn identify(
    state: &ApiState,
    (method, headers): (&Method, &HeaderMap),
    local: Option<Local>,
    address: Option<IpAddr>,
    facts: &RequestFacts,
    access: Access,
) -> Result<Identity, Problem> {
    if let Some(Local(user)) = local {
        let identity = Identity::local(&user);
        facts.actor(&identity.actor);
        return Ok(identity);
    }
    let identity = match credentials::identify(state, method, headers).await {
        Ok(Some(identity)) => identity,
        Ok(None) if matches!(access, Access::Signed(_)) => Identity::unsigned(),
        Ok(None) => return Err(failed(state, address, facts, Problem::unauthorised())),
        Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => {
            return Err(failed(state, address, facts, problem));
        }
        Err(problem) => return Err(problem),
    };
    facts.actor(&identity.actor);
    // Unsigned callers are limited by address only, because they have no identity.
    if identity.actor != Identity::unsigned().actor && !is_for_workers(access) {
        state.limits().identity(&identity.actor)?;
    }
    Ok(identity)
}

/// Workers call as often as they finish tasks; their slots limit them.
fn is_for_workers(access: Access) -> bool {
    access.role() == Some(Role::Worker)
}

/// Counts a failed authentication. Wrong credentials are either rare or guesses.
fn failed(state: &ApiState, address: Option<IpAddr>, facts: &RequestFacts, problem: Problem) -> Problem {
    match address.map(|address| state.limits().failure(address)) {
        Some(Err(too_many)) => {
            // A flood of refused requests must not fill the audit log.
            facts.quiet(true);
            too_many
        }
        _ => problem,
    }
}

fn admits(access: Access, identity: &Identity) -> bool {
    match access {
        Access::Open | Access::Anyone => true,
        Access::Anywhere(role) | Access::InNamespace(role) => identity.has_anywhere(role),
        Access::Everywhere(role) => identity.has_everywhere(role),
        Access::Signed(role) => identity.actor == Identity::unsigned().actor || identity.has_anywhere(role),
    }
}

/// Refuses a parameter that the route does not have: a misspelt filter must not return everything.
fn known_query(entry: &RouteEntry, query: &str) -> Result<(), Problem> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or(pair);
        if entry.query.iter().any(|known| known == name) {
            continue;
        }
        let shown: String = name.chars().take(60).flat_map(char::escape_default).collect();
        let hint = match did_you_mean(name, entry.query.iter().map(String::as_str)) {
            Some(hint) => hint,
            None if entry.query.is_empty() => "this path takes none".to_owned(),
            None => format!("this path takes {}", entry.query.join(", ")),
        };
        return Err(Problem::malformed(format!("the query does not fit: there is no parameter `{shown}`: {hint}")));
    }
    Ok(())
}

/// 404, or 405 with the methods that there are.
fn not_there(known: &[RouteEntry]) -> Problem {
    if known.is_empty() {
        return Problem::new(
            StatusCode::NOT_FOUND,
            "there is nothing under this path: /openapi.json lists what there is",
        );
    }
    let methods: Vec<&str> = known.iter().map(|entry| entry.method.as_str()).collect();
    let methods = methods.join(", ");
    let problem =
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("this path does not answer this method, but {methods}"));
    match HeaderValue::from_str(&methods) {
        Ok(value) => problem.with_header(ALLOW, value),
        Err(_) => problem,
    }
}
