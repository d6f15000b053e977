//! Turns what a process prints into log lines, in bounded memory.
//!
//! Bytes are split into lines as they arrive. A line is cut at [`LINE_LIMIT`], an attempt at its configured limit;
//! both cuts are visible. What follows a cut is thrown away as it is read, so a process never blocks on it. The end of
//! the output is always kept apart, because that is where the reason of a failure stands.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::Micros;
use mainspring_core::work::{LogLine, LogStream};
use tokio::time::Instant;

use crate::mask::Mask;
use crate::output::OUTPUT_LIMIT;
use crate::text::last_characters;

/// Bytes of one line that are kept.
pub(crate) const LINE_LIMIT: usize = 16 * 1024;
/// Marks a line whose rest was dropped.
const LINE_CUT: &str = " … [line cut at 16 KiB]";
/// Characters of the end of the output that a failure carries.
const TAIL_CHARACTERS: usize = 10_000;
const TAIL_BYTES: usize = 4 * TAIL_CHARACTERS;
/// What storing a line costs beside its text, so that empty lines count too.
const LINE_OVERHEAD: usize = 32;

const CHUNK_LINES: usize = 64;
const CHUNK_BYTES: usize = 64 * 1024;
/// A chunk holds at most what is worth one row; one read can bring more than that.
const CHUNK_LINES_MAXIMUM: usize = 1024;
const FLUSH_AFTER: Duration = Duration::from_millis(100);

/// All output of one attempt.
#[derive(Debug)]
pub(crate) struct Capture {
    pending: Vec<LogLine>,
    pending_bytes: usize,
    flush_at: Option<Instant>,
    kept: usize,
    limit: usize,
    truncated: bool,
    tail: Vec<u8>,
    partial: [Partial; 2],
    mask: Arc<Mask>,
    /// What was printed to the standard output, if it is the result.
    stdout: Option<Vec<u8>>,
}

/// The line of one stream that has no end yet.
#[derive(Debug, Default)]
struct Partial {
    bytes: Vec<u8>,
    /// The line was cut; its rest is dropped up to the next line end.
    skipping: bool,
}

impl Capture {
    pub(crate) fn new(limit: usize, mask: Arc<Mask>) -> Self {
        Self {
            pending: Vec::new(),
            pending_bytes: 0,
            flush_at: None,
            kept: 0,
            limit,
            truncated: false,
            tail: Vec::new(),
            partial: [Partial::default(), Partial::default()],
            mask,
            stdout: None,
        }
    }

    /// Keeps the standard output besides logging it, up to one byte more than an output may have.
    pub(crate) fn keep_stdout(&mut self) {
        self.stdout.get_or_insert_default();
    }

    /// The standard output that was kept since [`Self::keep_stdout`].
    pub(crate) fn take_stdout(&mut self) -> Option<Vec<u8>> {
        self.stdout.take()
    }

    /// Takes bytes that were just read from one stream.
    pub(crate) fn feed(&mut self, stream: LogStream, mut bytes: &[u8], at: Micros) {
        let slot = usize::from(stream == LogStream::Stderr);
        if let (Some(kept), LogStream::Stdout) = (&mut self.stdout, stream) {
            let room = (OUTPUT_LIMIT as usize + 1).saturating_sub(kept.len());
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        while !bytes.is_empty() {
            let (piece, ended, rest) = next_line(bytes);
            bytes = rest;
            let partial = &mut self.partial[slot];
            if !partial.skipping {
                if ended && partial.bytes.is_empty() {
                    // The common case: a whole line within one read needs no copy.
                    self.line(stream, piece, at);
                    continue;
                }
                let room = (LINE_LIMIT + 1).saturating_sub(partial.bytes.len());
                partial.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            if ended || (!partial.skipping && partial.bytes.len() > LINE_LIMIT) {
                let skipped = partial.skipping;
                partial.skipping = !ended;
                if !skipped {
                    let line = std::mem::take(&mut partial.bytes);
                    self.line(stream, &line, at);
                }
            }
        }
    }

    /// The stream has ended. A last line without a line end counts too.
    pub(crate) fn end(&mut self, stream: LogStream, at: Micros) {
        let partial = &mut self.partial[usize::from(stream == LogStream::Stderr)];
        let line = std::mem::take(&mut partial.bytes);
        if !line.is_empty() {
            self.line(stream, &line, at);
        }
    }

    /// Adds a remark of the worker about the task. The log limit never drops it.
    pub(crate) fn remark(&mut self, text: String, at: Micros) {
        self.push(LogLine { at, stream: LogStream::System, text });
    }

    fn line(&mut self, stream: LogStream, bytes: &[u8], at: Micros) {
        self.remember(bytes);
        if self.truncated {
            return;
        }
        let cost = bytes.len().min(LINE_LIMIT) + LINE_OVERHEAD;
        if self.kept + cost > self.limit {
            self.truncated = true;
            self.remark(format!("output truncated: only the first {} bytes are kept", self.limit), at);
            return;
        }
        self.kept += cost;
        let mut text = clean_line(bytes, LINE_LIMIT);
        self.mask.in_place(&mut text);
        self.push(LogLine { at, stream, text });
    }

    fn push(&mut self, line: LogLine) {
        self.pending_bytes += line.text.len();
        self.pending.push(line);
        if self.flush_at.is_none() {
            self.flush_at = Some(Instant::now() + FLUSH_AFTER);
        }
    }

    fn remember(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(LINE_LIMIT)];
        if self.tail.len() + bytes.len() + 1 > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
        self.tail.extend_from_slice(bytes);
        self.tail.push(b'\n');
    }

    /// Enough lines wait for a chunk; reading on should wait until it is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= CHUNK_LINES || self.pending_bytes >= CHUNK_BYTES
    }

    /// When the pending lines should be handed on at the latest.
    pub(crate) fn flush_at(&self) -> Option<Instant> {
        self.flush_at
    }

    pub(crate) fn take(&mut self) -> Vec<LogLine> {
        if self.pending.len() > CHUNK_LINES_MAXIMUM {
            let rest = self.pending.split_off(CHUNK_LINES_MAXIMUM);
            let lines = std::mem::replace(&mut self.pending, rest);
            self.pending_bytes -= lines.iter().map(|line| line.text.len()).sum::<usize>();
            return lines;
        }
        self.flush_at = None;
        self.pending_bytes = 0;
        std::mem::take(&mut self.pending)
    }

    /// The last lines, for the report of a failure.
    pub(crate) fn tail(&self) -> Option<String> {
        let mut text = clean(&self.tail);
        // Secrets are masked before the cut; otherwise half a secret could remain.
        self.mask.in_place(&mut text);
        let text = last_characters(text.trim_end_matches('\n'), TAIL_CHARACTERS);
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// The bytes up to the first line end, whether there is one, and the bytes after it.
fn next_line(bytes: &[u8]) -> (&[u8], bool, &[u8]) {
    let mut rest = bytes;
    // The one search for a byte in std that is vectorised; reading from a slice cannot fail.
    let length = rest.skip_until(b'\n').unwrap_or(bytes.len());
    match bytes[..length].strip_suffix(b"\n") {
        Some(line) => (line, true, rest),
        None => (&bytes[..length], false, rest),
    }
}

/// One line as it is stored: without NUL and broken UTF-8, not longer than `limit` bytes of input.
pub(crate) fn clean_line(bytes: &[u8], limit: usize) -> String {
    if bytes.len() <= limit {
        return clean(bytes.strip_suffix(b"\r").unwrap_or(bytes));
    }
    // Not in the middle of a character, or a correct text would end in a replacement mark.
    let mut end = limit;
    while end > limit - 4 && bytes[end] & 0b1100_0000 == 0b1000_0000 {
        end -= 1;
    }
    let mut text = clean(&bytes[..end]);
    text.push_str(LINE_CUT);
    text
}

fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "") } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(capture: &mut Capture) -> Vec<String> {
        capture.take().into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn lines_are_joined_over_reads_and_streams_kept_apart() {
        let mut capture = Capture::new(1 << 20, Arc::default());
        capture.feed(LogStream::Stdout, b"one\ntw", 1);
        capture.feed(LogStream::Stderr, b"err", 2);
        capture.feed(LogStream::Stdout, b"o\r\n\nla", 3);
        capture.end(LogStream::Stdout, 4);
        capture.end(LogStream::Stderr, 5);
        let lines: Vec<_> = capture.take().into_iter().map(|line| (line.at, line.stream, line.text)).collect();
        let line = |at, stream, text: &str| (at, stream, text.to_owned());
        assert_eq!(
            lines,
            [
                line(1, LogStream::Stdout, "one"),
                line(3, LogStream::Stdout, "two"),
                line(3, LogStream::Stdout, ""),
                line(4, LogStream::Stdout, "la"),
                line(5, LogStream::Stderr, "err"),
            ]
        );
        assert_eq!(capture.tail().unwrap(), "one\ntwo\r\n\nla\nerr");
    }

    #[test]
    fn nul_and_broken_text_are_cleaned() {
        let mut capture = Capture::new(1 << 20, Arc::default());
        capture.feed(LogStream::Stdout, b"a\0b\xffc\n", 0);
        assert_eq!(texts(&mut capture), ["ab\u{fffd}c"]);
    }

    #[test]
    fn an_endless_line_is_cut_once_and_the_next_line_is_whole() {
        let mut capture = Capture::new(1 << 20, Arc::default());
        for _ in 0..100 {
            capture.feed(LogStream::Stdout, &[b'x'; 10_000], 0);
        }
        capture.feed(LogStream::Stdout, b"\nnext\n", 0);
        let lines = texts(&mut capture);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], format!("{}{LINE_CUT}", "x".repeat(LINE_LIMIT)));
        assert_eq!(lines[1], "next");
        // The same within a single read.
        let mut long = vec![b'y'; LINE_LIMIT + 5];
        long.extend_from_slice(b"\nz\n");
        capture.feed(LogStream::Stdout, &long, 0);
        let lines = texts(&mut capture);
        assert_eq!(lines[0], format!("{}{LINE_CUT}", "y".repeat(LINE_LIMIT)));
        assert_eq!(lines[1], "z");
    }

    #[test]
    fn a_cut_respects_characters() {
        let text = format!("{}ä and more", "x".repeat(LINE_LIMIT - 1));
        assert_eq!(clean_line(text.as_bytes(), LINE_LIMIT), format!("{}{LINE_CUT}", "x".repeat(LINE_LIMIT - 1)));
    }

    #[test]
    fn truncation_is_said_once_and_the_end_is_remembered() {
        let mut capture = Capture::new(1_000, Arc::default());
        for number in 0..100_000 {
            capture.feed(LogStream::Stdout, format!("line {number}\n").as_bytes(), 0);
        }
        let lines = texts(&mut capture);
        assert_eq!(lines.iter().filter(|line| line.starts_with("output truncated")).count(), 1);
        assert!(lines.len() < 30, "{}", lines.len());
        let tail = capture.tail().unwrap();
        assert!(tail.ends_with("line 99999") && tail.chars().count() <= TAIL_CHARACTERS);
        assert!(capture.tail.capacity() < 4 * TAIL_BYTES);
    }

    #[test]
    fn empty_lines_count() {
        let mut capture = Capture::new(1_000, Arc::default());
        capture.feed(LogStream::Stdout, &[b'\n'; 10_000], 0);
        assert!(capture.pending.len() < 40);
    }
}
