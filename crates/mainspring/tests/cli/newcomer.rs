//! The mistakes that newcomers make most, and the exact message that each gets.
//!
//! The table is `newcomer.txt`: a case is a command line (`$`), files before it (`>`), and what it prints, indented by four.
//! Nothing is done: every case ends with exit code 2, or with the one that is named. `MAINSPRING_TEST_BLESS=1` writes what
//! is printed now into the table: read the difference as a newcomer would.

use crate::support::Place;

const TABLE: &str = include_str!("newcomer.txt");

/// One mistake.
#[derive(Debug, Default)]
struct Case {
    line: usize,
    files: Vec<(String, String)>,
    arguments: Vec<String>,
    code: i32,
    expected: Vec<String>,
}

/// `$ mainspring ARGS`, `$1 mainspring ARGS` for another exit code, `> FILE` and its lines behind `| `, then what is said.
fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut open = Case::default();
    for (nth, line) in TABLE.lines().enumerate() {
        match line.split_at_checked(2) {
            _ if line.is_empty() || line.starts_with('#') => {}
            // An empty line within a message.
            _ if line == "    ." => cases.last_mut().unwrap().expected.push(String::new()),
            Some(("> ", name)) => open.files.push((name.to_owned(), String::new())),
            Some(("| ", text)) => open.files.last_mut().unwrap().1.push_str(&format!("{text}\n")),
            Some((mark, rest)) if mark.starts_with('$') => {
                let rest = line.split_once(' ').map_or(rest, |(_, rest)| rest);
                open.line = nth + 1;
                open.code = line[1..2].parse().unwrap_or(2);
                open.arguments = words(rest.strip_prefix("mainspring ").unwrap());
                cases.push(std::mem::take(&mut open));
            }
            _ => cases.last_mut().unwrap().expected.push(line.strip_prefix("    ").unwrap_or(line).to_owned()),
        }
    }
    cases
}

/// Words as a shell splits them, with single quotes only.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for one in line.chars() {
        match one {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            one => words.last_mut().unwrap().push(one),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What a case prints, and how it ends.
fn run(case: &Case) -> (i32, Vec<String>) {
    let place = Place::new();
    for (name, text) in &case.files {
        place.write(name, text);
    }
    let arguments: Vec<&str> = case.arguments.iter().map(String::as_str).collect();
    let mut command = place.command(&arguments);
    command.env_remove("MAINSPRING_OUTPUT_FORMAT");
    let output = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said = said.replace(&place.path("").display().to_string(), "FOLDER/");
    (output.status.code().unwrap_or(-1), said.trim_end().lines().map(|line| line.trim_end().to_owned()).collect())
}

fn check(case: &Case) -> Result<(), String> {
    let (code, said) = run(case);
    if code == case.code && said == case.expected {
        return Ok(());
    }
    Err(format!(
        "newcomer.txt:{}: `mainspring {}` ended with {code}, and said\n{}\ninstead of\n{}",
        case.line,
        case.arguments.join(" "),
        said.join("\n"),
        case.expected.join("\n")
    ))
}

/// The table with what is printed now.
fn blessed(cases: &[Case]) -> String {
    let mut text = String::new();
    for (nth, line) in TABLE.lines().enumerate() {
        if line.starts_with("    ") {
            continue;
        }
        text.push_str(&format!("{line}\n"));
        if let Some(case) = cases.iter().find(|case| case.line == nth + 1) {
            for said in run(case).1 {
                text.push_str(&format!("    {}\n", if said.is_empty() { "." } else { &said }));
            }
        }
    }
    text
}

#[test]
fn every_mistake_gets_its_message() {
    let cases = cases();
    assert!(cases.len() >= 60, "there are only {} cases", cases.len());
    if std::env::var_os("MAINSPRING_TEST_BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/newcomer.txt"), blessed(&cases)).unwrap();
        return;
    }
    assert!(cases.iter().all(|case| !case.expected.is_empty()), "a case without a message shows nothing");
    let wrong: Vec<String> = cases.iter().filter_map(|case| check(case).err()).collect();
    assert!(wrong.is_empty(), "{}\n{} of {} cases", wrong.join("\n"), wrong.len(), cases.len());
}

/// What only reads leaves nothing behind, least of all a database.
#[test]
fn commands_that_read_create_nothing() {
    for arguments in [
        &["runs", "list"][..],
        &["jobs", "list"],
        &["workflows", "list"],
        &["schedules", "list"],
        &["handlers", "list"],
        &["pools", "list"],
        &["secrets", "list"],
        &["tokens", "list"],
        &["namespaces", "list"],
        &["calendars", "list"],
        &["approvals", "list"],
        &["audit"],
        &["search", "x"],
        &["why", "@last", "t"],
        &["jobs", "stats"],
    ] {
        let place = Place::new();
        place.call(arguments).expect(2).says(&["there is no database file", "mainspring server"]);
        assert_eq!(std::fs::read_dir(place.path(".")).unwrap().count(), 0, "{arguments:?} left something");
    }
}

/// Nor does what only says what would be done to the schema.
#[test]
fn looking_at_the_schema_creates_nothing() {
    for arguments in
        [&["migrate", "status"][..], &["migrate", "up", "--dry-run"], &["migrate", "down", "1", "--dry-run"]]
    {
        let place = Place::new();
        place.call(arguments).expect(0).says(&["there is no database file .mainspring/mainspring.db yet"]);
        assert_eq!(std::fs::read_dir(place.path(".")).unwrap().count(), 0, "{arguments:?} left something");
    }
}

/// Output does not depend on where it goes.
#[test]
fn a_pipe_gets_text_and_json_is_asked_for() {
    let place = Place::new();
    place.write("w.yaml", "name: w\ntasks: {t: {run: 'true'}}\n");
    let call = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env_remove("MAINSPRING_OUTPUT_FORMAT");
        crate::support::Ended::from(command.output().unwrap()).expect(0)
    };
    let submitted = call(&["submit", "w.yaml"]);
    assert!(submitted.stdout.starts_with("run "), "{}", submitted.stdout);
    submitted.says(&["nothing serves the database"]);
    let token = call(&["tokens", "create", "--role", "viewer"]);
    token.says(&["its holder is viewer in every namespace"]);
    call(&["tokens", "create", "--role", "operator", "-n", "sales"])
        .says(&["its holder is operator in namespace sales"]);
    assert!(token.stdout.starts_with("ms_") && token.stdout.lines().count() == 1, "{}", token.stdout);
    assert!(call(&["runs", "list"]).stdout.starts_with("RUN "));
    assert!(call(&["runs", "list", "-o", "json"]).json()["items"].is_array());
    call(&["doctor"]).says(&["nothing serves this database"]);
}
