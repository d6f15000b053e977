//! Files of tasks, to and from the servers: sent and received piece by piece.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::Method;
use hyper::body::{Bytes, Frame, Incoming};
use mainspring_api::worker::{ArtifactKept, DIGEST_HEADER};
use mainspring_core::work::{
    Artifact, ArtifactContent, ArtifactReader, ArtifactSource, IncomingFile, SourceFuture, Transfer, TransferError,
};
use tokio::io::AsyncReadExt as _;

use super::link::{Call, LinkError, Outgoing};
use super::session::{Reply, Session, UPLOAD_PATIENCE};
use crate::text::locked;

const PIECE: usize = 256 << 10;
/// The slowest transfer rate that the timeouts of transfers allow for.
const SLOWEST_BYTES_PER_SECOND: u64 = 64 << 10;

impl Session {
    pub(crate) async fn keep_artifact(&self, task_run: &str, attempt: i32, artifact: &Artifact) -> Reply<ArtifactKept> {
        let executable = artifact.executable;
        let mut query = format!("session_id={}&executable={executable}", self.id);
        if let Some(files) = artifact.cache_files {
            query.push_str(&format!("&cache_files={files}"));
        }
        let path = format!("/api/v1/worker/artifacts/{task_run}/{attempt}/{}?{query}", encoded(&artifact.name));
        let mut headers =
            vec![("content-type", "application/octet-stream".to_owned()), (DIGEST_HEADER, artifact.sha256.clone())];
        headers.push(("content-length", artifact.bytes.to_string()));
        let patience = UPLOAD_PATIENCE + Duration::from_secs(artifact.bytes / SLOWEST_BYTES_PER_SECOND);
        let call = Call { headers, ..self.call(Method::PUT, path, Bytes::new(), patience) };
        let upload = || async {
            let body = match &artifact.content {
                ArtifactContent::Memory(content) => {
                    Full::new(Bytes::from(content.clone())).map_err(|never| match never {}).boxed_unsync()
                }
                ArtifactContent::File(file) => file_body(&file.path).await.map_err(unreadable_copy)?,
            };
            self.link.upload(&call, body).await
        };
        self.retry_until_answered(&call.path, upload).await
    }

    async fn open_artifact(&self, by: Transfer, file: &IncomingFile) -> Result<Incoming, TransferError> {
        let mut path = format!(
            "/api/v1/worker/artifacts/{}/{}/{}?session_id={}&for_task_run_id={}&for_attempt={}",
            file.task_run_id,
            file.attempt,
            encoded(&file.name),
            self.id,
            by.key,
            by.attempt
        );
        if file.cached {
            path.push_str("&cached=true");
        }
        let call = self.call(Method::GET, path, Bytes::new(), UPLOAD_PATIENCE);
        match self.retry_until_answered(&call.path, || self.link.download(&call)).await {
            Reply::Answer(body) => Ok(body),
            Reply::Lost => Err(TransferError::Lost),
            Reply::Refused(error) => Err(TransferError::Failed(error.to_string())),
        }
    }
}

/// A local file that cannot be read is a final error: another server would not help.
fn unreadable_copy(error: io::Error) -> LinkError {
    LinkError::Refused { status: 0, kind: String::new(), detail: format!("its copy cannot be read: {error}") }
}

async fn file_body(path: &Path) -> io::Result<Outgoing> {
    let file = tokio::fs::File::open(path).await?;
    let pieces = futures_util::stream::unfold(file, |mut file| async move {
        let mut piece = vec![0; PIECE];
        match file.read(&mut piece).await {
            Ok(0) => None,
            Ok(read) => {
                piece.truncate(read);
                Some((Ok(Frame::data(Bytes::from(piece))), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    });
    Ok(StreamBody::new(pieces.boxed()).boxed_unsync())
}

/// The file name, escaped as one segment of a URL path.
fn encoded(name: &str) -> String {
    url::form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}

/// Fetches files of other tasks for the pool, with the session that the worker has.
#[derive(Debug, Clone, Default)]
pub(crate) struct RemoteArtifacts(Arc<Mutex<Option<Session>>>);

impl RemoteArtifacts {
    pub(crate) fn use_session(&self, session: &Session) {
        *locked(&self.0) = Some(session.clone());
    }
}

impl ArtifactSource for RemoteArtifacts {
    fn open<'a>(&'a self, by: Transfer, file: &'a IncomingFile) -> SourceFuture<'a, Box<dyn ArtifactReader>> {
        Box::pin(async move {
            let session = locked(&self.0).clone().filter(|session| session.id == by.session);
            let session = session.ok_or(TransferError::Lost)?;
            let body = session.open_artifact(by, file).await?;
            Ok(Box::new(BodyReader(body)) as Box<dyn ArtifactReader>)
        })
    }
}

struct BodyReader(Incoming);

impl ArtifactReader for BodyReader {
    fn next(&mut self) -> SourceFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            loop {
                match tokio::time::timeout(UPLOAD_PATIENCE, self.0.frame()).await {
                    Err(_) => return Err(TransferError::Failed("the server fell silent".into())),
                    Ok(None) => return Ok(None),
                    Ok(Some(Err(error))) => return Err(TransferError::Failed(format!("it broke off: {error}"))),
                    Ok(Some(Ok(frame))) => {
                        if let Ok(data) = frame.into_data() {
                            return Ok(Some(data.into()));
                        }
                    }
                }
            }
        })
    }
}
