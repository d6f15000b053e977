//! What an expression refers to, found by reading its tokens.
//!
//! MiniJinja keeps its syntax tree to itself, and task names may hold `-` and `.`, which its grammar would take
//! apart. So references are found here: `tasks.my-task.output` becomes `tasks["my-task"].output` when there is a
//! task of that name, and what an expression reads is known without evaluating it.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::diagnostic::{did_you_mean, quoted};

use super::evaluate::environment;
use super::scope::{Scope, TaskView};
use super::template::string_length;
use super::vocabulary::{Allowed, FILTERS, FUNCTIONS, KEYWORDS, TESTS, check_reference};
use super::{comparison, multiplication};

/// Task name → index.
pub(crate) type NameTable<'t> = HashMap<&'t str, i32>;

/// An expression that compiles, in the form in which it is stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Analysis {
    pub(crate) text: String,
    pub(crate) references: Vec<Reference>,
}

/// A path like `tasks.extract.output.rows`, as far as it is written with constants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) root: String,
    pub(crate) path: Vec<String>,
    /// Byte offset in the expression as written.
    pub(crate) offset: usize,
    pub(crate) end: usize,
    /// In characters.
    pub(crate) length: usize,
}

impl Reference {
    /// The value it stands for, as far as there is one.
    pub(super) fn look_up<'s>(&self, scope: &'s Scope, env: &'s Map<String, Value>) -> Option<Cow<'s, Value>> {
        let (fields, path) = match self.root.as_str() {
            "tasks" => return self.look_up_task(scope),
            "item" | "matrix" => return walk(scope.item.as_ref()?, &self.path).map(Cow::Borrowed),
            "event" => return walk(scope.event.as_ref()?, &self.path).map(Cow::Borrowed),
            "index" => return scope.index.map(|index| Cow::Owned(index.into())),
            "body" | "status" | "headers" | "error" => {
                return walk(scope.answer.get(&self.root)?, &self.path).map(Cow::Borrowed);
            }
            "inputs" => (&scope.inputs, &self.path[..]),
            "run" => (&scope.run, &self.path[..]),
            "workflow" => (&scope.workflow, &self.path[..]),
            "secrets" => (&scope.secrets, &self.path[..]),
            _ => (env, &self.path[..]),
        };
        match path.split_first() {
            None => Some(Cow::Owned(Value::Object(fields.clone()))),
            Some((name, rest)) => walk(fields.get(name)?, rest).map(Cow::Borrowed),
        }
    }

    fn look_up_task<'s>(&self, scope: &'s Scope) -> Option<Cow<'s, Value>> {
        let (name, rest) = self.path.split_first()?;
        let view = scope.tasks.get(name)?;
        match (rest.split_first(), &view.output) {
            (Some((field, rest)), Some(output)) if field == "output" => walk(output, rest).map(Cow::Borrowed),
            (Some((field, rest)), _) => {
                let value = take(&mut TaskView { output: None, ..view.clone() }.to_json(), field)?;
                walk(&value, rest).cloned().map(Cow::Owned)
            }
            (None, _) => Some(Cow::Owned(view.to_json())),
        }
    }
}

fn walk<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, segment| match value {
        Value::Object(fields) => fields.get(segment),
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Takes one field or item out of a value.
pub(super) fn take(value: &mut Value, segment: &str) -> Option<Value> {
    match value {
        Value::Object(fields) => fields.remove(segment),
        Value::Array(items) => {
            let index: usize = segment.parse().ok()?;
            (index < items.len()).then(|| items.swap_remove(index))
        }
        _ => None,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExprError {
    pub(crate) offset: usize,
    pub(crate) length: usize,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// Checks an expression and brings it into the stored form.
pub(crate) fn analyse(
    source: &str,
    names: &NameTable<'_>,
    inputs: &dyn Fn(&str) -> bool,
    allowed: Allowed,
) -> Result<Analysis, ExprError> {
    let whole = |message: String| ExprError { offset: 0, length: source.chars().count(), message, help: None };
    if source.is_empty() {
        return Err(whole("the expression is empty".into()));
    }
    if source.len() > super::MAX_EXPRESSION {
        return Err(whole(format!("the expression is longer than {} bytes", super::MAX_EXPRESSION)));
    }
    super::depth::check(source).map_err(whole)?;
    let text = String::with_capacity(source.len());
    let mut scan = Scan { source, names, inputs, at: 0, text, references: Vec::new() };
    scan.run()?;
    let Scan { text, references, .. } = scan;
    let compiled = environment()
        .compile_expression(&text)
        .and_then(|_| environment().compile_expression_owned(comparison::rewrite(&text)).map(drop));
    if let Err(error) = compiled {
        return Err(does_not_compile(source, &error));
    }
    multiplication::check_literals(&text).map_err(whole)?;
    for reference in &references {
        check_reference(reference, names, allowed)?;
    }
    Ok(Analysis { text, references })
}

fn does_not_compile(source: &str, error: &minijinja::Error) -> ExprError {
    let message = format!("{} does not compile: {}", quoted(source), describe(error));
    let help = has_single_equals(source).then(|| "a comparison is written `==`".to_owned());
    ExprError { offset: 0, length: source.chars().count(), message, help }
}

/// Whether there is a `=` that is not part of another operator, outside of texts and brackets.
fn has_single_equals(source: &str) -> bool {
    let bytes = source.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'') => at += string_length(&bytes[at..], quote).unwrap_or(0),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'!' | b'<' | b'>' | b'=' if bytes.get(at + 1) == Some(&b'=') => at += 1,
            b'=' if depth == 0 => return true,
            _ => {}
        }
        at += 1;
    }
    false
}

/// The references of an expression in stored form; used to explain a failed evaluation.
pub(crate) fn references(source: &str) -> Vec<Reference> {
    let names = NameTable::new();
    let mut scan =
        Scan { source, names: &names, inputs: &|_| false, at: 0, text: String::new(), references: Vec::new() };
    match scan.run() {
        Ok(()) => scan.references,
        Err(_) => Vec::new(),
    }
}

pub(super) fn describe(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    }
}

struct Scan<'s, 'n> {
    source: &'s str,
    names: &'n NameTable<'n>,
    /// Whether there is an input of that name.
    inputs: &'n dyn Fn(&str) -> bool,
    at: usize,
    text: String,
    references: Vec<Reference>,
}

/// What stood before the current token, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// `.`: the next word is an attribute.
    Dot,
    /// `|`: the next word is a filter.
    Pipe,
    /// `is` or `is not`: the next word is a test.
    Is,
}

impl Scan<'_, '_> {
    fn run(&mut self) -> Result<(), ExprError> {
        let bytes = self.source.as_bytes();
        let mut before = Before::Nothing;
        while self.at < bytes.len() {
            let start = self.at;
            let byte = bytes[start];
            match byte {
                b'"' | b'\'' => {
                    let length = string_length(&bytes[start..], byte).ok_or_else(|| ExprError {
                        offset: start,
                        length: 1,
                        message: "a quoted text is never closed".into(),
                        help: None,
                    })?;
                    self.copy(start + length + 1);
                    before = Before::Nothing;
                }
                b'0'..=b'9' => {
                    let end = start + run_length(&bytes[start..], |byte| byte.is_ascii_alphanumeric() || byte == b'_');
                    self.copy(end);
                    before = Before::Nothing;
                }
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => before = self.word(before)?,
                b'.' => {
                    self.copy(start + 1);
                    before = Before::Dot;
                }
                b'|' => {
                    self.copy(start + 1);
                    before = Before::Pipe;
                }
                byte if byte.is_ascii_whitespace() => self.copy(start + 1),
                _ => {
                    let width = self.source[start..].chars().next().map_or(1, char::len_utf8);
                    self.copy(start + width);
                    before = Before::Nothing;
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, end: usize) {
        self.text.push_str(&self.source[self.at..end]);
        self.at = end;
    }

    fn word(&mut self, before: Before) -> Result<Before, ExprError> {
        let start = self.at;
        let bytes = self.source.as_bytes();
        let end = start + run_length(&bytes[start..], is_word);
        let word = &self.source[start..end];
        self.copy(end);
        match before {
            Before::Is if word == "not" => return Ok(Before::Is),
            Before::Dot => return Ok(Before::Nothing),
            Before::Pipe => return known_word(word, start, "filter", &FILTERS),
            Before::Is => return known_word(word, start, "test", &TESTS),
            Before::Nothing if word == "is" => return Ok(Before::Is),
            Before::Nothing if KEYWORDS.contains(&word) => return Ok(Before::Nothing),
            Before::Nothing => {}
        }
        let next = bytes[end..].iter().position(|byte| !byte.is_ascii_whitespace()).map(|skip| &bytes[end + skip..]);
        let is_argument = next.is_some_and(|next| next.starts_with(b"=") && !next.starts_with(b"=="));
        let is_call = next.is_some_and(|next| next.starts_with(b"("));
        if is_argument || is_call && FUNCTIONS.contains(&word) {
            return Ok(Before::Nothing);
        }
        let mut path = Vec::new();
        match word {
            "tasks" => self.dashed_name(&mut path, |scan, name| scan.names.contains_key(name)),
            // Plain names stay as they are written.
            "inputs" => self.dashed_name(&mut path, |scan, name| name.contains(['-', '.']) && (scan.inputs)(name)),
            _ => {}
        }
        self.accessors(&mut path);
        let length = self.source[start..self.at].chars().count();
        self.references.push(Reference { root: word.to_owned(), path, offset: start, end: self.at, length });
        Ok(Before::Nothing)
    }

    /// After `tasks` or `inputs`: the longest run of name characters that is the name of one.
    fn dashed_name(&mut self, path: &mut Vec<String>, is_known: impl Fn(&Self, &str) -> bool) {
        let rest = &self.source.as_bytes()[self.at..];
        if rest.first() != Some(&b'.') {
            return;
        }
        let run = run_length(&rest[1..], |byte| is_word(byte) || matches!(byte, b'-' | b'.'));
        let name_at = self.at + 1;
        let known = (1..=run).rev().find(|length| {
            let boundary = *length == run || !is_word(rest[1 + length]);
            boundary && is_known(self, &self.source[name_at..name_at + length])
        });
        if let Some(length) = known {
            let name = &self.source[name_at..name_at + length];
            self.text.push_str(&format!("[\"{name}\"]"));
            self.at = name_at + length;
            path.push(name.to_owned());
        }
    }

    /// `.word`, `['text']` and `[0]`, as many as follow.
    fn accessors(&mut self, path: &mut Vec<String>) {
        loop {
            let bytes = self.source.as_bytes();
            let rest = &bytes[self.at..];
            match rest.first() {
                Some(b'.') => {
                    let length = run_length(&rest[1..], is_word);
                    if length == 0 {
                        return;
                    }
                    let end = self.at + 1 + length;
                    // A method call is not a part of the data.
                    if bytes.get(end) == Some(&b'(') {
                        return;
                    }
                    path.push(self.source[self.at + 1..end].to_owned());
                    self.copy(end);
                }
                Some(b'[') => match constant_index(&self.source[self.at..]) {
                    Some((key, length)) => {
                        path.push(key);
                        self.copy(self.at + length);
                    }
                    None => return,
                },
                _ => return,
            }
        }
    }
}

fn known_word(word: &str, offset: usize, what: &str, known: &[&str]) -> Result<Before, ExprError> {
    if known.contains(&word) {
        return Ok(Before::Nothing);
    }
    let message = format!("there is no {what} {}", quoted(word));
    Err(ExprError { offset, length: word.len(), message, help: did_you_mean(word, known.iter().copied()) })
}

/// Reads `['text']` or `[12]`: the key, and how long it is written.
fn constant_index(text: &str) -> Option<(String, usize)> {
    let close = match text.as_bytes().get(1)? {
        quote @ (b'"' | b'\'') => 1 + string_length(&text.as_bytes()[1..], *quote)? + 1,
        b'0'..=b'9' => 1 + run_length(&text.as_bytes()[1..], |byte| byte.is_ascii_digit()),
        _ => return None,
    };
    if text.as_bytes().get(close) != Some(&b']') {
        return None;
    }
    let inner = &text[1..close];
    let key = inner.strip_prefix(['"', '\'']).map_or(inner, |key| &key[..key.len() - 1]);
    (!key.contains('\\')).then(|| (key.to_owned(), close + 1))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn run_length(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| belongs(**byte)).count()
}
