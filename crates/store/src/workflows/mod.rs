//! Workflow definitions: immutable versions, the catalog, and the files they bring along.

pub(crate) mod catalog;
pub(crate) mod files;
mod task_templates;
pub(crate) mod versions;
