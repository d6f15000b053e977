//! Over a socket: slow and broken clients, TLS, and the end of serving.

use std::time::Duration;

use mainspring_server::{HttpServer, Role, TlsFiles};
use mainspring_store::Flavor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::test_api::TestApi;

async fn served(api: &TestApi) -> HttpServer {
    HttpServer::bind("127.0.0.1:0".parse().unwrap()).await.unwrap().serve(api.service.clone())
}

async fn told(server: &HttpServer, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn requests_are_answered_and_broken_ones_refused() {
    let api = TestApi::new(Flavor::Sqlite).await;
    let server = served(&api).await;
    let token = api.token(Role::Viewer);
    let head = |rest: &str| format!("GET /api/v1/pools HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{rest}\r\n");
    let answer = told(&server, &head(&format!("Authorization: Bearer {token}\r\nAccept-Encoding: gzip\r\n"))).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = told(&server, &head("")).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    for broken in [
        "nonsense\r\n\r\n".to_owned(),
        head("X: a\u{0}b\r\n"),
        head("Content-Length: 1\r\nContent-Length: 2\r\n"),
        format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1_000)),
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)),
    ] {
        let answer = told(&server, &broken).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    // A folded header or a bare line break never becomes a header of its own.
    let answer = told(&server, &head("X: a\r\n Authorization: Bearer x\r\n")).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    server.shutdown(Duration::from_secs(60)).await;
}

/// Slow heads: the connection is given up. The time is the server's, moved by hand.
#[tokio::test(flavor = "current_thread")]
async fn a_head_that_never_ends_is_not_waited_for() {
    let api = TestApi::new(Flavor::Sqlite).await;
    let server = served(&api).await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"GET /live HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    let mut answer = Vec::new();
    // Ten seconds by its own clock; the limit here is only for a server that never gives up.
    let ended = tokio::time::timeout(Duration::from_secs(120), stream.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "the server still waits");
    assert!(!String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn tls_is_spoken_with_the_given_certificate() {
    let api = TestApi::new(Flavor::Sqlite).await;
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let files = TlsFiles { certificate: folder.path().join("c.pem"), key: folder.path().join("k.pem") };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let listener = HttpServer::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let server = listener.with_tls(&files).unwrap().serve(api.service.clone());

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    stream.write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer).await;
    assert!(String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 200"));
    // Plain text to a TLS port gets nothing.
    assert!(!told(&server, "GET /live HTTP/1.1\r\nHost: x\r\n\r\n").await.contains("200 OK"));

    std::fs::write(&files.key, "nonsense").unwrap();
    let listener = HttpServer::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let refused = listener.with_tls(&files).unwrap_err();
    assert!(refused.contains("k.pem"), "{refused}");
}
