//! `/workflows`.

use mainspring_server::{Grant, Role};
use serde_json::json;

use crate::on_both;

const ETL: &str = "name: etl\ntitle: Nightly load\ntags: [nightly, db]\ntriggers:\n  - cron: '0 3 * * *'\ntasks:\n  a:\n    run: 'true'\n  b:\n    needs: a\n    run: 'true'\n";

on_both! {
    async fn a_workflow_is_stored_shown_listed_and_deleted(api: &TestApi) {
        let made = api.store(ETL).await;
        for field in ["id", "name", "title", "description", "namespace", "version", "schedule_cron", "is_active", "tags", "metadata", "created_by", "created_at", "updated_at"] {
            assert!(made.get(field).is_some(), "{made} lacks {field}");
        }
        assert_eq!((&made["version"], &made["schedule_cron"], &made["is_active"]), (&json!(1), &json!("0 3 * * *"), &json!(true)));
        assert_eq!(api.store(ETL).await["version"], 1, "the same content is the same version");
        let again = api.post("/api/v1/workflows").role(Role::Admin).text("application/yaml", &ETL.replace("Nightly", "Daily"));
        let again = again.send().await.expect(201).body();
        assert_eq!((&again["version"], &again["created_by"]), (&json!(2), &json!("author")), "the first version says who made it");
        let said = api.store("{name: said, metadata: {created_by: ann}, tasks: {a: {run: 'true'}}}").await;
        assert_eq!(said["created_by"], "ann");
        api.delete("/api/v1/workflows/said").role(Role::Admin).send().await.expect(204);
        let id = made["id"].as_str().unwrap();
        for target in ["/api/v1/workflows/etl", "/v1/workflows/etl", "/workflows/etl", &format!("/api/v1/workflows/{id}")] {
            assert_eq!(api.get(target).role(Role::Viewer).send().await.expect(200).body()["id"], id);
        }
        api.store("{name: other, namespace: there, tasks: {a: {run: 'true'}}}").await;
        for (query, names) in [
            ("", vec!["etl", "other"]), ("?namespace=there", vec!["other"]), ("?tag=db", vec!["etl"]), ("?tag=x", vec![]),
            ("?q=DAILY", vec!["etl"]), ("?q=%25", vec![]), ("?active=false", vec![]), ("?limit=1", vec!["etl"]), ("?offset=1", vec!["other"]),
            ("?q=';%20DROP%20TABLE%20workflows", vec![]),
        ] {
            let found = api.get(&format!("/api/v1/workflows{query}")).role(Role::Viewer).send().await.expect(200).body();
            let found: Vec<&str> = found["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
            assert_eq!(found, names, "{query}");
        }
        let page = api.get("/api/v1/workflows?limit=1&count=true").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(page["total"], 2);
        let next = page["next"].as_str().unwrap();
        let page = api.get(&format!("/api/v1/workflows?limit=1&cursor={next}")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((&page["items"][0]["name"], &page["next"]), (&json!("other"), &json!(null)));
        api.delete("/api/v1/workflows/etl").role(Role::Author).send().await.expect(204);
        api.get("/api/v1/workflows/etl").role(Role::Viewer).send().await.expect(404);
        api.delete("/api/v1/workflows/etl").role(Role::Author).send().await.expect(404);
    }

    async fn versions_and_the_graph_are_shown(api: &TestApi) {
        api.store(ETL).await;
        api.store("{name: etl, tasks: {a: {run: 'true'}}, finally: {z: {run: 'true'}}}").await;
        let list = api.get("/api/v1/workflows/etl/versions").role(Role::Viewer).send().await.expect(200).body();
        let numbers: Vec<i64> = list["items"].as_array().unwrap().iter().map(|one| one["version"].as_i64().unwrap()).collect();
        assert_eq!(numbers, [2, 1]);
        let one = api.get("/api/v1/workflows/etl/versions/1").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(one["source"], ETL);
        api.get("/api/v1/workflows/etl/versions/9").role(Role::Viewer).send().await.expect(404);
        api.get("/api/v1/workflows/etl/versions/x").role(Role::Viewer).send().await.expect(400);
        let graph = api.get("/api/v1/workflows/etl/graph?version=1").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(graph["edges"], json!([{"from": 0, "to": 1}]));
        assert_eq!((&graph["nodes"][1]["task"], &graph["nodes"][1]["level"]), (&json!("b"), &json!(1)));
        let newest = api.get("/api/v1/workflows/etl/graph").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(newest["nodes"][1]["stage"], "finally");
    }

    async fn the_short_form_and_titles(api: &TestApi) {
        let body = json!({"name": "Daily Cleanup", "description": "d", "schedule_cron": "0 3 * * *", "is_active": false});
        let made = api.post("/workflows").role(Role::Author).json(body.clone()).send().await.expect(201).body();
        assert_eq!((&made["name"], &made["title"], &made["is_active"]), (&json!("daily-cleanup"), &json!("Daily Cleanup"), &json!(false)));
        let again = api.post("/workflows").role(Role::Author).json(body).send().await.expect(201).body();
        assert_eq!(again["id"], made["id"], "the same title is the same workflow");
        let other = api.post("/workflows").role(Role::Author).json(json!({"name": "Daily cleanup!"})).send().await.expect(201).body();
        assert_eq!((&other["name"], &other["title"]), (&json!("daily-cleanup-2"), &json!("Daily cleanup!")));
        let run = api.start("daily-cleanup").await;
        assert_eq!(api.until(&run, "success").await["phase"], json!(null), "without tasks it succeeds at once");
    }

    async fn a_dry_run_stores_nothing_and_tells_the_difference(api: &TestApi) {
        let dry = |yaml: &str| api.post("/api/v1/workflows?dry_run=true").role(Role::Author).text("application/yaml", yaml);
        let fresh = dry(ETL).send().await.expect(200).body();
        assert_eq!((&fresh["version"], &fresh["differences"]), (&json!(null), &json!(null)));
        api.get("/api/v1/workflows/etl").role(Role::Viewer).send().await.expect(404);
        api.store(ETL).await;
        assert_eq!(dry(ETL).send().await.expect(200).body()["unchanged"], true);
        let changed = dry(&ETL.replace("'true'", "'false'")).send().await.expect(200).body();
        assert_eq!((&changed["unchanged"], &changed["differences"]["tasks"][0]["task"]), (&json!(false), &json!("a")));
    }

    async fn files_come_along_in_a_bundle(api: &TestApi) {
        const YAML: &str = "{name: w, files: [lib/, x.sh], tasks: {a: {run: sh x.sh}}}";
        let send = |source: &str, files: serde_json::Value| {
            let body = json!({"source": source, "files": files}).to_string();
            api.post("/api/v1/workflows").role(Role::Author).text("application/vnd.mainspring.bundle+json", &body)
        };
        let file = |path: &str, content: &str| json!({"path": path, "content": content});
        api.post("/api/v1/workflows").role(Role::Author).text("application/yaml", YAML).send().await.expect(422);
        for (files, place) in [
            (json!([]), "/files"),
            (json!([file("../x.sh", "")]), "/files/0/path"),
            (json!([file("lib/../x.sh", "")]), "/files/0/path"),
            (json!([file("/etc/passwd", "")]), "/files/0/path"),
            (json!([file("x.sh", ""), file("y.sh", "")]), "/files/1/path"),
            (json!([file("libs/x", "")]), "/files/0/path"),
            (json!([file("x.sh", ""), file("x.sh", "")]), "/files/1/path"),
            (json!([file("x.sh", "!")]), "/files/0/content"),
        ] {
            let answer = send(YAML, files).send().await.expect(422).body();
            assert_eq!(answer["errors"][0]["pointer"], place, "{answer}");
        }
        send("{name: w, tasks: {}}", json!([file("x.sh", "")])).send().await.expect(422);
        api.get("/api/v1/workflows/w").role(Role::Viewer).send().await.expect(404);
        let files = |content: &str| json!([file("x.sh", content), file("lib/a/b", "AAA=")]);
        assert_eq!(send(YAML, files("ZWNobyAx")).send().await.expect(201).body()["version"], 1);
        assert_eq!(send(YAML, files("ZWNobyAx")).send().await.expect(201).body()["version"], 1);
        assert_eq!(send(YAML, files("ZWNobyAy")).send().await.expect(201).body()["version"], 2);
    }

    async fn what_is_hardly_meant_is_a_warning(api: &TestApi) {
        let text = "name: w\ntriggers: [{cron: '0 0 1 */15 *'}]\ntasks: {a: {run: 'true'}}\n";
        let post = |target: &str| api.post(target).role(Role::Author).text("application/yaml", text).send();
        for (target, status) in [("/api/v1/workflows/validate", 200), ("/api/v1/workflows?dry_run=true", 200), ("/api/v1/workflows", 201)] {
            let answer = post(target).await.expect(status).body();
            assert_eq!(answer["warnings"][0]["line"], 2, "{target}: {answer}");
            assert!(answer["warnings"][0]["detail"].as_str().unwrap().contains("the month field"), "{answer}");
        }
        let shown = api.get("/api/v1/workflows/w").role(Role::Viewer).send().await.expect(200).body();
        assert!(shown.get("warnings").is_none(), "{shown}");
    }

    async fn every_error_has_its_line(api: &TestApi) {
        let wrong = "name: w\ntasks:\n  a:\n    run: x\n    needs: [b]\n    colour: red\n";
        let answer = api.post("/api/v1/workflows").role(Role::Author).text("application/yaml", wrong).send().await.expect(422).body();
        let lines: Vec<i64> = answer["errors"].as_array().unwrap().iter().map(|one| one["line"].as_i64().unwrap()).collect();
        assert!(lines.contains(&5) && lines.contains(&6), "{answer}");
        let report = api.post("/api/v1/workflows/validate").role(Role::Viewer).text("application/yaml", wrong).send().await.expect(200).body();
        assert_eq!((&report["valid"], report["errors"].as_array().unwrap().len()), (&json!(false), lines.len()));
        let report = api.post("/api/v1/workflows/validate").role(Role::Viewer).text("application/yaml", ETL).send().await.expect(200).body();
        assert_eq!((&report["valid"], &report["topological_order"]), (&json!(true), &json!(["a", "b"])));
        assert_eq!(report["next_fire_times"][0]["times"].as_array().unwrap().len(), 5);
    }

    async fn who_has_read_something_else_changes_nothing(api: &TestApi) {
        api.store(ETL).await;
        let first = api.get("/api/v1/workflows/etl").role(Role::Viewer).send().await.expect(200);
        let tag = first.header("etag").to_owned();
        let pause = |tag: &str| api.patch("/api/v1/workflows/etl").role(Role::Operator).header("if-match", tag).json(json!({"is_active": false}));
        let paused = pause(&tag).send().await.expect(200);
        assert_eq!(paused.body()["is_active"], false);
        assert_ne!(paused.header("etag"), tag);
        pause(&tag).send().await.expect(412);
        let put = |name: &str, tag: &str| api.post("/api/v1/workflows").role(Role::Author).header(name, tag).text("application/yaml", ETL);
        put("if-match", &tag).send().await.expect(412);
        put("if-none-match", "*").send().await.expect(412);
        put("if-match", paused.header("etag")).send().await.expect(201);
        api.patch("/api/v1/workflows/etl").role(Role::Operator).json(json!({"is_active": true})).send().await.expect(200);
        api.patch("/api/v1/workflows/etl").role(Role::Operator).json(json!({"is_active": true, "x": 1})).send().await.expect(422);
        api.patch("/api/v1/workflows/etl").role(Role::Viewer).json(json!({"is_active": true})).send().await.expect(403);
    }

    async fn a_workflow_with_open_runs_is_kept_unless_they_are_cancelled(api: &TestApi) {
        api.store(ETL).await;
        let run = api.start("etl").await;
        api.delete("/api/v1/workflows/etl").role(Role::Author).send().await.expect(409);
        api.delete("/api/v1/workflows/etl?cancel=true").role(Role::Author).send().await.expect(204);
        api.get(&format!("/api/v1/workflow-runs/{run}")).role(Role::Viewer).send().await.expect(404);
    }

    async fn a_trigger_gives_inputs_and_is_repeated_by_its_key(api: &TestApi) {
        api.store("name: w\ninputs:\n  n: {type: integer}\ntasks:\n  a: {run: 'true'}\n").await;
        let trigger = |body: serde_json::Value| api.post("/api/v1/workflows/w/trigger").role(Role::Operator).json(body);
        let wrong = trigger(json!({"inputs": {"n": "x"}})).send().await.expect(422).body();
        assert!(wrong["errors"][0]["detail"].as_str().unwrap().contains('n'), "{wrong}");
        let body = json!({"inputs": {"n": 3}, "priority": "high", "idempotency_key": "k", "correlation_id": "c"});
        let run = trigger(body.clone()).send().await.expect(201).body();
        assert_eq!((&run["inputs"], &run["priority"], &run["correlation_id"]), (&json!({"n": 3}), &json!(750), &json!("c")));
        assert_eq!((&run["status"], &run["phase"], &run["trigger"]["kind"]), (&json!("running"), &json!("waiting_for_dependencies"), &json!("manual")));
        assert!(run.get("finished_at").is_none());
        assert_eq!(trigger(body).send().await.expect(200).body()["id"], run["id"]);
        for (body, status) in [
            (json!({"inputs": {"n": 1}, "priority": 1001}), 422), (json!({"inputs": {"n": 1}, "priority": "urgent"}), 422),
            (json!({"inputs": {"n": 1}, "at": "tomorrow"}), 422), (json!({"inputs": {"n": 1}, "at": "2999-01-01"}), 422),
            (json!({"inputs": {"n": 1}, "correlation_id": "a\u{0}"}), 422), (json!({"input": {}}), 422), (json!({"inputs": 7}), 422),
        ] {
            trigger(body.clone()).send().await.expect(status);
        }
        api.post("/api/v1/workflows/nothing/trigger").role(Role::Operator).send().await.expect(404);
        api.post("/api/v1/workflows/w/trigger").role(Role::Viewer).send().await.expect(403);
    }

    async fn another_namespace_is_separate(api: &TestApi) {
        let guest = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
        api.store("{name: w, namespace: there, tasks: {a: {run: 'true'}}}").await;
        let post = |target: &str, yaml: &str| api.post(target).bearer(&guest).text("application/yaml", yaml);
        post("/api/v1/workflows", "{name: w, namespace: there, tasks: {a: {run: x}}}").send().await.expect(403);
        post("/api/v1/workflows", "{name: w, tasks: {a: {run: x}}}").send().await.expect(403);
        post("/api/v1/workflows?namespace=here", "{name: w, namespace: there, tasks: {a: {run: x}}}").send().await.expect(422);
        let mine = post("/api/v1/workflows?namespace=here", "{name: w, tasks: {a: {run: x}}}").send().await.expect(201).body();
        assert_eq!(mine["namespace"], "here");
        let theirs = api.get("/api/v1/workflows/w?namespace=there").role(Role::Viewer).send().await.expect(200).body();
        let id = theirs["id"].as_str().unwrap();
        for target in [format!("/api/v1/workflows/{id}"), "/api/v1/workflows/w?namespace=there".into(), "/api/v1/workflows/w".into()] {
            api.get(&target).bearer(&guest).send().await.expect(403);
            api.delete(&target).bearer(&guest).send().await.expect(403);
            api.patch(&target).bearer(&guest).json(json!({"is_active": false})).send().await.expect(403);
        }
        api.post(&format!("/api/v1/workflows/{id}/trigger")).bearer(&guest).send().await.expect(403);
        let seen = api.get("/api/v1/workflows").bearer(&guest).send().await.expect(200).body();
        assert_eq!(seen["items"].as_array().unwrap().len(), 1);
    }

    async fn bad_names_and_texts_are_refused(api: &TestApi) {
        for name in ["..", "%2e%2e", "a%2Fb", "a%252Fb", "A", "%E2%80%AEx", "x%0d%0ay", &"x".repeat(129)] {
            let answer = api.get(&format!("/api/v1/workflows/{name}")).role(Role::Viewer).send().await.expect(400);
            assert!(!answer.text.to_lowercase().contains("sql"), "{}", answer.text);
        }
        api.get("/api/v1/workflows/%00").role(Role::Viewer).send().await.expect(400);
        let long = format!("{{\"name\": \"{}\"}}", "x".repeat(1 << 20));
        let post = |kind: &str, body: &str| api.post("/api/v1/workflows").role(Role::Author).text(kind, body);
        for body in [r#"{"name": ""}"#, r#"{"name": "a\u0000b"}"#, r#"{"name": "a\u202eb"}"#, r#"{"name": "a\u200bb"}"#, r#"{"name": 7}"#, "[]", "{}", &long,
                     r#"{"name": "x", "schedule_cron": "* * 31 2 *"}"#, r#"{"name": "x", "schedule_cron": "*/0 * * * *"}"#, r#"{"name": "x", "nmae": 1}"#] {
            post("application/json", body).send().await.expect(422);
        }
        post("application/json", &format!("{{\"name\": \"x\", \"metadata\": {}", "[".repeat(100_000))).send().await.expect(400);
        for body in ["a: &a [*a, *a]", &"[".repeat(10_000), "name: x\nname: y\n", "name: !tag x\n", "name: \"a\\0b\"\ntasks: {}\n"] {
            let status = post("application/yaml", body).send().await.status.as_u16();
            assert!((400..=422).contains(&status), "{status}: {}", body.chars().take(40).collect::<String>());
        }
        post("image/png", "x").send().await.expect(415);
        post("application/json", &"x".repeat((16 << 20) + 1)).send().await.expect(413);
    }
}
