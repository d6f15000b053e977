//! The steps of one job of GitHub Actions as one script: each in a shell of its own, so that `exit`, `cd` and `set` end
//! with their step, with the files through which steps speak to each other.

use serde_json::{Map, Value};

use super::conditions::{self, When, quoted};
use super::expressions::{JobScope, References, translate};
use super::writer::{is_variable, plain};

/// The script, and what of the steps has no place in it.
pub(super) struct Script {
    pub(super) text: String,
    pub(super) left_out: Vec<String>,
    /// How many steps were carried over.
    pub(super) count: usize,
}

/// What is set up before the first step. `set +e`: a step that fails must not end the script before its end.
const BEGIN: &str = r#"set +e
GITHUB_WORKSPACE=$PWD
GITHUB_ENV=$(mktemp)
GITHUB_PATH=$(mktemp)
GITHUB_OUTPUT=$(mktemp)
GITHUB_STEP_SUMMARY=/dev/null
export GITHUB_WORKSPACE GITHUB_ENV GITHUB_PATH GITHUB_OUTPUT GITHUB_STEP_SUMMARY
failed=0
# what a step left for the next ones: variables, folders of programs, and outputs as STEP_ID_NAME
take() {
  prefix=$1 file=$2
  while IFS= read -r line; do
    case $line in
      *'<<'*)
        name=${line%%<<*} end=${line#*<<} value=
        while IFS= read -r line && [ "$line" != "$end" ]; do value="${value:+$value
}$line"; done ;;
      *=*) name=${line%%=*} value=${line#*=} ;;
      *) continue ;;
    esac
    [ -z "$prefix" ] || name=$(printf '%s' "$name" | tr -c 'A-Za-z0-9_' '_')
    export "$prefix$name=$value"
  done < "$file"
  : > "$file"
}
after() {
  [ "$1" = 0 ] || [ "$3" = continue ] || failed=1
  [ -z "$2" ] || { [ "$1" = 0 ] && export "STEP_$2_OUTCOME=success" || export "STEP_$2_OUTCOME=failure"; }
  take '' "$GITHUB_ENV"
  [ -z "$2" ] || take "STEP_$2_" "$GITHUB_OUTPUT"
  while IFS= read -r line; do PATH=$line:$PATH; done < "$GITHUB_PATH"
  : > "$GITHUB_PATH"; : > "$GITHUB_OUTPUT"
}
"#;

/// `folder` is where steps begin that do not say otherwise.
pub(super) fn script(
    steps: &[Map<String, Value>],
    outputs: &Map<String, Value>,
    folder: Option<&str>,
    scope: &JobScope,
    references: &mut References,
) -> Script {
    let mut made = Script { text: BEGIN.to_owned(), left_out: Vec::new(), count: 0 };
    for (number, step) in steps.iter().enumerate() {
        let title = step.get("name").map_or_else(|| format!("step {}", number + 1), plain);
        let title: String = title.chars().filter(|one| !one.is_control()).take(120).collect();
        write_step(&mut made, step, &title.replace("${{", "$ {{"), folder, scope, references);
    }
    for (name, value) in outputs {
        let before = references.unknown.len();
        let text = words(&plain(value), scope, references);
        if references.unknown.len() > before || !is_variable(name) {
            references.unknown.truncate(before);
            made.left_out.push(format!("outputs.{name}: {}", plain(value)));
        } else {
            made.text.push_str(&format!("printf '%s=%s\\n' {name} {text} >> \"$MAINSPRING_OUTPUT\"\n"));
        }
    }
    made.text.push_str("exit $failed\n");
    made
}

fn write_step(
    made: &mut Script,
    step: &Map<String, Value>,
    title: &str,
    folder: Option<&str>,
    scope: &JobScope,
    references: &mut References,
) {
    for (key, value) in step {
        match key.as_str() {
            "name" | "run" | "id" | "if" | "env" | "working-directory" | "continue-on-error" => {}
            "shell" if matches!(value.as_str(), Some("bash" | "sh")) => {}
            "uses" => made.left_out.push(format!("step `{title}` uses {}", plain(value))),
            "with" if step.contains_key("uses") => made.left_out.push(format!("with: {value}")),
            _ => made.left_out.push(format!("step `{title}` {key}: {}", plain(value))),
        }
    }
    let Some(run) = step.get("run") else { return };
    made.count += 1;
    let id = step.get("id").map(plain).filter(|id| is_variable(&id.replace('-', "_")));
    let id = id.map(|id| id.replace('-', "_")).unwrap_or_default();
    let go_on = if step.get("continue-on-error") == Some(&Value::Bool(true)) { "continue" } else { "''" };
    let before = references.unknown.len();
    let condition = test(step, scope, references);
    let foreign = step.get("shell").and_then(Value::as_str).filter(|shell| !matches!(*shell, "bash" | "sh"));
    let body = match (&condition, foreign) {
        (None, _) => refusal(&format!("the condition {}", step.get("if").map(plain).unwrap_or_default())),
        (_, Some(shell)) => refusal(&format!("shell: {shell}")),
        _ => {
            let body = body(step, run, folder, scope, references);
            match references.unknown.get(before) {
                Some(unknown) => refusal(&format!("${{{{ {unknown} }}}}")),
                None => body,
            }
        }
    };
    for unknown in references.unknown.drain(before..) {
        made.left_out.push(format!("step `{title}` ${{{{ {unknown} }}}}"));
    }
    if condition.is_none() {
        made.left_out.push(format!("step `{title}` if: {}", step.get("if").map(plain).unwrap_or_default()));
    }
    let condition = condition.unwrap_or_else(|| "[ $failed = 0 ]".to_owned());
    made.text.push_str(&format!(
        "# {title}\nif {condition}; then\n(\n{}\n)\nafter $? '{id}' {go_on}\nfi\n",
        body.trim_end()
    ));
}

/// The condition of a step for the shell; `None` if it cannot be said.
fn test(step: &Map<String, Value>, scope: &JobScope, references: &mut References) -> Option<String> {
    let Some(written) = step.get("if") else { return Some("[ $failed = 0 ]".into()) };
    let condition = conditions::read(&plain(written))?;
    let rest = condition.shell(scope, references)?;
    let when = match condition.when {
        When::Success => "[ $failed = 0 ]",
        When::Failure => "[ $failed = 1 ]",
        When::Always => "true",
    };
    Some(if rest.is_empty() { when.to_owned() } else { format!("{when} && {rest}") })
}

/// Fails where the step would have run, and says why.
fn refusal(what: &str) -> String {
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("echo {} >&2\nexit 1", quoted(&format!("this step was not carried over: {what}")))
}

fn body(
    step: &Map<String, Value>,
    run: &Value,
    folder: Option<&str>,
    scope: &JobScope,
    references: &mut References,
) -> String {
    let mut body = String::from("set -e\n");
    for (name, value) in step.get("env").and_then(Value::as_object).into_iter().flatten() {
        if is_variable(name) {
            body.push_str(&format!("export {name}={}\n", words(&plain(value), scope, references)));
        } else {
            references.unknown.push(format!("env.{name}"));
        }
    }
    let folder = step.get("working-directory").and_then(Value::as_str).or(folder);
    if let Some(folder) = folder {
        body.push_str(&format!("cd {}\n", words(folder, scope, references)));
    }
    body.push_str(translate(&plain(run), scope, references, true).trim_end());
    body
}

/// A text with `${{ }}` as one word of the shell.
fn words(text: &str, scope: &JobScope, references: &mut References) -> String {
    let mut word = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${{") {
        let Some(end) = rest[at..].find("}}") else { break };
        if at > 0 {
            word.push_str(&quoted(&rest[..at]));
        }
        let variable = translate(&rest[at..at + end + 2], scope, references, true);
        word.push_str(&format!("\"{variable}\""));
        rest = &rest[at + end + 2..];
    }
    if !rest.is_empty() || word.is_empty() {
        word.push_str(&quoted(rest));
    }
    word
}
