//! `/workflow-runs` and `/task-runs`.

use mainspring_core::TaskKey;
use mainspring_core::time::rfc3339;
use mainspring_server::{Grant, Role};
use serde_json::{Value, json};

use crate::on_both;

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

on_both! {
    async fn a_run_is_followed_from_its_start_to_its_outputs(api: &TestApi) {
        api.store("name: w\ntasks:\n  a:\n    run: |\n      echo 'hello from a'\n  b:\n    needs: a\n    run: echo oops >&2\n").await;
        let run = api.start("w").await;
        let waiting = api.task(&run, "b").await;
        assert_eq!(waiting["blocked_by"], json!(["waits for task `a`, which is ready"]));
        assert_eq!((&waiting["dependencies_satisfied"], &waiting["ready_for_execution"]), (&json!(false), &json!(false)));
        assert_eq!(api.task(&run, "a").await["blocked_by"], json!(["no live worker serves queue `default`"]));
        let list = api.get("/api/v1/workflow-runs?include=progress").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(list["items"][0]["progress"], json!({"ended": 0, "total": 2}));
        let node = api.node().await;
        let ended = api.until(&run, "success").await;
        assert!(ended["finished_at"].is_string(), "{ended}");
        let tasks = api.get(&format!("/workflow-runs/{run}/tasks")).role(Role::Viewer).send().await.expect(200).body();
        for field in ["id", "workflow_run_id", "task_id", "status", "attempt", "max_attempts", "started_at", "last_attempted_at", "finished_at", "worker_id", "output", "error",
                      "error_stack", "trace_id", "span_id", "parent_span_id", "current_state", "retry_eligible", "attempts", "last_failure_at", "next_retry_at", "blocked_by"] {
            assert!(tasks["items"][0].get(field).is_some(), "{tasks} lacks {field}");
        }
        assert_eq!((&tasks["items"][0]["worker_id"], &tasks["items"][0]["status"]), (&json!("test"), &json!("success")));
        let list = api.get("/api/v1/workflow-runs?include=progress").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(list["items"][0]["progress"], json!({"ended": 2, "total": 2}));
        for bad in ["everything", ""] {
            api.get(&format!("/api/v1/workflow-runs?include={bad}")).role(Role::Viewer).send().await.expect(400);
        }
        let logs = api.get(&format!("/api/v1/workflow-runs/{run}/tasks/a/logs")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((&logs["items"][0]["message"], &logs["items"][0]["stream"], &logs["next"]), (&json!("hello from a"), &json!("stdout"), &json!(null)));
        for (task, level) in [("a", "info"), ("b", "error")] {
            let followed = api.get(&format!("/api/v1/workflow-runs/{run}/tasks/{task}/logs?follow=true")).role(Role::Viewer).send().await.expect(200);
            assert!(followed.text.contains(&format!("\"level\":\"{level}\"")), "{}", followed.text);
        }
        assert_eq!(ended["correlation_id"], json!(null));
        let after = logs["after"].as_str().unwrap();
        let rest = api.get(&format!("/api/v1/workflow-runs/{run}/tasks/a/logs?after={after}")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(rest["items"], json!([]));
        let with_logs = api.get(&format!("/api/v1/task-runs/{run}.1?include=logs")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((&with_logs["task_id"], &with_logs["logs"][0]["level"]), (&json!("b"), &json!("error")));
        node.stop().await;
    }

    async fn a_run_that_begins_later_hears_no_earlier_event(api: &TestApi) {
        api.store("{name: w, tasks: {a: {wait: {event: go, timeout: 300ms}}}}").await;
        let node = api.node().await;
        let at = rfc3339(api.client.clock().wall() + 700_000);
        let run = api.post("/api/v1/workflows/w/trigger").role(Role::Operator).json(json!({"at": at})).send().await.expect(201).body();
        api.post("/api/v1/scheduler/events/trigger").role(Role::Operator).json(json!({"event_name": "go", "data": {}})).send().await.expect(201);
        api.until(run["id"].as_str().unwrap(), "failed").await;
        node.stop().await;
    }

    async fn a_run_can_be_told_to_start_later(api: &TestApi) {
        api.store("name: w\ntasks:\n  a:\n    env: {AT: '${{ run.scheduled_for }}'}\n    run: echo \"at=$AT\" > $MAINSPRING_OUTPUT\n").await;
        let node = api.node().await;
        let trigger = |at: String| api.post("/api/v1/workflows/w/trigger").role(Role::Operator).json(json!({"at": at})).send();
        let wall = api.client.clock().wall();
        let (soon, far) = (rfc3339(wall + 1_500_000), rfc3339(wall + 3_600_000_000));
        let run = trigger(soon.clone()).await.expect(201).body();
        assert_eq!((&run["status"], &run["started_at"], &run["trigger"]["scheduled_for"]), (&json!("pending"), &json!(null), &json!(soon)));
        let never = trigger(far.clone()).await.expect(201).body();
        let never = never["id"].as_str().unwrap();
        let id = run["id"].as_str().unwrap();
        let ended = api.until(id, "success").await;
        assert!(ended["started_at"].as_str() >= Some(soon.as_str()), "{ended}");
        assert_eq!(api.task(id, "a").await["output"]["at"], json!(soon));
        let pending = api.get("/api/v1/workflow-runs?status=pending").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(ids(&pending), [never]);
        let key = TaskKey::new(never.parse().unwrap(), 0);
        assert_eq!(api.client.why(key).await.unwrap(), [format!("the run starts at {far}")]);
        api.post(&format!("/api/v1/workflow-runs/{never}/cancel")).role(Role::Operator).send().await.expect(200);
        assert_eq!(api.until(never, "cancelled").await["started_at"], json!(null), "it never began");
        let past = trigger("2020-01-01T00:00:00Z".into()).await.expect(201).body();
        api.until(past["id"].as_str().unwrap(), "success").await;
        for bad in ["tomorrow", "", "2026-02-30T00:00:00Z"] {
            let problem = trigger(bad.into()).await.expect(422).body();
            assert_eq!(problem["errors"][0]["pointer"], "/at", "{problem}");
        }
        node.stop().await;
    }

    async fn runs_are_found_by_the_value_of_an_input(api: &TestApi) {
        let inputs = "inputs: {region: {type: string}, n: {type: integer}, dry: {type: boolean}, 'odd.name': {type: string, default: x}, list: {type: list, default: []}}";
        api.store(&format!("{{name: w, {inputs}, tasks: {{a: {{run: 'true'}}}}}}")).await;
        api.store("{name: other, tasks: {a: {run: 'true'}}}").await;
        api.start("other").await;
        let mut made = Vec::new();
        for given in [
            json!({"region": "eu", "n": 5, "dry": true, "odd.name": "é \"=,", "list": [1, "b"]}),
            json!({"region": "5", "n": 50, "dry": false}),
        ] {
            let run = api.post("/api/v1/workflows/w/trigger").role(Role::Operator).json(json!({"inputs": given})).send().await;
            made.push(run.expect(201).body()["id"].as_str().unwrap().to_owned());
        }
        let (first, second) = (made[0].as_str(), made[1].as_str());
        for (input, found) in [
            ("region=eu", vec![first]), ("region=\"eu\"", vec![first]), ("region=e", vec![]), ("region=EU", vec![]), ("region=", vec![]),
            ("region=5", vec![second]), ("n=5", vec![first]), ("n=50", vec![second]), ("n=5.0", vec![]), ("dry=true", vec![first]), ("dry=1", vec![]),
            ("odd.name=x", vec![second]), ("odd.name=é \"=,", vec![first]), ("list=[1, \"b\"]", vec![first]), ("list=[]", vec![second]),
            ("nothing=eu", vec![]), ("$=eu", vec![]), ("a\"b='", vec![]),
        ] {
            let escaped: String = input.bytes().map(|byte| format!("%{byte:02X}")).collect();
            for beside in ["workflow=w", "since=2020-01-01T00:00:00Z", "workflow=w&status=pending,running", "workflow=w&sort=created"] {
                let page = api.get(&format!("/api/v1/workflow-runs?count=true&{beside}&input={escaped}")).role(Role::Viewer).send().await;
                let page = page.expect(200).body();
                assert_eq!((ids(&page), &page["total"]), (found.clone(), &json!(found.len())), "{input} {beside}");
            }
        }
        for (query, status, said) in [
            ("input=n%3D5", 422, "name a workflow or since"), ("workflow=w&input=n", 400, "region=eu"), ("workflow=w&input=%3D5", 400, "region=eu"),
        ] {
            let refused = api.get(&format!("/api/v1/workflow-runs?{query}")).role(Role::Viewer).send().await.expect(status);
            assert!(refused.text.contains(said), "{}", refused.text);
        }
    }

    async fn runs_are_found_by_what_is_known_of_them(api: &TestApi) {
        api.store("{name: one, tags: [x], tasks: {a: {run: 'true'}}}").await;
        api.store("{name: two, namespace: there, tasks: {a: {run: 'true'}}}").await;
        let first = api.start("one").await;
        let second = api.post("/api/v1/workflows/two/trigger?namespace=there").role(Role::Operator).json(json!({"correlation_id": "c"})).send().await.expect(201).body();
        let second = second["id"].as_str().unwrap();
        api.post(&format!("/api/v1/workflow-runs/{first}/cancel")).role(Role::Operator).json(json!({"reason": "r"})).send().await.expect(200);
        api.until(&first, "cancelled").await;
        for (query, found) in [
            ("", vec![second, &first]), ("status=cancelled", vec![&first]), ("status=running", vec![second]), ("workflow=one", vec![&first]),
            ("namespace=there", vec![second]), ("trigger=manual", vec![second, &first]), ("trigger=cron", vec![]), ("correlation_id=c", vec![second]),
            ("tag=x", vec![&first]), ("since=2020-01-01T00:00:00Z", vec![second, &first]), ("until=2020-01-01T00:00:00Z", vec![]),
            ("limit=1", vec![second]), ("offset=1", vec![&first]),
        ] {
            let page = api.get(&format!("/api/v1/workflow-runs?{query}")).role(Role::Viewer).send().await.expect(200).body();
            assert_eq!(ids(&page), found, "{query}");
        }
        let none = api.get("/api/v1/workflow-runs?status=running&offset=1").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(none["items"], json!([]), "the only open one is left out");
        for query in ["status=nothing", "since=yesterday", "status='%20OR%201=1"] {
            api.get(&format!("/api/v1/workflow-runs?{query}")).role(Role::Viewer).send().await.expect(400);
        }
        for (query, found) in [("status=ready", vec![format!("{second}.0")]), ("status=cancelled&workflow=one", vec![format!("{first}.0")]),
                               (&format!("run={first}"), vec![format!("{first}.0")]), ("since=2020-01-01T00:00:00Z&queue=default", vec![format!("{second}.0"), format!("{first}.0")]),
                               ("status=ready&queue=other", vec![]), ("status=running&worker=w", vec![])] {
            let page = api.get(&format!("/api/v1/task-runs?{query}")).role(Role::Viewer).send().await.expect(200).body();
            assert_eq!(ids(&page), found, "{query}");
        }
        let page = api.get("/api/v1/task-runs?since=2020-01-01T00:00:00Z&limit=1").role(Role::Viewer).send().await.expect(200).body();
        let page = api.get(&format!("/api/v1/task-runs?since=2020-01-01T00:00:00Z&limit=1&cursor={}", page["next"].as_str().unwrap())).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((ids(&page), &page["next"]), (vec![format!("{first}.0").as_str()], &json!(null)));
        // Without a bound it is what runs of the last day have.
        for (query, found) in [("", vec![format!("{second}.0"), format!("{first}.0")]), ("?status=cancelled", vec![format!("{first}.0")]), ("?status=failed", vec![])] {
            let page = api.get(&format!("/api/v1/task-runs{query}")).role(Role::Viewer).send().await.expect(200).body();
            assert_eq!(ids(&page), found, "{query}");
        }
        api.get("/api/v1/task-runs?status=gated").role(Role::Viewer).send().await.expect(400);
        api.get("/api/v1/task-runs?offset=1").role(Role::Viewer).send().await.expect(422);
    }

    async fn runs_are_paused_resumed_cancelled_and_done_again(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true'}, b: {needs: a, run: 'true'}}}").await;
        let run = api.start("w").await;
        let act = |what: &str, body: Value| api.post(&format!("/api/v1/workflow-runs/{run}/{what}")).role(Role::Operator).json(body);
        assert_eq!(act("pause", json!({})).send().await.expect(200).body()["status"], "paused");
        assert_eq!(api.task(&run, "a").await["blocked_by"], json!(["its run is paused"]));
        act("pause", json!({})).send().await.expect(409);
        act("retry", json!({})).send().await.expect(409);
        assert_eq!(act("resume", json!({})).send().await.expect(200).body()["status"], "running");
        act("cancel", json!({"by": "ann", "reason": "enough"})).send().await.expect(200);
        api.until(&run, "cancelled").await;
        act("cancel", json!({})).send().await.expect(409);
        assert_eq!(act("retry", json!({})).send().await.expect(200).body()["generation"], 1);
        act("cancel", json!({})).send().await.expect(200);
        act("rerun", json!({"from": "c"})).send().await.expect(404);
        let new = act("rerun", json!({})).send().await.expect(201).body();
        assert_ne!(new["id"], json!(run), "the whole is done again as a new run");
        assert_eq!((&new["trigger"]["kind"], &new["trigger"]["run"], &new["status"]), (&json!("rerun"), &json!(run), &json!("running")));
        act("rerun", json!({"from": "b"})).send().await.expect(409);
        act("rerun", json!({"from": []})).send().await.expect(422);
        act("rerun", json!({"from": ["a", "c"]})).send().await.expect(404);
        let again = act("rerun", json!({"from": ["a"]})).send().await.expect(200).body();
        assert_eq!((&again["status"], &again["reopened_tasks"]), (&json!("running"), &json!(2)));
        act("cancel", json!({"by": "ann", "reason": "enough"})).send().await.expect(200);
        let shown = api.get(&format!("/api/v1/workflow-runs/{run}")).role(Role::Viewer).send().await.expect(200).body();
        assert!(shown["reason"].as_str().unwrap().contains("enough"), "{shown}");
        assert_eq!(shown["timed_out"], false);
        assert_eq!(act("rerun", json!({"from": "a"})).send().await.expect(200).body()["status"], "running");
        api.post(&format!("/api/v1/workflow-runs/{run}/cancel")).role(Role::Viewer).send().await.expect(403);
    }

    async fn many_runs_are_cancelled_by_a_filter(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true'}}}").await;
        api.store("{name: v, tasks: {a: {run: 'true'}}}").await;
        let (first, second, third) = (api.start("w").await, api.start("w").await, api.start("v").await);
        let cancel = |body: Value| api.post("/api/v1/workflow-runs/cancel").role(Role::Operator).json(body);
        cancel(json!({})).send().await.expect(422);
        cancel(json!({"workflow": "w", "status": "success"})).send().await.expect(422);
        let dry = cancel(json!({"workflow": "w", "dry_run": true})).send().await.expect(200).body();
        assert_eq!((&dry["matched"], &dry["cancelled"]), (&json!(2), &json!(0)));
        let done = cancel(json!({"workflow": "w"})).send().await.expect(200).body();
        assert_eq!((&done["cancelled"], &done["more"]), (&json!(2), &json!(false)));
        for run in [&first, &second] {
            api.until(run, "cancelled").await;
        }
        api.until(&third, "running").await;
    }

    async fn artifacts_are_listed_and_got(api: &TestApi) {
        api.store("name: w\ntasks:\n  a:\n    run: mkdir out; echo kept > out/report.txt\n    artifacts: [out/report.txt]\n").await;
        let node = api.node().await;
        let run = api.start("w").await;
        api.until(&run, "success").await;
        let list = api.get(&format!("/api/v1/workflow-runs/{run}/artifacts")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((&list["items"][0]["task_id"], &list["items"][0]["bytes"]), (&json!("a"), &json!(5)));
        let name = list["items"][0]["name"].as_str().unwrap().replace('/', "%2F");
        let file = api.get(&format!("/api/v1/workflow-runs/{run}/artifacts/{name}")).role(Role::Viewer).send().await.expect(200);
        assert_eq!((file.text.as_str(), file.header("content-disposition")), ("kept\n", "attachment"));
        for name in ["nothing", "..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd"] {
            api.get(&format!("/api/v1/workflow-runs/{run}/artifacts/{name}")).role(Role::Viewer).send().await.expect(404);
        }
        node.stop().await;
    }

    async fn runs_of_other_namespaces_are_not_touched(api: &TestApi) {
        let guest = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
        api.store("{name: w, tasks: {a: {run: 'true'}}}").await;
        let run = api.start("w").await;
        for target in ["", "/tasks", "/tasks/a", "/tasks/a/logs", "/artifacts", "/artifacts/x"] {
            api.get(&format!("/api/v1/workflow-runs/{run}{target}")).bearer(&guest).send().await.expect(403);
        }
        api.get(&format!("/api/v1/task-runs/{run}.0")).bearer(&guest).send().await.expect(403);
        for target in ["cancel", "pause", "resume", "retry"] {
            api.post(&format!("/api/v1/workflow-runs/{run}/{target}")).bearer(&guest).send().await.expect(403);
        }
        let body = json!({"action": "skip"});
        api.post(&format!("/api/v1/workflow-runs/{run}/tasks/a/actions")).bearer(&guest).json(body).send().await.expect(403);
        let none = api.get("/api/v1/workflow-runs").bearer(&guest).send().await.expect(200).body();
        assert_eq!(none["items"], json!([]));
        let none = api.post("/api/v1/workflow-runs/cancel").bearer(&guest).json(json!({"workflow": "w"})).send().await.expect(200).body();
        assert_eq!(none["matched"], 0);
        let none = api.get(&format!("/api/v1/task-runs?run={run}")).bearer(&guest).send().await.expect(200).body();
        assert_eq!(none["items"], json!([]));
    }

    async fn ids_that_are_none_are_refused(api: &TestApi) {
        for id in ["x", "..", "%2e%2e%2f", "0", "00000000-0000-7000-8000-00000000000", "%F0%9F%92%A9"] {
            api.get(&format!("/api/v1/workflow-runs/{id}")).role(Role::Viewer).send().await.expect(400);
            api.get(&format!("/api/v1/task-runs/{id}")).role(Role::Viewer).send().await.expect(400);
        }
        let unknown = "00000000-0000-7000-8000-000000000000";
        api.get(&format!("/api/v1/workflow-runs/{unknown}")).role(Role::Viewer).send().await.expect(404);
        api.get(&format!("/api/v1/task-runs/{unknown}.0")).role(Role::Viewer).send().await.expect(404);
        api.store("{name: w, tasks: {a: {run: 'true'}}}").await;
        let run = api.start("w").await;
        for task in ["b", "a[0]", "a[x]", "..", "%252F", &format!("{run}.7"), &format!("{unknown}.0")] {
            api.get(&format!("/api/v1/workflow-runs/{run}/tasks/{task}")).role(Role::Viewer).send().await.expect(404);
        }
        api.get(&format!("/api/v1/workflow-runs/{run}/tasks/a/logs?after=x")).role(Role::Viewer).send().await.expect(400);
    }
}
