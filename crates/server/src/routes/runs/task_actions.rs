//! What people and programs do to task runs.

use axum::Json;
use axum::extract::State;
use mainspring_api::runs::TaskRun;
use mainspring_api::task_actions::{
    self as shapes, ActionBody, ActionWord, ConfigBody, ManyBody, Outcome, Outcomes, ResultBody, ResultStatus,
    SettleBody,
};
use mainspring_core::{RunId, TaskKey};
use mainspring_engine::{Acted, Answer, Spec, TaskAction};
use mainspring_store::{Operator, Reopen, RunSummary};
use serde_json::Value;
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::{find, task_key};
use super::tasks::{Includes, shown};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Json as Body, Path};
use crate::problem::Problem;
use crate::state::ApiState;

/// How many task runs one call acts on.
const MOST: usize = 500;
const MOST_ATTEMPTS: i64 = 1_000;
const MOST_TIMEOUT_MS: i64 = 365 * 24 * 3_600_000;

pub(super) fn register(routes: &mut Routes) {
    let operator = Access::InNamespace(Role::Operator);
    routes.at(operator, routes!(act)).also_at("/v1/tasks/{id}/workflow_steps/{task}/actions");
    routes.at(operator, routes!(act_on_many));
    routes.at_root(operator, routes!(act_on_steps));
    routes.at(operator, routes!(settle));
    routes.at_root(operator, routes!(settle_step));
    routes.at(operator, routes!(configure)).also_at("/v1/tasks/{id}/workflow_steps/{task}/config");
    routes.at(operator, routes!(deliver)).also_at("/v1/tasks/{id}/workflow_steps/{task}/results");
}

/// Roles of the caller in a namespace, for approvals that name some.
fn roles(caller: &Caller, namespace: &str) -> Vec<String> {
    let has = |role: &&Role| caller.identity().has_in(**role, namespace);
    Role::ALL.iter().filter(has).map(|role| role.word().to_owned()).collect()
}

fn operator(caller: &Caller, by: Option<String>, reason: Option<String>, metadata: Option<&Value>) -> Operator {
    let metadata = metadata.filter(|metadata| !metadata.is_null()).map(Value::to_string);
    Operator { metadata, ..caller.operator(by, reason) }
}

fn wanted(word: ActionWord, output: Option<Value>) -> TaskAction {
    match word {
        ActionWord::Retry => TaskAction::Retry,
        ActionWord::ResolveManually => TaskAction::ResolveManually { output },
        ActionWord::Skip => TaskAction::Skip,
        ActionWord::Cancel => TaskAction::Cancel,
        ActionWord::ResetAttempts => TaskAction::ResetAttempts,
        ActionWord::Approve => TaskAction::Approve,
        ActionWord::Reject => TaskAction::Reject,
    }
}

/// The run and the task run of the request, once the caller is authorised.
async fn aim(
    state: &ApiState,
    caller: &Caller,
    id: RunId,
    task: &str,
) -> Result<(RunSummary, std::sync::Arc<Spec>, TaskKey), Problem> {
    let run = find(state, caller, id).await?;
    let spec = state.client().spec(run.version).await?;
    let key = task_key(&spec.workflow, id, task)?;
    Ok((run, spec, key))
}

async fn show(state: &ApiState, spec: &Spec, key: TaskKey) -> Result<Json<TaskRun>, Problem> {
    let run = state.client().store().run_summary(key.run).await?;
    Ok(Json(shown(state, run, spec, key.run, &key.to_string(), Includes::default()).await?))
}

/// Act on a task run
#[utoipa::path(post, path = "/workflow-runs/{id}/tasks/{task}/actions", tag = "runs",
    params(("id" = Uuid, Path), ("task" = String, Path)), request_body = ActionBody,
    responses((status = 200, body = TaskRun), (status = 409, description = "It is not in a state for that")))]
pub(crate) async fn act(
    State(state): State<ApiState>,
    caller: Caller,
    Path((id, task)): Path<(Uuid, String)>,
    Body(body): Body<ActionBody>,
) -> Result<Json<TaskRun>, Problem> {
    let (run, spec, key) = aim(&state, &caller, id, &task).await?;
    let operator = operator(&caller, body.by, body.reason, body.metadata.as_ref());
    if let Some(inputs) = body.inputs {
        if body.action != ActionWord::Retry {
            return Err(Problem::invalid("/inputs", "only a retry takes changed inputs"));
        }
        let task = usize::try_from(key.index).unwrap_or(usize::MAX);
        state.client().reopen_with(id, &Reopen::From(vec![task]), inputs, &operator).await?;
        return show(&state, &spec, key).await;
    }
    let roles = roles(&caller, &run.namespace);
    state.client().act(key, &wanted(body.action, body.output), &operator, Some(&roles)).await?;
    show(&state, &spec, key).await
}

/// Act on many task runs of a run; each succeeds or fails by itself
#[utoipa::path(post, path = "/workflow-runs/{id}/tasks/actions", tag = "runs", params(("id" = Uuid, Path)),
    request_body = ManyBody, responses((status = 200, body = Outcomes)))]
pub(crate) async fn act_on_many(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Body(body): Body<ManyBody>,
) -> Result<Json<Outcomes>, Problem> {
    let run = find(&state, &caller, id).await?;
    if body.tasks.is_empty() || body.tasks.len() > MOST {
        return Err(Problem::invalid("/tasks", format!("name 1 to {MOST} tasks")));
    }
    let client = state.client();
    let spec = client.spec(run.version).await?;
    let operator = operator(&caller, body.by, body.reason, body.metadata.as_ref());
    let roles = roles(&caller, &run.namespace);
    let action = wanted(body.action, body.output);
    let mut items = Vec::with_capacity(body.tasks.len());
    for task in body.tasks {
        let acted = match task_key(&spec.workflow, id, &task) {
            Ok(key) => client.act(key, &action, &operator, Some(&roles)).await.map_err(Problem::from),
            Err(problem) => Err(problem),
        };
        items.push(match acted {
            Ok(acted) => {
                let word = match acted {
                    Acted::Done => shapes::Acted::Done,
                    Acted::StopRequested => shapes::Acted::Asked,
                    Acted::Reopened => shapes::Acted::Reopened,
                };
                Outcome { task, ok: true, outcome: Some(word), error: None }
            }
            Err(problem) if problem.status().is_server_error() => return Err(problem),
            Err(problem) => Outcome { task, ok: false, outcome: None, error: Some(problem.detail().to_owned()) },
        });
    }
    Ok(Json(Outcomes { items }))
}

/// Act on many steps of a task: another name of the actions on task runs
#[utoipa::path(post, path = "/v1/tasks/{id}/workflow_steps/batch", tag = "runs", params(("id" = Uuid, Path)),
    request_body = ManyBody, responses((status = 200, body = Outcomes)))]
pub(crate) async fn act_on_steps(
    state: State<ApiState>,
    caller: Caller,
    id: Path<Uuid>,
    body: Body<ManyBody>,
) -> Result<Json<Outcomes>, Problem> {
    act_on_many(state, caller, id, body).await
}

/// Resolve a task run by hand
#[utoipa::path(patch, path = "/workflow-runs/{id}/tasks/{task}", tag = "runs",
    params(("id" = Uuid, Path), ("task" = String, Path)), request_body = SettleBody,
    responses((status = 200, body = TaskRun), (status = 409, description = "It is not in a state for that")))]
pub(crate) async fn settle(
    State(state): State<ApiState>,
    caller: Caller,
    Path((id, task)): Path<(Uuid, String)>,
    Body(body): Body<SettleBody>,
) -> Result<Json<TaskRun>, Problem> {
    let (run, spec, key) = aim(&state, &caller, id, &task).await?;
    let operator = operator(&caller, body.by, body.reason, None);
    let roles = roles(&caller, &run.namespace);
    let client = state.client();
    if body.reset_attempts && !run.state.is_terminal() {
        client.act(key, &TaskAction::ResetAttempts, &operator, Some(&roles)).await?;
    }
    let word = body.action.unwrap_or(ActionWord::ResolveManually);
    client.act(key, &wanted(word, body.output), &operator, Some(&roles)).await?;
    show(&state, &spec, key).await
}

/// Resolve a step of a task by hand: another name of the same on a task run
#[utoipa::path(patch, path = "/v1/tasks/{id}/workflow_steps/{task}", tag = "runs",
    params(("id" = Uuid, Path), ("task" = String, Path)), request_body = SettleBody,
    responses((status = 200, body = TaskRun), (status = 409, description = "It is not in a state for that")))]
pub(crate) async fn settle_step(
    state: State<ApiState>,
    caller: Caller,
    path: Path<(Uuid, String)>,
    body: Body<SettleBody>,
) -> Result<Json<TaskRun>, Problem> {
    settle(state, caller, path, body).await
}

/// The timeout that was asked for, in milliseconds.
fn timeout(body: &ConfigBody) -> Result<Option<i64>, Problem> {
    let ms = match (body.timeout_seconds, body.timeout.as_deref()) {
        (None, None) => return Ok(None),
        (Some(seconds), None) => seconds.checked_mul(1_000),
        (None, Some(text)) => mainspring_core::time::parse_duration_ms(text),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("/timeout", "says the same as `timeout_seconds`: keep one of the two"));
        }
    };
    match ms.filter(|ms| (1..=MOST_TIMEOUT_MS).contains(ms)) {
        Some(ms) => Ok(Some(ms)),
        None => Err(Problem::invalid("/timeout_seconds", "must be from 1 second to 365 days")),
    }
}

/// Allow a task run other attempts, or another timeout, than its workflow says
#[utoipa::path(patch, path = "/workflow-runs/{id}/tasks/{task}/config", tag = "runs",
    params(("id" = Uuid, Path), ("task" = String, Path)), request_body = ConfigBody,
    responses((status = 200, body = TaskRun), (status = 409, description = "It runs or has ended")))]
pub(crate) async fn configure(
    State(state): State<ApiState>,
    caller: Caller,
    Path((id, task)): Path<(Uuid, String)>,
    Body(body): Body<ConfigBody>,
) -> Result<Json<TaskRun>, Problem> {
    let (_, spec, key) = aim(&state, &caller, id, &task).await?;
    let timeout = timeout(&body)?;
    if body.retry.is_none() && timeout.is_none() {
        return Err(Problem::invalid("", "say what is overridden: `retry: {attempts}`, `timeout_seconds`, or both"));
    }
    let operator = operator(&caller, body.by, body.reason, None);
    if let Some(retry) = body.retry {
        let attempts =
            i16::try_from(retry.attempts).ok().filter(|most| (1..=MOST_ATTEMPTS).contains(&i64::from(*most)));
        let Some(attempts) = attempts else {
            return Err(Problem::invalid("/retry/attempts", format!("must be from 1 to {MOST_ATTEMPTS}")));
        };
        state.client().act(key, &TaskAction::MaxAttempts(attempts), &operator, None).await?;
    }
    if let Some(timeout) = timeout {
        state.client().act(key, &TaskAction::Timeout(timeout), &operator, None).await?;
    }
    show(&state, &spec, key).await
}

/// Deliver the result that a task run waits for
#[utoipa::path(post, path = "/workflow-runs/{id}/tasks/{task}/results", tag = "runs",
    params(("id" = Uuid, Path), ("task" = String, Path)), request_body = ResultBody,
    responses((status = 200, body = TaskRun), (status = 409, description = "It does not wait for a result")))]
pub(crate) async fn deliver(
    State(state): State<ApiState>,
    caller: Caller,
    Path((id, task)): Path<(Uuid, String)>,
    Body(body): Body<ResultBody>,
) -> Result<Json<TaskRun>, Problem> {
    let (_, spec, key) = aim(&state, &caller, id, &task).await?;
    let answer = match (body.status, body.error) {
        (ResultStatus::Success, None) => Answer::Deliver { output: body.results.unwrap_or_default() },
        (ResultStatus::Success, Some(_)) => return Err(Problem::invalid("/error", "a success has no error")),
        (ResultStatus::Failed, None) => return Err(Problem::invalid("/error", "say what failed: `{message, code}`")),
        (ResultStatus::Failed, Some(error)) => Answer::DeliverFailure {
            message: match error.code {
                Some(code) => format!("{} ({code})", error.message),
                None => error.message,
            },
        },
    };
    let operator = caller.operator(body.submitted_by, None);
    state.client().answer(key, &answer, &operator, None).await?;
    show(&state, &spec, key).await
}
