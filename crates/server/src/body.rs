//! What clients send: bounded in size, depth and time.
//!
//! [`Json`] reads a JSON body into a type; give the type `#[serde(deny_unknown_fields)]`, so that a misspelt field is
//! an error. [`Document`] is a text of JSON or YAML for what is parsed by core (workflows), whose route allows
//! [`LARGE_LIMIT`]. [`Query`] and [`Path`] are axum's, with problems as their errors. [`Name`] is a checked name.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, LengthLimitError, Limited};
pub(crate) use mainspring_api::Name;
use mainspring_api::workflows::{BundledFile, WorkflowBundle};
use mainspring_core::work::{ArtifactReader, BundleFile, SourceFuture, TransferError};
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde_json::Value;
use utoipa::IntoParams;

use crate::problem::{Fault, Problem};

/// The largest body unless a route says otherwise.
pub(crate) const USUAL_LIMIT: usize = 1 << 20;
/// For workflows with what belongs to them.
pub(crate) const LARGE_LIMIT: usize = 16 << 20;
/// A slower body is refused.
const PATIENCE: Duration = Duration::from_secs(30);

/// How large the body of this request may be; set by the guard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) usize);

/// Set by the guard when the handler streams the body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streamed;

/// Reads a body to its end: 413 if it is too large, 408 if it takes too long.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, Problem> {
    read_for(PATIENCE, body, limit).await
}

async fn read_for(patience: Duration, body: Body, limit: usize) -> Result<Bytes, Problem> {
    match tokio::time::timeout(patience, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() || says_too_large(&*error) => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is too large: at most {limit} bytes are read here"),
        )),
        Ok(Err(_)) => Err(Problem::malformed("the body ended before it was complete")),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body did not arrive within {} s", patience.as_secs()),
        )),
    }
}

/// Reads a body in pieces, with 30 seconds for each.
pub(crate) struct BodyReader(pub(crate) Body);

impl ArtifactReader for BodyReader {
    fn next(&mut self) -> SourceFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            loop {
                match tokio::time::timeout(PATIENCE, self.0.frame()).await {
                    Err(_) => {
                        let cause = format!("nothing of the body arrived for {} s", PATIENCE.as_secs());
                        return Err(TransferError::Failed(cause));
                    }
                    Ok(None) => return Ok(None),
                    Ok(Some(Err(error))) => return Err(TransferError::Failed(format!("the body broke off: {error}"))),
                    Ok(Some(Ok(frame))) => {
                        if let Ok(data) = frame.into_data()
                            && !data.is_empty()
                        {
                            return Ok(Some(data.into()));
                        }
                    }
                }
            }
        })
    }
}

/// Streams a file as a body. If it cannot be read to its end, the connection breaks off.
pub(crate) fn sending(reader: Box<dyn ArtifactReader>) -> Body {
    Body::from_stream(futures_util::stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(None) => None,
            Ok(Some(piece)) => Some((Ok(Bytes::from(piece)), Some(reader))),
            Err(error) => Some((Err(std::io::Error::other(format!("{error:?}"))), None)),
        }
    }))
}

fn says_too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A JSON body.
#[derive(Debug, Clone)]
pub(crate) struct Json<T>(pub(crate) T);

/// A JSON body that may be left out.
#[derive(Debug, Clone)]
pub(crate) struct MaybeJson<T>(pub(crate) Option<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        require_json(request.headers())?;
        let bytes = read_within_limit(request).await?;
        object(&bytes).map(Json)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let checked = require_json(request.headers());
        let bytes = read_within_limit(request).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(None));
        }
        checked?;
        object(&bytes).map(|value| Self(Some(value)))
    }
}

async fn read_within_limit(request: Request) -> Result<Bytes, Problem> {
    let limit = request.extensions().get::<BodyLimit>().map_or(USUAL_LIMIT, |limit| limit.0);
    read(request.into_body(), limit).await
}

fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    match media_type(headers).as_deref() {
        Some("application/json") => Ok(()),
        Some(kind) if kind.starts_with("application/") && kind.ends_with("+json") => Ok(()),
        _ => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "this path takes JSON: send `Content-Type: application/json`",
        )),
    }
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next().unwrap_or(text).trim().to_ascii_lowercase())
}

/// Refuses a list, which serde would take for the fields in order.
fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => {
            Err(Problem::faults("the body does not fit: it is a list", vec![Fault::at("", "must be an object")]))
        }
        _ => from_json(bytes),
    }
}

/// Keys, values and items of a body.
const MOST_VALUES: usize = 1_000_000;

/// Syntax is 400, a value that does not fit is 422; both name the place. Nesting is bounded by the reader (128).
pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    refuse_crowd(bytes)?;
    let reader = &mut serde_json::Deserializer::from_slice(bytes);
    let value: T = serde_path_to_error::deserialize(&mut *reader).map_err(|error| {
        let path = error.path().to_string();
        problem_of(error.inner(), &path)
    })?;
    reader.end().map_err(|error| problem_of(&error, "."))?;
    refuse_nul(bytes)?;
    Ok(value)
}

/// Refuses bodies of many small values, which take many times their size in memory.
fn refuse_crowd(bytes: &[u8]) -> Result<(), Problem> {
    let (mut values, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b',' | b':' if !in_text => values += 1,
            _ => {}
        }
    }
    if values <= MOST_VALUES {
        return Ok(());
    }
    let said = format!("the body holds more than {MOST_VALUES} values: send it in parts, or a workflow as YAML");
    Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, said))
}

fn problem_of(error: &serde_json::Error, path: &str) -> Problem {
    let text = error.to_string();
    let words = text.rsplit_once(" at line ").map_or(text.as_str(), |(words, _)| words).to_owned();
    let pointer = match path {
        "." | "?" => None,
        path => Some(format!("/{}", path.replace(['.', '['], "/").replace(']', ""))),
    };
    let fault = Fault {
        pointer,
        line: u32::try_from(error.line()).ok().filter(|line| *line > 0),
        column: u32::try_from(error.column()).ok(),
        ..Fault::new(words.clone())
    };
    match error.is_data() {
        true => Problem::faults(format!("the body does not fit: {words}"), vec![fault]),
        false => {
            Problem::faults(format!("the body is not JSON: {words}"), vec![fault]).with_status(StatusCode::BAD_REQUEST)
        }
    }
}

/// PostgreSQL cannot store a NUL character, and no caller needs one.
fn refuse_nul(bytes: &[u8]) -> Result<(), Problem> {
    let escaped = b"\\u0000";
    if !bytes.windows(escaped.len()).any(|window| window == escaped) {
        return Ok(());
    }
    let holds = serde_json::from_slice::<Value>(bytes).is_ok_and(|value| holds_nul(&value));
    if holds {
        Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the body holds a NUL character: leave it out"))
    } else {
        Ok(())
    }
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(fields) => fields.iter().any(|(key, value)| key.contains('\0') || holds_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The media type of a workflow with its files.
const BUNDLE: &str = "application/vnd.mainspring.bundle+json";

/// A text of JSON or YAML.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {
    pub(crate) text: String,
    pub(crate) is_yaml: bool,
    /// The files of the bundle.
    pub(crate) files: Vec<BundleFile>,
}

fn unpack(bundle: WorkflowBundle) -> Result<Document, Problem> {
    let mut files = Vec::with_capacity(bundle.files.len());
    for (nth, BundledFile { path, executable, content }) in bundle.files.into_iter().enumerate() {
        let content = STANDARD
            .decode(content)
            .map_err(|_| Problem::invalid(&format!("/files/{nth}/content"), "is not base64"))?;
        files.push(BundleFile { path, executable, content });
    }
    Ok(Document { text: bundle.source, is_yaml: true, files })
}

impl<S: Send + Sync> FromRequest<S> for Document {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let is_yaml = match media_type(request.headers()).as_deref() {
            Some("application/json") => false,
            Some(BUNDLE) => return unpack(from_json::<WorkflowBundle>(&read_within_limit(request).await?)?),
            Some("application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" | "text/plain") => true,
            _ => {
                return Err(Problem::new(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "this path takes JSON or YAML: send `Content-Type: application/json` or `application/yaml`",
                ));
            }
        };
        let bytes = read_within_limit(request).await?;
        let text = String::from_utf8(bytes.into()).map_err(|_| Problem::malformed("the body is not UTF-8"))?;
        Ok(Self { text, is_yaml, files: Vec::new() })
    }
}

/// A query string; a mismatch is a problem.
#[derive(Debug, Clone)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(rejection) => {
                let text = rejection.body_text();
                let cause = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text).to_owned();
                Err(Problem::malformed(format!("the query does not fit: {cause}")))
            }
        }
    }
}

/// The parameter of a path where a fixed segment stands in its place (`Route::also_named`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedSegment(pub(crate) &'static str);

/// Path parameters; a mismatch is a problem.
#[derive(Debug, Clone)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        if let Some(FixedSegment(word)) = parts.extensions.get::<FixedSegment>() {
            let value = T::deserialize(StrDeserializer::<ValueError>::new(word));
            return value.map(Self).map_err(|cause| Problem::malformed(format!("the path does not fit: {cause}")));
        }
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(rejection) => {
                let text = rejection.body_text();
                let cause = text.strip_prefix("Invalid URL: ").unwrap_or(&text).to_owned();
                let cause = match cause.contains("UUID parsing failed") {
                    true => {
                        "it has no id where one belongs: ids are like 019aa1b2-c3d4-7000-8000-000000000000".to_owned()
                    }
                    false => cause,
                };
                Err(Problem::malformed(format!("the path does not fit: {cause}")))
            }
        }
    }
}

/// Which namespace is listed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfNamespace {
    /// Only of this namespace; of all that may be seen unless given
    pub(crate) namespace: Option<Name>,
}

/// Which namespace is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct InNamespace {
    /// The namespace
    #[param(default = "default")]
    pub(crate) namespace: Option<Name>,
}

impl InNamespace {
    pub(crate) fn or_default(&self) -> &str {
        or_default(self.namespace.as_ref())
    }
}

/// The namespace of a request that may leave it out.
pub(crate) fn or_default(namespace: Option<&Name>) -> &str {
    namespace.map_or(DEFAULT_NAMESPACE, Name::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Sample {
        name: Name,
        list: Vec<u8>,
    }

    fn check(body: &str, status: u16, words: &str) {
        let problem = from_json::<Sample>(body.as_bytes()).unwrap_err();
        let shown = format!("{problem:?}");
        assert_eq!(problem.status().as_u16(), status, "{shown}");
        assert!(shown.contains(words), "{shown} lacks {words}");
    }

    #[test]
    fn problems_name_the_place() {
        check("{", 400, "EOF");
        check(r#"{"name": "x", "list": [1, "y"]}"#, 422, "/list/1");
        check(r#"{"name": "../x", "list": []}"#, 422, "is not a name");
        check(r#"{"name": "x", "list": [], "nmae": 1}"#, 422, "unknown field");
        check(r#"{"name": "x", "list": []} {}"#, 400, "trailing");
        check(&"[".repeat(100_000), 422, "invalid type");
        assert!(from_json::<Value>("[".repeat(100_000).as_bytes()).is_err());
        assert_eq!(from_json::<Value>(br#"{"a": ["x\u0000"]}"#).unwrap_err().status().as_u16(), 422);
        assert!(from_json::<Value>(br#"{"a": "x\\u0000"}"#).is_ok());
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_not_waited_for() {
        let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let problem = read_for(Duration::from_millis(1), never, 10).await.unwrap_err();
        assert_eq!(problem.status(), StatusCode::REQUEST_TIMEOUT);
        let problem = read_for(PATIENCE, Body::from("x".repeat(11)), 10).await.unwrap_err();
        assert_eq!(problem.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
