//! Checks the expressions of a workflow and brings them into the form in which they are stored and evaluated.

use std::collections::HashSet;

use indexmap::IndexMap;

use crate::diagnostic::{Place, Report, did_you_mean, quoted};
use crate::expr::{Allowed, Analysis, ExprError, NameTable, Part, analyse, split, strip_braces};
use crate::workflow::{Action, Input, Task, TriggerSource};
use crate::yaml::Tree;

use super::places;
use super::script::{self, VARIABLE};
use super::slots;
use super::spec::{Field, StepField, Text};

/// What the expressions of a workflow may refer to.
pub(super) struct Checker<'a> {
    pub(super) tree: &'a Tree<'a>,
    pub(super) names: &'a NameTable<'a>,
    pub(super) inputs: &'a IndexMap<String, Input>,
    pub(super) env: &'a IndexMap<String, String>,
    pub(super) secrets: &'a [String],
    /// Variables of the workflow that hold a secret.
    pub(super) secret_env: HashSet<String>,
    /// The tasks are checks of polls.
    pub(super) of_polls: bool,
}

/// The references of an expression.
#[derive(Default)]
pub(super) struct References {
    pub(super) tasks: Vec<Read>,
    pub(super) secrets: Vec<String>,
    /// Whether the nominal time of the run is read.
    pub(super) schedule: bool,
    /// Whether failures are read.
    pub(super) failures: bool,
}

/// A reference to a task.
pub(super) struct Read {
    pub(super) target: i32,
    pub(super) place: Place,
    pub(super) path: String,
    /// It is evaluated by the decision about the task.
    pub(super) decisive: bool,
}

/// What the expressions of one text may read: the task's own variables, and which of all variables hold a secret.
#[derive(Clone, Copy)]
struct TextContext<'e> {
    allowed: Allowed,
    own_env: Option<&'e IndexMap<String, String>>,
    /// How many variables of the workflow, and of the task, exist by then; `None`: all.
    made_env: Option<usize>,
    made_own_env: Option<usize>,
    own_secret_env: Option<&'e HashSet<String>>,
}

impl Checker<'_> {
    /// A text of the workflow itself, in stored form; `sources` are those of the triggers.
    pub(super) fn workflow_text(
        &self,
        text: &Text,
        sources: &[TriggerSource],
        references: &mut References,
        report: &mut Report,
    ) -> Option<String> {
        let made_env = match &text.field {
            Field::Env(name) => self.env.get_index_of(name),
            _ => None,
        };
        let allowed = places::of_workflow(&text.field, sources);
        let context = TextContext { allowed, own_env: None, made_env, made_own_env: None, own_secret_env: None };
        match text.field {
            Field::TriggerCondition(_) | Field::PollKey(_) => self.bare(text, context, references, report),
            _ => self.template(text, context, references, report),
        }
    }

    /// All texts of a task, which are replaced by their stored form.
    pub(super) fn task_texts(&self, task: &mut Task, texts: &[Text], references: &mut References, report: &mut Report) {
        // Variables first: what else reads them has to know which ones hold a secret.
        let mut secret_env = HashSet::new();
        let is_env = |text: &&Text| matches!(text.field, Field::Env(_));
        for text in texts.iter().filter(is_env) {
            let mut own = References::default();
            let made_own_env = match &text.field {
                Field::Env(name) => task.env.get_index_of(name),
                _ => None,
            };
            let context = TextContext {
                allowed: self.allowed(&text.field, task),
                own_env: Some(&task.env),
                made_env: None,
                made_own_env,
                own_secret_env: None,
            };
            let stored = self.template(text, context, &mut own, report);
            if let (Field::Env(name), Some(stored)) = (&text.field, stored) {
                if !own.secrets.is_empty() || self.reads_secret_env(&stored, &secret_env) {
                    secret_env.insert(name.clone());
                }
                task.env.insert(name.clone(), stored);
            }
            references.tasks.append(&mut own.tasks);
            references.secrets.append(&mut own.secrets);
            references.schedule |= own.schedule;
            references.failures |= own.failures;
        }
        for text in texts.iter().filter(|text| !is_env(text)) {
            let allowed = self.allowed(&text.field, task);
            if matches!(text.field, Field::Script | Field::Step(_, StepField::Script)) {
                self.script(task, text, allowed, &secret_env, references, report);
                continue;
            }
            // What decides comes before the task's own variables are made.
            let own_env = (!text.field.is_decisive()).then_some(&task.env);
            let context =
                TextContext { allowed, own_env, made_env: None, made_own_env: None, own_secret_env: Some(&secret_env) };
            let stored = match text.field {
                Field::Step(_, StepField::Condition)
                | Field::Condition
                | Field::RetryCondition
                | Field::Foreach
                | Field::WaitCondition
                | Field::ExpectJson => self.bare(text, context, references, report),
                _ => self.template(text, context, references, report),
            };
            if let Some(stored) = stored
                && let Some(slot) = slots::of_task(task, &text.field)
            {
                *slot = stored;
            }
        }
    }

    fn allowed(&self, field: &Field, task: &Task) -> Allowed {
        if self.of_polls { places::of_check(field, task) } else { places::of_task(field, task) }
    }

    /// Whether a variable with this text holds a secret; `own` are those of the task that do.
    pub(super) fn reads_secret_env(&self, stored: &str, own: &HashSet<String>) -> bool {
        let Ok(parts) = split(stored) else { return false };
        parts.iter().any(|part| match part {
            Part::Text(_) => false,
            Part::Expression { source, .. } => crate::expr::references(source)
                .iter()
                .filter(|one| one.root == "env")
                .any(|one| one.path.first().is_none_or(|name| self.secret_env.contains(name) || own.contains(name))),
        })
    }

    /// One expression, with `${{ }}` around all of it or not at all.
    fn bare(
        &self,
        text: &Text,
        context: TextContext<'_>,
        references: &mut References,
        report: &mut Report,
    ) -> Option<String> {
        let written = self.tree.scalar(text.node);
        let (source, offset) = strip_braces(written);
        if let Some(at) = written.find("${{").filter(|_| source.contains("${{")) {
            let place = self.tree.locate(text.node, at, 3);
            let what = match text.field {
                Field::Foreach => "a list",
                Field::PollKey(_) => "a key",
                _ => "a condition",
            };
            let message = format!("{what} is one expression, with `${{{{ }}}}` around all of it or not at all");
            report.add(place, &text.path, message);
            return None;
        }
        self.expression(source, &ExpressionPlace { text, offset, context }, references, report)
            .map(|analysis| analysis.text)
    }

    fn script(
        &self,
        task: &mut Task,
        text: &Text,
        allowed: Allowed,
        secret_env: &HashSet<String>,
        references: &mut References,
        report: &mut Report,
    ) {
        let own = task.env.clone();
        let (script, bindings, shell, env) = match (&mut task.action, &text.field) {
            (Action::Run { script, bindings, shell, .. }, _) => (script, bindings, shell.clone(), own),
            (Action::Steps { steps, shell, .. }, Field::Step(index, _)) => {
                let Some(step) = steps.get_mut(*index) else { return };
                let env = own.into_iter().chain(step.env.clone()).collect();
                (&mut step.script, &mut step.bindings, step.shell.clone().or_else(|| shell.clone()), env)
            }
            _ => return,
        };
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
        let context = TextContext {
            allowed,
            own_env: Some(&env),
            made_env: None,
            made_own_env: None,
            own_secret_env: Some(secret_env),
        };
        for (number, (expression, offset)) in bound.expressions.iter().enumerate() {
            let at = ExpressionPlace { text, offset: *offset, context };
            if let Some(analysis) = self.expression(expression, &at, references, report) {
                bindings.push((format!("{VARIABLE}{number}"), analysis.text));
            }
        }
        *script = bound.script;
    }

    /// Checks every expression of a template; gives the template in stored form.
    fn template(
        &self,
        text: &Text,
        context: TextContext<'_>,
        references: &mut References,
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
                    let analysis =
                        self.expression(source, &ExpressionPlace { text, offset, context }, references, report)?;
                    stored.push_str(&format!("${{{{ {} }}}}", analysis.text));
                }
            }
        }
        Some(stored)
    }

    fn expression(
        &self,
        source: &str,
        at: &ExpressionPlace<'_>,
        references: &mut References,
        report: &mut Report,
    ) -> Option<Analysis> {
        let locate = |offset: usize, length: usize| self.tree.locate(at.text.node, at.offset + offset, length);
        let analysis = analyse(source, self.names, &|name| self.inputs.contains_key(name), at.context.allowed)
            .and_then(|analysis| {
                self.check_names(&analysis, at)?;
                Ok(analysis)
            });
        let analysis = match analysis {
            Ok(analysis) => analysis,
            Err(ExprError { offset, length, message, help }) => {
                report.push(locate(offset, length), &at.text.path, message, help);
                return None;
            }
        };
        for reference in &analysis.references {
            let name = reference.path.first();
            references.schedule |= reference.root == "run" && name.is_none_or(|name| name == "scheduled_for");
            references.failures |= match reference.root.as_str() {
                "run" => name.is_none_or(|name| matches!(name.as_str(), "status" | "failed_tasks")),
                "tasks" => reference.path.get(1).is_none_or(|field| field == "error"),
                _ => false,
            };
            let Some(name) = name else { continue };
            match reference.root.as_str() {
                "tasks" => references.tasks.extend(self.names.get(name.as_str()).map(|target| Read {
                    target: *target,
                    place: locate(reference.offset, reference.length),
                    path: at.text.path.clone(),
                    decisive: at.text.field.is_decisive(),
                })),
                "secrets" => references.secrets.push(name.clone()),
                _ => {}
            }
        }
        Some(analysis)
    }

    /// Inputs, variables and secrets are declared, so a name that is not there is found before anything runs.
    fn check_names(&self, analysis: &Analysis, at: &ExpressionPlace<'_>) -> Result<(), ExprError> {
        let context = &at.context;
        for reference in &analysis.references {
            let fail = |message: String, help: Option<String>| {
                Err(ExprError { offset: reference.offset, length: reference.length, message, help })
            };
            if reference.root == "env"
                && context.allowed.secrets.is_some()
                && !matches!(at.text.field, Field::Script | Field::Step(_, StepField::Script))
                && let Some(name) = self.hidden(reference.path.first().map(String::as_str), context)
            {
                let help = "secrets are for `env`, `headers`, `auth` and `payload` only".to_owned();
                return fail(format!("the variable {} holds a secret", quoted(name)), Some(help));
            }
            let Some(name) = reference.path.first() else { continue };
            let own = || context.own_env.into_iter().flat_map(|env| env.keys());
            let (what, known): (&str, Vec<&str>) = match reference.root.as_str() {
                "inputs" if !self.inputs.contains_key(name) => {
                    ("input", self.inputs.keys().map(String::as_str).collect())
                }
                "env" if !self.is_made(name, context) => {
                    if self.env.contains_key(name) || context.own_env.is_some_and(|env| env.contains_key(name)) {
                        let help = format!("variables are made in the order written: put `{name}` above");
                        return fail(format!("the variable {} is not made yet", quoted(name)), Some(help));
                    }
                    let known = self.env.keys().chain(own()).map(String::as_str);
                    ("variable", known.filter(|name| self.is_made(name, context)).collect())
                }
                "secrets" if !self.secrets.contains(name) => {
                    ("secret", self.secrets.iter().map(String::as_str).collect())
                }
                _ => continue,
            };
            let listed = || format!("there are {}", known[..known.len().min(20)].join(", "));
            let help = did_you_mean(name, known.iter().copied());
            let help = match (what, help) {
                (_, Some(help)) => Some(help),
                ("secret", None) => Some(format!("add `{name}` to the `secrets` of the workflow")),
                ("input", None) if known.is_empty() => Some(format!("declare it: `inputs: {{{name}: {{}}}}`")),
                _ => (!known.is_empty()).then(listed),
            };
            return fail(format!("there is no {what} {}", quoted(name)), help);
        }
        Ok(())
    }

    /// Whether a variable has its value where a text is evaluated.
    fn is_made(&self, name: &str, context: &TextContext<'_>) -> bool {
        let before = |env: &IndexMap<String, String>, made: Option<usize>| {
            env.get_index_of(name).is_some_and(|at| made.is_none_or(|made| at < made))
        };
        before(self.env, context.made_env) || context.own_env.is_some_and(|env| before(env, context.made_own_env))
    }

    /// The variable that is read (or one of all) if it holds a secret.
    fn hidden<'n>(&'n self, name: Option<&'n str>, context: &TextContext<'n>) -> Option<&'n str> {
        let own = context.own_secret_env;
        match name {
            Some(name) if own.is_some_and(|env| env.contains(name)) => Some(name),
            // A variable of the task hides that of the workflow.
            Some(name) if context.own_env.is_some_and(|env| env.contains_key(name)) => None,
            Some(name) => self.secret_env.contains(name).then_some(name),
            None => own.and_then(|env| env.iter().next()).or_else(|| self.secret_env.iter().next()).map(String::as_str),
        }
    }
}

/// The text that an expression belongs to, and the offset at which the expression begins in it.
struct ExpressionPlace<'a> {
    text: &'a Text,
    offset: usize,
    context: TextContext<'a>,
}
