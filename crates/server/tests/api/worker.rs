//! The protocol of remote workers: register, exchange, logs, artifacts, files, and what is refused.

use std::time::Duration;

use mainspring_engine::NodeConfig;
use mainspring_server::{Grant, Role};
use mainspring_testkit::node::TestNode;
use mainspring_worker::Registry;
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::{Answer, Call, TestApi};

const REMOTE: &str = "name: away\ntasks:\n  work:\n    remote: {handler: report, payload: {rows: 3}}\n    retry: {attempts: 3, delay: 10ms}\n";
const SCRIPT: &str = "name: away\ntasks:\n  work:\n    run: echo hello\n    queue: far\n";

/// A node that executes nothing itself.
pub(crate) async fn node(api: &TestApi) -> TestNode {
    let config = NodeConfig {
        name: "front".into(),
        heartbeat: Duration::from_millis(100),
        lease_ttl: Duration::from_secs(30),
        process_slots: 0,
        function_slots: 0,
        ..NodeConfig::default()
    };
    TestNode::start_as(api.client.clone(), config, Registry::builder().build()).await.unwrap()
}

/// A worker as the tests play it.
pub(crate) struct Played<'a> {
    api: &'a TestApi,
    pub(crate) id: i64,
    token: String,
}

impl<'a> Played<'a> {
    pub(crate) async fn register(api: &'a TestApi, queues: &[&str]) -> Self {
        let made = api.post("/api/v1/worker/sessions").role(Role::Worker).json(registration(queues)).send().await;
        let made = made.expect(201).body();
        assert!(made["lease_ttl_ms"].as_u64().is_some() && made["server_time"].as_str().is_some(), "{made}");
        Self {
            api,
            id: made["session_id"].as_i64().unwrap(),
            token: made["session_token"].as_str().unwrap().to_owned(),
        }
    }

    pub(crate) fn call<'c>(&self, call: Call<'c>) -> Call<'c> {
        call.role(Role::Worker).header("mainspring-session", &self.token)
    }

    async fn exchange(&self, seq: i64, more: Value) -> Answer {
        let mut body = json!({"session_id": self.id, "seq": seq, "want": {"process": 4, "function": 4, "remote": 4}, "wait_ms": 1000});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        self.call(self.api.post("/api/v1/worker/exchange")).json(body).send().await
    }

    /// Exchanges until something is assigned; the number of the next exchange.
    pub(crate) async fn assigned(&self, mut seq: i64) -> (Value, i64) {
        for _ in 0..60 {
            let answer = self.exchange(seq, json!({})).await.expect(200).body();
            seq += 1;
            if let Some(assignment) = answer["assignments"].as_array().unwrap().first() {
                return (assignment.clone(), seq);
            }
        }
        panic!("nothing was assigned");
    }

    /// Hands results in, and exchanges until the node says what became of them: on a loaded machine that may take longer
    /// than one answer waits. Returns that answer and the number of the next exchange.
    pub(crate) async fn hand_in(&self, mut seq: i64, finished: Value) -> (Value, i64) {
        for _ in 0..60 {
            let answer = self.exchange(seq, json!({"finished": finished, "want": {}})).await.expect(200).body();
            seq += 1;
            if answer["acknowledged"] != json!([]) || answer["fenced"] != json!([]) {
                return (answer, seq);
            }
        }
        panic!("nothing became of {finished}");
    }

    async fn log(&self, chunks: Value) -> Answer {
        self.call(self.api.post("/api/v1/worker/logs"))
            .json(json!({"session_id": self.id, "chunks": chunks}))
            .send()
            .await
    }
}

fn registration(queues: &[&str]) -> Value {
    json!({
        "protocol": 1, "worker_id": "w", "hostname": "h", "queues": queues, "labels": {"arch": "arm"},
        "slots": {"process": 4, "function": 4, "remote": 4}, "handlers": ["report"], "version": "0"
    })
}

fn of(assignment: &Value) -> Value {
    json!({"task_run_id": assignment["task_run_id"], "attempt": assignment["attempt"]})
}

pub(crate) fn finished(assignment: &Value, more: Value) -> Value {
    let mut result = of(assignment);
    for (key, value) in more.as_object().unwrap() {
        result[key] = value.clone();
    }
    result
}

on_both! {
    async fn a_task_goes_to_a_remote_worker_and_its_result_comes_back(api: &TestApi) {
        let node = node(api).await;
        api.store(REMOTE).await;
        let run = api.start("away").await;
        let worker = Played::register(api, &[]).await;
        let (assignment, seq) = worker.assigned(1).await;
        assert_eq!(assignment["order"]["action"], json!({"kind": "remote", "handler": "report", "payload": {"rows": 3}}));
        assert_eq!(assignment["attempt"], 1);
        let done = finished(&assignment, json!({"outcome": "success", "output": {"parts": 2}}));
        let (answer, next) = worker.hand_in(seq, json!([done])).await;
        assert_eq!(answer["acknowledged"], json!([of(&assignment)]));
        assert_eq!(answer["fenced"], json!([]));
        api.until(&run, "success").await;
        assert_eq!(api.task(&run, "work").await["output"], json!({"parts": 2}));
        // The same number again: the same answer.
        let again = worker.exchange(next - 1, json!({"finished": []})).await.expect(200).body();
        assert_eq!(again, answer);
        node.stop().await;
    }

    async fn a_lost_answer_is_given_again_also_by_another_node(api: &TestApi) {
        let first = node(api).await;
        api.store(SCRIPT).await;
        let worker = Played::register(api, &["far"]).await;
        api.start("away").await;
        let (assignment, seq) = worker.assigned(1).await;
        // The answer was lost: the worker asks the same again, and has the assignment once.
        let again = worker.exchange(seq - 1, json!({})).await.expect(200).body();
        assert_eq!(again["assignments"][0]["task_run_id"], assignment["task_run_id"]);
        // Its node is gone; another one knows nothing of the answer, but the database does.
        first.stop().await;
        let second = node(api).await;
        let elsewhere = worker.exchange(seq - 1, json!({})).await.expect(200).body();
        assert_eq!(elsewhere["assignments"][0]["task_run_id"], assignment["task_run_id"]);
        assert_eq!(elsewhere["assignments"][0]["attempt"], 1, "nothing was lost: it is still the first attempt");
        // Who says that it holds the attempt does not get it again, and what it hands in counts once.
        let holding = json!({"holding": [of(&assignment)], "wait_ms": 0});
        let held = worker.exchange(seq, holding).await.expect(200).body();
        assert_eq!((&held["assignments"], &held["cancel"]), (&json!([]), &json!([])));
        let done = finished(&assignment, json!({"outcome": "success"}));
        let (answer, next) = worker.hand_in(seq + 1, json!([done])).await;
        assert_eq!(answer["acknowledged"], json!([of(&assignment)]));
        let (third, _) = worker.hand_in(next, json!([done])).await;
        assert_eq!(third["acknowledged"], json!([of(&assignment)]), "the same result again is acknowledged again");
        second.stop().await;
    }

    async fn results_that_are_forged_late_or_unknown_are_fenced_and_change_nothing(api: &TestApi) {
        let node = node(api).await;
        api.store(REMOTE).await;
        let run = api.start("away").await;
        let (worker, other) = (Played::register(api, &[]).await, Played::register(api, &["elsewhere"]).await);
        let (assignment, seq) = worker.assigned(1).await;
        let forged = finished(&assignment, json!({"outcome": "success", "output": {"forged": true}}));
        let answer = other.exchange(1, json!({"finished": [forged], "wait_ms": 0})).await.expect(200).body();
        assert_eq!(answer["fenced"], json!([of(&assignment)]), "another's task");
        let mut wrong = forged.clone();
        wrong["attempt"] = json!(7);
        let answer = worker.exchange(seq, json!({"finished": [wrong], "holding": [of(&assignment)]})).await.expect(200).body();
        assert_eq!(answer["fenced"][0]["attempt"], 7);
        let failed = finished(&assignment, json!({"outcome": "failed", "error": {"kind": "handler", "message": "no"}}));
        let (answer, seq) = worker.hand_in(seq + 1, json!([failed])).await;
        assert_eq!(answer["acknowledged"], json!([of(&assignment)]));
        // It goes on with another attempt; the first one is over.
        let late = worker.exchange(seq, json!({"finished": [forged], "want": {}, "wait_ms": 0})).await.expect(200).body();
        assert_eq!(late["acknowledged"], json!([of(&assignment)]), "its end was handed in already, and this changes nothing");
        assert_ne!(api.task(&run, "work").await["status"], "success");
        node.stop().await;
    }

    async fn a_dead_session_gets_nothing_and_its_work_goes_to_others(api: &TestApi) {
        let node = node(api).await;
        api.store(REMOTE).await;
        api.start("away").await;
        let worker = Played::register(api, &[]).await;
        let (assignment, seq) = worker.assigned(1).await;
        let store = api.client.store();
        store.end_session(api.client.now(), worker.id).await.unwrap();
        let answer = worker.exchange(seq, json!({"holding": [of(&assignment)]})).await.expect(409).body();
        assert_eq!(answer["type"], "urn:mainspring:session-lost");
        let next = Played::register(api, &[]).await;
        let (again, _) = next.assigned(1).await;
        assert_eq!((&again["task_run_id"], &again["attempt"]), (&assignment["task_run_id"], &json!(2)));
        node.stop().await;
    }

    async fn cancelled_attempts_are_told_until_they_end(api: &TestApi) {
        let node = node(api).await;
        api.store(REMOTE).await;
        let run = api.start("away").await;
        let worker = Played::register(api, &[]).await;
        let (assignment, mut seq) = worker.assigned(1).await;
        api.post(&format!("/api/v1/workflow-runs/{run}/cancel")).role(Role::Operator).send().await;
        let holding = json!({"holding": [of(&assignment)], "want": {}});
        let mut told = Value::Null;
        for _ in 0..60 {
            let answer = worker.exchange(seq, holding.clone()).await.expect(200).body();
            seq += 1;
            if let Some(cancel) = answer["cancel"].as_array().unwrap().first() {
                told = cancel.clone();
                break;
            }
        }
        assert_eq!(told["task_run_id"], assignment["task_run_id"]);
        let again = worker.exchange(seq, json!({"holding": [of(&assignment)], "want": {}, "wait_ms": 0})).await.expect(200).body();
        assert_eq!(again["cancel"][0]["task_run_id"], assignment["task_run_id"], "told again");
        let ended = finished(&assignment, json!({"outcome": "cancelled", "error": {"kind": "cancelled", "message": told["reason"]}}));
        worker.exchange(seq + 1, json!({"finished": [ended], "want": {}})).await.expect(200);
        api.until(&run, "cancelled").await;
        node.stop().await;
    }

    async fn released_attempts_cost_nothing_and_draining_workers_get_nothing(api: &TestApi) {
        let node = node(api).await;
        api.store(REMOTE).await;
        let run = api.start("away").await;
        let worker = Played::register(api, &[]).await;
        let (assignment, seq) = worker.assigned(1).await;
        api.post(&format!("/api/v1/workers/{}/drain", worker.id)).role(Role::Operator).send().await.expect(200);
        let mut seq = seq;
        loop {
            let answer = worker.exchange(seq, json!({"holding": [of(&assignment)], "want": {}})).await.expect(200).body();
            seq += 1;
            if answer["drain"] == true {
                break;
            }
        }
        worker.exchange(seq, json!({"released": [of(&assignment)], "wait_ms": 0})).await.expect(200);
        let other = Played::register(api, &[]).await;
        let (again, next) = other.assigned(1).await;
        assert_eq!(again["attempt"], 2);
        let done = finished(&again, json!({"outcome": "success"}));
        other.exchange(next, json!({"finished": [done], "wait_ms": 0})).await.expect(200);
        api.until(&run, "success").await;
        let left = worker.call(api.delete(&format!("/api/v1/worker/sessions/{}", worker.id))).send().await.expect(200).body();
        assert_eq!(left["returned"], 0);
        node.stop().await;
    }

    async fn what_a_worker_has_not_begun_goes_to_one_that_is_idle(api: &TestApi) {
        let node = node(api).await;
        api.store("name: away\ntasks:\n  work:\n    foreach: [1, 2, 3, 4]\n    remote: {handler: report}\n").await;
        let (busy, idle) = (Played::register(api, &[]).await, Played::register(api, &[]).await);
        api.start("away").await;
        let (mut held, mut seq): (Vec<Value>, i64) = (Vec::new(), 1);
        while held.len() < 4 {
            let holding: Vec<Value> = held.iter().map(of).collect();
            let answer = busy.exchange(seq, json!({"holding": holding})).await.expect(200).body();
            held.extend(answer["assignments"].as_array().unwrap().iter().cloned());
            seq += 1;
        }
        let waiting = |assignment: &Value, started: bool| finished(assignment, json!({"started": started}));
        let holding: Vec<Value> = held.iter().enumerate().map(|(nth, assignment)| waiting(assignment, nth == 0)).collect();
        let (mut released, mut other) = (Vec::new(), 1);
        for _ in 0..60 {
            let body = json!({"holding": holding, "want": {}, "wait_ms": 100});
            let answer = busy.exchange(seq, body).await.expect(200).body();
            seq += 1;
            released = answer["release"].as_array().unwrap().clone();
            if !released.is_empty() {
                break;
            }
            idle.exchange(other, json!({"wait_ms": 50})).await.expect(200);
            other += 1;
        }
        assert_eq!(released.len(), 2, "half of the three that it has not begun");
        assert!(!released.contains(&of(&held[0])), "not the one that runs");
        busy.exchange(seq, json!({"released": released, "want": {}, "wait_ms": 0})).await.expect(200);
        let (stolen, _) = idle.assigned(other).await;
        assert!(released.iter().any(|one| one["task_run_id"] == stolen["task_run_id"]), "{stolen}");
        assert_eq!(stolen["attempt"], 2);
        node.stop().await;
    }

    async fn log_lines_are_stored_once_in_order_and_not_for_ended_attempts(api: &TestApi) {
        let node = node(api).await;
        api.store(SCRIPT).await;
        let run = api.start("away").await;
        let worker = Played::register(api, &["far"]).await;
        let (assignment, seq) = worker.assigned(1).await;
        let chunk = |offset: i64, lines: &[&str]| {
            let lines: Vec<Value> = lines.iter().map(|text| json!({"text": text})).collect();
            json!({"task_run_id": assignment["task_run_id"], "attempt": 1, "offset": offset, "stream": "stdout", "lines": lines})
        };
        let first = worker.log(json!([chunk(0, &["one", "two"])])).await.expect(200).body();
        assert_eq!(first["chunks"][0], json!({"task_run_id": assignment["task_run_id"], "attempt": 1, "accepted": 2, "next_offset": 2, "fenced": false}));
        let repeated = worker.log(json!([chunk(0, &["one", "two"])])).await.expect(200).body();
        assert_eq!((&repeated["chunks"][0]["accepted"], &repeated["chunks"][0]["next_offset"]), (&json!(0), &json!(2)));
        let overlapping = worker.log(json!([chunk(1, &["two", "three"]), chunk(3, &["four"])])).await.expect(200).body();
        assert_eq!((&overlapping["chunks"][0]["accepted"], &overlapping["chunks"][1]["next_offset"]), (&json!(1), &json!(4)));
        let gap = worker.log(json!([chunk(9, &["ten"])])).await.expect(200).body();
        assert_eq!((&gap["chunks"][0]["accepted"], &gap["chunks"][0]["next_offset"]), (&json!(0), &json!(4)));
        let done = finished(&assignment, json!({"outcome": "success"}));
        worker.hand_in(seq, json!([done])).await;
        let late = worker.log(json!([chunk(4, &["five"])])).await.expect(200).body();
        assert_eq!(late["chunks"][0]["fenced"], true);
        api.until(&run, "success").await;
        let logs = api.get(&format!("/api/v1/workflow-runs/{run}/tasks/work/logs")).role(Role::Viewer).send().await.expect(200);
        let positions: Vec<usize> = ["one", "two", "three", "four"].iter().map(|line| logs.text.find(line).unwrap()).collect();
        assert!(positions.is_sorted(), "{}", logs.text);
        assert_eq!(logs.text.matches("\"two\"").count(), 1, "{}", logs.text);
        assert!(!logs.text.contains("five"));
        node.stop().await;
    }

    async fn artifacts_are_kept_with_their_digest_and_only_by_who_holds_the_attempt(api: &TestApi) {
        let node = node(api).await;
        api.store(SCRIPT).await;
        api.start("away").await;
        let (worker, other) = (Played::register(api, &["far"]).await, Played::register(api, &["near"]).await);
        let (assignment, _) = worker.assigned(1).await;
        let task_run = assignment["task_run_id"].as_str().unwrap().to_owned();
        let target = |of: &Played<'_>| format!("/api/v1/worker/artifacts/{task_run}/1/out%2Freport.txt?session_id={}", of.id);
        let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let put = |of: &Played<'_>, digest: &str| of.call(api.put(&target(of))).text("application/octet-stream", "hello").header("mainspring-sha256", digest);
        let kept = put(&worker, digest).send().await.expect(200).body();
        assert_eq!(kept, json!({"name": "out/report.txt", "bytes": 5, "sha256": digest}));
        put(&worker, &"0".repeat(64)).send().await.expect(400);
        put(&other, digest).send().await.expect(409);
        worker.call(api.put(&format!("/api/v1/worker/artifacts/{task_run}/1/..%2Fx?session_id={}", worker.id)))
            .text("application/octet-stream", "hello").header("mainspring-sha256", digest).send().await.expect(422);
        node.stop().await;
    }

    async fn strangers_get_nowhere(api: &TestApi) {
        let node = node(api).await;
        let worker = Played::register(api, &[]).await;
        let body = |id: i64| json!({"session_id": id, "seq": 1, "wait_ms": 0});
        let exchange = || api.post("/api/v1/worker/exchange");
        exchange().json(body(worker.id)).header("mainspring-session", &worker.token).send().await.expect(401);
        exchange().bearer("ms_wrong").json(body(worker.id)).send().await.expect(401);
        exchange().role(Role::Admin).header("mainspring-session", &worker.token).json(body(worker.id)).send().await.expect(403);
        exchange().role(Role::Worker).json(body(worker.id)).send().await.expect(400);
        exchange().role(Role::Worker).header("mainspring-session", "another").json(body(worker.id)).send().await.expect(404);
        worker.call(exchange()).json(body(worker.id + 1)).send().await.expect(404);
        let narrow = api.make_token("narrow", &[Grant::within("other", Role::Worker)]).await;
        exchange().bearer(&narrow).header("mainspring-session", &worker.token).json(body(worker.id)).send().await.expect(404);
        let mut wrong = registration(&[]);
        wrong["protocol"] = json!(99);
        let refused = api.post("/api/v1/worker/sessions").role(Role::Worker).json(wrong).send().await.expect(409);
        refused.text.contains("versions 1 to 1").then_some(()).unwrap();
        for (field, value) in [("worker_id", json!("")), ("queues", json!(["a,b"])), ("slots", json!({})), ("slots", json!({"process": 4_000_000}))] {
            let mut wrong = registration(&[]);
            wrong[field] = value;
            api.post("/api/v1/worker/sessions").role(Role::Worker).json(wrong).send().await.expect(422);
        }
        worker.exchange(5, json!({"wait_ms": 0})).await.expect(409);
        worker.exchange(0, json!({})).await.expect(422);
        worker.exchange(1, json!({"holding": [{"task_run_id": "x", "attempt": 1}]})).await.expect(422);
        let huge = "x".repeat(50 << 20);
        worker.call(exchange()).json(json!({"session_id": worker.id, "seq": 1, "finished": [{"task_run_id": huge, "attempt": 1, "outcome": "success"}]}))
            .send().await.expect(413);
        worker.exchange(1, json!({"wait_ms": 0})).await.expect(200);
        node.stop().await;
    }

    async fn a_worker_of_one_namespace_takes_tasks_of_that_one_alone(api: &TestApi) {
        let node = node(api).await;
        api.store(REMOTE).await;
        api.start("away").await;
        let token = api.make_token("narrow", &[Grant::within("other", Role::Worker)]).await;
        let made = api.post("/api/v1/worker/sessions").bearer(&token).json(registration(&[])).send().await.expect(201).body();
        let session = made["session_token"].as_str().unwrap();
        let body = json!({"session_id": made["session_id"], "seq": 1, "want": {"remote": 4}, "wait_ms": 300});
        let answer = api.post("/api/v1/worker/exchange").bearer(&token).header("mainspring-session", session).json(body).send().await;
        assert_eq!(answer.expect(200).body()["assignments"], json!([]));
        node.stop().await;
    }

    async fn workers_are_listed_without_nodes_that_execute_nothing_and_namesakes_are_marked(api: &TestApi) {
        let node = node(api).await;
        let one = Played::register(api, &["far"]).await;
        let listed = api.get("/api/v1/workers").role(Role::Viewer).send().await.expect(200).body();
        let listed = listed["items"].as_array().unwrap().clone();
        assert_eq!(listed.len(), 1, "the node has no slots: {listed:?}");
        assert_eq!((&listed[0]["session_id"], &listed[0]["remote"], &listed[0]["duplicate_id"]), (&json!(one.id), &json!(true), &json!(false)));
        let two = Played::register(api, &["far"]).await;
        let listed = api.get("/api/v1/workers").role(Role::Viewer).send().await.expect(200).body();
        assert!(listed["items"].as_array().unwrap().iter().all(|worker| worker["duplicate_id"] == true), "{listed}");
        // Both work.
        one.exchange(1, json!({"wait_ms": 0})).await.expect(200);
        two.exchange(1, json!({"wait_ms": 0})).await.expect(200);
        node.stop().await;
    }
}
