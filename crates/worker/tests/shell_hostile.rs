//! Values that must stay values: command injection and path traversal through a hundred of them.

mod common;

use common::{Rig, hostile, order, script, script_for};
use mainspring_core::work::{Order, OrderAction, Outcome};
use mainspring_core::{Scope, parse};
use serde_json::{Map, json};

#[tokio::test]
async fn command_injection_by_environment_and_inputs() {
    let directory = tempfile::tempdir().unwrap();
    let canary = directory.path().join("canary");
    let workflow =
        parse("{name: w, inputs: {value: {type: string}}, tasks: {a: {run: 'printf %s ${{ inputs.value }} > value'}}}")
            .unwrap();
    let mut rig = Rig::new();
    for value in hostile::values(canary.to_str().unwrap()) {
        let shown: String = value.chars().take(60).collect();
        let env = vec![("VALUE".to_owned(), value.clone())];
        let by_environment = Order { env, ..script("printf '%s' \"$VALUE\" > value") };
        let mut scope = Scope::default();
        let inputs: Map<_, _> = [("value".to_owned(), json!(value))].into_iter().collect();
        scope.inputs = workflow.resolve_inputs(inputs, &scope).unwrap();
        let by_input = workflow.order(0, &scope).unwrap();
        for order in [by_environment, by_input] {
            rig.start(Order { artifacts: vec!["value".into()], ..order });
            let completion = rig.next().await;
            assert!(matches!(completion.outcome, Outcome::Success { .. }), "{shown}: {:?}", completion.outcome);
            assert_eq!(common::content(&completion.artifacts[0]), value.as_bytes(), "{shown}");
        }
        assert!(!canary.exists(), "{shown}");
    }
}

#[tokio::test]
async fn command_injection_by_shell_and_path_traversal_by_cwd() {
    let directory = tempfile::tempdir().unwrap();
    let canary = directory.path().join("canary");
    let mut rig = Rig::new();
    for value in hostile::values(canary.to_str().unwrap()) {
        let shown: String = value.chars().take(60).collect();
        if !value.starts_with("-") {
            rig.run(script_for(&format!("bash {value}"), "true")).await;
        }
        rig.run(script_for(&format!("no-such-shell{value}"), "true")).await;
        let cwd = Some(format!("sub/{value}"));
        let action = OrderAction::Run { script: "true".into(), shell: None, cwd };
        let failure = rig.failure(order(action)).await;
        assert_eq!(failure.kind, "spawn", "{shown}: {failure:?}");
        assert!(!canary.exists(), "{shown}");
    }
}
