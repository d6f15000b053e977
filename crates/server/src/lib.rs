//! HTTP: the only crate that names axum.
//!
//! # Adding a resource
//!
//! 1. Its shapes in a module of `mainspring-api` (bodies with `deny_unknown_fields`, closed sets by `closed_set!`), a file
//!    in `routes/` with its handlers with `#[utoipa::path(…)]` whose `path` has no prefix, and
//!    `pub(crate) fn register(routes: &mut Routes)`; call that in `routes/mod.rs`.
//! 2. `routes.at(Access::InNamespace(Role::Operator), routes!(put))`: [`Access`] has no default. The route appears under
//!    `/api/v1`, `/v1`, and unprefixed where that is known; `also_at` adds further full paths, `at_root` takes the path
//!    as it is, `body_limit` allows larger bodies, `quiet` leaves the audit log alone.
//! 3. The handler takes `caller: Caller` and calls `caller.enter(namespace)` with the namespace *of the object* before it
//!    touches or shows it, or `caller.sees()` for lists. A handler behind [`Access::InNamespace`] that answers without
//!    having asked gets its answer withheld.
//! 4. Errors: `Result<_, Problem>` and `?`. Lists: `page: Page` and `page.list(…)`. Bodies: `body::Json`, or
//!    `body::Document` for workflows. Parameters: `body::Path`, `body::Query`, `body::Name`.
//! 5. A line per route in `tests/access.txt` (the test prints what is missing) and tests on both databases with
//!    `tests/api/test_api.rs`.

mod api;
mod audit;
mod auth;
mod body;
mod crowd;
mod detach;
mod headers;
mod health;
mod idempotency;
mod live;
mod openapi;
mod page;
mod probe;
mod problem;
mod request_span;
mod router;
mod routes;
mod serve;
mod state;
mod timed;
mod tls;
mod ui;
mod words;

pub use api::{Api, LocalAnswer, LocalRequest};
pub use auth::origin::Origins;
pub use auth::{Access, Grant, Identity, JwtAlgorithm, JwtSettings, Network, Rates, Role, RouteEntry, Token, Where};
pub use live::LiveLimits;
pub use probe::ProbeServer;
pub use problem::{Fault, Problem};
pub use serve::{HttpListener, HttpServer};
pub use state::{ConnectionLimits, Settings};
pub use tls::TlsFiles;
