//! Actions on task runs.

use mainspring_server::Role;
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::TestApi;

const CHAIN: &str = "{name: w, tasks: {a: {run: 'exit 1', retry: {attempts: 1}}, b: {needs: a, run: 'true'}}}";

async fn act(api: &TestApi, run: &str, task: &str, body: Value, status: u16) -> Value {
    let target = format!("/api/v1/workflow-runs/{run}/tasks/{task}/actions");
    api.post(&target).role(Role::Operator).json(body).send().await.expect(status).body()
}

on_both! {
    async fn a_failed_task_is_resolved_or_skipped_and_the_run_goes_on(api: &TestApi) {
        api.store(CHAIN).await;
        let node = api.node().await;
        for (action, state) in [("resolve_manually", "resolved_manually"), ("skip", "skipped")] {
            let run = api.start("w").await;
            api.until(&run, "failed").await;
            assert_eq!(api.task(&run, "b").await["status"], "upstream_failed");
            let done = act(api, &run, "a", json!({"action": action, "by": "ann", "reason": "by hand"}), 200).await;
            assert_eq!((&done["status"], &done["duration_ms"]), (&json!(state), &json!(null)), "it did not take until now");
            api.until(&run, "success").await;
            assert_eq!(api.task(&run, "b").await["status"], "success");
            act(api, &run, "a", json!({"action": "retry"}), 409).await;
        }
        node.stop().await;
    }

    async fn a_failed_task_is_retried_with_fresh_attempts(api: &TestApi) {
        api.store(CHAIN).await;
        let node = api.node().await;
        let run = api.start("w").await;
        api.until(&run, "failed").await;
        act(api, &run, "a", json!({"action": "retry"}), 200).await;
        api.until(&run, "failed").await;
        let shown = api.until_task(&run, "a", "failed").await;
        assert_eq!(shown["attempt"], 2);
        assert!(shown["last_failure_at"].is_string());
        let patched = api.patch(&format!("/v1/tasks/{run}/workflow_steps/a")).role(Role::Operator).json(json!({"resolved_by": "ann", "reason": "r"})).send().await.expect(200).body();
        assert_eq!(patched["current_state"], "resolved_manually");
        let outcomes: Vec<&str> = patched["attempt_history"].as_array().unwrap().iter().map(|one| one["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["failed", "failed"], "nothing vanishes: {patched}");
        assert!(patched["last_failure_at"].as_str() >= shown["last_failure_at"].as_str(), "{patched}");
        api.until(&run, "success").await;
        node.stop().await;
    }

    async fn a_task_that_has_not_started_is_settled_by_hand(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true'}, b: {needs: a, run: 'true'}, c: {needs: b, run: 'true'}}}").await;
        let run = api.start("w").await;
        act(api, &run, "b", json!({"action": "resolve_manually", "output": {"n": 1}}), 200).await;
        assert_eq!(api.task(&run, "b").await["output"], json!({"n": 1}));
        assert_eq!(api.task(&run, "c").await["status"], "ready");
        act(api, &run, "a", json!({"action": "cancel", "reason": "no"}), 200).await;
        assert_eq!(api.task(&run, "a").await["status"], "cancelled");
        let many = api.post(&format!("/v1/tasks/{run}/workflow_steps/batch")).role(Role::Operator)
            .json(json!({"step_uuids": ["c", "nothing"], "action": "skip"})).send().await.expect(200).body();
        assert_eq!((&many["items"][0]["ok"], &many["items"][1]["ok"]), (&json!(true), &json!(false)));
        let many = api.post(&format!("/api/v1/workflow-runs/{run}/tasks/actions")).role(Role::Operator)
            .json(json!({"tasks": ["c"], "action": "skip"})).send().await.expect(200).body();
        assert_eq!(many["items"][0]["ok"], false, "it has ended, and so has its run: {many}");
    }

    async fn a_running_task_is_only_asked_to_stop(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'sleep 300', retry: {attempts: 1}}}}").await;
        let node = api.node().await;
        let run = api.start("w").await;
        api.until_task(&run, "a", "running").await;
        for action in ["skip", "resolve_manually", "retry", "reset_attempts"] {
            act(api, &run, "a", json!({"action": action}), 409).await;
        }
        act(api, &run, "a", json!({"action": "cancel"}), 200).await;
        api.until_task(&run, "a", "cancelled").await;
        node.stop().await;
    }

    async fn attempts_are_reset_overridden_and_not_waited_for(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'exit 1', retry: {attempts: 3, delay: 1h, max_delay: 1h}}}}").await;
        let node = api.node().await;
        let run = api.start("w").await;
        let waits = api.until_task(&run, "a", "retrying").await;
        assert_eq!((&waits["retry_eligible"], &waits["attempt_history"][0]["outcome"]), (&json!(false), &json!("failed")));
        assert!(waits["next_retry_at"].is_string() && waits["blocked_by"][0].as_str().unwrap().contains("next attempt at"), "{waits}");
        let config = |body: Value| api.patch(&format!("/api/v1/workflow-runs/{run}/tasks/a/config")).role(Role::Operator).json(body);
        config(json!({"retry": {"attempts": 0}})).send().await.expect(422);
        config(json!({"retry": {"attempts": 1}})).send().await.expect(409);
        assert_eq!(config(json!({"retry": {"max_attempts": 2}, "by": "ann"})).send().await.expect(200).body()["max_attempts"], 2);
        // Both at once, in the words that other clients know.
        let both = config(json!({"retry": {"max_attempts": 3}, "timeout_seconds": 90, "resolved_by": "ann"})).send().await.expect(200).body();
        assert_eq!(both["max_attempts"], 3);
        config(json!({"retry": {"max_attempts": 2}})).send().await.expect(200);
        config(json!({"timeout_seconds": 0})).send().await.expect(422);
        config(json!({"timeout_secs": 9})).send().await.expect(422);
        act(api, &run, "a", json!({"action": "reset_attempts"}), 200).await;
        act(api, &run, "a", json!({"action": "retry"}), 200).await;
        let again = async || Ok(Some(api.task(&run, "a").await).filter(|one| one["status"] == "retrying" && one["attempt"] == 2));
        mainspring_testkit::wait::until("the second failure", std::time::Duration::from_secs(120), again).await.unwrap();
        act(api, &run, "a", json!({"action": "retry"}), 200).await;
        api.until(&run, "failed").await;
        assert_eq!(api.task(&run, "a").await["attempt"], 3);
        node.stop().await;
    }

    async fn approvals_and_results_are_given(api: &TestApi) {
        api.store("name: w\ntasks:\n  ask:\n    approval: {message: go?}\n  result:\n    wait: {result: true}\n").await;
        let node = api.node().await;
        let run = api.start("w").await;
        let waits = api.until_task(&run, "ask", "waiting").await;
        assert!(waits["blocked_by"][0].as_str().unwrap().starts_with("waits for an approval"), "{waits}");
        act(api, &run, "ask", json!({"action": "approve", "by": "ann"}), 200).await;
        api.until_task(&run, "result", "waiting").await;
        let deliver = |body: Value| api.post(&format!("/api/v1/workflow-runs/{run}/tasks/result/results")).role(Role::Operator).json(body);
        deliver(json!({"status": "failed"})).send().await.expect(422);
        deliver(json!({"status": "unknown"})).send().await.expect(422);
        deliver(json!({"status": "success", "results": {"n": 1}, "submitted_by": "robot"})).send().await.expect(200);
        api.until(&run, "success").await;
        deliver(json!({"status": "success"})).send().await.expect(409);
        act(api, &run, "ask", json!({"action": "approve"}), 409).await;
        act(api, &run, "ask", json!({"action": "dance"}), 422).await;
        act(api, &run, "ask", json!({"action": "skip", "reason": "a\u{0}"}), 422).await;
        node.stop().await;
    }

    async fn what_holds_a_task_back_is_told(api: &TestApi) {
        api.put("/api/v1/pools/db").role(Role::Operator).json(json!({"slots": 0})).send().await.expect(200);
        api.store("{name: gated, tasks: {a: {run: 'true', pool: db}}}").await;
        api.store("{name: limited, concurrency: {limit: 1}, tasks: {a: {run: 'true', queue: gpu, labels: {zone: b}}}}").await;
        let gated = api.start("gated").await;
        assert_eq!(api.task(&gated, "a").await["blocked_by"], json!(["waits for a slot of pool `db`, of which 0 of 0 are held"]));
        let first = api.start("limited").await;
        assert_eq!(api.task(&first, "a").await["blocked_by"], json!(["no live worker serves queue `gpu` with the labels zone=b"]));
        let second = api.start("limited").await;
        let words = api.task(&second, "a").await;
        assert!(words["blocked_by"][0].as_str().unwrap().starts_with("its run waits for the concurrency key"), "{words}");
        act(api, &second, "a", json!({"action": "skip"}), 409).await;
    }
}
