//! Lists, one entry, statistics, causes, and what to look at first.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use mainspring_api::dlq::{DlqBar, DlqEntry, DlqGroup, DlqQueueItem, DlqReasonStats, DlqStats};
use mainspring_core::TaskKey;
use mainspring_core::dead_letter::{Resolution, normalised};
use mainspring_core::time::rfc3339;
use mainspring_store::{DeadLetter, GroupRow, LetterFilter, Queued, ReasonStatistics};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::{Form, enter, find, minutes, reason, refresh, resolution};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{InNamespace, Name, OfNamespace, Path, Query};
use crate::openapi::words::{AnyRunId, ReasonWord, ResolutionWord};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::routes::runs::instant;
use crate::routes::workflows::shapes::find as find_workflow;
use crate::state::ApiState;

const LIST: &str = "dead-letters";
const USUAL: i64 = 20;
const USUAL_QUEUE: i64 = 100;
/// Aliases of the parameters of a list.
const ALIASES: [&str; 3] = ["resolution_status", "dlq_reason", "dagId"];

pub(super) fn register(routes: &mut Routes) {
    let viewer = Access::InNamespace(Role::Viewer);
    routes.at(viewer, routes!(list)).also_takes(&ALIASES);
    routes.at(viewer, routes!(stats));
    routes.at(viewer, routes!(queue)).also_takes(&ALIASES);
    routes.at(viewer, routes!(groups)).also_takes(&ALIASES);
    routes.at(viewer, routes!(of_run));
    routes.at(viewer, routes!(of_task));
    routes.at(viewer, routes!(show));
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LetterParams {
    /// `pending`, `retried`, `skipped`, `resolved`, `permanent_failure` or `cancelled`; also as `resolution_status`
    #[serde(alias = "resolution_status")]
    #[param(inline, value_type = Option<ResolutionWord>)]
    status: Option<String>,
    /// Why they are there; also as `dlq_reason`
    #[serde(alias = "dlq_reason")]
    #[param(inline, value_type = Option<ReasonWord>)]
    reason: Option<String>,
    /// Of this workflow, by id or name; also as `dagId`
    #[serde(alias = "dagId")]
    #[param(value_type = Option<Name>)]
    workflow: Option<String>,
    /// Of tasks of this name
    task: Option<String>,
    /// Of this run
    #[param(value_type = Option<String>, format = "uuid")]
    run: Option<Uuid>,
    /// Of one cause
    fingerprint: Option<String>,
    /// Only of this namespace
    namespace: Option<Name>,
    /// Made at this time or later, RFC 3339
    #[param(format = "date-time")]
    since: Option<String>,
    /// Made before this time, RFC 3339
    #[param(format = "date-time")]
    until: Option<String>,
}

impl LetterParams {
    async fn filter(&self, state: &ApiState, caller: &Caller) -> Result<LetterFilter, Problem> {
        let namespaces = caller.sees_of(self.namespace.as_ref().map(Name::as_str))?;
        let workflow = match &self.workflow {
            None => None,
            Some(text) => {
                let within = InNamespace { namespace: self.namespace.clone() };
                Some(find_workflow(state, caller, text, &within).await?.id)
            }
        };
        Ok(LetterFilter {
            status: resolution(self.status.as_deref())?,
            reason: reason(self.reason.as_deref())?,
            workflow,
            task: self.task.clone(),
            run: self.run,
            fingerprint: self.fingerprint.clone(),
            namespaces,
            since: instant("since", self.since.as_deref())?,
            until: instant("until", self.until.as_deref())?,
            ..LetterFilter::default()
        })
    }
}

impl LetterParams {
    /// For a list by rank: its cursor is a place in it.
    async fn ranked(
        &self,
        state: &ApiState,
        caller: &Caller,
        page: &Page,
        list: &str,
    ) -> Result<LetterFilter, Problem> {
        let mut filter = self.filter(state, caller).await?;
        refresh(state).await?;
        (filter.offset, filter.limit) = (page.after::<i64>(list)?.unwrap_or(page.offset), page.fetch());
        Ok(filter)
    }
}

/// A page of a list by rank that begins at a place.
fn ranked<T, S: Serialize>(page: &Page, list: &str, begin: i64, rows: Vec<T>, show: impl Fn(T) -> S) -> List<S> {
    page.list(list, (begin + 1..).zip(rows).collect(), |row: &(i64, T)| row.0, |(_, row)| show(row))
}

/// List dead letters, newest first
#[utoipa::path(get, path = "/dlq", tag = "dead letters", params(PageParams, LetterParams),
    responses((status = 200, body = List<DlqEntry>), (status = 404, description = "There is no such workflow")))]
pub(super) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    form: Form,
    page: Page,
    Query(params): Query<LetterParams>,
) -> Result<Response, Problem> {
    let page = form.page(page, USUAL);
    let mut filter = params.filter(&state, &caller).await?;
    refresh(&state).await?;
    let store = state.client().store();
    let total = page.total(store.count_letters(&filter, crate::page::MOST_COUNTED)).await?;
    (filter.before, filter.offset, filter.limit) = (page.after(LIST)?, page.offset, page.fetch());
    let rows = store.letters(&filter).await?;
    let list = page.list(LIST, rows, |letter: &DeadLetter| letter.id, |letter| form.entry(letter));
    Ok(form.list(list.with_total(total)))
}

/// Show a dead letter with everything that is known of it
#[utoipa::path(get, path = "/dlq/{id}", tag = "dead letters", params(("id" = Uuid, Path)),
    responses((status = 200, body = DlqEntry)))]
pub(super) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    form: Form,
    Path(id): Path<Uuid>,
) -> Result<Json<DlqEntry>, Problem> {
    Ok(Json(form.entry(find(&state, &caller, id).await?)))
}

/// Show the newest dead letter of a run; a pending one before all others
#[utoipa::path(get, path = "/dlq/run/{run_id}", tag = "dead letters", params(("run_id" = Uuid, Path)),
    responses((status = 200, body = DlqEntry)))]
pub(super) async fn of_run(
    State(state): State<ApiState>,
    caller: Caller,
    form: Form,
    Path(run): Path<Uuid>,
) -> Result<Json<DlqEntry>, Problem> {
    newest(&state, &caller, form, run, None).await
}

/// Show the newest dead letter of a task run, or of a run
#[utoipa::path(get, path = "/dlq/task/{id}", tag = "dead letters",
    params(("id" = inline(AnyRunId), Path, description = "The id of a run or of a task run")), responses((status = 200, body = DlqEntry)))]
pub(super) async fn of_task(
    State(state): State<ApiState>,
    caller: Caller,
    form: Form,
    Path(id): Path<String>,
) -> Result<Json<DlqEntry>, Problem> {
    if let Ok(run) = id.parse::<Uuid>() {
        return newest(&state, &caller, form, run, None).await;
    }
    let key: TaskKey = id.parse().map_err(|error| Problem::malformed(format!("the path does not fit: {error}")))?;
    newest(&state, &caller, form, key.run, Some(key)).await
}

async fn newest(
    state: &ApiState,
    caller: &Caller,
    form: Form,
    run: Uuid,
    task: Option<TaskKey>,
) -> Result<Json<DlqEntry>, Problem> {
    let none = || Problem::not_found("the run or task run has no dead letter");
    refresh(state).await?;
    let Some(letter) = state.client().store().letter_of(run, task).await? else {
        caller.sees();
        return Err(none());
    };
    enter(caller, &letter).map_err(|_| none())?;
    Ok(Json(form.entry(letter)))
}

/// Count dead letters by status and reason
#[utoipa::path(get, path = "/dlq/stats", tag = "dead letters", params(OfNamespace), responses((status = 200, body = DlqStats)))]
pub(super) async fn stats(
    State(state): State<ApiState>,
    caller: Caller,
    Query(within): Query<OfNamespace>,
) -> Result<Json<DlqStats>, Problem> {
    let namespaces = caller.sees_of(within.namespace.as_ref().map(Name::as_str))?;
    let client = state.client();
    let filter = LetterFilter { namespaces, ..LetterFilter::default() };
    let lines = client.store().letter_statistics(&filter).await?;
    let count = |status: Resolution| lines.iter().map(|line| line.by_status[status as usize]).sum();
    let oldest = lines.iter().filter_map(|line| line.oldest_pending).min();
    Ok(Json(DlqStats {
        pending_count: count(Resolution::Pending),
        retried_count: count(Resolution::Retried),
        skipped_count: count(Resolution::Skipped),
        resolved_count: count(Resolution::Resolved),
        permanent_failure_count: count(Resolution::PermanentFailure),
        cancelled_count: count(Resolution::Cancelled),
        oldest_pending_age_seconds: oldest.map(|oldest| (client.now() - oldest).max(0) as f64 / 1_000_000.0),
        by_reason: lines.iter().map(of_reason).collect(),
    }))
}

fn of_reason(line: &ReasonStatistics) -> DlqReasonStats {
    let of = |status: Resolution| line.by_status[status as usize];
    DlqReasonStats {
        dlq_reason: line.reason.word().to_owned(),
        total_entries: line.total,
        pending: of(Resolution::Pending),
        retried: of(Resolution::Retried),
        skipped: of(Resolution::Skipped),
        manually_resolved: of(Resolution::Resolved),
        permanent_failures: of(Resolution::PermanentFailure),
        cancelled: of(Resolution::Cancelled),
        oldest_entry: rfc3339(line.oldest),
        newest_entry: rfc3339(line.newest),
        avg_resolution_time_minutes: line.average_resolution.map(|taken| minutes(taken as i64)),
    }
}

/// List pending dead letters, what to look at first coming first
#[utoipa::path(get, path = "/dlq/investigation-queue", tag = "dead letters", params(PageParams, LetterParams),
    responses((status = 200, body = List<DlqQueueItem>), (status = 404, description = "There is no such workflow")))]
pub(super) async fn queue(
    State(state): State<ApiState>,
    caller: Caller,
    form: Form,
    page: Page,
    Query(params): Query<LetterParams>,
) -> Result<Response, Problem> {
    let page = form.page(page, USUAL_QUEUE);
    let filter = params.ranked(&state, &caller, &page, "queue").await?;
    let client = state.client();
    let rows = client.store().letter_queue(client.now(), &filter).await?;
    Ok(form.list(ranked(&page, "queue", filter.offset, rows, |row| queued(form, row))))
}

fn queued(form: Form, row: Queued) -> DlqQueueItem {
    let letter = row.letter;
    DlqQueueItem {
        aliases: form.aliases(&letter),
        dlq_entry_id: letter.id,
        run_id: letter.run,
        task_run_id: letter.task.map(|task| task.to_string()),
        dlq_reason: letter.reason.word().to_owned(),
        priority_score: (row.score * 100.0).round() / 100.0,
        minutes_in_dlq: minutes(row.waited),
        namespace: letter.namespace,
        workflow: letter.workflow,
        task_name: letter.task_name,
        error_type: letter.error_type,
        error_message: letter.error_message,
        fingerprint: letter.fingerprint,
    }
}

/// List causes: dead letters with the same workflow, task, type of error and message, the most frequent first; pending ones
/// unless `status` says otherwise
#[utoipa::path(get, path = "/dlq/groups", tag = "dead letters", params(PageParams, LetterParams),
    responses((status = 200, body = List<DlqGroup>), (status = 404, description = "There is no such workflow")))]
pub(super) async fn groups(
    State(state): State<ApiState>,
    caller: Caller,
    form: Form,
    page: Page,
    Query(params): Query<LetterParams>,
) -> Result<Response, Problem> {
    let page = form.page(page, USUAL);
    let mut filter = params.ranked(&state, &caller, &page, "groups").await?;
    filter.status = filter.status.or(Some(Resolution::Pending));
    let client = state.client();
    let rows = client.store().letter_groups(client.now(), &filter).await?;
    Ok(form.list(ranked(&page, "groups", filter.offset, rows, |row| group(form, row))))
}

fn group(form: Form, row: GroupRow) -> DlqGroup {
    let newest = row.samples.first();
    let task =
        |letter: &DeadLetter| letter.task_name.as_deref().map(|name| name.split('[').next().unwrap_or(name).to_owned());
    DlqGroup {
        count: row.count,
        first_seen: rfc3339(row.first_seen),
        last_seen: rfc3339(row.last_seen),
        namespace: newest.map(|letter| letter.namespace.clone()).unwrap_or_default(),
        workflow: newest.map(|letter| letter.workflow.clone()).unwrap_or_default(),
        workflow_id: newest.and_then(|letter| letter.workflow_id),
        task_name: newest.and_then(task),
        dlq_reason: newest.map(|letter| letter.reason.word().to_owned()).unwrap_or_default(),
        error_type: newest.and_then(|letter| letter.error_type.clone()),
        message: newest.and_then(|letter| letter.error_message.as_deref()).map(normalised).unwrap_or_default(),
        histogram: row.histogram.into_iter().map(|(from, count)| DlqBar { from: rfc3339(from), count }).collect(),
        fingerprint: row.fingerprint,
        samples: row.samples.into_iter().map(|letter| form.entry(letter)).collect(),
    }
}
