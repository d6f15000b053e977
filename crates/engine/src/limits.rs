//! The concurrency limits that runs count against: their names, and their ids, read together shortly before they are needed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainspring_core::workflow::{Overlap, Trigger, Workflow};
use mainspring_store::{Result, Store, sees_uncommitted};
use uuid::Uuid;

/// What was read ahead is good for so long: meanwhile another version may give a limit another capacity.
const GOOD_FOR: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Limits {
    store: Store,
    ahead: Mutex<HashMap<LimitName, (i32, Instant)>>,
}

/// A limit by its key, with the capacity it is to have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LimitName {
    key: String,
    capacity: i32,
}

impl LimitName {
    /// That of the runs of a workflow which share a key.
    pub(crate) fn of_workflow(workflow: &Workflow, key: &str) -> Option<Self> {
        let limit = workflow.concurrency.as_ref()?.limit;
        let key = format!("{}/{}/{key}", workflow.namespace, workflow.name);
        Some(Self { key, capacity: i32::try_from(limit).unwrap_or(i32::MAX) })
    }

    /// That of one run at a time which a trigger has for itself.
    pub(crate) fn of_trigger(trigger: Uuid) -> Self {
        Self { key: format!("trigger/{trigger}"), capacity: 1 }
    }

    /// The one that a fire will count against, if that is known before its run is.
    pub(crate) fn of_fire(id: Uuid, trigger: &Trigger, workflow: &Workflow) -> Option<Self> {
        match &workflow.concurrency {
            Some(concurrency) if concurrency.key.is_none() => Self::of_workflow(workflow, ""),
            Some(_) => None,
            None => is_exclusive(trigger.overlap).then(|| Self::of_trigger(id)),
        }
    }
}

/// Whether fires with this policy ask for a limit.
pub(crate) fn is_exclusive(overlap: Option<Overlap>) -> bool {
    overlap.is_some_and(|overlap| overlap != Overlap::Allow)
}

impl Limits {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, ahead: Mutex::default() }
    }

    /// Finds or makes those that will be asked for soon, all at once.
    pub(crate) async fn read_ahead(&self, names: impl Iterator<Item = LimitName>) -> Result<()> {
        let mut names: Vec<LimitName> = {
            let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
            ahead.retain(|_, (_, read_at)| read_at.elapsed() < GOOD_FOR);
            names.filter(|name| !ahead.contains_key(name)).collect()
        };
        names.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        names.dedup_by(|one, other| one.key == other.key);
        if names.is_empty() {
            return Ok(());
        }
        let wanted: Vec<(String, i32)> = names.iter().map(|name| (name.key.clone(), name.capacity)).collect();
        let ids = self.store.concurrency_limits(&wanted).await?;
        if sees_uncommitted() {
            return Ok(());
        }
        let now = Instant::now();
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.extend(names.into_iter().zip(ids).map(|(name, id)| (name, (id, now))));
        Ok(())
    }

    pub(crate) async fn get(&self, name: &LimitName) -> Result<i32> {
        let read = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied();
        match read {
            Some((id, read_at)) if read_at.elapsed() < GOOD_FOR => Ok(id),
            _ => self.store.concurrency_limit(&name.key, name.capacity).await,
        }
    }
}
