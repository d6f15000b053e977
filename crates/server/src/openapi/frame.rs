//! Answers of the layers around every handler, added to the description of each operation.
//!
//! A handler describes its own answers. This module adds those of the guard, of reading bodies and of Idempotency-Key.
//! There is no `default`, so tools that compare the description with the server notice an undescribed answer.

use axum::http::{Method, StatusCode};
use utoipa::openapi::header::Header;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, Object, Ref, RefOr, Response, Type};

use crate::auth::access::{Access, BASE};

/// The shared answers that operations refer to by name.
pub(super) fn shared() -> impl Iterator<Item = (String, RefOr<Response>)> {
    ANSWERS.iter().map(|(status, says)| {
        let mut response = Response::new(*says);
        finish(status.as_str(), &mut response);
        (name(*status), response.into())
    })
}

/// Adds the shared answers and headers.
pub(super) fn complete(operation: &mut Operation, method: &Method, path: &str, access: Access) {
    operation.operation_id = Some(id(method, path));
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if response.description.is_empty() {
            "What was asked for".clone_into(&mut response.description);
        }
        finish(status, response);
    }
    for (status, _) in ANSWERS.iter().filter(|(status, _)| is_given(*status, method, path, access)) {
        let refer = || Ref::new(format!("#/components/responses/{}", name(*status))).into();
        operation.responses.responses.entry(status.as_str().to_owned()).or_insert_with(refer);
    }
}

const ANSWERS: &[(StatusCode, &str)] = &[
    (StatusCode::BAD_REQUEST, "The path, the query, a header or the body is not readable"),
    (StatusCode::UNAUTHORIZED, "There is no valid token"),
    (StatusCode::FORBIDDEN, "The token, or the origin of the page, does not permit it"),
    (StatusCode::NOT_FOUND, "There is no such thing"),
    (StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time"),
    (StatusCode::CONFLICT, "It contradicts what is there, or the same request is under way"),
    (StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body has another type, or is compressed"),
    (StatusCode::MISDIRECTED_REQUEST, "The server is not known under this Host"),
    (StatusCode::UNPROCESSABLE_ENTITY, "It is readable, but wrong, or its Idempotency-Key belongs to another request"),
    (StatusCode::TOO_MANY_REQUESTS, "Too many requests, or a quota is used up"),
    (StatusCode::INTERNAL_SERVER_ERROR, "Something is wrong with the server"),
    (StatusCode::SERVICE_UNAVAILABLE, "The database is away; the outcome is unknown"),
];

/// Whether a layer may give this answer to an operation.
fn is_given(status: StatusCode, method: &Method, path: &str, access: Access) -> bool {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNSUPPORTED_MEDIA_TYPE => true,
        _ if access == Access::Open => false,
        StatusCode::NOT_FOUND => path.contains('{'),
        // Answers of reading a body and of Idempotency-Key.
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::CONFLICT
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNPROCESSABLE_ENTITY => *method != Method::GET,
        _ => true,
    }
}

fn name(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or(status.as_str()).replace(' ', "")
}

/// `GET /api/v1/pools/{name}` is `get_pools_name`: handlers of different resources have the same names.
fn id(method: &Method, path: &str) -> String {
    let plain = path.strip_prefix(BASE).unwrap_or(path).replace(['{', '}'], "");
    let words: Vec<&str> = plain.split(['/', '-', '.']).filter(|word| !word.is_empty()).collect();
    format!("{}_{}", method.as_str().to_lowercase(), words.join("_"))
}

/// Adds the parts that all answers with a status share.
fn finish(status: &str, response: &mut Response) {
    if is_error(status) && response.content.is_empty() {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        response.content.insert("application/problem+json".into(), content.into());
    }
    for (name, header) in headers(status) {
        response.headers.entry(name.into()).or_insert_with(|| header.into());
    }
}

fn is_error(status: &str) -> bool {
    status.starts_with('4') || status.starts_with('5')
}

fn headers(status: &str) -> Vec<(&'static str, Header)> {
    let mut headers = vec![("X-Request-Id", described(Type::String, "The name of this request in the server's logs"))];
    match status {
        "401" => headers.push(("WWW-Authenticate", described(Type::String, "How to authenticate"))),
        "429" | "503" => {
            headers.push(("Retry-After", described(Type::Integer, "Seconds until it is worth trying again")))
        }
        _ => {}
    }
    headers
}

fn described(kind: Type, says: &str) -> Header {
    let mut header = Header::new(Object::with_type(kind));
    header.description = Some(says.to_owned());
    header
}
