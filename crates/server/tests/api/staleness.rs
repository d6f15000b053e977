//! Staleness: healthy, warning, stale; what the detector does, and what it leaves alone.

use mainspring_server::Role;
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::TestApi;

const MINUTE: i64 = 60_000_000;

async fn staleness(api: &TestApi) -> Vec<Value> {
    let shown = api.get("/api/v1/dlq/staleness").role(Role::Viewer).send().await.expect(200).body();
    shown["items"].as_array().unwrap().clone()
}

async fn detect(api: &TestApi, dry_run: bool) -> Vec<Value> {
    let body = json!({"dry_run": dry_run});
    let done = api.post("/api/v1/dlq/detect").role(Role::Operator).json(body).send().await.expect(200).body();
    done["items"].as_array().unwrap().clone()
}

/// Lets every open run stand still for so long.
async fn stand_still(api: &TestApi, minutes: i64) {
    let by = minutes * MINUTE;
    api.database.execute(&format!("UPDATE runs SET progress_at = progress_at - {by}")).await;
    api.database.execute(&format!("UPDATE task_runs SET started_at = started_at - {by}, due_at = due_at - {by}")).await;
}

async fn health(api: &TestApi) -> String {
    staleness(api).await[0]["health_status"].as_str().unwrap().to_owned()
}

on_both! {
    async fn a_run_turns_from_healthy_over_warning_to_stale(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true'}, b: {needs: a, run: 'true'}}}").await;
        let run = api.start("w").await;
        assert_eq!(health(api).await, "healthy");
        let in_view = async || api.database.texts("SELECT health_status FROM v_task_staleness_monitoring").await;
        assert_eq!(in_view().await, ["healthy"]);
        stand_still(api, 50).await;
        let shown = staleness(api).await;
        assert_eq!((&shown[0]["health_status"], &shown[0]["current_state"]), (&json!("warning"), &json!("waiting_for_dependencies")));
        assert_eq!(in_view().await, ["warning"]);
        assert!((83.0..84.0).contains(&shown[0]["threshold_percentage"].as_f64().unwrap()), "{shown:?}");
        assert!(detect(api, false).await.is_empty(), "a warning is left alone");
        stand_still(api, 11).await;
        assert_eq!((health(api).await.as_str(), in_view().await[0].as_str()), ("stale", "stale"));
        let plain = api.get("/v1/dlq/staleness?health=stale").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(plain[0]["task_uuid"], json!(run));
        api.get("/api/v1/dlq/staleness?health=ill").role(Role::Viewer).send().await.expect(400);
        api.post("/api/v1/dlq/detect").role(Role::Operator).json(json!({"batch_size": 0})).send().await.expect(422);
    }

    async fn stale_while_waiting_for_dependencies(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true'}, b: {needs: a, run: 'true'}}}").await;
        let run = api.start("w").await;
        stand_still(api, 61).await;
        let would = detect(api, true).await;
        assert_eq!((&would[0]["run_id"], &would[0]["action_taken"], &would[0]["moved_to_dlq"]), (&json!(run), &json!("would_transition"), &json!(false)));
        assert_eq!(api.until(&run, "running").await["status"], "running", "a dry run changes nothing");
        let (one, two, three, four) = tokio::join!(detect(api, false), detect(api, false), detect(api, false), detect(api, false));
        let moved: Vec<Value> = [one, two, three, four].concat().into_iter().filter(|one| one["moved_to_dlq"] == true).collect();
        assert_eq!(moved.len(), 1, "never a second pending entry");
        assert_eq!((&moved[0]["action_taken"], &moved[0]["transition_success"]), (&json!("transitioned_to_dlq_and_error"), &json!(true)));
        let shown = api.until(&run, "failed").await;
        assert!(shown["reason"].as_str().unwrap().starts_with("stale: waiting_for_dependencies for 61"), "{shown}");
        assert_eq!(api.task(&run, "a").await["status"], "cancelled");
        assert!(api.task(&run, "b").await["error"].as_str().unwrap().starts_with("stale"));
        let entry = api.get(&format!("/api/v1/dlq/run/{run}")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((&entry["dlq_reason"], &entry["resolution_status"]), (&json!("staleness_timeout"), &json!("pending")));
        assert_eq!((&entry["task_snapshot"]["current_state"], &entry["task_snapshot"]["threshold_minutes"]), (&json!("waiting_for_dependencies"), &json!(60.0)));
        assert!(staleness(api).await.is_empty(), "ended runs are not watched");
        assert!(detect(api, false).await.is_empty());
        let id = entry["id"].as_str().unwrap();
        api.post(&format!("/api/v1/dlq/{id}/skip")).role(Role::Operator).send().await.expect(409);
        api.post(&format!("/api/v1/dlq/{id}/retry")).role(Role::Operator).send().await.expect(200);
        let node = api.node().await;
        api.until(&run, "success").await;
        node.stop().await;
    }

    async fn stale_with_steps_in_process(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'sleep 300'}}}").await;
        let node = api.node().await;
        let run = api.start("w").await;
        api.until_task(&run, "a", "running").await;
        stand_still(api, 20).await;
        assert_eq!(staleness(api).await[0]["current_state"], "steps_in_process");
        assert!(detect(api, false).await.is_empty());
        stand_still(api, 11).await;
        assert_eq!(detect(api, false).await[0]["action_taken"], "transitioned_to_dlq_and_error");
        api.until(&run, "failed").await;
        let killed = api.task(&run, "a").await;
        assert_eq!(killed["status"], "cancelled", "its attempt was killed: {killed}");
        node.stop().await;
    }

    async fn workflows_have_thresholds_of_their_own(api: &TestApi) {
        api.store("{name: w, lifecycle: {waiting_for_dependencies: 10m}, tasks: {a: {run: 'true'}}}").await;
        api.store("{name: patient, tasks: {a: {run: 'sleep 300', timeout: 2h}}}").await;
        api.start("w").await;
        stand_still(api, 11).await;
        let shown = staleness(api).await;
        assert_eq!((&shown[0]["staleness_threshold_minutes"], &shown[0]["health_status"]), (&json!(10.0), &json!("stale")));
        detect(api, false).await;
        let node = api.node().await;
        let run = api.start("patient").await;
        api.until_task(&run, "a", "running").await;
        stand_still(api, 60).await;
        assert_eq!((&staleness(api).await[0]["staleness_threshold_minutes"], health(api).await.as_str()), (&json!(120.0), "healthy"));
        api.post(&format!("/api/v1/workflow-runs/{run}/cancel")).role(Role::Operator).send().await.expect(200);
        api.until(&run, "cancelled").await;
        node.stop().await;
    }

    async fn paused_runs_and_runs_that_wait_by_their_own_clock_are_left_alone(api: &TestApi) {
        api.store("{name: paused, tasks: {a: {run: 'true'}}}").await;
        api.store("{name: waiting, tasks: {a: {wait: {for: 20h}}}}").await;
        api.store("{name: open-ended, tasks: {a: {approval: {}}}}").await;
        let node = api.node().await;
        let waiting = api.start("waiting").await;
        let asks = api.start("open-ended").await;
        api.until_task(&waiting, "a", "waiting").await;
        api.until_task(&asks, "a", "waiting").await;
        node.stop().await;
        let paused = api.start("paused").await;
        api.post(&format!("/api/v1/workflow-runs/{paused}/pause")).role(Role::Operator).send().await.expect(200);
        api.database.execute(&format!("UPDATE runs SET progress_at = progress_at - {}", 600 * MINUTE)).await;
        let found = detect(api, true).await;
        assert_eq!((found.len(), &found[0]["run_id"]), (1, &json!(asks)), "an approval without a timeout has no clock of its own");
        api.database.execute(&format!("UPDATE runs SET started_at = started_at - {}, created_at = created_at - {}", 1_500 * MINUTE, 1_500 * MINUTE)).await;
        assert_eq!(detect(api, true).await.len(), 3, "the lifetime counts for all");
        for run in [waiting, asks, paused] {
            api.post(&format!("/api/v1/workflow-runs/{run}/cancel")).role(Role::Operator).send().await.expect(200);
        }
    }
}
