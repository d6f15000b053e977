//! What operators look at and do again: approvals, the beginnings of ids, reruns, steps in the form of `/v1`.

use mainspring_server::Role;
use serde_json::json;

use crate::on_both;

const ASKS: &str = "{name: gate, tasks: {ask: {approval: {roles: [operator], message: 'go on?'}}}}";

on_both! {
    async fn open_approvals_are_listed_with_what_they_ask(api: &TestApi) {
        api.store(ASKS).await;
        let run = api.start("gate").await;
        let node = api.node().await;
        api.until_task(&run, "ask", "waiting").await;
        let list = api.get("/api/v1/approvals").role(Role::Viewer).send().await.expect(200).body();
        let open = &list["items"][0];
        assert_eq!((&open["workflow_run_id"], &open["task_id"]), (&json!(run), &json!("ask")));
        assert_eq!((&open["message"], &open["roles"]), (&json!("go on?"), &json!(["operator"])));
        let elsewhere = api.get("/api/v1/approvals?namespace=other").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(elsewhere["items"], json!([]));
        let shown = api.task(&run, "ask").await;
        assert_eq!(shown["approval"], json!({"message": "go on?", "roles": ["operator"]}));
        let target = format!("/api/v1/workflow-runs/{run}/tasks/ask/actions");
        api.post(&target).role(Role::Operator).json(json!({"action": "approve"})).send().await.expect(200);
        api.until(&run, "success").await;
        let list = api.get("/api/v1/approvals").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(list["items"], json!([]));
        node.stop().await;
    }

    async fn a_parent_names_its_child_run(api: &TestApi) {
        api.store("{name: child, tasks: {ask: {approval: {}}}}").await;
        api.store("{name: parent, tasks: {call: {workflow: child}}}").await;
        let run = api.start("parent").await;
        let node = api.node().await;
        api.until_task(&run, "call", "waiting").await;
        let child = api.task(&run, "call").await["child_run_id"].as_str().unwrap().to_owned();
        let shown = api.get(&format!("/api/v1/workflow-runs/{child}")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(shown["workflow"], "child");
        node.stop().await;
    }

    async fn runs_are_found_by_the_beginning_of_their_id(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true'}}}").await;
        let (one, two) = (api.start("w").await, api.start("w").await);
        let found = async |id: &str| {
            let target = format!("/api/v1/workflow-runs?id={id}");
            let list = api.get(&target).role(Role::Viewer).send().await.expect(200).body();
            list["items"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(&one).await, std::slice::from_ref(&one));
        assert!(found(&one[..35]).await.contains(&one));
        assert_eq!(found(&one[..6]).await, [two, one]);
        assert!(found("ffff").await.is_empty());
        for wrong in ["abc", "xyzw", "0000000000000000000000000000000000000"] {
            api.get(&format!("/api/v1/workflow-runs?id={wrong}")).role(Role::Viewer).send().await.expect(400);
        }
        let list = api.get("/api/v1/workflow-runs?include=trigger,progress").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(list["items"][0]["trigger"]["kind"], "manual");
        api.get("/api/v1/workflow-runs?include=everything").role(Role::Viewer).send().await.expect(400);
    }

    async fn any_ended_run_is_repeated_as_a_new_one(api: &TestApi) {
        api.store("{name: w, inputs: {n: {type: integer, default: 1}, m: {type: integer, default: 5}}, tasks: {a: {run: 'true'}}}").await;
        let run = api.start("w").await;
        let again = |body: serde_json::Value| {
            api.post(&format!("/api/v1/workflow-runs/{run}/rerun")).role(Role::Operator).json(body)
        };
        again(json!({})).send().await.expect(409);
        let node = api.node().await;
        api.until(&run, "success").await;
        let new = again(json!({"inputs": {"n": 2}})).send().await.expect(201).body();
        assert_ne!(new["id"], json!(run));
        assert_eq!((&new["inputs"], &new["trigger"]["run"]), (&json!({"n": 2, "m": 5}), &json!(run)));
        again(json!({"inputs": {"n": "x"}})).send().await.expect(422);
        again(json!({"from": "a", "inputs": {"n": 2}})).send().await.expect(422);
        node.stop().await;
    }

    async fn failures_that_a_repair_took_back_stay_in_the_history(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'exit 3', retry: {attempts: 1}}}}").await;
        let run = api.start("w").await;
        let node = api.node().await;
        api.until(&run, "failed").await;
        let failed = api.task(&run, "a").await;
        assert_eq!(failed["retry_eligible"], json!(false), "no attempts are left");
        let target = format!("/api/v1/workflow-runs/{run}/tasks/a/actions");
        api.post(&target).role(Role::Operator).json(json!({"action": "resolve_manually"})).send().await.expect(200);
        api.until(&run, "success").await;
        let resolved = api.task(&run, "a").await;
        assert_eq!(resolved["last_failure_at"], failed["last_failure_at"]);
        assert_eq!((&resolved["attempt_history"][0]["attempt"], &resolved["attempt_history"][0]["error"]), (&json!(1), &failed["error"]));
        node.stop().await;
    }

    async fn steps_have_the_form_that_other_clients_know(api: &TestApi) {
        api.store("{name: w, tasks: {a: {run: 'true'}, b: {needs: a, run: 'true'}}}").await;
        let run = api.start("w").await;
        let steps = api.get(&format!("/v1/tasks/{run}/workflow_steps")).role(Role::Viewer).send().await.expect(200).body();
        let step = &steps[0];
        assert_eq!((&step["task_uuid"], &step["name"], &step["current_state"]), (&json!(run), &json!("a"), &json!("enqueued")));
        assert_eq!((&step["workflow_step_uuid"], &step["status"]), (&json!(format!("{run}.0")), &json!("ready")));
        let one = api.get(&format!("/v1/tasks/{run}/workflow_steps/b")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(one["current_state"], "pending");
    }

    async fn jobs_run_commands_and_unknown_handlers_are_refused(api: &TestApi) {
        let create = |body: serde_json::Value| api.post("/api/v1/scheduler/jobs/interval").role(Role::Author).json(body);
        let job = create(json!({"name": "disk", "every": "1h", "handler_type": "shell", "payload": {"run": "echo hello"}}))
            .send().await.expect(201).body();
        assert_eq!((&job["handler_type"], &job["payload"]), (&json!("shell"), &json!({"run": "echo hello"})));
        create(json!({"name": "x", "every": "1h", "handler_type": "shell"})).send().await.expect(422);
        create(json!({"name": "x", "every": "1h", "handler_type": "workflow", "handler_name": "nothing"})).send().await.expect(422);
        api.store("{name: typed, inputs: {n: {type: integer}}, tasks: {a: {run: 'true'}}}").await;
        let wrong = json!({"name": "x", "every": "1h", "handler_type": "workflow", "handler_name": "typed", "payload": {"n": "many"}});
        create(wrong).send().await.expect(422);
        let node = api.node().await;
        let execution = api.post("/api/v1/scheduler/jobs/disk/trigger").role(Role::Operator).send().await.expect(201).body();
        api.until(execution["id"].as_str().unwrap(), "success").await;
        node.stop().await;
    }

    async fn a_refusal_names_the_role_that_is_needed(api: &TestApi) {
        let refused = api.put("/api/v1/pools/p").role(Role::Viewer).json(json!({"slots": 1})).send().await.expect(403);
        assert!(refused.text.contains("it needs the role operator"), "{}", refused.text);
    }

    async fn tasks_may_come_as_a_list(api: &TestApi) {
        let body = json!({"name": "Listed", "schedule_cron": "", "tasks": [
            {"name": "a", "command": "true", "retry_count": 2, "retry_delay_seconds": 1, "timeout_seconds": 30},
            {"name": "b", "command": "true", "depends_on": ["a"]}]});
        let made = api.post("/workflows").role(Role::Author).json(body).send().await.expect(201).body();
        assert_eq!((&made["name"], &made["schedule_cron"]), (&json!("listed"), &json!(null)));
        let run = api.start("listed").await;
        let node = api.node().await;
        api.until(&run, "success").await;
        assert_eq!(api.task(&run, "a").await["max_attempts"], 3);
        node.stop().await;
    }
}
