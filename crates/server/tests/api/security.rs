//! One test per class of vulnerability that others in this field had, and per bad input that concerns every route.

use axum::http::Method;
use mainspring_server::{Grant, Network, Origins, Rates, Role, Settings};
use mainspring_store::Flavor;
use serde_json::json;

use crate::on_both;
use crate::test_api::{TestApi, is_page};

on_both! {
    /// API open by default: a fresh installation answers no one without a token, and knows no token that is the same elsewhere.
    async fn the_api_is_shut_by_default(api: &TestApi) {
        for route in api.service.routes() {
            let path = route.path.as_str();
            // The files of the interface hold nothing but the interface; `/health` tells strangers nothing but words.
            if is_page(&route.method, path) || ["/health", "/live", "/ready", "/healthz"].contains(&path) {
                continue;
            }
            // Who signs in has no credential yet, but must do so from a page of this origin.
            let signs_in = route.method == Method::POST && path == "/ui/session";
            let status = api.call(route.method.clone(), &path.replace(['{', '}'], "")).open().await.status();
            assert_eq!(status.as_u16(), if signs_in { 403 } else { 401 }, "{} {}", route.method, route.path);
        }
    }

    /// Authentication skipped by path suffix or by another channel.
    async fn no_suffix_and_no_other_channel_skips_authentication(api: &TestApi) {
        for target in ["/api/v1/pools/live", "/api/v1/pools;/live", "/api/v1/pools?/live", "/api/v1/pools#/live", "/api/v1/pools/%2e%2e/live",
                       "/live/../api/v1/pools", "/healthz/api/v1/pools", "/api/v1/pools/.css", "/api/v1/pools.json", "//api/v1/pools"] {
            let answer = api.get(target).send().await;
            assert_eq!(answer.status.as_u16(), 401, "{target}");
        }
        // A WebSocket upgrade, a form, a method override and a query are no way in.
        api.get("/api/v1/pools").header("upgrade", "websocket").header("connection", "upgrade").send().await.expect(401);
        api.get("/api/v1/pools").header("x-http-method-override", "OPTIONS").send().await.expect(401);
        let token = api.token(Role::Admin).to_owned();
        api.get(&format!("/api/v1/pools?access_token={token}&token={token}")).send().await.expect(401);
        api.get("/api/v1/pools").header("x-original-url", "/live").header("x-rewrite-url", "/live").send().await.expect(401);
    }

    /// Default or shared secret: the first token is random, made once, and only its hash is kept.
    async fn there_is_no_default_secret(api: &TestApi) {
        assert!(api.service.first_token().await.unwrap().is_none(), "there are tokens already");
        for guess in ["admin", "mainspring", "changeme", "temporary_key", "ms_00000000000000000000000000000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            api.get("/api/v1/auth/me").bearer(guess).send().await.expect(401);
        }
        let rows = api.client.store().tokens(None, 100, 0).await.unwrap();
        for row in &rows {
            api.client.store().revoke_token(api.client.now(), row.id).await.unwrap();
        }
        let first = api.service.first_token().await.unwrap().expect("none is left that opens anything");
        api.get("/api/v1/auth/tokens").bearer(first.reveal()).send().await.expect(200);
        assert!(api.service.first_token().await.unwrap().is_none(), "made once");
    }

    /// Missing authorisation on one object or field: the object's namespace counts, and a role is not widened by asking.
    async fn authorisation_is_of_the_object_and_of_every_field(api: &TestApi) {
        let guest = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
        api.post("/api/v1/auth/tokens").bearer(&guest).json(json!({"name": "x", "role": "admin", "namespace": "here"})).send().await.expect(403);
        api.post("/api/v1/namespaces").bearer(&guest).json(json!({"name": "new"})).send().await.expect(403);
        api.call(Method::PATCH, "/api/v1/namespaces/here").bearer(&guest).json(json!({"max_open_runs": null})).send().await.expect(403);
        api.get("/api/v1/namespaces/there").bearer(&guest).send().await.expect(403);
        api.put("/api/v1/secrets/K?namespace=there").bearer(&guest).json(json!({"value": "x"})).send().await.expect(403);
        // Naming the own namespace twice, once truly, opens no other.
        api.put("/api/v1/secrets/K?namespace=here&namespace=there").bearer(&guest).json(json!({"value": "x"})).send().await.expect(400);
        let star = api.make_token("star", &[Grant::within("x", Role::Admin)]).await;
        api.get("/api/v1/pools?namespace=*").bearer(&star).send().await.expect(400);
        let worker = api.token(Role::Worker).to_owned();
        api.get("/api/v1/secrets").bearer(&worker).send().await.expect(403);
    }

    /// SQL injection: what is sent is bound, and identifiers come from a list.
    async fn nothing_that_is_sent_becomes_sql(api: &TestApi) {
        for evil in ["'; DROP TABLE api_tokens; --", "x' OR '1'='1", "\\'; --", "$1", "%27%20OR%201=1"] {
            let quoted: String = evil.bytes().map(|byte| format!("%{byte:02x}")).collect();
            api.get(&format!("/api/v1/audit?actor={quoted}")).role(Role::Admin).send().await.expect(200);
            api.get(&format!("/api/v1/pools?namespace={quoted}")).role(Role::Admin).send().await.expect(400);
            let wanted = json!({"name": evil, "role": "viewer"});
            api.post("/api/v1/auth/tokens").role(Role::Admin).json(wanted).send().await.expect(201);
            api.post("/api/v1/auth/tokens").role(Role::Admin).json(json!({"name": "x", "role": "viewer", "namespace": evil})).send().await.expect(422);
        }
        let listed = api.get("/api/v1/auth/tokens?limit=500").role(Role::Admin).send().await.expect(200);
        assert!(listed.text.contains("DROP TABLE"), "it is kept as it was written");
    }

    /// Path traversal: an id or a name is never a path.
    async fn names_are_never_paths(api: &TestApi) {
        for name in ["..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%252e%252e", "..\\..", "a%5c..%5cb", "%c0%ae%c0%ae"] {
            let target = format!("/api/v1/pools/{name}").replace('\\', "%5c");
            let status = api.get(&target).role(Role::Admin).send().await.status.as_u16();
            assert_eq!(status, 400, "{name}");
        }
    }

    /// Stored XSS: JSON is never taken for a page, and pages hold no script.
    async fn what_is_stored_is_never_a_page(api: &TestApi) {
        let evil = "<script>alert(1)</script><img src=x onerror=alert(1)>";
        api.post("/api/v1/namespaces").role(Role::Admin).json(json!({"name": "x", "description": evil})).send().await.expect(201);
        let answer = api.get("/api/v1/namespaces/x").role(Role::Admin).header("accept", "text/html").send().await.expect(200);
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        let docs = api.get("/docs").role(Role::Viewer).send().await.expect(200);
        assert!(!docs.text.contains("<script") && !docs.text.contains("onerror"));
        assert!(!docs.header("content-security-policy").contains("unsafe-inline"));
    }

    /// Sessions: there are none. A cookie is no credential, and revoking counts at once.
    async fn cookies_are_no_credential(api: &TestApi) {
        let token = api.token(Role::Admin).to_owned();
        for cookie in [format!("token={token}"), format!("session={token}"), format!("Authorization=Bearer {token}")] {
            let answer = api.get("/api/v1/auth/me").header("cookie", &cookie).send().await.expect(401);
            assert_eq!(answer.header("set-cookie"), "");
        }
    }

    /// What is deep in an expression would be deep on the stack of its reader.
    async fn deep_expressions_do_not_end_the_server(api: &TestApi) {
        for piece in ["-", "not ", "1+(", "|upper", ".a", "1 if 1 else ", "1 ** "] {
            let deep = piece.repeat(4_000 / piece.len());
            let text = json!({"name": "w", "tasks": {"t": {"run": "x", "if": deep}}});
            let shown = api.post("/api/v1/workflows/validate").role(Role::Viewer).json(text.clone()).send().await.expect(200).body();
            assert_eq!(shown["valid"], false, "{piece}");
            api.post("/api/v1/workflows").role(Role::Author).json(text).send().await.expect(422);
        }
    }

    async fn large_and_deep_bodies_are_refused(api: &TestApi) {
        let put = |body: &str| api.put("/api/v1/pools/p").role(Role::Admin).text("application/json", body);
        put(&format!("{{\"slots\": {}}}", " ".repeat(2 << 20))).send().await.expect(413);
        put(&format!("{{\"slots\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000))).send().await.expect(422);
        put(&format!("{{\"x\": {}", "{\"a\":".repeat(100_000))).send().await.expect(422);
        put("{\"slots\": 1}").header("content-encoding", "gzip").send().await.expect(415);
        put("{\"slots\": 1e999}").send().await.expect(400);
        put("{\"slots\": 1, \"slots\": 2}").send().await.expect(422);
        put("\u{feff}{}").send().await.expect(400);
        let long = "x".repeat(60_000);
        api.get(&format!("/api/v1/pools/{long}")).role(Role::Admin).send().await.expect(400);
    }
}

/// Host and Origin: a name that was made to point here, and pages of others, are refused.
#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let origins = Origins { hosts: vec!["jobs.example.com".into()], origins: vec!["https://ops.example.com".into()] };
    let api = TestApi::with(Flavor::Sqlite, Settings { origins, ..Settings::default() }).await;
    let get = || api.get("/api/v1/pools").role(Role::Viewer);
    get().header("host", "jobs.example.com").send().await.expect(200);
    get().header("host", "rebound.evil.com").send().await.expect(421);
    get().without("host").send().await.expect(400);
    get().header("origin", "http://evil.com").send().await.expect(403);
    get().header("origin", "null").send().await.expect(403);
    get().header("origin", "http://localhost").send().await.expect(200);
    let allowed = get().header("origin", "https://ops.example.com").send().await.expect(200);
    assert_eq!(allowed.header("access-control-allow-origin"), "https://ops.example.com");
    assert_eq!(allowed.header("access-control-allow-credentials"), "");
    let asks = |origin: &str| {
        api.call(Method::OPTIONS, "/api/v1/pools")
            .header("origin", origin)
            .header("access-control-request-method", "PUT")
    };
    assert_eq!(asks("https://ops.example.com").send().await.status.as_u16(), 204);
    asks("http://evil.com").send().await.expect(403);
    let upgrade = get().header("upgrade", "websocket").header("origin", "http://evil.com");
    upgrade.send().await.expect(403);
}

/// Rate limits count by token; `X-Forwarded-For` does not make a new caller.
#[tokio::test]
async fn too_many_requests_are_refused_for_a_while() {
    let rates = Rates { per_identity: 1, ..Rates::default() };
    let proxies: Vec<Network> = Vec::new();
    let api = TestApi::with(Flavor::Sqlite, Settings { rates, proxies, ..Settings::default() }).await;
    let mut refused = None;
    for number in 0..50 {
        let from = format!("10.0.0.{number}");
        let answer = api.get("/api/v1/auth/me").role(Role::Viewer).header("x-forwarded-for", &from).send().await;
        if answer.status.as_u16() == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("50 requests at a rate of 1 per second, and none was refused");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(refused.body()["type"], "urn:mainspring:rate-limited");
    api.get("/api/v1/auth/me").role(Role::Admin).send().await.expect(200);
    api.get("/live").send().await.expect(200);
}
