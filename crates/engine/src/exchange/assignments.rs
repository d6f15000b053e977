//! From claims to assignments and decisions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_core::state::TaskState;
use mainspring_core::trace::{RunTrace, SpanOf};
use mainspring_core::work::{Assignment, Clock, Failure, Order};
use mainspring_core::{Decision, RunId, TaskKey};
use mainspring_store::{Claimed, ContinuedAs, ContinuedAttempt, DecidedStart, Ended};

use crate::artifacts::incoming_files;
use crate::exchange::caches::{self, LookupResult};
use crate::exchange::completions::without_nul;
use crate::exchange::parked;
use crate::exchange::scopes::{NoSpec, WithSpec, load, load_spec, pause, scope};
use crate::metering;
use crate::node::Shared;
use crate::spans;
use crate::specs::Spec;

/// How long a node leaves a route to other nodes after a claim that it did not understand.
const LEFT_TO_OTHERS: Duration = Duration::from_secs(5);

/// Gives claimed attempts to the workforce.
pub(crate) async fn execute(shared: &Arc<Shared>, claimed: Vec<Claimed>) {
    let Some(traces) = spans::claimed(shared, &claimed).await else { return };
    let mut ready = Vec::with_capacity(claimed.len());
    let mut later = Vec::new();
    let mut unknown = Vec::new();
    for claim in claimed {
        match shared.client.specs.cached(claim.version) {
            None => unknown.push(claim),
            Some(spec) => match spec
                .shared_order(claim.token.key.index, &shared.client.artifacts)
                .filter(|_| !may_be_overridden(&claim))
            {
                Some(order) => ready.push(assignment(&claim, order, &traces)),
                None => later.push((claim, spec)),
            },
        }
    }
    shared.assign(ready);
    if unknown.is_empty() && later.is_empty() {
        return;
    }
    for claim in unknown {
        match load_spec(shared, claim.version).await {
            Ok(spec) => later.push((claim, spec)),
            Err(NoSpec::NotUnderstood) => hand_back(shared, &claim),
            Err(NoSpec::Stopping) => {}
        }
    }
    let Some(data) = load(shared, &later, |task| vec![&task.reads]).await else { return };
    let Some(timeouts) = overrides(shared, &later).await else { return };
    let Some(mut incoming) = incoming_files(shared, &later).await else { return };
    let mut ready = Vec::with_capacity(later.len());
    let mut cached = Vec::new();
    for (claim, spec) in later {
        let index = claim.token.key.index as usize;
        let scope = scope(&shared.client, &spec, claim.token.key, &[&spec.workflow.tasks[index].reads], &data);
        let incoming = incoming.remove(&claim.token.key).unwrap_or(Ok(Vec::new()));
        match order(shared, &spec, index, &scope).await.and_then(|order| Ok((order, incoming?))) {
            Ok((mut order, incoming)) => {
                order.process.incoming = incoming;
                if let Some(ms) = timeouts.get(&claim.token.key) {
                    order.timeout_ms = u64::try_from(*ms).ok();
                }
                if spec.workflow.is_cached(index) {
                    cached.push((claim, spec, scope, order));
                } else {
                    ready.push(assignment(&claim, Arc::new(order), &traces));
                }
            }
            Err(failure) => fail(shared, &claim, failure),
        }
    }
    shared.assign(ready);
    for (claim, spec, scope, mut order) in cached {
        match caches::look_up(shared, &claim, &spec, &scope, &mut order).await {
            None => return,
            Some(Ok(LookupResult::Execute)) => shared.assign(vec![assignment(&claim, Arc::new(order), &traces)]),
            Some(Ok(LookupResult::Reused)) => {}
            Some(Err(failure)) => fail(shared, &claim, failure),
        }
    }
}

/// Only a task that was attempted before can have an operator's override.
fn may_be_overridden(claim: &Claimed) -> bool {
    claim.token.attempt > 1 || claim.generation > 0
}

/// The overrides of operators for these claims. Retries while the store is unreachable; `None` when the node stops.
async fn overrides(shared: &Shared, claims: &[WithSpec]) -> Option<HashMap<TaskKey, i64>> {
    let keys: Vec<TaskKey> =
        claims.iter().filter(|(claim, _)| may_be_overridden(claim)).map(|(claim, _)| claim.token.key).collect();
    loop {
        match shared.client.store.timeout_overrides(&keys).await {
            Ok(found) => return Some(found),
            Err(error) => tracing::warn!(%error, "reading what operators have overridden"),
        }
        pause(shared).await?;
    }
}

/// The order, without the parts that come from expressions.
async fn order(shared: &Shared, spec: &Spec, index: usize, scope: &mainspring_core::Scope) -> Result<Order, Failure> {
    let needed = spec.workflow.secrets_for(index);
    if let Some(name) = needed.iter().find(|name| !shared.client.secrets.knows(&spec.workflow.namespace, name)) {
        return Err(Failure {
            kind: "secret".into(),
            message: format!(
                "secret `{name}` does not exist: `mainspring secrets set {name}`, or MAINSPRING_SECRET_{name} in the \
                 environment of the server"
            ),
            permanent: true,
            ..Failure::default()
        });
    }
    let mut order = spec.workflow.order(index, scope)?;
    shared.client.artifacts.limit(&mut order);
    if !spec.workflow.files.is_empty() {
        let bundle = spec.bundle(&shared.client.store).await.map_err(|error| Failure {
            kind: "files".into(),
            message: format!("the files of the workflow cannot be read: {error}"),
            ..Failure::default()
        })?;
        order.files = Some(bundle);
    }
    Ok(order)
}

/// Evaluates conditions and hands the decisions in with the next exchange. Tasks that no worker executes and tasks
/// repeated over a list are parked.
pub(crate) async fn decide(shared: &Arc<Shared>, claimed: Vec<Claimed>) {
    let mut waiting: Vec<WithSpec> = Vec::with_capacity(claimed.len());
    let mut parking: Vec<WithSpec> = Vec::new();
    for claim in claimed {
        let spec = match load_spec(shared, claim.version).await {
            Ok(spec) => spec,
            Err(NoSpec::NotUnderstood) => {
                leave_undecided(shared, &claim).await;
                continue;
            }
            Err(NoSpec::Stopping) => continue,
        };
        let task = &spec.workflow.tasks[claim.token.key.index as usize];
        if task.foreach.is_some() || task.action.parks() {
            parking.push((claim, spec));
        } else {
            waiting.push((claim, spec));
        }
    }
    if !parking.is_empty() {
        // Parking has units of its own, so the lane does not wait.
        tokio::spawn(parked::decide(Arc::clone(shared), parking));
    }
    let Some(data) = load(shared, &waiting, |task| vec![&task.condition_reads]).await else { return };
    for (claim, spec) in waiting {
        let index = claim.token.key.index as usize;
        let reads = &spec.workflow.tasks[index].condition_reads;
        let scope = scope(&shared.client, &spec, claim.token.key, &[reads], &data);
        match spec.workflow.decide(index, &scope) {
            Decision::Start => {
                let start = DecidedStart { key: claim.token.key, session: claim.token.session };
                let lane = shared.gatherer().push_start(start);
                shared.client.bus.signals().wake_lane(lane);
            }
            Decision::Skip => conclude(shared, &claim, TaskState::Skipped, None, None),
            Decision::Fail(failure) => conclude(shared, &claim, TaskState::Failed, Some(failure), None),
        }
    }
}

/// Ends a task run that was being decided, with the next exchange.
pub(crate) fn conclude(
    shared: &Shared,
    claim: &Claimed,
    state: TaskState,
    failure: Option<Failure>,
    output: Option<String>,
) {
    metering::concluded(shared, claim, state);
    let ended = Ended {
        token: claim.token,
        from: TaskState::Deciding,
        state,
        started_at: None,
        finished_at: shared.client.clock.now(),
        failure: failure.map(without_nul),
        output,
    };
    let lane = shared.gatherer().push_ended(ended);
    shared.client.bus.signals().wake_lane(lane);
}

fn assignment(claim: &Claimed, order: Arc<Order>, traces: &HashMap<RunId, RunTrace>) -> Assignment {
    let (key, attempt) = (claim.token.key, claim.token.attempt);
    Assignment {
        key,
        session: claim.token.session,
        attempt,
        generation: i32::from(claim.generation),
        order,
        trace: traces.get(&key.run).map(|trace| trace.span(SpanOf::Execution(key, attempt))),
    }
}

/// Hands back an attempt that this node does not understand, because another node may. Its route is left to other nodes
/// for a while.
fn hand_back(shared: &Shared, claim: &Claimed) {
    let now = shared.client.clock.now();
    let mut gatherer = shared.gatherer();
    gatherer.finish(claim.token);
    gatherer.avoid(claim.route, Instant::now() + LEFT_TO_OTHERS);
    let lane = gatherer.push_continued(ContinuedAttempt {
        token: claim.token,
        how: ContinuedAs::Released,
        started_at: None,
        finished_at: now,
        failure: None,
    });
    drop(gatherer);
    shared.client.bus.signals().wake_lane(lane);
}

/// Leaves a decision that this node does not understand to other nodes.
async fn leave_undecided(shared: &Shared, claim: &Claimed) {
    shared.gatherer().avoid_deciding(Instant::now() + LEFT_TO_OTHERS);
    while let Err(error) = shared.client.store.leave_undecided(shared.client.now(), claim.token).await {
        tracing::warn!(%error, task = %claim.token.key, "leaving a decision to other nodes");
        if pause(shared).await.is_none() {
            return;
        }
    }
}

/// Fails an attempt that cannot begin.
fn fail(shared: &Shared, claim: &Claimed, failure: Failure) {
    let now = shared.client.clock.now();
    let mut gatherer = shared.gatherer();
    gatherer.finish(claim.token);
    let lane = gatherer.push_ended(Ended {
        token: claim.token,
        from: TaskState::Running,
        state: TaskState::Failed,
        started_at: Some(now),
        finished_at: now,
        failure: Some(without_nul(failure)),
        output: None,
    });
    drop(gatherer);
    shared.client.bus.signals().wake_lane(lane);
}
