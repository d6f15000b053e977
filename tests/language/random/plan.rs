//! A workflow as the test knows it, its text, and the outcomes that are settled beforehand.

use std::fmt::Write;

#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// In the order of the text; what a task needs may stand before or behind it.
    pub(super) tasks: Vec<Node>,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) stage: Stage,
    pub(super) needs: Vec<usize>,
    pub(super) rule: &'static str,
    pub(super) condition: Condition,
    pub(super) repeat: Repeat,
    pub(super) attempts: u32,
    pub(super) retryable: bool,
    /// Failures of this kind only are tried again.
    pub(super) on: Option<&'static str>,
    /// Its steps, if it is no function: their exit codes, and whether the task goes on after a failure of each.
    pub(super) steps: Option<Vec<(i32, bool)>>,
    /// It says that 99 skips and 3 succeeds.
    pub(super) exit_codes: bool,
    pub(super) exhausted: &'static str,
    pub(super) max_parallel: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Main,
    OnFailure,
    OnSuccess,
    Finally,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    None,
    Constant(bool),
    /// The status of a task that has certainly ended.
    StatusIs(usize, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    Once,
    Times(usize),
    /// The combinations of two lists of these sizes, but for the first one.
    Matrix(usize, usize),
    /// For every member of what this task has left.
    Output(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Leaves a list of this many zeros.
    Well(usize),
    /// Ends with this exit code.
    Exit(i32),
    Badly {
        kind: &'static str,
        permanent: bool,
    },
}

/// What becomes of an attempt in the run with this seed.
pub(super) fn outcome(seed: u64, task: usize, item: i32, attempt: i32) -> Outcome {
    let place = ((task as u64) << 40) | ((i64::from(item) + 1) as u64 * 1_000 + attempt as u64);
    let mut random = fastrand::Rng::with_seed(seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    match random.u32(..100) {
        0..52 => Outcome::Well(random.usize(..4)),
        52..60 => Outcome::Exit(random.choice([3, 99]).unwrap_or(3)),
        60..95 => Outcome::Badly { kind: random.choice(["a", "b"]).unwrap_or("a"), permanent: false },
        _ => Outcome::Badly { kind: "a", permanent: true },
    }
}

pub(super) fn name(task: usize) -> String {
    format!("t{task}")
}

impl Plan {
    pub(super) fn text(&self, workflow: &str) -> String {
        let mut text = format!("name: {workflow}\n");
        for (stage, key) in [
            (Stage::Main, "tasks"),
            (Stage::OnFailure, "on_failure"),
            (Stage::OnSuccess, "on_success"),
            (Stage::Finally, "finally"),
        ] {
            let tasks: Vec<usize> = (0..self.tasks.len()).filter(|task| self.tasks[*task].stage == stage).collect();
            if !tasks.is_empty() {
                writeln!(text, "{key}:").expect("a string takes all");
            }
            for task in tasks {
                writeln!(text, "  {}: {}", name(task), self.tasks[task].text()).expect("a string takes all");
            }
        }
        text
    }
}

impl Node {
    fn text(&self) -> String {
        let mut keys = vec![match &self.steps {
            None => "function: outcome".to_owned(),
            Some(steps) => {
                let each =
                    steps.iter().map(|(code, goes_on)| format!("{{run: exit {code}, continue_on_error: {goes_on}}}"));
                format!("steps: [{}]", each.collect::<Vec<_>>().join(", "))
            }
        }];
        if !self.needs.is_empty() {
            let needs: Vec<String> = self.needs.iter().copied().map(name).collect();
            keys.push(format!("needs: [{}], trigger_rule: {}", needs.join(", "), self.rule));
        }
        match self.condition {
            Condition::None => {}
            Condition::Constant(holds) => keys.push(format!("if: \"{holds}\"")),
            Condition::StatusIs(task, status) => keys.push(format!("if: tasks.{}.status == '{status}'", name(task))),
        }
        match self.repeat {
            Repeat::Once => {}
            Repeat::Times(times) => keys.push(format!("foreach: {:?}", vec![0; times])),
            Repeat::Matrix(a, b) => keys.push(format!(
                "matrix: {{a: {:?}, b: \"${{{{ range({b}) }}}}\", exclude: [{{a: 0, b: 0}}]}}",
                (0..a).collect::<Vec<_>>()
            )),
            Repeat::Output(task) => keys.push(format!("foreach: tasks.{}.output", name(task))),
        }
        if let Some(most) = self.max_parallel.filter(|_| self.repeat != Repeat::Once) {
            keys.push(format!("max_parallel: {most}"));
        }
        let on = self.on.map_or(String::new(), |kind| format!(", on: [{kind}]"));
        keys.push(format!(
            "retry: {{attempts: {}, delay: 1ms, backoff: fixed, retryable: {}{on}}}",
            self.attempts, self.retryable
        ));
        if self.exit_codes {
            keys.push("exit_codes: {skip: 99, continue: [3]}".to_owned());
        }
        keys.push(format!("on_exhausted: {}", self.exhausted));
        format!("{{{}}}", keys.join(", "))
    }
}
