//! Log lines of remote workers, and the files of versions.

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainspring_api::worker::{ChunkAnswer, File, Files, Logs, LogsStored, Stream};
use mainspring_core::work::{LogLine, LogStream};
use mainspring_engine::{LogAnswer, LogUpload};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use super::exchange::{read_instant, read_key};
use super::{SessionToken, gate, session};
use crate::auth::caller::Caller;
use crate::body::{self, Path, Query};
use crate::problem::Problem;
use crate::state::ApiState;

const MOST_CHUNKS: usize = 1_000;
/// Longer lines are cut.
const LONGEST_LINE: usize = 64 << 10;

/// The session of a request whose body is no object.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfSession {
    /// The session of the worker
    pub(super) session_id: i64,
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
