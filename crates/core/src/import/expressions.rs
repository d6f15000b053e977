//! Expressions of GitHub Actions: the few that mean the same here.

use std::collections::{BTreeMap, BTreeSet};

use crate::author::quotes::{Context, Quotes};

/// What a job can refer to.
#[derive(Debug, Default)]
pub(super) struct JobScope {
    pub(super) inputs: BTreeSet<String>,
    /// Jobs it needs, by their name there. Those with a matrix have no output of their own.
    pub(super) needs: BTreeMap<String, String>,
    /// Jobs with a matrix.
    pub(super) repeated: BTreeSet<String>,
    /// Steps of the job that have an id, which later steps can look at.
    pub(super) steps: BTreeSet<String>,
    /// The axes of the job's matrix.
    pub(super) matrix: BTreeSet<String>,
}

/// The references of a text, and those without a counterpart here.
#[derive(Debug, Default)]
pub(super) struct References {
    /// Variables that scripts look at → expression.
    pub(super) variables: BTreeMap<String, String>,
    pub(super) secrets: BTreeSet<String>,
    pub(super) unknown: Vec<String>,
}

/// Replaces every `${{ … }}`: in a script by a variable, elsewhere by an expression of this dialect.
pub(super) fn translate(text: &str, scope: &JobScope, references: &mut References, is_script: bool) -> String {
    let mut translated = String::new();
    let mut quotes = Quotes::default();
    let mut rest = text;
    while let Some(at) = rest.find("${{") {
        translated.push_str(&rest[..at]);
        quotes.read(&rest[..at]);
        // In single quotes a variable would not be expanded: they are left for it and taken up again.
        let around = if is_script && quotes.context() == Context::Single { ("'\"", "\"'") } else { ("", "") };
        let Some(end) = rest[at..].find("}}") else { break };
        let expression = rest[at + 3..at + end].trim();
        rest = &rest[at + end + 2..];
        match counterpart(expression, scope) {
            Some(Counterpart::Variable(name)) if is_script => {
                translated.push_str(&format!("{}${{{name}}}{}", around.0, around.1));
            }
            Some(Counterpart::Expression(variable, ours)) => {
                if let Some(secret) = ours.strip_prefix("secrets.") {
                    references.secrets.insert(secret.to_owned());
                }
                if is_script {
                    translated.push_str(&format!("{}${{{variable}}}{}", around.0, around.1));
                    references.variables.insert(variable, ours);
                } else {
                    translated.push_str(&format!("${{{{ {ours} }}}}"));
                }
            }
            _ => {
                references.unknown.push(expression.to_owned());
                translated.push_str("NOT_CARRIED_OVER");
            }
        }
    }
    translated.push_str(&rest.replace("${{", "$ {{"));
    translated
}

pub(super) enum Counterpart {
    /// A variable that exists in scripts.
    Variable(String),
    /// The name of a variable for it, and the expression.
    Expression(String, String),
}

/// What an expression of one path is here.
pub(super) fn counterpart(expression: &str, scope: &JobScope) -> Option<Counterpart> {
    let is_word = |text: &str| super::writer::is_variable(text);
    let variable = |text: &str| text.to_uppercase().replace(|one: char| !one.is_ascii_alphanumeric(), "_");
    if let Some(name) = expression.strip_prefix("env.").filter(|name| is_word(name)) {
        return Some(Counterpart::Variable(name.to_owned()));
    }
    if let Some(name) = expression.strip_prefix("secrets.").filter(|name| is_word(name)) {
        return Some(Counterpart::Expression(name.to_owned(), format!("secrets.{name}")));
    }
    let input = expression.strip_prefix("github.event.inputs.").or_else(|| expression.strip_prefix("inputs."));
    if let Some(name) = input.filter(|name| scope.inputs.contains(*name)) {
        return Some(Counterpart::Expression(format!("INPUT_{}", variable(name)), format!("inputs.{name}")));
    }
    if let Some(axis) = expression.strip_prefix("matrix.").filter(|axis| scope.matrix.contains(*axis)) {
        return Some(Counterpart::Expression(format!("MATRIX_{}", variable(axis)), format!("item['{axis}']")));
    }
    if expression == "github.workspace" {
        return Some(Counterpart::Variable("GITHUB_WORKSPACE".into()));
    }
    if let Some((step, rest)) = expression.strip_prefix("steps.").and_then(|rest| rest.split_once('.'))
        && scope.steps.contains(step)
    {
        let name = match rest {
            "outcome" | "conclusion" => "OUTCOME".to_owned(),
            _ => rest.strip_prefix("outputs.").filter(|name| !name.contains('.'))?.to_owned(),
        };
        let whole = format!("STEP_{step}_{name}").replace(|one: char| !one.is_ascii_alphanumeric(), "_");
        return Some(Counterpart::Variable(whole));
    }
    if let Some((job, "result")) = expression.strip_prefix("needs.").and_then(|rest| rest.split_once('.')) {
        let task = scope.needs.get(job).filter(|task| is_word(task))?;
        let ours = format!("'failure' if tasks.{task}.status == 'failed' else tasks.{task}.status");
        return Some(Counterpart::Expression(variable(&format!("{task}_result")), format!("({ours})")));
    }
    let (job, output) = expression.strip_prefix("needs.")?.split_once(".outputs.")?;
    let task = scope.needs.get(job).filter(|task| is_word(task) && is_word(output) && !scope.repeated.contains(job))?;
    Some(Counterpart::Expression(variable(&format!("{task}_{output}")), format!("tasks.{task}.output.{output}")))
}
