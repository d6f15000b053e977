//! Texts and what they become: a workflow, or exact complaints.

use serde_json::json;

use crate::work::OrderAction;
use crate::{Decision, Scope, TaskView, parse};

#[test]
fn smoke() {
    let workflow = parse(
        "name: hello
inputs:
  day: {type: date, default: 2026-01-01}
env: {A: 'x ${{ inputs.day }}'}
tasks:
  my-first:
    run: echo hi
  second:
    needs: my-first
    if: tasks.my-first.status == 'success'
    run: |
      echo ${{ tasks.my-first.output.rows }} \"got ${{ inputs.day }}\"
  third:
    needs: [second]
    function: {handler: noop, payload: {rows: '${{ tasks.my-first.output.rows }}', text: 'n ${{ 1 + 1 }}'}}
finally:
  clean: {run: 'echo ${{ tasks.third.status }}'}
",
    )
    .unwrap_or_else(|errors| panic!("{errors}"));
    let mut scope = Scope::default();
    scope.inputs = workflow.resolve_inputs(Default::default(), &scope).unwrap();
    scope.tasks.insert(
        "my-first".into(),
        TaskView { status: crate::state::TaskState::Success, attempts: 1, output: Some(json!({"rows": 3})) },
    );
    assert_eq!(workflow.decide(1, &scope), Decision::Start);
    let order = workflow.order(1, &scope).unwrap();
    assert_eq!(order.env[0], ("A".into(), "x 2026-01-01".into()));
    assert_eq!(order.env[1], ("MAINSPRING_EXPR_0".into(), "3".into()));
    let OrderAction::Run { script, .. } = order.action else { panic!() };
    assert_eq!(script, "echo \"${MAINSPRING_EXPR_0}\" \"got ${MAINSPRING_EXPR_1}\"\n");
    let order = workflow.order(2, &scope).unwrap();
    let OrderAction::Function { payload, .. } = order.action else { panic!() };
    assert_eq!(payload, json!({"rows": 3, "text": "n 2"}));
}
