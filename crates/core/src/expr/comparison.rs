//! Comparisons between texts and numbers.
//!
//! A task that writes `rows=0` leaves the text `0`, and MiniJinja orders every text above every number. So a text that
//! is a number compares as one, and any other text against a number is an error. MiniJinja's operators cannot be
//! replaced, so an expression is rewritten before it is compiled: `a > b` becomes a call of a function of our own.
//! The stored form of an expression keeps the operators.

use std::cmp::Ordering;

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

use super::filters::invalid;
use super::template::string_length;

/// An operator, the function and the test that replace it, and whether it holds.
type Comparison = (&'static str, &'static str, &'static str, fn(Ordering) -> bool);

/// Operators, longest first. An author cannot call the functions:
/// names that begin with `_` are unknown to [`super::vocabulary`].
const OPERATORS: [Comparison; 6] = [
    ("==", "_eq", "eq", Ordering::is_eq),
    ("!=", "_ne", "ne", Ordering::is_ne),
    ("<=", "_le", "le", Ordering::is_le),
    (">=", "_ge", "ge", Ordering::is_ge),
    ("<", "_lt", "lt", Ordering::is_lt),
    (">", "_gt", "gt", Ordering::is_gt),
];

pub(super) fn add(environment: &mut Environment<'_>) {
    for (operator, function, test, holds) in OPERATORS {
        environment.add_function(function, move |left: &Value, right: &Value| compared(left, right, operator, holds));
        environment.add_test(test, move |left: &Value, right: &Value| compared(left, right, operator, holds));
    }
    environment.add_function("_in", contains);
    environment.add_test("in", contains);
}

fn compared(left: &Value, right: &Value, operator: &str, holds: fn(Ordering) -> bool) -> Result<bool, Error> {
    if left.is_undefined() || right.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let (as_left, as_right) = match (is_number(left), is_number(right)) {
        (true, false) => (None, number_of(right)),
        (false, true) => (number_of(left), None),
        _ => (None, None),
    };
    let is_mixed = is_number(left) && right.as_str().is_some() || left.as_str().is_some() && is_number(right);
    if is_mixed && as_left.is_none() && as_right.is_none() {
        return Err(invalid(format!(
            "{} {operator} {} compares a text with a number; write `| string` behind the number to compare texts, or `| int` behind the text with a default, as in `| int(0)`",
            shown(left),
            shown(right)
        )));
    }
    let (left, right) = (as_left.as_ref().unwrap_or(left), as_right.as_ref().unwrap_or(right));
    // Equality is asked for as such: values without an order can still be equal.
    Ok(match operator {
        "==" => left == right,
        "!=" => left != right,
        _ => holds(left.cmp(right)),
    })
}

/// In a list every member is compared on its own, so one that is a text is simply another value than a number.
fn contains(state: &State<'_, '_>, value: &Value, container: &Value) -> Result<bool, Error> {
    if value.is_undefined() || container.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    if matches!(container.kind(), ValueKind::Seq | ValueKind::Iterable) {
        for item in container.try_iter()? {
            if compared(value, &item, "==", Ordering::is_eq).unwrap_or(false) {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    if !matches!(container.kind(), ValueKind::String | ValueKind::Map) {
        return Err(invalid("`in` looks into lists, mappings and texts"));
    }
    minijinja::tests::is_in(state, value, container)
}

fn is_number(value: &Value) -> bool {
    value.is_number()
}

/// The number that a text is, if it is one.
fn number_of(value: &Value) -> Option<Value> {
    let text = value.as_str()?.trim();
    let is_written_in_digits = text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    if !is_written_in_digits {
        return None;
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Into::into)
}

fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    match value.as_str() {
        Some(text) if text.chars().count() > MOST => format!("\"{}…\"", text.chars().take(MOST).collect::<String>()),
        Some(text) => format!("\"{text}\""),
        None => value.to_string(),
    }
}

/// The expression with every comparison as a call. What does not parse is left to the compiler's complaint.
pub(super) fn rewrite(source: &str) -> String {
    let mut rewriter = Rewriter { source, at: 0, levels: vec![Level::default()], before: Before::Nothing };
    rewriter.run();
    while rewriter.levels.len() > 1 {
        rewriter.close("");
    }
    let mut last = rewriter.levels.pop().unwrap_or_default();
    last.flush();
    last.done
}

/// What is between one pair of brackets, as far as it has been read.
#[derive(Default)]
struct Level {
    done: String,
    /// Operands with the operator behind each: `a < b < c` is one chain.
    chain: Vec<(String, &'static str)>,
    operand: String,
}

impl Level {
    fn operator(&mut self, function: &'static str) {
        let operand = std::mem::take(&mut self.operand);
        self.chain.push((operand, function));
    }

    /// Ends the chain: the next word binds weaker than a comparison.
    fn flush(&mut self) {
        let mut left: Option<(String, &'static str)> = None;
        let mut calls = Vec::new();
        let last = (std::mem::take(&mut self.operand), "");
        if self.chain.is_empty() {
            self.done.push_str(&last.0);
            return;
        }
        for (operand, function) in self.chain.drain(..).chain([last]) {
            if let Some((left, call)) = left {
                calls.push(match call.strip_prefix('!') {
                    Some(call) => format!("(not {call}({left}, {}))", operand.trim()),
                    None => format!("{call}({left}, {})", operand.trim()),
                });
            }
            left = Some((operand.trim().to_owned(), function));
        }
        self.done.push_str(&match calls.as_slice() {
            [call] => format!(" {call} "),
            _ => format!(" ({}) ", calls.join(" and ")),
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// `.` or `|`: the next word is a name, whatever it is.
    Name,
    /// `is`: `not` and the name of a test follow.
    Is,
}

struct Rewriter<'s> {
    source: &'s str,
    at: usize,
    levels: Vec<Level>,
    before: Before,
}

impl Rewriter<'_> {
    fn run(&mut self) {
        while self.at < self.source.len() {
            let rest = &self.source[self.at..];
            let byte = rest.as_bytes()[0];
            match byte {
                b'"' | b'\'' => {
                    let length = string_length(rest.as_bytes(), byte).map_or(rest.len(), |length| length + 1);
                    self.copy(length);
                    self.before = Before::Nothing;
                }
                b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => self.word(),
                b'(' | b'[' | b'{' => {
                    self.copy(1);
                    self.levels.push(Level::default());
                    self.before = Before::Nothing;
                }
                b')' | b']' | b'}' => {
                    self.at += 1;
                    self.close(&rest[..1]);
                }
                b',' | b':' => self.delimiter(1),
                b'.' | b'|' => {
                    self.copy(1);
                    self.before = Before::Name;
                }
                byte if byte.is_ascii_whitespace() => self.copy(1),
                _ => self.symbol(rest),
            }
        }
    }

    fn symbol(&mut self, rest: &str) {
        self.before = Before::Nothing;
        if let Some((operator, function, ..)) = OPERATORS.iter().find(|(operator, ..)| rest.starts_with(operator)) {
            self.level().operator(function);
            self.at += operator.len();
        } else if rest.starts_with('=') {
            self.delimiter(1);
        } else {
            self.copy(rest.chars().next().map_or(1, char::len_utf8));
        }
    }

    fn word(&mut self) {
        let rest = &self.source[self.at..];
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let word = &rest[..length];
        let before = std::mem::replace(&mut self.before, Before::Nothing);
        match (before, word) {
            (Before::Name, _) => self.copy(length),
            (Before::Is, "not") => {
                self.copy(length);
                self.before = Before::Is;
            }
            (Before::Is, _) => self.copy(length),
            (Before::Nothing, "is") => {
                self.copy(length);
                self.before = Before::Is;
            }
            (Before::Nothing, "and" | "or" | "if" | "else") => self.delimiter(length),
            (Before::Nothing, "in") => {
                self.level().operator("_in");
                self.at += length;
            }
            (Before::Nothing, "not") => self.negation(rest),
            _ => self.copy(length),
        }
    }

    /// `not in` is an operator, any other `not` stands before a whole comparison.
    fn negation(&mut self, rest: &str) {
        let behind = rest[3..].trim_start();
        let is_operator = behind
            .strip_prefix("in")
            .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_'));
        if is_operator && !self.level().operand.trim().is_empty() {
            self.level().operator("!_in");
            self.at += rest.len() - behind.len() + 2;
        } else {
            self.delimiter(3);
        }
    }

    fn delimiter(&mut self, length: usize) {
        let text = &self.source[self.at..self.at + length];
        let level = self.level();
        level.flush();
        level.done.push_str(text);
        self.at += length;
        self.before = Before::Nothing;
    }

    fn close(&mut self, bracket: &str) {
        self.before = Before::Nothing;
        if self.levels.len() == 1 {
            self.level().operand.push_str(bracket);
            return;
        }
        let mut inner = self.levels.pop().unwrap_or_default();
        inner.flush();
        let operand = &mut self.level().operand;
        operand.push_str(&inner.done);
        operand.push_str(bracket);
    }

    fn copy(&mut self, length: usize) {
        let text = &self.source[self.at..self.at + length];
        self.level().operand.push_str(text);
        self.at += length;
    }

    fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&rewrite(source)), expected, "{source}");
    }

    #[test]
    fn comparisons_become_calls_and_the_rest_stays() {
        check("a", "a");
        check("a > 1", "_gt(a, 1)");
        check("a + 1 >= b | length", "_ge(a + 1, b | length)");
        check("not a == 'x > y' and b", "not _eq(a, 'x > y') and b");
        check("1 < a <= 3", "(_lt(1, a) and _le(a, 3))");
        check("f(a == 1, k=b != 2)[c < 1:]", "f( _eq(a, 1) , k= _ne(b, 2) )[ _lt(c, 1) :]");
        check("(a == 1) == (b == 2)", "_eq(( _eq(a, 1) ), ( _eq(b, 2) ))");
        check("a in b or c not in d", "_in(a, b) or (not _in(c, d))");
        check("a is not none and a is in [1]", "a is not none and a is in [1]");
        check("a.in > b.not", "_gt(a.in, b.not)");
        check("x if a == 1 else y", "x if _eq(a, 1) else y");
        check("{'k': a == 1}", "{'k': _eq(a, 1) }");
    }
}
