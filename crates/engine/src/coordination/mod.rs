//! Which node leads.

pub(crate) mod leader;
