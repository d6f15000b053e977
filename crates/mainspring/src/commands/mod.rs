//! One file per command.

pub(crate) mod apply;
pub(crate) mod completions;
pub(crate) mod cron;
pub(crate) mod dev;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod fmt;
pub(crate) mod graph;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod migrate;
pub(crate) mod pools;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod server;
pub(crate) mod submit;
pub(crate) mod tasks;
pub(crate) mod testing;
pub(crate) mod trigger;
pub(crate) mod validate;
pub(crate) mod version;
