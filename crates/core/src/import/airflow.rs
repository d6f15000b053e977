//! Airflow's Python files, read without executing them: operators as they are written down, dependencies and the schedule.
//!
//! Bash operators become scripts and empty ones a function that does nothing. Every other operator becomes a task that
//! fails, so that nothing seems to work that does not. What Python would work out (loops, variables, templates) is not seen.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::diagnostic::{Diagnostics, Place, Report};

use super::Imported;
use super::python::{Call, call, names, statements, text};
use super::writer::{Names, Writer, name};

pub fn airflow(source: &str) -> Result<Imported, Diagnostics> {
    let mut report = Report::default();
    let mut dag = Dag::default();
    for statement in statements(source) {
        dag.read(&statement);
    }
    if dag.tasks.is_empty() {
        let place = Place { line: 1, column: 1, length: 1 };
        let help = "name a file that writes its operators down: `load = BashOperator(task_id=\"load\", …)`";
        report.add_with_help(place, "", "there is no operator", help);
        return report.finish(None);
    }
    report.finish(Some(dag.write()))
}

/// A DAG as its file describes it.
#[derive(Debug, Default)]
struct Dag {
    id: Option<String>,
    schedule: Option<String>,
    tasks: Vec<Operator>,
    /// From one variable to another.
    edges: Vec<(String, String)>,
    left_out: Vec<String>,
}

#[derive(Debug)]
struct Operator {
    variable: String,
    kind: String,
    call: Call,
}

impl Dag {
    fn read(&mut self, statement: &str) {
        let statement = statement.trim();
        let statement = statement.strip_prefix("with ").map_or(statement, |rest| rest.trim_end_matches(':'));
        let (variable, value) = assignment(statement);
        match call(value) {
            Some((kind, call)) if kind.rsplit('.').next() == Some("DAG") => self.of_dag(&call),
            Some((kind, call)) if is_operator(&kind) => {
                let kind = kind.rsplit('.').next().unwrap_or_default().to_owned();
                let variable = variable.map_or_else(|| call.text("task_id").unwrap_or_default(), str::to_owned);
                self.tasks.push(Operator { variable, kind, call });
            }
            Some((kind, call)) if kind == "chain" => {
                let groups: Vec<Vec<String>> = call.positional.iter().map(|argument| names(argument)).collect();
                self.connect(&groups);
            }
            Some((kind, call)) if kind.ends_with(".set_downstream") || kind.ends_with(".set_upstream") => {
                let (own, how) = kind.rsplit_once('.').unwrap_or_default();
                let others: Vec<String> = call.positional.iter().flat_map(|argument| names(argument)).collect();
                let pair = [vec![own.to_owned()], others];
                self.connect(&if how == "set_downstream" { pair } else { reversed(pair) });
            }
            _ if variable.is_none() && statement.contains(">>") && !statement.contains("<<") => {
                self.connect(&statement.split(">>").map(names).collect::<Vec<_>>());
            }
            _ if variable.is_none() && statement.contains("<<") && !statement.contains(">>") => {
                self.connect(&statement.rsplit("<<").map(names).collect::<Vec<_>>());
            }
            _ if statement.starts_with("for ") || statement.starts_with("while ") || statement.starts_with('@') => {
                self.left_out.push(format!("`{}`, which only Python can execute", first_line(statement)));
            }
            _ => {}
        }
    }

    fn of_dag(&mut self, call: &Call) {
        self.id = call.text("dag_id").or_else(|| call.positional.first().and_then(|argument| text(argument)));
        for key in ["schedule", "schedule_interval"] {
            self.schedule = self.schedule.take().or_else(|| call.text(key));
        }
        for (key, value) in &call.named {
            if !matches!(key.as_str(), "dag_id" | "schedule" | "schedule_interval") {
                self.left_out.push(format!("{key}={value} of the DAG"));
            }
        }
    }

    /// Each of a group goes before each of the next.
    fn connect(&mut self, groups: &[Vec<String>]) {
        for pair in groups.windows(2) {
            for before in &pair[0] {
                self.edges.extend(pair[1].iter().map(|after| (before.clone(), after.clone())));
            }
        }
    }

    fn write(self) -> Imported {
        let workflow = name(self.id.as_deref().unwrap_or_default(), "workflow");
        let mut writer = Writer::default();
        writer.comment(0, "from a file of Airflow");
        writer.text(0, "name", &workflow);
        match self.schedule.as_deref() {
            None | Some("@once") => {}
            Some("@continuous") => writer.left_out(0, "schedule @continuous"),
            Some(cron) => writer.line(0, &format!("triggers: [{{cron: {}}}]", Value::from(cron))),
        }
        self.left_out.iter().for_each(|what| writer.left_out(0, what));
        writer.line(0, "tasks:");
        let mut unique = Names::default();
        let ours: BTreeMap<&str, String> = self
            .tasks
            .iter()
            .map(|task| (task.variable.as_str(), unique.name(&task.call.text("task_id").unwrap_or_default(), "task")))
            .collect();
        for task in &self.tasks {
            let Some(own) = ours.get(task.variable.as_str()) else { continue };
            let mut needs: Vec<&str> = self
                .edges
                .iter()
                .filter(|(_, after)| *after == task.variable)
                .filter_map(|(before, _)| ours.get(before.as_str()).map(String::as_str))
                .collect();
            needs.sort_unstable();
            needs.dedup();
            write_task(&mut writer, own, task, &needs);
        }
        writer.finish(workflow)
    }
}

fn write_task(writer: &mut Writer, own: &str, task: &Operator, needs: &[&str]) {
    const NOT_CARRIED_OVER: &str = "echo \"this operator was not carried over\" >&2\nexit 1";
    writer.line(2, &format!("{}:", Value::from(own)));
    if !needs.is_empty() {
        writer.line(4, &format!("needs: [{}]", needs.join(", ")));
    }
    for (key, value) in &task.call.named {
        let number = value.parse::<u64>().ok();
        match (key.as_str(), number) {
            ("task_id" | "bash_command" | "dag", _) => {}
            ("retries", Some(retries)) => writer.line(4, &format!("retry: {{attempts: {}}}", retries.min(1_000) + 1)),
            ("trigger_rule", _) => match text(value).as_deref().and_then(rule) {
                Some(rule) => writer.line(4, &format!("trigger_rule: {rule}")),
                None => writer.left_out(4, &format!("trigger_rule={value}")),
            },
            ("pool", _) => match text(value) {
                Some(pool) => writer.text(4, "pool", &name(&pool, "pool")),
                None => writer.left_out(4, &format!("pool={value}")),
            },
            _ => writer.left_out(4, &format!("{key}={value}")),
        }
    }
    match (task.kind.as_str(), task.call.text("bash_command")) {
        ("BashOperator", Some(command)) if command.contains("{{") => {
            writer.left_out(4, &format!("the templates of `{command}`"));
            writer.script(4, "run", NOT_CARRIED_OVER);
        }
        ("BashOperator", Some(command)) => writer.script(4, "run", &command.replace("${{", "$ {{")),
        ("EmptyOperator" | "DummyOperator", _) => writer.text(4, "function", "noop"),
        (kind, _) => {
            writer.left_out(4, kind);
            writer.script(4, "run", NOT_CARRIED_OVER);
        }
    }
}

fn rule(theirs: &str) -> Option<&'static str> {
    const SAME: [&str; 8] = [
        "all_success",
        "all_done",
        "all_failed",
        "one_success",
        "one_failed",
        "none_failed",
        "always",
        "none_failed_min_one_success",
    ];
    SAME.into_iter().find(|ours| *ours == theirs)
}

fn reversed(pair: [Vec<String>; 2]) -> [Vec<String>; 2] {
    let [first, second] = pair;
    [second, first]
}

fn is_operator(kind: &str) -> bool {
    let last = kind.rsplit('.').next().unwrap_or_default();
    last.ends_with("Operator") || last.ends_with("Sensor")
}

/// `name = value`; an expression has no name.
fn assignment(statement: &str) -> (Option<&str>, &str) {
    match statement.split_once('=') {
        Some((left, right)) if is_identifier(left.trim()) && !right.starts_with('=') => {
            (Some(left.trim()), right.trim())
        }
        _ => (None, statement),
    }
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|one| one.is_alphanumeric() || one == '_')
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
