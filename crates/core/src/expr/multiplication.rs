//! `*` multiplies numbers only.
//!
//! MiniJinja also repeats texts and lists with it, up to a hundred million elements in one instruction. So an
//! expression with `*` may hold no texts and no lists, except as arguments of what makes numbers of them.

use serde_json::{Map, Value};

use crate::diagnostic::quoted;

use super::reference::Reference;
use super::scope::Scope;

const MAKES_NUMBERS: [&str; 11] =
    ["abs", "count", "float", "int", "length", "round", "sum", "default", "d", "timestamp", "seconds"];
const TAKES_LISTS: [&str; 3] = ["count", "length", "sum"];
const TAKES_TEXTS: [&str; 6] = ["count", "float", "int", "length", "timestamp", "seconds"];

/// What cannot be said before the values are known: whether a reference is a number.
pub(super) fn check(source: &str, used: &[Reference], scope: &Scope, env: &Map<String, Value>) -> Result<(), String> {
    if !source.contains('*') {
        return Ok(());
    }
    check_literals(source)?;
    for reference in used {
        let filter = following_filter(&source[reference.end..]);
        let allowed = match reference.look_up(scope, env).as_deref() {
            Some(Value::Array(_) | Value::Object(_)) => TAKES_LISTS.contains(&filter),
            Some(Value::String(_)) => TAKES_TEXTS.contains(&filter),
            _ => true,
        };
        if !allowed {
            let path = format!("{}.{}", reference.root, reference.path.join("."));
            return Err(format!(
                "{} cannot be evaluated: `*` multiplies numbers, but {} is none",
                quoted(source),
                quoted(&path)
            ));
        }
    }
    Ok(())
}

/// Texts, lists and mappings written out, and filters that could make some.
pub(super) fn check_literals(source: &str) -> Result<(), String> {
    let bytes = source.as_bytes();
    let mut at = 0;
    let mut before = b' ';
    let mut inside_index = 0_usize;
    let mut multiplies = false;
    let mut suspicious = false;
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'"' | b'\'' => {
                at += super::template::string_length(&bytes[at..], byte).unwrap_or(0);
                suspicious |= inside_index == 0;
            }
            b'*' => multiplies = true,
            b'[' if is_operand_end(before) => inside_index += 1,
            b'[' | b'{' | b'~' => suspicious = true,
            b']' => inside_index = inside_index.saturating_sub(1),
            b'|' => {
                let filter = following_filter(&source[at..]);
                suspicious |= !MAKES_NUMBERS.contains(&filter);
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
        at += 1;
    }
    if multiplies && suspicious {
        return Err(format!(
            "{}: an expression with `*` can hold numbers only, no texts, lists or other filters",
            quoted(source)
        ));
    }
    Ok(())
}

fn is_operand_end(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b']' | b')')
}

/// The filter that directly follows, or nothing.
fn following_filter(rest: &str) -> &str {
    let Some(rest) = rest.trim_start().strip_prefix('|') else { return "" };
    let rest = rest.trim_start();
    let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    &rest[..length]
}
