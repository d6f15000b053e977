//! The frame around every request: keys, many runs at once, parameters that there are not, tokens that end.

use std::time::{Duration, Instant};

use mainspring_server::{Api, Grant, Role, Settings};
use mainspring_testkit::wait;
use serde_json::{Value, json};

use crate::on_both;

const WORKFLOW: &str = "name: etl\ninputs: {n: {type: integer, default: 0}}\ntasks: {a: {function: noop}}";
const TRIGGER: &str = "/api/v1/workflows/etl/trigger";
const BULK: &str = "/api/v1/workflow-runs/bulk";

on_both! {
    async fn what_a_trigger_answers_is_what_was_written(api: &TestApi) {
        api.store(WORKFLOW).await;
        let body = json!({"inputs": {"n": 3}, "correlation_id": "c", "priority": "high"});
        let answer = api.post(TRIGGER).role(Role::Operator).json(body).send().await.expect(201).body();
        let shown = api.get(&format!("/api/v1/workflow-runs/{}", answer["id"].as_str().unwrap())).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(answer, shown);
    }

    async fn what_is_stored_is_what_is_triggered_from_then_on_on_every_node(api: &TestApi) {
        let elsewhere = mainspring_store::Store::connect(&mainspring_store::Connect::new(api.database.url())).await.unwrap();
        let elsewhere = mainspring_engine::Client::new(elsewhere, api.client.clock().clone());
        let elsewhere = Api::new(elsewhere, Settings::default()).unwrap();
        let token = api.make_token("t", &[Grant::everywhere(Role::Operator)]).await;
        let trigger = async |body: &str| {
            let request = axum::http::Request::post(TRIGGER).header("host", "localhost").header("content-type", "application/json");
            let request = request.header("authorization", format!("Bearer {token}"));
            let answer = elsewhere.answer(request.body(axum::body::Body::from(body.to_owned())).unwrap()).await;
            let status = answer.status().as_u16();
            let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
            (status, serde_json::from_slice::<Value>(&body).unwrap_or_default())
        };
        for number in 1..4 {
            // Each version knows another input: what is outdated would refuse it.
            api.store(&format!("name: etl\ninputs: {{n{number}: {{type: integer, default: 0}}}}\ntasks: {{a: {{function: noop}}}}")).await;
            for _ in 0..2 {
                let (status, run) = trigger("{}").await;
                assert_eq!((status, &run["version"]), (201, &json!(number)), "{run}");
                let (status, run) = trigger(&format!("{{\"inputs\": {{\"n{number}\": 1}}}}")).await;
                assert_eq!((status, &run["version"]), (201, &json!(number)), "{run}");
            }
        }
    }

    async fn a_key_belongs_to_the_token_that_sends_it(api: &TestApi) {
        api.store(WORKFLOW).await;
        let call = |role| api.post(TRIGGER).role(role).header("idempotency-key", "k").json(json!({}));
        let first = call(Role::Operator).send().await.expect(201);
        let again = call(Role::Operator).send().await.expect(201);
        assert_eq!((again.header("idempotent-replay"), again.body()), ("true", first.body()));
        let other = call(Role::Admin).send().await.expect(201);
        assert_ne!(other.body()["id"], first.body()["id"]);
        call(Role::Operator).json(json!({"priority": 7})).send().await.expect(422);
        let audit = api.get("/api/v1/audit?limit=100").role(Role::Admin).send().await.expect(200).body();
        let rows = audit["items"].as_array().unwrap().iter().filter(|row| row["path"] == TRIGGER && row["status"] == 201);
        assert_eq!(rows.count(), 2, "an answer that is given again tells of nothing new: {audit}");
    }

    /// Work in pieces keeps its answer afterwards, but never that the caller was refused.
    async fn a_refusal_is_not_kept_under_a_key(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true'}}}").await;
        let guest = api.make_token("guest", &[Grant::within("here", Role::Author)]).await;
        for _ in 0..2 {
            let refused = api.delete("/api/v1/workflows/w").bearer(&guest).header("idempotency-key", "k").send().await.expect(403);
            assert_eq!(refused.header("idempotent-replay"), "");
        }
        for (replayed, status) in [("", 204), ("true", 204)] {
            let done = api.delete("/api/v1/workflows/w").role(Role::Author).header("idempotency-key", "k").send().await;
            assert_eq!((done.status.as_u16(), done.header("idempotent-replay")), (status, replayed));
        }
    }

    async fn many_triggers_at_once_are_each_answered(api: &TestApi) {
        api.store(WORKFLOW).await;
        let calls = (0..60).map(|number| {
            // Every third repeats the one before it.
            let key = format!("k{}", number - usize::from(number % 3 == 2));
            api.post(TRIGGER).role(Role::Operator).header("idempotency-key", &key).json(json!({"inputs": {"n": 1}})).send()
        });
        let answers = futures_util::future::join_all(calls).await;
        let mut ids: Vec<String> = answers.into_iter().map(|answer| answer.expect(201).body()["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 40);
        let listed = api.get("/api/v1/workflow-runs?limit=100&count=true").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((listed["items"].as_array().unwrap().len(), &listed["total"]), (40, &json!(40)));
    }

    async fn a_bulk_of_runs_has_a_result_each(api: &TestApi) {
        api.store(WORKFLOW).await;
        api.store("name: theirs\nnamespace: theirs\ntasks: {a: {function: noop}}").await;
        let token = api.make_token("operator", &[Grant::within("default", Role::Operator)]).await;
        let runs = json!({"runs": [
            {"workflow": "etl", "inputs": {"n": 1}}, {"workflow": "etl", "inputs": {"n": "x"}}, {"workflow": "none"},
            {"workflow": "theirs", "namespace": "theirs"}, {"workflow": "etl", "idempotency_key": "a"}, {"workflow": "etl", "idempotency_key": "a"},
            {"workflow": "etl", "priority": "odd"}, {"workflow": "etl"},
        ]});
        let answer = api.post(BULK).bearer(&token).json(runs).send().await.expect(200).body();
        let status: Vec<i64> = answer["results"].as_array().unwrap().iter().map(|one| one["status"].as_i64().unwrap()).collect();
        assert_eq!(status, [201, 422, 404, 403, 201, 200, 422, 201], "{answer}");
        assert_eq!((&answer["created"], &answer["repeated"], &answer["refused"]), (&json!(3), &json!(1), &json!(4)));
        assert!(answer["results"][1]["error"]["detail"].is_string() && answer["results"][4]["id"] == answer["results"][5]["id"], "{answer}");
        let listed = api.get("/api/v1/workflow-runs?count=true").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(listed["total"], 3);
        for wrong in [json!({"runs": []}), json!({"runs": vec![json!({"workflow": "etl"}); 1_001]}), json!({"runs": [{"wrkflow": "etl"}]})] {
            api.post(BULK).role(Role::Operator).json(wrong).send().await.expect(422);
        }
    }

    async fn parameters_that_there_are_not_are_refused(api: &TestApi) {
        for (target, words) in [
            ("/api/v1/workflow-runs?stauts=failed", "status"),
            ("/api/v1/pools?limits=3", "limit"),
            ("/api/v1/auth/me?x=1", "takes none"),
            ("/api/v1/scheduler/jobs?limit=3&colour=red", "colour"),
        ] {
            let problem = api.get(target).role(Role::Admin).send().await.expect(400).body();
            assert!(problem["detail"].as_str().unwrap().contains(words), "{target}: {problem}");
        }
        // Some have another name, too.
        for target in ["/api/v1/scheduler/jobs?platform_id=default", "/api/v1/scheduler/event-handlers?platform_id=default",
                       "/api/v1/scheduler/stats?platform_id=default", "/v1/dlq/staleness?health_status=stale", "/v1/dlq/groups?dlq_reason=manual_dlq"] {
            api.get(target).role(Role::Admin).send().await.expect(200);
        }
        api.post(&format!("{TRIGGER}?namespce=x")).role(Role::Admin).json(json!({})).send().await.expect(400);
        let long = "x".repeat(30_000);
        let call = api.get("/api/v1/auth/me").role(Role::Viewer).header("x-a", &long).header("x-b", &long).header("x-c", &long);
        call.send().await.expect(431);
    }

    async fn a_revoked_token_is_refused_on_every_node_within_a_second(api: &TestApi) {
        let elsewhere = mainspring_store::Store::connect(&mainspring_store::Connect::new(api.database.url())).await.unwrap();
        let elsewhere = mainspring_engine::Client::new(elsewhere, api.client.clock().clone());
        let elsewhere = Api::new(elsewhere, Settings::default()).unwrap();
        let made = json!({"name": "t", "role": "viewer"});
        let made = api.post("/api/v1/auth/tokens").role(Role::Admin).json(made).send().await.expect(201).body();
        let token = made["token"].as_str().unwrap();
        let ask = async || {
            let request = axum::http::Request::builder().uri("/api/v1/auth/me").header("host", "localhost").header("authorization", format!("Bearer {token}"));
            elsewhere.answer(request.body(axum::body::Body::empty()).unwrap()).await.status().as_u16()
        };
        assert_eq!(ask().await, 200);
        api.get("/api/v1/auth/me").bearer(token).send().await.expect(200);
        api.delete(&format!("/api/v1/auth/tokens/{}", made["id"].as_str().unwrap())).role(Role::Admin).send().await.expect(204);
        let revoked = Instant::now();
        api.get("/api/v1/auth/me").bearer(token).send().await.expect(401);
        wait::until("it is refused elsewhere", Duration::from_secs(10), async || Ok((ask().await == 401).then_some(()))).await.unwrap();
        assert!(revoked.elapsed() < Duration::from_secs(2), "{:?}: a second, and some for a busy machine", revoked.elapsed());
    }

    async fn tokens_go_with_their_namespace(api: &TestApi) {
        let make = async || api.post("/api/v1/namespaces").role(Role::Admin).json(json!({"name": "tenant"})).send().await.expect(201);
        make().await;
        let theirs = api.make_token("theirs", &[Grant::within("tenant", Role::Admin)]).await;
        let both = api.make_token("both", &[Grant::within("tenant", Role::Admin), Grant::within("default", Role::Viewer)]).await;
        let list = "/api/v1/workflows?namespace=tenant";
        api.get(list).bearer(&theirs).send().await.expect(200);
        api.get(list).bearer(&both).send().await.expect(200);
        api.delete("/api/v1/namespaces/tenant?cascade=true").role(Role::Admin).send().await.expect(204);
        make().await;
        api.get(list).bearer(&theirs).send().await.expect(401);
        api.get(list).bearer(&both).send().await.expect(403);
        api.get("/api/v1/workflows?namespace=default").bearer(&both).send().await.expect(200);
    }

    async fn a_full_namespace_refuses_whatever_starts_a_run(api: &TestApi) {
        api.post("/api/v1/namespaces").role(Role::Admin).json(json!({"name": "small", "max_open_runs": 1, "max_workflows": 2})).send().await.expect(201);
        api.store("name: busy\nnamespace: small\ntriggers: [{event: go}]\ntasks: {a: {approval: {}}}").await;
        let announce = async || {
            let body = json!({"event_name": "go", "platform_id": "small"});
            api.post("/api/v1/scheduler/events/trigger").role(Role::Operator).json(body).send().await.expect(201).body()
        };
        announce().await;
        let second = announce().await;
        assert!(second.to_string().contains("open runs"), "{second}");
        let count: Value = api.get("/api/v1/workflow-runs?namespace=small&count=true").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(count["total"], 1);
        api.store("name: more\nnamespace: small\ntasks: {a: {function: noop}}").await;
        let third = api.post("/api/v1/workflows").role(Role::Author).header("if-none-match", "*").text("application/yaml", "name: third\nnamespace: small\ntasks: {a: {function: noop}}");
        third.send().await.expect(409);
    }
}
