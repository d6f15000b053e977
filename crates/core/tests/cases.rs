//! The dialect by example: texts in `cases/*.txt`, each with what it becomes.
//!
//! A case begins with `=== TITLE`. Behind `--- ok` stand facts about the workflow as it is stored, a JSON pointer and its
//! value each; behind `--- errors` all complaints. `MAINSPRING_TEST_BLESS=1` writes what comes out into the files, to be
//! read before it is believed.

use std::fmt::Write;
use std::path::PathBuf;

use mainspring_core::parse;
use serde_json::Value;

struct Case {
    title: String,
    text: String,
    expected: String,
}

fn cases(content: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for block in content.split("=== ").skip(1) {
        let (title, rest) = block.split_once('\n').expect("a title has a line of its own");
        let at = rest.find("\n--- ").unwrap_or_else(|| panic!("`{title}` expects nothing"));
        cases.push(Case {
            title: title.to_owned(),
            text: rest[..=at].to_owned(),
            expected: rest[at + 1..].trim_end().to_owned(),
        });
    }
    cases
}

/// What comes out, with the facts that the case asks for.
fn outcome(case: &Case) -> String {
    let workflow = match parse(&case.text) {
        Ok(workflow) => workflow,
        Err(problems) => return format!("--- errors\n{problems}"),
    };
    let stored = serde_json::to_value(&workflow).expect("a workflow is JSON");
    let again = serde_json::from_value(stored.clone()).expect("what is stored can be read");
    assert_eq!(workflow, again, "{} changes when it is stored", case.title);
    let mut shown = String::from("--- ok");
    for pointer in case.expected.lines().skip(1).filter_map(|line| line.split_once(" = ").map(|(pointer, _)| pointer)) {
        let value = stored.pointer(pointer).unwrap_or(&Value::Null);
        write!(shown, "\n{pointer} = {value}").expect("a string takes all");
    }
    shown
}

fn check(file: &str, least: usize) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(file);
    let content = std::fs::read_to_string(&path).expect("the cases are there");
    let cases = cases(&content);
    assert!(cases.len() >= least, "{file} has {} cases", cases.len());
    if std::env::var_os("MAINSPRING_TEST_BLESS").is_some() {
        let preamble = &content[..content.find("=== ").expect("a case")];
        let blessed: Vec<String> =
            cases.iter().map(|case| format!("=== {}\n{}{}\n", case.title, case.text, outcome(case))).collect();
        std::fs::write(&path, format!("{preamble}{}", blessed.join("\n"))).expect("the cases can be written");
        return;
    }
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let outcome = outcome(case);
            (outcome != case.expected)
                .then(|| format!("{file}: {}\n{}expected\n{}\ngot\n{outcome}\n", case.title, case.text, case.expected))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn newcomers() {
    check("newcomers.txt", 15);
}

#[test]
fn workflows() {
    check("workflow.txt", 45);
}

#[test]
fn kinds_of_tasks() {
    check("kinds.txt", 55);
}

#[test]
fn options_of_tasks() {
    check("options.txt", 25);
}

#[test]
fn triggers() {
    check("triggers.txt", 45);
}

#[test]
fn expressions() {
    check("expressions.txt", 40);
}

#[test]
fn caches() {
    check("cache.txt", 2);
}
