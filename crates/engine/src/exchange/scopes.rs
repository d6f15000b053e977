//! The data of expressions: loaded once per batch, made into one scope per task run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::plan::EndedTasks;
use mainspring_core::workflow::{Reads, Task};
use mainspring_core::{RunId, Scope, TaskKey, TaskView};
use mainspring_store::{Claimed, Error, ExpressionData};
use serde_json::Value;

use crate::client::{Client, run_scope};
use crate::node::Shared;
use crate::specs::Spec;

/// A claim with the version it belongs to.
pub(crate) type WithSpec = (Claimed, Arc<Spec>);

/// Why a version is not available.
pub(crate) enum NoSpec {
    /// This program does not understand the version; a newer one may have written it.
    NotUnderstood,
    /// The node stops.
    Stopping,
}

/// Reads a version. Retries while the store is unreachable, because the claim belongs to this node.
pub(crate) async fn load_spec(shared: &Shared, version: i64) -> Result<Arc<Spec>, NoSpec> {
    loop {
        match shared.client.specs.get(version).await {
            Ok(spec) => return Ok(spec),
            Err(error @ Error::BadRow { .. }) => {
                tracing::error!(%error, version, "this node does not understand a version; its tasks are left to other nodes");
                return Err(NoSpec::NotUnderstood);
            }
            Err(error) => tracing::warn!(%error, version, "reading a version"),
        }
        pause(shared).await.ok_or(NoSpec::Stopping)?;
    }
}

/// The data of the expressions of some claims.
#[derive(Default)]
pub(crate) struct Loaded {
    data: ExpressionData,
    /// Present for runs with an expression that reads failures.
    failures: HashMap<RunId, EndedTasks>,
}

impl Loaded {
    /// For expressions that cannot read failures.
    pub(crate) fn without_failures(data: ExpressionData) -> Self {
        Self { data, failures: HashMap::new() }
    }
}

/// Loads the data of the expressions of these claims. Retries while the store is unreachable; `None` when the node
/// stops.
pub(crate) async fn load(shared: &Shared, claims: &[WithSpec], reads: impl Fn(&Task) -> Vec<&Reads>) -> Option<Loaded> {
    for (claim, spec) in claims.iter().filter(|(_, spec)| !spec.workflow.secrets.is_empty()) {
        let names = spec.workflow.secrets_for(claim.token.key.index as usize);
        let (client, namespace) = (&shared.client, &spec.workflow.namespace);
        while let Err(error) = client.secrets.prepare(&client.store, namespace, &names).await {
            tracing::warn!(%error, "reading secrets");
            pause(shared).await?;
        }
    }
    let mut failures = HashMap::new();
    let mut runs: Vec<RunId> = Vec::new();
    let mut upstream: Vec<(RunId, i32)> = Vec::new();
    let mut items: Vec<TaskKey> = Vec::new();
    for (claim, spec) in claims {
        let key = claim.token.key;
        if !spec.workflow.inputs.is_empty() || spec.workflow.reads_schedule {
            runs.push(key.run);
        }
        if key.item >= 0 {
            items.push(key);
        }
        for reads in reads(&spec.workflow.tasks[key.index as usize]) {
            upstream.extend(reads.tasks.iter().map(|task| (key.run, *task)));
            if reads.failures && !failures.contains_key(&key.run) {
                failures.insert(key.run, load_failures(shared, key.run).await?);
            }
        }
    }
    runs.sort_unstable();
    runs.dedup();
    upstream.sort_unstable();
    upstream.dedup();
    if runs.is_empty() && upstream.is_empty() && items.is_empty() {
        return Some(Loaded { failures, ..Loaded::default() });
    }
    loop {
        match shared.client.store.expression_data(&runs, &upstream, &items).await {
            Ok(data) => return Some(Loaded { data, failures }),
            Err(error) => tracing::warn!(%error, "reading what expressions look at"),
        }
        pause(shared).await?;
    }
}

async fn load_failures(shared: &Shared, run: RunId) -> Option<EndedTasks> {
    loop {
        match shared.client.store.run_failures(run).await {
            Ok(failures) => return Some(failures),
            Err(error) => tracing::warn!(%error, %run, "reading what failed"),
        }
        pause(shared).await?;
    }
}

/// The scope of the expressions of one task run.
pub(crate) fn scope(client: &Client, spec: &Spec, key: TaskKey, reads: &[&Reads], loaded: &Loaded) -> Scope {
    let data = &loaded.data;
    let failures = loaded.failures.get(&key.run);
    let inputs = match data.inputs.get(&key.run) {
        Some(Value::Object(inputs)) => inputs.clone(),
        _ => serde_json::Map::new(),
    };
    let mut tasks = HashMap::new();
    for index in reads.iter().flat_map(|reads| &reads.tasks) {
        if let Some((status, attempts, output)) = data.tasks.get(&(key.run, *index)) {
            let name = spec.workflow.tasks[*index as usize].name.clone();
            let error = failures.and_then(|failures| failures.error(*index)).cloned();
            tasks.insert(name, TaskView { status: *status, attempts: *attempts, output: output.clone(), error });
        }
    }
    let mut run = run_scope(key.run, data.triggers.get(&key.run));
    if let Some(failures) = failures {
        spec.workflow.describe_end(failures, &mut run);
    }
    Scope {
        inputs,
        run,
        workflow: spec.workflow_scope(),
        tasks: tasks.into_iter().collect(),
        secrets: client.secrets.of(&spec.workflow.namespace, &spec.workflow.secrets_for(key.index as usize)),
        item: data.items.get(&key).cloned(),
        index: (key.item >= 0).then_some(key.item as u32),
        ..Scope::default()
    }
}

/// Waits a moment before a retry. `None` when the node stops.
pub(crate) async fn pause(shared: &Shared) -> Option<()> {
    shared.stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(200))).await
}
