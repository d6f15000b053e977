//! Texts and what they become: a workflow, or exact complaints.

use serde_json::{Map, Value, json};

use crate::parse;
use crate::retry::{Backoff, OnExhausted, Retry};
use crate::rule::TriggerRule;
use crate::workflow::{Action, InputKind, Overlap, Stage, Workflow};

fn read(yaml: &str) -> Workflow {
    parse(yaml).unwrap_or_else(|errors| panic!("{errors}\n---\n{yaml}"))
}

/// A text and all complaints about it.
fn check(yaml: &str, expected: &str) {
    let errors = parse(yaml).err().unwrap_or_else(|| panic!("accepted:\n{yaml}"));
    assert_eq!(errors.to_string(), expected, "\n---\n{yaml}");
}

/// Complaints about the one task `t` that has these keys. Columns count from the `{` at column 6 of line 3.
fn check_task(keys: &str, expected: &str) {
    check(&format!("name: w\ntasks:\n  t: {{{keys}}}\n  other: {{run: x}}"), expected);
}

#[test]
fn the_smallest_workflows_are_valid() {
    let workflow = read("name: hello\ntasks:\n  greet: {run: echo \"hello from $MAINSPRING_RUN_ID\"}\n");
    assert_eq!((workflow.name.as_str(), workflow.namespace.as_str(), workflow.priority), ("hello", "default", 500));
    let Action::Run { script, bindings, shell, cwd } = &workflow.tasks[0].action else { panic!() };
    assert_eq!(script, "echo \"hello from $MAINSPRING_RUN_ID\"");
    assert_eq!((bindings.len(), shell, cwd), (0, &None, &None));
    assert_eq!(workflow.tasks[0].retry, Retry::default());

    assert!(read("name: empty").tasks.is_empty());
    assert!(read("name: empty\ntasks:\n").tasks.is_empty());
    assert_eq!(read(r#"{"name": "j", "tasks": {"a": {"run": "x", "needs": []}}}"#).tasks.len(), 1);
    assert_eq!(read("name: 2026").name, "2026");
}

#[test]
fn every_key_arrives() {
    let workflow = read(
        r#"
name: orders-etl
namespace: sales
description: Load yesterday's orders
tags: [etl, nightly, etl]
inputs:
  day:    {type: date, default: "${{ run.scheduled_for }}"}
  region: {type: string, enum: [eu, us], default: eu, description: where}
  dry:    {type: boolean, required: false}
  count:  {type: integer}
concurrency: {key: "${{ inputs.region }}", limit: 2, overlap: skip, max_queued: 10}
priority: high
timeout: 20h
env: {PGHOST: db, PORT: 5432, EMPTY: }
defaults:
  timeout: 5m
  retry: {attempts: 4, backoff: linear, delay: 2s, max_delay: 60s, jitter: 0.2}
tasks:
  extract:
    run: |
      ./extract.sh "$DAY" > out.json
    env: {DAY: "${{ inputs.day }}"}
    shell: bash
    cwd: /tmp/${{ inputs.region }}
  transform:
    needs: [extract]
    function: {handler: "reports:transform", payload: {rows: "${{ tasks.extract.output.rows }}", list: [1, "a ${{ env.PGHOST }}"]}}
    queue: gpu
    labels: {arch: arm64}
    priority: 7
    pool: warehouse
    timeout: 500ms
    retry: {attempts: 5, on: [timeout, "exit:75", 5xx], retryable: false}
    on_exhausted: continue
    max_lost: 0
    description: does it
    if: "not inputs.dry"
    trigger_rule: none_failed
on_failure: {page: {function: noop}}
finally: {clean: {run: rm -rf tmp}, last: {run: "true", needs: clean}}
"#,
    );
    assert_eq!(workflow.tags, ["etl", "nightly"]);
    assert_eq!(workflow.inputs["region"].choices, [json!("eu"), json!("us")]);
    assert_eq!(workflow.inputs["day"].kind, InputKind::Date);
    let required: Vec<bool> = workflow.inputs.values().map(|input| input.required).collect();
    assert_eq!(required, [false, false, false, true]);
    let concurrency = workflow.concurrency.as_ref().unwrap();
    assert_eq!((concurrency.limit, concurrency.overlap, concurrency.max_queued), (2, Overlap::Skip, Some(10)));
    assert_eq!((workflow.priority, workflow.timeout_ms), (750, Some(72_000_000)));
    assert_eq!(workflow.env["PORT"], "5432");
    assert_eq!(workflow.env["EMPTY"], "");

    let [extract, transform, page, clean, last] = &workflow.tasks[..] else { panic!() };
    assert_eq!(
        (extract.retry.attempts, extract.retry.backoff, extract.timeout_ms),
        (4, Backoff::Linear, Some(300_000))
    );
    assert_eq!((extract.reads.any, extract.condition_reads.any), (true, false));
    assert_eq!((transform.retry.attempts, transform.retry.delay_ms), (5, 2_000));
    assert_eq!(transform.retry.on, ["timeout", "exit:75", "5xx"]);
    assert!(!transform.retry.retryable);
    assert_eq!((transform.needs.as_slice(), extract.dependents.as_slice()), (&[0][..], &[1][..]));
    assert_eq!((transform.reads.tasks.as_slice(), transform.condition_reads.any), (&[0][..], true));
    assert_eq!((transform.queue.as_str(), transform.labels["arch"].as_str()), ("gpu", "arm64"));
    assert_eq!((transform.priority, transform.max_lost, transform.timeout_ms), (Some(7), 0, Some(500)));
    assert_eq!((transform.on_exhausted, transform.rule), (OnExhausted::Continue, TriggerRule::NoneFailed));
    assert_eq!((page.stage, clean.stage, last.needs.as_slice()), (Stage::OnFailure, Stage::Finally, &[3][..]));
    let Action::Run { script, .. } = &last.action else { panic!() };
    assert_eq!(script, "true");

    let stored = serde_json::to_string(&workflow).unwrap();
    assert_eq!(serde_json::from_str::<Workflow>(&stored).unwrap(), workflow);
}

#[test]
fn aliases_stand_for_what_they_name() {
    let workflow = read("name: w\nenv: &e {A: 1}\ntasks: {a: {run: x, env: *e}, b: {run: x, env: *e}}");
    assert_eq!(workflow.tasks[1].env["A"], "1");
}

#[test]
fn a_long_delay_raises_the_usual_cap() {
    let retry =
        |keys: &str| read(&format!("{{name: w, tasks: {{a: {{run: x, retry: {{{keys}}}}}}}}}")).tasks[0].retry.clone();
    assert_eq!(retry("delay: 60s").max_delay_ms, 60_000);
    assert_eq!(retry("delay: 5s").max_delay_ms, 30_000);
    assert_eq!(retry("delay: 5s, max_delay: 6s").max_delay_ms, 6_000);
}

#[test]
fn texts_that_are_no_workflow() {
    check("", "1:1: the text is empty\n  help: the smallest workflow is `name: …`");
    check("# only a comment", "1:1: nothing could be read");
    check(
        "[]",
        "1:1: a workflow must be a mapping, not a list\n  help: begin with `name: …`, and `tasks:` with a name for each below",
    );
    check(
        "hello",
        "1:1: a workflow must be a mapping, not a text\n  help: begin with `name: …`, and `tasks:` with a name for each below",
    );
    check("tasks: {}", "1:1: the workflow has no name\n  help: add `name: …`");
    check(
        "name: w\ntasks: []",
        "2:8: `tasks` must be a mapping from names to tasks, not a list\n  help: write `NAME:` instead of `- name: NAME`, and what it does below",
    );
    check("name: [", "2:1: not valid YAML: while parsing a node, did not find expected node content");
    check("name: w\nname: v", "2:1: the key `name` appears twice");
    check("name: w\n[a]: 1", "2:1: a key must be a plain name, not a list or a mapping");
}

#[test]
fn keys_that_do_not_exist() {
    check("name: w\ntask: {}", "2:1: a workflow has no key `task`\n  help: did you mean `tasks`?");
    check(
        "name: w\nzzz: {}",
        "2:1: a workflow has no key `zzz`\n  help: a workflow has the keys name, namespace, title, description, version, tags, metadata, domain_events, inputs, secrets, callers, triggers, files, env, env_file, priority, timeout, concurrency, lifecycle, notifications, defaults, tasks, on_failure, on_success, finally, outputs",
    );
    check_task("run: x, need: other", "3:15: a task has no key `need`\n  help: did you mean `needs`?");
    check_task("run: x, for_each: other", "3:15: a task has no key `for_each`\n  help: did you mean `foreach`?");
    check_task("run: x, retry: {attempt: 1}", "3:23: `retry` has no key `attempt`\n  help: did you mean `attempts`?");
    check_task(
        "function: {handler: noop, args: 1}",
        "3:33: `function` has no key `args`\n  help: `function` has the keys handler, payload",
    );
}

#[test]
fn a_task_does_one_thing() {
    check_task(
        "needs: other",
        "3:3: the task `t` does not say what to do\n  help: give it one of run, steps, http, function, workflow, remote, approval, wait",
    );
    check_task(
        "run: x, function: noop",
        "3:15: a task does one thing, but this one has both `run` and `function`\n  help: make two tasks of it",
    );
    check_task("run: ''", "3:12: the script is empty");
    check_task("run: [x]", "3:12: `run` must be a text, not a list");
    check_task("run:", "3:10: `run` must be a text, not nothing");
    check_task("function: noop, cwd: x", "3:23: `cwd` has no meaning without `run` or `steps`");
    check_task("function: {payload: 1}", "3:17: `function` has no handler\n  help: write `function: {handler: …}`");
    check_task("function: 'a b'", "3:17: `a b` is not the name of a handler");
    check("name: w\ntasks:\n  t: echo", "3:6: `t` must be a mapping, not a text");
    check(
        "name: w\ntasks:\n  T: {run: x}",
        "3:3: `T` is not a valid name\n  help: names begin with a-z or 0-9, go on with a-z 0-9 _ . - and have at most 128 characters",
    );
}

#[test]
fn values_of_the_wrong_kind() {
    check_task(
        "run: x, timeout: 30",
        "3:24: `timeout` `30` is not a duration: a duration needs a unit\n  help: write `500ms`, `30s`, `5m`, `2h`, `1d` or `1h30m`",
    );
    check_task("run: x, timeout: 0s", "3:24: `timeout` must be longer than nothing");
    check_task(
        "run: x, priority: urgent",
        "3:25: `urgent` is not a priority\n  help: write `low`, `medium`, `high`, `critical` or a number from 0 to 1000",
    );
    check_task(
        "run: x, priority: 1001",
        "3:25: `1001` is not a priority\n  help: write `low`, `medium`, `high`, `critical` or a number from 0 to 1000",
    );
    check_task(
        "approval: true",
        "3:17: `approval` must be a mapping, not true or false\n  help: write `approval: {}`, with `roles`, `message` and `timeout` as needed",
    );
    check_task(
        "wait: 5m",
        "3:13: `wait` must be a mapping, not a text\n  help: write `wait: {for: 5m}`, `wait: {until: …}` or `wait: {event: …}`",
    );
    check_task(
        "workflow: other, inputs: {day: x}",
        "3:24: a task has no key `inputs`\n  help: inputs of another workflow belong into `workflow: {name: …, inputs: {…}}`; for a script write `env`",
    );
    check(
        "name: w\ninputs:\n  - name: day\ntasks: {}",
        "3:3: `inputs` must be a mapping, not a list\n  help: write `inputs: {day: {type: date}}`: a name for each, and what it takes",
    );
    check_task(
        "run: x, retry: 5",
        "3:22: `retry` must be a mapping, not a number\n  help: write `retry: {attempts: 5}`, the first attempt included",
    );
    check_task("run: x, retry: {attempts: 0}", "3:33: `attempts` must lie between 1 and 10000");
    check_task("run: x, retry: {attempts: 99999999999999999999}", "3:33: `attempts` must lie between 1 and 10000");
    check_task("run: x, retry: {attempts: two}", "3:33: `attempts` must be a whole number, not a text");
    check_task("run: x, retry: {jitter: 2}", "3:31: `jitter` must lie between 0 and 1");
    check_task("run: x, retry: {retryable: 'no'}", "3:34: `retryable` must be true or false, not a text");
    check_task("run: x, retry: {delay: 2m, max_delay: 1m}", "3:22: `delay` is longer than `max_delay`");
    check_task(
        "run: x, retry: {on: ['exit:999']}",
        "3:28: `exit:999` is not a kind of failure\n  help: write `timeout`, `5xx`, `4xx`, a status like `429`, `exit:75` or an error kind",
    );
    check_task(
        "run: x, on_exhausted: dead-letter",
        "3:29: `on_exhausted` cannot be `dead-letter`\n  help: did you mean `dead_letter`?",
    );
    check_task(
        "run: x, retry: {backoff: quick}",
        "3:32: `backoff` cannot be `quick`\n  help: write one of fixed, linear, exponential",
    );
    check_task("run: x, env: [A]", "3:20: `env` must be a mapping, not a list");
    check_task(
        "run: x, env: {1A: x}",
        "3:21: `1A` is not a valid variable name\n  help: write letters, digits and `_`, not beginning with a digit, at most 128",
    );
    check_task(
        "run: x, env: {MAINSPRING_X: x}",
        "3:21: `MAINSPRING_X` is reserved: variables beginning with MAINSPRING_ are set for the task",
    );
    check_task("run: x, env: {A: {}}", "3:24: `A` must be a text, not a mapping");
    check_task("run: x, shell: ''", "3:22: `` is not an interpreter");
    check("name: w\nconcurrency: {limit: 0}", "2:22: `limit` must lie between 1 and 1000000");
    check("name: w\ntags: [[]]", "2:8: an item of `tags` must be a text, not a list");
}

#[test]
fn needs_that_cannot_be() {
    check_task("run: x, needs: othre", "3:22: there is no task `othre`\n  help: did you mean `other`?");
    check_task("run: x, needs: zzzzzz", "3:22: there is no task `zzzzzz`");
    check_task("run: x, needs: t", "3:22: the task `t` needs itself");
    check_task("run: x, needs: [other, other]", "3:30: `other` is needed twice");
    check_task("run: x, needs: {a: 1}", "3:22: `needs` must be a name or a list of names, not a mapping");
    check_task("run: x, needs: [[other]]", "3:23: an item of `needs` must be the name of a task, not a list");
    check(
        "name: w\ntasks:\n  a: {run: x, needs: b}\n  b: {run: x, needs: c}\n  c: {run: x, needs: [a]}",
        "3:22: tasks need each other in a circle: a → b → c → a\n  help: `a → b` means that a needs b; remove one of these needs",
    );
    check(
        "name: w\ntasks: {a: {run: x}}\nfinally: {b: {run: x, needs: a}}",
        "3:30: `a` belongs to `tasks`\n  help: a task needs tasks of its own part only; `on_failure`, `on_success` and `finally` begin when the others have ended",
    );
    check(
        "name: w\ntasks: {a: {run: x}}\nfinally: {a: {run: x}}",
        "3:11: there is a task `a` under `tasks` already\n  help: task names are unique in the whole workflow",
    );
    check_task(
        "run: x, trigger_rule: one_failed",
        "3:29: `one_failed` looks at the tasks this one needs, but it needs none, so it could never run\n  help: add `needs`, or remove the rule",
    );
    assert_eq!(read("{name: w, tasks: {a: {run: x, trigger_rule: all_done}}}").tasks.len(), 1);
}

#[test]
fn everything_is_said_at_once_and_in_order() {
    check(
        "name: W\npriorty: 1\ntasks:\n  a: {run: x, needs: b}\n  c: {run: x, timeout: x}\n",
        "1:7: `W` is not a valid name\n  help: names begin with a-z or 0-9, go on with a-z 0-9 _ . - and have at most 128 characters
2:1: a workflow has no key `priorty`\n  help: did you mean `priority`?
4:22: there is no task `b`\n  help: did you mean `a`?
5:24: `timeout` `x` is not a duration: a duration is a number and a unit\n  help: write `500ms`, `30s`, `5m`, `2h`, `1d` or `1h30m`",
    );
}

#[test]
fn expressions_are_checked_where_they_stand() {
    check_task("run: x, if: inputs.dry", "3:19: there is no input `dry`\n  help: declare it: `inputs: {dry: {}}`");
    check_task(
        "run: x, if: 'a ='",
        "3:20: `a =` does not compile: unexpected input after expression\n  help: a comparison is written `==`",
    );
    check_task(
        "run: x, if: input.dry",
        "3:19: nothing is called `input` in expressions\n  help: did you mean `inputs`?",
    );
    check_task("run: x, if: '1 +'", "3:20: `1 +` does not compile: unexpected end of input, expected expression");
    check_task("run: x, if: '1 | nonsense'", "3:24: there is no filter `nonsense`");
    check_task("run: x, if: ''", "3:20: the expression is empty");
    check_task(
        "run: x, if: '${{ 1'",
        "3:20: a condition is one expression, with `${{ }}` around all of it or not at all",
    );
    check_task(
        "run: x, env: {A: 'x ${{ secrets.KEY }}'}",
        "3:31: there is no secret `KEY`\n  help: add `KEY` to the `secrets` of the workflow",
    );
    check_task("run: x, env: {A: 'x ${{ 1'}", "3:27: `${{` is never closed\n  help: end the expression with `}}`");
    check_task(
        "run: x, env: {A: '${{ tasks.other.output }}'}",
        "3:29: `t` reads the task `other`, which need not have ended by then\n  help: add `other` to the `needs` of `t`",
    );
    check_task("run: x, env: {A: '${{ tasks.t.status }}'}", "3:29: the task `t` reads its own result");
    check_task(
        "run: x, env: {A: '${{ tasks.othr.output }}'}",
        "3:29: there is no task `othr`\n  help: did you mean `other`?",
    );
    check_task(
        "run: x, needs: other, if: tasks.other.outputs.a",
        "3:33: a task has no `outputs`\n  help: did you mean `output`?",
    );
    check_task(
        "run: x, needs: other, if: 'tasks[inputs.x]'",
        "3:34: `tasks` must be followed by the name of a task\n  help: write `tasks.NAME.output` or `tasks['NAME'].output`",
    );
    check_task("run: x, env: {A: '${{ env.B }}'}", "3:29: there is no variable `B`");
    check(
        "name: w\ninputs: {day: {type: date}}\ntasks:\n  t:\n    run: |\n      echo one\n      echo '${{ inputs.day }}' ${{ inputs.dya }}\n",
        "7:13: inside single quotes the shell expands no variable, so an expression has no value here\n  help: use double quotes",
    );
    check(
        "name: w\ninputs: {day: {type: date}}\ntasks:\n  t:\n    run: |\n      echo one\n      echo ${{ inputs.dya }}\n",
        "7:16: there is no input `dya`\n  help: did you mean `day`?",
    );
    check(
        "name: w\nenv: {A: '${{ tasks.a.output }}'}\ntasks: {a: {run: x}}",
        "2:15: no task has run yet where this expression is evaluated",
    );
    check(
        "name: w\nenv: {A: '${{ env.A }}'}",
        "2:15: the variable `A` is not made yet\n  help: variables are made in the order written: put `A` above",
    );
    check("name: w\ninputs: {a: {default: '${{ inputs.a }}'}}", "2:28: one input cannot read another");
    check(
        "name: w\nconcurrency: {key: '${{ inputs.a }}'}",
        "2:25: there is no input `a`\n  help: declare it: `inputs: {a: {}}`",
    );
}

#[test]
fn who_may_read_whom() {
    let read = |yaml: &str| parse(yaml).map(|_| ()).map_err(|errors| errors.0[0].message.clone());
    const CHAIN: &str = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, run: x}},
        on_failure: {f: {run: x}}, finally: {z: {run: x}}}";
    let chain = |reader: &str, target: &str| {
        read(&CHAIN.replace(&format!("{reader}: {{"), &format!("{reader}: {{if: 'tasks.{target}.status', ")))
    };
    for (reader, target) in [("c", "a"), ("c", "b"), ("f", "a"), ("z", "a"), ("z", "f")] {
        assert_eq!(chain(reader, target), Ok(()), "{reader} reads {target}");
    }
    for (reader, target) in [("a", "c"), ("a", "z"), ("b", "f"), ("f", "z")] {
        assert!(chain(reader, target).is_err(), "{reader} reads {target}");
    }
}

#[test]
fn inputs_are_declared_sensibly() {
    check(
        "name: w\ninputs: {a: {type: int}}",
        "2:20: `type` cannot be `int`\n  help: write one of string, integer, number, boolean, object, list, date, datetime, duration",
    );
    check(
        "name: w\ninputs: {1-b: {type: string}}",
        "2:10: `1-b` is not a valid input name\n  help: write letters, digits, `_`, `-` and `.`, beginning with a letter or `_`, not ending with `-` or `.`, at most 128",
    );
    check(
        "name: w\ninputs: {a: {type: integer, default: x}}",
        "2:38: the default of `a` is `x`, but must be a whole number",
    );
    check(
        "name: w\ninputs: {a: {enum: [x, y], default: z}}",
        "2:37: the default of `a` is `z`, but must be one of `x`, `y`",
    );
    check(
        "name: w\ninputs: {a: {type: integer, enum: [1, x]}}",
        "2:13: a choice of `a` is `x`, but must be a whole number",
    );
}

#[test]
fn dashed_and_dotted_names_are_read_without_quotes() {
    let workflow = read(
        "name: w\ntasks:\n  my-task.v1: {run: x}\n  b: {needs: my-task.v1, run: x, if: \"tasks.my-task.v1.output.n - 1 > 0 and tasks['my-task.v1'].attempts == 1\"}",
    );
    assert_eq!(
        workflow.tasks[1].condition.as_deref(),
        Some("tasks[\"my-task.v1\"].output.n - 1 > 0 and tasks['my-task.v1'].attempts == 1")
    );
    assert_eq!(workflow.tasks[1].condition_reads.tasks, [0]);
}

#[test]
fn given_inputs_are_checked_all_at_once() {
    let workflow = read(
        "{name: w, inputs: {n: {type: integer}, region: {enum: [eu, us], default: eu}, day: {type: date}, opt: {required: false}, o: {type: object, default: {}}}}",
    );
    let scope = crate::Scope::default();
    let resolve = |given: Value| {
        let Value::Object(given) = given else { panic!() };
        workflow.resolve_inputs(given, &scope).map(Value::Object).map_err(|errors| {
            errors.0.into_iter().map(|error| format!("{}: {}", error.path, error.message)).collect::<Vec<_>>()
        })
    };
    assert_eq!(
        resolve(json!({"n": 3, "day": "2026-02-28"})),
        Ok(json!({"n": 3, "region": "eu", "day": "2026-02-28", "opt": null, "o": {}}))
    );
    assert_eq!(
        resolve(json!({"n": "3", "region": "mars", "rgion": 1})),
        Err(vec![
            "/inputs/day: input `day` is missing".into(),
            "/inputs/n: input `n` is `3`, but must be a whole number".into(),
            "/inputs/region: input `region` is `mars`, but must be one of `eu`, `us`".into(),
            "/inputs/rgion: the workflow has no input `rgion`".into(),
        ])
    );
    assert_eq!(workflow.input_from_text("n", "3"), json!(3));
    assert_eq!(workflow.input_from_text("n", "x"), json!("x"));
    assert_eq!(workflow.input_from_text("o", "{\"a\": 1}"), json!({"a": 1}));
    assert_eq!(workflow.input_from_text("day", "2026-01-01"), json!("2026-01-01"));
    assert!(workflow.resolve_inputs(Map::new(), &scope).is_err());
    for bad in ["2026-02-30", "2026-13-01", "26-01-01", "2026-01-1", "2026/01/01", "２０２６-01-01"] {
        assert!(resolve(json!({"n": 1, "day": bad})).is_err(), "{bad}");
    }
}

#[test]
fn what_is_hardly_meant_is_a_warning() {
    let warned = |text: &str| -> Vec<String> {
        let (_, warnings) = crate::parse_with_warnings(text).unwrap_or_else(|errors| panic!("{errors}"));
        warnings.iter().map(|one| format!("{}:{}: {}", one.place.line, one.place.column, one.message)).collect()
    };
    let text = "name: w\ntriggers: [{cron: '0 0 1 */15 *'}]\ntasks:\n  t:\n    run: echo {{ ds }} ${{ run.id }}\n    env: {A: '{{ params.day }}'}\n";
    assert_eq!(
        warned(text),
        [
            "2:19: the step of `*/15` in the month field leads out of it: only 1 fits",
            "5:15: `{{ ds }}` stays as it is written",
            "6:15: `{{ params.day }}` stays as it is written",
        ]
    );
    assert!(
        warned("name: w\ntasks: {t: {run: \"docker ps --format '{{json .}} {{.Names}}' && echo ${{ run.id }}\"}}")
            .is_empty()
    );
}
