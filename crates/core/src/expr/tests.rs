//! Expressions and what they give.

use serde_json::{Map, Value, json};

use crate::state::TaskState;

use super::{Allowed, NameTable, Scope, TaskView, analyse, evaluate, render_json, render_text};

fn scope() -> Scope {
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
    scope.tasks.insert("extract".into(), TaskView { status: TaskState::Success, attempts: 2, output: Some(output) });
    scope.tasks.insert("my-task".into(), TaskView { status: TaskState::Failed, attempts: 1, output: None });
    scope
}

fn prepared(source: &str) -> Result<String, String> {
    let names = NameTable::from([("extract", 0), ("my-task", 1), ("my", 2), ("later", 3)]);
    let allowed = Allowed { tasks: true, env: true, inputs: true };
    analyse(source, &names, allowed).map(|analysis| analysis.text).map_err(|error| error.message)
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
    check_error("run.x", "`run.x` is undefined: run has keys id, scheduled_for");
    check_error(
        "inputs.region + 1",
        "`inputs.region + 1` cannot be evaluated: tried to use + operator on unsupported types string and number",
    );
    check_error("1 / 0", "`1 / 0` cannot be evaluated: unable to calculate 1 / 0");
}

#[test]
fn wrong_expressions_are_found_before() {
    check_error("1 | nonsense", "there is no filter `nonsense`");
    check_error("1 is nonsense", "there is no test `nonsense`");
    check_error("range(10)", "nothing is called `range` in expressions");
    check_error("'a' * 3", "`'a' * 3`: an expression with `*` can hold numbers only, no texts, lists or other filters");
    check_error("[1] * 3", "`[1] * 3`: an expression with `*` can hold numbers only, no texts, lists or other filters");
    check_error("(", "`(` does not compile: unexpected end of input, expected expression");
    check_error("'abc", "a quoted text is never closed");
    check_error(
        &"(".repeat(4_000),
        &format!("`{}…` does not compile: template exceeds maximum recursion limits", "(".repeat(60)),
    );
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
    assert!(sum(300).ends_with("looks at more than 4 MiB of data"));
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
