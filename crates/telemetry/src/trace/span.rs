//! One span that has ended.

use std::borrow::Cow;

use mainspring_core::Micros;
use mainspring_core::trace::TraceContext;

/// How a span relates to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Internal,
    /// Answers a request.
    Server,
    /// Makes work for later.
    Producer,
    /// Takes such work.
    Consumer,
}

/// What happened between two instants.
#[derive(Debug, Clone)]
pub struct Span {
    pub context: TraceContext,
    pub parent: Option<[u8; 8]>,
    pub kind: Kind,
    pub name: Cow<'static, str>,
    pub start: Micros,
    pub end: Micros,
    pub attributes: Vec<(&'static str, String)>,
    /// Why it failed.
    pub error: Option<String>,
}
