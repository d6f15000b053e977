//! The HTTP executor: requests to public addresses, and to others that the operator allows.
//!
//! One connection per request, HTTP/1.1, without proxies, cookies, caches or decompression. Redirects are followed here,
//! so that the guard judges each hop.

mod answer;
mod client;
mod connect;
mod expect;
mod guard;
mod ranges;
mod request;
mod resolve;
mod task;

pub use client::{ClientError, HttpClient, HttpConfig};
pub use guard::{Allow, AllowError, Guard};
pub(crate) use request::{Request, identify};
pub use resolve::{Resolve, ResolveFuture, SystemResolver};
pub(crate) use task::HttpTask;
