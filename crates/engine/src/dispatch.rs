//! From claims to assignments and decisions: loads what expressions look at, once per batch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::state::TaskState;
use mainspring_core::work::{Assignment, Clock, Failure};
use mainspring_core::workflow::Reads;
use mainspring_core::{Decision, RunId, Scope, TaskView};
use mainspring_store::{Claimed, DecidedStart, Ended, ExpressionData};
use serde_json::Value;

use crate::client::run_scope;
use crate::node::Shared;
use crate::specs::Spec;

/// Gives claimed attempts to the workforce.
pub(crate) async fn execute(shared: &Arc<Shared>, claimed: Vec<Claimed>) {
    let mut ready = Vec::with_capacity(claimed.len());
    let mut later = Vec::new();
    let mut unknown = Vec::new();
    for claim in claimed {
        match shared.client.specs.cached(claim.version) {
            None => unknown.push(claim),
            Some(spec) => match spec.shared_order(claim.token.key.index) {
                Some(order) => ready.push(assignment(&claim, order)),
                None => later.push((claim, spec)),
            },
        }
    }
    shared.workforce.assign(ready);
    if unknown.is_empty() && later.is_empty() {
        return;
    }
    for claim in unknown {
        if let Some(spec) = load_spec(shared, claim.version).await {
            later.push((claim, spec));
        }
    }
    let Some(data) = load(shared, &later, |spec, index| &spec.workflow.tasks[index].reads).await else { return };
    let mut ready = Vec::with_capacity(later.len());
    for (claim, spec) in later {
        let index = claim.token.key.index as usize;
        let scope = scope(&spec, claim.token.key.run, &spec.workflow.tasks[index].reads, &data);
        match spec.workflow.order(index, &scope) {
            Ok(order) => ready.push(assignment(&claim, Arc::new(order))),
            Err(failure) => fail(shared, &claim, failure),
        }
    }
    shared.workforce.assign(ready);
}

/// Evaluates conditions and hands the decisions in with the next exchange.
pub(crate) async fn decide(shared: &Arc<Shared>, claimed: Vec<Claimed>) {
    let mut waiting = Vec::with_capacity(claimed.len());
    for claim in claimed {
        if let Some(spec) = load_spec(shared, claim.version).await {
            waiting.push((claim, spec));
        }
    }
    let Some(data) = load(shared, &waiting, |spec, index| &spec.workflow.tasks[index].condition_reads).await else {
        return;
    };
    let now = shared.client.clock.now();
    for (claim, spec) in waiting {
        let index = claim.token.key.index as usize;
        let scope = scope(&spec, claim.token.key.run, &spec.workflow.tasks[index].condition_reads, &data);
        let ended = |state, failure| Ended {
            token: claim.token,
            from: TaskState::Deciding,
            state,
            started_at: None,
            finished_at: now,
            failure,
            output: None,
        };
        let decision = spec.workflow.decide(index, &scope);
        let mut inbox = shared.inbox();
        let lane = match decision {
            Decision::Start => inbox.push_start(DecidedStart { key: claim.token.key, session: claim.token.session }),
            Decision::Skip => inbox.push_ended(ended(TaskState::Skipped, None)),
            Decision::Fail(failure) => inbox.push_ended(ended(TaskState::Failed, Some(failure))),
        };
        drop(inbox);
        shared.client.bell.ring(lane);
    }
}

fn assignment(claim: &Claimed, order: Arc<mainspring_core::work::Order>) -> Assignment {
    Assignment {
        key: claim.token.key,
        session: claim.token.session,
        attempt: claim.token.attempt,
        generation: i32::from(claim.generation),
        order,
    }
}

/// An attempt that cannot even begin.
fn fail(shared: &Shared, claim: &Claimed, failure: Failure) {
    let now = shared.client.clock.now();
    let mut inbox = shared.inbox();
    inbox.finish(claim.token);
    let lane = inbox.push_ended(Ended {
        token: claim.token,
        from: TaskState::Running,
        state: TaskState::Failed,
        started_at: Some(now),
        finished_at: now,
        failure: Some(failure),
        output: None,
    });
    drop(inbox);
    shared.client.bell.ring(lane);
}

/// Reads a version, however long the store is away; the claim is ours meanwhile. `None` when the node stops.
async fn load_spec(shared: &Shared, version: i64) -> Option<Arc<Spec>> {
    loop {
        match shared.client.specs.get(version).await {
            Ok(spec) => return Some(spec),
            Err(error) => tracing::warn!(%error, version, "reading a version"),
        }
        shared.stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(200))).await?;
    }
}

async fn load(
    shared: &Shared,
    claims: &[(Claimed, Arc<Spec>)],
    reads: impl Fn(&Spec, usize) -> &Reads,
) -> Option<ExpressionData> {
    let mut runs: Vec<RunId> = Vec::new();
    let mut upstream: Vec<(RunId, i32)> = Vec::new();
    for (claim, spec) in claims {
        let key = claim.token.key;
        if !spec.workflow.inputs.is_empty() {
            runs.push(key.run);
        }
        upstream.extend(reads(spec, key.index as usize).tasks.iter().map(|task| (key.run, *task)));
    }
    runs.sort_unstable();
    runs.dedup();
    upstream.sort_unstable();
    upstream.dedup();
    if runs.is_empty() && upstream.is_empty() {
        return Some(ExpressionData::default());
    }
    loop {
        match shared.client.store.expression_data(&runs, &upstream).await {
            Ok(data) => return Some(data),
            Err(error) => tracing::warn!(%error, "reading what expressions look at"),
        }
        shared.stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(200))).await?;
    }
}

fn scope(spec: &Spec, run: RunId, reads: &Reads, data: &ExpressionData) -> Scope {
    let inputs = match data.inputs.get(&run) {
        Some(Value::Object(inputs)) => inputs.clone(),
        _ => serde_json::Map::new(),
    };
    let mut tasks = HashMap::new();
    for index in &reads.tasks {
        if let Some((status, attempts, output)) = data.tasks.get(&(run, *index)) {
            let name = spec.workflow.tasks[*index as usize].name.clone();
            tasks.insert(name, TaskView { status: *status, attempts: *attempts, output: output.clone() });
        }
    }
    Scope {
        inputs,
        run: run_scope(run),
        workflow: spec.workflow_scope(),
        tasks: tasks.into_iter().collect(),
        ..Scope::default()
    }
}
