//! Requests against real servers on this machine.

mod common;

use std::sync::Arc;

use common::server::{Received, Reply, Server, answer, certificate, redirect};
use common::{Rig, eventually, get, http};
use indexmap::IndexMap;
use mainspring_core::work::{Failure, HttpOrder, LogStream, Order, Outcome};
use mainspring_core::workflow::{BodyExpect, HttpAuth, HttpBody, HttpExpect, StatusRange};
use mainspring_worker::http::{Guard, HttpConfig};
use mainspring_worker::{CancelReason, PoolConfig, Registry};
use serde_json::json;

fn open_config() -> HttpConfig {
    HttpConfig { guard: Guard::parse(["127.0.0.1"]).unwrap(), ..HttpConfig::default() }
}

fn rig() -> Rig {
    Rig::with(PoolConfig { http: open_config(), ..PoolConfig::default() }, Registry::default())
}

fn fine(_: &Received) -> Reply {
    answer(200, "content-type: application/json\r\nX-Name: Value\r\n", br#"{"rows": [1, 2]}"#)
}

#[tokio::test]
async fn a_request_carries_what_was_ordered() {
    let mut rig = rig();
    let server = Server::start(fine).await;
    let order = http(HttpOrder {
        method: "POST".into(),
        headers: vec![("X-Own".into(), "grüße".into()), ("Mainspring-Attempt".into(), "99".into())],
        query: vec![("q".into(), "a b&c=d".into()), ("q".into(), "#2".into())],
        body: Some(HttpBody::Json(json!({"a": 1}))),
        auth: Some(HttpAuth::Basic { username: "me".into(), password: "pass:word".into() }),
        ..get(server.url("/path?z=1#fragment"))
    });
    let given = rig.start(order);
    let Outcome::Success { output: Some(output) } = rig.next().await.outcome else { panic!("{:?}", rig.lines()) };
    assert_eq!((&output["status"], &output["body"]), (&json!(200), &json!({"rows": [1, 2]})));
    assert_eq!(output["headers"]["x-name"], "Value");
    let request = &server.received()[0];
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/path?z=1&q=a+b%26c%3Dd&q=%232"));
    assert_eq!(request.body, r#"{"a":1}"#);
    let key = given.key.to_string();
    for (name, value) in [
        ("host", server.address.to_string()),
        ("content-type", "application/json".into()),
        ("accept-encoding", "identity".into()),
        ("x-own", "grüße".into()),
        ("authorization", "Basic bWU6cGFzczp3b3Jk".into()),
        ("mainspring-run-id", given.key.run.to_string()),
        ("mainspring-task-id", key.clone()),
        ("mainspring-attempt", "1".into()),
        ("mainspring-fencing-token", "7.1".into()),
        ("idempotency-key", format!("{key}.g1")),
    ] {
        assert_eq!(request.header(name), Some(value.as_str()), "{name}");
    }
    let line = rig.until_line("POST").await;
    assert_eq!(line.stream, LogStream::System);
    assert!(line.text.starts_with(&format!("POST {}?… → 200 in ", server.url("/path"))), "{}", line.text);
}

#[tokio::test]
async fn bodies_and_tokens_are_sent_as_what_they_are() {
    let mut rig = rig();
    let server = Server::start(fine).await;
    let form: IndexMap<String, String> = [("a b".into(), "ä&".into()), ("c".into(), "d=e".into())].into();
    for (body, kind, text) in [
        (HttpBody::Form(form), "application/x-www-form-urlencoded", "a+b=%C3%A4%26&c=d%3De"),
        (HttpBody::Text("two\nlines".into()), "text/plain; charset=utf-8", "two\nlines"),
        (HttpBody::Json(json!(null)), "application/json", "null"),
    ] {
        let auth = Some(HttpAuth::Bearer("tok".into()));
        let headers = vec![("Idempotency-Key".into(), "mine".into())];
        let order = HttpOrder { method: "PUT".into(), body: Some(body), auth, headers, ..get(server.url("/")) };
        rig.output(http(order)).await;
        let request = server.received().pop().unwrap();
        assert_eq!((request.header("content-type"), request.body.as_str()), (Some(kind), text));
        assert_eq!(request.header("authorization"), Some("Bearer tok"));
        assert_eq!(request.header("idempotency-key"), Some("mine"));
    }
}

#[tokio::test]
async fn bodies_arrive_as_json_text_or_base64_and_are_not_unpacked() {
    let mut rig = rig();
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03";
    for (headers, body, expected, encoding) in [
        ("content-type: text/plain\r\n", &b"{\"a\": 1}"[..], json!("{\"a\": 1}"), json!(null)),
        ("content-type: application/problem+json; charset=utf-8\r\n", b"[1]", json!([1]), json!(null)),
        ("content-type: application/json\r\n", b"{broken", json!("{broken"), json!(null)),
        ("", b"", json!(""), json!(null)),
        ("content-encoding: gzip\r\n", gzip, json!("H4sIAAAAAAAAAw=="), json!("base64")),
    ] {
        let server = Server::start(move |_| answer(200, headers, body)).await;
        let output = rig.output(http(get(server.url("/")))).await.unwrap();
        assert_eq!((&output["body"], &output["encoding"]), (&expected, &encoding), "{headers}");
    }
}

#[tokio::test]
async fn answers_are_held_against_what_was_expected() {
    let mut rig = rig();
    let server = Server::start(|request| {
        let status = request.target[1..].parse().unwrap_or(200);
        answer(status, "content-type: application/json\r\n", br#"{"state": "done", "rows": 3}"#)
    })
    .await;
    let range = |from, to| StatusRange { from, to };
    for (path, status, body, expected) in [
        ("/204", vec![range(200, 299)], None, None),
        ("/404", vec![range(200, 200), range(404, 404)], None, None),
        ("/503", vec![range(200, 299)], None, Some(("http_status", "answered 503; expected 2xx"))),
        ("/302", vec![range(200, 299)], None, Some(("http_status", "302"))),
        ("/200", vec![range(201, 201)], None, Some(("http_status", "expected 201"))),
        ("/200", vec![range(200, 200)], Some(BodyExpect::Contains("done".into())), None),
        ("/200", vec![range(200, 200)], Some(BodyExpect::Contains("open".into())), Some(("expect", "`open`"))),
        ("/200", vec![range(200, 200)], Some(BodyExpect::Matches("\"rows\": [0-9]+".into())), None),
        ("/200", vec![range(200, 200)], Some(BodyExpect::Matches("^$".into())), Some(("expect", "does not match"))),
        ("/200", vec![range(200, 200)], Some(BodyExpect::Matches("(".into())), Some(("expect", "`matches`"))),
        ("/200", vec![range(200, 200)], Some(BodyExpect::Json("body.rows > 2 and status == 200".into())), None),
        (
            "/200",
            vec![range(200, 200)],
            Some(BodyExpect::Json("body.rows > 3".into())),
            Some(("expect", "not true of the answer")),
        ),
        (
            "/200",
            vec![range(200, 200)],
            Some(BodyExpect::Json("body.none.x".into())),
            Some(("expect", "expect.body.json")),
        ),
    ] {
        let order = HttpOrder { expect: HttpExpect { status, body }, ..get(server.url(path)) };
        match (rig.run(http(order)).await, expected) {
            (Outcome::Success { .. }, None) => {}
            (Outcome::Failed(failure), Some((kind, message))) => {
                assert_eq!(failure.kind, kind, "{failure:?}");
                assert!(failure.message.contains(message), "{}", failure.message);
                assert_eq!(failure.status, path[1..].parse().ok());
                assert!(failure.detail.unwrap().contains("done"));
            }
            (outcome, expected) => panic!("{path}: {outcome:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test]
async fn redirects_are_followed_as_browsers_do() {
    let mut rig = rig();
    for (status, method, becomes, keeps_body) in [
        (301, "POST", "GET", false),
        (302, "POST", "GET", false),
        (302, "PUT", "PUT", true),
        (303, "PUT", "GET", false),
        (303, "HEAD", "HEAD", false),
        (307, "POST", "POST", true),
        (308, "PATCH", "PATCH", true),
    ] {
        let server = Server::start(move |request| match request.target.as_str() {
            "/a" => redirect(status, "../b?x=1#f"),
            _ => answer(200, "", b""),
        })
        .await;
        let body = (method != "HEAD").then(|| HttpBody::Text("content".into()));
        let auth = Some(HttpAuth::Bearer("tok".into()));
        let output = rig.output(http(HttpOrder { method: method.into(), body, auth, ..get(server.url("/a")) })).await;
        assert_eq!(output.unwrap()["status"], 200);
        let last = server.received().pop().unwrap();
        assert_eq!((last.method.as_str(), last.target.as_str()), (becomes, "/b?x=1"), "{status} {method}");
        assert_eq!(last.body == "content", keeps_body, "{status} {method}");
        assert_eq!(last.header("content-type").is_some(), keeps_body, "{status} {method}");
        assert_eq!(last.header("authorization"), Some("Bearer tok"), "the same origin keeps its credentials");
    }
}

#[tokio::test]
async fn credentials_stay_with_their_origin() {
    let mut rig = rig();
    let other = Server::start(fine).await;
    let there = other.url("/there");
    let server = Server::start(move |_| redirect(307, &there)).await;
    let order = http(HttpOrder {
        headers: vec![
            ("Cookie".into(), "session=1".into()),
            ("X-Api-Key".into(), "key".into()),
            ("Accept".into(), "application/json".into()),
        ],
        auth: Some(HttpAuth::Bearer("tok".into())),
        ..get(server.url("/"))
    });
    rig.output(order).await;
    let first = &server.received()[0];
    assert!(first.header("cookie").is_some() && first.header("authorization").is_some());
    let second = &other.received()[0];
    for name in ["cookie", "x-api-key", "authorization"] {
        assert_eq!(second.header(name), None, "{name}");
    }
    assert_eq!(second.header("accept"), Some("application/json"));
    assert!(second.header("idempotency-key").is_some());
    // A body may hold a secret too, and the author did not ask to send it elsewhere.
    let body = Some(HttpBody::Text("content".into()));
    let failure = rig.failure(http(HttpOrder { method: "POST".into(), body, ..get(server.url("/")) })).await;
    assert_eq!((failure.kind.as_str(), other.received().len()), ("redirect", 1), "{failure:?}");
}

#[tokio::test]
async fn redirects_end() {
    let mut rig = rig();
    let server = Server::start(|_| redirect(302, "/again")).await;
    let failure = rig.failure(http(HttpOrder { follow_redirects: 3, ..get(server.url("/")) })).await;
    assert_eq!((failure.kind.as_str(), server.received().len()), ("redirect", 4), "{failure:?}");
    let expect = HttpExpect { status: vec![StatusRange { from: 302, to: 302 }], body: None };
    let output = rig.output(http(HttpOrder { follow_redirects: 0, expect, ..get(server.url("/")) })).await.unwrap();
    assert_eq!((&output["status"], &output["headers"]["location"]), (&json!(302), &json!("/again")));
    let nonsense = Server::start(|_| redirect(302, "http://[")).await;
    assert_eq!(rig.failure(http(get(nonsense.url("/")))).await.kind, "redirect");
}

#[tokio::test]
async fn a_large_answer_is_not_read_to_its_end() {
    let mut rig = rig();
    const GIGABYTE: u64 = 1 << 30;
    let said = Server::start(|_| {
        Reply::Endless(format!("HTTP/1.1 200 OK\r\ncontent-length: {GIGABYTE}\r\n\r\n").into(), GIGABYTE)
    })
    .await;
    let unsaid =
        Server::start(|_| Reply::Endless(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".into(), GIGABYTE))
            .await;
    for server in [&said, &unsaid] {
        let failure = rig.failure(http(get(server.url("/")))).await;
        assert_eq!((failure.kind.as_str(), failure.permanent), ("too_large", true), "{failure:?}");
        eventually("a closed connection", || (server.left() == 1).then_some(())).await;
        assert!(server.written() < 32 << 20, "{}", server.written());
    }
    let server = Server::start(|_| answer(200, "", &[b'x'; 100])).await;
    assert_eq!(rig.failure(http(HttpOrder { max_response_bytes: 99, ..get(server.url("/")) })).await.kind, "too_large");
    rig.output(http(HttpOrder { max_response_bytes: 100, ..get(server.url("/")) })).await;
    // A megabyte of line ends takes two as JSON.
    let server = Server::start(|_| answer(200, "", &vec![b'\n'; 1 << 20])).await;
    assert_eq!(rig.failure(http(get(server.url("/")))).await.kind, "too_large");
}

#[tokio::test]
async fn a_slow_answer_ends_with_the_timeout() {
    let mut rig = rig();
    for begun in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"] {
        let server = Server::start(move |_| Reply::Stall(begun.into())).await;
        let failure = rig.failure(Order { timeout_ms: Some(200), ..http(get(server.url("/"))) }).await;
        assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("timeout", "timed out after 200ms"));
        eventually("a closed connection", || (server.left() == 1).then_some(())).await;
    }
}

#[tokio::test]
async fn cancelling_closes_the_connection() {
    let mut rig = rig();
    let server = Server::start(|_| Reply::Stall(b"HTTP/1.1 200 OK\r\n".to_vec())).await;
    let given = rig.start(http(get(server.url("/"))));
    eventually("a request", || (!server.received().is_empty()).then_some(())).await;
    rig.pool.cancel(given.key, 1, CancelReason::Requested("enough".into()));
    assert_eq!(rig.next().await.outcome, Outcome::Cancelled { reason: "enough".into() });
    eventually("a closed connection", || (server.left() == 1).then_some(())).await;
}

#[tokio::test]
async fn broken_connections_say_what_broke() {
    let mut rig = rig();
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let failure = rig.failure(http(get(format!("http://{closed}/")))).await;
    assert_eq!((failure.kind.as_str(), failure.permanent), ("connect", false), "{failure:?}");
    assert!(failure.message.contains("refused"), "{}", failure.message);
    for nonsense in ["", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"] {
        let server = Server::start(move |_| Reply::Whole(nonsense.into())).await;
        let failure = rig.failure(http(get(server.url("/")))).await;
        assert_eq!(failure.kind, "connect", "{failure:?}");
    }
    let failure = rig.failure(http(get("http://no-such-host.invalid/"))).await;
    assert_eq!(failure.kind, "dns", "{failure:?}");
    assert!(failure.message.contains("no-such-host.invalid"), "{}", failure.message);
}

#[tokio::test]
async fn certificates_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let (tls, authority) = certificate(&["127.0.0.1", "known.example"], directory.path());
    let server = Server::start_at("127.0.0.1:0", Some(tls), fine).await;
    let url = format!("https://{}/", server.address);
    let failure = rig().failure(http(get(&url))).await;
    assert_eq!(failure.kind, "connect", "{failure:?}");
    assert!(failure.message.contains("certificate"), "{}", failure.message);
    let config = HttpConfig { authorities: vec![authority], ..open_config() };
    let mut trusting = Rig::with(PoolConfig { http: config.clone(), ..PoolConfig::default() }, Registry::default());
    assert_eq!(trusting.output(http(get(&url))).await.unwrap()["status"], 200);
    let elsewhere = Arc::new(Fixed);
    let config = HttpConfig { resolver: elsewhere, ..config };
    let mut trusting = Rig::with(PoolConfig { http: config, ..PoolConfig::default() }, Registry::default());
    let port = server.address.port();
    assert_eq!(trusting.output(http(get(format!("https://known.example:{port}/")))).await.unwrap()["status"], 200);
    let failure: Failure = trusting.failure(http(get(format!("https://other.example:{port}/")))).await;
    assert!(failure.kind == "connect" && failure.message.contains("certificate"), "{failure:?}");
}

/// Every name is this machine.
#[derive(Debug)]
struct Fixed;

impl mainspring_worker::http::Resolve for Fixed {
    fn resolve<'a>(&'a self, _: &'a str) -> mainspring_worker::http::ResolveFuture<'a> {
        Box::pin(async { Ok(vec!["127.0.0.1".parse().unwrap()]) })
    }
}
