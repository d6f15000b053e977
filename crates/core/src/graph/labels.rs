//! The labels of tasks in drawings.

use crate::rule::TriggerRule;
use crate::workflow::{Action, Stage, Task, Wait};

/// How a stage is headed; the main one needs no heading.
pub(super) fn title(stage: Stage) -> &'static str {
    match stage {
        Stage::Main => "tasks",
        Stage::OnFailure => "on_failure: when something failed",
        Stage::OnSuccess => "on_success: when nothing failed",
        Stage::Finally => "finally: in every case",
    }
}

/// The kind, and what it is about where that is short.
pub(super) fn kind(task: &Task) -> String {
    let about = match &task.action {
        Action::Function { handler, .. } | Action::Remote { handler, .. } => handler.as_str(),
        Action::Workflow(child) => child.name.as_str(),
        Action::Http(http) => http.method.as_str(),
        Action::Wait(Wait::For(_)) => "for",
        Action::Wait(Wait::Until(_)) => "until",
        Action::Wait(Wait::Event { name, .. }) => name.as_str(),
        Action::Wait(Wait::Result { .. }) => "result",
        Action::Run { .. } | Action::Steps { .. } | Action::Approval(_) => "",
    };
    let kind = task.action.kind();
    if about.is_empty() { kind.to_owned() } else { format!("{kind} {}", shortened(about, 24)) }
}

/// What decides whether and how often it runs.
pub(super) fn marks(task: &Task) -> Vec<String> {
    let mut marks = Vec::new();
    if task.foreach.is_some() {
        marks.push(match task.max_parallel {
            Some(most) => format!("foreach, {most} at once"),
            None => "foreach".to_owned(),
        });
    }
    if task.condition.is_some() {
        marks.push("if".to_owned());
    }
    if task.rule != TriggerRule::AllSuccess {
        marks.push(task.rule.word().to_owned());
    }
    marks
}

/// A text from the file on one line of known width: other than printable ASCII has no place in a drawing.
pub(super) fn shortened(text: &str, longest: usize) -> String {
    let mut shown: String = text
        .chars()
        .take(longest + 1)
        .map(|one| if one == ' ' || one.is_ascii_graphic() { one } else { '?' })
        .collect();
    if shown.len() > longest {
        shown.truncate(longest.saturating_sub(2));
        shown.push_str("..");
    }
    shown
}

/// A text inside XML, in an element or in a quoted attribute.
pub(super) fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(' '),
            // Neither control characters nor these two may stand in XML at all.
            character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => escaped.push('?'),
            character => escaped.push(character),
        }
    }
    escaped
}
