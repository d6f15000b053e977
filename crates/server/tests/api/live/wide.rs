//! Following many runs, other nodes, log lines, and falling behind.

use std::sync::Arc;

use futures_util::StreamExt;
use http_body_util::BodyExt;
use mainspring_core::TaskKey;
use mainspring_engine::{
    Client, LiveUpdate, MessageType, NodeConfig, Submission, SystemClock, WideFilter, WideSubscription,
};
use mainspring_server::Role;
use mainspring_store::{Connect, Flavor, LogCursor, Store};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::node::TestNode;
use mainspring_worker::{FunctionCall, Registry};
use serde_json::Value;

use super::wire::{PATIENCE, Site, is_end, next, tells_the_end};
use crate::test_api::TestApi;

/// The next message of a subscription as JSON.
async fn told(subscription: &mut WideSubscription) -> Value {
    match tokio::time::timeout(PATIENCE, subscription.next()).await.expect("a message comes in time").unwrap() {
        LiveUpdate::Message(message) => serde_json::from_str(&message.text).unwrap(),
        LiveUpdate::Over(why) => panic!("{why}"),
    }
}

async fn a_snapshot_and_then_what_happens(flavor: Flavor) {
    let site = Site::open(flavor).await;
    let spec = site.workflow("{name: w, tasks: {a: {function: noop}}}").await;
    let other = site.workflow("{name: other, tasks: {a: {function: noop}}}").await;
    let early = site.submit(&spec).await;
    let mut socket = site.connect("workflow=w").await;
    let first = next(&mut socket).await.unwrap();
    assert_eq!((&first["run"], &first["payload"]["snapshot"]), (&Value::from(early.to_string()), &Value::from(true)));
    site.submit(&other).await;
    let late = site.submit(&spec).await.to_string();
    let mut saw_task = false;
    loop {
        let message = next(&mut socket).await.unwrap();
        assert_ne!(message["payload"]["workflow"], "other", "{message}");
        saw_task |= message["type"] == "task_status"
            && message["run"] == late.as_str()
            && message["payload"]["status"] == "success";
        // After a resync the snapshot tells it.
        saw_task |= message["type"] == "resync";
        // A run that was over before it was seen is sent as a snapshot first, and then what happened to it.
        if message["run"] == late.as_str() && (is_end(&message) || saw_task && tells_the_end(&message)) {
            break;
        }
    }
    assert!(saw_task, "the task of the run was sent before its end");
    drop(socket);
    let mut beats = site.connect("types=worker_heartbeat").await;
    let beat = next(&mut beats).await.unwrap();
    assert_eq!((&beat["type"], &beat["payload"]["id"]), (&Value::from("worker_heartbeat"), &Value::from("test")));
    drop(beats);
    site.deserted().await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_and_then_what_happens_on_postgres() {
    a_snapshot_and_then_what_happens(Flavor::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_and_then_what_happens_on_sqlite() {
    a_snapshot_and_then_what_happens(Flavor::Sqlite).await;
}

/// Two processes: one follows, the other executes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_node_does_is_told_too() {
    let database = TestDatabase::new(Flavor::Postgres).await;
    let elsewhere = Store::connect(&Connect::new(database.url())).await.unwrap();
    let mut registry = Registry::default();
    registry.register("greet", |call: FunctionCall| async move {
        call.log.info("hello").await;
        Ok(None)
    });
    let there = Client::new(elsewhere, Arc::new(SystemClock::new()));
    let node = TestNode::start_as(there.clone(), NodeConfig::default(), registry).await.unwrap();
    let here = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let yaml = "{name: w, tasks: {a: {function: greet}}}";
    let spec = there.put_workflow(mainspring_core::parse(yaml).unwrap(), yaml).await.unwrap();
    let types = vec![MessageType::WorkflowStatus, MessageType::TaskStatus, MessageType::Log];
    let mut subscription = here.live().subscribe(WideFilter { types, ..WideFilter::default() }).await.unwrap();
    // The other node sends what a task prints once it knows of the subscriber: until then, again.
    let (mut lines, mut ends) = (0, 0);
    there.submit(&spec, Submission::default()).await.unwrap();
    while lines == 0 || ends == 0 {
        let message = told(&mut subscription).await;
        let payload = &message["payload"];
        lines += usize::from(message["type"] == "log" && payload["message"] == "hello" && payload["level"] == "info");
        if tells_the_end(&message) {
            ends += 1;
            if lines == 0 {
                there.submit(&spec, Submission::default()).await.unwrap();
            }
        }
    }
    drop(subscription);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_falls_behind_is_told_so_and_gets_a_new_snapshot() {
    let site = Site::open(Flavor::Sqlite).await;
    let tasks: Vec<String> = (0..1_500).map(|n| format!("t{n}: {{function: noop}}")).collect();
    let spec = site.workflow(&format!("{{name: w, tasks: {{{}}}}}", tasks.join(", "))).await;
    let mut subscription = site.client().live().subscribe(WideFilter::default()).await.unwrap();
    let run = site.submit(&spec).await;
    let second = site.submit(&spec).await;
    for run in [run, second] {
        mainspring_testkit::wait::until("the runs end", PATIENCE, async || {
            Ok(site.client().store().run_summary(run).await?.state.is_terminal().then_some(()))
        })
        .await
        .unwrap();
    }
    // Nothing was taken meanwhile: what the queue could not hold is replaced by where things stand.
    let mut messages = 0;
    loop {
        let message = told(&mut subscription).await;
        messages += 1;
        assert!(messages < 5_000, "no resync");
        if message["type"] == "resync" {
            break;
        }
    }
    loop {
        let message = told(&mut subscription).await;
        if message["run"] == second.to_string() && message["payload"]["snapshot"] == true {
            assert_eq!(message["payload"]["status"], "success");
            break;
        }
    }
    drop(subscription);
    site.deserted().await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_sent_events_resume_from_the_last_number() {
    let site = Site::open(Flavor::Sqlite).await;
    let spec = site.workflow("{name: w, tasks: {a: {function: noop}, b: {needs: a, function: noop}}}").await;
    let run = site.submit(&spec).await;
    let read = async |last: Option<&str>, until: &str| -> String {
        let mut call = site.api.get(&format!("/api/v1/events/stream?run={run}")).role(Role::Viewer);
        if let Some(last) = last {
            call = call.header("last-event-id", last);
        }
        let response = call.open().await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        let mut body = response.into_body().into_data_stream();
        let mut text = String::new();
        while !text.contains(until) {
            let chunk = tokio::time::timeout(PATIENCE, body.next()).await.expect("an event comes").unwrap().unwrap();
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
        text
    };
    let all = read(None, "\"transition\":\"ended\"").await;
    for line in ["event: workflow_status", "event: task_status", "id: 1\n", "id: 2\n"] {
        assert!(all.contains(line), "{line} is not in\n{all}");
    }
    let rest = read(Some("2"), "\"transition\":\"ended\"").await;
    assert!(!rest.contains("id: 2\n") && rest.contains("\"seq\":3"), "{rest}");
    for wrong in ["x", "-1", "99"] {
        site.api
            .get(&format!("/api/v1/events/stream?run={run}"))
            .role(Role::Viewer)
            .header("last-event-id", wrong)
            .send()
            .await
            .expect(400);
    }
    site.deserted().await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_followed_to_its_end() {
    let site = Site::open(Flavor::Sqlite).await;
    let spec = site.workflow("{name: w, tasks: {a: {run: 'echo one; echo two; exit 3', retry: {attempts: 2, delay: 10ms}, on_exhausted: fail}}}").await;
    let run = site.submit(&spec).await;
    let key = TaskKey::new(run, 0);
    let mut subscription = site.client().live().subscribe_to_logs(key, None, LogCursor::default());
    let mut lines = Vec::new();
    let mut last = LogCursor::default();
    while let Some(chunks) = tokio::time::timeout(PATIENCE, subscription.next()).await.expect("it ends").unwrap() {
        for (cursor, chunk) in chunks {
            assert!((cursor.attempt, cursor.chunk) > (last.attempt, last.chunk));
            last = cursor;
            lines.extend(chunk.into_iter().map(|line| format!("{} {}", cursor.attempt, line.text)));
        }
    }
    lines.retain(|line| line.ends_with("one") || line.ends_with("two"));
    assert_eq!(lines, ["1 one", "1 two", "2 one", "2 two"]);
    let mut again = site.client().live().subscribe_to_logs(key, Some(1), LogCursor::default());
    let first = again.next().await.unwrap().unwrap();
    assert!(first.iter().all(|(cursor, _)| cursor.attempt == 1));
    drop((subscription, again));
    site.deserted().await;
    site.close().await;
}

/// Nothing is read and nothing is asked while there are no subscribers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_subscribers_is_quiet() {
    let api = TestApi::new(Flavor::Sqlite).await;
    assert_eq!(api.client.live().followers(), 0);
    let answer = api.get("/ws/updates").role(Role::Viewer).open().await;
    assert_eq!(answer.status().as_u16(), 426);
    let _ = answer.into_body().collect().await;
    assert_eq!(api.client.live().followers(), 0);
}
