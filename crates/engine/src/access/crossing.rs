//! What definitions of one namespace do in another.
//!
//! A stored definition acts for its namespace, not for its author: a workflow of another namespace must list that
//! namespace in `callers` before it can be called or followed. Both outcomes are written to the audit log of the other
//! namespace; an allowed crossing is written in the transaction that performs it.

use mainspring_store::AuditRow;
use uuid::Uuid;

use crate::client::Client;

/// A definition of one namespace that concerns a workflow of another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crossing<'a> {
    /// The access: `CALL` or `FOLLOW`.
    pub(crate) verb: &'static str,
    /// The definition, like `workflow sales/report`.
    pub(crate) by: &'a str,
    /// The workflow that is called or followed, and its namespace.
    pub(crate) namespace: &'a str,
    pub(crate) workflow: &'a str,
    /// The run or event that caused it.
    pub(crate) because_of: Uuid,
}

impl Client {
    /// The audit row of an allowed crossing.
    pub(crate) fn allowed(&self, crossing: Crossing<'_>) -> AuditRow {
        self.entry(crossing, 201)
    }

    /// Writes a refused crossing to the audit log, and returns the reason for the definition. The reason is the same
    /// for a workflow that does not exist and for one that does not list the caller, so that a namespace cannot be
    /// probed.
    pub(crate) async fn refused(&self, crossing: Crossing<'_>, own: &str) -> mainspring_store::Result<String> {
        self.store.add_audit(&self.entry(crossing, 403)).await?;
        Ok(not_callable(crossing.namespace, crossing.workflow, own))
    }

    fn entry(&self, crossing: Crossing<'_>, status: i16) -> AuditRow {
        AuditRow {
            id: self.clock().new_id(),
            at: self.now(),
            actor: crossing.by.to_owned(),
            address: None,
            method: crossing.verb.to_owned(),
            path: format!("/workflows/{}", crossing.workflow),
            namespace: Some(crossing.namespace.to_owned()),
            status,
            request_id: crossing.because_of.to_string(),
            detail: None,
        }
    }
}

/// Why a definition of `from` cannot use a workflow of another namespace.
pub fn not_callable(namespace: &str, name: &str, from: &str) -> String {
    format!(
        "namespace `{namespace}` has no workflow `{name}` that namespace `{from}` may use: its author lists `{from}` in `callers`"
    )
}
