//! One file per command.

pub(crate) mod apply;
pub(crate) mod completions;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod migrate;
pub(crate) mod pools;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod server;
pub(crate) mod submit;
pub(crate) mod tasks;
pub(crate) mod trigger;
pub(crate) mod validate;
pub(crate) mod version;
