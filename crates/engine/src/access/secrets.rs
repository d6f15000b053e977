//! Values that only tasks may see. Known to the process, or kept sealed in the store and opened when a task
//! that needs them is claimed; never stored with a run.
//!
//! A secret of the namespace stands before one of the process with the same name. What was opened is remembered for a
//! moment, so that a busy node does not read it for every task; a change made through another node is seen by then.

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
/// Requests can name namespaces that do not exist: no more of them are remembered.
const MOST_NAMESPACES: usize = 1_000;

/// The secrets this process knows or can open, by name. Clones share them.
#[derive(Clone, Default)]
pub struct Secrets {
    known: Arc<BTreeMap<String, String>>,
    /// Who may see what the process knows: `namespace`, `namespace/NAME`, or `*`. Every namespace unless it is given.
    allowed: Option<Arc<Vec<String>>>,
    vault: Vault,
    opened: Arc<Mutex<HashMap<String, Opened>>>,
}

/// What a namespace had when it was looked at.
struct Opened {
    at: Instant,
    values: BTreeMap<String, String>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Their values belong into no log.
        out.debug_struct("Secrets").field("names", &self.known.keys()).field("vault", &self.vault).finish()
    }
}

impl Secrets {
    pub fn new(known: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { known: Arc::new(known.into_iter().collect()), ..Self::default() }
    }

    /// The same with the keys of what is kept in the store.
    #[must_use]
    pub fn with_vault(mut self, vault: Vault) -> Self {
        self.vault = vault;
        self
    }

    /// The same, with what the process knows only for these: `namespace`, `namespace/NAME`, or `*`.
    #[must_use]
    pub fn allow(mut self, allowed: impl IntoIterator<Item = String>) -> Self {
        self.allowed = Some(Arc::new(allowed.into_iter().collect()));
        self
    }

    /// What the process knows under a name, for a namespace that may see it.
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

    /// Looks at a namespace again with the next task that needs one of its secrets.
    pub fn forget(&self, namespace: &str) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace);
    }

    /// Reads and opens the secrets of a namespace, unless that was done a moment ago and all of `names` were found: one
    /// that is missing may just have been set through another node. What does not open is left out and said in the
    /// log; a task that needs it fails with its name.
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
        let opened = Opened { at: Instant::now(), values };
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

    /// Those of these names that exist for a namespace that was prepared.
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

    /// The value of one in a namespace that was prepared, for what this process itself checks by it.
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

    /// Declared by the workflow, but not known to this process.
    pub fn missing<'w>(&self, workflow: &'w Workflow) -> Vec<&'w str> {
        workflow.secrets.iter().map(String::as_str).filter(|name| !self.knows(&workflow.namespace, name)).collect()
    }
}

#[boxed]
impl Client {
    /// Seals a value and keeps it; whether there was none of that name.
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
