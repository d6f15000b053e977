//! The web interface: its static files, and the sessions of the people who use it.
//!
//! - [`files`]: what `npm run build` left in `ui/dist`, embedded; every page is the same document;
//! - [`cookie`]: when a session cookie counts as a credential;
//! - [`session`]: from a token or a one-time code to a session, and back.
//!
//! A session is opaque, stored as a hash, bound to its token and bounded in time. What a page shows comes from the
//! aggregate routes under `routes/`, which are guarded like every other route.

pub(crate) mod cookie;
mod files;
pub(crate) mod session;

use crate::auth::access::Routes;

pub(crate) fn register(routes: &mut Routes) {
    files::register(routes);
    session::register(routes);
}
