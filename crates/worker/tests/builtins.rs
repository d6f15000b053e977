//! The built-in handlers that do something.

mod common;

use std::sync::{Arc, Mutex};

use common::server::{Server, answer, certificate};
use common::{Rig, function};
use mainspring_core::Micros;
use mainspring_worker::http::{Guard, HttpConfig};
use mainspring_worker::{
    ComponentHealth, HealthReport, HealthStatus, Host, HostError, HostFuture, PoolConfig, PurgeReport, Registry,
    ReindexReport, SmtpConfig, SmtpSecurity,
};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// Remembers what it was asked.
#[derive(Debug, Default)]
struct Double {
    asked: Mutex<Vec<String>>,
    sick: bool,
}

impl Double {
    fn note(&self, text: String) {
        self.asked.lock().unwrap().push(text);
    }
}

impl Host for Double {
    fn purge<'a>(&'a self, namespace: &'a str, before: Micros) -> HostFuture<'a, PurgeReport> {
        let days = (1_700_000_000_000_000 - before) / 86_400_000_000;
        self.note(format!("purge {namespace} {days}"));
        Box::pin(async { Ok(PurgeReport { runs: 2, task_runs: 5, logs: 7, traces: 0 }) })
    }

    fn health(&self) -> HostFuture<'_, HealthReport> {
        let status = if self.sick { HealthStatus::Unhealthy } else { HealthStatus::Healthy };
        let message = Some("no answer".to_owned());
        let database = ComponentHealth { name: "database".into(), status, latency_ms: 3, message, details: Map::new() };
        Box::pin(async move { Ok(HealthReport { status, components: vec![database] }) })
    }

    fn metric_types(&self) -> Vec<&'static str> {
        vec!["runs", "queues"]
    }

    fn metrics<'a>(&'a self, _: &'a str, metric_type: Option<&'a str>) -> HostFuture<'a, Map<String, Value>> {
        self.note(format!("metrics {metric_type:?}"));
        Box::pin(async { Ok([("open".to_owned(), json!(4))].into_iter().collect()) })
    }

    fn reindex<'a>(&'a self, _: &'a str, limit: Option<u64>) -> HostFuture<'a, ReindexReport> {
        Box::pin(async move {
            match limit {
                Some(13) => Err(HostError { message: "the store is away".into(), permanent: false }),
                _ => Ok(ReindexReport { workflows: 1, runs: 2, errors: 3 }),
            }
        })
    }
}

#[tokio::test]
async fn upkeep_asks_the_host() {
    let host = Arc::new(Double::default());
    let registry = Registry::builder().host(host.clone()).build();
    let mut rig = Rig::with(PoolConfig::default(), registry);
    let output = rig.output(function("cleanup:old_traces", json!({"retention_days": 7}))).await.unwrap();
    assert_eq!((&output["runs"], &output["retention_days"]), (&json!(2), &json!(7)));
    rig.output(function("cleanup:old_traces", json!(null))).await;
    assert_eq!(rig.output(function("health:check", json!(null))).await.unwrap()["status"], "healthy");
    // The event that made a job is in its payload, also of a function that takes none.
    let of_event = json!({"event": {"name": "order.paid", "data": {}}});
    assert_eq!(rig.output(function("health:check", of_event)).await.unwrap()["status"], "healthy");
    let output = rig.output(function("metrics:collect", json!({"metric_type": "runs"}))).await.unwrap();
    assert_eq!(output["metrics"], json!({"open": 4}));
    let collected_at = output["collected_at"].as_str().unwrap();
    assert!(mainspring_core::time::parse(collected_at).is_some(), "{collected_at}");
    assert_eq!(rig.output(function("kb:reindex", json!({"document_count": 9}))).await.unwrap()["documents"], 6);
    assert_eq!(*host.asked.lock().unwrap(), ["purge default 6", "purge default 29", "metrics Some(\"runs\")"]);
    for (handler, payload, message) in [
        ("cleanup:old_traces", json!({"retention_days": 0}), "from 1 to 36500"),
        ("cleanup:old_traces", json!({"days": 1}), "no field `days`; there are retention_days"),
        ("metrics:collect", json!({"metric_type": "x"}), "there are all, runs, queues"),
        ("kb:reindex", json!([1]), "should be a mapping"),
        ("kb:reindex", json!({"document_count": 13}), "the store is away"),
    ] {
        let failure = rig.failure(function(handler, payload)).await;
        assert!(failure.message.contains(message), "{}", failure.message);
    }
    let sick = Registry::builder().host(Arc::new(Double { sick: true, ..Double::default() })).build();
    let failure = Rig::with(PoolConfig::default(), sick).failure(function("health:check", json!(null))).await;
    assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("unhealthy", "unhealthy: database (no answer)"));
    let failure = Rig::new().failure(function("kb:reindex", json!(null))).await;
    assert!(failure.permanent && failure.message.contains("this worker has none"), "{failure:?}");
}

#[tokio::test]
async fn webhooks_are_called_under_the_guard() {
    let server = Server::start(|request| answer(if request.target == "/bad" { 500 } else { 204 }, "", b"")).await;
    let payload = json!({"type": "webhook", "recipient": server.url("/hook"), "subject": "Late", "body": "three hours",
        "headers": {"X-Token": "t"}});
    let failure = Rig::new().failure(function("notify:send", payload.clone())).await;
    assert_eq!(failure.kind, "blocked");
    let http = HttpConfig { guard: Guard::parse(["127.0.0.1"]).unwrap(), ..HttpConfig::default() };
    let mut rig = Rig::with(PoolConfig { http, ..PoolConfig::default() }, Registry::default());
    rig.output(function("notify:send", payload)).await;
    let request = &server.received()[0];
    let sent: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!((&sent["text"], &sent["workflow"]), (&json!("Late\nthree hours"), &json!("test")));
    assert_eq!((request.method.as_str(), request.header("x-token")), ("POST", Some("t")));
    let bad = json!({"type": "webhook", "recipient": server.url("/bad"), "body": {"own": 1}});
    assert_eq!(rig.failure(function("notify:send", bad)).await.status, Some(500));
    assert_eq!(server.received()[1].body, r#"{"own":1}"#);
}

type Mail = Arc<Mutex<Vec<String>>>;

/// Speaks SMTP (RFC 5321) for one client after the other and keeps what was said.
async fn mail_server(tls: Option<tokio_rustls::TlsAcceptor>) -> (u16, Mail) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mail = Mail::default();
    let kept = Arc::clone(&mail);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            match &tls {
                None => _ = converse(stream, &kept).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        let _ = converse(stream, &kept).await;
                    }
                }
            }
        }
    });
    (port, mail)
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(stream: S, kept: &Mail) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 test\r\n").await?;
    let mut in_data = false;
    loop {
        stream.flush().await?;
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let line = line.trim_end().to_owned();
        kept.lock().unwrap().push(line.clone());
        let reply: &[u8] = match line.as_str() {
            "." if in_data => {
                in_data = false;
                b"250 taken\r\n"
            }
            _ if in_data => continue,
            "DATA" => {
                in_data = true;
                b"354 go on\r\n"
            }
            "QUIT" => b"221 bye\r\n",
            _ if line.starts_with("EHLO") => b"250-test\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN\r\n",
            _ if line.starts_with("AUTH") => b"235 welcome\r\n",
            _ if line.contains("refused@") => b"550 no such person\r\n",
            _ if line.contains("later@") => b"451 later\r\n",
            _ => b"250 ok\r\n",
        };
        stream.write_all(reply).await?;
    }
}

#[tokio::test]
async fn email_arrives_at_a_mail_server() {
    let directory = tempfile::tempdir().unwrap();
    let (tls, authority) = certificate(&["127.0.0.1"], directory.path());
    for (tls, security) in [(None, SmtpSecurity::None), (Some(tls), SmtpSecurity::Tls)] {
        let (port, mail) = mail_server(tls).await;
        let smtp = SmtpConfig {
            host: "127.0.0.1".into(),
            port,
            from: "Mainspring <from@example.org>".into(),
            credentials: Some(("user".into(), "password".into())),
            security,
            authorities: vec![authority.clone()],
        };
        assert!(!format!("{smtp:?}").contains("password"));
        let mut rig = Rig::with(PoolConfig::default(), Registry::builder().smtp(smtp).build());
        let send = |recipient: Value, subject: &str| {
            function(
                "notify:send",
                json!({"type": "email", "recipient": recipient, "subject": subject, "body": "one\n.\nthree"}),
            )
        };
        let output = rig.output(send(json!(["to@example.org", "cc@example.org"]), "Late")).await.unwrap();
        assert_eq!(output["recipients"], json!(["to@example.org", "cc@example.org"]));
        let said = mail.lock().unwrap().clone();
        for line in
            ["AUTH PLAIN AHVzZXIAcGFzc3dvcmQ=", "Subject: Late", "one", "..", "three", "RCPT TO:<cc@example.org>"]
        {
            assert!(said.iter().any(|known| known == line), "{line}: {said:#?}");
        }
        assert!(said.iter().any(|line| line.starts_with("MAIL FROM:<from@example.org>")), "{said:#?}");
        for (recipient, subject, kind, permanent) in [
            ("refused@example.org", "x", "smtp", true),
            ("later@example.org", "x", "smtp", false),
            ("nobody", "x", "request", true),
            ("a@example.org\r\nBcc: evil@example.org", "x", "request", true),
            ("a@example.org", "x\r\nBcc: evil@example.org", "handler", true),
        ] {
            let failure = rig.failure(send(json!(recipient), subject)).await;
            assert_eq!((failure.kind.as_str(), failure.permanent), (kind, permanent), "{failure:?}");
        }
        assert!(!mail.lock().unwrap().iter().any(|line| line.contains("evil")));
    }
    let failure = Rig::new().failure(function("notify:send", json!({"type": "email", "recipient": "a@b.org"}))).await;
    assert!(failure.permanent && failure.message.contains("[smtp]"), "{failure:?}");
}
