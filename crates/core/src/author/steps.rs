//! `steps` as written.

use crate::diagnostic::quoted;
use crate::expr::has_expression;
use crate::workflow::Step;
use crate::yaml::{Kind, NodeId};

use super::dialect::STEP;
use super::fields::{Path, Reader, unread};
use super::spec::{Field, StepField, Text};

const MAX_STEPS: usize = 1_000;

/// A list of scripts, or of mappings with `run`.
pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    texts: &mut Vec<Text>,
) -> Option<Vec<Step>> {
    let items = reader.list(id, path)?;
    if items.is_empty() || items.len() > MAX_STEPS {
        let message = match items.len() {
            0 => "`steps` is empty".to_owned(),
            _ => format!("a task has at most {MAX_STEPS} steps"),
        };
        reader.report.add(reader.place(id), path, message);
        return None;
    }
    let mut steps: Vec<Step> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let step = step(reader, *item, path.index(index), index, texts)?;
        if steps.iter().any(|known| known.name == step.name) {
            let message = format!("there is a step {} already", quoted(&step.name));
            reader.report.add(reader.place(*item), path.index(index), message);
        }
        steps.push(step);
    }
    Some(steps)
}

fn step(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, index: usize, texts: &mut Vec<Text>) -> Option<Step> {
    let mut step = Step { name: format!("step-{}", index + 1), ..Step::default() };
    let mut script = None;
    if let Kind::Scalar { .. } = reader.node(id).kind {
        script = Some((id, path.to_string()));
        step.script = reader.script(id, path)?.to_owned();
    } else {
        for entry in reader.entries(id, path, &STEP)? {
            let (at, value) = (path.key(entry.name), entry.value);
            let mut text = |field, node, path: Path<'_>| texts.push(Text::new(Field::Step(index, field), node, path));
            match entry.name {
                "name" => step.name = reader.name(value, at)?.to_owned(),
                "run" => {
                    script = Some((value, at.to_string()));
                    step.script = reader.script(value, at)?.to_owned();
                }
                "if" => {
                    step.condition = reader.text(value, at).map(Into::into);
                    text(StepField::Condition, value, at);
                }
                "env" => {
                    step.env = reader.env(value, at, |name, node, path| text(StepField::Env(name.into()), node, path));
                }
                "shell" => step.shell = reader.constant(value, at).map(Into::into),
                "cwd" => {
                    let cwd = reader.filled_text(value, at)?;
                    if has_expression(cwd) {
                        text(StepField::Cwd, value, at);
                    }
                    step.cwd = Some(cwd.to_owned());
                }
                "continue_on_error" => step.continue_on_error = reader.boolean(value, at)?,
                other => unread(other),
            }
        }
    }
    let Some((node, at)) = script else {
        reader.report.add_with_help(reader.place(id), path, "the step does not say what to do", "add `run`");
        return None;
    };
    if has_expression(&step.script) {
        // Behind its `env`, which it may read.
        texts.push(Text { field: Field::Step(index, StepField::Script), node, path: at });
    }
    Some(step)
}
