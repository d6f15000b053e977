//! `/overview`: what needs a person now. One request for the first page of the web interface.
//!
//! Each part is read with the namespaces that the caller may see, and the number of statements does not depend on how
//! much there is.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use axum::Json;
use axum::extract::State;
use mainspring_api::overview::{
    AwaitedApproval, LetterGroup, MissedFire, NextRun, Overview, QueueState, RunBrief, WorkerTotals,
};
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_core::{Micros, TaskKey};
use mainspring_engine::Spec;
use mainspring_store::{ApprovalRow, LetterRow, OpenRunRow, RunFilter, RunSummary};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::pauses;
use super::runs::shapes::task_name;
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Name, Query};
use crate::problem::Problem;
use crate::state::ApiState;

const DAY: Micros = 24 * 3_600 * 1_000_000;
/// An open run to which nothing happens for so long is shown as stale.
const STALE_AFTER: Micros = 3_600 * 1_000_000;
const MOST_COUNTED: i64 = 1_000;
const SHOWN: usize = 20;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(overview));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OverviewParams {
    /// Only of this namespace
    namespace: Option<Name>,
}

/// Show what needs a person, what runs, and what comes next
#[utoipa::path(get, path = "/overview", tag = "interface", params(OverviewParams), responses((status = 200, body = Overview)))]
pub(crate) async fn overview(
    State(state): State<ApiState>,
    caller: Caller,
    Query(within): Query<OverviewParams>,
) -> Result<Json<Overview>, Problem> {
    let seen = caller.sees_of(within.namespace.as_ref().map(Name::as_str))?;
    let names = seen.as_deref();
    let client = state.client();
    let (store, now) = (client.store(), client.now());
    let letters = store.pending_letters(names, MOST_COUNTED).await?;
    let approvals = store.asked_approvals(names, SHOWN as i64).await?;
    let failed = RunFilter {
        state: Some(RunState::Failed),
        namespaces: seen.clone(),
        since: Some(now - DAY),
        limit: SHOWN as i64,
        ..RunFilter::default()
    };
    let failed = store.list_runs(&failed).await?;
    let open = store.open_run_rows(names, MOST_COUNTED).await?;
    let specs =
        specs(&state, letters.iter().map(|row| row.version).chain(approvals.iter().map(|row| row.version))).await?;
    let stale = open.iter().filter(|run| now - run.progress_at > STALE_AFTER).take(SHOWN).map(brief).collect();
    Ok(Json(Overview {
        now: rfc3339(now),
        dead_letters_pending: letters.len(),
        dead_letters: groups(&letters, &specs),
        failed: failed.iter().map(ended).collect(),
        approvals: approvals.iter().map(|row| approval(row, &specs)).collect(),
        stale,
        missed: missed(&state, names, now).await?,
        running_count: open.len(),
        running: open.iter().take(SHOWN).map(brief).collect(),
        queues: queues(&state, names).await?,
        pauses: pauses::seen(&state, names).await?,
        next: upcoming(&state, names).await?,
        workers: workers(&state).await?,
    }))
}

type Specs = HashMap<i64, std::sync::Arc<Spec>>;

/// The versions of rows. The engine caches them: a statement is needed only for a new version.
async fn specs(state: &ApiState, versions: impl Iterator<Item = i64>) -> Result<Specs, Problem> {
    let mut found = Specs::new();
    for version in versions {
        if let Entry::Vacant(entry) = found.entry(version) {
            entry.insert(state.client().spec(version).await?);
        }
    }
    Ok(found)
}

fn named(specs: &Specs, version: i64, key: TaskKey) -> String {
    specs.get(&version).map_or_else(|| key.index.to_string(), |spec| task_name(&spec.workflow, key))
}

/// Letters of one task with one kind of error, the newest group first.
fn groups(letters: &[LetterRow], specs: &Specs) -> Vec<LetterGroup> {
    let mut groups: Vec<(LetterGroup, Option<i32>, Option<String>)> = Vec::new();
    for row in letters {
        let known = groups.iter_mut().find(|(group, idx, kind)| {
            group.namespace == row.namespace
                && group.workflow == row.workflow
                && *idx == row.idx
                && *kind == row.error_type
                && group.fingerprint == row.fingerprint
        });
        match known {
            Some((group, ..)) => {
                group.count += 1;
                group.first_seen = rfc3339(row.created_at);
            }
            None => {
                let task = row.idx.map(|idx| named(specs, row.version, TaskKey::new(row.run_id, idx)));
                let seen = rfc3339(row.created_at);
                let group = LetterGroup {
                    namespace: row.namespace.clone(),
                    workflow: row.workflow.clone(),
                    task,
                    error: row.error_message.clone(),
                    count: 1,
                    first_seen: seen.clone(),
                    last_seen: seen,
                    run_id: row.run_id,
                    fingerprint: row.fingerprint.clone(),
                };
                groups.push((group, row.idx, row.error_type.clone()));
            }
        }
    }
    groups.into_iter().map(|(group, ..)| group).take(SHOWN).collect()
}

fn approval(row: &ApprovalRow, specs: &Specs) -> AwaitedApproval {
    let key = TaskKey { run: row.run_id, index: row.idx, item: row.item };
    let body: Option<serde_json::Value> = row.body.as_deref().and_then(|body| serde_json::from_str(body).ok());
    let message = body.as_ref().and_then(|body| {
        ["message", "prompt", "text"].iter().find_map(|name| body.get(name)?.as_str().map(str::to_owned))
    });
    AwaitedApproval {
        run_id: row.run_id,
        namespace: row.namespace.clone(),
        workflow: row.workflow.clone(),
        task: named(specs, row.version, key),
        message,
        since: rfc3339(row.created_at),
        until: row.due_at.map(rfc3339),
    }
}

fn brief(row: &OpenRunRow) -> RunBrief {
    RunBrief {
        id: row.id,
        namespace: row.namespace.clone(),
        workflow: row.workflow.clone(),
        version: row.version,
        status: row.state.word().to_owned(),
        open_tasks: row.open_tasks,
        failed_tasks: row.failed_tasks,
        created_at: rfc3339(row.created_at),
        started_at: row.started_at.map(rfc3339),
        finished_at: None,
        progress_at: Some(rfc3339(row.progress_at)),
    }
}

fn ended(run: &RunSummary) -> RunBrief {
    RunBrief {
        id: run.id,
        namespace: run.namespace.clone(),
        workflow: run.workflow.clone(),
        version: run.version_number,
        status: run.state.word().to_owned(),
        open_tasks: run.open_tasks,
        failed_tasks: 0,
        created_at: rfc3339(run.created_at),
        started_at: run.started_at.map(rfc3339),
        finished_at: run.finished_at.map(rfc3339),
        progress_at: None,
    }
}

async fn missed(state: &ApiState, names: Option<&[String]>, now: Micros) -> Result<Vec<MissedFire>, Problem> {
    let rows = state.client().store().missed_fires(names, now - DAY, SHOWN as i64).await?;
    let shown = rows.into_iter().map(|row| MissedFire {
        schedule_id: row.id,
        namespace: row.namespace,
        workflow: row.workflow,
        schedule: row.name,
        scheduled_for: rfc3339(row.nominal_at),
        until: row.until_at.map(rfc3339),
        count: row.count,
        reason: row.reason,
    });
    Ok(shown.collect())
}

async fn queues(state: &ApiState, names: Option<&[String]>) -> Result<Vec<QueueState>, Problem> {
    let rows = state.client().store().queues(names).await?;
    let shown = rows.into_iter().map(|row| QueueState {
        namespace: row.namespace,
        queue: row.queue,
        ready: row.ready,
        oldest_at: rfc3339(row.oldest_at),
    });
    Ok(shown.collect())
}

async fn upcoming(state: &ApiState, names: Option<&[String]>) -> Result<Vec<NextRun>, Problem> {
    let rows = state.client().store().upcoming_fires(names, SHOWN as i64).await?;
    let shown = rows.into_iter().map(|row| NextRun {
        schedule_id: row.id,
        namespace: row.namespace,
        workflow: row.workflow,
        schedule: row.name,
        fire_at: rfc3339(row.fire_at),
    });
    Ok(shown.collect())
}

async fn workers(state: &ApiState) -> Result<WorkerTotals, Problem> {
    let store = state.client().store();
    let mut totals = WorkerTotals::default();
    for session in store.live_sessions().await? {
        match session.draining {
            true => totals.draining += 1,
            false => totals.active += 1,
        }
        totals.slots += i64::from(session.slots);
    }
    totals.running = store.running_by_session().await?.iter().map(|(_, running)| running).sum();
    Ok(totals)
}
