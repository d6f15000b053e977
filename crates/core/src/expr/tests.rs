//! Expressions and what they give.

use serde_json::{Map, Value, json};

use crate::state::TaskState;

use super::{Allowed, NameTable, Scope, TaskView, analyse, evaluate, render_json, render_text};

pub(super) fn scope() -> Scope {
    let object = |value: Value| value.as_object().unwrap().clone();
    let mut scope = Scope {
        inputs: object(
            json!({"region": "eu", "n": 3, "list": [1, 2, 3], "dry": false, "evil": "${{ 1 + 1 }} {{ 2 }}", "nothing": null, "long": "x".repeat(100_000), "people": [{"name": "a"}, {"name": "b"}]}),
        ),
        run: object(json!({"id": "r1", "scheduled_for": "2026-01-31T08:00:00Z"})),
        workflow: object(json!({"name": "w"})),
        ..Scope::default()
    };
    let output = json!({"rows": 7, "name": "x", "odd-key": true});
    scope.tasks.insert(
        "extract".into(),
        TaskView { status: TaskState::Success, attempts: 2, output: Some(output), error: None },
    );
    scope
        .tasks
        .insert("my-task".into(), TaskView { status: TaskState::Failed, attempts: 1, output: None, error: None });
    scope.item = Some(json!({"id": 4}));
    scope.index = Some(2);
    scope.event = Some(json!({"name": "order.imported", "data": {"n": 5}}));
    scope.secrets = object(json!({"KEY": "s3cret"}));
    scope
}

const EVERYTHING: Allowed = Allowed {
    inputs: None,
    run: None,
    run_end: None,
    tasks: None,
    env: None,
    secrets: None,
    item: None,
    matrix: None,
    event: None,
    answer: false,
    error: false,
};

pub(super) fn prepared(source: &str) -> Result<String, String> {
    let names = NameTable::from([("extract", 0), ("my-task", 1), ("my", 2), ("later", 3)]);
    analyse(source, &names, &|name| name == "run-date", EVERYTHING)
        .map(|analysis| analysis.text)
        .map_err(|error| error.message)
}

fn evaluated(source: &str) -> Result<Value, String> {
    let env = Map::from_iter([("HOST".to_owned(), json!("db"))]);
    evaluate(&prepared(source)?, &scope(), &env).map_err(|error| error.to_string())
}

fn check(source: &str, expected: Value) {
    assert_eq!(evaluated(source), Ok(expected), "{source}");
}

fn check_error(source: &str, expected: &str) {
    assert_eq!(evaluated(source), Err(expected.to_owned()), "{source}");
}

#[test]
fn values_keep_their_types() {
    check("inputs.n", json!(3));
    check("inputs.n + 1", json!(4));
    check("inputs.n * 2", json!(6));
    check("(inputs.n + 1) * 2", json!(8));
    check("inputs.list | length * 2", json!(6));
    check("inputs.list", json!([1, 2, 3]));
    check("inputs.list[0]", json!(1));
    check("inputs.list[inputs.n - 1]", json!(3));
    check("inputs.dry", json!(false));
    check("not inputs.dry", json!(true));
    check("inputs.nothing", json!(null));
    check("inputs.nothing is none", json!(true));
    check("inputs.region ~ '-' ~ inputs.n", json!("eu-3"));
    check("{'a': {'b': inputs.n}}", json!({"a": {"b": 3}}));
    check("dict(a=1)", json!({"a": 1}));
    check("tasks.extract.output", json!({"rows": 7, "name": "x", "odd-key": true}));
    check("tasks.extract.output.rows > 5 and tasks.extract.status == 'success'", json!(true));
    check("tasks.extract.output['odd-key']", json!(true));
    check("tasks.extract.attempts", json!(2));
    check("tasks.my-task.status", json!("failed"));
    check("tasks['my-task'].output", json!({}));
    check("tasks[\"my-task\"].output.x | default('none')", json!("none"));
    check("tasks.my-task.output.x is defined", json!(false));
    check("'eu' in ['eu', 'us'] and inputs.region is not none", json!(true));
    check("inputs.people | map(attribute='name') | join(',')", json!("a,b"));
    check("run.scheduled_for | date", json!("2026-01-31"));
    check("env.HOST", json!("db"));
    check("'tasks.later' ~ inputs.region", json!("tasks.latereu"));
    check("inputs.region | upper", json!("EU"));
    check("1 if inputs.n > 2 else 2", json!(1));
    check("tasks.extract.output | tojson | length > 3", json!(true));
}

#[test]
fn texts_that_are_numbers_compare_as_numbers() {
    check("'3' == 3", json!(true));
    check("'0' > 0", json!(false));
    check("'3' > 100", json!(false));
    check("'100' > '3'", json!(false));
    check("'2.5' < 3 and '-1' <= -1 and ' 7 ' >= 7.0", json!(true));
    check("'1e3' == 1000", json!(true));
    check("1 < '2' < 3", json!(true));
    check("'3' in [1, 2, 3] and 'x' not in [1, 2]", json!(true));
    check("'3' is eq 3 and '4' is gt 3 and 4 is in ['4']", json!(true));
    check("'eu' == inputs.region and inputs.nothing != 3", json!(true));
    check("[1, '2', 3] | select('gt', 1) | list", json!(["2", 3]));
    check("inputs.list == [1, 2, 3]", json!(true));
    check("1 if '1' == 1 else 2", json!(1));
    let mixed = evaluated("inputs.region > 3").unwrap_err();
    assert!(mixed.contains("\"eu\" > 3 compares a text with a number") && mixed.contains("| int(0)"), "{mixed}");
    for source in ["3 == 'x'", "'' != 0", "'inf' > 1", "'nan' == 1", "'1_000' < 1", "'x' is lt 3"] {
        assert!(evaluated(source).is_err_and(|error| error.contains("compares a text with a number")), "{source}");
    }
    assert_eq!(evaluated("secrets.KEY > 3").unwrap_err().matches("s3cret").count(), 0, "secrets are masked");
}

#[test]
fn missing_values_are_explained() {
    check_error(
        "tasks.extract.output.row",
        "`tasks.extract.output.row` is undefined: output has keys rows, name, odd-key",
    );
    check_error(
        "tasks.extract.output.row + 1",
        "`tasks.extract.output.row` is undefined: output has keys rows, name, odd-key",
    );
    check_error("tasks.extract.output.rows.x", "`tasks.extract.output.rows.x` is undefined: rows is a number");
    check_error("tasks.my-task.output.x", "`tasks.my-task.output.x` is undefined: output is empty");
    check_error("tasks.later.output.x", "`tasks.later` is undefined: the task has not run");
    check_error("inputs.list[9]", "`inputs.list.9` is undefined: list is a list of 3");
    check_error("run.x", "`run` has no `x`");
    check_error("workflow.owner", "`workflow` has no `owner`");
    check_error("tasks.extract.error.code", "`error` of a task has no `code`");
    check_error("run.created_at", "`run.created_at` is undefined: run has keys id, scheduled_for");
    check_error(
        "inputs.region + 1",
        "`inputs.region + 1` cannot be evaluated: tried to use + operator on unsupported types string and number",
    );
    check_error("1 / 0", "`1 / 0` cannot be evaluated: unable to calculate 1 / 0");
}

#[test]
fn items_events_and_secrets_are_seen() {
    check("item.id + index", json!(6));
    check("event.data.n", json!(5));
    check("secrets.KEY", json!("s3cret"));
    check_error("item.x", "`item.x` is undefined: item has keys id");
    check_error("event.data.m", "`event.data.m` is undefined: data has keys n");
    check_error("secrets.OTHER", "the secret `OTHER` has no value");
    let shown = evaluated("secrets.KEY | date").unwrap_err();
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn times_are_moved_and_written() {
    check("'2026-01-31' | plus('1d')", json!("2026-02-01"));
    check("'2024-03-01' | minus('1d')", json!("2024-02-29"));
    check("run.scheduled_for | plus('90m')", json!("2026-01-31T09:30:00Z"));
    check("run.scheduled_for | minus('500ms')", json!("2026-01-31T07:59:59.500000Z"));
    check("'2026-01-31T23:30:00-05:00' | date", json!("2026-01-31"));
    check("'2026-01-31T23:30:00-05:00' | datetime", json!("2026-02-01T04:30:00Z"));
    check("'2026-01-31' | datetime", json!("2026-01-31T00:00:00Z"));
    check("0 | datetime", json!("1970-01-01T00:00:00Z"));
    check("run.scheduled_for | format('%d.%m.%Y %H:%M')", json!("31.01.2026 08:00"));
    check("run.scheduled_for | format('%H:%M %Z', 'Europe/Paris')", json!("09:00 CET"));
    check("run.scheduled_for | timestamp", json!(1_769_846_400));
    check("'90m' | seconds", json!(5_400));
    check_error(
        "'2026-01-31' | plus('90m')",
        "`'2026-01-31' | plus('90m')` cannot be evaluated: a date moves by whole days; write `| datetime | plus(…)` to get a time",
    );
    for wrong in [
        "'today' | date",
        "'2026-02-30' | plus('1d')",
        "'2026-01-31' | plus('tomorrow')",
        "'9999-12-31' | plus('1d')",
        "run.scheduled_for | format('%Q')",
        "run.scheduled_for | format('%H', 'Mars')",
        "9999999999999999 | datetime",
        "true | date",
    ] {
        assert!(evaluated(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn texts_are_taken_apart() {
    check("'{\"a\": [1, null]}' | fromjson", json!({"a": [1, null]}));
    check("('[1, 2]' | fromjson)[1]", json!(2));
    check("inputs.list | json", json!("[1,2,3]"));
    check("'order-42.csv' | regex_match('^order-[0-9]+')", json!(true));
    check("'x' | regex_match('^order')", json!(false));
    check("'order-42.csv' | regex_find('[0-9]+')", json!("42"));
    check("'order-42.csv' | regex_find('order-([0-9]+)')", json!("42"));
    check("'x' | regex_find('[0-9]+') is none", json!(true));
    check("'a-b-c' | regex_replace('([a-c])-', '$1+')", json!("a+b+c"));
    check("'a,b' | split(',')", json!(["a", "b"]));
    check("'/data/in/a.csv' | basename", json!("a.csv"));
    check("'/data/in/a.csv' | dirname", json!("/data/in"));
    check("'v1.2' | trimprefix('v')", json!("1.2"));
    check("'a b/ä' | urlencode", json!("a%20b%2F%C3%A4"));
    for wrong in ["'{' | fromjson", "'x' | regex_match('(')", "inputs.list | regex_match('x')"] {
        assert!(evaluated(wrong).is_err(), "{wrong}");
    }
    for hostile in [
        "inputs.long | regex_replace('x', '$0$0$0$0$0$0$0$0$0$0$0$0')  | regex_replace('x', '$0$0$0$0$0$0$0$0$0$0$0$0$0$0')",
        "inputs.long | regex_replace('.*', '$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0')",
        "inputs.long | regex_replace('.*[^x]|x', 'y')",
        "inputs.long | regex_match('(?:a{500}){500}')",
    ] {
        assert!(evaluated(hostile).is_err(), "{hostile}");
    }
}

#[test]
fn wrong_expressions_are_found_before() {
    check_error("1 | nonsense", "there is no filter `nonsense`");
    check_error("1 is nonsense", "there is no test `nonsense`");
    check_error("namespace(10)", "nothing is called `namespace` in expressions");
    check_error("'a' * 3", "`'a' * 3`: an expression with `*` can hold numbers only, no texts, lists or other filters");
    check_error("[1] * 3", "`[1] * 3`: an expression with `*` can hold numbers only, no texts, lists or other filters");
    check_error("(", "`(` does not compile: unexpected end of input, expected expression");
    check_error("'abc", "a quoted text is never closed");
    check_error(&"(".repeat(1_000), "the expression nests more than 200 operators: compute that in a task");
    check_error(&"-".repeat(4_000), "the expression nests more than 200 operators: compute that in a task");
    check_error(&"1+".repeat(4_000), "the expression is longer than 4096 bytes");
    for syntax in ["{% for x in y %}", "a; b", "lambda: 1", "inputs.__class__", "x = 1", "{{ 1 }}", "import os"] {
        assert!(evaluated(syntax).is_err(), "{syntax}");
    }
}

#[test]
fn nothing_grows_without_bound() {
    for source in [
        "inputs.region * 100000000",
        "inputs.list * 100000000",
        "100000000 * inputs.long",
        "(inputs.list | first ~ 'x') * 100000",
        "inputs.long | replace('x', inputs.long)",
        "inputs.long | replace('', inputs.long) | replace('', inputs.long)",
        "inputs.long | list | join(inputs.long)",
        "inputs.long | list | map('default', inputs.long)",
        "9 ** 9 ** 9 ** 9",
    ] {
        assert!(evaluated(source).is_err(), "{source}");
    }
    let sum = |times| evaluated(&vec!["inputs.long"; times].join("~")).unwrap_err();
    assert!(sum(20).ends_with("gives more than 1 MiB"));
    assert!(sum(60).ends_with("looks at more than 4 MiB of data"));
    let text = "${{ inputs.long }}".repeat(20);
    assert!(render_text(&text, &scope(), &Map::new()).unwrap_err().to_string().ends_with("gives more than 1 MiB"));
}

#[test]
fn data_is_never_evaluated() {
    check("inputs.evil", json!("${{ 1 + 1 }} {{ 2 }}"));
    check("inputs.evil ~ '{{ 3 }}'", json!("${{ 1 + 1 }} {{ 2 }}{{ 3 }}"));
    assert_eq!(
        render_text("a {{ x }} {% y %} ${{ inputs.evil }}", &scope(), &Map::new()).unwrap(),
        "a {{ x }} {% y %} ${{ 1 + 1 }} {{ 2 }}"
    );
}

#[test]
fn templates_are_texts_unless_they_are_one_expression() {
    let render = |value: Value| render_json(&value, &scope(), &Map::new()).unwrap();
    assert_eq!(render(json!("${{ inputs.n }}")), json!(3));
    assert_eq!(render(json!(" ${{ inputs.n }}")), json!(" 3"));
    assert_eq!(
        render(json!("n=${{ inputs.n }} l=${{ inputs.list }} s=${{ inputs.region }}")),
        json!("n=3 l=[1,2,3] s=eu")
    );
    assert_eq!(render(json!({"a": ["${{ inputs.dry }}", 1, null]})), json!({"a": [false, 1, null]}));
}
