//! What becomes of a namespace in which tasks run when it is deleted.

use std::time::Duration;

use mainspring_server::Role;
use mainspring_testkit::wait;
use serde_json::json;

use crate::on_both;

const PATIENCE: Duration = Duration::from_secs(120);

/// Whether the process lives; a zombie does not.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

on_both! {
    async fn deletion_with_cascade_stops_running_tasks_and_leaves_nothing(api: &TestApi) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let node = api.trusted_node().await;
        let put = async |target: &str, body| api.put(target).role(Role::Admin).json(body).send().await;
        let post = async |target: &str, body| api.post(target).role(Role::Admin).json(body).send().await;
        post("/api/v1/namespaces", json!({"name": "busy"})).await.expect(201);
        post("/api/v1/namespaces", json!({"name": "calm"})).await.expect(201);
        for namespace in ["busy", "calm"] {
            put(&format!("/api/v1/secrets/KEY?namespace={namespace}"), json!({"value": "x"})).await.expect(201);
            put(&format!("/api/v1/pools/p?namespace={namespace}"), json!({"slots": 2})).await.expect(200);
            let job = json!({"name": "j", "schedule": "0 3 * * *", "handler_name": "noop", "namespace": namespace});
            post("/api/v1/scheduler/jobs/cron", job).await.expect(201);
        }
        let text = format!(
            "{{name: w, namespace: busy, triggers: [{{cron: '0 3 * * *'}}], tasks: {{t: {{run: 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 3600'}}, after: {{needs: t, run: 'true'}}}}}}",
            file.display()
        );
        api.store(&text).await;
        let made = post("/api/v1/workflows/w/trigger?namespace=busy", json!({})).await.expect(201).body();
        let run = made["id"].as_str().unwrap();
        let pid = wait::until("the task runs", PATIENCE, async || Ok(std::fs::read_to_string(&file).ok())).await.unwrap();
        let pid = pid.trim();
        assert!(is_alive(pid));

        // Not by accident.
        api.delete("/api/v1/namespaces/busy").role(Role::Admin).send().await.expect(409);
        api.until(run, "running").await;
        let delete = async || api.delete("/api/v1/namespaces/busy?cascade=true").role(Role::Admin).send().await;
        wait::until("the namespace is gone", PATIENCE, async || {
            let answer = delete().await;
            if answer.status.as_u16() == 204 {
                return Ok(Some(()));
            }
            // It takes a moment until what runs has ended; then the same request goes through.
            let answer = answer.expect(409);
            assert_eq!(answer.header("retry-after"), "1");
            Ok(None)
        })
        .await
        .unwrap();
        wait::until("the process is gone", PATIENCE, async || Ok((!is_alive(pid)).then_some(()))).await.unwrap();
        api.get(&format!("/api/v1/workflow-runs/{run}")).role(Role::Admin).send().await.expect(404);
        api.get("/api/v1/namespaces/busy").role(Role::Admin).send().await.expect(404);
        for list in ["workflows", "workflow-runs", "schedules", "secrets", "pools", "scheduler/jobs"] {
            let items = |namespace: &str| api.get(&format!("/api/v1/{list}?namespace={namespace}")).role(Role::Admin).send();
            let left = items("busy").await.expect(200).body();
            assert_eq!(left["items"], json!([]), "{list}");
            if !["workflow-runs"].contains(&list) {
                let others = items("calm").await.expect(200).body();
                assert_ne!(others["items"], json!([]), "{list} of another namespace");
            }
        }
        delete().await.expect(404);
        node.stop().await;
    }
}
