//! Errors, as RFC 9457 has them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One thing that is wrong with a request, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    pub detail: String,
    /// A JSON pointer into the body, or the name of a parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// The body of an error.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `about:blank`, or `urn:mainspring:WORD` where a program may want to tell cases apart.
    pub r#type: String,
    pub title: String,
    pub status: u16,
    pub detail: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Fault>,
}

impl Fault {
    pub fn new(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), pointer: None, line: None, column: None, help: None }
    }

    pub fn at(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..Self::new(detail) }
    }
}
