//! YAML by saphyr's events.

use std::cell::Cell;
use std::rc::Rc;

use saphyr_parser::{Event, Input, Parser, ScalarStyle, Span};

use crate::diagnostic::{Place, Report};

use super::builder::{Builder, Stop};
use super::{Kind, Node, NodeId, Style};

/// Items of `[ ]` and `{ }` that may be read before the first of them is known not to be a key. The scanner keeps
/// them all, at nearly 400 bytes each.
const MAX_LOOK_AHEAD: u32 = 150_000;

pub(super) fn read<'s>(source: &'s str, report: &mut Report) -> Result<(Vec<Node<'s>>, Option<NodeId>), Stop> {
    let mut builder = Builder::new(source, report);
    let pending = Rc::new(Cell::new(0));
    // Reading through the guard is slower, so only texts that could go wrong pay for it.
    let risky = source.bytes().filter(|byte| is_separator(*byte as char)).count() > MAX_LOOK_AHEAD as usize;
    if risky {
        let guarded = Guarded { characters: source.chars(), pending: Rc::clone(&pending) };
        drive(source, Parser::new_from_iter(guarded), &mut builder, &pending)?;
    } else {
        drive(source, Parser::new_from_str(source), &mut builder, &pending)?;
    }
    Ok(builder.finish())
}

fn is_separator(character: char) -> bool {
    matches!(character, ',' | '[' | '{')
}

/// Ends the text when too much of it was read since the last event.
struct Guarded<'s> {
    characters: std::str::Chars<'s>,
    pending: Rc<Cell<u32>>,
}

impl Iterator for Guarded<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        if self.pending.get() > MAX_LOOK_AHEAD {
            return None;
        }
        let character = self.characters.next()?;
        if is_separator(character) {
            self.pending.set(self.pending.get() + 1);
        }
        Some(character)
    }
}

/// What newcomers to YAML run into, and what to write instead.
fn help(source: &str, place: Place, cause: &str) -> Option<String> {
    let line = source.lines().nth(place.line.saturating_sub(1) as usize).unwrap_or_default();
    let before = source.lines().nth(place.line.saturating_sub(2) as usize).unwrap_or_default();
    let behind = source.lines().nth(place.line as usize).unwrap_or_default();
    let indent = |line: &str| line[..line.len() - line.trim_start().len()].contains('\t');
    if indent(line) || indent(before) || (cause.contains("tab") && indent(behind)) {
        return Some("indent with spaces: YAML does not take tabs there".into());
    }
    if cause.contains("mapping values") {
        return Some("a `: ` begins a new key: put the whole value in quotes, or below a `|`".into());
    }
    if cause.contains("did not find expected ',' or") {
        return Some("inside `{ }` and `[ ]`, put a text that holds `: `, `,` or a bracket in quotes".into());
    }
    let value = line.split_once(": ").map_or(line, |(_, value)| value).trim_start();
    match value.chars().next() {
        Some('%' | '@' | '`' | '&' | '*' | '!') => Some("put the whole value in quotes, or below a `|`".into()),
        Some('"' | '\'') => Some("text behind a closing quote: put the whole value in quotes, or below a `|`".into()),
        _ => None,
    }
}

fn drive<'s, 'i: 's, T: Input>(
    source: &str,
    parser: Parser<'i, T>,
    builder: &mut Builder<'s, '_>,
    pending: &Cell<u32>,
) -> Result<(), Stop> {
    let mut documents = 0;
    for event in parser {
        if pending.get() > MAX_LOOK_AHEAD {
            let at = event.map_or_else(|error| *error.marker(), |(_, span)| span.start);
            let place = Place { line: at.line() as u32, column: at.col() as u32 + 1, length: 1 };
            return builder.refuse(place, "a value in `[ ]` or `{ }` holds more than 150,000 items: write it in lines");
        }
        pending.set(0);
        match event {
            Ok((Event::DocumentStart(_), span)) => {
                documents += 1;
                if documents > 1 {
                    return builder
                        .refuse(place(span), "a second document begins here, but a workflow is one document");
                }
            }
            Ok((event, span)) => one(builder, event, place(span))?,
            Err(error) => {
                let mark = error.marker();
                let place = Place { line: mark.line() as u32, column: mark.col() as u32 + 1, length: 1 };
                let help = help(source, place, error.info());
                return builder.refuse_with_help(place, format!("not valid YAML: {}", error.info()), help);
            }
        }
        if builder.has_many_problems() {
            return Err(Stop);
        }
    }
    Ok(())
}

fn one<'s>(builder: &mut Builder<'s, '_>, event: Event<'s>, place: Place) -> Result<(), Stop> {
    match event {
        Event::Scalar(_, _, _, Some(_)) | Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
            builder.refuse(place, "YAML tags (`!…`) are not supported")
        }
        Event::Scalar(text, style, anchor, None) => {
            let style = match style {
                ScalarStyle::Plain => Style::Plain,
                ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
                ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
            };
            builder.scalar(text, style, anchor, place)
        }
        Event::SequenceStart(anchor, None) => builder.open(Kind::Sequence(Vec::new()), anchor, place),
        Event::MappingStart(anchor, None) => builder.open(Kind::Mapping(Vec::new()), anchor, place),
        Event::SequenceEnd | Event::MappingEnd => builder.close(),
        Event::Alias(anchor) => builder.alias(anchor, place),
        _ => Ok(()),
    }
}

fn place(span: Span) -> Place {
    let length =
        if span.end.line() == span.start.line() { span.end.col().saturating_sub(span.start.col()).max(1) } else { 1 };
    let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Place { line: narrow(span.start.line()), column: narrow(span.start.col() + 1), length: narrow(length) }
}
