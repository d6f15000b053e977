//! The access table: what each role gets on each route is agreed in `access.txt`, and compared with what is served.
//!
//! `MAINSPRING_UPDATE_ACCESS=1` writes the table anew; look at the difference before it is committed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::http::{Method, StatusCode};
use mainspring_server::Role;
use serde_json::json;

use crate::on_both;
use crate::test_api::{TestApi, is_page};

const HEAD: &str = "\
# What each caller gets on each route: 401 and 403 as such, `ok` for what passes the guard (whatever follows).
# A caller holds its role in every namespace. Checked by tests/api/access.rs.
";

fn table() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/access.txt")
}

/// A path with something in place of its parameters.
fn filled(path: &str) -> String {
    let id = "00000000-0000-7000-8000-000000000000";
    path.split('/').map(|part| if part.starts_with('{') { id } else { part }).collect::<Vec<_>>().join("/")
}

async fn given(api: &TestApi, method: &Method, path: &str, role: Option<Role>) -> &'static str {
    let mut call = api.call(method.clone(), &filled(path));
    if let Some(role) = role {
        call = call.role(role);
    }
    if *method != Method::GET {
        call = call.text("application/json", "[]");
    }
    // Only the head: some answers never end.
    match call.open().await.status() {
        StatusCode::UNAUTHORIZED => "401",
        StatusCode::FORBIDDEN => "403",
        _ => "ok",
    }
}

async fn served(api: &TestApi) -> BTreeMap<(String, String), String> {
    let mut lines = BTreeMap::new();
    for route in api.service.routes() {
        let mut words = vec![given(api, &route.method, &route.path, None).await];
        for role in Role::ALL {
            words.push(given(api, &route.method, &route.path, Some(role)).await);
        }
        let key = (route.path.clone(), route.method.to_string());
        assert!(lines.insert(key, words.join(" ")).is_none(), "{} {} is registered twice", route.method, route.path);
    }
    lines
}

on_both! {
    async fn every_route_is_in_the_table_with_what_each_role_gets(api: &TestApi) {
        let served = served(api).await;
        let mut text = format!("{HEAD}# METHOD PATH | no token, viewer, operator, author, admin, worker\n");
        for ((path, method), words) in &served {
            text.push_str(&format!("{method} {path} | {words}\n"));
        }
        if std::env::var_os("MAINSPRING_UPDATE_ACCESS").is_some() {
            std::fs::write(table(), &text).unwrap();
        }
        let agreed = std::fs::read_to_string(table()).unwrap_or_default();
        let lines = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect()
        };
        let (agreed, served) = (lines(&agreed), lines(&text));
        let missing: Vec<&String> = served.iter().filter(|line| !agreed.contains(line)).collect();
        let gone: Vec<&String> = agreed.iter().filter(|line| !served.contains(line)).collect();
        assert!(
            missing.is_empty() && gone.is_empty(),
            "tests/access.txt lacks\n{missing:#?}\nand has, although no route serves them\n{gone:#?}\n\
             if that is meant, run this test with MAINSPRING_UPDATE_ACCESS=1 and look at the difference"
        );
    }

    async fn only_the_probes_and_the_files_of_the_interface_are_open(api: &TestApi) {
        let open: Vec<String> = served(api)
            .await
            .into_iter()
            .filter(|((path, method), words)| {
                words.starts_with("ok") && !is_page(&method.parse().unwrap(), path)
            })
            .map(|((path, _), _)| path)
            .collect();
        // Signing in is open, too: who signs in has no credential yet. `/health` without a token tells words only.
        assert_eq!(open, ["/health", "/healthz", "/live", "/ready"]);
    }

    async fn what_is_no_route_tells_nothing_to_strangers(api: &TestApi) {
        for path in ["/api", "/api/v1", "/api/v1/pools/", "/api/v1/nothing", "/live/", "/live/x", "/healthz;x",
                     "//live", "/live%2f", "/api/v1/../../live", "/LIVE", "/api/v1/pools/x/live", "/v2/pools"] {
            api.get(path).send().await.expect(401);
            api.get(path).role(Role::Admin).send().await.expect(404);
        }
        for method in [Method::POST, Method::PATCH, Method::OPTIONS, Method::TRACE] {
            api.call(method.clone(), "/api/v1/pools").send().await.expect(401);
            let answer = api.call(method, "/api/v1/pools").role(Role::Admin).send().await.expect(405);
            assert!(answer.header("allow").contains("GET"));
        }
        assert_eq!(api.call(Method::HEAD, "/api/v1/pools").send().await.status, StatusCode::UNAUTHORIZED);
        assert_eq!(api.call(Method::HEAD, "/api/v1/pools").role(Role::Viewer).send().await.status, StatusCode::OK);
    }

    async fn what_is_named_like_a_fixed_segment_is_found(api: &TestApi) {
        for name in ["cron", "once", "interval", "after", "bulk"] {
            let job = json!({"name": name, "every": "1h", "handler_name": "noop"});
            let made = api.post("/api/v1/scheduler/jobs/interval").role(Role::Author).json(job).send().await.expect(201).body();
            for prefix in ["/api/v1", "/v1"] {
                let target = format!("{prefix}/scheduler/jobs/{name}");
                let shown = api.get(&target).role(Role::Viewer).send().await.expect(200).body();
                assert_eq!((&shown["id"], &shown["name"]), (&made["id"], &json!(name)));
                api.get(&format!("{target}?namespace=other")).role(Role::Viewer).send().await.expect(404);
                api.delete(&target).role(Role::Operator).send().await.expect(403);
                api.delete(&target).role(Role::Author).send().await.expect(204);
                assert_eq!(api.get(&target).role(Role::Viewer).send().await.expect(200).body()["status"], "cancelled");
            }
            let target = format!("/api/v1/scheduler/jobs/{name}");
            let answer = api.put(&target).role(Role::Author).json(json!({})).send().await.expect(405);
            assert!(["GET", "DELETE", "POST"].iter().all(|method| answer.header("allow").contains(method)));
        }
        for prefix in ["", "/v1", "/api/v1"] {
            api.store("{name: validate, tasks: {a: {run: 'true'}}}").await;
            let target = format!("{prefix}/workflows/validate");
            assert_eq!(api.get(&target).role(Role::Viewer).send().await.expect(200).body()["name"], "validate");
            let paused = api.patch(&target).role(Role::Operator).json(json!({"is_active": false})).send().await.expect(200).body();
            assert_eq!(paused["is_active"], false);
            api.delete(&target).role(Role::Author).send().await.expect(204);
            api.get(&target).role(Role::Viewer).send().await.expect(404);
            let valid = api.post(&target).role(Role::Author).text("application/yaml", "{name: w, tasks: {a: {run: 'true'}}}");
            assert_eq!(valid.send().await.expect(200).body()["valid"], true);
        }
    }
}
