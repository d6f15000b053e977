//! `/pause`, `/resume` and `/pauses`.

use std::time::Duration;

use mainspring_server::{Grant, Role};
use serde_json::json;

use crate::on_both;

const PAUSE: &str = "/api/v1/pause";
const RESUME: &str = "/api/v1/resume";
const PAUSES: &str = "/api/v1/pauses";

on_both! {
    async fn a_paused_queue_starts_nothing_while_others_go_on(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true', queue: gpu}}}").await;
        api.store("{name: other, tasks: {a: {run: 'true'}, b: {needs: a, run: 'true', queue: gpu}}}").await;
        let scope = json!({"queue": "gpu", "reason": "a new driver", "by": "kim"});
        let made = api.post(PAUSE).role(Role::Operator).json(scope).send().await.expect(200).body();
        assert_eq!((&made["queue"], &made["namespace"], &made["reason"]), (&json!("gpu"), &json!(null), &json!("a new driver")));
        assert_eq!(made["paused_by"], "kim (by operator)");
        let node = api.node().await;
        let (run, other) = (api.start("w").await, api.start("other").await);
        api.until_task(&other, "a", "success").await;
        for (run, task) in [(&run, "a"), (&other, "b")] {
            api.until_task(run, task, "ready").await;
            let waits = api.task(run, task).await;
            let why = waits["blocked_by"][0].as_str().unwrap();
            assert!(why.starts_with("queue `gpu` is paused by kim") && why.ends_with(": a new driver"), "{waits}");
            assert_eq!(waits["attempts"], 0);
        }
        assert_eq!(api.client.report_unserved(Duration::ZERO).await.unwrap(), 0, "they wait for an operator");
        let again = api.post(PAUSE).role(Role::Operator).json(json!({"queue": "gpu"})).send().await.expect(200).body();
        assert_eq!(again["reason"], json!(null));
        let listed = api.get(PAUSES).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]["paused_at"]), (1, &made["paused_at"]));
        api.post(RESUME).role(Role::Operator).json(json!({"queue": "gpu"})).send().await.expect(204);
        api.until(&run, "success").await;
        api.until(&other, "success").await;
        assert_eq!(api.get(PAUSES).role(Role::Viewer).send().await.expect(200).body()["items"], json!([]));
        let gone = api.post(RESUME).role(Role::Operator).json(json!({"queue": "gpu"})).send().await.expect(404).body();
        assert!(gone["detail"].as_str().unwrap().contains("queue `gpu`"), "{gone}");
        node.stop().await;
    }

    async fn a_namespace_and_everything_are_paused(api: &TestApi) {
        for namespace in ["default", "sales"] {
            api.store(&format!("{{name: w, namespace: {namespace}, tasks: {{a: {{run: 'true'}}}}}}")).await;
        }
        api.post(PAUSE).role(Role::Operator).json(json!({"namespace": "default"})).send().await.expect(200);
        api.post(PAUSE).role(Role::Operator).json(json!({"all": true})).send().await.expect(200);
        let node = api.node().await;
        let run = api.start("w").await;
        let target = "/api/v1/workflows/w/trigger?namespace=sales";
        let sales = api.post(target).role(Role::Operator).send().await.expect(201).body()["id"].as_str().unwrap().to_owned();
        let why = async |run: &str| api.task(run, "a").await["blocked_by"][0].as_str().unwrap().to_owned();
        assert!(why(&sales).await.starts_with("everything is paused"));
        api.post(RESUME).role(Role::Operator).json(json!({"all": true})).send().await.expect(204);
        api.until(&sales, "success").await;
        assert!(why(&run).await.starts_with("namespace `default` is paused"));
        api.post(RESUME).role(Role::Operator).json(json!({"namespace": "default"})).send().await.expect(204);
        api.until(&run, "success").await;
        node.stop().await;
    }

    async fn a_run_is_not_stale_for_having_been_paused(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true'}}}").await;
        api.start("w").await;
        let health = async || {
            let shown = api.get("/api/v1/dlq/staleness").role(Role::Viewer).send().await.expect(200).body();
            shown["items"][0]["health_status"].as_str().unwrap().to_owned()
        };
        let an_hour_ago = async |column: &str, table: &str| {
            api.database.execute(&format!("UPDATE {table} SET {column} = {column} - 3660000000")).await;
        };
        api.post(PAUSE).role(Role::Operator).json(json!({"queue": "default", "namespace": "default"})).send().await.expect(200);
        an_hour_ago("progress_at", "runs").await;
        an_hour_ago("due_at", "task_runs").await;
        assert_eq!(health().await, "healthy");
        api.post(RESUME).role(Role::Operator).json(json!({"queue": "default", "namespace": "default"})).send().await.expect(204);
        assert_eq!(health().await, "healthy", "its time begins anew");
        an_hour_ago("resumed_at", "pauses").await;
        assert_eq!(health().await, "stale");
    }

    async fn what_concerns_other_namespaces_needs_the_role_in_all(api: &TestApi) {
        let token = api.make_token("guest", &[Grant::within("here", Role::Operator)]).await;
        for scope in [json!({"queue": "x"}), json!({"all": true}), json!({"namespace": "there"}), json!({"queue": "x", "namespace": "there"})] {
            api.post(PAUSE).bearer(&token).json(scope.clone()).send().await.expect(403);
            api.post(RESUME).bearer(&token).json(scope.clone()).send().await.expect(403);
            api.post(PAUSE).role(Role::Operator).json(scope).send().await.expect(200);
        }
        api.post(PAUSE).bearer(&token).json(json!({"namespace": "here"})).send().await.expect(200);
        api.post(PAUSE).role(Role::Viewer).json(json!({"namespace": "here"})).send().await.expect(403);
        let seen = api.get(PAUSES).bearer(&token).send().await.expect(200).body();
        let seen: Vec<_> = seen["items"].as_array().unwrap().iter().map(|pause| (pause["namespace"].clone(), pause["queue"].clone())).collect();
        assert_eq!(seen, [(json!(null), json!(null)), (json!(null), json!("x")), (json!("here"), json!(null))]);
        for (scope, place) in [(json!({}), "/queue"), (json!({"all": false}), "/queue"), (json!({"all": true, "queue": "x"}), "/all"), (json!({"all": true, "namespace": "x"}), "/all")] {
            let problem = api.post(PAUSE).role(Role::Admin).json(scope).send().await.expect(422).body();
            assert_eq!(problem["errors"][0]["pointer"], place, "{problem}");
        }
        let long = json!({"queue": "x", "reason": "x".repeat(1001)});
        assert_eq!(api.post(PAUSE).role(Role::Admin).json(long).send().await.expect(422).body()["errors"][0]["pointer"], "/reason");
        api.post(PAUSE).role(Role::Admin).json(json!({"queue": "../x"})).send().await.expect(422);
    }

    async fn pages_show_the_pauses_that_the_caller_may_see(api: &TestApi) {
        for scope in [json!({"queue": "gpu", "namespace": "secret"}), json!({"namespace": "here", "reason": "a move", "by": "kim"}), json!({"queue": "mail"})] {
            api.post(PAUSE).role(Role::Operator).json(scope).send().await.expect(200);
        }
        let token = api.make_token("guest", &[Grant::within("here", Role::Viewer)]).await;
        for page in ["/api/v1/overview", "/api/v1/cluster"] {
            let all = api.get(page).role(Role::Viewer).send().await.expect(200).body();
            assert_eq!(all["pauses"], api.get(PAUSES).role(Role::Viewer).send().await.expect(200).body()["items"], "{page}");
            assert_eq!(all["pauses"].as_array().unwrap().len(), 3);
            let mine = api.get(page).bearer(&token).send().await.expect(200);
            let pauses = &mine.body()["pauses"];
            assert!(!mine.text.contains("secret"), "{page}: {}", mine.text);
            assert_eq!((&pauses[0]["queue"], &pauses[1]["namespace"], &pauses[2]), (&json!("mail"), &json!("here"), &json!(null)));
            assert_eq!((&pauses[1]["paused_by"], &pauses[1]["reason"]), (&json!("kim (by operator)"), &json!("a move")));
        }
        let one = api.get("/api/v1/overview?namespace=here").role(Role::Viewer).send().await.expect(200);
        assert_eq!((one.body()["pauses"].as_array().unwrap().len(), one.text.contains("secret")), (2, false));
    }
}
