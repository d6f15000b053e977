//! What an author of a part of a request must not achieve, by class of attack.

mod common;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::server::{Received, Reply, Server, answer, redirect};
use common::{Rig, get, hostile, http};
use indexmap::IndexMap;
use mainspring_core::work::{HttpOrder, Outcome};
use mainspring_core::workflow::{HttpAuth, HttpBody};
use mainspring_worker::http::{Guard, HttpConfig, Resolve, ResolveFuture};
use mainspring_worker::{PoolConfig, Registry};

fn rig(allow: &[&str], resolver: Option<Arc<dyn Resolve>>) -> Rig {
    let mut config = HttpConfig { guard: Guard::parse(allow).unwrap(), ..HttpConfig::default() };
    if let Some(resolver) = resolver {
        config.resolver = resolver;
    }
    Rig::with(PoolConfig { http: config, ..PoolConfig::default() }, Registry::default())
}

fn fine(_: &Received) -> Reply {
    answer(200, "", b"ok")
}

/// Gives one list of addresses after the other, the last one for ever.
#[derive(Debug)]
struct Scripted {
    answers: Vec<Vec<&'static str>>,
    asked: AtomicUsize,
}

impl Scripted {
    fn new(answers: Vec<Vec<&'static str>>) -> Arc<Self> {
        Arc::new(Self { answers, asked: AtomicUsize::new(0) })
    }
}

impl Resolve for Scripted {
    fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        let addresses: Vec<IpAddr> = self.answers[turn].iter().map(|address| address.parse().unwrap()).collect();
        Box::pin(async move { if addresses.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(addresses) } })
    }
}

#[tokio::test]
async fn ssrf_by_addresses_in_every_spelling_is_blocked() {
    let mut rig = rig(&[], None);
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "0",
        "0.0.0.0",
        "127.0.0.1.",
        "①②⑦.⓪.⓪.①",
        "１２７.0.0.1",
        "127。0。0。1",
        "%31%32%37.0.0.1",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:169.254.169.254]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2001::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[2001:db8::1]",
        "localhost",
        "LOCALHOST",
    ] {
        let failure = rig.failure(http(get(format!("http://{host}:9/x")))).await;
        assert_eq!((failure.kind.as_str(), failure.permanent), ("blocked", true), "{host}: {failure:?}");
        assert!(failure.message.contains("not public") && failure.message.contains("[http]"), "{}", failure.message);
    }
}

#[tokio::test]
async fn ssrf_by_schemes_is_blocked() {
    let mut rig = rig(&["127.0.0.1"], None);
    for url in [
        "file:///etc/passwd",
        "gopher://127.0.0.1/x",
        "ftp://127.0.0.1/x",
        "dict://127.0.0.1:11211/x",
        "data:,x",
        "ldap://127.0.0.1/",
        "javascript:1",
        "ws://127.0.0.1/",
        "unix:/run/docker.sock",
    ] {
        let failure = rig.failure(http(get(url))).await;
        assert_eq!((failure.kind.as_str(), failure.permanent), ("blocked", true), "{url}: {failure:?}");
    }
}

#[tokio::test]
async fn ssrf_by_redirects_is_blocked_at_each_hop() {
    let inner = Server::start_at("127.0.0.2:0", None, fine).await;
    for target in [
        format!("http://{}/secret", inner.address),
        format!("//{}/secret", inner.address),
        "http://169.254.169.254/latest/meta-data/".into(),
        "http://2852039166/".into(),
        "http://[::ffff:169.254.169.254]/".into(),
        "http://localhost:1/".into(),
        "https://10.0.0.1/".into(),
        "file:///etc/passwd".into(),
        "gopher://127.0.0.1:70/".into(),
    ] {
        let mut rig = rig(&["127.0.0.1"], Some(Scripted::new(vec![vec!["127.0.0.2"]])));
        let shown = target.clone();
        let server = Server::start(move |request| match request.target.as_str() {
            "/" => redirect(302, "/next"),
            _ => redirect(307, &target),
        })
        .await;
        let failure = rig.failure(http(get(server.url("/")))).await;
        assert_eq!((failure.kind.as_str(), failure.permanent), ("blocked", true), "{shown}: {failure:?}");
        assert_eq!(server.received().len(), 2, "{shown}");
    }
    assert_eq!(inner.connections(), 0);
}

#[tokio::test]
async fn ssrf_by_dns_rebinding_finds_no_gap() {
    let inner = Server::start_at("127.0.0.2:0", None, fine).await;
    let port = inner.address.port();
    let outer = Server::start_at(&format!("127.0.0.1:{port}"), None, fine).await;
    // The second answer would lead inside; the client does not ask for it.
    let resolver = Scripted::new(vec![vec!["127.0.0.1"], vec!["127.0.0.2"]]);
    let mut open = rig(&["127.0.0.1"], Some(resolver.clone()));
    open.output(http(get(format!("http://rebind.example:{port}/")))).await;
    assert_eq!((resolver.asked.load(Ordering::SeqCst), outer.received().len(), inner.connections()), (1, 1, 0));
    // The next request asks again and is judged again.
    let failure = open.failure(http(get(format!("http://rebind.example:{port}/")))).await;
    assert_eq!(failure.kind, "blocked", "{failure:?}");
    assert!(failure.message.contains("`rebind.example` has the address 127.0.0.2"), "{}", failure.message);
    // One bad address among good ones is enough, wherever it stands.
    for addresses in [vec!["127.0.0.1", "127.0.0.2"], vec!["127.0.0.2", "127.0.0.1"], vec!["8.8.8.8", "::1"]] {
        let mut rig = rig(&["127.0.0.1"], Some(Scripted::new(vec![addresses])));
        assert_eq!(rig.failure(http(get(format!("http://mixed.example:{port}/")))).await.kind, "blocked");
    }
    assert_eq!((outer.connections(), inner.connections()), (1, 0));
}

#[tokio::test]
async fn names_on_the_list_are_reached_wherever_they_lead() {
    let server = Server::start(fine).await;
    let port = server.address.port();
    let mut rig = rig(&["host.internal"], Some(Scripted::new(vec![vec!["127.0.0.1"]])));
    rig.output(http(get(format!("http://host.internal:{port}/")))).await;
    assert_eq!(rig.failure(http(get(format!("http://other.internal:{port}/")))).await.kind, "blocked");
    assert_eq!(rig.failure(http(get(server.url("/")))).await.kind, "blocked");
}

/// A request either arrives with exactly this value, or is refused before anything is sent.
async fn check(rig: &mut Rig, server: &Server, order: HttpOrder, what: &str, arrived: impl Fn(&Received) -> bool) {
    let before = server.received().len();
    match rig.run(http(order)).await {
        Outcome::Success { .. } => {
            let received = server.received();
            assert_eq!(received.len(), before + 1, "{what}: more than one request arrived");
            let request = received.last().unwrap();
            assert!(arrived(request), "{what}: {request:?}");
            assert_eq!(request.header("x-injected"), None, "{what}");
            let names = ["host", "content-length", "transfer-encoding", "connection"];
            for name in names {
                assert!(request.headers.iter().filter(|(known, _)| known == name).count() <= 1, "{what}: {request:?}");
            }
            assert_eq!(request.header("host"), Some(server.address.to_string().as_str()), "{what}");
        }
        Outcome::Failed(failure) => {
            assert!(
                ["request", "blocked"].contains(&failure.kind.as_str()) && failure.permanent,
                "{what}: {failure:?}"
            );
            assert_eq!(server.received().len(), before, "{what}: refused, but something was sent");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[tokio::test]
async fn header_injection_by_a_hundred_values() {
    let mut rig = rig(&["127.0.0.1"], None);
    let server = Server::start(fine).await;
    for value in hostile::values("/nowhere") {
        let shown: String = value.chars().take(60).collect();
        let base = || get(server.url("/"));
        let same = |name: &'static str, prefix: &'static str, value: String| {
            move |request: &Received| {
                let received = request.header(name).unwrap_or_default();
                received
                    .strip_prefix(prefix)
                    .is_some_and(|rest| rest.trim_matches([' ', '\t']) == value.trim_matches([' ', '\t']))
                    || (value.trim_matches([' ', '\t']).is_empty() && received == prefix.trim())
            }
        };
        let order = HttpOrder { headers: vec![("X-Value".into(), value.clone())], ..base() };
        check(&mut rig, &server, order, &shown, same("x-value", "", value.clone())).await;
        let order = HttpOrder { auth: Some(HttpAuth::Bearer(value.clone())), ..base() };
        check(&mut rig, &server, order, &shown, same("authorization", "Bearer ", value.clone())).await;
        let auth = HttpAuth::Basic { username: value.clone(), password: value.clone() };
        check(&mut rig, &server, HttpOrder { auth: Some(auth), ..base() }, &shown, |request| {
            request.header("authorization").is_some_and(|sent| sent.starts_with("Basic "))
        })
        .await;
        let order = HttpOrder { headers: vec![(value.clone(), "x".into())], ..base() };
        check(&mut rig, &server, order, &shown, |request| request.header(&value.to_lowercase()) == Some("x")).await;
        let order = HttpOrder { method: value.clone(), ..base() };
        check(&mut rig, &server, order, &shown, |request| request.method == value).await;
    }
}

#[tokio::test]
async fn request_smuggling_by_headers_is_refused() {
    let mut rig = rig(&["127.0.0.1"], None);
    let server = Server::start(fine).await;
    for name in [
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "transfer-encoding",
        "Connection",
        "Upgrade",
        "TE",
        "Trailer",
        "Expect",
        "Proxy-Authorization",
        "Proxy-Connection",
    ] {
        let failure =
            rig.failure(http(HttpOrder { headers: vec![(name.into(), "0".into())], ..get(server.url("/")) })).await;
        assert_eq!((failure.kind.as_str(), failure.permanent), ("request", true), "{name}: {failure:?}");
    }
    for method in ["CONNECT", "TRACE", "get", ""] {
        let failure = rig.failure(http(HttpOrder { method: method.into(), ..get(server.url("/")) })).await;
        assert_eq!(failure.kind, "request", "{method}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn url_injection_by_a_hundred_values() {
    let inner = Server::start_at("127.0.0.2:0", None, fine).await;
    let mut rig = rig(&["127.0.0.1"], Some(Scripted::new(vec![vec!["127.0.0.2"]])));
    let server = Server::start(fine).await;
    let decoded = |text: &str| -> Vec<(String, String)> {
        url::form_urlencoded::parse(text.as_bytes())
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect()
    };
    for value in hostile::values("/nowhere") {
        let shown: String = value.chars().take(60).collect();
        let pair = vec![("q".to_owned(), value.clone())];
        let order = HttpOrder { query: pair.clone(), ..get(server.url("/path")) };
        check(&mut rig, &server, order, &shown, |request| {
            request.target.strip_prefix("/path?").is_some_and(|query| decoded(query) == pair)
        })
        .await;
        let form: IndexMap<String, String> = pair.clone().into_iter().collect();
        let order = HttpOrder { method: "POST".into(), body: Some(HttpBody::Form(form)), ..get(server.url("/path")) };
        check(&mut rig, &server, order, &shown, |request| request.target == "/path" && decoded(&request.body) == pair)
            .await;
        let body = Some(HttpBody::Text(value.clone()));
        let order = HttpOrder { method: "POST".into(), body, ..get(server.url("/path")) };
        check(&mut rig, &server, order, &shown, |request| request.body == value).await;
        // Spliced into a path or behind the host, a value may choose the path, but nothing else.
        let order = get(server.url(&format!("/path/{value}")));
        check(&mut rig, &server, order, &shown, |request| request.target.starts_with('/')).await;
        let order = get(format!("http://{}{value}/x", server.address));
        check(&mut rig, &server, order, &shown, |request| request.target.starts_with('/')).await;
    }
    assert_eq!(inner.connections(), 0);
}

#[tokio::test]
async fn secrets_in_urls_and_answers_stay_out_of_the_log() {
    let secret = "s3cr3t-value";
    let mut rig = rig(&["127.0.0.1"], None);
    let seen = Arc::new(Mutex::new(String::new()));
    let echo = Arc::clone(&seen);
    let server = Server::start(move |request| {
        *echo.lock().unwrap() = request.target.clone();
        answer(500, "", request.target.as_bytes())
    })
    .await;
    let request =
        HttpOrder { query: vec![("token".into(), secret.into())], ..get(server.url(&format!("/{secret}/x"))) };
    let order = mainspring_core::work::Order { secrets: vec![secret.into()], ..http(request) };
    let failure = rig.failure(order).await;
    assert!(seen.lock().unwrap().contains(secret), "the server itself gets it");
    assert!(failure.detail.as_deref().unwrap().contains("/***/x?token=***"), "{failure:?}");
    let line = rig.until_line("500").await;
    assert!(line.text.contains("/***/x?…"), "{}", line.text);
    assert!(!format!("{:?}{failure:?}", rig.lines()).contains(secret));
}
