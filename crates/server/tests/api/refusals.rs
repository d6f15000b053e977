//! Small things that must not pass: names that are forged, bodies that are too crowded, what belongs to others.

use mainspring_server::{Grant, Role};
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::TestApi;

const HANDLERS: &str = "/api/v1/scheduler/event-handlers";
const JOBS: &str = "/api/v1/scheduler/jobs";

on_both! {
    async fn what_a_global_handler_does_is_shown_to_those_who_see_everything(api: &TestApi) {
        let config = json!({"workflow": "secret-plan", "namespace": "hidden"});
        let new = json!({"event_name": "e", "handler_name": "h", "action_type": "trigger_workflow", "action_config": config, "global": true});
        let made = api.post(HANDLERS).role(Role::Admin).json(new).send().await.expect(201).body();
        let narrow = api.make_token("narrow", &[Grant::within("a", Role::Viewer)]).await;
        let one = format!("{HANDLERS}/{}", made["id"].as_str().unwrap());
        for target in [HANDLERS, &one] {
            let seen = api.get(target).bearer(&narrow).send().await.expect(200).text;
            assert!(seen.contains("\"h\"") && !seen.contains("hidden") && !seen.contains("secret-plan"), "{seen}");
            let all = api.get(target).role(Role::Viewer).send().await.expect(200).text;
            assert!(all.contains("hidden"), "{all}");
        }
    }

    async fn names_that_requests_give_are_signed_and_stay_on_one_line(api: &TestApi) {
        let new = json!({"event_name": "e", "handler_name": "h", "action_type": "create_job", "created_by": "root\nadmin"});
        let made = api.post(HANDLERS).role(Role::Author).json(new).send().await.expect(201).body();
        assert_eq!(made["created_by"], "rootadmin (by author)");
    }

    async fn jobs_are_counted_by_the_database(api: &TestApi) {
        for name in ["a", "b", "c"] {
            let new = json!({"name": name, "schedule": "0 0 1 1 *", "handler_name": "echo", "tags": [name]});
            api.post("/api/v1/scheduler/jobs/cron").role(Role::Author).json(new).send().await.expect(201);
        }
        let total = async |query: &str| -> Value {
            let list = api.get(&format!("{JOBS}?count=true&{query}")).role(Role::Viewer).send().await.expect(200).body();
            assert_eq!(list["items"].as_array().unwrap().len() as i64, list["total"].as_i64().unwrap().min(1));
            list["total"].clone()
        };
        assert_eq!(total("limit=1").await, 3);
        assert_eq!(total("limit=1&tag=a").await, 1);
        assert_eq!(total("limit=1&namespace=other").await, 0);
        assert_eq!(total("limit=1&status=paused").await, 0);
    }

    async fn paths_that_could_not_be_unpacked_are_refused(api: &TestApi) {
        let deep = "d/".repeat(70) + "f";
        let content = "eA==";
        for paths in [vec![deep.as_str()], vec!["d/.mainspring-script", ".mainspring-script"], vec!["d", "d/f"], vec!["d/f", "d"]] {
            let files: Vec<Value> = paths.iter().map(|path| json!({"path": path, "content": content})).collect();
            let bundle = json!({"source": "{name: w, files: [.], tasks: {t: {run: x}}}", "files": files});
            let call = api.post("/api/v1/workflows").role(Role::Author);
            let said = call.text("application/vnd.mainspring.bundle+json", &bundle.to_string()).send().await.expect(422).text;
            assert!(said.contains("/files/"), "{paths:?}: {said}");
        }
    }
}

#[tokio::test]
async fn bodies_of_a_million_values_and_large_heads_are_refused() {
    let api = TestApi::new(mainspring_store::Flavor::Sqlite).await;
    let mut body = r#"{"name": "x""#.to_owned();
    for key in 0..600_000 {
        body.push_str(&format!(",\"k{key}\":1"));
    }
    body.push('}');
    let call = api.post("/api/v1/workflows").role(Role::Author).text("application/json", &body);
    let said = call.send().await.expect(422).text;
    assert!(said.contains("more than 1000000 values"), "{said}");
    let call = api.get("/api/v1/workflows").role(Role::Viewer).header("x-large", &"x".repeat(100_000));
    call.send().await.expect(431);
}
