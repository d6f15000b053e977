//! The variables that expressions read. Only those are made: others may need data (or secrets) that is not at hand.

use serde_json::{Map, Value};

use crate::Workflow;
use crate::expr::{EvalError, Part, Scope, references, render_text, split};
use crate::workflow::Task;

/// Names of variables that some expressions read.
#[derive(Debug, Default)]
pub(super) struct Needed {
    all: bool,
    names: Vec<String>,
}

impl Needed {
    /// Of one expression without braces.
    pub(super) fn expression(source: &str) -> Self {
        let mut needed = Self::default();
        for reference in references(source) {
            match (reference.root.as_str(), reference.path.into_iter().next()) {
                ("env", Some(name)) => needed.names.push(name),
                ("env", None) => needed.all = true,
                _ => {}
            }
        }
        needed
    }

    /// Of a text that may hold `${{ }}`.
    pub(super) fn template(text: &str) -> Self {
        let mut needed = Self::default();
        for part in split(text).unwrap_or_default() {
            if let Part::Expression { source, .. } = part {
                needed = needed.and(Self::expression(source));
            }
        }
        needed
    }

    /// Of all texts inside a value.
    pub(super) fn value(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::template(text),
            Value::Array(items) => items.iter().fold(Self::default(), |needed, item| needed.and(Self::value(item))),
            Value::Object(fields) => {
                fields.values().fold(Self::default(), |needed, field| needed.and(Self::value(field)))
            }
            _ => Self::default(),
        }
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.all |= other.all;
        self.names.extend(other.names);
        self
    }

    /// Something nearer has this name.
    fn found(&mut self, name: &str) {
        self.names.retain(|needed| needed != name);
    }

    fn has(&self, name: &str) -> bool {
        self.all || self.names.iter().any(|needed| needed == name)
    }
}

impl Workflow {
    /// The values of the variables that are needed: those of the task over those of the workflow, each made from those
    /// above it.
    pub(super) fn needed_env(
        &self,
        task: Option<&Task>,
        mut needed: Needed,
        scope: &Scope,
    ) -> Result<Map<String, Value>, EvalError> {
        // From the last to the first: what a variable reads stands above it.
        let own = task.into_iter().flat_map(|task| task.env.iter().rev());
        let mut wanted: Vec<(&String, &String)> = Vec::new();
        for (name, text) in own.chain(self.env.iter().rev()) {
            if needed.has(name) {
                needed.found(name);
                needed = needed.and(Needed::template(text));
                wanted.push((name, text));
            }
        }
        let mut env = Map::with_capacity(wanted.len());
        for (name, text) in wanted.into_iter().rev() {
            let value = render_text(text, scope, &env)?;
            env.insert(name.clone(), Value::String(value));
        }
        Ok(env)
    }

    /// Names of the secrets whose values the order of a task needs, sorted.
    pub fn secrets_for(&self, index: usize) -> Vec<String> {
        let mut names = self.tasks[index].reads.secrets.clone();
        for part in self.env.values().flat_map(|text| split(text).unwrap_or_default()) {
            if let Part::Expression { source, .. } = part {
                let secrets = references(source).into_iter().filter(|one| one.root == "secrets");
                names.extend(secrets.filter_map(|one| one.path.into_iter().next()));
            }
        }
        names.sort_unstable();
        names.dedup();
        names
    }
}
