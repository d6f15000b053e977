//! Hostile expressions: each gives a value within the limits or an error, and what is data stays data.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Map, Value};

use super::tests::{prepared, scope};
use super::{MAX_RESULT, evaluate, render_text};

/// What the language knows, and what others were broken with.
const WORDS: &[&str] = &[
    "inputs",
    "inputs.n",
    "inputs.list",
    "inputs.long",
    "inputs.evil",
    "inputs.people",
    "run.id",
    "tasks.extract.output.rows",
    "tasks['my-task'].status",
    "item",
    "index",
    "event.data",
    "secrets.KEY",
    "env.HOST",
    "self",
    "loop",
    "range(999999999)",
    "namespace()",
    "__class__",
    "constructor",
    "prototype",
    "''",
    "'x'",
    "\"y\"",
    "0",
    "1",
    "-1",
    "1e308",
    "9223372036854775807",
    "none",
    "true",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "{{",
    "}}",
    "${{",
    "{%",
    "%}",
    "|",
    "~",
    "+",
    "-",
    "*",
    "**",
    "/",
    "//",
    "%",
    "==",
    "<",
    ">=",
    "in",
    "not",
    "and",
    "or",
    "is",
    "if",
    "else",
    "for",
    "macro",
    "include 'x'",
    ".",
    ",",
    ":",
    "upper",
    "length",
    "join(',')",
    "replace('x', 'yyyy')",
    "tojson",
    "fromjson",
    "regex_replace('(x+x+)+y', 'z')",
    "date('%Y')",
    "default(1)",
    "batch(2)",
    "map(attribute='a')",
];

/// Each goes one level deeper every time.
const CHAINS: &[&str] = &[
    "(",
    "[",
    "-",
    "not ",
    "{'a':",
    "1+(",
    "+1",
    "1 ** ",
    "1 if 1 else ",
    "'x'|upper|",
    "|upper",
    "~ 1 ",
    ".a",
    "[0]",
    "1 and ",
    " is defined",
    "not(",
];

fn expressions() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(WORDS), 1..12).prop_map(|words| words.join(" ")),
        2 => prop::collection::vec(prop::sample::select(WORDS), 1..12).prop_map(|words| words.concat()),
        1 => "\\PC{0,80}",
        1 => (prop::sample::select(CHAINS), 1..3_000_usize).prop_map(|(piece, times)| piece.repeat(times)),
    ]
}

fn ends_within_its_limits(text: String) -> Result<(), TestCaseError> {
    let env = Map::from_iter([("HOST".to_owned(), Value::from("db"))]);
    if let Ok(source) = prepared(&text)
        && let Ok(value) = evaluate(&source, &scope(), &env)
    {
        let size = value.to_string().len();
        // Quotes and escapes come on top of what is counted.
        prop_assert!(size <= 8 * MAX_RESULT, "{} gives {} bytes", text, size);
    }
    // The same within a text; what surrounds it stays as it is.
    if let Ok(rendered) = render_text(&format!("before ${{{{ {text} }}}} after"), &scope(), &env) {
        prop_assert!(rendered.starts_with("before "), "{}", text);
    }
    Ok(())
}

fn batch(cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    if let Err(failure) = TestRunner::new(config).run(&expressions(), ends_within_its_limits) {
        panic!("{failure}");
    }
}

#[test]
fn fuzz_expressions() {
    batch(300);
}

#[test]
#[expect(clippy::print_stderr, reason = "how much was tried is for people")]
fn long_fuzz_expressions() {
    let seconds = std::env::var("MAINSPRING_TEST_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let (end, mut cases) = (Instant::now() + Duration::from_secs(seconds), 0_u64);
    while Instant::now() < end {
        batch(1_000);
        cases += 1_000;
    }
    eprintln!("expressions: {cases} cases in {seconds} s");
}
