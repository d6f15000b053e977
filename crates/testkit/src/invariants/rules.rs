//! Trigger rules: what became of every task follows from what became of those it needs.
//!
//! A settled verdict never changes with what follows, so this holds at any time. A task whose upstream was reopened
//! after it began is excused: it was let go by an outcome that is superseded.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mainspring_core::rule::{Counters, TriggerRule, Verdict};
use mainspring_core::state::TaskState;

use super::reading::{Snapshot, Violation};

const HAS_CONDITION: i16 = 2;
const CONTINUES: i16 = 8;
const SKIPPED_BY_HAND: i16 = 64;

#[derive(sqlx::FromRow)]
struct TemplateRow {
    version: i64,
    idx: i32,
    stage: i16,
    rule: i16,
    flags: i16,
}

/// A task of a run, live or ended. The counters are zero for an ended one.
#[derive(sqlx::FromRow)]
struct TaskRow {
    run: String,
    version: i64,
    idx: i32,
    state: i16,
    flags: i16,
    generation: i16,
    attempt: i32,
    open: i32,
    succeeded: i32,
    failed: i32,
    skipped: i32,
}

struct Template {
    stage: i16,
    rule: TriggerRule,
    has_condition: bool,
    /// Exit codes of its own may skip it.
    skips_itself: bool,
    needs: Vec<i32>,
}

pub(super) async fn check(snapshot: &mut Snapshot) -> anyhow::Result<Vec<Violation>> {
    let templates = read_templates(snapshot).await?;
    let unfinished: BTreeSet<String> = snapshot
        .rows::<(String,)>("SELECT ID(run_id) FROM continuations")
        .await?
        .into_iter()
        .map(|row| row.0)
        .collect();
    let rows: Vec<TaskRow> = snapshot
        .rows(
            "SELECT ID(t.run_id) AS run, t.version, t.idx, t.state, t.flags, t.generation, t.attempt, t.open, t.succeeded, t.failed, t.skipped \
             FROM task_runs t WHERE t.item = -1 \
             UNION ALL SELECT ID(h.run_id), r.version, h.idx, h.state, h.flags, h.generation, h.attempt, 0, 0, 0, 0 \
             FROM history h JOIN runs r ON r.id = h.run_id WHERE h.item = -1",
        )
        .await?;
    let mut runs: BTreeMap<&str, HashMap<i32, &TaskRow>> = BTreeMap::new();
    for row in &rows {
        runs.entry(&row.run).or_default().insert(row.idx, row);
    }
    let mut violations = Vec::new();
    for (run, tasks) in &runs {
        for row in tasks.values() {
            let Some(template) = templates.get(&(row.version, row.idx)) else {
                violations.push(Violation {
                    invariant: "a task run is one of its version",
                    subject: format!("{run}.{}", row.idx),
                });
                continue;
            };
            if let Some(cause) = check_task(template, row, tasks, unfinished.contains(*run))? {
                let invariant = "what became of a task follows from its trigger rule";
                violations.push(Violation { invariant, subject: format!("{run}.{} {cause}", row.idx) });
            }
        }
    }
    Ok(violations)
}

async fn read_templates(snapshot: &mut Snapshot) -> anyhow::Result<HashMap<(i64, i32), Template>> {
    let rows: Vec<TemplateRow> = snapshot.rows("SELECT version, idx, stage, rule, flags FROM version_tasks").await?;
    let edges: Vec<(i64, i32, i32)> = snapshot.rows("SELECT version, idx, dependent FROM EDGES e").await?;
    let mut templates = HashMap::with_capacity(rows.len());
    for row in rows {
        let rule = TriggerRule::try_from(row.rule)?;
        let has_condition = row.flags & HAS_CONDITION != 0;
        let template = Template { stage: row.stage, rule, has_condition, skips_itself: false, needs: Vec::new() };
        templates.insert((row.version, row.idx), template);
    }
    let specs: Vec<(i64, String)> =
        snapshot.rows("SELECT id, spec FROM versions WHERE spec LIKE '%\"exit_codes\"%'").await?;
    for (version, spec) in specs {
        let spec: serde_json::Value = serde_json::from_str(&spec)?;
        for (idx, task) in (0..).zip(spec["tasks"].as_array().into_iter().flatten()) {
            if let Some(template) = templates.get_mut(&(version, idx)) {
                template.skips_itself = task["exit_codes"]["skip"].as_array().is_some_and(|codes| !codes.is_empty());
            }
        }
    }
    for (version, idx, dependent) in edges {
        if let Some(template) = templates.get_mut(&(version, dependent)) {
            template.needs.push(idx);
        }
    }
    Ok(templates)
}

/// Why the task should not be as it is.
fn check_task(
    template: &Template,
    row: &TaskRow,
    tasks: &HashMap<i32, &TaskRow>,
    unfinished: bool,
) -> anyhow::Result<Option<String>> {
    let state = TaskState::try_from(row.state)?;
    let upstream_is_newer =
        template.needs.iter().any(|need| tasks.get(need).is_some_and(|upstream| upstream.generation > row.generation));
    if template.needs.is_empty() || upstream_is_newer {
        return Ok(None);
    }
    let counters = recount(template, tasks)?;
    let verdict = template.rule.verdict(counters);
    let by_hand = row.flags & SKIPPED_BY_HAND != 0;
    let fits = match state {
        TaskState::Pending if unfinished => true,
        TaskState::Pending => {
            let stored =
                Counters { open: row.open, succeeded: row.succeeded, failed: row.failed, skipped: row.skipped };
            stored == counters && verdict == Verdict::Wait
        }
        TaskState::UpstreamFailed => verdict == Verdict::UpstreamFailed,
        // Its exit code says that there was nothing to do.
        TaskState::Skipped if template.skips_itself && verdict == Verdict::Start && row.attempt > 0 => true,
        // A condition, an operator, or a stage that is left out skips whatever the rule says.
        TaskState::Skipped => verdict == Verdict::Skip || template.has_condition || by_hand || template.stage > 0,
        TaskState::Cancelled | TaskState::ResolvedManually => true,
        _ => verdict == Verdict::Start,
    };
    let stored = (row.open, row.succeeded, row.failed, row.skipped);
    Ok((!fits).then(|| {
        format!("is {state} although {} over {counters:?} says {verdict:?} (its row counts {stored:?})", template.rule)
    }))
}

/// The counters as they follow from what has ended.
fn recount(template: &Template, tasks: &HashMap<i32, &TaskRow>) -> anyhow::Result<Counters> {
    let mut counters = Counters::open(template.needs.len() as i32);
    for need in &template.needs {
        let Some(upstream) = tasks.get(need) else { continue };
        let state = TaskState::try_from(upstream.state)?;
        let by_flag = if state == TaskState::Skipped { SKIPPED_BY_HAND } else { CONTINUES };
        if let Some(outcome) = state.counts_as(upstream.flags & by_flag != 0) {
            counters.record(outcome);
        }
    }
    Ok(counters)
}
