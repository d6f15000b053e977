//! Live updates over HTTP: a WebSocket at `/ws/updates`, server-sent events at `/events/stream`, and the log of a task
//! run.
//!
//! A subscription is authorised when it is made, and again while it lasts. Connections are bounded per token and in
//! total. Each holds at most a page of events, and a client that does not take its messages is disconnected.

mod caps;
pub(crate) mod logs;
mod socket;
mod stream;
mod wanted;

pub(crate) use caps::Caps;
pub use caps::LiveLimits;

use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::identity::Role;

pub(crate) fn register(routes: &mut Routes) {
    routes.at_root(Access::InNamespace(Role::Viewer), routes!(socket::updates));
    routes.at(Access::InNamespace(Role::Viewer), routes!(stream::events));
}
