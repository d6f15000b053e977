//! `image` as written.

use crate::expr::has_expression;
use crate::workflow::{Container, Pull};
use crate::yaml::{Kind, NodeId};

use super::dialect::IMAGE;
use super::fields::{Path, Reader, subject, unread};
use super::spec::{Field, ImageField, Text};

/// The name of an image, or a mapping with it.
pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    texts: &mut Vec<Text>,
) -> Option<Container> {
    if let Kind::Scalar { .. } = reader.node(id).kind {
        return Some(Container::new(template(reader, id, path, ImageField::Name, texts)?));
    }
    let mut container = Container::new(String::new());
    let mut named = false;
    for entry in reader.entries(id, path, &IMAGE)? {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "name" => {
                named = true;
                container.image = template(reader, value, at, ImageField::Name, texts)?;
            }
            "command" => {
                let items = reader.one_or_many(value, at, "a word or a list of words")?;
                for (index, item) in items.into_iter().enumerate() {
                    let text = reader.text(item, at.index(index))?.to_owned();
                    if has_expression(&text) {
                        texts.push(Text::new(Field::Image(ImageField::Command(index)), item, at.index(index)));
                    }
                    container.command.push(text);
                }
            }
            "user" => container.user = Some(word(reader, value, at)?),
            "network" => container.network = Some(word(reader, value, at)?),
            "memory" => container.memory_bytes = reader.size(value, at),
            "cpus" => container.cpu_millis = reader.number(value, at, 0.01..=1024.0).map(|cpus| (cpus * 1000.0) as u32),
            "pull" => container.pull = reader.word(value, at, Pull::ALL)?,
            "username" => container.username = template(reader, value, at, ImageField::Username, texts),
            "password" => container.password = template(reader, value, at, ImageField::Password, texts),
            other => unread(other),
        }
    }
    if !named {
        reader.report.add_with_help(reader.place(id), path, "`image` has no name", "add `name: debian:12`");
        return None;
    }
    if container.username.is_some() != container.password.is_some() {
        let message = "`username` and `password` belong together";
        reader.report.add(reader.place(id), path, message);
    }
    Some(container)
}

fn template(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    field: ImageField,
    texts: &mut Vec<Text>,
) -> Option<String> {
    let text = reader.filled_text(id, path)?;
    if has_expression(text) {
        texts.push(Text::new(Field::Image(field), id, path));
    } else if text.starts_with('-') || text.chars().any(char::is_whitespace) {
        reader.report.add(reader.place(id), path, format!("{} is one word and does not begin with `-`", subject(path)));
        return None;
    }
    Some(text.to_owned())
}

/// An argument of the engine.
fn word(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Option<String> {
    let text = reader.constant(id, path)?;
    if text.starts_with('-') || text.chars().any(|character| character.is_whitespace() || character.is_control()) {
        reader.report.add(reader.place(id), path, format!("{} is one word and does not begin with `-`", subject(path)));
        return None;
    }
    Some(text.to_owned())
}
