//! Values that look like expressions: data is never evaluated.

use serde_json::json;

use crate::place::Place;
use crate::values;

/// Through inputs, outputs of tasks, items, conditions and the inputs of a child run, every value stays what it is.
#[test]
fn template_injection_through_data() {
    let place = Place::new();
    let values = values::all(&place);
    place.write("child.yaml", "name: child\ninputs: {v: {type: string}}\ntasks: {t: {function: {handler: noop, payload: {v: \"${{ inputs.v }}\"}}}}\noutputs: {v: \"${{ tasks.t.output.v }}\"}\n");
    let text = "
name: w
inputs: {values: {type: list}}
secrets: []
tasks:
  first: {function: {handler: noop, payload: {all: \"${{ inputs.values }}\"}}}
  each: {needs: first, foreach: tasks.first.output.all, function: {handler: noop, payload: {v: \"${{ item }}\", in: \"<${{ item }}>\"}}}
  child: {foreach: inputs.values, workflow: {name: child, inputs: {v: \"${{ item }}\"}}}
  member: {needs: each, if: \"tasks.each.output[0].v in inputs.values\", function: noop}
outputs:
  first: \"${{ tasks.first.output.all }}\"
  each: \"${{ tasks.each.output | map(attribute='v') | list }}\"
  within: \"${{ tasks.each.output | map(attribute='in') | list }}\"
  child: \"${{ tasks.child.output | map(attribute='v') | list }}\"
  member: \"${{ tasks.member.status }}\"
";
    let outputs = place.outputs(text, &[format!("values={}", json!(values))]);
    let within: Vec<String> = values.iter().map(|value| format!("<{value}>")).collect();
    assert_eq!(outputs["first"], json!(values));
    assert_eq!(outputs["each"], json!(values));
    assert_eq!(outputs["within"], json!(within));
    assert_eq!(outputs["child"], json!(values));
    assert_eq!(outputs["member"], "success");
    place.assert_no_canary();
}

/// What a script leaves is data as well.
#[test]
fn template_injection_through_the_output_of_a_script() {
    let place = Place::new();
    let text = "
name: w
inputs: {v: {type: string}}
tasks:
  a: {run: 'printf \"v<<E-N-D\\n%s\\nE-N-D\\n\" \"$V\" >> \"$MAINSPRING_OUTPUT\"', env: {V: \"${{ inputs.v }}\"}}
  b: {needs: a, function: {handler: noop, payload: \"${{ tasks.a.output.v }}\"}}
outputs: {v: \"${{ tasks.b.output }}\"}
";
    for value in values::templates(&place) {
        let outputs = place.outputs(text, &[format!("v={value}")]);
        assert_eq!(outputs["v"], value);
    }
    place.assert_no_canary();
}

/// Nor is a default, an approval's key or anything else evaluated a second time.
#[test]
fn template_injection_through_names() {
    let place = Place::new();
    for value in values::templates(&place) {
        let workflow = json!({"name": "w", "inputs": {"v": {"type": "string"}},
            "tasks": {"t": {"workflow": {"name": "${{ inputs.v }}"}, "retry": {"attempts": 1}}}});
        place.write("w.yaml", &workflow.to_string());
        let ended = place.call(&["run", "w.yaml", "--json", "-i", &format!("v={value}")]);
        assert_eq!(ended.code, 1, "{ended:?}");
        let error = ended.json()["tasks"][0]["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains("is not the name of a workflow"), "{value}: {error}");
    }
}
