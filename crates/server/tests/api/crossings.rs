//! Stored definitions of one namespace that name workflows of another.

use mainspring_engine::Submission;
use mainspring_server::{Grant, Role};
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::TestApi;

const HANDLERS: &str = "/api/v1/scheduler/event-handlers";
const CLOSED: &str = "{name: target, namespace: b, tasks: {t: {function: {handler: noop}}}}";
const OPEN: &str = "{name: target, namespace: b, callers: a, tasks: {t: {function: {handler: noop}}}}";
const CALLER: &str = "{name: caller, namespace: a, tasks: {c: {workflow: {name: target, namespace: b}}}}";
const FOLLOWER: &str = "{name: follower, namespace: a, triggers: [{workflow: target, namespace: b}], tasks: {t: {function: {handler: noop}}}}";

fn handler() -> Value {
    let config = json!({"workflow": "target", "namespace": "b"});
    json!({"event_name": "e", "handler_name": "h", "namespace": "a", "action_type": "trigger_workflow", "action_config": config})
}

async fn store_as(api: &TestApi, token: &str, yaml: &str, status: u16) -> String {
    let call = api.post("/api/v1/workflows").bearer(token).text("application/yaml", yaml);
    call.send().await.expect(status).text
}

/// What the audit log of `b` says of definitions of other namespaces.
async fn told(api: &TestApi, count: usize) -> Vec<String> {
    let is_crossing = |entry: &&Value| ["CALL", "FOLLOW"].contains(&entry["method"].as_str().unwrap());
    let line = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap().to_owned();
        format!("{} {} {} {}", text("actor"), text("method"), text("path"), entry["status"])
    };
    let look = async || {
        let shown = api.get("/api/v1/audit?namespace=b").role(Role::Admin).send().await.expect(200).body();
        let mut told: Vec<String> = shown["items"].as_array().unwrap().iter().filter(is_crossing).map(line).collect();
        told.sort();
        Ok(Some(told).filter(|told| told.len() >= count))
    };
    let patience = std::time::Duration::from_secs(120);
    mainspring_testkit::wait::until("the run of the other namespace is there", patience, look).await.unwrap()
}

on_both! {
    async fn a_definition_names_another_namespace_only_by_right(api: &TestApi) {
        let stranger = api.make_token("stranger", &[Grant::within("a", Role::Author)]).await;
        let known = api.make_token("known", &[Grant::within("a", Role::Author), Grant::within("b", Role::Operator)]).await;
        api.store(CLOSED).await;
        for yaml in [CALLER, FOLLOWER] {
            let said = store_as(api, &stranger, yaml, 403).await;
            assert!(said.contains("`callers`"), "{said}");
            // The same for what does not exist: what b has is its own affair.
            store_as(api, &stranger, &yaml.replace("target", "missing"), 403).await;
            store_as(api, &known, yaml, 201).await;
        }
        store_as(api, &stranger, "{name: any, namespace: a, inputs: {n: {type: string}}, tasks: {c: {workflow: {name: '${{ inputs.n }}', namespace: b}}}}", 403).await;
        api.post(HANDLERS).bearer(&stranger).json(handler()).send().await.expect(403);
        let mut job = handler();
        job["action_type"] = json!("create_job");
        api.post(HANDLERS).bearer(&known).json(job).send().await.expect(422);
        let made = api.post(HANDLERS).bearer(&known).json(handler()).send().await.expect(201).body();
        let change = json!({"action_config": {"workflow": "other", "namespace": "b"}});
        let id = made["id"].as_str().unwrap();
        api.patch(&format!("{HANDLERS}/{id}")).bearer(&stranger).json(change).send().await.expect(403);
        api.store(OPEN).await;
        for yaml in [CALLER, FOLLOWER] {
            store_as(api, &stranger, yaml, 201).await;
        }
        api.post(HANDLERS).bearer(&stranger).json(handler()).send().await.expect(201);
    }

    async fn the_namespace_of_a_definition_counts_when_it_acts_and_the_other_is_told(api: &TestApi) {
        let node = api.work().await;
        for yaml in [CLOSED, CALLER, FOLLOWER] {
            api.store(yaml).await;
        }
        let submit = async |namespace: &str, name: &str| {
            let spec = api.client.latest(namespace, name).await.unwrap();
            api.client.submit(&spec, Submission::default()).await.unwrap().run().unwrap().to_string()
        };
        api.until(&submit("a", "caller").await, "failed").await;
        api.until(&submit("b", "target").await, "success").await;
        let refused = ["workflow a/caller CALL /workflows/target 403", "workflow a/follower FOLLOW /workflows/target 403"];
        assert_eq!(told(api, 2).await, refused);
        api.store(OPEN).await;
        api.until(&submit("a", "caller").await, "success").await;
        assert_eq!(api.runs("follower", 1).await.len(), 1);
        let told = told(api, 4).await;
        for line in ["workflow a/caller CALL /workflows/target 201", "workflow a/follower FOLLOW /workflows/target 201"] {
            assert!(told.iter().any(|entry| entry == line), "{told:?} lacks {line}");
        }
        node.stop().await;
    }
}
