//! Files that attempts of remote workers leave, and those that they need of other tasks.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use mainspring_api::worker::{ArtifactKept, DIGEST_HEADER};
use mainspring_engine::{ArtifactError, ArtifactUpload};
use serde::Deserialize;
use utoipa::IntoParams;

use super::exchange::read_key;
use super::{SessionToken, gate, session};
use crate::auth::caller::Caller;
use crate::body::{BodyReader, Path, Query, sending};
use crate::problem::Problem;
use crate::state::ApiState;

const LONGEST_NAME: usize = 512;

/// What an upload says of the file.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Upload {
    /// The session of the worker
    session_id: i64,
    /// Whether it may be executed
    #[serde(default)]
    executable: bool,
    /// Of a file for the cache of the task: how many files the cache has
    cache_files: Option<u32>,
}

/// Keep a file that an attempt left
#[utoipa::path(put, path = "/worker/artifacts/{task_run_id}/{attempt}/{name}", tag = "worker",
    params(("task_run_id" = String, Path), ("attempt" = i32, Path), ("name" = String, Path, description = "Its path, with `/` written as %2F"), Upload),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = ArtifactKept), (status = 409, description = "The attempt is not this session's"),
        (status = 413, description = "Files of that size are not kept here")))]
pub(crate) async fn keep(
    State(state): State<ApiState>,
    caller: Caller,
    token: SessionToken,
    Path((task_run_id, attempt, name)): Path<(String, i32, String)>,
    Query(params): Query<Upload>,
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
    let (executable, cache_files) = (params.executable, params.cache_files);
    let upload = ArtifactUpload { name, executable, sha256: said_digest(request.headers())?, cache_files };
    let mut body = BodyReader(request.into_body());
    let session = session(&caller, token, params.session_id);
    let kept = gate(&state)?.keep_artifact(&session, key, attempt, &upload, &mut body).await?;
    Ok(Json(ArtifactKept { name: kept.name, bytes: kept.bytes.unsigned_abs(), sha256: kept.sha256 }))
}

fn said_digest(headers: &HeaderMap) -> Result<String, Problem> {
    let digest = headers.get(DIGEST_HEADER).and_then(|digest| digest.to_str().ok()).ok_or_else(|| {
        Problem::malformed("the digest is missing: send the SHA-256 of the body in the header `Mainspring-Sha256`")
    })?;
    Ok(digest.trim().to_ascii_lowercase())
}

/// Which attempt needs the file.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Download {
    /// The session of the worker
    session_id: i64,
    /// The task run that needs it
    for_task_run_id: String,
    /// Its attempt, which the session holds
    for_attempt: i32,
    /// Whether it is a file of the cache that the attempt was given
    #[serde(default)]
    cached: bool,
}

/// Get a file that another task of the run left, or one of a cache
#[utoipa::path(get, path = "/worker/artifacts/{task_run_id}/{attempt}/{name}", tag = "worker",
    params(("task_run_id" = String, Path), ("attempt" = i32, Path), ("name" = String, Path, description = "Its path, with `/` written as %2F"), Download),
    responses((status = 200, description = "Its content; `Mainspring-Sha256` is its digest", content_type = "application/octet-stream"),
        (status = 409, description = "The attempt is not this session's"), (status = 410, description = "The file is not kept any more")))]
pub(crate) async fn get(
    State(state): State<ApiState>,
    caller: Caller,
    token: SessionToken,
    Path((task_run_id, attempt, name)): Path<(String, i32, String)>,
    Query(wanted): Query<Download>,
) -> Result<Response, Problem> {
    let left_by = read_key(&task_run_id, "task_run_id")?;
    let holder = read_key(&wanted.for_task_run_id, "for_task_run_id")?;
    let session = session(&caller, token, wanted.session_id);
    let gate = gate(&state)?;
    let (by, file) = ((holder, wanted.for_attempt), (left_by, attempt, name.as_str()));
    let opened = match wanted.cached {
        false => gate.open_artifact(&session, by, file).await?,
        true => gate.open_cached_file(&session, by, file).await?,
    };
    let opened = opened.ok_or_else(|| Problem::new(StatusCode::GONE, "the file is not kept any more"))?;
    let headers = [
        ("content-type", "application/octet-stream".to_owned()),
        ("content-length", opened.bytes.to_string()),
        (DIGEST_HEADER, opened.sha256),
    ];
    Ok((headers, sending(opened.reader)).into_response())
}

impl From<ArtifactError> for Problem {
    fn from(error: ArtifactError) -> Self {
        let detail = error.to_string();
        match error {
            ArtifactError::Store(error) => error.into(),
            ArtifactError::TooLarge { .. } | ArtifactError::TooMuch => Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail),
            ArtifactError::Digest { .. } | ArtifactError::Sender(_) => Self::malformed(detail),
            ArtifactError::TooLate => Self::conflict(detail),
            ArtifactError::Objects(error) => {
                tracing::warn!(%error, "the object store");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "the object store of artifacts does not answer as it should")
                    .of_kind("objects-unavailable")
            }
            ArtifactError::NoObjects => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).of_kind("objects-unavailable")
            }
        }
    }
}
