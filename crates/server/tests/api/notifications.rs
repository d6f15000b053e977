//! Notifications: once per cause, together when there are many, tried again when a target does not answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mainspring_core::signature::signature;
use mainspring_engine::{Message, Messenger, MessengerFuture, NodeConfig};
use mainspring_server::Role;
use mainspring_testkit::node::TestNode;
use mainspring_testkit::wait;
use mainspring_worker::Registry;
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::TestApi;

/// Keeps what it is given; refuses addresses with `broken` in them.
#[derive(Debug, Default)]
struct Mailbag(Mutex<Vec<Message>>);

impl Messenger for Mailbag {
    fn send(&self, message: Message) -> MessengerFuture<'_> {
        Box::pin(async move {
            if matches!(&message, Message::Post { url, .. } if url.contains("broken")) {
                return Err("the address answered 500".into());
            }
            self.0.lock().unwrap().push(message);
            Ok(())
        })
    }
}

impl Mailbag {
    async fn until(&self, count: usize) -> Vec<Message> {
        let look = async || Ok(Some(self.0.lock().unwrap().clone()).filter(|all| all.len() >= count));
        wait::until("messages have arrived", Duration::from_secs(60), look).await.unwrap()
    }
}

async fn node(api: &TestApi) -> (Arc<Mailbag>, TestNode) {
    let mailbag = Arc::new(Mailbag::default());
    let config = NodeConfig {
        name: "telling".into(),
        heartbeat: Duration::from_millis(50),
        lease_ttl: Duration::from_secs(60),
        process_slots: 4,
        messenger: Some(mailbag.clone()),
        ..NodeConfig::default()
    };
    let node = TestNode::start_as(api.client.clone(), config, Registry::builder().build()).await.unwrap();
    (mailbag, node)
}

async fn told(api: &TestApi, status: &str) -> Vec<Value> {
    let shown =
        api.get(&format!("/api/v1/notifications?status={status}")).role(Role::Viewer).send().await.expect(200).body();
    shown["items"].as_array().unwrap().clone()
}

on_both! {
    async fn a_dead_letter_and_a_failed_run_are_told_once_and_then_together(api: &TestApi) {
        api.put("/api/v1/secrets/HOOK").role(Role::Admin).json(json!({"value": "sesame"})).send().await.expect(201);
        api.store("{name: w, notifications: [{on: dead_letter, webhook: 'https://ops.example.com/hook', secret: HOOK}], tasks: {a: {run: 'exit 1'}}}").await;
        let (mailbag, node) = node(api).await;
        let run = api.start("w").await;
        let first = mailbag.until(1).await.remove(0);
        let Message::Post { url, headers, body } = first else { panic!("{first:?}") };
        let shown: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((url.as_str(), &shown["event"], &shown["run_id"]), ("https://ops.example.com/hook", &json!("dead_letter"), &json!(run)));
        let signed = headers.iter().find(|(name, _)| name == "X-Mainspring-Signature").map(|(_, value)| value.clone());
        assert_eq!(signed, Some(signature("sesame", body.as_bytes())));

        for _ in 0..3 {
            let run = api.start("w").await;
            api.until(&run, "failed").await;
        }
        let look = async || Ok(Some(told(api, "waiting").await).filter(|all| all.len() == 3));
        wait::until("three wait for each other", Duration::from_secs(60), look).await.unwrap();
        api.database.execute("UPDATE notifications SET sent_at = sent_at - 120000000").await;
        api.database.execute("UPDATE notifications SET due_at = 0").await;
        let digest = mailbag.until(2).await.remove(1);
        let Message::Post { body, .. } = digest else { panic!("{digest:?}") };
        let shown: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&shown["event"], &shown["count"], &shown["counts"]["dead_letter of w"]), (&json!("digest"), &json!(3), &json!(3)));
        let look = async || Ok(Some((told(api, "sent").await.len(), told(api, "in_digest").await.len())).filter(|told| *told == (2, 2)));
        wait::until("every message is sent, two of them in a digest", Duration::from_secs(60), look).await.unwrap();
        node.stop().await;
    }

    async fn a_target_that_does_not_take_it_is_tried_again_and_never_in_the_way(api: &TestApi) {
        let set = |body: Value| api.put("/api/v1/namespaces/default/notifications").role(Role::Author).json(body);
        set(json!({"notifications": [{"slack": "ftp://x"}]})).send().await.expect(422);
        let targets = json!({"notifications": [
            {"on": ["run_failed"], "slack": "https://broken.example.com"},
            {"on": ["run_failed"], "email": ["ops@example.com"]},
        ]});
        assert_eq!(set(targets.clone()).send().await.expect(200).body(), targets);
        api.store("{name: w, tasks: {a: {run: 'exit 1'}}}").await;
        let (mailbag, node) = node(api).await;
        let run = api.start("w").await;
        api.until(&run, "failed").await;
        let mail = mailbag.until(1).await.remove(0);
        let Message::Email { to, subject, .. } = mail else { panic!("{mail:?}") };
        assert_eq!((to[0].as_str(), subject.starts_with("run failed default/w")), ("ops@example.com", true), "{subject}");
        let look = async || Ok(Some(told(api, "waiting").await).filter(|all| all.first().is_some_and(|one| one["attempts"] == 1)));
        let waiting = wait::until("the other was tried", Duration::from_secs(60), look).await.unwrap();
        assert_eq!((&waiting[0]["channel"], &waiting[0]["error"]), (&json!("slack"), &json!("the address answered 500")));
        assert!(waiting[0]["next_attempt_at"].is_string());
        api.database.execute("UPDATE notifications SET attempts = 9, due_at = 0 WHERE status = 0").await;
        let look = async || Ok(Some(told(api, "given_up").await).filter(|all| all.len() == 1));
        wait::until("it is given up", Duration::from_secs(60), look).await.unwrap();
        node.stop().await;
    }
}
