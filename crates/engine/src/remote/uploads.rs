//! Log lines and files of remote workers.

use std::sync::Arc;

use mainspring_boxed::boxed;
use mainspring_core::TaskKey;
use mainspring_core::work::{ArtifactReader, Bundle, LogLine};
use mainspring_store::{CacheSource, StoredArtifact, StoredChunk, TaskToken};

use super::registry::{WorkerError, WorkerGate, WorkerSession};
use super::session::RemoteSession;
use crate::artifacts::{ArtifactUpload, OpenedArtifact};
use crate::live::Hint;

/// Further lines of an attempt are dropped.
const MOST_LINES: i64 = 1_000_000;

/// Some consecutive lines of one attempt.
#[derive(Debug, Clone)]
pub struct LogUpload {
    pub key: TaskKey,
    pub attempt: i32,
    /// How many lines of the attempt came before.
    pub offset: i64,
    pub lines: Vec<LogLine>,
}

/// The result of a log upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogAnswer {
    pub key: TaskKey,
    pub attempt: i32,
    /// How many of the lines are new and stored.
    pub accepted: i64,
    /// The offset of the next upload.
    pub next_offset: i64,
    /// The attempt belongs to another session, or has ended.
    pub fenced: bool,
}

#[boxed]
impl WorkerGate {
    /// Stores log lines. A repetition stores nothing twice, and a gap nothing at all.
    pub async fn store_logs(
        &self,
        wanted: &WorkerSession,
        uploads: Vec<LogUpload>,
    ) -> Result<Vec<LogAnswer>, WorkerError> {
        let session = self.session(wanted).await?;
        session.state().note_contact();
        // Requests are handled one after the other, because stored lines decide which lines are new.
        let _guard = session.request_lock.lock().await;
        let mut chunks = Vec::new();
        let mut answers = Vec::with_capacity(uploads.len());
        for upload in uploads {
            answers.push(self.take_lines(&session, upload, &mut chunks).await?);
        }
        self.shared.client.store.append_logs(&chunks).await?;
        let hints = self.shared.client.bus.hints();
        if hints.wanted() {
            for chunk in &chunks {
                hints.publish(Hint::Logged { key: chunk.key, attempt: chunk.attempt, chunk: chunk.chunk });
            }
        }
        let mut state = session.state();
        for chunk in &chunks {
            let token = TaskToken { key: chunk.key, session: session.id, attempt: chunk.attempt };
            state.log_ends.insert(token, i64::from(chunk.chunk) - 1 + chunk.lines.len() as i64);
        }
        Ok(answers)
    }

    async fn take_lines(
        &self,
        session: &Arc<RemoteSession>,
        upload: LogUpload,
        chunks: &mut Vec<StoredChunk>,
    ) -> Result<LogAnswer, WorkerError> {
        let LogUpload { key, attempt, offset, mut lines } = upload;
        let token = TaskToken { key, session: session.id, attempt };
        let answer = |accepted, next_offset, fenced| LogAnswer { key, attempt, accepted, next_offset, fenced };
        if !self.holds(session, token).await? {
            return Ok(answer(0, offset, true));
        }
        let queued = chunks.iter().rev().find(|chunk| (chunk.key, chunk.attempt) == (key, attempt));
        let queued = queued.map(|chunk| i64::from(chunk.chunk) - 1 + chunk.lines.len() as i64);
        let known = queued.or_else(|| session.state().log_ends.get(&token).copied());
        let end = match known {
            Some(end) => end,
            None => self.shared.client.store.log_end(key, attempt).await?,
        };
        let after = offset.saturating_add(lines.len() as i64);
        if end >= MOST_LINES && offset >= 0 {
            // Dropped: a worker that were asked for them again would never be done.
            return Ok(answer(0, after, false));
        }
        if offset > end || offset < 0 {
            return Ok(answer(0, end, false));
        }
        let repeated = usize::try_from(end - offset).unwrap_or(usize::MAX).min(lines.len());
        lines.drain(..repeated);
        lines.truncate(usize::try_from(MOST_LINES - end).unwrap_or(0));
        let accepted = lines.len() as i64;
        if accepted > 0 {
            let chunk = i32::try_from(end + 1).unwrap_or(i32::MAX);
            chunks.push(StoredChunk { key, attempt, chunk, lines });
        }
        Ok(answer(accepted, after.max(end), false))
    }

    /// Stores a file of an attempt while it is received. The same name again replaces it.
    pub async fn keep_artifact(
        &self,
        wanted: &WorkerSession,
        key: TaskKey,
        attempt: i32,
        upload: &ArtifactUpload,
        reader: &mut dyn ArtifactReader,
    ) -> Result<StoredArtifact, WorkerError> {
        let session = self.session(wanted).await?;
        session.state().note_contact();
        if !self.holds(&session, TaskToken { key, session: session.id, attempt }).await? {
            return Err(WorkerError::Fenced);
        }
        Ok(self.shared.client.keep_artifact(key, attempt, upload, reader).await?)
    }

    /// Opens a file that another task of the same run left, for an attempt that the session holds.
    pub async fn open_artifact(
        &self,
        wanted: &WorkerSession,
        (holder, attempt): (TaskKey, i32),
        (left_by, left_attempt, name): (TaskKey, i32, &str),
    ) -> Result<Option<OpenedArtifact>, WorkerError> {
        let session = self.session(wanted).await?;
        session.state().note_contact();
        let is_held = self.holds(&session, TaskToken { key: holder, session: session.id, attempt }).await?;
        if !is_held || holder.run != left_by.run {
            return Err(WorkerError::Fenced);
        }
        Ok(self.shared.client.open_artifact(left_by, left_attempt, name).await?)
    }

    /// Opens a file of a cache for an attempt that was given it.
    pub async fn open_cached_file(
        &self,
        wanted: &WorkerSession,
        (holder, attempt): (TaskKey, i32),
        (left_by, left_attempt, name): (TaskKey, i32, &str),
    ) -> Result<Option<OpenedArtifact>, WorkerError> {
        let session = self.session(wanted).await?;
        session.state().note_contact();
        let is_held = self.holds(&session, TaskToken { key: holder, session: session.id, attempt }).await?;
        let client = &self.shared.client;
        let given = client.store.files_given_to(CacheSource { key: holder, attempt }).await?;
        if !is_held || given != Some(CacheSource { key: left_by, attempt: left_attempt }) {
            return Err(WorkerError::Fenced);
        }
        Ok(client.open_cached_file(left_by, left_attempt, name).await?)
    }

    /// The files that a version brings along, for a worker that serves its namespace.
    pub async fn files(&self, wanted: &WorkerSession, version: i64) -> Result<Arc<Bundle>, WorkerError> {
        let session = self.session(wanted).await?;
        session.state().note_contact();
        let client = &self.shared.client;
        let spec = client.specs.get(version).await?;
        let namespace = &spec.workflow.namespace;
        if session.served.namespaces.as_ref().is_some_and(|names| !names.contains(namespace)) {
            return Err(WorkerError::UnknownSession);
        }
        Ok(spec.bundle(&client.store).await?)
    }

    /// The version of a task run that a session holds at this node.
    pub fn version_of(&self, session: i64, key: TaskKey, attempt: i32) -> Option<i64> {
        self.shared.gatherer().get(TaskToken { key, session, attempt }).map(|held| held.version)
    }

    /// Whether the session holds the attempt, as far as this node or else the database knows.
    async fn holds(&self, session: &Arc<RemoteSession>, token: TaskToken) -> Result<bool, WorkerError> {
        if self.shared.gatherer().get(token).is_some() {
            return Ok(true);
        }
        let claims = self.shared.client.store.claims_of(session.id).await?;
        Ok(claims.iter().any(|claim| claim.token == token))
    }
}
