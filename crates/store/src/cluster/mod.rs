//! The processes that share a database: worker sessions, leadership, and wake-up hints between them.

pub(crate) mod sessions;
pub(crate) mod terms;
pub(crate) mod wake;
