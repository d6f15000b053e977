//! The shapes of the HTTP API: every request, answer, closed set and live message as a type.
//!
//! The server writes these types, the command line and remote workers read them, and `openapi.json` is made from them.
//! One module per resource. There is no HTTP, no SQL and no logic here: only serde and utoipa.
