//! Counts task runs that ended with their run and were never executed, because of an upstream failure, a cancellation
//! or a trigger rule. They are read from the history of the run, off the lane.

use std::sync::Arc;

use mainspring_core::RunId;
use mainspring_telemetry::Event;
use tokio::sync::mpsc;

use crate::node::Shared;

const AT_ONCE: usize = 500;

pub(crate) async fn run(shared: Arc<Shared>, mut ended: mpsc::UnboundedReceiver<RunId>) {
    let mut runs = Vec::with_capacity(AT_ONCE);
    while shared.stop.run_until_cancelled(ended.recv_many(&mut runs, AT_ONCE)).await.is_some_and(|count| count > 0) {
        let client = &shared.client;
        match client.store.ends_without_attempt(&runs).await {
            Ok(ends) => {
                for (version, index, state) in ends {
                    let Ok(spec) = client.specs.get(version).await else { continue };
                    if let Some(task) = usize::try_from(index).ok().and_then(|index| spec.workflow.tasks.get(index)) {
                        client.metrics.record(Event::TaskEnded { task_type: task.action.kind(), status: state.word() });
                    }
                }
            }
            Err(error) => tracing::debug!(%error, runs = runs.len(), "counting what ended with runs"),
        }
        runs.clear();
    }
}
