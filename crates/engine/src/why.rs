//! Explains why a task run does not run: what it waits for, and who could change that.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::time::{self, rfc3339};
use mainspring_core::workflow::{Action, Task};
use mainspring_core::{Micros, TaskKey, Workflow};
use mainspring_store::{
    PauseRow, PoolRow, Result, RunSummary, SessionRow, TaskRunRow, WaitKind, WaitRow, paused_scope,
};

use crate::client::Client;

/// At most this many names are listed; the others are counted.
const MOST_NAMED: usize = 10;

/// Data read once for all task runs of a run.
#[derive(Debug)]
pub struct Obstacles {
    run: RunSummary,
    states: HashMap<TaskKey, TaskState>,
    sessions: Vec<SessionRow>,
    pauses: Vec<PauseRow>,
    waits: HashMap<TaskKey, WaitRow>,
    /// The key of the concurrency limit that the run waits for.
    run_waits_for: Option<String>,
    /// By name.
    pools: HashMap<String, PoolRow>,
    now: Micros,
}

#[boxed]
impl Client {
    /// Why a task run does not run; empty if it runs or has ended.
    pub async fn why(&self, key: TaskKey) -> Result<Vec<String>> {
        let run = self.store.run_summary(key.run).await?;
        let spec = self.spec(run.version).await?;
        let rows = self.store.task_runs(key.run).await?;
        let Some(row) = rows.iter().find(|row| row.key == key).cloned() else {
            if run.state.is_terminal() {
                return Ok(Vec::new());
            }
            return Ok(vec![match self.store.begins_at(key.run).await? {
                Some(at) => format!("the run starts at {}", rfc3339(at)),
                None => "its part of the workflow begins when the tasks before it have ended".into(),
            }]);
        };
        let obstacles = self.obstacles(run, &spec.workflow, &rows).await?;
        Ok(obstacles.of(&spec.workflow, &row))
    }

    /// What prevents a run's task runs from running; `rows` are all of them.
    pub async fn obstacles(&self, run: RunSummary, workflow: &Workflow, rows: &[TaskRunRow]) -> Result<Obstacles> {
        let is_in = |state: TaskState| rows.iter().any(|row| row.state == state);
        let (sessions, pauses) = match is_in(TaskState::Ready) {
            true => (self.store.live_sessions().await?, self.store.pauses().await?),
            false => (Vec::new(), Vec::new()),
        };
        let waits = match is_in(TaskState::Waiting) {
            true => self.store.waits_of_run(run.id).await?.into_iter().map(|wait| (wait.key, wait)).collect(),
            false => HashMap::new(),
        };
        let run_waits_for = match run.state {
            RunState::Pending => self.store.run_waits_for(run.id).await?.map(|limit| limit.key),
            _ => None,
        };
        let mut pools = HashMap::new();
        for row in rows.iter().filter(|row| row.state == TaskState::Gated) {
            if let Some(pool) = task_of(workflow, row).and_then(|task| task.pool.as_ref())
                && !pools.contains_key(pool)
            {
                let found = self.store.pool(&run.namespace, pool).await?;
                pools.insert(pool.clone(), found);
            }
        }
        let states = rows.iter().map(|row| (row.key, row.state)).collect();
        Ok(Obstacles { run, states, sessions, pauses, waits, run_waits_for, pools, now: self.now() })
    }
}

fn task_of<'w>(workflow: &'w Workflow, row: &TaskRunRow) -> Option<&'w Task> {
    usize::try_from(row.key.index).ok().and_then(|index| workflow.tasks.get(index))
}

impl Obstacles {
    /// Why this task run does not or did not run; empty if it runs or has run.
    pub fn of(&self, workflow: &Workflow, row: &TaskRunRow) -> Vec<String> {
        let Some(task) = task_of(workflow, row) else { return Vec::new() };
        let due = || row.due_at.map_or_else(|| "a time that is not known".to_owned(), rfc3339);
        match row.state {
            TaskState::Pending if row.key.item >= 0 => {
                vec![format!("waits for its turn: `max_parallel` of task `{}` items are under way", task.name)]
            }
            TaskState::Pending => self.needs(workflow, task, row),
            TaskState::Ready => vec![self.takers(task)],
            TaskState::Retrying => vec![format!("waits for its next attempt at {}", due())],
            TaskState::Deciding => vec!["a node is deciding whether and how it starts".into()],
            TaskState::Gated => self.pool(task),
            TaskState::Held => vec![self.run()],
            TaskState::Waiting => vec![self.waits(task, row)],
            TaskState::UpstreamFailed => self.failed_needs(workflow, task, row),
            TaskState::Running
            | TaskState::Success
            | TaskState::Failed
            | TaskState::Skipped
            | TaskState::Cancelled
            | TaskState::ResolvedManually => Vec::new(),
        }
    }

    fn needs(&self, workflow: &Workflow, task: &Task, row: &TaskRunRow) -> Vec<String> {
        let open: Vec<(&str, TaskState)> = task
            .needs
            .iter()
            .filter_map(|need| {
                let state = *self.states.get(&TaskKey::new(row.key.run, *need))?;
                Some((workflow.tasks.get(*need as usize)?.name.as_str(), state)).filter(|_| !state.is_terminal())
            })
            .collect();
        let mut words: Vec<String> = open
            .iter()
            .take(MOST_NAMED)
            .map(|(name, state)| format!("waits for task `{name}`, which is {}", state.shown()))
            .collect();
        if open.len() > MOST_NAMED {
            words.push(format!("and for {} other tasks", open.len() - MOST_NAMED));
        }
        if words.is_empty() {
            words.push("the ends of the tasks it needs are being counted".into());
        }
        words
    }

    /// The upstream tasks whose ends prevent the rule of this task from being met.
    fn failed_needs(&self, workflow: &Workflow, task: &Task, row: &TaskRunRow) -> Vec<String> {
        let ended = |need: &i32| {
            let state = *self.states.get(&TaskKey::new(row.key.run, *need))?;
            Some((workflow.tasks.get(*need as usize)?.name.as_str(), state))
        };
        let failed = task.needs.iter().filter_map(ended).filter(|(_, state)| {
            state.is_terminal() && !matches!(state, TaskState::Success | TaskState::ResolvedManually)
        });
        failed
            .take(MOST_NAMED)
            .map(|(name, state)| {
                format!("task `{name}` is {}, so the trigger rule `{}` cannot be met", state.shown(), task.rule.word())
            })
            .collect()
    }

    fn takers(&self, task: &Task) -> String {
        if let Some(pause) = self.pauses.iter().find(|pause| pause.covers(&self.run.namespace, &task.queue)) {
            let scope = paused_scope(pause.namespace.as_deref(), pause.queue.as_deref());
            let reason = pause.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
            return format!("{scope} is paused by {} since {}{reason}", pause.paused_by, rfc3339(pause.paused_at));
        }
        let labels: Vec<String> = task.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let serves = |session: &&SessionRow| {
            let queue = session.queues.is_empty() || session.queues.split(',').any(|queue| queue == task.queue);
            let has: Vec<&str> = session.labels.split(',').collect();
            !session.draining && queue && labels.iter().all(|label| has.contains(&label.as_str()))
        };
        if self.sessions.iter().any(|session| serves(&session)) {
            return format!("waits for a free slot of a worker that serves queue `{}`", task.queue);
        }
        match labels.is_empty() {
            true => format!("no live worker serves queue `{}`", task.queue),
            false => format!("no live worker serves queue `{}` with the labels {}", task.queue, labels.join(", ")),
        }
    }

    fn pool(&self, task: &Task) -> Vec<String> {
        let name = task.pool.as_deref().unwrap_or_default();
        let Some(pool) = self.pools.get(name) else { return vec![format!("waits for a slot of pool `{name}`")] };
        let rate = pool.rate.map(|rate| rate.at(self.now)).filter(|rate| rate.left() == 0);
        let rate = rate.and_then(|rate| {
            let period = time::duration(u64::try_from(rate.period / 1_000).ok()?);
            let end = rfc3339(rate.window_ends()?);
            Some(format!("the rate of pool `{name}`, {} task runs per {period}, is used up until {end}", rate.starts))
        });
        let slots = match pool.slots {
            Some(slots) if rate.is_none() || pool.held >= slots => {
                Some(format!("waits for a slot of pool `{name}`, of which {} of {slots} are held", pool.held))
            }
            None if rate.is_none() => Some(format!("waits for a slot of pool `{name}`")),
            _ => None,
        };
        slots.into_iter().chain(rate).collect()
    }

    fn run(&self) -> String {
        match (self.run.state, &self.run_waits_for) {
            (RunState::Paused, _) => "its run is paused".into(),
            (_, Some(key)) => format!("its run waits for the concurrency key `{key}`"),
            _ => "its run is not running".into(),
        }
    }

    fn waits(&self, task: &Task, row: &TaskRunRow) -> String {
        let Some(wait) = self.waits.get(&row.key) else { return "waits".into() };
        let until = wait.due_at.map_or(String::new(), |at| format!(", until {}", rfc3339(at)));
        match wait.kind {
            WaitKind::Timer => format!("waits{}", until.trim_start_matches(',')),
            WaitKind::Event => format!("waits for event `{}`{until}", wait.event.as_deref().unwrap_or_default()),
            WaitKind::Approval => match &task.action {
                Action::Approval(approval) if !approval.roles.is_empty() => {
                    format!("waits for an approval by {}{until}", approval.roles.join(" or "))
                }
                _ => format!("waits for an approval{until}"),
            },
            WaitKind::Result => format!("waits for a result from outside{until}"),
            WaitKind::Child => {
                format!("waits for its child run {}", wait.child.map_or_else(String::new, |child| child.to_string()))
            }
            WaitKind::Items => {
                let open = self
                    .states
                    .iter()
                    .filter(|(key, state)| key.index == row.key.index && key.item >= 0 && !state.is_terminal());
                format!("waits for {} of its items", open.count())
            }
        }
    }
}
