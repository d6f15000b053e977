//! One file per command.

pub(crate) mod completions;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod fmt;
pub(crate) mod graph;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod migrate;
pub(crate) mod pools;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod server;
pub(crate) mod submit;
pub(crate) mod testing;
pub(crate) mod validate;
pub(crate) mod version;
