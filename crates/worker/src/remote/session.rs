//! Calls of the protocol, each repeated until a server answers.

use std::time::{Duration, Instant};

use hyper::Method;
use hyper::body::Bytes;
use mainspring_api::worker::{
    Exchange, Exchanged, Files, Logs, LogsStored, OUT_OF_ORDER, Register, Registered, SESSION_LOST, SessionEnded,
};
use mainspring_core::work::{Bundle, BundleFile};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::link::{Call, Link, LinkError};
use crate::text::hex;

/// How long an answer may take beyond the wait that the request allows the server.
const ANSWER_PATIENCE: Duration = Duration::from_millis(1_500);
pub(super) const UPLOAD_PATIENCE: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long an exchange is retried because the exchange before it has not arrived.
const ORDER_PATIENCE: Duration = Duration::from_secs(30);

/// The worker's side of a session.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) id: i64,
    token: String,
    pub(crate) exchange_wait: Duration,
    pub(super) link: Link,
    /// Cancelled when the session is over: nothing is sent for it any more.
    pub(crate) over: CancellationToken,
}

/// The final result of a call of the protocol.
#[derive(Debug)]
pub(crate) enum Reply<T> {
    Answer(T),
    /// The server considers the session dead: its tasks belong to other sessions.
    Lost,
    /// The server refused the call for another reason.
    Refused(LinkError),
}

impl Session {
    /// Registers once. The caller decides whether to retry.
    pub(crate) async fn register(link: &Link, worker: &Register) -> Result<Self, LinkError> {
        let call = Call {
            method: Method::POST,
            path: "/api/v1/worker/sessions".into(),
            session_token: None,
            headers: vec![("content-type", "application/json".into())],
            body: json(worker),
            patience: ANSWER_PATIENCE + Duration::from_secs(3),
        };
        let registered: Registered = link.ask(&call).await?;
        Ok(Self {
            id: registered.session_id,
            token: registered.session_token,
            exchange_wait: Duration::from_millis(registered.exchange_wait_ms),
            link: link.clone(),
            over: CancellationToken::new(),
        })
    }

    pub(crate) async fn exchange(&self, exchange: &Exchange) -> Reply<Exchanged> {
        let patience = ANSWER_PATIENCE + Duration::from_millis(exchange.wait_ms);
        self.post("/api/v1/worker/exchange", json(exchange), patience).await
    }

    pub(crate) async fn store_logs(&self, logs: &Logs) -> Reply<LogsStored> {
        self.post("/api/v1/worker/logs", json(logs), UPLOAD_PATIENCE).await
    }

    /// Fetches the files of a version and checks their digests.
    pub(crate) async fn files(&self, version: i64) -> Reply<Result<Bundle, String>> {
        let path = format!("/api/v1/worker/files/{version}?session_id={}", self.id);
        match self.ask_until_answered::<Files>(self.call(Method::GET, path, Bytes::new(), UPLOAD_PATIENCE)).await {
            Reply::Answer(files) => Reply::Answer(unpack(files)),
            Reply::Lost => Reply::Lost,
            Reply::Refused(error) => Reply::Refused(error),
        }
    }

    /// Ends the session. It does not retry for long, because a session that is not ended expires.
    pub(crate) async fn end(&self) -> Result<SessionEnded, LinkError> {
        let path = format!("/api/v1/worker/sessions/{}", self.id);
        self.link.ask(&self.call(Method::DELETE, path, Bytes::new(), ANSWER_PATIENCE)).await
    }

    pub(super) fn call(&self, method: Method, path: String, body: Bytes, patience: Duration) -> Call {
        let headers = vec![("content-type", "application/json".to_owned())];
        Call { method, path, session_token: Some(self.token.clone()), headers, body, patience }
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: Bytes, patience: Duration) -> Reply<T> {
        self.ask_until_answered(self.call(Method::POST, path.to_owned(), body, patience)).await
    }

    /// Sends a call until a server answers or the session is over.
    async fn ask_until_answered<T: DeserializeOwned>(&self, call: Call) -> Reply<T> {
        self.retry_until_answered(&call.path, || self.link.ask(&call)).await
    }

    /// Retries a request until a server answers or the session is over.
    pub(super) async fn retry_until_answered<T, F: Future<Output = Result<T, LinkError>>>(
        &self,
        path: &str,
        mut ask: impl FnMut() -> F,
    ) -> Reply<T> {
        let mut pause = SHORTEST_PAUSE;
        let mut complained = false;
        let begun = Instant::now();
        loop {
            let Some(answer) = self.over.run_until_cancelled(ask()).await else { return Reply::Lost };
            match answer {
                Ok(answer) => return Reply::Answer(answer),
                Err(error) if error.is_kind(SESSION_LOST) || (error.status() == Some(404)) => return Reply::Lost,
                Err(LinkError::Unavailable(cause)) => {
                    if !std::mem::replace(&mut complained, true) {
                        tracing::warn!(cause, next = self.link.server(), path, "a server does not answer");
                    }
                }
                // The exchange before this one is still on its way on another connection.
                Err(error) if error.is_kind(OUT_OF_ORDER) && begun.elapsed() < ORDER_PATIENCE => pause = SHORTEST_PAUSE,
                Err(error) if matches!(error.status(), Some(401 | 403)) => {
                    // The token may be put right while the worker runs.
                    tracing::error!(%error, "the server refuses the token");
                    pause = LONGEST_PAUSE;
                }
                Err(error) => return Reply::Refused(error),
            }
            let _ = self.over.run_until_cancelled(tokio::time::sleep(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn unpack(files: Files) -> Result<Bundle, String> {
    let mut bundle = Bundle::default();
    for file in files.files {
        let content = BASE64_STANDARD
            .decode(&file.content)
            .map_err(|error| format!("the file {} is broken: {error}", file.path))?;
        if hex(&Sha256::digest(&content)) != file.sha256 {
            return Err(format!("the file {} does not have its digest", file.path));
        }
        bundle.files.push(BundleFile { path: file.path, executable: file.executable, content });
    }
    Ok(bundle)
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}
