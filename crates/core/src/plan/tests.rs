//! Decisions and orders.

use serde_json::json;

use super::*;
use crate::state::TaskState;
use crate::{TaskView, parse};

fn example() -> (Workflow, Scope) {
    let workflow = parse(
            "name: w
namespace: n
inputs: {region: {default: eu}, dry: {type: boolean, default: false}}
env: {HOST: 'db.${{ inputs.region }}', PLAIN: p}
concurrency: {key: 'k-${{ inputs.region }}'}
tasks:
  extract: {function: noop}
  load:
    needs: extract
    if: not inputs.dry and tasks.extract.output.rows > 0
    run: load ${{ tasks.extract.output.rows }} \"${{ env.HOST }}\" ${{ tasks.extract.output.rows }}
    env: {PLAIN: mine, ROWS: '${{ tasks.extract.output.rows }}', URL: 'x://${{ env.HOST }}'}
    cwd: /tmp/${{ env.ROWS }}
    timeout: 3s
  send: {needs: load, function: {handler: send, payload: {all: '${{ tasks.extract.output }}', note: 'n=${{ tasks.extract.output.rows }}'}}}
",
        )
        .unwrap_or_else(|errors| panic!("{errors}"));
    let mut scope = Scope::default();
    scope.inputs = workflow.resolve_inputs(Map::new(), &scope).unwrap();
    let output = Some(json!({"rows": 3}));
    scope.tasks.insert("extract".into(), TaskView { status: TaskState::Success, attempts: 1, error: None, output });
    (workflow, scope)
}

#[test]
fn conditions_decide() {
    let (workflow, mut scope) = example();
    assert_eq!(workflow.decide(0, &scope), Decision::Start);
    assert_eq!(workflow.decide(1, &scope), Decision::Start);
    scope.inputs.insert("dry".into(), json!(true));
    assert_eq!(workflow.decide(1, &scope), Decision::Skip);
    scope.inputs.insert("dry".into(), json!(false));
    scope.tasks.get_mut("extract").unwrap().output = Some(json!({"count": 1}));
    let Decision::Fail(failure) = workflow.decide(1, &scope) else { panic!() };
    assert_eq!(failure.kind, "expression");
    assert_eq!(failure.message, "`if` of task `load`: `tasks.extract.output.rows` is undefined: output has keys count");
}

#[test]
fn orders_hold_values() {
    let (workflow, scope) = example();
    let order = workflow.order(1, &scope).unwrap();
    let OrderAction::Run { script, shell, cwd } = &order.action else { panic!() };
    assert_eq!(script, "load \"${MAINSPRING_EXPR_0}\" \"${MAINSPRING_EXPR_1}\" \"${MAINSPRING_EXPR_0}\"");
    assert_eq!((shell, cwd.as_deref()), (&None, Some("/tmp/3")));
    let env: Vec<(&str, &str)> = order.env.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(
        env,
        [
            ("HOST", "db.eu"),
            ("PLAIN", "mine"),
            ("ROWS", "3"),
            ("URL", "x://db.eu"),
            ("MAINSPRING_EXPR_0", "3"),
            ("MAINSPRING_EXPR_1", "db.eu"),
        ]
    );
    assert_eq!((order.timeout_ms, order.task.as_str(), order.namespace.as_str()), (Some(3_000), "load", "n"));

    let OrderAction::Function { handler, payload } = workflow.order(2, &scope).unwrap().action else { panic!() };
    assert_eq!((handler.as_str(), payload), ("send", json!({"all": {"rows": 3}, "note": "n=3"})));
    assert_eq!(workflow.concurrency_key(&scope).unwrap().as_deref(), Some("k-eu"));
}

#[test]
fn missing_values_fail_the_order() {
    let (workflow, mut scope) = example();
    scope.tasks.clear();
    let failure = workflow.order(2, &scope).unwrap_err();
    assert_eq!(failure.message, "`payload` of task `send`: `tasks.extract` is undefined: the task has not run");
    assert!(failure.permanent);
    let nul =
        TaskView { status: TaskState::Success, attempts: 1, error: None, output: Some(json!({"rows": "a\u{0}b"})) };
    scope.tasks.insert("extract".into(), nul);
    assert!(workflow.order(1, &scope).unwrap_err().message.contains("NUL"));
}

#[test]
fn an_order_without_expressions_serves_every_run() {
    let needs_scope = |yaml: &str| parse(yaml).unwrap().needs_scope(0);
    assert!(!needs_scope("{name: w, env: {A: b}, tasks: {a: {run: x, if: 'run.id', env: {B: c}}}}"));
    assert!(needs_scope("{name: w, env: {A: '${{ run.id }}'}, tasks: {a: {run: x}}}"));
    assert!(needs_scope("{name: w, tasks: {a: {run: 'x ${{ run.id }}'}}}"));
    assert!(needs_scope("{name: w, tasks: {a: {function: {handler: h, payload: ['${{ run.id }}']}}}}"));
    assert_eq!(parse("{name: w}").unwrap().concurrency_key(&Scope::default()), Ok(None));
}

fn read(yaml: &str) -> Workflow {
    parse(yaml).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"))
}

#[test]
fn lists_are_repeated_over() {
    let items = |foreach: &str, list: Value| {
        let workflow = read(&format!(
            "{{name: w, inputs: {{l: {{required: false}}}}, tasks: {{t: {{foreach: {foreach}, run: x}}}}}}"
        ));
        let mut scope = Scope::default();
        scope.inputs.insert("l".into(), list);
        workflow.foreach_items(0, &scope).map_err(|failure| failure.message)
    };
    assert_eq!(items("inputs.l", json!([1, "b", null])), Ok(vec![json!(1), json!("b"), json!(null)]));
    assert_eq!(items("inputs.l", json!([])), Ok(vec![]));
    assert_eq!(
        items("['x-${{ inputs.l }}', {a: '${{ inputs.l }}'}]", json!(3)),
        Ok(vec![json!("x-3"), json!({"a": 3})])
    );
    assert_eq!(
        items("inputs.l", json!({"a": 1})),
        Err("`foreach` of task `t`: `inputs.l` is an object, but must be a list".into())
    );
    assert_eq!(
        items("inputs.l", json!("abc")),
        Err("`foreach` of task `t`: `inputs.l` is a text, but must be a list".into())
    );
    assert_eq!(
        items("inputs.l", json!(vec![0; 10_001])),
        Err("`foreach` of task `t`: the list has 10001 items, more than 10000".into())
    );
    assert_eq!(items("inputs.l", json!(vec![0; MAX_ITEMS])).unwrap().len(), MAX_ITEMS);
}

#[test]
fn children_are_named_and_fed() {
    let workflow = read(
        "{name: w, namespace: n, env: {E: 'e-${{ inputs.a }}', UNREAD: '${{ secrets.K }}'}, secrets: [K], inputs: {a: {}},
          tasks: {t: {foreach: [1], workflow: {name: 'load-${{ inputs.a }}', inputs: {part: '${{ item }}', e: '${{ env.E }}'}}}}}",
    );
    let mut scope = Scope { item: Some(json!({"n": 7})), index: Some(0), ..Scope::default() };
    scope.inputs.insert("a".into(), json!("x"));
    let (namespace, name, inputs) = workflow.child(0, &scope).unwrap();
    assert_eq!((namespace.as_str(), name.as_str()), ("n", "load-x"));
    assert_eq!(Value::Object(inputs), json!({"part": {"n": 7}, "e": "e-x"}));
    scope.inputs.insert("a".into(), json!("X Y"));
    assert_eq!(
        workflow.child(0, &scope).unwrap_err().message,
        "`workflow` of task `t`: `load-X Y` is not the name of a workflow"
    );
    assert_eq!(workflow.secrets_for(0), ["K"]);
    assert!(workflow.is_decided(0) && workflow.tasks[0].action.parks());
}

#[test]
fn waits_end() {
    let until = |wait: &str, value: &str| {
        let workflow = read(&format!("{{name: w, inputs: {{v: {{}}}}, tasks: {{t: {wait}}}}}"));
        let mut scope = Scope::default();
        scope.inputs.insert("v".into(), json!(value));
        workflow.wait_until(0, 1_000_000, &scope).map_err(|failure| failure.message)
    };
    assert_eq!(until("{wait: {for: 10s}}", ""), Ok(Some(11_000_000)));
    assert_eq!(until("{wait: {for: '${{ inputs.v }}'}}", "1m"), Ok(Some(61_000_000)));
    assert_eq!(
        until("{wait: {for: '${{ inputs.v }}'}}", "soon"),
        Err("`wait` of task `t`: `soon` is not a duration: a duration is a number and a unit".into())
    );
    assert_eq!(until("{wait: {until: '1970-01-01T00:00:05Z'}}", ""), Ok(Some(5_000_000)));
    assert_eq!(until("{wait: {until: '${{ inputs.v }}'}}", "1970-01-01T01:00:05+01:00"), Ok(Some(5_000_000)));
    assert_eq!(
        until("{wait: {until: '${{ inputs.v }}'}}", "2026"),
        Err("`wait` of task `t`: `2026` is not a time like 2026-01-31T08:00:00Z".into())
    );
    assert_eq!(until("{wait: {event: e, timeout: 2s}}", ""), Ok(Some(3_000_000)));
    assert_eq!(until("{wait: {event: e}}", ""), Ok(None));
    assert_eq!(until("{wait: {result: true, timeout: 2s}}", ""), Ok(Some(3_000_000)));
    assert_eq!(until("{approval: {timeout: 2s}}", ""), Ok(Some(3_000_000)));
    assert_eq!(until("{workflow: a}", ""), Ok(None));
}

#[test]
fn events_are_recognised() {
    let workflow = read(
        "{name: w, inputs: {least: {type: integer}}, tasks: {t: {env: {K: 'k-${{ run.id }}'}, wait: {event: e, key: '${{ env.K }}', if: event.data.n >= inputs.least}},
          u: {wait: {event: e}}}}",
    );
    let mut scope = Scope { event: Some(json!({"data": {"n": 5}})), ..Scope::default() };
    scope.run.insert("id".into(), json!("r1"));
    scope.inputs.insert("least".into(), json!(5));
    assert_eq!(workflow.event_key(0, &scope), Ok(Some("k-r1".into())));
    assert_eq!(workflow.event_key(1, &scope), Ok(None));
    assert_eq!(workflow.event_matches(0, &scope), Ok(true));
    assert_eq!(workflow.event_matches(1, &scope), Ok(true));
    scope.event = Some(json!({"data": {"n": 4}}));
    assert_eq!(workflow.event_matches(0, &scope), Ok(false));
    scope.event = Some(json!({"data": {}}));
    assert_eq!(
        workflow.event_matches(0, &scope).unwrap_err().message,
        "`wait.if` of task `t`: `event.data.n` is undefined: data is empty"
    );
}

#[test]
fn triggers_judge_and_feed() {
    let workflow = read(
        "{name: w, inputs: {day: {type: date}}, triggers: [{event: e, if: event.data.n > 0, debounce: {window: 1s, key: 'k-${{ event.data.n }}'},
          inputs: {day: '${{ event.data.day }}'}}, {manual: true}]}",
    );
    let scope = Scope { event: Some(json!({"data": {"n": 1, "day": "2026-01-31"}})), ..Scope::default() };
    let [by_event, by_hand] = &workflow.triggers[..] else { panic!() };
    assert_eq!((by_event.matches(&scope), by_hand.matches(&scope)), (Ok(true), Ok(true)));
    assert_eq!(by_event.run_inputs(&scope).map(Value::Object), Ok(json!({"day": "2026-01-31"})));
    assert_eq!(by_event.debounce_key(&scope).as_deref(), Ok("k-1"));
    assert_eq!(by_hand.debounce_key(&scope).as_deref(), Ok(""));
    let failure = by_event.matches(&Scope::default()).unwrap_err();
    assert!(failure.message.starts_with(&format!("`if` of trigger `{}`: ", by_event.id)), "{}", failure.message);
}

#[test]
fn approvals_ask() {
    let workflow = read(
        "{name: w, tasks: {t: {approval: {roles: [lead], timeout: 1s, on_timeout: approve, message: 'run ${{ run.id }}?'}}}}",
    );
    let mut scope = Scope::default();
    scope.run.insert("id".into(), json!("r1"));
    let view = workflow.approval(0, 0, &scope).unwrap();
    assert_eq!((view.roles, view.message.as_deref()), (vec!["lead".to_owned()], Some("run r1?")));
    assert_eq!((view.expires_at, view.on_timeout.word()), (Some(1_000_000), "approve"));
}

#[test]
fn it_is_known_who_looks_at_what_a_run_was_meant_for() {
    let when = "${{ run.scheduled_for }}";
    for yaml in [
        format!("{{name: w, env: {{A: '{when}'}}, tasks: {{t: {{run: x}}}}}}"),
        format!("{{name: w, tasks: {{t: {{run: x, env: {{A: '{when}'}}}}}}}}"),
        "{name: w, tasks: {t: {run: x, if: \"run.scheduled_for > 'x'\"}}}".to_owned(),
        "{name: w, tasks: {t: {run: 'echo ${{ run }}'}}}".to_owned(),
    ] {
        assert!(read(&yaml).reads_schedule, "{yaml}");
    }
    assert!(!read("{name: w, tasks: {t: {run: 'echo ${{ run.id }}'}}}").reads_schedule);
}

#[test]
fn a_run_has_outputs() {
    let workflow = read(
        "{name: w, tasks: {a-b: {run: x}}, outputs: {n: '${{ tasks.a-b.output.n }}', t: 'n=${{ tasks.a-b.output.n }}'}}",
    );
    assert_eq!(workflow.output_reads.tasks, [0]);
    let mut scope = Scope::default();
    let view = |output| TaskView { status: TaskState::Success, attempts: 1, error: None, output: Some(output) };
    scope.tasks.insert("a-b".into(), view(json!({"n": 3})));
    assert_eq!(workflow.workflow_outputs(&scope).map(Value::Object), Ok(json!({"n": 3, "t": "n=3"})));
    scope.tasks.insert("a-b".into(), view(json!({"m": 3})));
    assert_eq!(
        workflow.workflow_outputs(&scope).unwrap_err().message,
        "`outputs.n` of the workflow: `tasks.a-b.output.n` is undefined: output has keys m"
    );
}

#[test]
fn requests_hold_values() {
    let workflow = read(
        "{name: w, secrets: [KEY], inputs: {id: {}}, tasks: {t: {env: {TOKEN: 'Bearer ${{ secrets.KEY }}'}, http: {method: post, url: 'https://h/${{ inputs.id | urlencode }}',
          headers: {Authorization: '${{ env.TOKEN }}'}, query: {q: '${{ inputs.id }}'}, json: {id: '${{ inputs.id }}'},
          auth: {basic: {username: '${{ inputs.id }}', password: '${{ secrets.KEY }}'}}}},
          r: {remote: {handler: h, payload: {k: '${{ secrets.KEY }}'}}}}}",
    );
    let mut scope = Scope::default();
    scope.inputs.insert("id".into(), json!("a b"));
    let failure = workflow.order(0, &scope).unwrap_err();
    assert_eq!(failure.message, "`env.TOKEN` of task `t`: the secret `KEY` has no value");
    scope.secrets.insert("KEY".into(), json!("s3cret"));
    let order = workflow.order(0, &scope).unwrap();
    assert_eq!(order.secrets, ["s3cret"]);
    let OrderAction::Http(request) = order.action else { panic!() };
    assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "https://h/a%20b"));
    assert_eq!(request.headers, [("Authorization".to_owned(), "Bearer s3cret".to_owned())]);
    assert_eq!(request.query, [("q".to_owned(), "a b".to_owned())]);
    assert_eq!(request.body, Some(HttpBody::Json(json!({"id": "a b"}))));
    assert_eq!(request.auth, Some(HttpAuth::Basic { username: "a b".into(), password: "s3cret".into() }));
    let OrderAction::Remote { handler, payload } = workflow.order(1, &scope).unwrap().action else { panic!() };
    assert_eq!((handler.as_str(), payload), ("h", json!({"k": "s3cret"})));
}

#[test]
fn answers_are_judged() {
    let expect =
        |yaml: &str| match read(&format!("{{name: w, tasks: {{t: {{http: {{url: 'http://h', expect: {yaml}}}}}}}}}"))
            .tasks[0]
            .action
        {
            Action::Http(ref http) => http.expect.clone(),
            _ => panic!(),
        };
    let headers = Map::from_iter([("x-a".to_owned(), json!("b"))]);
    let check = |yaml: &str, status: u16, body: Value| {
        let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        expect(yaml)
            .check(status, &headers, &text, &body)
            .map_err(|failure| format!("{}: {}", failure.kind, failure.message))
    };
    assert_eq!(check("{}", 204, json!(null)), Ok(()));
    assert_eq!(check("{}", 404, json!(null)), Err("http_status: the server answered 404; expected 2xx".into()));
    assert_eq!(
        check("{status: [200, 300-304]}", 201, json!(null)),
        Err("http_status: the server answered 201; expected 200, 300-304".into())
    );
    assert_eq!(check("{body: ok}", 200, json!("it is ok")), Ok(()));
    assert_eq!(check("{body: ok}", 200, json!("no")), Err("expect: the body does not hold `ok`".into()));
    assert_eq!(check("{body: {matches: '^o+k$'}}", 200, json!("oook")), Ok(()));
    assert_eq!(
        check("{body: {matches: '^o+k$'}}", 200, json!("k")),
        Err("expect: the body does not match `^o+k$`".into())
    );
    let json_rule = "{body: {json: 'body.n > 1 and headers[\"x-a\"] == \"b\" and status == 200'}}";
    assert_eq!(check(json_rule, 200, json!({"n": 2})), Ok(()));
    assert!(check(json_rule, 200, json!({"n": 1})).unwrap_err().ends_with("is not true of the answer"));
    assert_eq!(
        check(json_rule, 200, json!({"m": 1})),
        Err("expect: `expect.body.json`: `body.n` is undefined: body has keys m".into())
    );
}
