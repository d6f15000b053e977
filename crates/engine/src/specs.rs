//! A cache of versions, which are immutable.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mainspring_core::work::{Bundle, Order};
use mainspring_core::{Scope, Workflow};
use mainspring_store::{Store, VersionRef, sees_uncommitted};
use serde_json::{Map, Value};

use crate::artifacts::Artifacts;

/// How many tasks of versions are cached; every version counts as at least a few.
const KEPT_TASKS: usize = 400_000;
const AT_LEAST: usize = 80;

/// A version with derived data.
#[derive(Debug)]
pub struct Spec {
    pub version: VersionRef,
    pub workflow: Workflow,
    /// Orders of tasks without expressions, shared by all runs.
    orders: Mutex<HashMap<i32, Arc<Order>>>,
    bundle: tokio::sync::OnceCell<Arc<Bundle>>,
}

impl Spec {
    pub(crate) fn new(version: VersionRef, workflow: Workflow) -> Self {
        Self { version, workflow, orders: Mutex::default(), bundle: tokio::sync::OnceCell::new() }
    }

    /// The order of a task whose execution needs nothing of its run.
    pub(crate) fn shared_order(&self, index: i32, artifacts: &Artifacts) -> Option<Arc<Order>> {
        let position = index as usize;
        if position >= self.workflow.tasks.len()
            || self.workflow.needs_scope(position)
            || !self.workflow.files.is_empty()
            || !self.workflow.tasks[position].files_from.is_empty()
            || self.workflow.is_cached(position)
        {
            return None;
        }
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = orders.get(&index) {
            return Some(Arc::clone(order));
        }
        let mut order = self.workflow.order(position, &Scope::default()).ok()?;
        artifacts.limit(&mut order);
        let order = Arc::new(order);
        // Each order of a very large workflow is used once per run, so keeping it would only fill memory.
        if orders.len() < 1_000 {
            orders.insert(index, Arc::clone(&order));
        }
        Some(order)
    }

    /// The files that the version brings along, read once.
    pub(crate) async fn bundle(&self, store: &Store) -> mainspring_store::Result<Arc<Bundle>> {
        let read = || async { Ok(Arc::new(Bundle { files: store.version_files(self.version.id).await? })) };
        self.bundle.get_or_try_init(read).await.map(Arc::clone)
    }

    /// The scope of expressions about the workflow itself.
    pub(crate) fn workflow_scope(&self) -> Map<String, Value> {
        let mut scope = Map::new();
        scope.insert("name".into(), self.workflow.name.clone().into());
        scope.insert("namespace".into(), self.workflow.namespace.clone().into());
        scope.insert("version".into(), self.version.number.into());
        scope
    }
}

#[derive(Debug, Default)]
struct SpecCache {
    specs: HashMap<i64, Arc<Spec>>,
    weight: usize,
}

#[derive(Debug)]
pub(crate) struct Specs {
    store: Store,
    cache: Mutex<SpecCache>,
    /// Some cached version has tasks that can be skipped in a run that succeeds.
    may_skip: AtomicBool,
}

impl Specs {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, cache: Mutex::default(), may_skip: AtomicBool::new(false) }
    }

    pub(crate) fn may_skip(&self) -> bool {
        self.may_skip.load(Ordering::Relaxed)
    }

    pub(crate) fn cached(&self, version: i64) -> Option<Arc<Spec>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).specs.get(&version).cloned()
    }

    pub(crate) async fn get(&self, version: i64) -> mainspring_store::Result<Arc<Spec>> {
        if let Some(spec) = self.cached(version) {
            return Ok(spec);
        }
        let (reference, workflow) = self.store.version(version).await?;
        Ok(self.keep(Spec::new(reference, workflow)))
    }

    /// Reads several versions; those not in the cache are read together.
    pub(crate) async fn get_many(&self, versions: &[i64]) -> mainspring_store::Result<HashMap<i64, Arc<Spec>>> {
        let mut found: HashMap<i64, Arc<Spec>> = HashMap::with_capacity(versions.len());
        let mut missing: Vec<i64> = Vec::new();
        for version in versions {
            match self.cached(*version) {
                Some(spec) => _ = found.insert(*version, spec),
                None => missing.push(*version),
            }
        }
        missing.sort_unstable();
        missing.dedup();
        for (reference, workflow) in self.store.versions(&missing).await? {
            found.insert(reference.id, self.keep(Spec::new(reference, workflow)));
        }
        Ok(found)
    }

    pub(crate) fn keep(&self, spec: Spec) -> Arc<Spec> {
        if sees_uncommitted() {
            // The version may be rolled back, and its number reused.
            return Arc::new(spec);
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cache.specs.get(&spec.version.id) {
            return Arc::clone(known);
        }
        let weight = spec.workflow.tasks.len().max(AT_LEAST);
        if cache.weight + weight > KEPT_TASKS {
            *cache = SpecCache::default();
        }
        if spec.workflow.may_skip() {
            self.may_skip.store(true, Ordering::Relaxed);
        }
        let spec = Arc::new(spec);
        cache.weight += weight;
        cache.specs.insert(spec.version.id, Arc::clone(&spec));
        spec
    }
}
