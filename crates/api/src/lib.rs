//! The shapes of the HTTP API: every request, answer, closed set and live message as a type.
//!
//! The server writes these types, the command line and remote workers read them, and `openapi.json` is made from them.
//! One module per resource. There is no HTTP, no SQL and no logic here: only serde and utoipa.

pub mod agenda;
pub mod audit;
pub mod auth;
pub mod backfills;
pub mod bulk;
pub mod calendars;
pub mod cluster;
pub mod dlq;
pub mod events;
pub mod form;
pub mod health;
pub mod jobs;
pub mod live;
pub mod name;
pub mod namespaces;
pub mod notifications;
pub mod overview;
pub mod packed;
pub mod page;
pub mod pauses;
pub mod pools;
pub mod problem;
pub mod runs;
pub mod schedules;
pub mod search;
pub mod secrets;
pub mod session;
pub mod task_actions;
pub mod words;
pub mod worker;
pub mod workers;
pub mod workflows;

pub use name::{Name, SecretName};
pub use page::List;
pub use problem::{Fault, Problem};
