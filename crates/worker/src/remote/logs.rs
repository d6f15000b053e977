//! Sends log lines in order and exactly once, across broken connections.

use std::collections::{BTreeMap, HashMap};

use mainspring_api::worker::{Chunk, ChunkAnswer, Line, Logs, Stream};
use mainspring_core::TaskKey;
use mainspring_core::time::rfc3339;
use mainspring_core::work::{LogChunk, LogLine, LogStream};
use tokio::sync::{mpsc, oneshot};

use super::session::{Reply, Session};

/// About this many bytes of lines go into one request.
const BYTES_AT_ONCE: usize = 256 << 10;
/// Tasks that print are slowed down while more than this many bytes wait to be sent.
const MOST_WAITING: usize = 8 << 20;

type Attempt = (TaskKey, i32);

/// Messages to the uploader besides lines.
#[derive(Debug)]
pub(crate) enum LogRequest {
    /// A session begins. Unsent lines of the previous session are dropped.
    Session(Session),
    /// Answers when everything that the attempt logged so far is stored, or never will be.
    Flush(Attempt, oneshot::Sender<()>),
}

#[derive(Debug, Default)]
struct Waiting {
    /// How many lines are stored.
    stored: i64,
    lines: Vec<LogLine>,
    flushes: Vec<oneshot::Sender<()>>,
}

#[derive(Debug, Default)]
struct Uploader {
    attempts: BTreeMap<Attempt, Waiting>,
    bytes: usize,
}

pub(crate) async fn run(mut lines: mpsc::Receiver<LogChunk>, mut requests: mpsc::UnboundedReceiver<LogRequest>) {
    let mut uploader = Uploader::default();
    let mut session: Option<Session> = None;
    loop {
        let room = uploader.bytes < MOST_WAITING;
        let busy = uploader.bytes > 0 && session.is_some();
        tokio::select! {
            biased;
            request = requests.recv() => {
                // What was sent before the request is in the channel by now.
                while let Ok(chunk) = lines.try_recv() {
                    uploader.add(chunk);
                }
                match request {
                    None => return,
                    Some(LogRequest::Session(new)) => {
                        uploader = Uploader::default();
                        session = Some(new);
                    }
                    Some(LogRequest::Flush(attempt, done)) => uploader.flush(attempt, done),
                }
            }
            Some(chunk) = lines.recv(), if room => uploader.add(chunk),
            () = std::future::ready(()), if busy => {}
        }
        while let (true, Ok(chunk)) = (uploader.bytes < MOST_WAITING, lines.try_recv()) {
            uploader.add(chunk);
        }
        if let Some(session) = session.as_ref().filter(|_| uploader.bytes > 0) {
            uploader.send(session).await;
        }
    }
}

impl Uploader {
    fn add(&mut self, chunk: LogChunk) {
        self.bytes += chunk.lines.iter().map(|line| line.text.len() + 1).sum::<usize>();
        self.attempts.entry((chunk.key, chunk.attempt)).or_default().lines.extend(chunk.lines);
    }

    fn flush(&mut self, attempt: Attempt, done: oneshot::Sender<()>) {
        match self.attempts.get_mut(&attempt) {
            Some(waiting) if !waiting.lines.is_empty() => waiting.flushes.push(done),
            _ => {
                self.attempts.remove(&attempt);
                let _ = done.send(());
            }
        }
    }

    async fn send(&mut self, session: &Session) {
        let logs = Logs { session_id: session.id, chunks: self.chunks() };
        match session.store_logs(&logs).await {
            Reply::Answer(answer) => self.stored(&answer.chunks),
            // The next session follows soon; until then nothing can be sent.
            Reply::Lost => self.drop_all(),
            Reply::Refused(error) => {
                tracing::error!(%error, "the server refuses log lines; they are dropped");
                self.drop_all();
            }
        }
    }

    /// The next lines of every attempt, in pieces of one stream each.
    fn chunks(&self) -> Vec<Chunk> {
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut bytes = 0;
        for ((key, attempt), waiting) in &self.attempts {
            let mut last: Option<LogStream> = None;
            for (offset, line) in (waiting.stored..).zip(&waiting.lines) {
                if bytes > BYTES_AT_ONCE || chunks.len() >= 500 {
                    return chunks;
                }
                bytes += line.text.len() + 60;
                let shown = Line { at: Some(rfc3339(line.at)), text: line.text.clone() };
                match chunks.last_mut().filter(|_| last == Some(line.stream)) {
                    Some(chunk) => chunk.lines.push(shown),
                    None => chunks.push(Chunk {
                        task_run_id: key.to_string(),
                        attempt: *attempt,
                        offset,
                        stream: stream(line.stream),
                        lines: vec![shown],
                    }),
                }
                last = Some(line.stream);
            }
        }
        chunks
    }

    fn stored(&mut self, answers: &[ChunkAnswer]) {
        let mut ends: HashMap<Attempt, (i64, bool)> = HashMap::new();
        for answer in answers {
            if let Ok(key) = answer.task_run_id.parse::<TaskKey>() {
                ends.insert((key, answer.attempt), (answer.next_offset, answer.fenced));
            }
        }
        for (attempt, (end, fenced)) in ends {
            let Some(waiting) = self.attempts.get_mut(&attempt) else { continue };
            let count = usize::try_from(end - waiting.stored).unwrap_or(0).min(waiting.lines.len());
            let count = if fenced { waiting.lines.len() } else { count };
            self.bytes -= waiting.lines.drain(..count).map(|line| line.text.len() + 1).sum::<usize>();
            waiting.stored = end;
            if waiting.lines.is_empty() && !waiting.flushes.is_empty() {
                self.attempts.remove(&attempt);
            }
        }
    }

    fn drop_all(&mut self) {
        self.attempts.clear();
        self.bytes = 0;
    }
}

fn stream(stream: LogStream) -> Stream {
    match stream {
        LogStream::Stdout => Stream::Stdout,
        LogStream::Stderr => Stream::Stderr,
        LogStream::System => Stream::System,
    }
}
