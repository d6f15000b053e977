//! What a namespace may use: quotas and secrets.

pub(crate) mod crossing;
pub(crate) mod namespaces;
pub(crate) mod quotas;
pub(crate) mod secrets;
pub(crate) mod vault;
