//! Expressions of GitHub Actions: the few that mean the same here.

use std::collections::{BTreeMap, BTreeSet};

/// What a job can refer to.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) inputs: BTreeSet<String>,
    /// Jobs it needs, by their name there.
    pub(super) needs: BTreeMap<String, String>,
}

/// What a text refers to, and what nothing here stands for.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Variables that scripts look at → expression.
    pub(super) variables: BTreeMap<String, String>,
    pub(super) secrets: BTreeSet<String>,
    pub(super) unknown: Vec<String>,
}

/// Replaces every `${{ … }}`: in a script by a variable, elsewhere by an expression of this dialect.
pub(super) fn translate(text: &str, known: &Known, found: &mut Found, is_script: bool) -> String {
    let mut translated = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${{") {
        translated.push_str(&rest[..at]);
        let Some(end) = rest[at..].find("}}") else { break };
        let expression = rest[at + 3..at + end].trim();
        rest = &rest[at + end + 2..];
        match counterpart(expression, known) {
            Some(Counterpart::Variable(name)) if is_script => translated.push_str(&format!("${{{name}}}")),
            Some(Counterpart::Expression(variable, ours)) => {
                if let Some(secret) = ours.strip_prefix("secrets.") {
                    found.secrets.insert(secret.to_owned());
                }
                if is_script {
                    translated.push_str(&format!("${{{variable}}}"));
                    found.variables.insert(variable, ours);
                } else {
                    translated.push_str(&format!("${{{{ {ours} }}}}"));
                }
            }
            _ => {
                found.unknown.push(expression.to_owned());
                translated.push_str("NOT_CARRIED_OVER");
            }
        }
    }
    translated.push_str(&rest.replace("${{", "$ {{"));
    translated
}

enum Counterpart {
    Variable(String),
    /// The name of a variable for it, and the expression.
    Expression(String, String),
}

fn counterpart(expression: &str, known: &Known) -> Option<Counterpart> {
    let is_word = |text: &str| super::writer::is_variable(text);
    let variable = |text: &str| text.to_uppercase().replace(|one: char| !one.is_ascii_alphanumeric(), "_");
    if let Some(name) = expression.strip_prefix("env.").filter(|name| is_word(name)) {
        return Some(Counterpart::Variable(name.to_owned()));
    }
    if let Some(name) = expression.strip_prefix("secrets.").filter(|name| is_word(name)) {
        return Some(Counterpart::Expression(name.to_owned(), format!("secrets.{name}")));
    }
    let input = expression.strip_prefix("github.event.inputs.").or_else(|| expression.strip_prefix("inputs."));
    if let Some(name) = input.filter(|name| known.inputs.contains(*name)) {
        return Some(Counterpart::Expression(format!("INPUT_{}", variable(name)), format!("inputs.{name}")));
    }
    let (job, output) = expression.strip_prefix("needs.")?.split_once(".outputs.")?;
    let task = known.needs.get(job).filter(|task| is_word(task) && is_word(output))?;
    Some(Counterpart::Expression(variable(&format!("{task}_{output}")), format!("tasks.{task}.output.{output}")))
}
