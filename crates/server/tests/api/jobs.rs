//! `/scheduler/jobs` and `/scheduler/executions`.

use mainspring_server::{Grant, Role};
use serde_json::{Value, json};

use crate::on_both;

fn pointers(problem: &Value) -> Vec<&str> {
    problem["errors"].as_array().unwrap().iter().filter_map(|error| error["pointer"].as_str()).collect()
}

on_both! {
    async fn a_cron_job_is_made_with_its_defaults(api: &TestApi) {
        let body = json!({"name": "Daily Cleanup", "schedule": "0 2 * * *", "handler_name": "cleanup:old_traces",
            "payload": {"retention_days": 30}, "created_by": "alice", "tags": ["upkeep"], "metadata": {"team": "ops"}});
        let job = api.post_ok("/api/v1/scheduler/jobs/cron", body.clone()).await;
        for (field, value) in [
            ("name", json!("daily-cleanup")), ("title", json!("Daily Cleanup")), ("type", json!("cron")), ("status", json!("active")),
            ("schedule", json!("0 2 * * *")), ("timezone", json!("UTC")), ("handler_type", json!("function")), ("max_retries", json!(3)),
            ("retry_delay_ms", json!(60_000)), ("max_retry_delay_ms", json!(1_800_000)), ("timeout_ms", json!(600_000)), ("priority", json!("medium")), ("concurrency", json!(1)),
            ("allow_overlap", json!(false)), ("executions_count", json!(0)), ("success_count", json!(0)), ("failure_count", json!(0)),
            ("avg_duration_ms", json!(null)), ("last_run", json!(null)), ("namespace", json!("default")), ("created_by", json!("alice (by author)")),
            ("payload", json!({"retention_days": 30})), ("tags", json!(["upkeep"])), ("metadata", json!({"team": "ops"})),
        ] {
            assert_eq!(job[field], value, "{field} of {job}");
        }
        assert!(job["next_run"].as_str().unwrap().contains("T02:00:00"), "{job}");
        let taken = api.post("/api/v1/scheduler/jobs/cron").role(Role::Author).json(body.clone()).send().await.expect(409);
        assert!(taken.text.contains("replace"), "{}", taken.text);
        let mut replacing = body.clone();
        (replacing["replace"], replacing["schedule"]) = (json!(true), json!("0 3 * * *"));
        let replaced = api.post_ok("/api/v1/scheduler/jobs/cron", replacing.clone()).await;
        assert_eq!((&replaced["id"], &replaced["schedule"]), (&job["id"], &json!("0 3 * * *")));
        replacing["schedule"] = json!("0 2 * * *");
        let job = api.post_ok("/api/v1/scheduler/jobs/cron", replacing).await;
        let mut twin = body;
        twin["name"] = json!("Daily Cleanup 2");
        let twin = api.post_ok("/api/v1/scheduler/jobs/cron", twin).await;
        assert_eq!((&twin["name"], &twin["title"]), (&json!("daily-cleanup-2"), &json!("Daily Cleanup 2")));
        let shown = api.read(&format!("/api/v1/scheduler/jobs/{}", job["id"].as_str().unwrap())).await;
        assert_eq!(shown, job);
        assert_eq!(api.read("/api/v1/scheduler/jobs/daily-cleanup").await, job);
        for (query, count) in [("", 2), ("?type=cron", 2), ("?type=one_time", 0), ("?status=active", 2), ("?status=paused", 0), ("?tag=upkeep", 2), ("?tag=x", 0)] {
            let list = api.read(&format!("/api/v1/scheduler/jobs{query}")).await;
            assert_eq!(list["items"].as_array().unwrap().len(), count, "{query}");
        }
        api.get("/api/v1/scheduler/jobs?status=odd").role(Role::Viewer).send().await.expect(400);
        let page = api.read("/api/v1/scheduler/jobs?limit=1&count=true").await;
        assert_eq!((&page["items"][0]["name"], &page["total"]), (&json!("daily-cleanup-2"), &json!(2)));
        let next = api.read(&format!("/api/v1/scheduler/jobs?limit=1&cursor={}", page["next"].as_str().unwrap())).await;
        assert_eq!(next["items"][0]["name"], "daily-cleanup");
        let stats = api.read("/api/v1/scheduler/stats").await;
        assert_eq!((&stats["total_jobs"], &stats["jobs_by_status"]["active"], &stats["jobs_by_type"]["cron"]), (&json!(2), &json!(2), &json!(2)));
        let handlers = api.read("/api/v1/scheduler/handlers").await;
        assert!(handlers["items"].as_array().unwrap().iter().any(|handler| handler["name"] == "notify:send"), "{handlers}");
    }

    async fn a_one_time_job_completes_and_its_history_stays(api: &TestApi) {
        let node = api.work().await;
        let at = mainspring_core::time::rfc3339(api.client.now());
        let body = json!({"name": "once", "execute_at": at, "handler_name": "echo", "payload": {"a": 1}});
        let job = api.post_ok("/api/v1/scheduler/jobs/once", body).await;
        let id = job["id"].as_str().unwrap();
        let done = api.wait(&format!("/api/v1/scheduler/jobs/{id}"), |job| job["executions_count"] == 1).await;
        for (field, value) in [("status", json!("completed")), ("next_run", json!(null)), ("success_count", json!(1)), ("failure_count", json!(0))] {
            assert_eq!(done[field], value, "{field} of {done}");
        }
        assert!(done["completed_at"].is_string() && done["last_run"].is_string() && done["avg_duration_ms"].is_number(), "{done}");
        let list = api.read(&format!("/api/v1/scheduler/jobs/{id}/executions")).await;
        let execution = &list["items"][0];
        assert_eq!((&execution["status"], &execution["result"]), (&json!("success"), &json!({"a": 1})), "{execution}");
        assert_eq!((&execution["job_id"], &execution["retry_count"], &execution["max_retries"]), (&json!(id), &json!(0), &json!(3)));
        assert_eq!(execution["scheduled_at"], at);
        let run = execution["id"].as_str().unwrap();
        assert_eq!(&api.read(&format!("/api/v1/scheduler/executions/{run}")).await, execution);
        let logs = api.read(&format!("/api/v1/scheduler/executions/{run}/logs")).await;
        assert_eq!((&logs["items"][0]["message"], &logs["items"][0]["execution_id"]), (&json!("hello"), &json!(run)), "{logs}");
        api.post(&format!("/api/v1/scheduler/executions/{run}/retry")).role(Role::Operator).send().await.expect(409);
        api.post(&format!("/api/v1/scheduler/jobs/{id}/pause")).role(Role::Operator).send().await.expect(409);
        let stats = api.read(&format!("/api/v1/scheduler/jobs/{id}/stats")).await;
        assert_eq!((&stats["executions_count"], &stats["next_run"]), (&json!(1), &json!(null)));
        // Another instant makes it active again.
        let later = json!({"schedule": "2100-01-01T00:00:00Z"});
        let again = api.put(&format!("/api/v1/scheduler/jobs/{id}/schedule")).role(Role::Author).json(later).send().await.expect(200).body();
        assert_eq!(again["status"], "active", "{again}");
        assert!(again["next_run"].as_str().unwrap().starts_with("2100-01-01T00:00:00"), "{again}");
        node.stop().await;
    }

    async fn a_job_is_paused_resumed_rescheduled_and_deleted(api: &TestApi) {
        let job = api.post_ok("/api/v1/scheduler/jobs/cron", json!({"name": "j", "schedule": "0 2 * * *", "handler_name": "noop"})).await;
        let at = format!("/api/v1/scheduler/jobs/{}", job["id"].as_str().unwrap());
        let paused = api.post(&format!("{at}/pause")).role(Role::Operator).send().await.expect(200).body();
        assert_eq!((&paused["status"], &paused["next_run"]), (&json!("paused"), &json!(null)));
        let resumed = api.post(&format!("{at}/resume")).role(Role::Operator).send().await.expect(200).body();
        assert_eq!((&resumed["status"], &resumed["next_run"]), (&json!("active"), &job["next_run"]));
        let switch = |active: bool| api.patch("/api/v1/workflows/j").role(Role::Author).json(json!({"is_active": active}));
        switch(false).send().await.expect(200);
        assert_eq!(api.read(&at).await["next_run"], json!(null), "its workflow is not active");
        assert_eq!(switch(true).send().await.expect(200).body()["created_by"], "author");
        assert_eq!(api.read(&at).await["next_run"], job["next_run"]);
        let times = [&job, &paused, &resumed].map(|job| job["updated_at"].as_str().unwrap());
        assert!(times.is_sorted_by(|one, next| one < next), "each of these is a change: {times:?}");
        let moved = api.put(&format!("{at}/schedule")).role(Role::Author).json(json!({"schedule": "30 3 * * *", "timezone": "Asia/Tokyo"})).send().await.expect(200).body();
        assert_eq!((&moved["schedule"], &moved["timezone"]), (&json!("30 3 * * *"), &json!("Asia/Tokyo")));
        assert!(moved["next_run"].as_str().unwrap().contains("T18:30:00"), "{moved}");
        let wrong = api.put(&format!("{at}/schedule")).role(Role::Author).json(json!({"schedule": "30 33 * * *"})).send().await.expect(422).body();
        assert_eq!(pointers(&wrong), ["/schedule"]);
        api.delete(&at).role(Role::Author).send().await.expect(204);
        let gone = api.read(&at).await;
        assert_eq!((&gone["status"], &gone["next_run"]), (&json!("cancelled"), &json!(null)));
        assert!(gone["cancelled_at"].is_string());
        api.delete(&at).role(Role::Author).send().await.expect(204);
        for action in ["pause", "resume", "trigger"] {
            api.post(&format!("{at}/{action}")).role(Role::Operator).send().await.expect(409);
        }
        api.put(&format!("{at}/schedule")).role(Role::Author).json(json!({"schedule": "0 1 * * *"})).send().await.expect(409);
        api.get("/api/v1/scheduler/jobs/00000000-0000-0000-0000-000000000007").role(Role::Viewer).send().await.expect(404);
    }

    async fn a_failed_execution_is_retried_and_each_end_counts(api: &TestApi) {
        let node = api.work().await;
        let body = json!({"name": "flaky", "schedule": "0 0 1 1 *", "handler_name": "flaky", "max_retries": 1, "retry_delay_ms": 1});
        let job = api.post_ok("/api/v1/scheduler/jobs/cron", body).await;
        let at = format!("/api/v1/scheduler/jobs/{}", job["id"].as_str().unwrap());
        let started = api.post(&format!("{at}/trigger")).role(Role::Operator).send().await.expect(201).body();
        let run = format!("/api/v1/scheduler/executions/{}", started["id"].as_str().unwrap());
        let failed = api.wait(&run, |execution| execution["status"] == "failed").await;
        assert_eq!((&failed["retry_count"], &failed["error"]), (&json!(1), &json!("not yet")), "{failed}");
        api.wait(&at, |job| job["failure_count"] == 1).await;
        api.post(&format!("{run}/retry")).role(Role::Operator).json(json!({"by": "bob", "reason": "again"})).send().await.expect(200);
        let well = api.wait(&run, |execution| execution["status"] == "success").await;
        assert_eq!(well["result"], json!({"ok": true}));
        let counted = api.wait(&at, |job| job["executions_count"] == 2).await;
        assert_eq!((&counted["success_count"], &counted["failure_count"]), (&json!(1), &json!(1)), "each end counts once");
        node.stop().await;
        assert_eq!(mainspring_testkit::invariants::check_jobs(api.database.url()).await.unwrap(), []);
    }

    async fn executions_are_listed_by_their_status(api: &TestApi) {
        let node = api.work().await;
        let body = json!({"name": "flaky", "schedule": "0 0 1 1 *", "handler_name": "flaky", "max_retries": 0});
        let job = api.post_ok("/api/v1/scheduler/jobs/cron", body).await;
        let at = format!("/api/v1/scheduler/jobs/{}", job["id"].as_str().unwrap());
        let started = api.post(&format!("{at}/trigger")).role(Role::Operator).send().await.expect(201).body();
        let run = format!("/api/v1/scheduler/executions/{}", started["id"].as_str().unwrap());
        for (ended, other) in [("failed", "success"), ("success", "failed")] {
            api.wait(&run, |execution| execution["status"] == ended).await;
            for (status, count) in [(ended, 1), (other, 0), ("running", 0), ("pending", 0), ("retrying", 0)] {
                let target = format!("{at}/executions?status={status}&count=true");
                let listed = api.get(&target).role(Role::Viewer).send().await.expect(200).body();
                assert_eq!((listed["items"].as_array().unwrap().len(), &listed["total"]), (count, &json!(count)), "{status}: {listed}");
            }
            if ended == "failed" {
                api.post(&format!("{run}/retry")).role(Role::Operator).json(json!({})).send().await.expect(200);
            }
        }
        let refused = api.get(&format!("{at}/executions?status=faild")).role(Role::Viewer).send().await.expect(400);
        assert!(refused.text.contains("did you mean `failed`?"), "{}", refused.text);
        node.stop().await;
    }

    async fn one_name_is_taken_by_one_of_two_requests_at_once(api: &TestApi) {
        let body = json!({"name": "nightly", "schedule": "0 0 1 1 *", "handler_name": "noop"});
        let make = || api.post("/api/v1/scheduler/jobs/cron").role(Role::Author).json(body.clone()).send();
        let answers = futures_util::future::join_all((0..8).map(|_| make())).await;
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
        let listed = api.get("/api/v1/scheduler/jobs?count=true").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((&listed["items"][0]["name"], &listed["total"]), (&json!("nightly"), &json!(1)));
        // A name that fires no more may be used again, with a number.
        api.delete("/api/v1/scheduler/jobs/nightly").role(Role::Author).send().await.expect(204);
        assert_eq!(make().await.expect(201).body()["name"], "nightly-2");
    }

    async fn executions_do_not_overlap_unless_that_is_allowed(api: &TestApi) {
        let node = api.work().await;
        let body = |name: &str, overlap: bool| json!({"name": name, "schedule": "0 0 1 1 *", "handler_name": "hang", "allow_overlap": overlap});
        for (name, overlap, second) in [("alone", false, 409), ("together", true, 201)] {
            api.post_ok("/api/v1/scheduler/jobs/cron", body(name, overlap)).await;
            let trigger = || api.post(&format!("/api/v1/scheduler/jobs/{name}/trigger")).role(Role::Operator).send();
            trigger().await.expect(201);
            api.wait(&format!("/api/v1/scheduler/jobs/{name}/executions"), |list| list["items"][0]["status"] == "running").await;
            trigger().await.expect(second);
        }
        api.wait("/api/v1/scheduler/jobs/together/executions", |list| {
            list["items"].as_array().unwrap().iter().filter(|execution| execution["status"] == "running").count() == 2
        }).await;
        node.stop().await;
    }

    async fn a_recurring_job_ends_with_its_last_execution(api: &TestApi) {
        let node = api.work().await;
        api.post_ok("/api/v1/scheduler/jobs/interval", json!({"name": "twice", "every": "1s", "max_executions": 2, "handler_name": "echo"})).await;
        let done = api.wait("/api/v1/scheduler/jobs/twice", |job| job["status"] == "completed" && job["executions_count"] == 2).await;
        assert_eq!((&done["type"], &done["success_count"], &done["next_run"]), (&json!("recurring"), &json!(2), &json!(null)));
        node.stop().await;
    }

    async fn a_job_follows_another(api: &TestApi) {
        let node = api.work().await;
        let first = api.post_ok("/api/v1/scheduler/jobs/cron", json!({"name": "first", "schedule": "0 0 1 1 *", "handler_name": "echo"})).await;
        let after = api.post_ok("/api/v1/scheduler/jobs/after", json!({"name": "then", "job": first["id"], "on": ["success"], "handler_name": "echo", "max_executions": 2})).await;
        assert_eq!((&after["type"], &after["status"], &after["schedule"]), (&json!("dependent"), &json!("active"), &json!("default/first")));
        api.post_ok("/api/v1/scheduler/jobs/after", json!({"name": "otherwise", "job": "first", "on": ["failed"], "handler_name": "echo"})).await;
        for round in 1..=2 {
            api.post("/api/v1/scheduler/jobs/first/trigger").role(Role::Operator).send().await.expect(201);
            api.wait("/api/v1/scheduler/jobs/then", |job| job["executions_count"] == round).await;
        }
        assert_eq!(api.read("/api/v1/scheduler/jobs/then").await["status"], "completed");
        assert_eq!(api.read("/api/v1/scheduler/jobs/otherwise").await["executions_count"], 0);
        let wrong = api.post("/api/v1/scheduler/jobs/after").role(Role::Author).json(json!({"name": "x", "job": "nobody", "handler_name": "echo"})).send().await.expect(422).body();
        assert_eq!(pointers(&wrong), ["/job"]);
        node.stop().await;
    }

    async fn agents_and_workflows_are_executed_too(api: &TestApi) {
        let node = api.work().await;
        api.apply("{name: child, inputs: {n: {type: integer}}, tasks: {t: {function: {handler: echo, payload: {n: '${{ inputs.n }}'}}}}}").await;
        for (name, kind, handler) in [("by-agent", "agent", "echo"), ("by-workflow", "workflow", "child")] {
            let body = json!({"name": name, "schedule": "0 0 1 1 *", "handler_name": handler, "handler_type": kind, "payload": {"n": 7}});
            assert_eq!(api.post_ok("/api/v1/scheduler/jobs/cron", body).await["handler_type"], kind);
            api.post(&format!("/api/v1/scheduler/jobs/{name}/trigger")).role(Role::Operator).send().await.expect(201);
            api.wait(&format!("/api/v1/scheduler/jobs/{name}"), |job| job["success_count"] == 1).await;
        }
        api.runs("child", 1).await;
        node.stop().await;
    }

    async fn several_jobs_are_made_all_or_none(api: &TestApi) {
        let good = json!({"name": "a", "schedule": "0 2 * * *", "handler_name": "noop"});
        let bad = json!({"jobs": [good, {"name": "b", "every": "often", "handler_name": "noop"}, {"name": "c", "handler_name": "noop"}]});
        let problem = api.post("/api/v1/scheduler/jobs/bulk").role(Role::Author).json(bad).send().await.expect(422).body();
        assert!(pointers(&problem).contains(&"/jobs/2/type"), "{problem}");
        let bad = json!({"jobs": [good, {"name": "b", "every": "often", "handler_name": "noop"}]});
        let problem = api.post("/api/v1/scheduler/jobs/bulk").role(Role::Author).json(bad).send().await.expect(422).body();
        assert_eq!(pointers(&problem), ["/jobs/1/every"]);
        let twins = json!({"jobs": [good, good]});
        let problem = api.post("/api/v1/scheduler/jobs/bulk").role(Role::Author).json(twins).send().await.expect(422).body();
        assert_eq!(pointers(&problem), ["/jobs/1/name"]);
        assert_eq!(api.read("/api/v1/scheduler/jobs").await["items"], json!([]), "none was made");
        let body = json!({"jobs": [good, {"name": "b", "every": 5000, "handler_name": "noop"}, {"name": "c", "type": "one_time", "execute_at": "2100-01-01T00:00:00Z", "handler_name": "noop"}]});
        let made = api.post_ok("/api/v1/scheduler/jobs/bulk", body).await;
        let names: Vec<&str> = made["items"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        api.post("/api/v1/scheduler/jobs/bulk").role(Role::Author).json(json!({"jobs": []})).send().await.expect(422);
    }

    async fn bad_jobs_are_explained(api: &TestApi) {
        let refuse = async |kind: &str, body: Value, status: u16| {
            api.post(&format!("/api/v1/scheduler/jobs/{kind}")).role(Role::Author).json(body).send().await.expect(status).body()
        };
        let problem = refuse("cron", json!({"name": "", "schedule": "61 * * * *", "handler_name": "a b", "handler_type": "magic", "payload": 3}), 422).await;
        for place in ["/name", "/schedule", "/handler_name", "/handler_type", "/payload"] {
            assert!(pointers(&problem).contains(&place), "{place}: {problem}");
        }
        for (kind, body, place) in [
            ("cron", json!({"name": "j", "handler_name": "noop"}), "/schedule"),
            ("cron", json!({"name": "j", "schedule": "0 2 * * *", "handler_name": "noop", "execute_at": "2100-01-01T00:00:00Z"}), "/execute_at"),
            ("cron", json!({"name": "j", "schedule": "0 2 * * *", "handler_name": "noop", "timezone": "Mars/Base"}), "/timezone"),
            ("once", json!({"name": "j", "execute_at": "2001-01-01T00:00:00Z", "handler_name": "noop"}), "/execute_at"),
            ("once", json!({"name": "j", "execute_at": "soon", "handler_name": "noop"}), "/execute_at"),
            ("interval", json!({"name": "j", "every": "1 fortnight", "handler_name": "noop"}), "/every"),
            ("after", json!({"name": "j", "workflow": "nobody", "handler_name": "noop"}), "/workflow"),
            ("cron", json!({"name": "j", "schedule": "0 2 * * *", "handler_name": "noop", "priority": "urgent"}), "/priority"),
        ] {
            let problem = refuse(kind, body, 422).await;
            assert!(pointers(&problem).contains(&place), "{place}: {problem}");
        }
        refuse("cron", json!({"name": "j", "schedule": "0 2 * * *", "handler_name": "noop", "scheduel": 1}), 422).await;
        assert_eq!(api.read("/api/v1/scheduler/jobs").await["items"], json!([]));
    }

    async fn jobs_of_another_namespace_are_not_touched(api: &TestApi) {
        let token = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
        let body = |namespace: &str| json!({"name": "j", "schedule": "0 2 * * *", "handler_name": "noop", "platform_id": namespace});
        let own = api.post("/api/v1/scheduler/jobs/cron").bearer(&token).json(body("here")).send().await.expect(201).body();
        assert_eq!(own["namespace"], "here");
        api.post("/api/v1/scheduler/jobs/cron").bearer(&token).json(body("there")).send().await.expect(403);
        let other = api.post_ok("/api/v1/scheduler/jobs/cron", body("there")).await;
        let at = format!("/api/v1/scheduler/jobs/{}", other["id"].as_str().unwrap());
        api.get(&at).bearer(&token).send().await.expect(403);
        api.delete(&at).bearer(&token).send().await.expect(403);
        api.post(&format!("{at}/pause")).bearer(&token).send().await.expect(403);
        let seen = api.get("/api/v1/scheduler/jobs").bearer(&token).send().await.expect(200).body();
        assert_eq!(seen["items"].as_array().unwrap().len(), 1);
        let stats = api.get("/api/v1/scheduler/stats").bearer(&token).send().await.expect(200).body();
        assert_eq!(stats["total_jobs"], 1);
    }
}
