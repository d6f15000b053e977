//! `/auth`, `/audit`, `/secrets`, `/namespaces`.

use mainspring_core::parse;
use mainspring_engine::{Submission, SubmitError};
use mainspring_server::{Grant, Role};
use mainspring_store::AuditFilter;
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::TestApi;

async fn rows(api: &TestApi) -> String {
    let filter = AuditFilter { limit: 100, ..AuditFilter::default() };
    format!("{:?}", api.client.store().audit(&filter).await.unwrap())
}

on_both! {
    async fn a_token_is_shown_once_opens_what_it_grants_and_is_revoked(api: &TestApi) {
        let wanted = json!({"name": "ci", "role": "operator", "namespace": "here"});
        let made = api.post("/api/v1/auth/tokens").role(Role::Admin).json(wanted).send().await.expect(201).body();
        let (id, token) = (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned());
        let me = api.get("/api/v1/auth/me").bearer(&token).send().await.expect(200).body();
        assert_eq!(me["grants"], json!([{"namespace": "here", "role": "operator"}]));
        assert_eq!(me["actor"], format!("token:{id}"));
        api.put("/api/v1/pools/p?namespace=here").bearer(&token).json(json!({"slots": 1})).send().await.expect(200);
        api.get("/api/v1/auth/tokens").bearer(&token).send().await.expect(403);
        let listed = api.get("/api/v1/auth/tokens?limit=500").role(Role::Admin).send().await.expect(200);
        assert!(listed.text.contains(&id) && !listed.text.contains(&token) && !listed.text.contains("hash"));
        let row = api.client.store().token(id.parse().unwrap()).await.unwrap().unwrap();
        assert!(!format!("{row:?}").contains(&token), "the token is stored");
        api.delete(&format!("/api/v1/auth/tokens/{id}")).role(Role::Admin).send().await.expect(204);
        // At once, not after some cache has forgotten it.
        api.get("/api/v1/auth/me").bearer(&token).send().await.expect(401);
        api.delete("/api/v1/auth/tokens/00000000-0000-7000-8000-000000000000").role(Role::Admin).send().await.expect(404);
    }

    async fn an_expired_token_opens_nothing(api: &TestApi) {
        let wanted = json!({"name": "x", "role": "admin", "expires_at": "2020-01-01T00:00:00Z"});
        let answer = api.post("/api/v1/auth/tokens").role(Role::Admin).json(wanted).send().await.expect(422).body();
        assert_eq!(answer["errors"][0]["pointer"], "/expires_at");
        let token = mainspring_server::Token::generate(api.client.clock().new_id()).unwrap();
        let new = mainspring_store::NewToken {
            id: token.id(),
            name: "old".into(),
            hash: token.hash(),
            grants: serde_json::to_string(&[Grant::everywhere(Role::Admin)]).unwrap(),
            created_by: "test".into(),
            expires_at: Some(api.client.now() - 1),
        };
        api.client.store().add_token(api.client.now(), &new).await.unwrap();
        api.get("/api/v1/auth/me").bearer(token.reveal()).send().await.expect(401);
    }

    async fn bad_tokens_are_not_made(api: &TestApi) {
        for (body, pointer) in [
            (json!({"name": "", "role": "viewer"}), "/name"),
            (json!({"name": "a\nb", "role": "viewer"}), "/name"),
            (json!({"name": "x"}), "/role"),
            (json!({"name": "x", "role": "viewer", "grants": []}), "/role"),
            (json!({"name": "x", "role": "viewer", "namespace": "../x"}), "/namespace"),
            (json!({"name": "x", "grants": [{"namespace": "A", "role": "viewer"}]}), "/grants/0/namespace"),
            (json!({"name": "x", "grants": []}), "/grants"),
            (json!({"name": "x", "role": "viewer", "expires_at": "soon"}), "/expires_at"),
        ] {
            let answer = api.post("/api/v1/auth/tokens").role(Role::Admin).json(body.clone()).send().await.expect(422).body();
            assert_eq!(answer["errors"][0]["pointer"], pointer, "{body}");
        }
        api.post("/api/v1/auth/tokens").role(Role::Admin).json(json!({"name": "x", "role": "root"})).send().await.expect(422);
    }

    async fn a_repeated_creation_does_not_keep_the_token(api: &TestApi) {
        let make = || {
            api.post("/api/v1/auth/tokens").role(Role::Admin).header("idempotency-key", "t1")
                .json(json!({"name": "x", "role": "viewer"}))
        };
        make().send().await.expect(201);
        let again = make().send().await.expect(409);
        assert_eq!(again.body()["type"], "urn:mainspring:answer-not-kept");
    }

    async fn writes_and_refusals_are_in_the_audit_log(api: &TestApi) {
        api.put("/api/v1/pools/p?namespace=here").role(Role::Admin).json(json!({"slots": 1})).send().await.expect(200);
        api.put("/api/v1/pools/p").role(Role::Viewer).json(json!({"slots": 1})).send().await.expect(403);
        api.put("/api/v1/pools/p?namespace=hidden").send().await.expect(401);
        api.get("/api/v1/pools").role(Role::Viewer).send().await.expect(200);
        let list = api.get("/api/v1/audit").role(Role::Admin).send().await.expect(200).body();
        let seen: Vec<(i64, &str)> = list["items"].as_array().unwrap().iter()
            .map(|entry| (entry["status"].as_i64().unwrap(), entry["path"].as_str().unwrap()))
            .collect();
        assert_eq!(seen, [(401, "/api/v1/pools/p"), (403, "/api/v1/pools/p"), (200, "/api/v1/pools/p")]);
        assert_eq!(list["items"][2]["namespace"], "here");
        assert!(!rows(api).await.contains("hidden"));
        let guest = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
        let own = api.get("/api/v1/audit").bearer(&guest).send().await.expect(200).body();
        assert_eq!(own["items"].as_array().unwrap().len(), 1, "only of its namespace");
        api.get("/api/v1/audit?namespace=there").bearer(&guest).send().await.expect(403);
        api.get("/api/v1/audit?since=yesterday").role(Role::Admin).send().await.expect(400);
    }

    async fn a_secret_is_there_as_soon_as_it_is_set(api: &TestApi) {
        let node = api.trusted_node().await;
        api.store("{name: w, secrets: [FRESH], tasks: {t: {run: 'test \"$KEY\" = now', env: {KEY: '${{ secrets.FRESH }}'}}}}").await;
        // What is missing is looked for again, however lately it was looked for.
        let early = api.start("w").await;
        api.until(&early, "failed").await;
        api.put("/api/v1/secrets/FRESH").role(Role::Admin).json(json!({"value": "now"})).send().await.expect(201);
        let late = api.start("w").await;
        api.until(&late, "success").await;
        node.stop().await;
    }

    /// Secrets in logs, pages or the store: values go in and never come out.
    async fn secrets_go_in_and_never_come_out(api: &TestApi) {
        let value = "hunter2-in-plain";
        let put = || api.put("/api/v1/secrets/API_KEY?namespace=here").role(Role::Admin).json(json!({"value": value}));
        let first = put().send().await.expect(201);
        let second = put().header("idempotency-key", "s1").send().await.expect(200);
        let shown = api.get("/api/v1/secrets/API_KEY?namespace=here").role(Role::Author).send().await.expect(200);
        let listed = api.get("/api/v1/secrets").role(Role::Author).send().await.expect(200);
        for answer in [&first, &second, &shown, &listed] {
            assert!(answer.text.contains("API_KEY") && !answer.text.contains(value), "{}", answer.text);
        }
        assert_eq!(api.client.store().forget_requests(i64::MAX).await.unwrap(), 0, "a hash of the value is kept");
        let sealed = api.client.store().sealed_secrets("here").await.unwrap();
        assert!(!sealed[0].sealed.windows(value.len()).any(|window| window == value.as_bytes()));
        assert!(!rows(api).await.contains(value));
        if let Some(file) = api.database.url().strip_prefix("sqlite://") {
            // Nor anywhere else in what lies on the disk.
            for entry in std::fs::read_dir(std::path::Path::new(file).parent().unwrap()).unwrap().flatten() {
                let bytes = std::fs::read(entry.path()).unwrap();
                let found = bytes.windows(value.len()).any(|window| window == value.as_bytes());
                assert!(!found, "{} holds the value", entry.path().display());
            }
        }
        api.get("/api/v1/secrets/API_KEY").role(Role::Author).send().await.expect(404);
        for (name, body) in [("A-B", json!({"value": "x"})), ("..", json!({"value": "x"})), ("1A", json!({"value": "x"}))] {
            api.put(&format!("/api/v1/secrets/{name}")).role(Role::Admin).json(body).send().await.expect(400);
        }
        for body in [json!({"value": ""}), json!({"value": "x".repeat(70_000)}), json!({"valeu": "x"}), json!({})] {
            api.put("/api/v1/secrets/X").role(Role::Admin).json(body).send().await.expect(422);
        }
        api.delete("/api/v1/secrets/API_KEY?namespace=here").role(Role::Admin).send().await.expect(204);
        api.delete("/api/v1/secrets/API_KEY?namespace=here").role(Role::Admin).send().await.expect(404);
    }

    async fn namespaces_have_quotas_that_hold(api: &TestApi) {
        let wanted = json!({"name": "small", "max_open_runs": 1, "max_workflows": 1});
        api.post("/api/v1/namespaces").role(Role::Admin).json(wanted.clone()).send().await.expect(201);
        api.post("/api/v1/namespaces").role(Role::Admin).json(wanted).send().await.expect(409);
        let workflow = |name: &str| parse(&format!("name: {name}\nnamespace: small\ntasks: {{t: {{run: 'true'}}}}\n")).unwrap();
        let spec = api.client.put_workflow(workflow("one"), "").await.unwrap();
        let refused = api.client.put_workflow(workflow("two"), "").await.unwrap_err().to_string();
        assert!(refused.contains("may have 1 workflows"), "{refused}");
        api.client.submit(&spec, Submission::default()).await.unwrap();
        let refused = api.client.submit(&spec, Submission::default()).await.unwrap_err();
        assert!(matches!(&refused, SubmitError::Quota(cause) if cause.contains("may have 1 open runs")), "{refused}");
        let problem = mainspring_server::Problem::from(refused);
        assert_eq!(problem.status().as_u16(), 429);
        let changed = api.call(axum::http::Method::PATCH, "/api/v1/namespaces/small").role(Role::Admin)
            .json(json!({"max_open_runs": null})).send().await.expect(200).body();
        assert_eq!((&changed["max_open_runs"], &changed["max_workflows"]), (&Value::Null, &json!(1)));
        api.client.submit(&spec, Submission::default()).await.unwrap();
        for body in [json!({"max_open_runs": -1}), json!({"max_open_runs": "x"}), json!({"name": "y"})] {
            api.call(axum::http::Method::PATCH, "/api/v1/namespaces/small").role(Role::Admin).json(body).send().await.expect(422);
        }
        api.delete("/api/v1/namespaces/small").role(Role::Admin).send().await.expect(409);
        api.delete("/api/v1/namespaces/nothing").role(Role::Admin).send().await.expect(404);
        // No worker executes here, so cancelling ends the runs at once.
        let gone = api.delete("/api/v1/namespaces/small?cascade=true").role(Role::Admin).send().await;
        assert_eq!(gone.status.as_u16(), 204, "{}", gone.text);
        api.get("/api/v1/namespaces/small").role(Role::Admin).send().await.expect(404);
        assert!(!api.client.store().has_workflow("small", "one").await.unwrap());
    }
}
