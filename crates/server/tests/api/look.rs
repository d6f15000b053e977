//! `/health`, `/workers`, `/cluster` and `/search`.

use mainspring_server::{Grant, Role};
use mainspring_testkit::wait;
use serde_json::json;

use crate::on_both;

on_both! {
    async fn health_tells_of_every_component(api: &TestApi) {
        let alone = api.get("/health").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((&alone["status"], &alone["components"]["workers"]["message"]), (&json!("unhealthy"), &json!("No active workers")));
        assert_eq!(alone["components"]["database"]["status"], "healthy");
        let node = api.node().await;
        let look = async || Ok(Some(api.get("/health").role(Role::Viewer).send().await.expect(200).body()).filter(|one| one["status"] == "healthy"));
        let well = wait::until("a leader", std::time::Duration::from_secs(120), look).await.unwrap();
        assert_eq!(well["components"]["workers"]["details"], json!({"total_workers": 1, "active_workers": 1}));
        assert!(well["components"]["coordination"]["details"]["leader"].is_string(), "{well}");
        let schedules = &well["components"]["schedules"];
        let details = &schedules["details"];
        assert_eq!((&schedules["status"], &details["behind_ms"], &details["lag_ms"], &details["next_fire_at"]), (&json!("healthy"), &json!(0), &json!(0), &json!(null)));
        assert_eq!(well["components"].get("disk").is_some(), api.database.url().starts_with("sqlite"), "{well}");
        node.stop().await;
    }

    async fn health_without_a_token_tells_nothing_but_the_status(api: &TestApi) {
        let node = api.node().await;
        for answer in [api.get("/health").send().await, api.get("/health").bearer("ms_wrong").send().await, api.get("/health").role(Role::Worker).send().await] {
            let shown = answer.expect(200).body();
            assert!(shown["timestamp"].is_string() && shown["status"].is_string(), "{shown}");
            for (name, component) in shown["components"].as_object().unwrap() {
                assert_eq!(component.as_object().unwrap().len(), 1, "{name}: {component}");
            }
        }
        node.stop().await;
    }

    async fn workers_are_shown_and_drained(api: &TestApi) {
        let node = api.node().await;
        let list = api.get("/workers").role(Role::Viewer).send().await.expect(200).body();
        for field in ["id", "session_id", "hostname", "last_heartbeat", "status", "queues", "labels", "slots", "running"] {
            assert!(list["items"][0].get(field).is_some(), "{list} lacks {field}");
        }
        assert_eq!((&list["items"][0]["id"], &list["items"][0]["status"]), (&json!("test"), &json!("active")));
        assert_eq!(list["items"][0]["version"], env!("CARGO_PKG_VERSION"));
        // A node tells of itself beside its start.
        let cluster = api.wait("/api/v1/cluster", |cluster| cluster["members"][0]["workers"] == json!(["test"])).await;
        for field in ["node", "name", "address", "roles", "version", "since", "alive", "leads"] {
            assert!(cluster["members"][0].get(field).is_some(), "{cluster} lacks {field}");
        }
        assert_eq!(cluster["coordination"]["kind"], "database");
        let guest = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
        api.post("/api/v1/workers/test/drain").bearer(&guest).send().await.expect(403);
        assert_eq!(api.post("/api/v1/workers/test/drain").role(Role::Operator).send().await.expect(200).body()["status"], "draining");
        api.post("/api/v1/workers/nobody/drain").role(Role::Operator).send().await.expect(404);
        api.get("/api/v1/workers/nobody").role(Role::Viewer).send().await.expect(404);
        assert_eq!(api.get("/api/v1/workers?status=active").role(Role::Viewer).send().await.expect(200).body()["items"], json!([]));
        api.get("/api/v1/workers?status=lazy").role(Role::Viewer).send().await.expect(400);
        node.stop().await;
        let gone = api.get("/api/v1/workers/test").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(gone["status"], "inactive");
        api.post("/api/v1/workers/test/drain").role(Role::Operator).send().await.expect(409);
    }

    async fn queues_and_pools_of_other_namespaces_are_not_named(api: &TestApi) {
        api.store("{name: etl, tasks: {a: {run: 'true'}}}").await;
        api.post("/api/v1/workflows/etl/trigger").role(Role::Operator).json(json!({})).send().await.expect(201);
        let pool = json!({"slots": 2, "rate": 9, "per": "1m"});
        api.put("/api/v1/pools/db").role(Role::Operator).json(pool).send().await.expect(200);
        let all = api.get("/api/v1/cluster").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(all["queues"][0]["namespace"], "default", "{all}");
        let pool = &all["pools"][0];
        assert_eq!((&pool["name"], &pool["namespace"], &pool["held"]), (&json!("db"), &json!("default"), &json!(0)), "{all}");
        assert_eq!((&pool["slots"], &pool["rate"], &pool["per"]), (&json!(2), &json!(9), &json!("1m")), "{all}");
        let guest = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
        let seen = api.get("/api/v1/cluster").bearer(&guest).send().await.expect(200).body();
        assert_eq!((&seen["queues"], &seen["pools"]), (&json!([]), &json!([])));
    }

    async fn words_are_found(api: &TestApi) {
        api.store("{name: etl, description: loads the warehouse, tasks: {a: {run: 'true'}}}").await;
        let search = async |words: &str| {
            let found = api.get(&format!("/api/v1/search?q={words}")).role(Role::Viewer).send().await.expect(200).body();
            found["items"].as_array().unwrap().clone()
        };
        let found = search("warehouse").await;
        assert_eq!((&found[0]["kind"], &found[0]["id"]), (&json!("workflow"), &json!("etl")), "{found:?}");
        // What happens is found at once, and after the index was built no more than once.
        let _node = api.node().await;
        api.store("{name: loud, tasks: {a: {run: 'echo zanzibar >&2; exit 3'}}}").await;
        let run = api.post("/api/v1/workflows/loud/trigger").role(Role::Operator).json(json!({"correlation_id": "order-4711"}));
        let run = run.send().await.expect(201).body()["id"].as_str().unwrap().to_owned();
        assert_eq!(search("order%204711").await[0]["run_id"], json!(run));
        api.until(&run, "failed").await;
        for built in [false, true] {
            if built {
                api.database.store().reindex("default", None).await.unwrap();
            }
            let found = search("zanzibar").await;
            let errors: Vec<_> = found.iter().filter(|one| one["kind"] == "error").collect();
            assert_eq!(errors.len(), 1, "{found:?}");
            assert_eq!((&errors[0]["id"], &errors[0]["run_id"]), (&json!(format!("{run}.0")), &json!(run)));
        }
        for q in ["%22%20OR%20", "';--", "*", ""] {
            api.get(&format!("/api/v1/search?q={q}")).role(Role::Viewer).send().await.expect(200);
        }
        api.get("/api/v1/search").role(Role::Viewer).send().await.expect(400);
        let guest = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
        api.get("/api/v1/search?q=warehouse").bearer(&guest).send().await.expect(403);
    }
}
