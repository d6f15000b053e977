//! One file per command.

pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod graph;
pub(crate) mod migrate;
pub(crate) mod pools;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod server;
pub(crate) mod submit;
pub(crate) mod testing;
pub(crate) mod validate;
pub(crate) mod version;
