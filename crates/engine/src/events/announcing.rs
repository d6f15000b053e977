//! Events that tasks announce when they succeed.
//!
//! An event is written down before the task's end is handed in, under an id that follows from the task run and its
//! generation: a repeated execution announces nothing new, and a node that dies in between loses nothing.

use mainspring_core::TaskKey;
use mainspring_core::work::Clock;
use mainspring_store::{EventRow, Lineage};
use serde_json::Value;
use uuid::Uuid;

use crate::bus::BusMessage;
use crate::exchange::scopes::pause;
use crate::node::Shared;
use crate::specs::Spec;

/// Announces what a task run that succeeds says it announces, however long the store is away.
pub(crate) async fn publish(shared: &Shared, spec: &Spec, key: TaskKey, generation: i32, output: Option<&Value>) {
    let task = &spec.workflow.tasks[key.index as usize];
    if task.publishes_events.is_empty() {
        return;
    }
    let Some(lineage) = lineage(shared, key).await else { return };
    for name in &task.publishes_events {
        let event = EventRow {
            id: event_id(key, generation, name),
            namespace: spec.workflow.namespace.clone(),
            name: name.clone(),
            key: Some(key.run.to_string()),
            data: output.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new())),
            source: format!("task {} of run {}", task.name, key.run),
            run: Some(key.run),
            depth: lineage.depth.saturating_add(1),
            cause: Some(lineage.cause),
            trace: None,
            created_at: shared.client.clock.now(),
        };
        loop {
            match shared.client.store.insert_event(&event).await {
                Ok(()) => break,
                Err(error) => tracing::warn!(%error, task = %key, "announcing an event"),
            }
            if pause(shared).await.is_none() {
                return;
            }
        }
    }
    shared.client.bus.signals().wake_promotion();
    shared.client.bus.publish(BusMessage::EventsPending);
}

/// What led to this run, however long the store is away. `None` when the node stops.
async fn lineage(shared: &Shared, key: TaskKey) -> Option<Lineage> {
    loop {
        match shared.client.store.lineage(key.run).await {
            Ok(lineage) => return Some(lineage),
            Err(error) => tracing::warn!(%error, task = %key, "reading what started a run"),
        }
        pause(shared).await?;
    }
}

/// The same for the same task run and generation on every node: FNV-1a over all of it.
fn event_id(key: TaskKey, generation: i32, name: &str) -> Uuid {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let numbers = [key.index, key.item, generation].map(i32::to_be_bytes).concat();
    let all = key.run.as_bytes().iter().chain(&numbers).chain(name.as_bytes());
    let hash = all.fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    uuid::Builder::from_custom_bytes(hash.to_be_bytes()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_one_id_per_generation() {
        let key = TaskKey { run: Uuid::from_u128(7), index: 1, item: -1 };
        assert_eq!(event_id(key, 0, "a.b"), event_id(key, 0, "a.b"));
        let others = [
            event_id(key, 1, "a.b"),
            event_id(key, 0, "a.c"),
            event_id(TaskKey { item: 0, ..key }, 0, "a.b"),
            event_id(TaskKey { index: 2, ..key }, 0, "a.b"),
        ];
        assert!(!others.contains(&event_id(key, 0, "a.b")));
    }
}
