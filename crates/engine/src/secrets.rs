//! Values that tasks may see and nobody else. Known to the process, never stored with a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainspring_core::Workflow;
use serde_json::{Map, Value};

/// The secrets this process knows, by name.
#[derive(Clone, Default)]
pub struct Secrets {
    known: Arc<BTreeMap<String, String>>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Their values belong into no log.
        out.debug_struct("Secrets").field("names", &self.known.keys()).finish()
    }
}

impl Secrets {
    pub fn new(known: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { known: Arc::new(known.into_iter().collect()) }
    }

    /// Those of these names that exist.
    pub(crate) fn of(&self, names: &[String]) -> Map<String, Value> {
        names
            .iter()
            .filter_map(|name| self.known.get(name).map(|value| (name.clone(), Value::String(value.clone()))))
            .collect()
    }

    /// The value of one, for what this process itself checks by it.
    pub fn reveal(&self, name: &str) -> Option<&str> {
        self.known.get(name).map(String::as_str)
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Declared by the workflow, but not known here.
    pub fn missing<'w>(&self, workflow: &'w Workflow) -> Vec<&'w str> {
        workflow.secrets.iter().map(String::as_str).filter(|name| !self.known.contains_key(*name)).collect()
    }
}
