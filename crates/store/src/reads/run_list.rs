//! Lists of runs: what they are chosen by, and how the chosen ones are found without an index over their states.

use mainspring_boxed::boxed;
use mainspring_core::state::RunState;
use mainspring_core::{Micros, RunId};
use serde_json::Value;
use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::db::{Acquired, Flavor, Store, read};
use crate::error::Result;
use crate::reads::clauses::{in_namespaces, tagged};
use crate::reads::rows::{RunSummary, SUMMARY, SummaryRow};

/// Which runs to list; newest first unless asked otherwise.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub state: Option<RunState>,
    pub namespace: Option<String>,
    pub workflow: Option<String>,
    pub workflow_id: Option<Uuid>,
    /// Only runs of these namespaces; `None` is all of them.
    pub namespaces: Option<Vec<String>>,
    /// The kind of what started them: `manual`, `cron`, `event`, …
    pub trigger: Option<String>,
    /// A tag of the version they are of.
    pub tag: Option<String>,
    pub correlation_id: Option<String>,
    pub input: Option<InputValue>,
    pub since: Option<Micros>,
    pub until: Option<Micros>,
    /// Only runs that took at least so long, those that are open until the given time.
    pub longer_than: Option<(Micros, Micros)>,
    /// The cursor: only runs that come behind this one in the order of the list.
    pub before: Option<RunId>,
    pub oldest_first: bool,
    pub offset: i64,
    pub limit: i64,
}

/// The value of an input that runs are found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputValue {
    name: String,
    /// As the text itself is stored.
    text: String,
    /// As the value is stored that the text is in JSON; the text once more if it is none.
    json: String,
}

impl InputValue {
    /// `5` is the number and the text `"5"`: what was meant depends on the workflow.
    pub fn new(name: &str, value: &str) -> Self {
        let text = Value::from(value).to_string();
        let json = serde_json::from_str::<Value>(value).map_or_else(|_| text.clone(), |value| value.to_string());
        Self { name: name.to_owned(), text, json }
    }
}

/// How many open runs one step of listing them looks at.
const OPEN_RUNS_PER_PAGE: usize = 200;
/// How many open runs one count reads; a run costs only its id there.
const OPEN_RUNS_PER_COUNT: usize = 5_000;

/// The runs with live rows before one, newest first: from each the index leads to the next, past all other rows of it.
const OPEN_RUNS: &str = "WITH RECURSIVE open (run_id) AS ( \
         SELECT (SELECT t.run_id FROM task_runs t WHERE t.run_id < $1 ORDER BY t.run_id DESC LIMIT 1) \
         UNION ALL \
         SELECT (SELECT t.run_id FROM task_runs t WHERE t.run_id < o.run_id ORDER BY t.run_id DESC LIMIT 1) FROM open o WHERE o.run_id IS NOT NULL \
     ) SELECT run_id FROM open WHERE run_id IS NOT NULL LIMIT $2";

const CONTINUED_RUNS: &str =
    "SELECT DISTINCT run_id FROM continuations WHERE run_id < $1 ORDER BY run_id DESC LIMIT $2";

const PUT_OFF_RUNS: &str = "SELECT run_id FROM starts WHERE run_id < $1 ORDER BY run_id DESC LIMIT $2";

/// Looked for among those that wait for a limit, never along the key of all runs.
const EMPTY_QUEUED_RUNS: &str = "WITH queued AS MATERIALIZED (SELECT id, open FROM runs WHERE waits_for IS NOT NULL) \
     SELECT id FROM queued WHERE open = 0 AND id < $1 ORDER BY id DESC LIMIT $2";

macro_rules! filtered {
    ($database:ty, $flavor:expr, $filter:expr, $among:expr) => {
        filtered!(
            $database,
            $flavor,
            $filter,
            $among,
            SUMMARY,
            if $filter.oldest_first { " ORDER BY r.id LIMIT " } else { " ORDER BY r.id DESC LIMIT " }
        )
    };
    ($database:ty, $flavor:expr, $filter:expr, $among:expr, $head:expr, $limit:expr) => {{
        let filter = $filter;
        let mut query = QueryBuilder::<$database>::new($head);
        // Nothing indexes the state of runs: unsuccessful ones have a table of their own, open ones are found by what is live
        // of them and named here.
        match filter.state {
            Some(RunState::Failed | RunState::Cancelled) => query.push(" JOIN unsuccessful_runs u ON u.run_id = r.id"),
            _ => &mut query,
        };
        query.push(" WHERE 1 = 1");
        let among: Option<&[RunId]> = $among;
        if let Some(among) = among {
            let mut ids = query.push(" AND r.id IN (").separated(", ");
            for id in among {
                ids.push_bind(*id);
            }
            query.push(")");
        }
        if let Some(state) = filter.state {
            query.push(" AND r.state = ").push_bind(state.code());
        }
        if let Some(namespace) = &filter.namespace {
            query.push(" AND w.namespace = ").push_bind(namespace);
        }
        if let Some(workflow) = &filter.workflow {
            query.push(" AND w.name = ").push_bind(workflow);
        }
        if let Some(workflow) = filter.workflow_id {
            query.push(" AND r.workflow_id = ").push_bind(workflow);
        }
        in_namespaces!(query, &filter.namespaces);
        if let Some(trigger) = &filter.trigger {
            // A run without a recorded cause was started by hand.
            let json = match $flavor {
                Flavor::Postgres => "CAST(d.trigger AS json)",
                Flavor::Sqlite => "d.trigger",
            };
            query.push(format_args!(
                " AND coalesce((SELECT {json} ->> 'kind' FROM run_details d WHERE d.run_id = r.id), 'manual') = "
            ));
            query.push_bind(trigger);
        }
        tagged!(query, $flavor, &filter.tag);
        if let Some(correlation) = &filter.correlation_id {
            query
                .push(" AND r.id IN (SELECT run_id FROM run_details WHERE correlation_id = ")
                .push_bind(correlation)
                .push(")");
        }
        if let Some(input) = &filter.input {
            // Compared as they are written, by the same program: no text of an input needs to be decoded for it.
            query.push(match $flavor {
                Flavor::Postgres => {
                    " AND EXISTS (SELECT 1 FROM run_details d WHERE d.run_id = r.id AND CAST(CAST(d.inputs AS json) -> "
                }
                Flavor::Sqlite => {
                    " AND EXISTS (SELECT 1 FROM run_details d, json_each(d.inputs) j WHERE d.run_id = r.id AND j.key = "
                }
            });
            query.push_bind(&input.name).push(match $flavor {
                Flavor::Postgres => " AS text) IN (",
                Flavor::Sqlite => " AND d.inputs -> j.fullkey IN (",
            });
            query.push_bind(&input.text).push(", ").push_bind(&input.json).push("))");
        }
        if let Some(since) = filter.since {
            query.push(" AND r.created_at >= ").push_bind(since);
        }
        if let Some(until) = filter.until {
            query.push(" AND r.created_at < ").push_bind(until);
        }
        if let Some((least, now)) = filter.longer_than {
            query.push(" AND coalesce(r.finished_at, ").push_bind(now);
            query.push(") - coalesce(r.started_at, r.created_at) >= ").push_bind(least);
        }
        if let Some(before) = filter.before {
            query.push(if filter.oldest_first { " AND r.id > " } else { " AND r.id < " }).push_bind(before);
        }
        query.push($limit).push_bind(filter.limit);
        query.push(" OFFSET ").push_bind(filter.offset);
        query
    }};
}

#[boxed]
impl Store {
    pub async fn list_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>> {
        match filter.state {
            Some(RunState::Pending | RunState::Running | RunState::Paused) => self.list_open_runs(filter).await,
            _ => self.select_runs(filter, None).await,
        }
    }

    /// How many there are, counted up to `most` by the database.
    pub async fn count_runs(&self, filter: &RunFilter, most: i64) -> Result<i64> {
        let filter = &RunFilter { before: None, offset: 0, limit: most, oldest_first: false, ..filter.clone() };
        if !matches!(filter.state, Some(RunState::Pending | RunState::Running | RunState::Paused)) {
            return self.count_selected(filter, None).await;
        }
        let mut page = filter.clone();
        let mut count = 0;
        while count < most {
            let open = self.page_of_open_runs(page.before, page.state, OPEN_RUNS_PER_COUNT).await?;
            let Some(oldest) = open.last().copied() else { break };
            count += self.count_selected(&page, Some(&open)).await?;
            page.before = Some(oldest);
        }
        Ok(count.min(most))
    }

    /// Counts without reading what is not asked for, in whatever order the rows come.
    async fn count_selected(&self, filter: &RunFilter, among: Option<&[RunId]>) -> Result<i64> {
        let mut head = "SELECT count(*) FROM (SELECT 1 AS one FROM runs r".to_owned();
        if filter.tag.is_some() {
            head.push_str(" JOIN versions v ON v.id = r.version");
        }
        if filter.namespace.is_some() || filter.namespaces.is_some() || filter.workflow.is_some() {
            head.push_str(" JOIN workflows w ON w.id = r.workflow_id");
        }
        let (count,): (i64,) = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                let mut query = filtered!(sqlx::Postgres, Flavor::Postgres, filter, among, head, " LIMIT ");
                query.push(") c").build_query_as().fetch_one(pg.connection()).await?
            }
            Acquired::Sqlite(sqlite) => {
                let mut query = filtered!(sqlx::Sqlite, Flavor::Sqlite, filter, among, head, " LIMIT ");
                query.push(") c").build_query_as().fetch_one(sqlite.connection().await?).await?
            }
        };
        Ok(count)
    }

    /// Walks the open runs from the newest on, page by page, until enough of them fit. A page costs one step of an index
    /// per run, however many live rows a run has.
    async fn list_open_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>> {
        let left_out = usize::try_from(filter.offset).unwrap_or(0);
        let wanted = usize::try_from(filter.limit).unwrap_or(0).saturating_add(left_out);
        if filter.oldest_first {
            return self.oldest_open_runs(filter, left_out, wanted).await;
        }
        let mut page = RunFilter { limit: OPEN_RUNS_PER_PAGE as i64, offset: 0, ..filter.clone() };
        let mut found = Vec::new();
        while found.len() < wanted {
            let open = self.page_of_open_runs(page.before, page.state, OPEN_RUNS_PER_PAGE).await?;
            let Some(oldest) = open.last().copied() else { break };
            found.extend(self.select_runs(&page, Some(&open)).await?);
            page.before = Some(oldest);
        }
        found.truncate(wanted);
        Ok(found.split_off(left_out.min(found.len())))
    }

    /// The open runs from the oldest on. They are found from the newest on, so all of them are looked at.
    async fn oldest_open_runs(&self, filter: &RunFilter, left_out: usize, wanted: usize) -> Result<Vec<RunSummary>> {
        let newest_first =
            RunFilter { oldest_first: false, before: None, offset: 0, limit: i64::MAX, ..filter.clone() };
        let mut found = Box::pin(self.list_open_runs(&newest_first)).await?;
        found.retain(|run| filter.before.is_none_or(|before| run.id > before));
        found.reverse();
        found.truncate(wanted);
        Ok(found.split_off(left_out.min(found.len())))
    }

    /// The newest open runs before this one, a page of them: those with live rows, and those that have none because a big
    /// unit goes on, because they have no tasks and wait for their turn, or because they start later.
    async fn page_of_open_runs(
        &self,
        before: Option<RunId>,
        state: Option<RunState>,
        size: usize,
    ) -> Result<Vec<RunId>> {
        let before = before.unwrap_or(RunId::max());
        let mut open = self.runs_before(OPEN_RUNS, before, size).await?;
        open.extend(self.runs_before(CONTINUED_RUNS, before, size).await?);
        if state == Some(RunState::Pending) {
            open.extend(self.runs_before(EMPTY_QUEUED_RUNS, before, size).await?);
            open.extend(self.runs_before(PUT_OFF_RUNS, before, size).await?);
        }
        open.sort_unstable_by(|one, other| other.cmp(one));
        open.dedup();
        open.truncate(size);
        Ok(open)
    }

    async fn runs_before(&self, sql: &'static str, before: RunId, size: usize) -> Result<Vec<RunId>> {
        let rows: Vec<(RunId,)> = read!(self, |conn| sqlx::query_as(sql)
            .bind(before)
            .bind(i64::try_from(size).unwrap_or(i64::MAX))
            .fetch_all(conn)
            .await?);
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn select_runs(&self, filter: &RunFilter, among: Option<&[RunId]>) -> Result<Vec<RunSummary>> {
        let rows: Vec<SummaryRow> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                filtered!(sqlx::Postgres, Flavor::Postgres, filter, among)
                    .build_query_as()
                    .fetch_all(pg.connection())
                    .await?
            }
            Acquired::Sqlite(sqlite) => {
                filtered!(sqlx::Sqlite, Flavor::Sqlite, filter, among)
                    .build_query_as()
                    .fetch_all(sqlite.connection().await?)
                    .await?
            }
        };
        rows.into_iter().map(RunSummary::try_from).collect()
    }
}
