//! The processes that share a database: members, worker sessions, leadership, named locks, and wake-up hints between them.

pub(crate) mod locks;
pub(crate) mod members;
pub(crate) mod remote_sessions;
mod session_retention;
pub(crate) mod sessions;
mod sharing;
pub(crate) mod terms;
pub(crate) mod wake;
