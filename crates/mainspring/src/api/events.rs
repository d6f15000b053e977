//! Server-sent events, as far as a command needs them: the data of one after another.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;

/// A server sends something every 15 s, if only a comment.
const SILENCE: Duration = Duration::from_secs(60);
const LARGEST_EVENT: usize = 4 << 20;

/// The live events of a server.
pub(crate) struct Events {
    body: Incoming,
    rest: Vec<u8>,
}

impl Events {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, rest: Vec::new() }
    }

    /// The data of the next event; nothing once the stream has ended or was cut.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            while let Some(data) = take(&mut self.rest) {
                if !data.is_empty() {
                    return Some(data);
                }
            }
            if self.rest.len() > LARGEST_EVENT {
                return None;
            }
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await.ok()??.ok()?;
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}

/// Takes one event off the front, if it is there to its end. One without data, as a comment, is an empty text.
fn take(rest: &mut Vec<u8>) -> Option<String> {
    let end = rest.windows(2).position(|pair| pair == b"\n\n")?;
    let event: Vec<u8> = rest.drain(..end + 2).collect();
    let text = String::from_utf8_lossy(&event);
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(|line| line.trim_start_matches(' '));
    Some(data.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_whole() {
        let mut rest = b": hello\n\nevent: log\nid: 1.2\ndata: {\"a\":1}\n\ndata: x\ndata: y\n\ndata: par".to_vec();
        assert_eq!(take(&mut rest).as_deref(), Some(""));
        assert_eq!(take(&mut rest).as_deref(), Some("{\"a\":1}"));
        assert_eq!(take(&mut rest).as_deref(), Some("x\ny"));
        assert_eq!(take(&mut rest), None);
        rest.extend_from_slice(b"tly\n\n");
        assert_eq!(take(&mut rest).as_deref(), Some("partly"));
        assert!(rest.is_empty());
    }
}
