//! Cases that hold, and cases that do not and say why.

use std::collections::HashMap;

use proptest::prelude::*;

use crate::{Workflow, parse};

use super::*;

#[derive(Default)]
struct Others(HashMap<String, Subject>);

impl Children for Others {
    fn find(&self, _: &str, name: &str) -> Option<&Subject> {
        self.0.get(name)
    }
}

fn workflow(yaml: &str) -> Workflow {
    parse(yaml).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Plays every case and returns what differs, a line each.
fn differences_with(yaml: &str, tests: &str, others: &[&str]) -> Vec<String> {
    let subject = Subject::new(workflow(yaml));
    let suite = Suite::read(tests).unwrap_or_else(|errors| panic!("{errors}"));
    suite.check(subject.workflow()).unwrap_or_else(|errors| panic!("{errors}"));
    let others = others.iter().map(|yaml| workflow(yaml)).map(|one| (one.name.clone(), Subject::new(one)));
    let others = Others(others.collect());
    let mut found = Vec::new();
    for case in &suite.cases {
        for one in compare(subject.workflow(), case, &play(&subject, case, &others)) {
            found.push(format!("{}: expected {}, but was {}", one.about, one.expected, one.actual));
        }
    }
    found
}

#[track_caller]
fn holds(yaml: &str, tests: &str) {
    assert_eq!(differences_with(yaml, tests, &[]), Vec::<String>::new());
}

#[track_caller]
fn differs(yaml: &str, tests: &str, expected: &[&str]) {
    assert_eq!(differences_with(yaml, tests, &[]), expected);
}

const CHAIN: &str =
    "{name: w, defaults: {retry: {}}, inputs: {day: {type: date, default: '${{ run.scheduled_for | date }}'}},
    tasks: {extract: {run: 'x ${{ inputs.day }}', env: {DAY: '${{ inputs.day }}'}},
    load: {needs: extract, function: {handler: h, payload: {rows: '${{ tasks.extract.output.rows }}'}}}},
    on_failure: {page: {run: x}}, finally: {clean: {run: x}}}";

#[test]
fn outcomes_flow_through_the_graph() {
    holds(
        CHAIN,
        "
- {name: all well, tasks: {extract: {output: {rows: 3}}}, expect: {tasks: {extract: success, load: {status: success, payload: {rows: 3}}, page: skipped, clean: success}, order: [extract, load, clean], not_run: [page], duration: 0s}}
- {name: at a time, now: 2026-03-01T02:00:00Z, tasks: {extract: {output: {rows: 1}}}, expect: {tasks: {extract: {env: {DAY: '2026-03-01'}}}}}
- {name: fails, tasks: {extract: {fail: no route}}, expect: {status: failed, tasks: {extract: {status: failed, attempts: 3, error: no route}, load: upstream_failed, page: success, clean: success}, not_run: [load], duration: 3s}}
- {name: recovers, tasks: {extract: {fail: no route, times: 2, output: {rows: 7}}}, expect: {tasks: {extract: {attempts: 3, output: {rows: 7}}}, duration: 3s}}
- {name: a list, tasks: {extract: [{fail: one}, {output: {rows: 1}}]}, expect: {tasks: {extract: {attempts: 2}}}}
- {name: an expression fails, expect: {status: failed, tasks: {load: {status: failed, attempts: 1, error: rows}}}}
- {name: refused, inputs: {day: yesterday}, expect: {refused: a date like}}
",
    );
}

#[test]
fn what_does_not_hold_is_said_with_both_sides() {
    differs(
        CHAIN,
        "
- tasks: {extract: {output: {rows: 3}}}
  expect: {status: failed, tasks: {load: {status: skipped, attempts: 2, payload: {rows: 4}}, extract: {env: {DAY: x, NO: y}}}, order: [load, extract], not_run: [clean], duration: 5m}
- tasks: {extract: {fail: gone}}
- inputs: {wrong: 1}
- {expect: {refused: x}, tasks: {extract: {output: {rows: 1}}}}
",
        &[
            "status: expected failed, but was success",
            "tasks.load.status: expected skipped, but was success",
            "tasks.load.attempts: expected 2, but was 1",
            "tasks.load.payload: expected {\"rows\":4}, but was {\"rows\":3}",
            "tasks.extract.env.DAY: expected \"x\", but was \"2026-01-01\"",
            "tasks.extract.env.NO: expected \"y\", but was not set",
            "order: extract: expected it begins when `load` has ended, but was it began before",
            "not_run: clean: expected it does not run, but was it ran",
            "duration: expected 5m, but was 0s",
            "status: expected success, but was failed: task `extract`: gone",
            "inputs: expected inputs that fit the workflow, but was the inputs are refused: 1:1: the workflow has no input `wrong`\n  help: its inputs are day",
            "refused: expected the inputs are refused: x, but was the run was success",
        ],
    );
}

#[test]
fn retries_timeouts_and_deadlines_take_virtual_time() {
    holds(
        "{name: w, tasks: {a: {run: x, timeout: 10m, retry: {attempts: 2, delay: 1m, max_delay: 1h, on: [timeout]}}}}",
        "
- {tasks: {a: {takes: 3h}}, expect: {status: failed, tasks: {a: {attempts: 2, error: not done within 10m}}, duration: 21m}}
- {tasks: {a: {fail: no}}, expect: {status: failed, tasks: {a: {attempts: 1}}}}
- {tasks: {a: [{fail: {kind: timeout, message: slow}}, {takes: 2m}]}, expect: {tasks: {a: {attempts: 2}}, duration: 3m}}
- {tasks: {a: {fail: {kind: timeout, permanent: true}}}, expect: {status: failed, tasks: {a: {attempts: 1}}}}
",
    );
    holds(
        "{name: w, timeout: 1h, tasks: {a: {run: x}, b: {needs: a, run: x}}, on_failure: {page: {run: x}}, finally: {clean: {run: x}}}",
        "
- tasks: {a: {takes: 2h}}
  expect: {status: failed, duration: 1h, tasks: {a: cancelled, b: cancelled, page: success, clean: success}}
- {tasks: {a: {takes: 59m}}, expect: {duration: 59m}}
",
    );
}

#[test]
fn a_task_is_repeated_over_a_list() {
    let yaml = "{name: w, inputs: {parts: {type: list, default: [a, b, c]}}, tasks: {
        load: {foreach: inputs.parts, max_parallel: 2, retry: {attempts: 2}, function: {handler: h, payload: '${{ item }}-${{ index }}'}},
        after: {needs: load, function: {handler: h, payload: '${{ tasks.load.output }}'}}}}";
    holds(
        yaml,
        "
- tasks: {load: {takes: 1m, output: {n: 1}}, 'load[1]': {output: {n: 2}, takes: 3m}}
  expect: {duration: 3m, tasks: {load: {status: success, items: 3}, 'load[1]': {status: success, payload: b-1, output: {n: 2}}, after: {payload: [{n: 1}, {n: 2}, {n: 1}]}}}
- tasks: {'load[2]': {fail: broken}}
  expect: {status: failed, tasks: {'load[2]': {status: failed, attempts: 2}, 'load[0]': success, load: {status: failed, error: '1 of 3 items failed; item 2: broken'}, after: upstream_failed}, duration: 1s}
- {inputs: {parts: []}, expect: {tasks: {load: {status: success, items: 0, output: []}}}}
",
    );
    differs(
        yaml,
        "[{inputs: {parts: [x]}, expect: {tasks: {'load[7]': success}}}]",
        &["tasks.load[7]: expected an item of this number, but was no such item"],
    );
    differs(
        "{name: w, tasks: {a: {foreach: '${{ inputs.x }}', run: x}}, inputs: {x: {default: text}}}",
        "[{}]",
        &[
            "status: expected success, but was failed: task `a`: `foreach` of task `a`: `inputs.x` is a text, but must be a list",
        ],
    );
}

#[test]
fn approvals_and_waits_end_as_the_test_says() {
    let yaml = "{name: w, tasks: {pause: {wait: {for: 10m}},
        approve: {needs: pause, approval: {timeout: 4h, on_timeout: skip}},
        bank: {needs: approve, wait: {event: bank.confirmed, if: event.data.amount > 0, timeout: 12h}},
        result: {needs: bank, wait: {result: true}, }, pay: {needs: result, function: {handler: h, payload: '${{ tasks.bank.output.data.amount }}'}}}}";
    holds(
        yaml,
        "
- {tasks: {approve: {approve: true, after: 1h}, bank: {event: {amount: 5}, after: 2h}, result: {output: {ok: true}}}, expect: {tasks: {pay: {payload: 5}, result: {output: {ok: true}}}, duration: 3h10m}}
".replace("3h10m", "190m").as_str(),
    );
    holds(
        yaml,
        "
- {tasks: {approve: {approve: false}}, expect: {status: failed, tasks: {approve: {status: failed, attempts: 1, error: rejected by test}, bank: upstream_failed}, duration: 10m}}
- {tasks: {approve: {never: true}}, expect: {tasks: {approve: skipped, bank: skipped, pay: skipped}, duration: 250m}}
- {tasks: {bank: {event: {amount: 0}}}, expect: {status: failed, tasks: {bank: {status: failed, error: no event `bank.confirmed` came}}}}
- {tasks: {bank: {event: {amount: 1}}, result: {fail: no}}, expect: {status: failed, tasks: {result: {status: failed, attempts: 1}}}}
",
    );
    differs(
        yaml,
        "[{tasks: {bank: {event: {amount: 1}}, result: {never: true}}}]",
        &["status: expected success, but was running without end: `result` waits from 2026-01-01T00:10:00.000000Z on"],
    );
}

#[test]
fn children_are_played_where_they_are_known() {
    let parent = "{name: parent, tasks: {sub: {workflow: {name: child, inputs: {n: 2}}, timeout: 1h}}, outputs: {total: '${{ tasks.sub.output.double }}'}}";
    let child = "{name: child, inputs: {n: {type: integer}}, tasks: {a: {run: x, retry: {}}}, outputs: {double: '${{ inputs.n * 2 }}'}}";
    let tests = "
- {expect: {outputs: {total: 4}, tasks: {sub: {inputs: {n: 2}, output: {double: 4}}}}}
- {tasks: {sub: {tasks: {a: {fail: gone, takes: 1m}}}}, expect: {status: failed, tasks: {sub: {status: failed, error: 'the run of workflow `child` failed: task `a`: gone'}}, duration: 183s}}
- {tasks: {sub: {tasks: {a: {takes: 2h}}}}, expect: {status: failed, tasks: {sub: {error: the sub-workflow did not end within 1h}}, duration: 1h}}
- {tasks: {sub: {output: {double: 9}}}, expect: {outputs: {total: 9}}}
";
    assert_eq!(differences_with(parent, tests, &[child]), Vec::<String>::new());
    let itself = "{name: w, tasks: {again: {workflow: {name: w}}}}";
    let found = differences_with(itself, "[{}]", &[itself]);
    assert!(found[0].contains("nested deeper than 20: w → w → w → … → w → w → w"), "{found:?}");
}

#[test]
fn a_child_is_tried_again_as_in_a_real_run_and_nothing_else_that_waits() {
    let child = "{name: child, tasks: {a: {run: x, retry: {attempts: 1}}}}";
    let parent = |rest: &str| {
        format!(
            "{{name: parent, tasks: {{sub: {{workflow: child, retry: {{attempts: 3, delay: 1m, jitter: 0, backoff: fixed}}{rest}}}}}}}"
        )
    };
    let tests = "
- {tasks: {sub: {tasks: {a: {fail: gone}}}}, expect: {status: failed, tasks: {sub: {status: failed, attempts: 3, error: 'task `a`: gone'}}, duration: 2m}}
- {tasks: {sub: {fail: {message: gone, kind: workflow}, times: 2}}, expect: {status: success, tasks: {sub: {status: success, attempts: 3}}, duration: 2m}}
- {tasks: {sub: {fail: {message: gone, permanent: true}}}, expect: {status: failed, tasks: {sub: {status: failed, attempts: 1}}, duration: 0s}}
";
    assert_eq!(differences_with(&parent(""), tests, &[child]), Vec::<String>::new());
    let times_out = "[{tasks: {sub: {tasks: {a: {takes: 1h}}}}, expect: {status: failed, tasks: {sub: {attempts: 3, error: the sub-workflow did not end within 10m}}, duration: 32m}}]";
    assert_eq!(differences_with(&parent(", timeout: 10m"), times_out, &[child]), Vec::<String>::new());
    let waits = "{name: child, tasks: {a: {wait: {result: true}}}}";
    let never = "[{tasks: {sub: {tasks: {a: {never: true}}}}, expect: {status: failed, tasks: {sub: {attempts: 3, error: the sub-workflow did not end within 10m}}}}]";
    assert_eq!(differences_with(&parent(", timeout: 10m"), never, &[waits]), Vec::<String>::new());
    let items =
        "{name: parent, tasks: {sub: {foreach: [1, 2], workflow: child, retry: {attempts: 2, delay: 1m, jitter: 0}}}}";
    let second = "[{tasks: {'sub[1]': {tasks: {a: {fail: gone}}}}, expect: {status: failed, tasks: {'sub[0]': success, 'sub[1]': {status: failed, attempts: 2}}, duration: 1m}}]";
    assert_eq!(differences_with(items, second, &[child]), Vec::<String>::new());
    holds(
        "{name: w, tasks: {yes: {approval: {timeout: 1h}, retry: {attempts: 3}}, wait: {wait: {event: e, timeout: 1h}, retry: {attempts: 3}}}}",
        "
- {tasks: {yes: {approve: false}, wait: {event: {}}}, expect: {status: failed, tasks: {yes: {status: failed, attempts: 1}}, duration: 0s}}
- {tasks: {yes: {never: true}, wait: {never: true}}, expect: {status: failed, tasks: {yes: {attempts: 1, error: nobody approved within 1h}, wait: {attempts: 1, error: no event `e` came}}, duration: 1h}}
",
    );
}

#[test]
fn what_waits_sees_the_variables_of_its_task() {
    holds(
        "{name: w, env: {BASE: 2m}, tasks: {a: {wait: {for: '${{ env.OWN }}'}, env: {OWN: '${{ env.BASE }}'}}}}",
        "[{expect: {tasks: {a: success}, duration: 2m}}]",
    );
    differs(
        "{name: w, tasks: {a: {workflow: {name: '${{ inputs.x }}'}}}, inputs: {x: {default: no name}}}",
        "[{}]",
        &[
            "status: expected success, but was failed: task `a`: `workflow` of task `a`: `no name` is not the name of a workflow",
        ],
    );
}

#[test]
fn a_strict_test_names_every_outcome() {
    differs(
        "{name: w, tasks: {a: {run: x}, b: {run: x}, c: {needs: a, run: x, if: 'false'}}}",
        "{strict: true, cases: [{tasks: {a: {}}}]}",
        &["tasks.b: expected an outcome, because the test is strict, but was none"],
    );
}

#[test]
fn mistakes_of_a_test_are_named_with_their_place() {
    let problems = |tests: &str| {
        let read = Suite::read(tests).and_then(|suite| suite.check(&workflow(CHAIN)));
        read.expect_err("is wrong").to_string()
    };
    for (tests, expected) in [
        ("[{tasks: {extrct: {}}}]", "1:11: the workflow has no task `extrct`\n  help: did you mean `extract`?"),
        (
            "[{expect: {order: [zzzzzz]}}]",
            "the workflow has no task `zzzzzz`\n  help: there are extract, load, page, clean",
        ),
        ("[{expect: {not_run: ['load[1]']}}]", "task `load` has no `foreach`, so it has no items"),
        ("[{task: {}}]", "a case has no key `task`\n  help: did you mean `tasks`?"),
        ("[{tasks: {load: {otput: 1}}}]", "help: did you mean `output`?"),
        ("[{tasks: {load: {times: 1}}}]", "there is no `fail`"),
        ("[{tasks: {load: {fail: x, output: {}}}}]", "the task fails always"),
        ("[{tasks: {load: {approve: true}}}]", "task `load` is no approval"),
        ("[{tasks: {load: {approve: 3}}}]", "`approve` is true or false"),
        ("[{tasks: {load: {takes: 5}}}]", "is not a duration"),
        ("[{expect: {status: sucess}}]", "did you mean `success`?"),
        ("[{expect: {status: running}}]", "`status` cannot be `running`"),
        ("[{now: today}]", "`now` `today` is not a time"),
        ("{cases: []}", "the test file has no cases"),
        ("{name: w}", "a test file has no key `name`"),
        ("[3]", "a case must be a mapping"),
        ("[{expect: {outputs: {x: 1}}}]", "the workflow has no output `x`"),
    ] {
        let problems = problems(tests);
        assert!(problems.contains(expected), "{tests}: {problems}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever fails however long it takes, a run ends, and what never began took no attempt.
    #[test]
    fn every_run_ends(
        needs in proptest::collection::vec((proptest::collection::vec(any::<prop::sample::Index>(), 0..3), 0_u32..4, 0_u64..90, 0..3_usize), 1..12),
        deadline in proptest::option::of(1_u64..120),
    ) {
        let mut yaml = String::from("name: w\n");
        if let Some(deadline) = deadline {
            yaml.push_str(&format!("timeout: {deadline}m\n"));
        }
        yaml.push_str("tasks:\n");
        let mut tests = String::from("- tasks:\n");
        for (number, (chosen, failures, minutes, rule)) in needs.iter().enumerate() {
            let mut chosen: Vec<usize> = if number == 0 { Vec::new() } else { chosen.iter().map(|one| one.index(number)).collect() };
            chosen.sort_unstable();
            chosen.dedup();
            let rule = if chosen.is_empty() { "all_success" } else { ["all_success", "all_done", "one_failed"][*rule] };
            let chosen: Vec<String> = chosen.iter().map(|one| format!("t{one}")).collect();
            yaml.push_str(&format!("  t{number}: {{run: x, timeout: 1h, trigger_rule: {rule}, needs: [{}]}}\n", chosen.join(", ")));
            tests.push_str(&format!("    t{number}: {{fail: x, times: {failures}, takes: {minutes}m}}\n"));
        }
        let subject = Subject::new(workflow(&yaml));
        let suite = Suite::read(&tests).unwrap();
        let outcome = play(&subject, &suite.cases[0], &Others::default()).unwrap();
        prop_assert!(outcome.state.is_terminal() && !outcome.endless);
        for task in &outcome.tasks {
            prop_assert!(task.state.is_terminal());
            prop_assert_eq!(task.attempts == 0, task.began.is_none());
            prop_assert!(task.attempts <= 3);
        }
        if let Some(deadline) = deadline {
            prop_assert!(outcome.ended - outcome.started <= deadline as i64 * 60_000_000);
        }
    }
}
