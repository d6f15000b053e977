//! Server-sent events of a server, as hints that something has changed.
//!
//! What an event says is not read: whoever follows looks again. So nothing is lost when the connection is.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::{Connection, Way, answer, target};
use crate::failure::{Failure, Result};

/// A server says something every 15 s, if only that it is there.
const SILENCE: Duration = Duration::from_secs(45);

/// Events as they come.
pub(crate) struct Changes {
    body: Incoming,
}

impl Connection {
    /// Whether a server answers, and not this very process.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.way, Way::There(_))
    }

    /// Follows what happens on the server; a database does not tell.
    pub(crate) async fn changes(&self, query: &[(&str, Option<&str>)]) -> Result<Changes> {
        let Way::There(endpoint) = &self.way else {
            return Err(Failure::failed("a database does not tell what changes"));
        };
        let target = target(&["events", "stream"], query);
        let Ok(response) = tokio::time::timeout(SILENCE, endpoint.respond("GET", &target, None)).await else {
            return Err(Failure::unreachable("the server does not begin to tell"));
        };
        let response = response?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(Changes { body: response.into_body() });
        }
        let bytes = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        Err(answer::read(status, &bytes).err().unwrap_or_else(|| Failure::unreachable("the server tells no events")))
    }
}

impl Changes {
    /// Waits for the next events; `None` when the connection is over.
    pub(crate) async fn next(&mut self) -> Option<()> {
        loop {
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await.ok()??.ok()?;
            if frame.data_ref().is_some_and(|bytes| tells(bytes)) {
                return Some(());
            }
        }
    }
}

/// Whether there is more than comments, which only say that the connection lives.
fn tells(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| !line.is_empty() && !line.starts_with(b":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_tell_nothing() {
        for (text, expected) in
            [("", false), (":\n\n", false), (": alive\n\n", false), ("data: {}\n\n", true), (":\n\ndata: {}\n\n", true)]
        {
            assert_eq!(tells(text.as_bytes()), expected, "{text:?}");
        }
    }
}
