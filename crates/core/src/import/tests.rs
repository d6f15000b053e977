//! What is made of other programs' files is valid, and says what is missing.

use proptest::prelude::*;

use crate::parse;
use crate::workflow::{Action, TriggerSource};

use super::*;

#[track_caller]
fn valid(imported: &Imported) -> crate::Workflow {
    parse(&imported.text).unwrap_or_else(|errors| panic!("{errors}\n{}", imported.text))
}

#[test]
fn crontabs_become_a_workflow_a_line() {
    let text = "MAILTO=ops@example.com\nSHELL=/bin/bash\nCRON_TZ=Europe/Paris\nPATH=/usr/bin\n\n# nightly backup\n30 2 * * 1-5 /opt/backup.sh --full > /dev/null\n@hourly date +\\%s\n@reboot /opt/agent\n0 0 1 * * mail -s x y%Hello%there\n";
    let jobs = crontab(text, false).unwrap();
    let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["backup", "date", "agent", "mail"]);
    let backup = valid(&jobs[0]);
    assert_eq!(backup.triggers[0].source, TriggerSource::Cron("30 2 * * 1-5".into()));
    assert_eq!(backup.triggers[0].timezone.as_deref(), Some("Europe/Paris"));
    assert_eq!((backup.env["PATH"].as_str(), backup.tasks[0].retry.attempts), ("/usr/bin", 1));
    assert!(
        jobs[0].text.contains("# nightly backup")
            && jobs[0].text.contains("# not carried over: MAILTO=ops@example.com")
    );
    let script = |job: &Imported| match &valid(job).tasks[0].action {
        Action::Run { script, .. } => script.clone(),
        other => panic!("{other:?}"),
    };
    let begin = "set +e\ncd \"${HOME:-/}\"\n";
    assert_eq!(script(&jobs[1]), format!("{begin}date +%s\n"));
    assert!(valid(&jobs[2]).triggers.is_empty() && jobs[2].text.contains("not carried over: @reboot"));
    assert_eq!(script(&jobs[3]), format!("{begin}mail -s x y <<'END_OF_INPUT'\nHello\nthere\nEND_OF_INPUT\n"));
    let both = valid(&crontab("0 0 */2 * 1 x\n", false).unwrap()[0]);
    assert_eq!(both.triggers[0].source, TriggerSource::Cron("0 0 */2 * +1".into()), "Debian's cron means both");

    let system = crontab("17 * * * * root cd / && run-parts /etc/cron.hourly\n", true).unwrap();
    assert!(system[0].text.contains("not carried over: user root"), "{}", system[0].text);
    valid(&system[0]);
    for (wrong, expected) in [
        ("* * * *\n", "1:1: `* * * *` is no line of a crontab"),
        ("", "has no jobs"),
        ("# x\n\n", "has no jobs"),
        ("@never x\n", "is no line"),
        ("a\0b", "control character"),
    ] {
        let problems = crontab(wrong, false).unwrap_err().to_string();
        assert!(problems.contains(expected), "{wrong:?}: {problems}");
    }
}

const ACTIONS: &str = "name: CI Build\non:\n  push: {branches: [main]}\n  schedule: [{cron: '0 4 * * *'}]\n  workflow_dispatch:\n    inputs:\n      level: {type: choice, options: [info, debug], default: info}\n      dry: {type: boolean, default: false}\nenv: {A: '1', SHA: '${{ github.sha }}'}\njobs:\n  build:\n    name: Build it\n    runs-on: ubuntu-latest\n    timeout-minutes: 10\n    steps:\n      - uses: actions/checkout@v4\n      - name: Compile\n        run: |\n          make LEVEL='${{ inputs.level }}' TOKEN=${{ secrets.TOKEN }} ${{ matrix.os }}\n          echo ${{ env.A }}\n  deploy:\n    needs: build\n    if: always()\n    steps: [{run: 'deploy ${{ needs.build.outputs.version }}'}]\n  odd: {needs: [missing], if: \"github.ref == 'x'\", uses: ./other.yml}\n";

#[test]
fn jobs_become_tasks() {
    let imported = github_actions(ACTIONS).unwrap();
    let workflow = valid(&imported);
    assert_eq!((workflow.name.as_str(), workflow.title.as_deref()), ("ci-build", Some("CI Build")));
    assert_eq!(workflow.triggers[0].source, TriggerSource::Cron("0 4 * * *".into()));
    assert_eq!(workflow.secrets, ["TOKEN"]);
    assert_eq!(workflow.tasks[0].timeout_ms, Some(600_000));
    assert_eq!(workflow.tasks[0].env["INPUT_LEVEL"], "${{ inputs.level }}");
    assert_eq!(workflow.tasks[1].needs, [0]);
    assert!(workflow.tasks[1].env["BUILD_VERSION"].ends_with(".output.version }}"));
    for expected in [
        "on.push",
        "runs-on: ubuntu-latest",
        "uses actions/checkout@v4",
        "${{ github.sha }}",
        "needs: missing",
        "if: github.ref == 'x'",
        "uses: ./other.yml",
    ] {
        assert!(
            imported.text.contains(&format!("not carried over: {expected}")) || imported.text.contains(expected),
            "{expected}\n{}",
            imported.text
        );
    }
}

/// Executes what a job became, as a worker would: exit code, standard output and the file of outputs.
fn executed(imported: &Imported, task: usize, env: &[(&str, &str)]) -> (i32, String, String) {
    let workflow = valid(imported);
    let Action::Run { script, .. } = &workflow.tasks[task].action else { panic!("no script") };
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    std::fs::write(&output, "").unwrap();
    let done = std::process::Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", script])
        .current_dir(folder.path())
        .env("MAINSPRING_OUTPUT", &output)
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let printed = text(done.stdout) + &text(done.stderr);
    (done.status.code().unwrap_or(-1), printed, std::fs::read_to_string(output).unwrap())
}

#[test]
fn steps_do_not_leak_and_speak_through_files() {
    let file = r#"
on: {workflow_dispatch: null}
defaults: {run: {working-directory: .}}
jobs:
  a:
    outputs: {version: "${{ steps.v.outputs.version }}", odd: "${{ github.sha }}"}
    steps:
      - {name: leaves early, run: "cd /; set -x; export LOST=1; exit 0"}
      - {id: v, run: "echo version=1.2 >> $GITHUB_OUTPUT; echo WIDE=yes >> $GITHUB_ENV; mkdir -p sub"}
      - {run: "echo \"[${LOST-unset}] $WIDE $(basename $PWD) ${{ steps.v.outputs.version }}\"", working-directory: sub, env: {X: "v${{ steps.v.outputs.version }}"}}
      - {name: fails, run: "false; echo not reached", continue-on-error: true}
      - {if: "steps.v.outputs.version == '1.2'", run: echo matched}
      - {if: "failure()", run: echo only after a failure}
      - {run: "exit 3"}
      - {run: echo skipped}
      - {if: "failure() && steps.v.outcome == 'success'", run: echo cleanup}
      - {if: always(), run: echo always}
"#;
    let imported = github_actions(file).unwrap();
    let (code, printed, output) = executed(&imported, 0, &[]);
    assert_eq!((code, output.as_str()), (1, "version=1.2\n"), "{printed}\n{}", imported.text);
    let lines: Vec<&str> = printed.lines().filter(|line| !line.starts_with('+')).collect();
    assert_eq!(lines, ["[unset] yes sub 1.2", "matched", "cleanup", "always"], "{}", imported.text);
    assert!(imported.text.contains("# not carried over: outputs.odd"), "{}", imported.text);
}

#[test]
fn what_cannot_be_carried_over_fails_with_the_reason() {
    let file = r#"
on: {schedule: [{cron: "0 4 * * *", timezone: Europe/Paris}], workflow_dispatch: {inputs: {env: {type: string, default: dev}}}}
jobs:
  ref: {if: "github.ref == 'refs/heads/main'", steps: [{run: echo ran}]}
  calls: {uses: ./other.yml}
  nothing: {steps: [{uses: actions/checkout@v4}]}
  step: {steps: [{if: "github.actor == 'x'", run: echo ran}]}
  unknown: {steps: [{run: "echo ${{ github.sha }}"}]}
  pulls: {if: "github.event_name == 'pull_request'", steps: [{run: echo ran}]}
  prod: {if: "github.event_name != 'pull_request' && inputs.env == 'prod'", steps: [{run: echo ran}]}
  after: {needs: [ref], if: "always() && needs.ref.result == 'failure'", steps: [{run: echo ran}]}
  matrix: {strategy: {fail-fast: false, max-parallel: 2, matrix: {os: [a, b], v: [1, 2], exclude: [{os: a, v: 2}], include: [{os: c, v: 3}]}}, steps: [{run: "echo ${{ matrix.os }}"}]}
  dynamic: {strategy: {matrix: "${{ fromJSON(needs.x.outputs.m) }}"}, steps: [{run: echo ran}]}
"#;
    let imported = github_actions(file).unwrap();
    let workflow = valid(&imported);
    let index = |name: &str| workflow.task_index(name).unwrap();
    for (task, reason) in [
        ("ref", "github.ref"),
        ("calls", "./other.yml"),
        ("nothing", "none of its steps"),
        ("step", "github.actor"),
        ("unknown", "github.sha"),
        ("dynamic", "fromJSON"),
    ] {
        let (code, printed, _) = executed(&imported, index(task), &[]);
        assert!(code != 0 && printed.contains(reason) && !printed.contains("ran\n"), "{task}: {code} {printed}");
    }
    let task = |name: &str| &workflow.tasks[index(name)];
    assert_eq!(task("pulls").condition.as_deref(), Some("false"));
    assert_eq!(task("prod").condition.as_deref(), Some("inputs.env | string == 'prod' | string"));
    assert_eq!(task("after").rule, crate::rule::TriggerRule::AllDone);
    assert!(task("after").condition.is_some());
    let Some(crate::workflow::Foreach::List(items)) = &task("matrix").foreach else { panic!() };
    assert_eq!((items.len(), task("matrix").max_parallel), (4, Some(2)));
    assert_eq!(executed(&imported, index("matrix"), &[("MATRIX_OS", "b")]).1, "b\n");
    assert_eq!(workflow.triggers[0].timezone.as_deref(), Some("Europe/Paris"));
}

#[test]
fn templates_become_remote_tasks() {
    let imported = tasker("name: credit_check\nnamespace_name: payments\nversion: 1.2.0\nsteps:\n  - name: fetch\n    handler: {callable: 'Payments::Fetch', initialization: {url: x}}\n    retry: {retryable: true, limit: 5, backoff: exponential, backoff_base_ms: 500, jitter: 1}\n    timeout_seconds: 30\n  - name: score\n    depends_on_step: fetch\n    handler: {callable: score}\n    publishes_events: []\n  - {name: done, depends_on_steps: [fetch, score, nobody], handler: {callable: done}}\n  - {name: late, depends_on: [done], handler: {callable: late}}\nsystem_dependencies: {a: 1}\nlifecycle: {max_duration_minutes: 90, staleness_action: dlq}\nmetadata: {team: credit}\ndomain_events: [{name: credit.scored}, credit.done]\ninput_schema: {type: object, required: [id], properties: {id: {type: integer}, note: {type: string}}}\n").unwrap();
    let workflow = valid(&imported);
    assert_eq!((workflow.name.as_str(), workflow.namespace.as_str()), ("credit_check", "payments"));
    assert_eq!((&workflow.tasks[2].needs[..], &workflow.tasks[3].needs[..]), (&[0, 1][..], &[2][..]));
    assert_eq!(
        (workflow.lifecycle.max_duration_ms, workflow.metadata["team"].as_str()),
        (Some(5_400_000), Some("credit"))
    );
    assert_eq!(workflow.domain_events, ["credit.scored", "credit.done"]);
    assert!(workflow.inputs["id"].required && !workflow.inputs["note"].required);
    assert_eq!((workflow.tasks[0].retry.attempts, workflow.tasks[0].retry.delay_ms), (5, 500));
    let Action::Remote { handler, payload } = &workflow.tasks[0].action else { panic!() };
    assert_eq!((handler.as_str(), payload["url"].as_str()), ("Payments::Fetch", Some("x")));
    for expected in ["system_dependencies", "retry.jitter", "dependency nobody", "lifecycle.staleness_action"] {
        assert!(imported.text.contains(&format!("not carried over: {expected}")), "{expected}\n{}", imported.text);
    }
}

#[test]
fn hostile_files_are_refused() {
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]\njobs: *f\n";
    for read in [github_actions, tasker] {
        assert!(read(bomb).unwrap_err().to_string().contains("expand"), "a bomb");
        for wrong in ["", "[]", "3", "a: [", "\0\u{1}", "name: x\n"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert!(read(&"x".repeat(17 << 20)).is_err());
    }
}

#[test]
fn a_title_of_blanks_is_none() {
    let imported = github_actions(r#"{"name": " ", "jobs": {"a": {"steps": [{"run": "true"}]}}}"#).unwrap();
    assert!(!imported.text.contains("title"), "{}", imported.text);
    assert!(parse(&imported.text).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_line_that_is_read_gives_a_valid_workflow(command in "[ -~]{1,80}", comment in "[ -~äß]{0,40}") {
        if let Ok(jobs) = crontab(&format!("A=${{{{ x\n#{comment}\n5 4 * * * {command}\n"), false) {
            for job in jobs {
                prop_assert!(parse(&job.text).is_ok(), "{:?}\n{}", parse(&job.text), job.text);
            }
        }
    }

    #[test]
    fn every_step_gives_a_valid_workflow(run in "[ -~\n]{0,120}", title in "[ -~äß]{0,40}") {
        let file = serde_json::json!({"name": title, "jobs": {"a b": {"steps": [{"name": title, "run": run}], "env": {"X": run}}}});
        let imported = github_actions(&file.to_string()).unwrap();
        prop_assert!(parse(&imported.text).is_ok(), "{:?}\n{}", parse(&imported.text), imported.text);
    }
}

#[test]
fn a_workflow_of_dagu_becomes_a_chain_or_a_graph() {
    let imported = super::dagu(
        "name: Nightly Load\nschedule: '0 2 * * *'\nenv: [HOST: db]\nsmtp: {host: x}\nsteps:\n  - name: Extract\n    command: ./extract.sh\n    retryPolicy: {limit: 2, intervalSec: 5}\n    continueOn: {exitCode: [3]}\n  - name: Load\n    script: |\n      ./load.sh\n    output: ROWS\nhandlerOn: {failure: {command: ./tell.sh}}\n",
    )
    .unwrap();
    let workflow = crate::parse(&imported.text).unwrap_or_else(|errors| panic!("{}\n{errors}", imported.text));
    assert_eq!(
        (workflow.name.as_str(), workflow.tasks.len(), imported.left_out),
        ("nightly-load", 3, 2),
        "{}",
        imported.text
    );
    assert_eq!(workflow.tasks[1].needs, [0]);
    assert_eq!(workflow.tasks[0].retry.attempts, 3);
    assert_eq!(workflow.tasks[0].exit_codes.succeed, [3]);
    let graph = super::dagu("name: g\ntype: graph\nsteps:\n  - {name: a, command: 'true'}\n  - {name: b, executor: {type: ssh}, depends: [a, zzz]}\n").unwrap();
    let workflow = crate::parse(&graph.text).unwrap_or_else(|errors| panic!("{}\n{errors}", graph.text));
    assert_eq!(workflow.tasks[1].needs, [0]);
    assert!(graph.text.contains("was not carried over") && graph.text.contains("exit 1"), "{}", graph.text);
    assert!(super::dagu("name: x").is_err());
}

#[test]
fn a_workflow_of_argo_becomes_tasks_with_images() {
    let imported = super::argo(
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: diamond-}\nspec:\n  entrypoint: main\n  arguments: {parameters: [{name: who, value: world}]}\n  templates:\n  - name: echo\n    inputs: {parameters: [{name: message}]}\n    container: {image: 'alpine:3', command: [echo, '{{inputs.parameters.message}}'], resources: {}}\n    retryStrategy: {limit: 2}\n  - name: main\n    dag:\n      tasks:\n      - {name: A, template: echo, arguments: {parameters: [{name: message, value: '{{workflow.parameters.who}}'}]}}\n      - {name: B, dependencies: [A], template: echo, arguments: {parameters: [{name: message, value: b}]}, when: x}\n      - {name: C, dependencies: [A], template: gone}\n",
    )
    .unwrap();
    let workflow = crate::parse(&imported.text).unwrap_or_else(|errors| panic!("{}\n{errors}", imported.text));
    assert_eq!((workflow.name.as_str(), workflow.tasks.len()), ("diamond", 3), "{}", imported.text);
    let container = workflow.tasks[0].container.as_ref().unwrap();
    assert_eq!(
        (container.image.as_str(), container.command.join(" ")),
        ("alpine:3", "echo ${{ inputs.who }}".to_owned())
    );
    assert_eq!((workflow.tasks[1].needs.as_slice(), workflow.tasks[0].retry.attempts), (&[0][..], 3));
    assert!(workflow.tasks[2].container.is_none() && imported.text.contains("exit 1"), "{}", imported.text);
    assert!(imported.left_out >= 3, "{}", imported.text);
    assert!(super::argo("kind: Pod").is_err());
}

#[test]
fn a_file_of_airflow_is_read_without_executing_it() {
    let source = r#"
from airflow import DAG
from airflow.operators.bash import BashOperator  # the operators

with DAG("nightly_load", schedule="0 2 * * *", catchup=False) as dag:
    start = EmptyOperator(task_id="start")
    extract = BashOperator(
        task_id="extract",  # the first
        bash_command='./extract.sh "a, b" && echo \'done\'',
        retries=2,
    )
    clean = PythonOperator(task_id="clean", python_callable=clean_up, trigger_rule="all_done")
    late = BashOperator(task_id="late", bash_command="echo {{ ds }}")
    start >> [extract, late]
    clean << extract
    for name in ["x"]:
        pass
"#;
    let imported = super::airflow(source).unwrap();
    let workflow = crate::parse(&imported.text).unwrap_or_else(|errors| panic!("{}\n{errors}", imported.text));
    assert_eq!((workflow.name.as_str(), workflow.tasks.len(), workflow.triggers.len()), ("nightly_load", 4, 1));
    let Action::Run { script, .. } = &workflow.tasks[1].action else { panic!("{}", imported.text) };
    assert_eq!(script.trim(), r#"./extract.sh "a, b" && echo 'done'"#);
    assert_eq!((workflow.tasks[1].retry.attempts, workflow.tasks[1].needs.as_slice()), (3, &[0][..]));
    assert_eq!((workflow.tasks[2].needs.as_slice(), workflow.tasks[3].needs.as_slice()), (&[1][..], &[0][..]));
    assert_eq!(imported.text.matches("exit 1").count(), 2, "{}", imported.text);
    assert!(super::airflow("print(1)").is_err());
}
