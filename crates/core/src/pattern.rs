//! Regular expressions that people write, within limits of length, memory and time.
//!
//! Matching never backtracks, so one search takes time in proportion to the text. Searching again and again does not:
//! the caller that looks for all matches counts the work.

use regex::{Regex, RegexBuilder};

/// The longest expression.
const MAX_PATTERN: usize = 1_024;
/// The memory of a compiled one.
const MAX_COMPILED: usize = 256 * 1024;
/// The longest text that is searched.
pub(crate) const MAX_SEARCHED: usize = 256 * 1024;

/// Compiles an expression that finds something anywhere in a text.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    build(pattern, pattern)
}

/// Compiles an expression that must match a text as a whole.
pub(crate) fn compile_whole(pattern: &str) -> Result<Regex, String> {
    build(pattern, &format!("^(?:{pattern})$"))
}

fn build(written: &str, pattern: &str) -> Result<Regex, String> {
    if written.len() > MAX_PATTERN {
        return Err(format!("it is longer than {MAX_PATTERN} bytes"));
    }
    let built =
        RegexBuilder::new(pattern).size_limit(MAX_COMPILED).dfa_size_limit(4 * MAX_COMPILED).nest_limit(64).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it takes too much memory".into(),
        other => {
            // The last line says what is wrong; those before it draw the expression.
            let text = other.to_string();
            let last = text.lines().last().unwrap_or("it does not compile");
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_bounded() {
        assert!(compile_whole("[a-z]+").unwrap().is_match("abc"));
        assert!(!compile_whole("[a-z]+|x").unwrap().is_match("abc1"));
        assert_eq!(compile("(").unwrap_err(), "unclosed group");
        assert_eq!(compile("(?:a{1000}){1000}").unwrap_err(), "it takes too much memory");
        assert_eq!(compile(&"a".repeat(2_000)).unwrap_err(), "it is longer than 1024 bytes");
        assert!(compile(&"(".repeat(1_000)).is_err());
    }
}
