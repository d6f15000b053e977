//! Graphviz's language.

use std::fmt::Write as _;

use crate::Workflow;
use crate::workflow::{Action, Stage};

use super::labels::{kind, marks, title};

pub fn dot(workflow: &Workflow) -> String {
    let mut text = format!("digraph {} {{\n", quoted(&workflow.name));
    text.push_str("  rankdir=TB;\n  node [shape=box, style=rounded, fontname=\"Helvetica\"];\n");
    for stage in Stage::ALL.iter().copied() {
        let range = workflow.stage(stage);
        if range.is_empty() {
            continue;
        }
        let indent = if stage == Stage::Main { "  " } else { "    " };
        if stage != Stage::Main {
            let _ = writeln!(
                text,
                "  subgraph \"cluster_{stage}\" {{\n    label={};\n    style=dashed;",
                quoted(title(stage))
            );
        }
        for index in range.clone() {
            let task = &workflow.tasks[index];
            let mut lines = vec![task.name.clone(), kind(task)];
            lines.extend(marks(task));
            let shape = match &task.action {
                Action::Approval(_) => ", shape=diamond",
                Action::Wait(_) => ", shape=ellipse",
                Action::Workflow(_) => ", peripheries=2",
                _ => "",
            };
            let _ = writeln!(text, "{indent}t{index} [label={}{shape}];", quoted(&lines.join("\n")));
        }
        for index in range {
            for need in &workflow.tasks[index].needs {
                let _ = writeln!(text, "{indent}t{need} -> t{index};");
            }
        }
        if stage != Stage::Main {
            text.push_str("  }\n");
        }
    }
    text.push_str("}\n");
    text
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            character if character.is_control() => quoted.push('?'),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
