//! Searching a log, and giving it as a file.

use std::collections::VecDeque;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use mainspring_api::runs::{LogEntry, Logs};
use mainspring_core::TaskKey;
use mainspring_core::time::rfc3339;
use mainspring_store::{LogCursor, Store};

use super::logs::entry as line_entry;
use crate::problem::Problem;

/// Lines that are shown around each that was found.
const AROUND: usize = 20;
const CHUNKS: i64 = 50;
/// The most pages of chunks that one search reads, and the most lines that it returns.
const MOST_PAGES: usize = 200;
const MOST_LINES: usize = 5_000;

/// Lines that contain the text, with context. `next` continues a search that was stopped.
pub(super) async fn find(
    store: &Store,
    key: TaskKey,
    attempt: Option<i32>,
    after: LogCursor,
    text: &str,
) -> Result<Logs, Problem> {
    let wanted = text.to_lowercase();
    if wanted.is_empty() || wanted.len() > 1_000 {
        return Err(Problem::malformed("the query does not fit: q has 1 to 1000 characters"));
    }
    let mut found = FoundLines { items: Vec::new(), before: VecDeque::new(), behind: 0 };
    let (mut at, mut number, mut has_more) = (after, 0, false);
    for page in 0..MOST_PAGES {
        let chunks = store.read_logs(key, attempt, at, CHUNKS).await?;
        let is_last = (chunks.len() as i64) < CHUNKS;
        for (place, lines) in chunks {
            for line in lines {
                number += 1;
                let is_hit = line.text.to_lowercase().contains(&wanted);
                let mut entry = line_entry(place.attempt, line);
                (entry.line, entry.hit) = (Some(number), Some(is_hit));
                found.take(entry, is_hit);
            }
            at = place;
        }
        has_more = !is_last && (page + 1 == MOST_PAGES || found.items.len() >= MOST_LINES);
        if is_last || has_more {
            break;
        }
    }
    let after = format!("{}.{}", at.attempt, at.chunk);
    Ok(Logs { items: found.items, next: has_more.then(|| after.clone()), after, before: None })
}

struct FoundLines {
    items: Vec<LogEntry>,
    /// The last lines, which may become context.
    before: VecDeque<LogEntry>,
    /// How many more context lines follow the last hit.
    behind: usize,
}

impl FoundLines {
    fn take(&mut self, entry: LogEntry, is_hit: bool) {
        if is_hit {
            self.items.extend(self.before.drain(..));
            self.behind = AROUND;
            self.items.push(entry);
        } else if self.behind > 0 {
            self.behind -= 1;
            self.items.push(entry);
        } else {
            self.before.push_back(entry);
            if self.before.len() > AROUND {
                self.before.pop_front();
            }
        }
    }
}

/// The whole log as a text file, read page by page while it is sent.
pub(super) fn file(store: Store, key: TaskKey, attempt: Option<i32>) -> Response {
    let pages = stream::try_unfold(Some(LogCursor::default()), move |at| {
        let store = store.clone();
        async move {
            let Some(at) = at else { return Ok(None) };
            let chunks = store.read_logs(key, attempt, at, CHUNKS).await.map_err(std::io::Error::other)?;
            let next = chunks.last().map(|(place, _)| *place).filter(|_| chunks.len() as i64 == CHUNKS);
            let mut text = String::new();
            for (place, lines) in chunks {
                for line in lines {
                    let head = format!("{} {} {}  ", rfc3339(line.at), place.attempt, line.stream.word());
                    text.push_str(&head);
                    text.push_str(&line.text);
                    text.push('\n');
                }
            }
            Ok::<_, std::io::Error>(Some((Bytes::from(text), next)))
        }
    });
    let headers =
        [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CONTENT_DISPOSITION, "attachment; filename=\"task.log\"")];
    (headers, Body::from_stream(pages)).into_response()
}
