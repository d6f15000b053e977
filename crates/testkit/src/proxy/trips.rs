//! What was sent, request by request.

use std::collections::HashMap;
use std::time::Instant;

use super::wire::Message;

/// One round trip: everything up to a Sync, or a simple Query.
#[derive(Debug, Clone)]
pub struct Trip {
    /// Connections are numbered as they come.
    pub connection: u64,
    /// The statement that is executed or, if none is, prepared.
    pub text: String,
    /// Nothing is executed: the statement is only made known to the server.
    pub only_prepares: bool,
    pub at: Instant,
}

/// Follows one connection's requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    statements: HashMap<String, String>,
    text: String,
    executes: bool,
}

impl Requests {
    pub(super) fn note(&mut self, message: &Message) {
        if let Some((name, text)) = message.prepared() {
            self.text.clone_from(&text);
            self.statements.insert(name, text);
        } else if let Some(name) = message.bound() {
            self.text = self.statements.get(&name).cloned().unwrap_or_default();
        } else if let Some(text) = message.query() {
            self.text = text;
            self.executes = true;
        } else if message.tag == b'E' {
            self.executes = true;
        }
    }

    /// The request is complete.
    pub(super) fn end(&mut self, connection: u64) -> Trip {
        let only_prepares = !std::mem::take(&mut self.executes);
        Trip { connection, text: std::mem::take(&mut self.text), only_prepares, at: Instant::now() }
    }
}
