//! Namespaces: their quotas, and what is deleted together with one.

use mainspring_boxed::boxed;
use mainspring_store::{Error, Operator, Quotas, Result};

use crate::bus::{AccessChange, AccessKind};
use crate::client::Client;

/// How many runs one deletion cancels.
const CANCELLED_AT_ONCE: i64 = 500;

/// Why a namespace was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteNamespaceError {
    #[error("the namespace has workflows or secrets")]
    InUse,
    /// Running tasks take a moment to end.
    #[error("{0} runs of the namespace are being cancelled")]
    RunsEnding(i64),
    #[error(transparent)]
    Store(#[from] Error),
}

#[boxed]
impl Client {
    pub async fn create_namespace(&self, name: &str, description: Option<&str>, quotas: Quotas) -> Result<()> {
        self.store.add_namespace(self.now(), name, description, quotas).await?;
        self.quotas_changed(name);
        Ok(())
    }

    pub async fn change_namespace(&self, name: &str, description: Option<&str>, quotas: Quotas) -> Result<()> {
        self.store.set_namespace(self.now(), name, description, quotas).await?;
        self.quotas_changed(name);
        Ok(())
    }

    /// Deletes an empty namespace, or with `cascade` one with everything in it. Its open runs are cancelled first.
    /// While some of them have not ended, nothing is deleted, and the caller should repeat the call.
    pub async fn delete_namespace(&self, name: &str, cascade: bool, by: &str) -> Result<(), DeleteNamespaceError> {
        self.store.namespace(name).await?;
        if !cascade && self.store.is_used(name).await? {
            return Err(DeleteNamespaceError::InUse);
        }
        let open = self.store.open_run_ids(name, CANCELLED_AT_ONCE).await?;
        if !open.is_empty() {
            let operator = Operator::new(by, Some(format!("namespace {name} is deleted")));
            for run in &open {
                self.cancel(*run, &operator).await?;
            }
            let left = self.store.open_runs(name, CANCELLED_AT_ONCE).await?;
            if left > 0 {
                return Err(DeleteNamespaceError::RunsEnding(left));
            }
        }
        self.store.delete_namespace(self.now(), name).await?;
        self.quotas_changed(name);
        self.secrets.forget(name);
        self.access_changed(AccessChange { kind: AccessKind::Tokens, namespace: None }).await;
        Ok(())
    }
}
