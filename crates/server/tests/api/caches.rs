//! Results and files of earlier runs, by the protocol of remote workers.

use mainspring_server::Role;
use serde_json::json;

use crate::on_both;
use crate::worker::{Played, finished, node};

const REPORT: &str = "name: report\ninputs: {day: {type: string, default: monday}}\ntasks:\n  \
                      compute: {run: x, reuse: {key: \"${{ inputs.day }}\", ttl: 1h}, publishes_events: [report.done]}\n\
                      outputs: {rows: \"${{ tasks.compute.output.rows }}\"}\n";
const BUILD: &str = "name: build\ntasks:\n  build: {run: x, cache: {key: deps, paths: deps/, ttl: 1h}}\n";
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

on_both! {
    async fn a_result_that_is_kept_is_not_computed_again(api: &TestApi) {
        let node = node(api).await;
        api.store(REPORT).await;
        let first = api.start("report").await;
        let worker = Played::register(api, &["default"]).await;
        let (assignment, seq) = worker.assigned(1).await;
        assert!(assignment["order"]["process"]["remarks"][0].as_str().unwrap().contains("no result for the key `monday`"));
        let done = finished(&assignment, json!({"outcome": "success", "output": {"rows": 3}}));
        let (_, seq) = worker.hand_in(seq, json!([done])).await;
        let computed = api.task(&first, "compute").await;
        assert_eq!(computed["reuse"], json!({"key": "monday", "hit": false, "run_id": null}), "{computed}");

        let second = api.start("report").await;
        // It asks, and what is claimed for it ends without it.
        let path = format!("/api/v1/workflow-runs/{second}");
        let mut seq = seq;
        while api.get(&path).role(Role::Viewer).send().await.expect(200).body()["status"] != "success" {
            let body = json!({"session_id": worker.id, "seq": seq, "want": {"process": 1}, "wait_ms": 1000});
            let answer = worker.call(api.post("/api/v1/worker/exchange")).json(body).send().await.expect(200).body();
            assert_eq!(answer["assignments"], json!([]), "{answer}");
            seq += 1;
            assert!(seq < 100, "the run does not end");
        }
        let reused = api.task(&second, "compute").await;
        assert_eq!(reused["reuse"], json!({"key": "monday", "hit": true, "run_id": first}), "{reused}");
        assert_eq!((&reused["status"], &reused["output"]), (&json!("success"), &json!({"rows": 3})));
        let outputs = api.until(&second, "success").await["outputs"].clone();
        assert_eq!(outputs, json!({"rows": 3}));
        let log = api.get(&format!("/api/v1/workflow-runs/{second}/tasks/compute/logs")).role(Role::Viewer).send().await;
        assert!(log.expect(200).text.contains("is not executed"));
        node.stop().await;
    }

    async fn files_of_a_cache_go_to_the_attempt_that_was_given_them(api: &TestApi) {
        let node = node(api).await;
        api.store(BUILD).await;
        api.start("build").await;
        let worker = Played::register(api, &["default"]).await;
        let (made, seq) = worker.assigned(1).await;
        assert_eq!(made["order"]["process"]["cache"], json!({"saved": ["deps/"], "limit": 10 << 20}), "{made}");
        let key = made["task_run_id"].as_str().unwrap().to_owned();
        let target = format!("/api/v1/worker/artifacts/{key}/1/deps%2Fa?session_id={}&cache_files=1", worker.id);
        let put = worker.call(api.put(&target)).text("application/octet-stream", "hello");
        put.header("mainspring-sha256", HELLO).send().await.expect(200);
        let (_, seq) = worker.hand_in(seq, json!([finished(&made, json!({"outcome": "success"}))])).await;

        let second = api.start("build").await;
        let (given, _) = worker.assigned(seq).await;
        let restored = json!([{"task_run_id": key, "attempt": 1, "name": "deps/a", "path": "deps/a", "bytes": 5,
            "executable": false, "sha256": HELLO, "cached": true}]);
        assert_eq!(given["order"]["process"]["cache"]["restored"], restored, "{given}");
        assert_eq!(api.task(&second, "build").await["cache"]["hit"], true);
        let holder = given["task_run_id"].as_str().unwrap();
        let target = |of: &str, more: &str| {
            format!("/api/v1/worker/artifacts/{of}/1/deps%2Fa?session_id={}&for_task_run_id={holder}&for_attempt=1{more}", worker.id)
        };
        let got = worker.call(api.get(&target(&key, "&cached=true"))).send().await.expect(200);
        assert_eq!(got.text, "hello");
        // Files of other attempts, or artifacts of other runs, are not given.
        worker.call(api.get(&target(holder, "&cached=true"))).send().await.expect(409);
        worker.call(api.get(&target(&key, ""))).send().await.expect(409);
        node.stop().await;
    }
}
