//! What the definitions say about a run, worked out as plainly as possible: from the ends of all upstream tasks, one task
//! after the other. It shares nothing with the program but the words for states.

use serde_json::{Value, json};

use super::plan::{Condition, Node, Outcome, Plan, Repeat, Stage, outcome};

/// How a run should end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expected {
    pub(super) state: &'static str,
    pub(super) tasks: Vec<TaskEnd>,
    pub(super) dead_letters: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct TaskEnd {
    pub(super) state: &'static str,
    pub(super) attempts: i32,
    pub(super) output: Option<Value>,
    pub(super) items: Vec<TaskEnd>,
}

impl TaskEnd {
    fn unstarted(state: &'static str) -> Self {
        Self { state, attempts: 0, output: None, items: Vec::new() }
    }
}

/// How an upstream task counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Success,
    Failure,
    Neither,
}

pub(super) fn interpret(plan: &Plan, seed: u64) -> Expected {
    let mut run = Run { plan, seed, ends: vec![None; plan.tasks.len()], dead_letters: 0 };
    run.stage(Stage::Main, true);
    let main_failed = run.has_failed(Stage::Main);
    run.stage(Stage::OnFailure, main_failed);
    run.stage(Stage::OnSuccess, !main_failed);
    run.stage(Stage::Finally, true);
    let later = [Stage::OnFailure, Stage::OnSuccess, Stage::Finally];
    let failed = main_failed || later.into_iter().any(|stage| run.has_failed(stage));
    Expected {
        state: if failed { "failed" } else { "success" },
        tasks: run.ends.into_iter().map(|end| end.expect("every task ends")).collect(),
        dead_letters: run.dead_letters,
    }
}

struct Run<'p> {
    plan: &'p Plan,
    seed: u64,
    ends: Vec<Option<TaskEnd>>,
    dead_letters: i64,
}

impl Run<'_> {
    /// Ends every task of a stage, again and again those whose upstream has ended; or leaves the stage out.
    fn stage(&mut self, stage: Stage, takes_place: bool) {
        let plan = self.plan;
        let of_stage: Vec<usize> = (0..plan.tasks.len()).filter(|task| plan.tasks[*task].stage == stage).collect();
        while of_stage.iter().any(|task| self.ends[*task].is_none()) {
            for task in &of_stage {
                let node = &plan.tasks[*task];
                if self.ends[*task].is_none() && node.needs.iter().all(|need| self.ends[*need].is_some()) {
                    let end = if takes_place { self.end(*task, node) } else { TaskEnd::unstarted("skipped") };
                    self.ends[*task] = Some(end);
                }
            }
        }
    }

    /// A run fails if a task is failed (and does not continue) or upstream_failed.
    fn has_failed(&self, stage: Stage) -> bool {
        (0..self.plan.tasks.len()).filter(|task| self.plan.tasks[*task].stage == stage).any(|task| {
            let state = self.ended(task).state;
            state == "upstream_failed" || state == "failed" && self.plan.tasks[task].exhausted != "continue"
        })
    }

    fn counts(&self, task: usize) -> Counts {
        match self.ended(task).state {
            "success" => Counts::Success,
            "failed" if self.plan.tasks[task].exhausted == "continue" => Counts::Success,
            "failed" | "upstream_failed" => Counts::Failure,
            _ => Counts::Neither,
        }
    }

    fn ended(&self, task: usize) -> &TaskEnd {
        self.ends[task].as_ref().expect("it has ended")
    }

    fn end(&mut self, task: usize, node: &Node) -> TaskEnd {
        if let Some(state) = self.not_started(node) {
            return TaskEnd::unstarted(state);
        }
        let holds = match node.condition {
            Condition::None => true,
            Condition::Constant(holds) => holds,
            Condition::StatusIs(other, status) => self.ended(other).state == status,
        };
        if !holds {
            return TaskEnd::unstarted("skipped");
        }
        let count = match node.repeat {
            Repeat::Once => return self.attempt(task, node, -1),
            Repeat::Times(times) => times,
            Repeat::Matrix(a, b) => a * b - 1,
            Repeat::Output(other) => match &self.ended(other).output {
                Some(Value::Array(members)) => members.len(),
                // There is no list, so the task fails before any attempt.
                _ => {
                    self.dead_letters += i64::from(node.exhausted == "dead_letter");
                    return TaskEnd::unstarted("failed");
                }
            },
        };
        let items: Vec<TaskEnd> = (0..count as i32).map(|item| self.attempt(task, node, item)).collect();
        let failed = node.exhausted != "continue" && items.iter().any(|item| item.state == "failed");
        let outputs = items.iter().map(|item| item.output.clone().unwrap_or(Value::Null)).collect();
        TaskEnd {
            state: if failed { "failed" } else { "success" },
            attempts: i32::from(count > 0),
            output: (!failed).then_some(Value::Array(outputs)),
            items,
        }
    }

    /// The state of a task that its trigger rule does not let start.
    fn not_started(&self, node: &Node) -> Option<&'static str> {
        if node.needs.is_empty() {
            return None;
        }
        let upstream: Vec<Counts> = node.needs.iter().map(|need| self.counts(*need)).collect();
        let some = |what| upstream.contains(&what);
        let all = |what| upstream.iter().all(|one| *one == what);
        let failed_or_skipped = if some(Counts::Failure) { "upstream_failed" } else { "skipped" };
        match node.rule {
            "all_success" if all(Counts::Success) => None,
            "all_success" => Some(failed_or_skipped),
            "all_done" | "always" => None,
            "all_failed" => (!all(Counts::Failure)).then_some("skipped"),
            "one_success" if some(Counts::Success) => None,
            "one_success" => Some(failed_or_skipped),
            "one_failed" => (!some(Counts::Failure)).then_some("skipped"),
            "none_failed" => some(Counts::Failure).then_some("upstream_failed"),
            "none_failed_min_one_success" if some(Counts::Failure) => Some("upstream_failed"),
            "none_failed_min_one_success" => (!some(Counts::Success)).then_some("skipped"),
            other => panic!("{other} is no rule"),
        }
    }

    fn attempt(&mut self, task: usize, node: &Node, item: i32) -> TaskEnd {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let ended = match &node.steps {
                Some(steps) => through(steps, node.exit_codes),
                None => outcome(self.seed, task, item, attempts),
            };
            let (kind, permanent) = match ended {
                Outcome::Exit(0) => return TaskEnd { attempts, ..TaskEnd::unstarted("success") },
                Outcome::Exit(99) if node.exit_codes => {
                    return TaskEnd { attempts, ..TaskEnd::unstarted("skipped") };
                }
                Outcome::Exit(3) if node.exit_codes => {
                    return TaskEnd { attempts, ..TaskEnd::unstarted("success") };
                }
                Outcome::Well(count) => {
                    let output = Some(json!(vec![0; count]));
                    return TaskEnd { state: "success", attempts, output, items: Vec::new() };
                }
                Outcome::Exit(_) => ("exit", false),
                Outcome::Badly { kind, permanent } => (kind, permanent),
            };
            let again =
                node.retryable && !permanent && node.on.is_none_or(|on| on == kind) && attempts < node.attempts as i32;
            if !again {
                self.dead_letters += i64::from(node.exhausted == "dead_letter");
                return TaskEnd { state: "failed", attempts, output: None, items: Vec::new() };
            }
        }
    }
}

/// How the steps of one attempt end: with the code of the first that fails and is not to be gone on from.
fn through(steps: &[(i32, bool)], exit_codes: bool) -> Outcome {
    let failed = steps.iter().find(|(code, goes_on)| *code != 0 && !goes_on && !(exit_codes && *code == 3));
    Outcome::Exit(failed.map_or(0, |(code, _)| *code))
}
