//! `mainspring.toml`, with the place of every word.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use mainspring_core::diagnostic::{did_you_mean, quoted};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::KEYS;
use super::layers::{Layers, RawValue, Source};
use crate::failure::{Failure, Result, cause};

const LARGEST: u64 = 1 << 20;

pub(super) fn read(layers: &mut Layers, path: &Path) -> Result<()> {
    let name = path.display().to_string();
    let unreadable = |cause: String| {
        Failure::bad_input(format!("the configuration {name} cannot be read: {cause}"))
            .remedy("name a file with --config, or leave it out for the defaults")
    };
    let size = std::fs::metadata(path).map_err(|error| unreadable(cause(&error)))?.len();
    if size > LARGEST {
        return Err(unreadable(format!("it has {size} bytes, at most {LARGEST} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(cause(&error)))?;
    read_text(layers, &name, &text);
    Ok(())
}

fn read_text(layers: &mut Layers, name: &str, text: &str) {
    let place = Places { name, text };
    match DeTable::parse(text) {
        Ok(table) => read_table(layers, &place, table.get_ref(), ""),
        Err(error) => {
            let at = error.span().map(|span| place.of(&span));
            let at = at.map_or_else(|| name.to_owned(), |source| source.to_string());
            layers.complain(format!("{at}: {}", error.message()));
        }
    }
}

struct Places<'a> {
    name: &'a str,
    text: &'a str,
}

impl Places<'_> {
    fn of(&self, span: &Range<usize>) -> Source {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        Source::File { name: self.name.to_owned(), line, column }
    }
}

/// Reads a section; `within` is its dotted name with a dot at the end, or nothing.
fn read_table(layers: &mut Layers, places: &Places<'_>, table: &DeTable<'_>, within: &str) {
    for (key, value) in table {
        let name = format!("{within}{}", key.get_ref());
        let known = KEYS.iter().find(|known| known.name == name);
        match (known, value.get_ref()) {
            (Some(known), value_ref) => match word(value_ref) {
                Some(word) => layers.set(known.name, word, places.of(&value.span())),
                None => layers.complain(format!(
                    "{}: `{name}` is {}, but {}",
                    places.of(&value.span()),
                    kind(value_ref),
                    known.meaning
                )),
            },
            (None, DeValue::Table(section)) if within.is_empty() && is_section(&name) => {
                read_table(layers, places, section, &format!("{name}."));
            }
            (None, DeValue::Table(queue)) if within == "queues." => read_queue(layers, places, key, queue),
            (None, _) => layers.complain(unknown(&name, within, &places.of(&key.span()))),
        }
    }
}

/// `[queues.NAME]`, which has a transport and nothing else.
fn read_queue(layers: &mut Layers, places: &Places<'_>, name: &Spanned<Cow<'_, str>>, queue: &DeTable<'_>) {
    let key = "queues.transport";
    let mut pairs = match layers.get(key).map(|setting| &setting.word) {
        Some(RawValue::Table(pairs)) => pairs.clone(),
        _ => Vec::new(),
    };
    for (setting, value) in queue {
        match text(value.get_ref()).filter(|_| setting.get_ref() == "transport") {
            Some(transport) => {
                pairs.push((name.get_ref().to_string(), transport));
                layers.set(key, RawValue::Table(pairs.clone()), places.of(&value.span()));
            }
            None => {
                let place = places.of(&setting.span());
                layers
                    .complain(format!("{place}: a queue has a transport, \"redis\" or \"database\", and nothing else"));
            }
        }
    }
}

fn is_section(name: &str) -> bool {
    KEYS.iter().any(|known| known.name.split_once('.').is_some_and(|(section, _)| section == name))
}

fn unknown(name: &str, within: &str, source: &Source) -> String {
    let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    let near = if within.is_empty() {
        let sections = KEYS.iter().map(|known| known.name.split('.').next().unwrap_or(known.name));
        did_you_mean(name, sections)
    } else {
        let keys = KEYS.iter().filter(|known| known.name.starts_with(within)).map(|known| last(known.name));
        did_you_mean(name.trim_start_matches(within), keys)
    };
    let near = near.or_else(|| {
        let here: Vec<_> = KEYS
            .iter()
            .filter(|known| !within.is_empty() && known.name.starts_with(within))
            .map(|k| last(k.name))
            .collect();
        (!here.is_empty()).then(|| format!("there are {}", here.join(", ")))
    });
    match near {
        Some(near) => format!("{source}: unknown key {}: {near}", quoted(name)),
        None => format!("{source}: unknown key {}", quoted(name)),
    }
}

fn word(value: &DeValue<'_>) -> Option<RawValue> {
    Some(match value {
        DeValue::String(text) => RawValue::Text(text.to_string()),
        DeValue::Boolean(value) => RawValue::Text(value.to_string()),
        DeValue::Integer(number) => RawValue::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok()?),
        DeValue::Array(items) => {
            let texts: Option<Vec<String>> = items.iter().map(|item| text(item.get_ref())).collect();
            RawValue::List(texts?)
        }
        DeValue::Table(table) => {
            let pairs: Option<Vec<_>> =
                table.iter().map(|(key, value)| Some((key.get_ref().to_string(), text(value.get_ref())?))).collect();
            RawValue::Table(pairs?)
        }
        _ => return None,
    })
}

fn text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let mut layers = Layers::default();
        read_text(&mut layers, "m.toml", text);
        layers.into_problems()
    }

    #[test]
    fn unknown_keys_are_named_by_place() {
        for (text, expected) in [
            ("databse = \"x\"", "m.toml:1:1: unknown key `databse`: did you mean `database`?"),
            ("[worker]\n  slot = 4", "m.toml:2:3: unknown key `worker.slot`: did you mean `slots`?"),
            ("[shutdown]\nx = 1", "m.toml:2:1: unknown key `shutdown.x`: there are timeout"),
            ("[workers]\nslots = 1", "m.toml:1:2: unknown key `workers`: did you mean `worker`?"),
            ("[worker.slots.deep]\nx = 1", "m.toml:1:1: `worker.slots` is a section, but processes at once"),
        ] {
            let problems = problems(text);
            assert_eq!(problems.len(), 1, "{text}: {problems:?}");
            let (place, message) = expected.split_once(": ").unwrap();
            assert!(problems[0].ends_with(message), "{}", problems[0]);
            if !text.contains("deep") {
                assert!(problems[0].starts_with(place), "{}", problems[0]);
            }
        }
        assert!(problems("a = ").first().unwrap().starts_with("m.toml:1:"));
    }

    #[test]
    fn queues_have_sections_of_their_own() {
        let mut layers = Layers::default();
        let text = "[queues.mail]\ntransport = \"redis\"\n[queues.\"web.eu\"]\ntransport = \"database\"\n";
        read_text(&mut layers, "m.toml", text);
        let mut pairs = match &layers.get("queues.transport").unwrap().word {
            RawValue::Table(pairs) => pairs.clone(),
            other => panic!("{other:?}"),
        };
        pairs.sort();
        assert_eq!(pairs, [("mail".into(), "redis".into()), ("web.eu".into(), "database".into())]);
        assert!(
            problems("[queues.mail]\nspeed = 1").first().unwrap().starts_with("m.toml:2:1: a queue has a transport")
        );
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let mut layers = Layers::default();
        let text =
            "database = \"sqlite://x\"\n[worker]\nslots = 4\nqueues = [\"a\", \"b\"]\nlabels = {arch = \"arm\"}\n";
        read_text(&mut layers, "m.toml", text);
        let word = |key: &str| layers.get(key).unwrap().word.clone();
        assert_eq!(word("database"), RawValue::Text("sqlite://x".into()));
        assert_eq!(word("worker.slots"), RawValue::Integer(4));
        assert_eq!(word("worker.queues"), RawValue::List(vec!["a".into(), "b".into()]));
        assert_eq!(word("worker.labels"), RawValue::Table(vec![("arch".into(), "arm".into())]));
        assert_eq!(layers.get("worker.slots").unwrap().source.to_string(), "m.toml:3:9");
    }
}
