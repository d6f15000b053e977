//! Assembles the routes and the layers around them.
//!
//! From outside inwards: trace and audit log, headers, compression, guard, task of its own for what writes,
//! idempotency, handler. Every layer sees every request,
//! also those that match nothing.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use mainspring_engine::Client;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;

use crate::auth::access::Routes;
use crate::auth::guard;
use crate::problem::Problem;
use crate::state::{ApiState, Settings};
use crate::{audit, detach, headers, idempotency, routes};

/// The router with everything around it, and the state that it shares.
pub(crate) fn assemble(client: Client, settings: Settings) -> Result<(Router, ApiState), String> {
    let mut routes = Routes::default();
    routes::register(&mut routes);
    let Routes { router, entries, .. } = routes;
    let state = ApiState::new(client, settings, entries)?;
    let router = router
        .fallback(async || Problem::not_found("there is nothing under this path"))
        .layer(CatchPanicLayer::custom(|_| axum::response::IntoResponse::into_response(Problem::internal())))
        .layer(from_fn_with_state(state.clone(), idempotency::layer))
        .layer(from_fn_with_state(state.clone(), detach::layer))
        .layer(from_fn_with_state(state.clone(), guard::guard))
        .layer(CompressionLayer::new().gzip(true))
        .layer(from_fn(headers::layer))
        .layer(from_fn_with_state(state.clone(), audit::layer))
        .with_state(state.clone());
    Ok((router, state))
}
