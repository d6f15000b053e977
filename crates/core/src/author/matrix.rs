//! `matrix` as written: lists that are combined, and what is added to or left out of their combinations.

use serde_json::{Map, Value};

use crate::diagnostic::quoted;
use crate::expr::has_expression;
use crate::workflow::Matrix;
use crate::yaml::{Kind, NodeId};

use super::fields::{Path, Reader};
use super::spec::{Field, Text};
use super::values::{INPUT_NAME_RULE, is_input_name};

const MAX_AXES: usize = 20;

pub(super) fn read(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Matrix> {
    let mut axes = Map::new();
    let (mut include, mut exclude) = (Value::Null, Value::Null);
    for (key, value) in reader.mapping(id, path)? {
        let name = reader.tree.scalar(*key);
        let at = path.key(name);
        match name {
            "include" => include = entries(reader, *value, at, "/include", texts)?,
            "exclude" => exclude = entries(reader, *value, at, "/exclude", texts)?,
            _ if !is_input_name(name) => {
                let message = format!("{} is not a valid name of a list", quoted(name));
                reader.report.add_with_help(reader.place(*key), at, message, INPUT_NAME_RULE);
            }
            _ => _ = axes.insert(name.to_owned(), axis(reader, *value, at, name, texts)?),
        }
    }
    if axes.is_empty() {
        let help = "write `matrix: {os: [linux, mac], version: [1, 2]}`";
        reader.report.add_with_help(reader.place(id), path, "`matrix` has no list to combine", help);
        return None;
    }
    if axes.len() > MAX_AXES {
        reader.report.add(reader.place(id), path, format!("`matrix` has more than {MAX_AXES} lists"));
        return None;
    }
    Some(Matrix { axes: Value::Object(axes), include, exclude })
}

/// A list, or an expression that gives one.
fn axis(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, name: &str, texts: &mut Vec<Text>) -> Option<Value> {
    match &reader.node(id).kind {
        Kind::Sequence(_) => {}
        Kind::Scalar { .. } if has_expression(reader.text(id, path)?) => {}
        _ => {
            let message = format!("{} must be a list, or one expression in `${{{{ }}}}` that gives one", quoted(name));
            reader.report.add(reader.place(id), path, message);
            return None;
        }
    }
    texts_of(reader, id, path, &format!("/axes/{name}"), texts)
}

/// A list of mappings.
fn entries(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    pointer: &str,
    texts: &mut Vec<Text>,
) -> Option<Value> {
    for (index, item) in reader.list(id, path)?.iter().enumerate() {
        reader.mapping(*item, path.index(index))?;
    }
    texts_of(reader, id, path, pointer, texts)
}

fn texts_of(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    pointer: &str,
    texts: &mut Vec<Text>,
) -> Option<Value> {
    reader.json(id, path, pointer, &mut |pointer, node, path| {
        texts.push(Text::new(Field::ForeachMember(pointer.into()), node, path));
    })
}
