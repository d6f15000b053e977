//! Faults of a request, each with its place.

/// One fault of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFault {
    /// A JSON pointer into the request.
    pub pointer: String,
    pub message: String,
}

impl RequestFault {
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}
