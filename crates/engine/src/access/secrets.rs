//! Secrets: values that only tasks may see. They are configured in this process, or stored sealed and opened when a
//! task that needs them is claimed. They are never stored with a run.
//!
//! A secret of the namespace takes precedence over one of the process with the same name. Opened secrets are cached for
//! a moment, so that a busy node does not read them for every task; changes made through another node appear when the
//! cache expires.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainspring_boxed::boxed;
use mainspring_core::Workflow;
use mainspring_store::Store;
use serde_json::{Map, Value};

use crate::access::vault::{Vault, VaultError};
use crate::client::Client;

const REMEMBERED: Duration = Duration::from_secs(5);
/// Requests can name namespaces that do not exist, so the cache is bounded.
const MOST_NAMESPACES: usize = 1_000;

/// The secrets this process knows or can open, by name. Clones share them.
#[derive(Clone, Default)]
pub struct Secrets {
    known: Arc<BTreeMap<String, String>>,
    /// Which namespaces may use secrets of this process: `namespace`, `namespace/NAME`, or `*`. `None` allows every
    /// namespace.
    allowed: Option<Arc<Vec<String>>>,
    vault: Vault,
    opened: Arc<Mutex<HashMap<String, OpenedSecrets>>>,
}

/// The opened secrets of a namespace, as of the last read.
struct OpenedSecrets {
    at: Instant,
    values: BTreeMap<String, String>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secret values must not reach a log.
        out.debug_struct("Secrets").field("names", &self.known.keys()).field("vault", &self.vault).finish()
    }
}

impl Secrets {
    pub fn new(known: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { known: Arc::new(known.into_iter().collect()), ..Self::default() }
    }

    /// Adds the keys of the secrets in the store.
    #[must_use]
    pub fn with_vault(mut self, vault: Vault) -> Self {
        self.vault = vault;
        self
    }

    /// Restricts the secrets of this process to these: `namespace`, `namespace/NAME`, or `*`.
    #[must_use]
    pub fn allow(mut self, allowed: impl IntoIterator<Item = String>) -> Self {
        self.allowed = Some(Arc::new(allowed.into_iter().collect()));
        self
    }

    /// A secret of this process, for a namespace that may use it.
    fn known(&self, namespace: &str, name: &str) -> Option<&String> {
        let is_allowed = self.allowed.as_ref().is_none_or(|allowed| {
            allowed.iter().any(|entry| match entry.split_once('/') {
                None => entry == "*" || entry == namespace,
                Some((owner, secret)) => (owner == "*" || owner == namespace) && (secret == "*" || secret == name),
            })
        });
        self.known.get(name).filter(|_| is_allowed)
    }

    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Drops the cache of a namespace: the next task that needs a secret reads them again.
    pub fn forget(&self, namespace: &str) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace);
    }

    /// Reads and opens the secrets of a namespace. A fresh cache that has all of `names` is used instead; a missing
    /// name may just have been set through another node. A secret that does not open is logged and left out, and a task
    /// that needs it fails with its name.
    pub(crate) async fn prepare<N: AsRef<str>>(
        &self,
        store: &Store,
        namespace: &str,
        names: &[N],
    ) -> mainspring_store::Result<()> {
        let is_complete = || names.iter().all(|name| self.knows(namespace, name.as_ref()));
        if !self.vault.has_key() || self.is_fresh(namespace) && is_complete() {
            return Ok(());
        }
        let mut values = BTreeMap::new();
        for secret in store.sealed_secrets(namespace).await? {
            match self.vault.open(namespace, &secret) {
                Ok(value) => _ = values.insert(secret.name, value),
                Err(error) => tracing::error!(%error, namespace, "opening a secret"),
            }
        }
        let opened = OpenedSecrets { at: Instant::now(), values };
        let mut all = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_NAMESPACES {
            all.retain(|_, opened| opened.at.elapsed() < REMEMBERED && !opened.values.is_empty());
        }
        if all.len() >= MOST_NAMESPACES {
            all.clear();
        }
        all.insert(namespace.to_owned(), opened);
        Ok(())
    }

    fn is_fresh(&self, namespace: &str) -> bool {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.get(namespace).is_some_and(|opened| opened.at.elapsed() < REMEMBERED)
    }

    /// Those of these secrets that exist for a prepared namespace.
    pub(crate) fn of(&self, namespace: &str, names: &[String]) -> Map<String, Value> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = opened.get(namespace);
        names
            .iter()
            .filter_map(|name| {
                let value = kept.and_then(|opened| opened.values.get(name)).or_else(|| self.known(namespace, name))?;
                Some((name.clone(), Value::String(value.clone())))
            })
            .collect()
    }

    /// One secret of a prepared namespace, for checks that this process makes itself.
    pub(crate) fn reveal(&self, namespace: &str, name: &str) -> Option<String> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened
            .get(namespace)
            .and_then(|opened| opened.values.get(name))
            .or_else(|| self.known(namespace, name))
            .cloned()
    }

    pub(crate) fn knows(&self, namespace: &str, name: &str) -> bool {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        self.known(namespace, name).is_some()
            || opened.get(namespace).is_some_and(|opened| opened.values.contains_key(name))
    }

    /// Secrets that the workflow declares and this process does not know.
    pub fn missing<'w>(&self, workflow: &'w Workflow) -> Vec<&'w str> {
        workflow.secrets.iter().map(String::as_str).filter(|name| !self.knows(&workflow.namespace, name)).collect()
    }
}

#[boxed]
impl Client {
    /// Seals and stores a value. Returns whether the name is new.
    pub async fn put_secret(&self, namespace: &str, name: &str, value: &str, by: &str) -> Result<bool, PutSecretError> {
        let sealed = self.secrets.vault().seal(namespace, name, value)?;
        let is_new = self.store.put_secret(self.now(), namespace, &sealed, by).await?;
        self.secrets.forget(namespace);
        Ok(is_new)
    }

    pub async fn delete_secret(&self, namespace: &str, name: &str) -> mainspring_store::Result<()> {
        self.store.delete_secret(namespace, name).await?;
        self.secrets.forget(namespace);
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PutSecretError {
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] mainspring_store::Error),
}
