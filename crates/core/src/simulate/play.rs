//! Plays one run: events in the order of virtual time, each followed by everything that can begin.

use std::collections::{BTreeMap, VecDeque};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::advance::{Board, Change, Ending};
use crate::expr::render_json;
use crate::plan::Decision;
use crate::plan::EndedTasks;
use crate::state::TaskState;
use crate::time::rfc3339;
use crate::{Micros, RunId, Scope, TaskError, TaskView, Workflow};

use super::items::Items;
use super::mock::Mock;
use super::outcome::{Conclusion, Outcome, Refusal, TaskOutcome};
use super::suite::Case;

/// Attempts, timers and items of one case; more is a mistake in the workflow or in the test.
const MAX_EVENTS: u64 = 1_000_000;

/// A workflow made ready for playing, once for all cases.
#[derive(Debug, Clone)]
pub struct Subject {
    pub(super) workflow: Workflow,
    /// The same for the board, where whatever is repeated or waits is decided first, like a condition.
    decided: Workflow,
}

impl Subject {
    pub fn new(workflow: Workflow) -> Self {
        let mut decided = workflow.clone();
        for (index, task) in decided.tasks.iter_mut().enumerate() {
            if workflow.is_decided(index) {
                task.condition.get_or_insert_with(|| "true".to_owned());
            }
        }
        Self { workflow, decided }
    }

    pub fn workflow(&self) -> &Workflow {
        &self.workflow
    }
}

/// Where child workflows are found.
pub trait Children {
    fn find(&self, namespace: &str, name: &str) -> Option<&Subject>;
}

#[derive(Debug)]
pub(super) enum Event {
    Ends { task: usize, item: Option<usize>, conclusion: Conclusion },
    Due { task: usize, item: Option<usize> },
    Deadline,
}

/// What one run is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) mocks: &'a IndexMap<String, Mock>,
    pub(super) children: &'a dyn Children,
    pub(super) secrets: &'a Map<String, Value>,
    pub(super) event: Option<&'a Value>,
    pub(super) strict: bool,
    pub(super) depth: usize,
}

impl std::fmt::Debug for dyn Children + '_ {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Children")
    }
}

pub(super) struct Player<'a> {
    pub(super) workflow: &'a Workflow,
    pub(super) setting: Setting<'a>,
    board: Board<'a>,
    pub(super) scope: Scope,
    pub(super) now: Micros,
    moment: u64,
    queue: BTreeMap<(Micros, u64), Event>,
    movable: VecDeque<usize>,
    pub(super) tasks: Vec<TaskOutcome>,
    pub(super) items: BTreeMap<usize, Items>,
    under_way: Vec<bool>,
    pub(super) unmocked: Vec<String>,
    timed_out: bool,
    ended: EndedTasks,
}

/// Plays one case.
pub fn play(subject: &Subject, case: &Case, children: &dyn Children) -> Result<Outcome, Refusal> {
    let setting = Setting {
        mocks: &case.tasks,
        children,
        secrets: &case.secrets,
        event: case.event.as_ref(),
        strict: case.strict,
        depth: 0,
    };
    play_run(subject, case.inputs.clone(), case.now, setting)
}

pub(super) fn play_run(
    subject: &Subject,
    inputs: Map<String, Value>,
    now: Micros,
    setting: Setting<'_>,
) -> Result<Outcome, Refusal> {
    let workflow = &subject.workflow;
    let mut scope = run_scope(workflow, now, setting);
    scope.inputs = workflow.resolve_inputs(inputs, &scope).map_err(Refusal::Inputs)?;
    let nothing = TaskOutcome {
        state: TaskState::Pending,
        attempts: 0,
        output: None,
        error: None,
        began: None,
        ended: None,
        items: None,
        order: None,
        child_inputs: None,
    };
    let mut player = Player {
        workflow,
        setting,
        board: Board::new(&subject.decided),
        scope,
        now,
        moment: 0,
        queue: BTreeMap::new(),
        movable: VecDeque::new(),
        tasks: vec![nothing; workflow.tasks.len()],
        items: BTreeMap::new(),
        under_way: vec![false; workflow.tasks.len()],
        unmocked: Vec::new(),
        timed_out: false,
        ended: EndedTasks::default(),
    };
    player.workflow.describe_end(&player.ended, &mut player.scope.run);
    if let Some(millis) = workflow.deadline_ms() {
        player.schedule(micros(millis), Event::Deadline);
    }
    let endless = !player.run();
    Ok(player.outcome(now, endless))
}

fn run_scope(workflow: &Workflow, now: Micros, setting: Setting<'_>) -> Scope {
    let mut scope = Scope::default();
    // Shaped like the id of a real run, and the same every time.
    let millis = (now / 1_000).max(0) as u128;
    let id = RunId::from_u128(millis << 80 | 0x7000_8000_0000_0000_0001 | (setting.depth as u128) << 16);
    let created = rfc3339(now);
    scope.run.insert("id".into(), id.to_string().into());
    scope.run.insert("created_at".into(), created.clone().into());
    scope.run.insert("scheduled_for".into(), created.into());
    scope.workflow.insert("name".into(), workflow.name.clone().into());
    scope.workflow.insert("namespace".into(), workflow.namespace.clone().into());
    scope.workflow.insert("version".into(), 1.into());
    for name in &workflow.secrets {
        let value = setting.secrets.get(name).cloned().unwrap_or_else(|| format!("secret:{name}").into());
        scope.secrets.insert(name.clone(), value);
    }
    scope.event = setting.event.cloned();
    scope
}

pub(super) fn micros(millis: u64) -> Micros {
    (millis as Micros).saturating_mul(1_000)
}

impl Player<'_> {
    /// False if there is no end to it.
    fn run(&mut self) -> bool {
        self.note_changes();
        loop {
            while let Some(task) = self.movable.pop_front() {
                self.advance(task);
            }
            if self.board.run_state().is_terminal() {
                return true;
            }
            if self.moment > MAX_EVENTS {
                return false;
            }
            let Some(((at, _), event)) = self.queue.pop_first() else { return true };
            self.now = at;
            self.apply(event);
        }
    }

    pub(super) fn schedule(&mut self, delay: Micros, event: Event) {
        self.moment += 1;
        self.queue.insert((self.now.saturating_add(delay), self.moment), event);
    }

    pub(super) fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Reads the changes of the board: the tasks that can move, and the tasks that have ended.
    fn note_changes(&mut self) {
        for change in self.board.take_changes() {
            let Change::Task { index, to, .. } = change else { continue };
            if matches!(to, TaskState::Ready | TaskState::Deciding) {
                self.movable.push_back(index);
            }
            if to.is_terminal() {
                let moment = self.next_moment();
                let slot = &self.board.slots()[index];
                let task = &mut self.tasks[index];
                task.ended = Some(moment);
                let error = task.error.as_ref().filter(|_| to == TaskState::Failed).map(|failure| TaskError {
                    kind: failure.kind.clone(),
                    message: failure.message.clone(),
                    attempt: slot.attempts as i32,
                });
                if !matches!(to, TaskState::Success | TaskState::Skipped | TaskState::ResolvedManually) {
                    self.ended.unsuccessful.push((index as i32, to, error.clone().unwrap_or_default()));
                    self.ended.unsuccessful.sort_by_key(|(index, ..)| *index);
                }
                let view = TaskView { status: to, attempts: slot.attempts as i32, output: task.output.clone(), error };
                self.scope.tasks.insert(self.workflow.tasks[index].name.clone(), view);
                self.workflow.describe_end(&self.ended, &mut self.scope.run);
            }
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Ends { task, item: None, conclusion } => self.conclude(task, conclusion),
            Event::Ends { task, item: Some(item), conclusion } => self.conclude_item(task, item, conclusion),
            Event::Due { task, item: None } => {
                // Refused if the run was stopped meanwhile.
                let _ = self.board.due(task);
            }
            Event::Due { task, item: Some(item) } => {
                if !self.board.state(task).is_terminal() {
                    self.launch(task, Some(item));
                }
            }
            Event::Deadline => self.expire(),
        }
        self.note_changes();
    }

    /// What is ready begins; what is to be decided is decided, and parts of it go on without the board.
    fn advance(&mut self, index: usize) {
        match self.board.state(index) {
            TaskState::Deciding if !self.under_way[index] => {
                let decision = self.workflow.decide(index, &self.scope);
                if let Decision::Fail(failure) = &decision {
                    self.tasks[index].error = Some(failure.clone());
                }
                let task = &self.workflow.tasks[index];
                match decision {
                    Decision::Skip | Decision::Fail(_) => _ = self.board.decide(index, &decision),
                    _ if task.foreach.is_some() => {
                        self.under_way[index] = true;
                        self.expand(index);
                    }
                    _ if task.action.parks() => {
                        self.under_way[index] = true;
                        self.launch(index, None);
                    }
                    _ => _ = self.board.decide(index, &Decision::Start),
                }
            }
            TaskState::Ready if self.board.start(index).is_ok() => self.launch(index, None),
            _ => {}
        }
        self.note_changes();
    }

    /// A task (not one of its items) came to its end, or to the end of an attempt.
    pub(super) fn conclude(&mut self, index: usize, conclusion: Conclusion) {
        if self.board.state(index).is_terminal() {
            return;
        }
        if self.board.state(index) == TaskState::Deciding {
            let decision = if conclusion == Conclusion::Skipped { Decision::Skip } else { Decision::Start };
            let decided = self.board.decide(index, &decision);
            if decision == Decision::Skip || decided.is_err() || self.board.start(index).is_err() {
                return;
            }
        }
        let task = &mut self.tasks[index];
        match conclusion {
            Conclusion::Success(output) => {
                task.output = Some(output);
                task.error = None;
                let _ = self.board.finish(index, Ending::Success);
            }
            Conclusion::Failed(failure) => {
                task.error = Some(failure.clone());
                if self.board.finish(index, Ending::Failed(failure)).is_ok()
                    && self.board.state(index) == TaskState::Retrying
                {
                    let failures = self.board.slots()[index].failures;
                    let delay = self.workflow.tasks[index].retry.delay_micros(failures, 0.5);
                    self.schedule(delay, Event::Due { task: index, item: None });
                }
            }
            Conclusion::Skipped => _ = self.board.finish(index, Ending::Skipped),
        }
    }

    pub(super) fn retry_item(&mut self, index: usize, item: usize, failures: u32) {
        let delay = self.workflow.tasks[index].retry.delay_micros(failures, 0.5);
        self.schedule(delay, Event::Due { task: index, item: Some(item) });
    }

    /// The run's time is up: what runs is stopped, what has not begun is cancelled, finalisers run.
    fn expire(&mut self) {
        if self.timed_out || self.board.expire().is_err() {
            return;
        }
        self.timed_out = true;
        for index in 0..self.tasks.len() {
            if self.board.state(index) == TaskState::Running {
                let _ = self.board.finish(index, Ending::Cancelled);
            }
        }
    }

    fn outcome(mut self, started: Micros, endless: bool) -> Outcome {
        for (index, task) in self.tasks.iter_mut().enumerate() {
            let slot = &self.board.slots()[index];
            task.state = slot.state;
            task.items = self.items.remove(&index).map(|items| items.outcomes);
        }
        let env = self.env();
        let scope = &self.scope;
        let outputs = self.workflow.outputs.iter().map(|(name, template)| {
            let rendered = match &env {
                Ok(env) => render_json(template, scope, env).map_err(|error| error.to_string()),
                Err(error) => Err(error.clone()),
            };
            (name.clone(), rendered)
        });
        let outputs = outputs.collect();
        Outcome {
            state: self.board.run_state(),
            started,
            ended: self.now,
            tasks: self.tasks,
            outputs,
            unmocked: self.unmocked,
            endless,
        }
    }
}
