//! Large and hostile texts: the answer comes in bounded time, whatever the text.

use std::fmt::Write;
use std::io::Write as _;
use std::time::{Duration, Instant};

use mainspring_core::parse;

/// The limits are those of an optimised build on a quiet machine. A test machine is neither, but what grows with the
/// square of its input is slower by far more than this.
const SLOWER: u32 = if cfg!(debug_assertions) { 150 } else { 20 };

fn timed<T>(what: &str, limit: Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let took = start.elapsed();
    assert!(took < limit * SLOWER, "{what} took {took:?}");
    if std::env::var_os("SHOW_TIMES").is_some() {
        _ = writeln!(std::io::stderr(), "{what}: {took:?}");
    }
    result
}

fn refuse(what: &str, text: &str, cause: &str) {
    // A text of megabytes has to be read to its end first.
    let limit = Duration::from_millis(100 + text.len() as u64 / 20_000);
    let problems = timed(what, limit, || parse(text)).expect_err(what);
    let shown = problems.to_string();
    assert!(shown.contains(cause), "{what}: {shown}");
    assert!(shown.len() < 100_000, "{what}: {} bytes of complaints", shown.len());
}

/// `count` tasks, each needing the `width` before it.
fn wide(count: usize, width: usize) -> String {
    let mut text = String::from("name: wide\ntasks:\n");
    for task in 0..count {
        write!(text, "  t{task}: {{run: x").unwrap();
        let needs: Vec<String> = (task.saturating_sub(width)..task).map(|need| format!("t{need}")).collect();
        if !needs.is_empty() {
            write!(text, ", needs: [{}]", needs.join(",")).unwrap();
        }
        text.push_str("}\n");
    }
    text
}

#[test]
fn a_hundred_thousand_tasks_with_a_million_edges() {
    let text = wide(100_000, 10);
    let workflow = timed("1M edges", Duration::from_millis(1_500), || parse(&text)).unwrap();
    assert_eq!(workflow.tasks.len(), 100_000);
    assert_eq!(workflow.tasks.iter().map(|task| task.needs.len()).sum::<usize>(), 999_945);
    assert_eq!(workflow.tasks[50].dependents.len(), 10);
}

#[test]
fn a_chain_of_a_hundred_thousand_is_accepted() {
    let text = wide(100_000, 1);
    let workflow = timed("chain", Duration::from_secs(1), || parse(&text)).unwrap();
    assert_eq!(workflow.tasks[99_999].needs, [99_998]);
}

#[test]
fn a_cycle_of_a_hundred_thousand_is_named() {
    let text = wide(100_000, 1).replace("  t0: {run: x}", "  t0: {run: x, needs: t99999}");
    let problems = timed("cycle", Duration::from_secs(1), || parse(&text)).unwrap_err();
    assert_eq!(problems.0.len(), 1);
    assert_eq!(problems.0[0].path, "/tasks/t0/needs");
    assert!(
        problems.0[0].message.contains("t0 → t99999 → t99998 → ")
            && problems.0[0].message.contains("… 99984 more …")
            && problems.0[0].message.ends_with("→ t2 → t1 → t0"),
        "{problems}"
    );
}

#[test]
fn expressions_of_a_large_graph_are_checked_in_time() {
    let mut text = String::from("name: readers\ntasks:\n  t0: {run: x}\n");
    for task in 1..20_000 {
        let far = task / 2;
        writeln!(text, "  t{task}: {{run: x, needs: t{}, env: {{A: '${{{{ tasks.t{far}.output.n }}}}'}}}}", task - 1)
            .unwrap();
    }
    let workflow = timed("readers", Duration::from_secs(2), || parse(&text)).unwrap();
    assert_eq!(workflow.tasks[9_000].reads.tasks, [4_500]);
}

#[test]
fn bombs_are_refused() {
    let mut laughs = String::from("name: x\na0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..30 {
        let previous = format!("*a{}", level - 1);
        writeln!(laughs, "a{level}: &a{level} [{}]", [previous.as_str(); 10].join(", ")).unwrap();
    }
    refuse("billion laughs", &laughs, "aliases up to here expand to more");

    let mut storm = format!("name: x\ndescription: &a {}\ntags:\n", "y".repeat(60_000));
    for _ in 0..100_000 {
        storm.push_str("- *a\n");
    }
    refuse("alias storm", &storm, "aliases up to here expand to more");
    refuse("self reference", "a: &a [*a]", "an alias stands inside the value it refers to");
    refuse("merge loop", "a: &a\n  <<: *a\n", "merge keys");
    refuse("merge key", "x: &x {a: 1}\ntasks:\n  <<: *x\n", "merge keys");

    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("- - ", "")] {
        let deep = format!("x: 1\ny:\n {}z{}", open.repeat(10_000), close.repeat(10_000));
        let problems = timed("depth", Duration::from_millis(100), || parse(&deep)).unwrap_err();
        assert!(!problems.0.is_empty(), "{open}");
    }
    let mut stairs = String::new();
    for depth in 0..4_000 {
        writeln!(stairs, "{}a:", " ".repeat(depth)).unwrap();
    }
    refuse("stairs", &stairs, "nested more than 64 deep");
    refuse("documents", &"--- {name: x}\n".repeat(100_000), "a second document begins here");
    refuse("end of documents", &"name: x\n...\n".repeat(100_000), "a second document begins here");
    refuse("tags", "name: !!str x", "YAML tags");
    refuse("custom tags", "name: !ruby/object:Gem::Installer {}", "YAML tags");
    refuse("size", &" ".repeat(16 * 1024 * 1024 + 1), "more than 16 MiB");
}

#[test]
fn long_and_odd_names_are_refused() {
    let long = "n".repeat(10_000_000);
    refuse("long name", &format!("name: {long}"), "is not a valid name");
    refuse("long task name", &format!("name: x\ntasks:\n  ? {long}\n  : {{run: x}}\n"), "is not a valid name");
    refuse("long key", &format!("name: x\n? {long}\n: 1\n"), "a workflow has no key");
    refuse("long need", &format!("name: x\ntasks: {{a: {{run: x, needs: [{long}]}}}}"), "there is no task");
    refuse("NUL", "name: a\0b", "control character");
    refuse("escaped NUL", r#"name: "a\0b""#, "NUL");
    refuse("escape character", "name: a\u{1b}b", "control character");
    refuse("escaped control in a key", r#"{"name": "x", "tasks": {"a\u0007": {"run": "x"}}}"#, "control or invisible");
    for odd in ["a\u{202e}b", "a\u{200b}", "e\u{301}", "..", "a%2Fb", "a/b", "A", "-a", "''"] {
        refuse(odd, &format!("name: {odd}"), "is not a valid name");
    }
    refuse("key twice, often", &format!("name: x\n{}", "a: 1\n".repeat(100_000)), "appears twice");
}

#[test]
fn a_million_unknown_needs_are_refused_in_time() {
    let mut text = String::from("name: x\ntasks:\n");
    for task in 0..100_000 {
        writeln!(text, "  t{task}: {{run: x, needs: [u{task}, v{task}]}}").unwrap();
    }
    let problems = timed("unknown needs", Duration::from_secs(1), || parse(&text)).unwrap_err();
    assert_eq!(problems.0.len(), 101);
    assert_eq!(problems.0[0].message, "there is no task `u0`");
}

#[test]
fn json_of_the_same_size_is_read_too() {
    let mut text = String::from("{\"name\": \"x\", \"tasks\": {\n");
    for task in 0..50_000 {
        let comma = if task > 0 { "," } else { "" };
        writeln!(text, "{comma}\"t{task}\": {{\"run\": \"x\", \"needs\": []}}").unwrap();
    }
    text.push_str("}}");
    let workflow = timed("json", Duration::from_secs(1), || parse(&text)).unwrap();
    assert_eq!(workflow.tasks.len(), 50_000);
}

#[test]
fn a_million_keys_are_refused() {
    let (mut yaml, mut json) = ("name: x\nmetadata:\n".to_owned(), r#"{"name": "x""#.to_owned());
    for key in 0..1_000_000 {
        writeln!(yaml, "  k{key}: 1").unwrap();
        write!(json, r#","k{key}":1"#).unwrap();
    }
    json.push('}');
    refuse("keys", &yaml, "more than 200,000 keys");
    // What stands in `{ }` is counted before it is read.
    refuse("keys of JSON", &json, "more than 150,000 items");
}

#[test]
fn a_list_that_fills_the_text_is_refused() {
    refuse("list", &format!("name: x\ntags:\n- [{}1]", "1,".repeat(8_000_000)), "more than");
}

#[test]
fn schedules_that_never_fire_are_found_in_time() {
    let mut text = String::from("name: x\ntriggers:\n");
    for minute in 0..100 {
        writeln!(text, "- {{cron: '{} 0 31 2,4,6 *'}}", minute % 60).unwrap();
    }
    let problems = timed("schedules", Duration::from_secs(1), || parse(&text)).unwrap_err();
    assert!(
        problems.0.iter().all(|problem| problem.message.ends_with("never fires: there is no such day")),
        "{problems}"
    );
    assert_eq!(problems.0.len(), 100);
}

/// What every task may hold, in as many tasks as there may be.
#[test]
fn a_hundred_thousand_tasks_of_every_kind() {
    let kinds = [
        "http: {url: 'https://h/${{ run.id }}', headers: {A: '${{ secrets.K }}'}, expect: {body: {json: body.ok}}}",
        "workflow: {name: a, inputs: {n: '${{ item }}'}}, foreach: [1, 2], max_parallel: 2",
        "remote: {handler: h, payload: {a: '${{ inputs.a }}'}}",
        "approval: {roles: [r], timeout: 1h, message: '${{ run.id }}?'}",
        "wait: {event: e, key: '${{ run.id }}', if: event.ok, timeout: 1h}",
        "run: 'echo ${{ env.E }}', env: {E: '${{ secrets.K }}'}, limits: {memory: 1MiB}",
    ];
    let mut text = String::from("name: kinds\nsecrets: [K]\ninputs: {a: {}}\ntasks:\n");
    for task in 0..100_000 {
        let need = if task > 0 { format!(", needs: t{}", task - 1) } else { String::new() };
        writeln!(text, "  t{task}: {{{}{need}}}", kinds[task % kinds.len()]).unwrap();
    }
    let workflow = timed("kinds", Duration::from_secs(2), || parse(&text)).unwrap();
    assert_eq!(workflow.tasks.len(), 100_000);
}
