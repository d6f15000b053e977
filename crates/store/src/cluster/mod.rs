//! The processes that share a database: members, worker sessions, leadership, named locks, and wake-up hints between them.

pub(crate) mod locks;
pub(crate) mod members;
pub(crate) mod sessions;
pub(crate) mod terms;
pub(crate) mod wake;
