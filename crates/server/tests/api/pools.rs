//! `/pools`.

use mainspring_server::{Grant, Role};
use serde_json::json;

use crate::on_both;

on_both! {
    async fn a_pool_is_made_shown_listed_and_removed(api: &TestApi) {
        let made = api.put("/api/v1/pools/db").role(Role::Operator).json(json!({"slots": 3})).send().await.expect(200);
        assert_eq!(made.body(), json!({"name": "db", "namespace": "default", "slots": 3, "held": 0}));
        api.put("/api/v1/pools/web?namespace=other").role(Role::Operator).json(json!({"slots": null})).send().await.expect(200);
        let shown = api.get("/v1/pools/db").role(Role::Viewer).send().await.expect(200);
        assert_eq!(shown.body()["slots"], 3);
        let all = api.get("/api/v1/pools?count=true").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(all["items"].as_array().unwrap().len(), 2);
        assert_eq!((&all["next"], &all["total"]), (&json!(null), &json!(2)));
        let one = api.get("/api/v1/pools?namespace=other").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(one["items"][0]["name"], "web");
        assert!(one.get("total").is_none());
        api.delete("/api/v1/pools/db").role(Role::Author).send().await.expect(204);
        api.delete("/api/v1/pools/db").role(Role::Author).send().await.expect(404);
        api.get("/api/v1/pools/db").role(Role::Viewer).send().await.expect(404);
    }

    async fn lists_are_paged(api: &TestApi) {
        for number in 0..5 {
            api.put(&format!("/api/v1/pools/p{number}")).role(Role::Admin).json(json!({"slots": 1})).send().await.expect(200);
        }
        let (mut names, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = api.get(&format!("/api/v1/pools?limit=2{cursor}")).role(Role::Viewer).send().await.expect(200).body();
            names.extend(page["items"].as_array().unwrap().iter().map(|pool| pool["name"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(names, ["p0", "p1", "p2", "p3", "p4"]);
        for wrong in ["limit=0", "limit=501", "limit=x", "offset=-1", "offset=1000000", "cursor=x", "cursor=x&offset=1"] {
            api.get(&format!("/api/v1/pools?{wrong}")).role(Role::Viewer).send().await.expect(400);
        }
    }

    async fn another_namespace_is_separate(api: &TestApi) {
        let token = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
        api.put("/api/v1/pools/p?namespace=here").bearer(&token).json(json!({"slots": 1})).send().await.expect(200);
        api.put("/api/v1/pools/p?namespace=there").role(Role::Admin).json(json!({"slots": 1})).send().await.expect(200);
        for target in ["/api/v1/pools/p?namespace=there", "/api/v1/pools/p", "/api/v1/pools/p?namespace=nowhere"] {
            api.get(target).bearer(&token).send().await.expect(403);
            api.put(target).bearer(&token).json(json!({"slots": 9})).send().await.expect(403);
            api.delete(target).bearer(&token).send().await.expect(403);
        }
        api.get("/api/v1/pools?namespace=there").bearer(&token).send().await.expect(403);
        let seen = api.get("/api/v1/pools").bearer(&token).send().await.expect(200).body();
        assert_eq!(seen["items"].as_array().unwrap().len(), 1);
        assert_eq!(seen["items"][0]["namespace"], "here");
    }

    async fn a_larger_pool_lets_in_what_waits(api: &TestApi) {
        api.put("/api/v1/pools/db").role(Role::Operator).json(json!({"slots": 0})).send().await.expect(200);
        api.store("{name: w, tasks: {a: {run: 'true', pool: db}}}").await;
        let node = api.node().await;
        let run = api.start("w").await;
        let waits = api.task(&run, "a").await;
        assert!(waits["blocked_by"][0].as_str().unwrap().contains("pool `db`"), "{waits}");
        api.put("/api/v1/pools/db").role(Role::Operator).json(json!({"slots": 1})).send().await.expect(200);
        api.until(&run, "success").await;
        node.stop().await;
    }

    async fn a_rate_lets_in_so_many_per_window(api: &TestApi) {
        let body = json!({"slots": null, "rate": 1, "per": "2s"});
        let made = api.put("/api/v1/pools/db").role(Role::Operator).json(body).send().await.expect(200).body();
        assert_eq!(made, json!({"name": "db", "namespace": "default", "slots": null, "held": 0, "rate": 1, "per": "2s", "used": 0}));
        api.store("{name: w, tasks: {a: {run: 'true', pool: db}}}").await;
        let first = api.start("w").await;
        let second = api.start("w").await;
        let words = api.task(&second, "a").await["blocked_by"].clone();
        let window = api.get("/api/v1/pools").role(Role::Viewer).send().await.expect(200).body()["items"][0].clone();
        if let Some(end) = window["window_ends_at"].as_str() {
            assert_eq!(words, json!([format!("the rate of pool `db`, 1 task runs per 2s, is used up until {end}")]));
            assert_eq!(window["used"], 1);
        }
        let node = api.node().await;
        let (first, second) = (api.until(&first, "success").await, api.until(&second, "success").await);
        let started = |run: &serde_json::Value| mainspring_core::time::parse(run["finished_at"].as_str().unwrap()).unwrap();
        assert!(started(&second) > started(&first), "{first} {second}");
        node.stop().await;
        let gone = api.put("/api/v1/pools/db").role(Role::Operator).json(json!({"slots": 2})).send().await.expect(200).body();
        assert_eq!(gone, json!({"name": "db", "namespace": "default", "slots": 2, "held": 0}));
    }

    async fn bad_rates_are_explained(api: &TestApi) {
        for (wrong, pointer) in [
            (json!({"slots": 1, "rate": 1}), "/per"),
            (json!({"slots": 1, "per": "1m"}), "/rate"),
            (json!({"slots": 1, "rate": 0, "per": "1m"}), "/rate"),
            (json!({"slots": 1, "rate": 1_000_001, "per": "1m"}), "/rate"),
            (json!({"slots": 1, "rate": 99_999_999_999_i64, "per": "1m"}), "/rate"),
            (json!({"slots": 1, "rate": 1, "per": "999ms"}), "/per"),
            (json!({"slots": 1, "rate": 1, "per": "25h"}), "/per"),
            (json!({"slots": 1, "rate": 1, "per": "often"}), "/per"),
        ] {
            let answer = api.put("/api/v1/pools/p").role(Role::Admin).json(wrong.clone()).send().await.expect(422).body();
            assert_eq!(answer["errors"][0]["pointer"], pointer, "{wrong}");
        }
        api.get("/api/v1/pools/p").role(Role::Viewer).send().await.expect(404);
    }

    async fn bad_bodies_and_names_are_explained(api: &TestApi) {
        let put = |body: &str| api.put("/api/v1/pools/p").role(Role::Admin).text("application/json", body);
        let answer = put("{\"slots\": \"x\"}").send().await.expect(422).body();
        assert_eq!(answer["errors"][0]["pointer"], "/slots");
        assert_eq!(answer["errors"][0]["line"], 1);
        put("{\"slots\": -1}").send().await.expect(422);
        put("{\"slot\": 1}").send().await.expect(422);
        put("{").send().await.expect(400);
        put("").send().await.expect(400);
        api.put("/api/v1/pools/p").role(Role::Admin).text("text/plain", "{}").send().await.expect(415);
        for name in ["..", "%2e%2e", "a%2Fb", "a%252Fb", "A", "%00", "%E2%80%AEx", "x%0d%0ay", &"x".repeat(129)] {
            let answer = api.get(&format!("/api/v1/pools/{name}")).role(Role::Viewer).send().await.expect(400);
            assert!(!answer.text.to_lowercase().contains("sql"), "{}", answer.text);
        }
    }
}
