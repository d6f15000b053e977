//! Hostile texts, for as long as one likes: reading ends, with a workflow or with complaints, and quickly.
//!
//! The short versions run with every change; those named `long_` run for `MAINSPRING_TEST_FUZZ_SECONDS` each (60).

use std::time::{Duration, Instant};

use mainspring_core::parse;
use mainspring_core::schedule::Cron;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

const SHORT: u32 = 300;

/// Runs batches of cases until the time is over, and tells how many they were.
#[expect(clippy::print_stderr, reason = "how much was tried is for people")]
fn for_long<S: Strategy>(name: &str, strategy: S, check: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let seconds = std::env::var("MAINSPRING_TEST_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut cases = 0_u64;
    while Instant::now() < end {
        batch(&strategy, 1_000, &check);
        cases += 1_000;
    }
    eprintln!("{name}: {cases} cases in {seconds} s");
}

fn batch<S: Strategy>(strategy: &S, cases: u32, check: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    if let Err(failure) = TestRunner::new(config).run(strategy, check) {
        panic!("{failure}");
    }
}

/// The texts that people write: every example there is.
fn examples() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the examples are there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            texts.push(std::fs::read(path).expect("a text"));
        }
    }
    assert!(texts.len() > 10, "the examples are there");
    texts
}

/// Complaints are never empty and stand inside the text, or right behind it.
fn read(text: &str) -> Result<(), TestCaseError> {
    match parse(text) {
        Ok(workflow) => prop_assert!(!workflow.name.is_empty()),
        Err(problems) => {
            prop_assert!(problems.iter().next().is_some());
            let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() as u32;
            for problem in problems.iter() {
                let line = problem.place.line;
                prop_assert!((1..=lines + 2).contains(&line), "line {} of {}: {:?}", line, lines, problem.message);
                prop_assert!(!problem.message.is_empty());
            }
        }
    }
    Ok(())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..2_000)
}

fn bytes_are_read(bytes: Vec<u8>) -> Result<(), TestCaseError> {
    read(&String::from_utf8_lossy(&bytes))
}

/// One change of a text: a byte, a piece that is gone, doubled, or put elsewhere.
#[derive(Debug, Clone)]
enum Change {
    Set(prop::sample::Index, u8),
    Drop(prop::sample::Index, u8),
    Repeat(prop::sample::Index, u8, u8),
    Insert(prop::sample::Index, &'static str),
}

/// What YAML and the dialect give a meaning to.
const PIECES: &[&str] = &[
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "|\n",
    ">-\n",
    "? ",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "\t",
    "\u{feff}",
    "\"\\x00\"",
    "${{ ",
    " }}",
    "{{",
    "}}",
    "{% raw %}",
    "[",
    "]",
    "{",
    "}",
    ": ",
    ", ",
    "- ",
    "#",
    "'",
    "\"",
    "\\",
    "null",
    "~",
    "1e999",
    "0x7fffffffffffffff",
    ".inf",
    "2026-02-31",
    "needs: [t]",
    "foreach: ",
    "if: ",
    "run: ",
    "retry: {attempts: 99999999999}",
];

fn change() -> impl Strategy<Value = Change> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (place(), any::<u8>()).prop_map(|(at, length)| Change::Drop(at, length)),
        (place(), any::<u8>(), 1..40_u8).prop_map(|(at, length, times)| Change::Repeat(at, length, times)),
        (place(), prop::sample::select(PIECES)).prop_map(|(at, piece)| Change::Insert(at, piece)),
    ]
}

fn mutations() -> impl Strategy<Value = (Vec<u8>, Vec<Change>)> {
    (prop::sample::select(examples()), prop::collection::vec(change(), 1..8))
}

fn mutations_are_read((mut text, changes): (Vec<u8>, Vec<Change>)) -> Result<(), TestCaseError> {
    for change in changes {
        let span = |at: prop::sample::Index, length: u8| {
            let start = at.index(text.len() + 1);
            start..(start + usize::from(length)).min(text.len())
        };
        match change {
            Change::Set(at, byte) if !text.is_empty() => {
                let at = at.index(text.len());
                text[at] = byte;
            }
            Change::Set(..) => {}
            Change::Drop(at, length) => _ = text.drain(span(at, length)),
            Change::Repeat(at, length, times) => {
                let span = span(at, length);
                let piece = text[span.clone()].repeat(usize::from(times));
                text.splice(span.end..span.end, piece);
            }
            Change::Insert(at, piece) => {
                let at = at.index(text.len() + 1);
                text.splice(at..at, piece.bytes());
            }
        }
    }
    read(&String::from_utf8_lossy(&text))
}

/// Values of any shape under keys that mean something.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(PIECES).prop_map(|piece| format!("'{}'", piece.replace('\'', "''").replace('\n', " "))),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        "[a-z0-9 ._-]{0,12}".prop_map(|text| format!("'{text}'")),
        "[0-9]{1,20}(ms|s|m|h|d|y)?",
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec((prop::sample::select(KEYS), inner), 0..6).prop_map(|fields| {
                let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    })
}

const KEYS: &[&str] = &[
    "name",
    "namespace",
    "tasks",
    "triggers",
    "inputs",
    "secrets",
    "files",
    "on_failure",
    "finally",
    "concurrency",
    "timeout",
    "run",
    "http",
    "function",
    "workflow",
    "remote",
    "approval",
    "wait",
    "needs",
    "if",
    "foreach",
    "retry",
    "env",
    "queue",
    "pool",
    "priority",
    "artifacts",
    "limits",
    "cron",
    "every",
    "at",
    "event",
    "webhook",
    "timezone",
    "catchup",
    "overlap",
    "jitter",
    "type",
    "default",
    "pattern",
    "attempts",
    "delay",
    "t",
    "u",
    "lifecycle",
    "metadata",
    "tags",
    "outputs",
];

fn structures() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    prop::collection::vec((prop::sample::select(KEYS), value()), 1..6)
}

fn structures_are_read(fields: Vec<(&'static str, String)>) -> Result<(), TestCaseError> {
    let body: Vec<String> = fields.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    read(&body.concat())?;
    read(&format!("name: w\ntasks:\n  t:\n    {}", body.concat().replace('\n', "\n    ")))
}

fn crons() -> impl Strategy<Value = (String, i64)> {
    let field = "[0-9*,/?LW#A-Za-z-]{0,12}";
    let text = prop_oneof![
        "\\PC{0,40}",
        prop::collection::vec(field, 0..8).prop_map(|fields| fields.join(" ")),
        prop::collection::vec("([0-9]{1,3}|\\*)(/[0-9]{1,3})?(-[0-9]{1,2})?", 5..7).prop_map(|fields| fields.join(" ")),
        "@[a-z]{0,10}",
    ];
    (text, any::<i64>())
}

fn crons_fire_forward_or_never((text, from): (String, i64)) -> Result<(), TestCaseError> {
    for zone in ["UTC", "Europe/Berlin", "America/Sao_Paulo"] {
        let Ok(cron) = Cron::parse(&text, zone) else { continue };
        prop_assert!(!cron.describe().is_empty());
        let mut after = from;
        for _ in 0..3 {
            let Some(next) = cron.next_after(after) else { break };
            prop_assert!(next > after, "{} from {}: {}", text, after, next);
            after = next;
        }
    }
    Ok(())
}

macro_rules! targets {
    ($($short:ident, $long:ident: $strategy:ident => $check:ident;)+) => {$(
        #[test]
        fn $short() {
            batch(&$strategy(), SHORT, $check);
        }

        #[test]
        fn $long() {
            for_long(stringify!($check), $strategy(), $check);
        }
    )+};
}

targets! {
    fuzz_yaml_bytes, long_fuzz_yaml_bytes: bytes => bytes_are_read;
    fuzz_yaml_mutations, long_fuzz_yaml_mutations: mutations => mutations_are_read;
    fuzz_yaml_structures, long_fuzz_yaml_structures: structures => structures_are_read;
    fuzz_cron, long_fuzz_cron: crons => crons_fire_forward_or_never;
}
