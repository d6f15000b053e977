//! Declared inputs as written.

use indexmap::IndexMap;
use serde_json::{Number, Value};

use crate::diagnostic::quoted;
use crate::inputs;
use crate::workflow::{Input, InputKind};
use crate::yaml::NodeId;

use super::dialect::{INPUT, MAX_LENGTH};
use super::fields::{Entry, Path, Reader, unread};
use super::spec::{Field, Text};
use super::values::{INPUT_NAME_RULE, is_input_name};

pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    texts: &mut Vec<Text>,
) -> IndexMap<String, Input> {
    let mut inputs = IndexMap::new();
    for (key, value) in reader.mapping(id, path).unwrap_or_default() {
        let name = reader.tree.scalar(*key);
        let path = path.key(name);
        if !is_input_name(name) {
            let message = format!("{} is not a valid input name", quoted(name));
            reader.report.add_with_help(reader.place(*key), path, message, INPUT_NAME_RULE);
            continue;
        }
        if let Some(input) = input(reader, name, *value, path, texts) {
            inputs.insert(name.to_owned(), input);
        }
    }
    inputs
}

/// What has to be looked at again once the type is known.
#[derive(Default)]
struct Parts<'t> {
    required: Option<bool>,
    default_at: Option<NodeId>,
    dynamic: bool,
    pattern: Option<Entry<'t>>,
    bounds: Vec<Entry<'t>>,
}

fn input(reader: &mut Reader<'_, '_>, name: &str, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Input> {
    let mut input = Input {
        kind: InputKind::String,
        description: None,
        required: false,
        default: None,
        choices: Vec::new(),
        pattern: None,
        min: None,
        max: None,
    };
    let mut parts = Parts::default();
    for entry in reader.entries(id, path, &INPUT)? {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "type" => input.kind = reader.word(value, at, InputKind::ALL)?,
            "description" => input.description = reader.text(value, at).map(Into::into),
            "required" => parts.required = reader.boolean(value, at),
            "default" => {
                parts.default_at = Some(value);
                input.default = reader.json(value, at, "", &mut |_, node, path| {
                    parts.dynamic = true;
                    texts.push(Text::new(Field::InputDefault(name.into()), node, path));
                });
            }
            "enum" => {
                for (index, item) in reader.list(value, at).unwrap_or_default().iter().enumerate() {
                    input.choices.extend(reader.json(*item, at.index(index), "", &mut |_, _, _| {}));
                }
            }
            "pattern" => parts.pattern = Some(entry),
            "min" | "max" | "min_length" | "max_length" => parts.bounds.push(entry),
            other => unread(other),
        }
    }
    constraints(reader, &mut input, &parts, path);
    check_values(reader, name, id, &input, &parts, path);
    input.required = parts.required.unwrap_or(true) && input.default.is_none();
    Some(input)
}

fn constraints(reader: &mut Reader<'_, '_>, input: &mut Input, parts: &Parts<'_>, path: Path<'_>) {
    if let Some(entry) = parts.pattern {
        let at = path.key(entry.name);
        if input.kind == InputKind::String {
            input.pattern = reader.pattern(entry.value, at).map(Into::into);
        } else {
            let message = format!("`pattern` has no meaning for the type `{}`", input.kind);
            reader.report.add_with_help(reader.place(entry.key), at, message, "it belongs to `string`");
        }
    }
    for entry in &parts.bounds {
        let at = path.key(entry.name);
        let of_length = entry.name.ends_with("_length");
        let measured = matches!(input.kind, InputKind::String | InputKind::List);
        let numeric = matches!(input.kind, InputKind::Integer | InputKind::Number);
        if !measured && (!numeric || of_length) {
            let message = format!("`{}` has no meaning for the type `{}`", entry.name, input.kind);
            let help = if of_length {
                "it belongs to `string` and `list`"
            } else {
                "it belongs to numbers, `string` and `list`"
            };
            reader.report.add_with_help(reader.place(entry.key), at, message, help);
            continue;
        }
        let bound = if measured || input.kind == InputKind::Integer {
            let least = if measured { 0 } else { i64::MIN };
            let greatest = if measured { MAX_LENGTH } else { i64::MAX };
            reader.integer(entry.value, at, least..=greatest).map(Number::from)
        } else {
            reader.number(entry.value, at, f64::MIN..=f64::MAX).and_then(Number::from_f64)
        };
        let slot = if entry.name.starts_with("min") { &mut input.min } else { &mut input.max };
        if slot.is_some() && bound.is_some() {
            let message = "`min` and `min_length` (`max` and `max_length`) are the same here";
            reader.report.add_with_help(reader.place(entry.key), at, message, "keep one of them");
        }
        *slot = bound;
    }
    if let (Some(min), Some(max)) = (&input.min, &input.max)
        && min.as_f64() > max.as_f64()
        && let Some(entry) = parts.bounds.last()
    {
        let message = format!("no value lies between {min} and {max}");
        reader.report.add(reader.place(entry.value), path.key(entry.name), message);
    }
}

/// A default and choices that the declaration itself would refuse.
fn check_values(reader: &mut Reader<'_, '_>, name: &str, id: NodeId, input: &Input, parts: &Parts<'_>, path: Path<'_>) {
    if let Some(at) = parts.default_at
        && let Some(default) = &input.default
        && !(parts.dynamic && inputs::is_template(default))
        && !(default == &Value::Null && parts.required == Some(false))
        && let Err(cause) = inputs::conform(input, default)
    {
        reader.report.add(reader.place(at), path.key("default"), format!("the default of {} {cause}", quoted(name)));
    }
    if input.choices.is_empty() {
        return;
    }
    let plain = Input { choices: Vec::new(), ..input.clone() };
    for choice in &input.choices {
        if let Err(cause) = inputs::conform(&plain, choice) {
            reader.report.add(reader.place(id), path.key("enum"), format!("a choice of {} {cause}", quoted(name)));
        }
    }
}
