//! Who may follow what, and how many.

use std::time::Duration;

use futures_util::SinkExt;
use mainspring_server::{Grant, LiveLimits, Role};
use mainspring_store::Flavor;
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

use super::wire::{Site, closed, next, tells_the_end};

async fn a_viewer_of_one_namespace_sees_nothing_of_another(flavor: Flavor) {
    let site = Site::open(flavor).await;
    let ours = site.workflow("{name: w, namespace: ours, tasks: {a: {function: noop}}}").await;
    let theirs = site.workflow("{name: w, namespace: theirs, tasks: {a: {function: noop}}}").await;
    let hidden = site.submit(&theirs).await;
    let token = site.viewer_of("ours").await;
    let bearer = format!("Bearer {token}");
    let own: &[(&str, &str)] = &[("authorization", &bearer)];
    assert_eq!(site.refused(&format!("run={hidden}"), own).await, 403);
    assert_eq!(site.refused(&format!("run={hidden}&seq=1"), own).await, 403);
    assert_eq!(site.refused("namespace=theirs", own).await, 403);
    for target in [format!("run={hidden}"), "namespace=theirs".to_owned()] {
        site.api.get(&format!("/api/v1/events/stream?{target}")).bearer(&token).send().await.expect(403);
    }
    // What is asked for on an open connection is judged the same.
    let mut socket = site.try_connect("", own).await.unwrap();
    socket.send(Message::text(format!("{{\"subscribe\": {{\"run\": \"{hidden}\"}}}}"))).await.unwrap();
    let (code, reason) = closed(&mut socket).await.unwrap();
    assert!(code == 1008 && reason.starts_with("403"), "{code} {reason}");

    let mut socket = site.try_connect("types=workflow_status,task_status,log", own).await.unwrap();
    site.submit(&theirs).await;
    let visible = site.submit(&ours).await;
    loop {
        let message = next(&mut socket).await.unwrap();
        // A machine under load may bring the database to its limits: then there is a new snapshot.
        if message["type"] == "resync" {
            continue;
        }
        assert_eq!(message["payload"]["namespace"], "ours", "{message}");
        if message["run"] == visible.to_string() && tells_the_end(&message) {
            break;
        }
    }
    drop(socket);
    site.deserted().await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_of_one_namespace_sees_nothing_of_another_on_postgres() {
    a_viewer_of_one_namespace_sees_nothing_of_another(Flavor::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_of_one_namespace_sees_nothing_of_another_on_sqlite() {
    a_viewer_of_one_namespace_sees_nothing_of_another(Flavor::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_door_of_the_websocket_is_the_same_door() {
    let site = Site::open(Flavor::Sqlite).await;
    let token = site.api.token(Role::Viewer).to_owned();
    let bearer = format!("Bearer {token}");
    assert_eq!(site.refused("", &[]).await, 401);
    for query in [format!("token={token}"), format!("access_token={token}"), format!("authorization=Bearer%20{token}")]
    {
        assert_eq!(site.refused(&query, &[]).await, 401, "{query}");
    }
    assert_eq!(site.refused("", &[("authorization", "Bearer nonsense")]).await, 401);
    let worker = format!("Bearer {}", site.api.token(Role::Worker));
    assert_eq!(site.refused("", &[("authorization", &worker)]).await, 403);
    assert_eq!(site.refused("", &[("authorization", &bearer), ("origin", "https://evil.example")]).await, 403);
    let unknown = uuid::Uuid::from_u128(1);
    assert_eq!(site.refused(&format!("run={unknown}"), &[("authorization", &bearer)]).await, 404);
    for wrong in ["run=nonsense", "seq=1", "types=nonsense", "types=", "nonsense=1"] {
        assert_eq!(site.refused(wrong, &[("authorization", &bearer)]).await, 400, "{wrong}");
    }
    // A browser names the token as a protocol, and hears only the other name back.
    let protocols = format!("mainspring, bearer.{token}");
    let mut socket =
        site.try_connect("types=worker_heartbeat", &[("sec-websocket-protocol", &protocols)]).await.unwrap();
    assert_eq!(next(&mut socket).await.unwrap()["type"], Value::from("worker_heartbeat"));
    drop(socket);
    site.deserted().await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_messages_and_subscriptions_are_bounded() {
    let limits =
        LiveLimits { connections_per_token: 2, subscriptions: 3, messages_per_second: 5, ..LiveLimits::default() };
    let site = Site::with(Flavor::Sqlite, limits).await;
    let first = site.connect("").await;
    let mut second = site.connect("").await;
    let bearer = format!("Bearer {}", site.api.token(Role::Viewer));
    assert_eq!(site.refused("", &[("authorization", &bearer)]).await, 429);
    site.api.get("/api/v1/events/stream").role(Role::Viewer).send().await.expect(429);
    // Another token has its own.
    let other = format!("Bearer {}", site.api.token(Role::Admin));
    let mut third = site.try_connect("", &[("authorization", &other)]).await.unwrap();
    for _ in 0..50 {
        if second
            .send(Message::text("{\"unsubscribe\": {\"run\": \"00000000-0000-7000-8000-000000000000\"}}"))
            .await
            .is_err()
        {
            break;
        }
    }
    let (code, reason) = closed(&mut second).await.unwrap();
    assert!(code == 1008 && reason.contains("per second"), "{code} {reason}");
    for _ in 0..5 {
        third.send(Message::text("{\"subscribe\": {}}")).await.unwrap();
    }
    let (code, reason) = closed(&mut third).await.unwrap();
    assert!(code == 1008 && reason.contains("subscriptions"), "{code} {reason}");
    drop(first);
    site.deserted().await;
    drop(site.connect("").await);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_token_ends_what_it_began() {
    let limits = LiveLimits { ping_every: Duration::from_millis(50), ..LiveLimits::default() };
    let site = Site::with(Flavor::Sqlite, limits).await;
    let token = site.api.make_token("fleeting", &[Grant::within("default", Role::Viewer)]).await;
    let mut socket = site.try_connect("", &[("authorization", &format!("Bearer {token}"))]).await.unwrap();
    let store = site.client().store();
    let tokens = store.tokens(None, 100, 0).await.unwrap();
    let id = tokens.iter().find(|token| token.name == "fleeting").unwrap().id;
    store.revoke_token(site.client().now(), id).await.unwrap();
    let (code, reason) = closed(&mut socket).await.unwrap();
    assert!(code == 1008 && reason.contains("token"), "{code} {reason}");
    site.deserted().await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_which_nothing_is_heard_is_closed() {
    let limits =
        LiveLimits { ping_every: Duration::from_millis(50), idle: Duration::from_millis(100), ..LiveLimits::default() };
    let site = Site::with(Flavor::Sqlite, limits).await;
    let socket = site.connect("types=log").await;
    // It is not read, so pings are not answered.
    site.deserted().await;
    drop(socket);
    site.close().await;
}
