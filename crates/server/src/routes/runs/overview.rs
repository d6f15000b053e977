//! `/workflow-runs/{id}/overview`: a run as a whole, packed for a page that draws it.

use axum::Json;
use axum::extract::State;
use mainspring_api::packed::{EarlierAttempt, RunAction, RunOverview, TaskItems, state_letter};
use mainspring_api::runs::{Run, TaskRun};
use mainspring_core::state::TaskState;
use mainspring_core::time::rfc3339;
use mainspring_core::{Micros, TaskKey, Workflow};
use mainspring_engine::Spec;
use mainspring_store::{ItemCount, RunSummary, TaskMoment};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::{self, task_name};
use super::tasks::{self, Includes};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Path, Query};
use crate::problem::Problem;
use crate::state::ApiState;

/// How many earlier attempts are shown.
const MOST_ATTEMPTS: i64 = 2_000;
const MOST_ACTIONS: i64 = 500;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(overview));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OverviewParams {
    /// `task` for everything about one task
    #[param(pattern = "^task$")]
    include: Option<String>,
    /// Which task: a name, or `name[index]` for an item; the one that failed first unless given
    task: Option<String>,
}

/// Show a run as a whole: where each task stands and when, without what it was given and what it left
#[utoipa::path(get, path = "/workflow-runs/{id}/overview", tag = "interface", params(("id" = Uuid, Path), OverviewParams),
    responses((status = 200, body = RunOverview<Run, TaskRun>)))]
pub(crate) async fn overview(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Query(params): Query<OverviewParams>,
) -> Result<Json<RunOverview<Run, TaskRun>>, Problem> {
    let summary = shapes::find(&state, &caller, id).await?;
    let client = state.client();
    let store = client.store();
    let spec = client.spec(summary.version).await?;
    let workflow = &spec.workflow;
    let run = shapes::shown(&state, id).await?;
    let moments = store.task_moments(&[id]).await?;
    let items = store.item_counts(id).await?;
    let earlier = store.attempt_spans(id, MOST_ATTEMPTS).await?;
    let actions = store.actions_of(id, MOST_ACTIONS).await?;
    let times = Times::new(workflow, summary.created_at, summary.started_at, &moments);
    let seq = summary.seq;
    let task = opened(&state, summary, &spec, id, params, times.first_failure()).await?;
    let index = |idx: i32| usize::try_from(idx).ok().filter(|idx| *idx < workflow.tasks.len());
    let earlier = earlier.into_iter().filter(|one| one.item < 0).filter_map(|one| {
        Some(EarlierAttempt {
            task: index(one.idx)?,
            attempt: one.attempt,
            started: one.started_at.map(|at| times.offset(at)),
            finished: times.offset(one.finished_at),
        })
    });
    let actions = actions.into_iter().map(|one| RunAction {
        task: one.idx.map(|idx| task_name(workflow, TaskKey { run: id, index: idx, item: one.item.unwrap_or(-1) })),
        action: one.action,
        by: one.actor,
        reason: one.reason,
        at: rfc3339(one.created_at),
    });
    Ok(Json(RunOverview {
        run,
        now: rfc3339(client.now()),
        seq,
        tasks: workflow.tasks.iter().map(|task| task.name.clone()).collect(),
        states: times.states.iter().collect(),
        items: packed_items(&items),
        earlier: earlier.collect(),
        actions: actions.collect(),
        first_failure: times.first_failure(),
        critical_path: times.critical_path(workflow),
        task,
        attempts: times.attempts,
        ready: times.ready,
        started: times.started,
        finished: times.finished,
    }))
}

/// The task that the page opens on, if it is asked for and there is one.
async fn opened(
    state: &ApiState,
    run: RunSummary,
    spec: &Spec,
    id: Uuid,
    params: OverviewParams,
    first_failure: Option<usize>,
) -> Result<Option<TaskRun>, Problem> {
    match params.include.as_deref() {
        None => return Ok(None),
        Some("task") => {}
        Some(_) => return Err(Problem::malformed("the query does not fit: include may be `task`")),
    }
    let failed = first_failure.and_then(|index| spec.workflow.tasks.get(index)).map(|task| task.name.clone());
    let Some(name) = params.task.or(failed) else { return Ok(None) };
    let wanted = Includes::read(Some("attempts,dead_letter,log_tail"))?;
    match tasks::shown(state, run, spec, id, &name, wanted).await {
        Ok(task) => Ok(Some(task)),
        // A task whose part has not begun has no task run yet, and an old link may name a task of another version.
        Err(problem) if problem.is_not_found() => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// The states of these task runs, one character per task of the workflow.
pub(crate) fn letters(count: usize, moments: &[TaskMoment]) -> Vec<char> {
    let mut letters = vec!['.'; count];
    for moment in moments {
        if let Some(letter) = usize::try_from(moment.index).ok().and_then(|index| letters.get_mut(index)) {
            *letter = state_letter(moment.state.shown().word());
        }
    }
    letters
}

fn packed_items(items: &[ItemCount]) -> Vec<TaskItems> {
    let mut found: Vec<TaskItems> = Vec::new();
    for one in items {
        let task = usize::try_from(one.index).unwrap_or(0);
        let letter = state_letter(one.state.shown().word());
        let position = found.iter().position(|known| known.task == task).unwrap_or_else(|| {
            found.push(TaskItems { task, counts: Vec::new() });
            found.len() - 1
        });
        let counts = &mut found[position].counts;
        match counts.iter_mut().find(|(known, _)| *known == letter) {
            Some((_, count)) => *count += one.count,
            None => counts.push((letter, one.count)),
        }
    }
    found
}

/// When each task could start, started and ended, in milliseconds since the run was made.
struct Times {
    created_at: Micros,
    states: Vec<char>,
    ready: Vec<Option<i64>>,
    started: Vec<Option<i64>>,
    finished: Vec<Option<i64>>,
    attempts: Vec<i32>,
    failures: Vec<(i64, usize)>,
}

impl Times {
    fn new(workflow: &Workflow, created_at: Micros, run_started: Option<Micros>, moments: &[TaskMoment]) -> Self {
        let count = workflow.tasks.len();
        let mut times = Self {
            created_at,
            states: letters(count, moments),
            ready: vec![None; count],
            started: vec![None; count],
            finished: vec![None; count],
            attempts: vec![0; count],
            failures: Vec::new(),
        };
        for moment in moments {
            let Some(index) = usize::try_from(moment.index).ok().filter(|index| *index < count) else { continue };
            times.started[index] = moment.started_at.map(|at| times.offset(at));
            times.finished[index] = moment.finished_at.map(|at| times.offset(at));
            times.attempts[index] = moment.attempt;
            if moment.state == TaskState::Failed
                && let Some(at) = moment.finished_at
            {
                times.failures.push((times.offset(at), index));
            }
        }
        let begun = run_started.map(|at| times.offset(at));
        for (index, task) in workflow.tasks.iter().enumerate().filter(|(index, _)| times.started[*index].is_some()) {
            let ends = task.needs.iter().filter_map(|need| times.finished.get(*need as usize).copied().flatten());
            times.ready[index] = ends.max().or(begun);
        }
        times
    }

    fn offset(&self, at: Micros) -> i64 {
        (at - self.created_at).max(0) / 1_000
    }

    fn first_failure(&self) -> Option<usize> {
        self.failures.iter().min().map(|(_, index)| *index)
    }

    /// From the task that ended last back along whichever dependency ended last.
    fn critical_path(&self, workflow: &Workflow) -> Vec<usize> {
        let last = (0..self.finished.len())
            .filter(|index| self.started[*index].is_some())
            .max_by_key(|index| self.finished[*index]);
        let mut path = Vec::new();
        let mut at = last.filter(|index| self.finished[*index].is_some());
        while let Some(index) = at {
            path.push(index);
            let needs = workflow.tasks[index].needs.iter().map(|need| *need as usize);
            at = needs
                .filter(|need| self.started.get(*need).is_some_and(Option::is_some))
                .max_by_key(|need| self.finished[*need]);
        }
        path.reverse();
        path
    }
}
