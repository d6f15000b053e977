//! Files of one task for another, by the protocol of remote workers.

use mainspring_server::Role;
use serde_json::json;

use crate::on_both;
use crate::worker::{Played, finished, node};

const HANDOVER: &str = "name: handover\ntasks:\n  make: {run: make, queue: make, artifacts: {dist: dist/, other: x}}\n  \
                        take: {needs: make, run: take, queue: take, files_from: [tasks.make.artifacts.dist]}\n  \
                        tidy: {run: tidy, queue: tidy}\n";
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

on_both! {
    async fn a_worker_gets_the_files_that_its_attempt_is_given(api: &TestApi) {
        let node = node(api).await;
        api.store(HANDOVER).await;
        let run = api.start("handover").await;
        let (maker, taker) = (Played::register(api, &["make"]).await, Played::register(api, &["take"]).await);
        let (made, seq) = maker.assigned(1).await;
        assert_eq!(made["order"]["process"]["artifacts_limit"], 10 << 20);
        let make = made["task_run_id"].as_str().unwrap().to_owned();
        for name in ["dist%2Fapp", "x"] {
            let target = format!("/api/v1/worker/artifacts/{make}/1/{name}?session_id={}&executable=true", maker.id);
            let put = maker.call(api.put(&target)).text("application/octet-stream", "hello");
            put.header("mainspring-sha256", HELLO).send().await.expect(200);
        }
        let (_, seq) = maker.hand_in(seq, json!([finished(&made, json!({"outcome": "success"}))])).await;
        let (taken, _) = taker.assigned(1).await;
        let incoming = json!([{"task_run_id": make, "attempt": 1, "name": "dist/app", "path": "dist/app", "executable": true, "bytes": 5, "sha256": HELLO}]);
        assert_eq!(taken["order"]["process"]["incoming"], incoming, "{taken}");

        let take = taken["task_run_id"].as_str().unwrap();
        let target = |name: &str, of: &Played<'_>, holder: &str| {
            format!("/api/v1/worker/artifacts/{make}/1/{name}?session_id={}&for_task_run_id={holder}&for_attempt=1", of.id)
        };
        let got = taker.call(api.get(&target("dist%2Fapp", &taker, take))).send().await.expect(200);
        assert_eq!(got.text, "hello");
        taker.call(api.get(&target("nothing", &taker, take))).send().await.expect(410);
        // Who does not hold the attempt gets nothing.
        maker.call(api.get(&target("dist%2Fapp", &maker, take))).send().await.expect(409);
        taker.call(api.get(&target("dist%2Fapp", &taker, &make))).send().await.expect(409);
        taker.call(api.get(&target("dist%2Fapp", &taker, "x"))).send().await.expect(422);
        let elsewhere = api.start("handover").await;
        let (other, _) = maker.assigned(seq).await;
        let other = other["task_run_id"].as_str().unwrap();
        assert!(other.starts_with(&elsewhere), "{other}");
        maker.call(api.get(&target("dist%2Fapp", &maker, other))).send().await.expect(409);

        let listed = api.get(&format!("/api/v1/workflow-runs/{run}/artifacts")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((&listed["items"][0]["sha256"], &listed["items"][0]["executable"]), (&json!(HELLO), &json!(true)), "{listed}");
        node.stop().await;
    }

    async fn what_is_too_large_for_the_database_is_refused(api: &TestApi) {
        let node = node(api).await;
        api.store(HANDOVER).await;
        api.start("handover").await;
        let maker = Played::register(api, &["make"]).await;
        let (made, _) = maker.assigned(1).await;
        let make = made["task_run_id"].as_str().unwrap();
        let target = format!("/api/v1/worker/artifacts/{make}/1/x?session_id={}", maker.id);
        let large = "x".repeat((10 << 20) + 1);
        let put = maker.call(api.put(&target)).text("application/octet-stream", &large);
        let refused = put.header("mainspring-sha256", HELLO).send().await.expect(413);
        assert!(refused.text.contains("artifacts.url"), "{}", refused.text);
        node.stop().await;
    }
}
