//! Live updates over HTTP: a WebSocket at `/ws/updates`, server-sent events at `/events/stream`, and the log of a task run
//! as it is written.
//!
//! Who may see what is asked when a subscription is made, and again while it lasts. Connections are bounded per token and
//! in all; each holds a page of events at most, and one that does not take what it is sent is closed.

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
