//! Log lines and files of remote workers.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainspring_api::worker::{ArtifactKept, ChunkAnswer, DIGEST_HEADER, File, Files, Logs, LogsStored, Stream};
use mainspring_core::work::{Artifact, LogLine, LogStream};
use mainspring_engine::{LogAnswer, LogUpload};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use super::exchange::{read_instant, read_key};
use super::{ARTIFACT_LIMIT, SessionToken, gate, session};
use crate::auth::caller::Caller;
use crate::body::{self, Path, Query};
use crate::problem::Problem;
use crate::state::ApiState;

const MOST_CHUNKS: usize = 1_000;
/// Longer lines are cut.
const LONGEST_LINE: usize = 64 << 10;
const LONGEST_NAME: usize = 512;

/// The session of a request whose body is no object.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfSession {
    /// The session of the worker
    session_id: i64,
}

/// Store log lines
#[utoipa::path(post, path = "/worker/logs", tag = "worker", request_body = Logs, responses((status = 200, body = LogsStored)))]
pub(crate) async fn store_logs(
    State(state): State<ApiState>,
    caller: Caller,
    token: SessionToken,
    body::Json(logs): body::Json<Logs>,
) -> Result<Json<LogsStored>, Problem> {
    if logs.chunks.len() > MOST_CHUNKS {
        return Err(Problem::invalid(
            "/chunks",
            format!("must have at most {MOST_CHUNKS} entries: send the rest next"),
        ));
    }
    let now = state.client().now();
    let mut uploads = Vec::with_capacity(logs.chunks.len());
    for (index, chunk) in logs.chunks.into_iter().enumerate() {
        let stream = match chunk.stream {
            Stream::Stdout => LogStream::Stdout,
            Stream::Stderr => LogStream::Stderr,
            Stream::System => LogStream::System,
        };
        let mut lines = Vec::with_capacity(chunk.lines.len());
        for (number, line) in chunk.lines.into_iter().enumerate() {
            let at = read_instant(line.at.as_deref(), now, &format!("/chunks/{index}/lines/{number}/at"))?;
            lines.push(LogLine { at, stream, text: cut(line.text) });
        }
        let key = read_key(&chunk.task_run_id, &format!("/chunks/{index}/task_run_id"))?;
        uploads.push(LogUpload { key, attempt: chunk.attempt, offset: chunk.offset, lines });
    }
    let answers = gate(&state)?.store_logs(&session(&caller, token, logs.session_id), uploads).await?;
    Ok(Json(LogsStored { chunks: answers.into_iter().map(shown).collect() }))
}

fn shown(answer: LogAnswer) -> ChunkAnswer {
    ChunkAnswer {
        task_run_id: answer.key.to_string(),
        attempt: answer.attempt,
        accepted: answer.accepted,
        next_offset: answer.next_offset,
        fenced: answer.fenced,
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST_LINE {
        let end = (0..=LONGEST_LINE).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text.retain(|character| character != '\0' && character != '\n');
    text
}

/// Keep a file that an attempt left
#[utoipa::path(put, path = "/worker/artifacts/{task_run_id}/{attempt}/{name}", tag = "worker",
    params(("task_run_id" = String, Path), ("attempt" = i32, Path), ("name" = String, Path, description = "Its path, with `/` written as %2F"), OfSession),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = ArtifactKept), (status = 409, description = "The attempt is not this session's")))]
pub(crate) async fn keep_artifact(
    State(state): State<ApiState>,
    caller: Caller,
    token: SessionToken,
    Path((task_run_id, attempt, name)): Path<(String, i32, String)>,
    Query(of): Query<OfSession>,
    request: Request,
) -> Result<Json<ArtifactKept>, Problem> {
    let key = read_key(&task_run_id, "task_run_id")?;
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    if name.len() > LONGEST_NAME || name.contains('\0') || !name.split('/').all(is_plain) {
        return Err(Problem::invalid(
            "name",
            format!("must be a relative path of at most {LONGEST_NAME} bytes without `..`"),
        ));
    }
    let headers = request.headers().clone();
    let content = body::read(request.into_body(), ARTIFACT_LIMIT).await?;
    let sha256 = digest(&content);
    check_digest(&headers, &sha256)?;
    let bytes = content.len() as u64;
    let artifact = Artifact { name: name.clone(), content: content.to_vec() };
    gate(&state)?.keep_artifact(&session(&caller, token, of.session_id), key, attempt, artifact).await?;
    Ok(Json(ArtifactKept { name, bytes, sha256 }))
}

fn check_digest(headers: &HeaderMap, sha256: &str) -> Result<(), Problem> {
    match headers.get(DIGEST_HEADER) {
        None => Err(Problem::malformed(
            "the digest is missing: send the SHA-256 of the body in the header `Mainspring-Sha256`",
        )),
        Some(said) if said.as_bytes().eq_ignore_ascii_case(sha256.as_bytes()) => Ok(()),
        Some(_) => {
            Err(Problem::malformed("the body does not have the digest that `Mainspring-Sha256` says: send it again"))
        }
    }
}

fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Get the files that a version brings along
#[utoipa::path(get, path = "/worker/files/{version}", tag = "worker", params(("version" = i64, Path), OfSession),
    responses((status = 200, body = Files), (status = 404, description = "There is no such version or session")))]
pub(crate) async fn files(
    State(state): State<ApiState>,
    caller: Caller,
    token: SessionToken,
    Path(version): Path<i64>,
    Query(of): Query<OfSession>,
) -> Result<Json<Files>, Problem> {
    let bundle = gate(&state)?.files(&session(&caller, token, of.session_id), version).await?;
    let file = |file: &mainspring_core::work::BundleFile| File {
        path: file.path.clone(),
        executable: file.executable,
        content: STANDARD.encode(&file.content),
        sha256: digest(&file.content),
    };
    Ok(Json(Files { version, files: bundle.files.iter().map(file).collect() }))
}
