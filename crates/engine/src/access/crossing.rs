//! What definitions of one namespace do in another.
//!
//! A stored definition acts for its namespace, not for its author: a workflow of another namespace must list it in
//! `callers` when it is called or followed. Either way the other namespace reads of it in its audit log; what is allowed is
//! written in the transaction that does it.

use mainspring_store::AuditRow;
use uuid::Uuid;

use crate::client::Client;

/// A definition of one namespace that concerns a workflow of another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crossing<'a> {
    /// What it does: `CALL` or `FOLLOW`.
    pub(crate) verb: &'static str,
    /// The definition, like `workflow sales/report`.
    pub(crate) by: &'a str,
    /// The workflow that is concerned, and its namespace.
    pub(crate) namespace: &'a str,
    pub(crate) workflow: &'a str,
    /// The run or event that caused it.
    pub(crate) because_of: Uuid,
}

impl Client {
    /// The entry of the audit log that says that it was allowed.
    pub(crate) fn allowed(&self, crossing: Crossing<'_>) -> AuditRow {
        self.entry(crossing, 201)
    }

    /// Says in the audit log that it was refused, and why to the definition: the same for a workflow that is not there and for one
    /// that does not let others use it. What a namespace has is its own affair.
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
