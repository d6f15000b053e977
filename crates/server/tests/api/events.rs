//! `/scheduler/events/trigger`, `/scheduler/event-handlers`, and triggers that listen.

use mainspring_core::state::RunState;
use mainspring_server::{Grant, Role};
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::TestApi;

const EVENTS: &str = "/api/v1/scheduler/events/trigger";
const HANDLERS: &str = "/api/v1/scheduler/event-handlers";

async fn announce(api: &TestApi, name: &str, data: Value) -> Value {
    api.post_ok(EVENTS, json!({"event_name": name, "data": data})).await
}

on_both! {
    async fn a_handler_makes_a_job_with_the_event_in_its_payload(api: &TestApi) {
        let node = api.work().await;
        let body = json!({"event_name": "order.*", "handler_name": "echo", "action_type": "create_job",
            "action_config": {"payload": {"region": "${{ event.data.region }}"}, "tags": ["made"]}});
        let handler = api.post_ok(HANDLERS, body).await;
        for (field, value) in [("enabled", json!(true)), ("priority", json!(0)), ("handler_type", json!("function")), ("namespace", json!("default")),
            ("trigger_count", json!(0)), ("success_count", json!(0)), ("failure_count", json!(0)), ("last_triggered", json!(null))] {
            assert_eq!(handler[field], value, "{field} of {handler}");
        }
        // What others write is never an expression.
        let data = json!({"region": "eu", "hostile": "${{ secrets.KEY }} ${{ 1 + 1 }}"});
        let told = announce(api, "order.imported", data.clone()).await;
        assert_eq!((&told["deliveries"][0]["outcome"], &told["deliveries"][0]["listener"]), (&json!("started"), &handler["id"]), "{told}");
        let job = told["deliveries"][0]["job_id"].as_str().unwrap();
        let done = api.wait(&format!("/api/v1/scheduler/jobs/{job}"), |job| job["executions_count"] == 1).await;
        assert_eq!((&done["status"], &done["success_count"], &done["tags"]), (&json!("completed"), &json!(1), &json!(["made"])), "{done}");
        let list = api.read(&format!("/api/v1/scheduler/jobs/{job}/executions")).await;
        let result = &list["items"][0]["result"];
        assert_eq!((&result["region"], &result["event"]["data"], &result["event"]["name"]), (&json!("eu"), &data, &json!("order.imported")), "{list}");
        let counted = api.read(&format!("{HANDLERS}/{}", handler["id"].as_str().unwrap())).await;
        assert_eq!((&counted["trigger_count"], &counted["success_count"], &counted["failure_count"]), (&json!(1), &json!(1), &json!(0)));
        assert!(counted["last_triggered"].is_string());
        node.stop().await;
    }

    async fn handlers_are_told_by_priority_and_only_if_enabled(api: &TestApi) {
        let make = async |name: &str, priority: i32, global: bool| {
            let mut body = json!({"event_name": name, "handler_name": "noop", "action_type": "create_job", "priority": priority});
            if global {
                body["global"] = json!(true);
            }
            let made = api.post(HANDLERS).role(Role::Admin).json(body).send().await.expect(201).body();
            made["id"].as_str().unwrap().to_owned()
        };
        let (low, high, everywhere, off) = (make("e", 1, false).await, make("e", 9, false).await, make("e", 5, true).await, make("e", 7, false).await);
        let off_at = format!("{HANDLERS}/{off}");
        api.call(axum::http::Method::PATCH, &off_at).role(Role::Author).json(json!({"enabled": false})).send().await.expect(200);
        let event = announce(api, "e", json!({})).await;
        let told: Vec<&str> = event["deliveries"].as_array().unwrap().iter().map(|delivery| delivery["listener"].as_str().unwrap()).collect();
        assert_eq!(told, [high, everywhere, low]);
        assert_eq!(api.read(&off_at).await["trigger_count"], 0);
        api.delete(&off_at).role(Role::Author).send().await.expect(204);
        api.get(&off_at).role(Role::Viewer).send().await.expect(404);
        assert_eq!(api.read(HANDLERS).await["items"].as_array().unwrap().len(), 3);
        let told = api.post_ok(EVENTS, json!({"event_name": "e", "platform_id": "elsewhere"})).await;
        assert_eq!(told["deliveries"].as_array().unwrap().len(), 1, "only the global one hears of another namespace");
    }

    async fn a_handler_triggers_a_workflow_and_counts_what_fails(api: &TestApi) {
        let node = api.work().await;
        api.apply("{name: load, inputs: {day: {type: date}}, tasks: {t: {function: {handler: echo, payload: {day: '${{ inputs.day }}'}}}}}").await;
        let body = json!({"event_name": "day.closed", "handler_name": "load", "action_type": "trigger_workflow", "action_config": {"inputs": {"day": "${{ event.data.day }}"}}});
        let handler = api.post_ok(HANDLERS, body).await;
        let told = announce(api, "day.closed", json!({"day": "2026-11-01"})).await;
        assert_eq!(told["deliveries"][0]["outcome"], "started", "{told}");
        let runs = api.runs("load", 1).await;
        assert_eq!(runs[0].inputs, Some(json!({"day": "2026-11-01"})));
        assert_eq!(runs[0].trigger.as_ref().unwrap()["handler"], handler["id"]);
        let told = announce(api, "day.closed", json!({"day": "yesterday"})).await;
        assert_eq!(told["deliveries"][0]["outcome"], "failed");
        assert!(told["deliveries"][0]["reason"].as_str().unwrap().contains("day"), "{told}");
        let counted = api.read(&format!("{HANDLERS}/{}", handler["id"].as_str().unwrap())).await;
        assert_eq!((&counted["trigger_count"], &counted["success_count"], &counted["failure_count"]), (&json!(2), &json!(1), &json!(1)));
        node.stop().await;
    }

    async fn an_agent_is_dispatched(api: &TestApi) {
        let node = api.work().await;
        api.post_ok(HANDLERS, json!({"event_name": "e", "handler_name": "echo", "action_type": "dispatch_agent"})).await;
        let told = announce(api, "e", json!({"n": 1})).await;
        let job = told["deliveries"][0]["job_id"].as_str().unwrap();
        let done = api.wait(&format!("/api/v1/scheduler/jobs/{job}"), |job| job["executions_count"] == 1).await;
        assert_eq!((&done["handler_type"], &done["success_count"]), (&json!("agent"), &json!(1)));
        node.stop().await;
    }

    async fn a_trigger_hears_an_event_if_its_condition_says_so(api: &TestApi) {
        let node = api.work().await;
        api.apply("{name: w, inputs: {n: {type: integer}}, triggers: [{id: t, event: 'order.*', if: 'event.data.n > 1', inputs: {n: '${{ event.data.n }}'}, max_executions: 2}], \
                     tasks: {t: {function: {handler: noop}}}}").await;
        let outcome = async |n: Value| announce(api, "order.imported", json!({"n": n})).await["deliveries"][0]["outcome"].clone();
        assert_eq!(outcome(json!(1)).await, "ignored");
        assert_eq!(outcome(json!(2)).await, "started");
        assert_eq!(outcome(json!("x")).await, "failed");
        assert_eq!(outcome(json!(3)).await, "started");
        assert_eq!(outcome(json!(4)).await, "ignored", "it has fired as often as it may");
        let mut inputs: Vec<Value> = api.runs("w", 2).await.into_iter().map(|run| run.inputs.unwrap()["n"].clone()).collect();
        inputs.sort_by_key(Value::as_i64);
        assert_eq!(inputs, [2, 3]);
        node.stop().await;
    }

    async fn events_within_a_window_start_one_run_with_the_last(api: &TestApi) {
        let node = api.work().await;
        api.apply("{name: w, inputs: {n: {type: integer}}, triggers: [{event: e, debounce: {window: 5s, key: '${{ event.data.region }}'}, inputs: {n: '${{ event.data.n }}'}}], \
                     tasks: {t: {function: {handler: noop}}}}").await;
        for (region, n) in [("eu", 1), ("us", 2), ("eu", 3)] {
            let last = announce(api, "e", json!({"region": region, "n": n})).await;
            assert_eq!(last["deliveries"][0]["outcome"], "debounced", "{last}");
        }
        let runs = api.runs("w", 2).await;
        let mut inputs: Vec<i64> = runs.iter().map(|run| run.inputs.as_ref().unwrap()["n"].as_i64().unwrap()).collect();
        inputs.sort_unstable();
        assert_eq!(inputs, [2, 3], "one per key, with the last event");
        node.stop().await;
    }

    async fn a_workflow_follows_another(api: &TestApi) {
        let node = api.work().await;
        api.apply("{name: first, tasks: {t: {function: {handler: echo, payload: {n: 5}}}}, outputs: {n: '${{ tasks.t.output.n }}'}}").await;
        api.apply("{name: broken, tasks: {t: {function: {handler: fail}, retry: {attempts: 1}}}}").await;
        api.apply("{name: next, inputs: {n: {type: integer}}, triggers: [{workflow: first, on: [success], inputs: {n: '${{ event.data.outputs.n }}'}}], tasks: {t: {function: {handler: noop}}}}").await;
        api.apply("{name: rescue, triggers: [{workflow: broken, on: [failed]}], tasks: {t: {function: {handler: noop}}}}").await;
        api.apply("{name: never, triggers: [{workflow: broken, on: [success]}, {workflow: first, on: [failed]}], tasks: {t: {function: {handler: noop}}}}").await;
        for name in ["first", "broken"] {
            let spec = api.client.latest("default", name).await.unwrap();
            api.client.submit(&spec, mainspring_engine::Submission::default()).await.unwrap();
        }
        assert_eq!(api.runs("next", 1).await[0].inputs, Some(json!({"n": 5})));
        api.runs("rescue", 1).await;
        api.runs("never", 0).await;
        node.stop().await;
    }

    async fn the_system_tells_of_its_jobs(api: &TestApi) {
        let node = api.work().await;
        api.apply("{name: log, inputs: {what: {type: string}, execution: {type: string, default: ''}}, triggers: [\
                     {event: 'scheduler:job.*', inputs: {what: '${{ event.name }}'}}], tasks: {t: {function: {handler: noop}}}}").await;
        for (name, handler) in [("good", "echo"), ("bad", "flaky")] {
            api.post_ok("/api/v1/scheduler/jobs/cron", json!({"name": name, "schedule": "0 0 1 1 *", "handler_name": handler, "max_retries": 0})).await;
            api.post(&format!("/api/v1/scheduler/jobs/{name}/trigger")).role(Role::Operator).send().await.expect(201);
        }
        let mut told: Vec<String> =
            api.runs("log", 4).await.iter().map(|run| run.inputs.as_ref().unwrap()["what"].as_str().unwrap().to_owned()).collect();
        told.sort();
        assert_eq!(told, ["scheduler:job.completed", "scheduler:job.created", "scheduler:job.created", "scheduler:job.failed"]);
        node.stop().await;
    }

    async fn a_circle_of_events_is_broken(api: &TestApi) {
        let node = api.work().await;
        api.apply("{name: circle, triggers: [{event: again}], tasks: {t: {function: {handler: noop}, publishes_events: [again]}}}").await;
        announce(api, "again", json!({})).await;
        // The first run was led to by none, the last by sixteen.
        let runs = api.runs("circle", 17).await;
        assert!(runs.iter().all(|run| run.summary.state == RunState::Success));
        // The circle is noticed behind the end of its last run.
        let letters = async || {
            let mut letters = 0;
            for run in &runs {
                letters += api.client.store().pending_dead_letters(run.summary.id).await?;
            }
            Ok(Some(letters).filter(|letters| *letters > 0))
        };
        let patience = std::time::Duration::from_secs(120);
        let letters = mainspring_testkit::wait::until("the dead letter is written", patience, letters).await.unwrap();
        assert_eq!(letters, 1);
        node.stop().await;
    }

    async fn a_platform_of_null_is_every_namespace_and_for_administrators(api: &TestApi) {
        let body = |platform: serde_json::Value| json!({"event_name": "e", "handler_name": "noop", "action_type": "create_job", "platform_id": platform});
        api.post(HANDLERS).role(Role::Author).json(body(json!(null))).send().await.expect(403);
        let global = api.post(HANDLERS).role(Role::Admin).json(body(json!(null))).send().await.expect(201).body();
        assert_eq!(global["namespace"], json!(null));
        let target = format!("{HANDLERS}/{}", global["id"].as_str().unwrap());
        api.patch(&target).role(Role::Author).json(json!({"enabled": false})).send().await.expect(403);
        api.delete(&target).role(Role::Author).send().await.expect(403);
        let own = api.post(HANDLERS).role(Role::Author).json(body(json!("here"))).send().await.expect(201).body();
        assert_eq!(own["namespace"], "here");
    }

    async fn bad_events_and_handlers_are_explained(api: &TestApi) {
        let big = json!({"event_name": "e", "data": {"text": "x".repeat(1 << 20)}});
        api.post(EVENTS).role(Role::Operator).json(big).send().await.expect(413);
        for body in [json!({"event_name": ""}), json!({"event_name": "a b"}), json!({"event_name": "x".repeat(300)}), json!({"event_name": "e", "dta": 1})] {
            api.post(EVENTS).role(Role::Operator).json(body).send().await.expect(422);
        }
        for (change, place) in [
            (json!({"action_type": "explode"}), "/action_type"), (json!({"event_name": "a*b"}), "/event_name"), (json!({"handler_name": ""}), "/handler_name"),
            (json!({"handler_type": "magic"}), "/handler_type"), (json!({"action_config": 1}), "/action_config"), (json!({"action_config": {"inputs": 1}}), "/action_config/inputs"),
            (json!({"global": true, "namespace": "x"}), "/global"),
        ] {
            let mut body = json!({"event_name": "e", "handler_name": "noop", "action_type": "create_job"});
            change.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
            let problem = api.post(HANDLERS).role(Role::Admin).json(body).send().await.expect(422).body();
            assert_eq!(problem["errors"][0]["pointer"], place, "{problem}");
        }
        let token = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
        let body = json!({"event_name": "e", "handler_name": "noop", "action_type": "create_job"});
        api.post(HANDLERS).bearer(&token).json(body.clone()).send().await.expect(403);
        let mut global = body;
        global["global"] = json!(true);
        api.post(HANDLERS).bearer(&token).json(global).send().await.expect(403);
        api.post(EVENTS).bearer(&token).json(json!({"event_name": "e"})).send().await.expect(403);
    }
}
