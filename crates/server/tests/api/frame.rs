//! What every route has in common.

use axum::http::Method;
use mainspring_server::Role;
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::is_page;

on_both! {
    async fn wrong_tokens_cannot_be_told_apart(api: &TestApi) {
        let real = api.token(Role::Viewer).to_owned();
        let mut changed = real.clone();
        changed.replace_range(changed.len() - 2.., if real.ends_with("AA") { "BB" } else { "AA" });
        let mut texts = Vec::new();
        for token in ["x", "ms_x", &changed, &real[..real.len() - 1], &real.replace("ms_", "mt_"), "a.b.c"] {
            let answer = api.get("/api/v1/pools").bearer(token).send().await.expect(401);
            texts.push((answer.text.clone(), answer.header("www-authenticate").to_owned()));
        }
        texts.push((api.get("/api/v1/pools").send().await.expect(401).text, "Bearer".into()));
        texts.dedup();
        assert_eq!(texts.len(), 1, "{texts:?}");
    }

    async fn a_repeated_write_is_answered_and_not_done_again(api: &TestApi) {
        let put = |slots: i32| {
            api.put("/api/v1/pools/p").role(Role::Admin).header("idempotency-key", "k1").json(json!({"slots": slots}))
        };
        let first = put(1).send().await.expect(200);
        api.put("/api/v1/pools/p").role(Role::Admin).json(json!({"slots": 5})).send().await.expect(200);
        let again = put(1).send().await.expect(200);
        assert_eq!(again.text, first.text);
        assert_eq!(again.header("idempotent-replay"), "true");
        assert_eq!(again.header("content-type"), "application/json");
        let now = api.get("/api/v1/pools/p").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(now["slots"], 5, "the repetition was done");
        put(2).send().await.expect(422);
        // Another's key of the same name is another key.
        let other = api.put("/api/v1/pools/p").role(Role::Operator).header("idempotency-key", "k1");
        other.json(json!({"slots": 7})).send().await.expect(200);
        // What was refused as wrong is refused again from memory; what is malformed has no key.
        api.put("/api/v1/pools/p").role(Role::Admin).header("idempotency-key", "k ey").json(json!({})).send().await.expect(400);
    }

    async fn answers_carry_what_protects_browsers(api: &TestApi) {
        for target in ["/live", "/api/v1/pools", "/nothing"] {
            let answer = api.get(target).role(Role::Viewer).send().await;
            assert!(answer.header("content-security-policy").contains("script-src 'self'"), "{target}");
            assert!(!answer.header("content-security-policy").contains("unsafe"), "{target}");
            assert!(answer.header("content-security-policy").contains("frame-ancestors 'none'"), "{target}");
            assert_eq!(answer.header("x-content-type-options"), "nosniff");
            assert_eq!(answer.header("cache-control"), "no-store");
            assert!(!answer.header("x-request-id").is_empty());
            assert_eq!(answer.header("access-control-allow-origin"), "");
        }
        let named = api.get("/live").header("x-request-id", "abc-1").send().await;
        assert_eq!(named.header("x-request-id"), "abc-1");
        let odd = api.get("/live").header("x-request-id", "<script>").send().await;
        assert_ne!(odd.header("x-request-id"), "<script>");
    }

    async fn the_description_covers_every_route(api: &TestApi) {
        let document = api.get("/openapi.json").role(Role::Viewer).send().await.expect(200).body();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
        for route in api.service.routes() {
            // The same handlers under other names: each is described under its home.
            let is_documented = |path: &str| document["paths"].get(path).is_some();
            let home = format!("/api/v1{}", route.path.strip_prefix("/v1").unwrap_or(&route.path));
            let is_known_form = ["/v1/tasks/", "/v1/dlq", "/api/v1/dlq/entry/", "/webhooks/"].iter().any(|known| route.path.starts_with(known));
            let method = route.method.as_str().to_lowercase();
            let operation = &document["paths"][&route.path][&method];
            let is_alias = !is_documented(&route.path) && is_documented(&home);
            // Words of other routes that are names here: described under the parameter whose place they take.
            let (parent, word) = route.path.rsplit_once('/').unwrap();
            let parameter = match parent.rsplit('/').next() {
                Some("jobs") if ["cron", "once", "interval", "after", "bulk"].contains(&word) => "{id}",
                Some("workflows") if word == "validate" => "{workflow}",
                _ => word,
            };
            let parent = parent.strip_prefix("/v1").map_or_else(|| parent.to_owned(), |rest| format!("/api/v1{rest}"));
            let is_name = parameter != word && document["paths"][format!("{parent}/{parameter}")][&method].is_object();
            if is_alias || (is_name && operation.is_null()) || (is_known_form && operation.is_null()) || is_page(&route.method, &route.path) {
                continue;
            }
            assert!(operation["summary"].as_str().is_some(), "{method} {} is not described", route.path);
        }
        let docs = api.get("/docs").role(Role::Viewer).send().await.expect(200);
        assert!(docs.text.contains("/api/v1/pools"));
        assert!(!docs.text.contains("<script") && !docs.text.contains("http://") && !docs.text.contains("https://"));
    }

    async fn the_process_itself_needs_no_token_and_nobody_else_becomes_it(api: &TestApi) {
        api.get("/api/v1/pools").without("host").locally().await.expect(200);
        for header in ["x-local", "x-mainspring-local", "x-forwarded-for", "forwarded"] {
            api.get("/api/v1/pools").header(header, "127.0.0.1").send().await.expect(401);
        }
    }

    /// Fields in their order are no object: serde would take them for one.
    async fn a_list_is_no_object(api: &TestApi) {
        api.post("/api/v1/namespaces").role(Role::Admin).json(json!({"name": "x"})).send().await.expect(201);
        for (method, target, list) in [
            (Method::PATCH, "/api/v1/namespaces/x", json!([null, null, null])),
            (Method::POST, "/api/v1/namespaces", json!(["y", null, null, null])),
            (Method::PUT, "/api/v1/pools/p", json!([1])),
        ] {
            let answer = api.call(method, target).role(Role::Admin).json(list).send().await.expect(422);
            assert!(answer.text.contains("must be an object"), "{}", answer.text);
        }
    }

    /// Client generators name functions by it, and an answer that is not described has no type.
    async fn every_operation_is_described_whole(api: &TestApi) {
        let document: Value = serde_json::from_str(api.service.openapi()).unwrap();
        let mut ids = std::collections::BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "{method} {path}: `{id}` is the id of two operations");
                let responses = operation["responses"].as_object().unwrap();
                assert!(responses.contains_key("400"), "{method} {path}");
                assert!(!responses.contains_key("default"), "{method} {path} describes what it does not know");
                for (status, response) in responses {
                    let response = match response["$ref"].as_str() {
                        Some(name) => &document["components"]["responses"][name.rsplit('/').next().unwrap()],
                        None => response,
                    };
                    assert!(response["description"].as_str().is_some_and(|says| !says.is_empty()), "{method} {path} {status}");
                }
            }
        }
        assert!(ids.len() > 90, "{ids:?}");
    }
}
