//! Values that reach a shell or an interpreter.

use serde_json::{Value, json};

use crate::place::Place;
use crate::values::{self, hex};

const REPORT: &str = r#"echo "hex=$(printf %s "$x" | od -An -v -tx1 | tr -d ' \n')" >> "$MAINSPRING_OUTPUT""#;

/// A workflow whose one task is repeated over all values, and reports `$x` or whatever the script reports.
fn repeated(task: &str) -> String {
    format!(
        "name: w\ninputs: {{values: {{type: list}}}}\ntasks:\n  t:\n    foreach: inputs.values\n{task}\noutputs: {{all: \"${{{{ tasks.t.output }}}}\"}}\n"
    )
}

fn script(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("      {line}")).collect();
    format!("    run: |\n{}", lines.join("\n"))
}

/// Every value must come out of every item as it went in.
#[track_caller]
fn check(place: &Place, values: &[String], task: &str) {
    let input = format!("values={}", json!(values));
    let outputs = place.outputs(&repeated(task), &[input]);
    let got: Vec<&str> =
        outputs["all"].as_array().expect("a list").iter().map(|one| one["hex"].as_str().unwrap_or("none")).collect();
    for (value, got) in values.iter().zip(&got) {
        assert_eq!(*got, hex(value), "{value:?} was changed on its way");
    }
    assert_eq!(got.len(), values.len());
    place.assert_no_canary();
}

#[test]
fn command_injection_through_an_expression_in_a_script() {
    let place = Place::new();
    check(&place, &values::all(&place), &script(&["x=${{ item }}", REPORT]));
}

#[test]
fn command_injection_through_an_argument() {
    let place = Place::new();
    let lines = ["argument() { x=$1; test $# = 1; }", "argument ${{ item }}", REPORT];
    check(&place, &values::all(&place), &script(&lines));
}

#[test]
fn command_injection_through_double_quotes() {
    let place = Place::new();
    let lines = ["x=\"<${{ item }}>\"", "x=${x#<}", "x=${x%>}", REPORT];
    check(&place, &values::all(&place), &script(&lines));
}

#[test]
fn command_injection_through_a_here_document() {
    let place = Place::new();
    let lines = ["IFS= read -r -d '' x <<END || true", "<${{ item }}>", "END", "x=${x#<}", "x=${x%>?}", REPORT];
    check(&place, &values::all(&place), &script(&lines));
}

#[test]
fn command_injection_through_a_variable() {
    let place = Place::new();
    let task = format!("    env: {{V: \"${{{{ item }}}}\"}}\n{}", script(&["x=$V", REPORT]));
    check(&place, &values::all(&place), &task);
}

#[test]
fn command_injection_through_python() {
    let place = Place::new();
    let lines = [
        "import os",
        "x = ${{ item }}",
        "out = open(os.environ['MAINSPRING_OUTPUT'], 'w')",
        "out.write('hex=' + os.fsencode(x).hex())",
    ];
    let task = format!("    shell: python3\n{}", script(&lines));
    check(&place, &values::all(&place), &task);
}

#[test]
fn command_injection_through_an_input() {
    let place = Place::new();
    let text = format!(
        "name: w\ninputs: {{v: {{type: string}}}}\ntasks:\n  t:\n{}\noutputs: {{hex: \"${{{{ tasks.t.output.hex }}}}\", back: \"${{{{ inputs.v }}}}\"}}\n",
        script(&["x=${{ inputs.v }}", REPORT])
    );
    for value in values::shell(&place).iter().step_by(4) {
        let outputs = place.outputs(&text, &[format!("v={value}")]);
        assert_eq!(outputs["hex"], hex(value), "{value:?}");
        assert_eq!(outputs["back"], *value);
    }
    place.assert_no_canary();
}

#[test]
fn command_injection_through_a_directory() {
    let place = Place::new();
    let values = values::all(&place);
    let text = repeated(&format!(
        "    cwd: \"${{{{ item }}}}\"\n    retry: {{attempts: 1}}\n    on_exhausted: continue\n{}",
        script(&["pwd -P > /dev/null", "x=$PWD", REPORT])
    ));
    place.write("w.yaml", &text);
    let input = format!("values={}", json!(values));
    let report = place.call(&["run", "w.yaml", "--json", "-i", &input]).json();
    let tasks = report["tasks"][0]["items"].as_array().expect("items");
    for (index, value) in values.iter().enumerate() {
        let name = format!("t[{index}]");
        let task = tasks.iter().find(|task| task["task"] == name).unwrap_or_else(|| panic!("no {name} in {report:#}"));
        // It is a directory by that very name, or the task does not start.
        let literally = place.path(value);
        match task["status"].as_str() {
            Some("success") => {
                assert!(literally.is_dir(), "{value:?} is no directory, but the task ran: {task}");
                let there = literally.canonicalize().expect("it is a directory").display().to_string();
                assert_eq!(task["output"]["hex"], hex(&there), "{value:?}");
            }
            _ => assert!(
                task["error"].as_str().is_some_and(|error| error.contains("cwd") || error.contains("directory")),
                "{task}"
            ),
        }
    }
    place.assert_no_canary();
}

#[test]
fn command_injection_where_the_shell_would_evaluate_is_refused() {
    let place = Place::new();
    for script in [
        "echo '${{ inputs.v }}'",
        "echo $(( ${{ inputs.v }} ))",
        "echo \"$(( ${{ inputs.v }} + 1 ))\"",
        "(( x = ${{ inputs.v }} ))",
        "cat <<'END'\n${{ inputs.v }}\nEND",
        "echo `echo '${{ inputs.v }}'`",
    ] {
        let workflow = json!({"name": "w", "inputs": {"v": {"type": "string"}}, "tasks": {"t": {"run": script}}});
        place.write("w.yaml", &workflow.to_string());
        let ended = place.call(&["run", "w.yaml", "-i", &format!("v=$(touch {})", place.canary().display())]);
        ended.refused(&["w.yaml:1:"]);
    }
    place.assert_no_canary();
}

/// A process cannot be given a NUL, so a value that holds one is refused before anything starts.
#[test]
fn command_injection_through_nul() {
    let place = Place::new();
    let text = repeated(&format!("    retry: {{attempts: 1}}\n{}", script(&["x=${{ item }}", "touch canary"])));
    place.write("w.yaml", &text);
    let input = format!("values={}", json!(["a\0; touch canary"]));
    let ended = place.call(&["run", "w.yaml", "--json", "-i", &input]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let report = ended.json();
    let error = |task: &Value| task["error"].as_str().map(str::to_owned);
    let errors: Vec<String> = report["tasks"].as_array().expect("tasks").iter().filter_map(error).collect();
    assert!(errors.iter().any(|error| error.contains("NUL")), "{report:#}");
    place.assert_no_canary();
}
