//! Checks the expressions of a workflow and brings them into the form in which they are stored and evaluated.

use indexmap::IndexMap;

use crate::diagnostic::{Place, Report, did_you_mean, quoted};
use crate::expr::{Allowed, Analysis, ExprError, NameTable, Part, analyse, split, strip_braces};
use crate::workflow::{Action, Input, Task};
use crate::yaml::Tree;

use super::script::{self, VARIABLE};
use super::spec::{Field, Text};

/// What the expressions of a workflow may refer to.
pub(super) struct Checker<'a> {
    pub(super) tree: &'a Tree<'a>,
    pub(super) names: &'a NameTable<'a>,
    pub(super) inputs: &'a IndexMap<String, Input>,
    pub(super) env: &'a IndexMap<String, String>,
}

/// That an expression looks at a task.
pub(super) struct Read {
    pub(super) target: i32,
    pub(super) place: Place,
    pub(super) path: String,
    pub(super) by_condition: bool,
}

const NOTHING_RAN: Allowed = Allowed { tasks: false, env: false, inputs: true };
const BEFORE_INPUTS: Allowed = Allowed { tasks: false, env: false, inputs: false };
const EVERYTHING: Allowed = Allowed { tasks: true, env: true, inputs: true };

impl Checker<'_> {
    /// A text of the workflow itself: no task has run where it is evaluated.
    pub(super) fn workflow_text(&self, text: &Text, report: &mut Report) {
        let allowed = match text.field {
            Field::InputDefault(_) => BEFORE_INPUTS,
            _ => NOTHING_RAN,
        };
        self.template(text, allowed, None, &mut Vec::new(), report);
    }

    /// A text of a task, which is replaced by its stored form. What it reads is added to `reads`.
    pub(super) fn task_text(&self, task: &mut Task, text: &Text, reads: &mut Vec<Read>, report: &mut Report) {
        match &text.field {
            Field::Condition => {
                let written = self.tree.scalar(text.node);
                let (source, offset) = strip_braces(written);
                if let Some(at) = written.find("${{").filter(|_| source.contains("${{")) {
                    let place = self.tree.locate(text.node, at, 3);
                    let message = "a condition is one expression, with `${{ }}` around all of it or not at all";
                    report.add(place, &text.path, message);
                    return;
                }
                let whole = Whole { text, offset, own_env: None };
                if let Some(analysis) = self.expression(source, &whole, EVERYTHING, reads, report) {
                    task.condition = Some(analysis.text);
                }
            }
            Field::Script => self.script(task, text, reads, report),
            Field::Env(name) => {
                if let Some(stored) = self.template(text, EVERYTHING, None, reads, report) {
                    task.env.insert(name.clone(), stored);
                }
            }
            Field::Cwd => {
                let stored = self.template(text, EVERYTHING, Some(&task.env), reads, report);
                if let (Action::Run { cwd, .. }, Some(stored)) = (&mut task.action, stored) {
                    *cwd = Some(stored);
                }
            }
            Field::Payload(pointer) => {
                let stored = self.template(text, EVERYTHING, Some(&task.env), reads, report);
                if let (Action::Function { payload, .. }, Some(stored)) = (&mut task.action, stored)
                    && let Some(value) = payload.pointer_mut(pointer)
                {
                    *value = serde_json::Value::String(stored);
                }
            }
            Field::InputDefault(_) | Field::ConcurrencyKey => {}
        }
    }

    fn script(&self, task: &mut Task, text: &Text, reads: &mut Vec<Read>, report: &mut Report) {
        let Action::Run { script, bindings, shell, .. } = &mut task.action else { return };
        let source = self.tree.scalar(text.node);
        let bound = match script::bind(source, shell.as_deref()) {
            Ok(bound) => bound,
            Err(refused) => {
                for problem in refused {
                    let place = self.tree.locate(text.node, problem.offset, problem.length);
                    report.add_with_help(place, &text.path, problem.message, problem.help);
                }
                return;
            }
        };
        for (number, (expression, offset)) in bound.expressions.iter().enumerate() {
            let whole = Whole { text, offset: *offset, own_env: Some(&task.env) };
            if let Some(analysis) = self.expression(expression, &whole, EVERYTHING, reads, report) {
                bindings.push((format!("{VARIABLE}{number}"), analysis.text));
            }
        }
        *script = bound.script;
    }

    /// Checks every expression of a template; gives the template in stored form.
    fn template(
        &self,
        text: &Text,
        allowed: Allowed,
        own_env: Option<&IndexMap<String, String>>,
        reads: &mut Vec<Read>,
        report: &mut Report,
    ) -> Option<String> {
        let source = self.tree.scalar(text.node);
        let parts = match split(source) {
            Ok(parts) => parts,
            Err(offset) => {
                let place = self.tree.locate(text.node, offset, 3);
                report.add_with_help(place, &text.path, "`${{` is never closed", "end the expression with `}}`");
                return None;
            }
        };
        let mut stored = String::with_capacity(source.len());
        for part in parts {
            match part {
                Part::Text(plain) => stored.push_str(plain),
                Part::Expression { source, offset, .. } => {
                    let whole = Whole { text, offset, own_env };
                    let analysis = self.expression(source, &whole, allowed, reads, report)?;
                    stored.push_str(&format!("${{{{ {} }}}}", analysis.text));
                }
            }
        }
        Some(stored)
    }

    fn expression(
        &self,
        source: &str,
        whole: &Whole<'_>,
        allowed: Allowed,
        reads: &mut Vec<Read>,
        report: &mut Report,
    ) -> Option<Analysis> {
        let locate = |offset: usize, length: usize| self.tree.locate(whole.text.node, whole.offset + offset, length);
        let analysis = analyse(source, self.names, allowed).and_then(|analysis| {
            self.check_names(&analysis, whole)?;
            Ok(analysis)
        });
        let analysis = match analysis {
            Ok(analysis) => analysis,
            Err(ExprError { offset, length, message, help }) => {
                report.push(locate(offset, length), &whole.text.path, message, help);
                return None;
            }
        };
        for reference in &analysis.references {
            if reference.root == "tasks"
                && let Some(target) = reference.path.first().and_then(|name| self.names.get(name.as_str()))
            {
                reads.push(Read {
                    target: *target,
                    place: locate(reference.offset, reference.length),
                    path: whole.text.path.clone(),
                    by_condition: whole.text.field == Field::Condition,
                });
            }
        }
        Some(analysis)
    }

    /// Inputs and variables are declared, so a name that is not there is found before anything runs.
    fn check_names(&self, analysis: &Analysis, whole: &Whole<'_>) -> Result<(), ExprError> {
        for reference in &analysis.references {
            let Some(name) = reference.path.first() else { continue };
            let (what, known): (&str, Vec<&str>) = match reference.root.as_str() {
                "inputs" if !self.inputs.contains_key(name) => {
                    ("input", self.inputs.keys().map(String::as_str).collect())
                }
                "env" if !self.env.contains_key(name) && !whole.own_env.is_some_and(|env| env.contains_key(name)) => {
                    let own = whole.own_env.into_iter().flat_map(|env| env.keys());
                    ("variable", self.env.keys().chain(own).map(String::as_str).collect())
                }
                _ => continue,
            };
            let help = did_you_mean(name, known.iter().copied()).or_else(|| {
                (!known.is_empty()).then(|| format!("there are {}", known[..known.len().min(20)].join(", ")))
            });
            return Err(ExprError {
                offset: reference.offset,
                length: reference.length,
                message: format!("there is no {what} {}", quoted(name)),
                help,
            });
        }
        Ok(())
    }
}

/// The text an expression stands in, and where.
struct Whole<'a> {
    text: &'a Text,
    offset: usize,
    own_env: Option<&'a IndexMap<String, String>>,
}
