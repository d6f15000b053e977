//! Clients that vanish in the middle of a request: what they asked for is done whole or not at all, and nothing of it
//! stays open.

use std::time::Duration;

use mainspring_server::{HttpServer, Role};
use mainspring_store::Flavor;
use mainspring_testkit::transactions;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::test_api::TestApi;

const WORKFLOW: &str = "name: etl\nconcurrency: {limit: 1000}\ntasks: {a: {function: noop}}";

/// Sends a request and resets the connection after a while, without having read anything.
async fn cut(server: &HttpServer, request: &str, after: Duration) {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    tokio::time::sleep(after).await;
    stream.set_zero_linger().unwrap();
}

fn request(method: &str, target: &str, token: &str, key: &str, body: &str) -> String {
    format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Every kind of write: method, target, body. `N` is a number of its own.
const WRITES: [(&str, &str, &str); 8] = [
    ("POST", "/api/v1/workflows/etl/trigger", "{}"),
    ("POST", "/api/v1/scheduler/events/trigger", r#"{"event_name": "e", "data": {}}"#),
    (
        "POST",
        "/api/v1/scheduler/jobs/cron",
        r#"{"name": "jN", "schedule": "0 2 * * *", "handler_name": "cleanup:old_traces"}"#,
    ),
    ("POST", "/api/v1/workflows", r#"{"name": "wN", "tasks": {"a": {"run": "true"}}}"#),
    ("PUT", "/api/v1/pools/pN", r#"{"slots": 3}"#),
    ("POST", "/api/v1/auth/tokens", r#"{"name": "tN", "grants": [{"namespace": "default", "role": "viewer"}]}"#),
    ("POST", "/api/v1/namespaces", r#"{"name": "nN"}"#),
    ("PUT", "/api/v1/secrets/SN", r#"{"value": "x"}"#),
];

impl TestApi {
    async fn count(&self, list: &str) -> usize {
        let page = self.get(&format!("{list}?limit=500")).role(Role::Admin).send().await.expect(200).body();
        page["items"].as_array().unwrap().len()
    }
}

async fn clients_vanish(flavor: Flavor) {
    let api = TestApi::new(flavor).await;
    api.store(WORKFLOW).await;
    let server = HttpServer::bind("127.0.0.1:0".parse().unwrap()).await.unwrap().serve(api.service.clone());
    let token = api.token(Role::Admin);
    let mut number = 0;
    for round in 0..12_u64 {
        for (method, target, body) in WRITES {
            number += 1;
            let own = |text: &str| text.replace('N', &number.to_string());
            let request = request(method, &own(target), token, &format!("k{number}"), &own(body));
            cut(&server, &request, Duration::from_micros(500 + round * 800)).await;
        }
    }
    assert_eq!(transactions::check(api.database.url()).await.unwrap(), []);
    // Everything still works, and what was cut is answered when it is asked for again.
    for again in 1..=number {
        let (method, target, body) = WRITES[(again - 1) % WRITES.len()];
        let own = |text: &str| text.replace('N', &again.to_string());
        let call = api
            .call(method.parse().unwrap(), &own(target))
            .bearer(token)
            .header("idempotency-key", &format!("k{again}"));
        let answer = call.text("application/json", &own(body)).send().await;
        let is_token = target.ends_with("/tokens") && answer.status == 409 && answer.text.contains("answer-not-kept");
        assert!(answer.status.is_success() || is_token, "{method} {target}: {}", answer.text);
    }
    let times = number / WRITES.len();
    assert_eq!(api.count("/api/v1/workflow-runs").await, times, "one run per key");
    assert_eq!(api.count("/api/v1/scheduler/jobs").await, times, "one job per key");
    assert_eq!(api.count("/api/v1/auth/tokens").await, times + Role::ALL.len(), "one token per key");
    let events = api.client.store().events_since("default", "e", 0, None).await.unwrap();
    assert_eq!(events.len(), times, "one event per key");
    let run = api.post("/api/v1/workflows/etl/trigger").role(Role::Operator).json(json!({})).send().await.expect(201);
    let id = run.body()["id"].as_str().unwrap().to_owned();
    api.get(&format!("/api/v1/workflow-runs/{id}")).role(Role::Viewer).send().await.expect(200);
    assert_eq!(transactions::check(api.database.url()).await.unwrap(), []);
    server.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn clients_that_vanish_leave_nothing_open_on_postgres() {
    clients_vanish(Flavor::Postgres).await;
}

#[tokio::test]
async fn clients_that_vanish_leave_nothing_open_on_sqlite() {
    clients_vanish(Flavor::Sqlite).await;
}
