//! Mermaid's language, as Markdown renderers draw it.

use std::fmt::Write as _;

use crate::Workflow;
use crate::workflow::{Action, Stage};

use super::labels::{kind, marks, title};

pub fn mermaid(workflow: &Workflow) -> String {
    let mut text = String::from("flowchart TD\n");
    for stage in Stage::ALL.iter().copied() {
        let range = workflow.stage(stage);
        if range.is_empty() {
            continue;
        }
        let indent = if stage == Stage::Main { "  " } else { "    " };
        if stage != Stage::Main {
            let _ = writeln!(text, "  subgraph {stage} [\"{}\"]", escaped(title(stage)));
        }
        for index in range.clone() {
            let task = &workflow.tasks[index];
            let mut lines = vec![escaped(&task.name), escaped(&kind(task))];
            lines.extend(marks(task).iter().map(|mark| escaped(mark)));
            let (open, close) = match &task.action {
                Action::Approval(_) => ("{", "}"),
                Action::Wait(_) => ("([", "])"),
                Action::Workflow(_) => ("[[", "]]"),
                _ => ("[", "]"),
            };
            let _ = writeln!(text, "{indent}t{index}{open}\"{}\"{close}", lines.join("<br/>"));
        }
        for index in range {
            for need in &workflow.tasks[index].needs {
                let _ = writeln!(text, "{indent}t{need} --> t{index}");
            }
        }
        if stage != Stage::Main {
            text.push_str("  end\n");
        }
    }
    text
}

/// Everything but plain words as a character reference: a label is read as Markdown and as HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            character if character.is_alphanumeric() || matches!(character, ' ' | '-' | '_' | '.' | ':' | ',') => {
                escaped.push(character);
            }
            character if character.is_control() => escaped.push(' '),
            character => _ = write!(escaped, "#{};", character as u32),
        }
    }
    escaped
}
