//! HTTP: the only crate that names axum.
//!
//! What is served without a token is matched exactly and listed in `router`; everything else is refused there before
//! anything is looked up.

mod health;
mod problem;
mod router;
mod serve;

pub use serve::{HttpListener, HttpServer};
