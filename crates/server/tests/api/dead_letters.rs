//! Dead letters: how they arise, how they are looked at, and what is done about them.

use std::time::Duration;

use mainspring_server::{Grant, Role, Where};
use mainspring_testkit::wait;
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::{Answer, TestApi};

const CHAIN: &str = "{name: w, inputs: {n: {type: integer, default: 7}}, tasks: {\
    a: {run: 'echo \"before ${{ inputs.n }}\"; echo oh no >&2; exit 3', retry: {attempts: 2, delay: 1ms}, env: {N: '${{ inputs.n }}'}}, \
    b: {needs: a, run: 'true'}}}";

async fn get(api: &TestApi, target: &str) -> Value {
    api.get(&format!("/api/v1{target}")).role(Role::Viewer).send().await.expect(200).body()
}

async fn act(api: &TestApi, entry: &str, action: &str, body: Value) -> Answer {
    api.post(&format!("/api/v1/dlq/{entry}/{action}")).role(Role::Operator).json(body).send().await
}

/// A failed run and its entry.
async fn failed(api: &TestApi) -> (String, String) {
    let run = api.start("w").await;
    api.until(&run, "failed").await;
    let entry = get(api, &format!("/dlq/run/{run}")).await;
    (run, entry["id"].as_str().unwrap().to_owned())
}

async fn entry(api: &TestApi, id: &str) -> Value {
    get(api, &format!("/dlq/{id}")).await
}

on_both! {
    async fn every_way_to_close_an_entry_is_measured(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'exit 1'}, b: {run: 'exit 1'}, c: {run: 'exit 1'}}}").await;
        let node = api.node().await;
        let run = api.start("w").await;
        api.until(&run, "failed").await;
        let entry = api.get(&format!("/api/v1/dlq/task/{run}.0")).role(Role::Viewer).send().await.expect(200).body();
        let target = format!("/api/v1/dlq/{}", entry["id"].as_str().unwrap());
        for notes in ["lost", "for ever"] {
            let edit = json!({"resolution_status": "permanent_failure", "resolution_notes": notes});
            api.patch(&target).role(Role::Operator).json(edit).send().await.expect(200);
        }
        for (task, action) in [("b", "skip"), ("c", "resolve_manually")] {
            let target = format!("/api/v1/workflow-runs/{run}/tasks/{task}/actions");
            api.post(&target).role(Role::Operator).json(json!({"action": action})).send().await.expect(200);
            api.until(&run, "failed").await;
        }
        let metrics = api.get("/metrics").role(Role::Viewer).send().await.expect(200).text;
        for status in ["permanent_failure", "skipped", "resolved"] {
            let line = format!("scheduler_dlq_time_in_queue_seconds_count{{resolution_status=\"{status}\",dlq_reason=\"max_retries_exceeded\"}} 1\n");
            assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
        }
        node.stop().await;
    }

    async fn entries_that_close_with_a_whole_run_are_measured(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'exit 1'}, b: {run: 'exit 1'}}}").await;
        let node = api.node().await;
        let run = api.start("w").await;
        for (action, body, closed) in [
            ("retry", json!({}), 2),
            ("rerun", json!({"from": "a"}), 3),
            ("tasks/b/actions", json!({"action": "retry"}), 4),
            ("tasks/b/actions", json!({"action": "retry", "inputs": {}}), 5),
        ] {
            api.until(&run, "failed").await;
            let pending = api.get(&format!("/api/v1/dlq?run={run}&status=pending")).role(Role::Viewer).send().await.expect(200).body();
            assert_eq!(pending["items"].as_array().unwrap().len(), 2, "{pending}");
            let target = format!("/api/v1/workflow-runs/{run}/{action}");
            api.post(&target).role(Role::Operator).json(body).send().await.expect(200);
            let metrics = api.get("/metrics").role(Role::Viewer).send().await.expect(200).text;
            for line in [
                format!("scheduler_dlq_time_in_queue_seconds_count{{resolution_status=\"retried\",dlq_reason=\"max_retries_exceeded\"}} {closed}\n"),
                format!("scheduler_dlq_retried_total {closed}\n"),
            ] {
                assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
            }
        }
        node.stop().await;
    }

    async fn exhausted_retries_arrive_with_full_context(api: &TestApi) {
        api.store(CHAIN).await;
        let node = api.node().await;
        let (run, id) = failed(api).await;
        let shown = entry(api, &id).await;
        assert_eq!(shown["dlq_reason"], "max_retries_exceeded");
        assert_eq!((&shown["task_name"], &shown["workflow"], &shown["namespace"]), (&json!("a"), &json!("w"), &json!("default")));
        assert_eq!((&shown["total_attempts"], &shown["resolution_status"]), (&json!(2), &json!("pending")));
        assert_eq!(shown["task_run_id"], format!("{run}.0"));
        assert_eq!(shown["error_type"], "exit");
        assert!(shown["error_message"].as_str().unwrap().contains('3'), "{shown}");
        assert!(shown["stack_trace"].as_str().unwrap().contains("oh no"), "{shown}");
        assert!(shown["last_attempt_at"].is_string() && shown["dlq_timestamp"].is_string());
        assert_eq!(shown["task_config"]["retry"]["attempts"], 2);
        assert_eq!(shown["execution_context"]["inputs"]["n"], 7);
        assert_eq!(shown["execution_context"]["rendered"]["env"]["N"], "7");
        assert_eq!(shown["task_snapshot"]["run_id"], run);
        assert_eq!(shown["fingerprint"].as_str().unwrap().len(), 16);
        assert_eq!(id.as_bytes()[14], b'7', "a UUID v7: {id}");
        assert!(shown["links"]["logs"].as_str().unwrap().ends_with("/logs"));
        let listed = get(api, "/dlq?status=pending&reason=max_retries_exceeded&workflow=w").await;
        assert_eq!(listed["items"][0]["id"], json!(id));
        assert!(listed["items"][0].get("task_config").is_none(), "lists are short");
        assert_eq!(get(api, &format!("/dlq/task/{run}.0")).await["id"], json!(id));
        assert_eq!(get(api, &format!("/dlq/task/{run}")).await["id"], json!(id));
        let plain = api.get("/v1/dlq?resolution_status=pending&dagId=w").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((&plain[0]["dlq_entry_uuid"], &plain[0]["task_uuid"]), (&json!(id), &json!(run)));
        node.stop().await;
    }

    async fn one_investigation_from_entry_to_resolution(api: &TestApi) {
        api.store(CHAIN).await;
        let node = api.node().await;
        let none = get(api, "/dlq/stats").await;
        assert_eq!((&none["pending_count"], &none["oldest_pending_age_seconds"]), (&json!(0), &Value::Null));
        let (_, id) = failed(api).await;
        let queue = get(api, "/dlq/investigation-queue").await;
        assert_eq!(queue["items"][0]["dlq_entry_id"], json!(id));
        assert!(queue["items"][0]["priority_score"].as_f64().unwrap() >= 20.0);
        let stats = get(api, "/dlq/stats").await;
        assert_eq!((&stats["pending_count"], &stats["by_reason"][0]["dlq_reason"]), (&json!(1), &json!("max_retries_exceeded")));
        assert!(stats["oldest_pending_age_seconds"].as_f64().unwrap() >= 0.0);
        assert_eq!(api.database.texts("SELECT dlq_reason || ' ' || pending || ' ' || manually_resolved FROM v_dlq_dashboard").await, ["max_retries_exceeded 1 0"]);
        assert_eq!(api.database.texts("SELECT task_name || ' ' || dlq_reason FROM v_dlq_investigation_queue").await, ["a max_retries_exceeded"]);

        let patch = |body: Value| api.patch(&format!("/api/v1/dlq/entry/{id}")).role(Role::Operator).json(body);
        let noted = patch(json!({"resolution_notes": "looking", "metadata": {"ticket": 5}})).send().await.expect(200).body();
        assert_eq!((&noted["resolution_status"], &noted["metadata"]["ticket"]), (&json!("pending"), &json!(5)));
        act(api, &id, "resolve", json!({"notes": "by hand", "resolved_by": "ann"})).await.expect(204);
        let closed = entry(api, &id).await;
        assert_eq!((&closed["resolution_status"], &closed["resolved_by"], &closed["resolution_notes"]), (&json!("resolved"), &json!("ann"), &json!("by hand")));
        assert_eq!(closed["acted_by"], "operator", "the token stands beside the name");
        assert_eq!(get(api, "/dlq/investigation-queue").await["items"], json!([]));
        assert_eq!(get(api, "/dlq/stats").await["by_reason"][0]["manually_resolved"], 1);
        assert_eq!(api.database.texts("SELECT dlq_reason || ' ' || pending || ' ' || manually_resolved FROM v_dlq_dashboard").await, ["max_retries_exceeded 0 1"]);
        assert!(api.database.texts("SELECT dlq_reason FROM v_dlq_investigation_queue").await.is_empty());

        let after = patch(json!({"resolution_notes": "also after closing", "resolution_status": "permanent_failures"})).send().await.expect(200).body();
        assert_eq!(after["resolution_status"], "permanent_failure");
        patch(json!({"resolution_status": "nonsense"})).send().await.expect(422);
        patch(json!({"metadata": {"long": "x".repeat(70_000)}})).send().await.expect(422);
        patch(json!({"metadata": "x".repeat(1 << 20)})).send().await.expect(413);
        node.stop().await;
    }

    async fn retry_skip_and_resolve_do_what_they_say(api: &TestApi) {
        api.store(CHAIN).await;
        let node = api.node().await;
        for (action, status, state, code) in [("skip", "skipped", "skipped", 204), ("resolve", "resolved", "resolved_manually", 204)] {
            let (run, id) = failed(api).await;
            act(api, &id, action, json!({"reason": "because", "by": "ann"})).await.expect(code);
            api.until(&run, "success").await;
            assert_eq!(api.task(&run, "a").await["status"], state);
            assert_eq!(entry(api, &id).await["resolution_status"], status);
            let again = act(api, &id, action, json!({})).await.expect(409);
            assert!(again.text.contains("by ann"), "{}", again.text);
        }
        let (run, id) = failed(api).await;
        let reopened = act(api, &id, "retry", json!({})).await.expect(200).body();
        assert_eq!(reopened["id"], json!(run));
        assert_eq!(entry(api, &id).await["resolution_status"], "retried");
        api.until(&run, "failed").await;
        let next = get(api, &format!("/dlq/run/{run}")).await;
        assert_ne!(next["id"], json!(id), "it failed again: a new entry");
        assert_eq!((&next["resolution_status"], &next["total_attempts"]), (&json!("pending"), &json!(4)));
        let made = api.post(&format!("/api/v1/dlq/{}/retry?as=new_run", next["id"].as_str().unwrap())).role(Role::Operator).send().await.expect(200).body();
        assert_ne!(made["id"], json!(run));
        assert_eq!((&made["inputs"]["n"], &made["trigger"]["kind"]), (&json!(7), &json!("dead_letter")));
        api.post(&format!("/api/v1/dlq/{id}/retry?as=nonsense")).role(Role::Operator).send().await.expect(400);
        node.stop().await;
    }

    async fn of_four_clients_one_wins(api: &TestApi) {
        api.store(CHAIN).await;
        let node = api.node().await;
        let (run, id) = failed(api).await;
        let client = |name: &'static str| act(api, &id, "skip", json!({"by": name}));
        let (one, two, three, four) = tokio::join!(client("one"), client("two"), client("three"), client("four"));
        let answers = [one, two, three, four];
        let won: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 204).collect();
        let lost: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 409).collect();
        assert_eq!((won.len(), lost.len()), (1, 3), "{answers:?}");
        let by = entry(api, &id).await["resolved_by"].as_str().unwrap().to_owned();
        for answer in lost {
            assert!(answer.text.contains(&format!("by {by} at 20")), "who and when: {}", answer.text);
        }
        api.until(&run, "success").await;
        node.stop().await;
    }

    async fn an_action_on_the_task_closes_its_entry_alone(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'exit 1'}, b: {run: 'exit 1'}, c: {run: 'exit 1'}}}").await;
        let node = api.node().await;
        let run = api.start("w").await;
        api.until(&run, "failed").await;
        assert_eq!(get(api, &format!("/dlq?run={run}")).await["items"].as_array().unwrap().len(), 3);
        let body = json!({"action": "skip", "by": "ann", "metadata": {"why": "late"}});
        api.post(&format!("/api/v1/workflow-runs/{run}/tasks/a/actions")).role(Role::Operator).json(body).send().await.expect(200);
        let of = |task: &'static str| async move { get(api, &format!("/dlq?task={task}")).await["items"][0].clone() };
        assert_eq!((&of("a").await["resolution_status"], &of("a").await["metadata"]["why"]), (&json!("skipped"), &json!("late")));
        assert_eq!((&of("b").await["resolution_status"], &of("c").await["resolution_status"]), (&json!("pending"), &json!("pending")));
        node.stop().await;
    }

    async fn entries_are_made_by_hand(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true'}}}").await;
        let run = api.start("w").await;
        let send = |body: Value| api.post("/api/v1/dlq").role(Role::Operator).json(body);
        let of_run = send(json!({"run_id": run, "reason": "strange", "by": "ann", "metadata": {"n": 1}})).send().await.expect(201).body();
        assert_eq!((&of_run["dlq_reason"], &of_run["original_state"]), (&json!("manual_dlq"), &json!("running")));
        assert!(of_run.get("task_run_id").is_none());
        send(json!({"run_id": run})).send().await.expect(409);
        let of_task = send(json!({"task_run_id": format!("{run}.0")})).send().await.expect(201).body();
        assert_eq!((&of_task["task_name"], &of_task["original_state"]), (&json!("a"), &json!("ready")));
        send(json!({})).send().await.expect(422);
        send(json!({"run_id": uuid()})).send().await.expect(404);
        let id = of_run["id"].as_str().unwrap();
        act(api, id, "skip", json!({})).await.expect(409);
        act(api, id, "retry", json!({})).await.expect(409);
        act(api, id, "resolve", json!({})).await.expect(204);
        assert_eq!(api.task(&run, "a").await["status"], "ready", "the run is not touched");
        api.post(&format!("/api/v1/workflow-runs/{run}/cancel")).role(Role::Operator).send().await.expect(200);
    }

    async fn what_is_elsewhere_closed_or_purged_is_refused(api: &TestApi) {
        api.store(CHAIN).await;
        let node = api.node().await;
        let (run, id) = failed(api).await;
        let stranger = api.make_token("stranger", &[Grant { role: Role::Operator, namespace: Where::Namespace("other".into()) }]).await;
        for target in [format!("/api/v1/dlq/{id}"), format!("/api/v1/dlq/run/{run}"), format!("/api/v1/dlq/{}", uuid())] {
            api.get(&target).bearer(&stranger).send().await.expect(404);
        }
        api.post(&format!("/api/v1/dlq/{id}/retry")).bearer(&stranger).send().await.expect(404);
        assert_eq!(api.get("/api/v1/dlq").bearer(&stranger).send().await.expect(200).body()["items"], json!([]));
        api.post(&format!("/api/v1/dlq/{id}/retry")).role(Role::Viewer).send().await.expect(403);
        api.get("/api/v1/dlq/nonsense").role(Role::Viewer).send().await.expect(400);
        api.get("/api/v1/dlq?status=nonsense").role(Role::Viewer).send().await.expect(400);
        api.patch(&format!("/api/v1/dlq/{id}")).role(Role::Operator).json(json!({"resolution_status": "cancelled"})).send().await.expect(200);
        act(api, &id, "retry", json!({})).await.expect(409);
        let gone = api.client.store().purge_runs(i64::MAX, None).await.unwrap();
        assert_eq!(gone.runs, 1);
        act(api, &id, "retry", json!({})).await.expect(410);
        assert_eq!(entry(api, &id).await["resolution_status"], "cancelled", "the record outlives its run");
        assert_eq!(api.client.store().forget_letters(i64::MAX).await.unwrap(), 1);
        api.get(&format!("/api/v1/dlq/{id}")).role(Role::Viewer).send().await.expect(404);
        node.stop().await;
    }

    async fn one_cause_is_one_group_and_one_batch_heals_it(api: &TestApi) {
        let folder = tempfile::tempdir().unwrap();
        let flag = folder.path().join("repaired");
        api.store(&format!("{{name: w, tasks: {{a: {{run: 'test -e {}'}}}}}}", flag.display())).await;
        api.store("{name: other, tasks: {a: {run: 'exit 9'}}}").await;
        let node = api.node().await;
        let mut runs = Vec::new();
        for _ in 0..12 {
            runs.push(api.start("w").await);
        }
        let other = api.start("other").await;
        for run in runs.iter().chain([&other]) {
            api.until(run, "failed").await;
        }
        let groups = get(api, "/dlq/groups").await;
        let items = groups["items"].as_array().unwrap();
        assert_eq!((items.len(), &items[0]["count"], &items[1]["count"]), (2, &json!(12), &json!(1)));
        assert_eq!((items[0]["samples"].as_array().unwrap().len(), &items[0]["task_name"]), (3, &json!("a")));
        let bars: i64 = items[0]["histogram"].as_array().unwrap().iter().map(|bar| bar["count"].as_i64().unwrap()).sum();
        assert_eq!(bars, 12);

        let fingerprint = items[0]["fingerprint"].as_str().unwrap();
        let batch = |body: Value| api.post("/api/v1/dlq/batch").role(Role::Operator).json(body);
        batch(json!({"action": "retry"})).send().await.expect(422);
        batch(json!({"action": "nonsense", "filter": {"all": true}})).send().await.expect(422);
        let nothing = batch(json!({"action": "retry", "filter": {"fingerprint": "0000"}})).send().await.expect(200).body();
        assert_eq!((&nothing["matched"], &nothing["id"]), (&json!(0), &Value::Null));
        let dry = batch(json!({"action": "retry", "filter": {"fingerprint": fingerprint}, "dry_run": true})).send().await.expect(200).body();
        assert_eq!((&dry["matched"], &dry["status"], dry["samples"].as_array().unwrap().len()), (&json!(12), &json!("would"), 10));
        assert_eq!(get(api, "/dlq/stats").await["pending_count"], 13, "a dry run changes nothing");

        std::fs::write(&flag, "").unwrap();
        let begun = batch(json!({"action": "retry", "filter": {"fingerprint": fingerprint}, "by": "ann"})).send().await.expect(202).body();
        let id = begun["id"].as_str().unwrap();
        let look = async || Ok(Some(get(api, &format!("/dlq/batches/{id}")).await).filter(|batch| batch["status"] == "done"));
        let done = wait::until("the batch is done", Duration::from_secs(60), look).await.unwrap();
        assert_eq!((&done["done"], &done["failed"]), (&json!(12), &json!(0)), "{done}");
        for run in &runs {
            api.until(run, "success").await;
        }
        assert_eq!(api.until(&other, "failed").await["status"], "failed");
        let stats = get(api, "/dlq/stats").await;
        assert_eq!((&stats["pending_count"], &stats["retried_count"]), (&json!(1), &json!(12)));
        node.stop().await;
    }

    async fn a_task_that_nobody_executes_is_reported_until_somebody_does(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true', queue: nobody}}}").await;
        let run = api.start("w").await;
        assert_eq!(api.client.report_unserved(Duration::ZERO).await.unwrap(), 1);
        assert_eq!(api.client.report_unserved(Duration::ZERO).await.unwrap(), 0, "one entry each");
        let shown = get(api, &format!("/dlq/run/{run}")).await;
        assert_eq!((&shown["dlq_reason"], &shown["original_state"]), (&json!("worker_unavailable"), &json!("ready")));
        assert_eq!(api.task(&run, "a").await["status"], "ready");
        let node = api.node().await;
        api.until(&run, "success").await;
        api.client.report_unserved(Duration::ZERO).await.unwrap();
        let closed = entry(api, shown["id"].as_str().unwrap()).await;
        assert_eq!((&closed["resolution_status"], &closed["resolved_by"]), (&json!("resolved"), &json!("system")));
        node.stop().await;
    }
}

fn uuid() -> String {
    "0190f3c2-1111-7abc-8def-0123456789ab".into()
}
