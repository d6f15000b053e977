//! Workflow definitions: immutable versions, the catalog, and the files they bring along.

pub(crate) mod catalog;
pub(crate) mod files;
pub(crate) mod pauses;
mod task_templates;
pub(crate) mod versions;
