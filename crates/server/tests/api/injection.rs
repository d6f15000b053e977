//! Hostile values that come over the API and are executed by a real node: each arrives as it was sent, or is refused.

use mainspring_server::{Grant, Role};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::on_both;
use crate::test_api::TestApi;

/// Starts a run and shows it once it has this status.
async fn ran(api: &TestApi, workflow: &str, body: Value, status: &str) -> Value {
    let target = format!("/api/v1/workflows/{workflow}/trigger");
    let made = api.post(&target).role(Role::Operator).json(body).send().await.expect(201).body();
    api.until(made["id"].as_str().unwrap(), status).await
}

/// What would make the canary if any of it were executed.
fn commands(canary: &str) -> Vec<String> {
    let values = [
        "$(touch CANARY)",
        "`touch CANARY`",
        "; touch CANARY",
        "' ; touch CANARY ; '",
        "\"; touch CANARY; \"",
        "x\ntouch CANARY\n",
        "|| touch CANARY",
        "& touch CANARY &",
        "${IFS}$(touch${IFS}CANARY)",
        "a\\'; touch CANARY #",
        "-o ProxyCommand=touch CANARY",
        "$((a[$(touch CANARY)]))",
    ];
    values.iter().map(|value| value.replace("CANARY", canary)).collect()
}

on_both! {
    /// Command injection through a parameter, a correlation id, an idempotency key or the id of a run.
    async fn command_injection_through_a_parameter_or_run_id(api: &TestApi) {
        let folder = tempfile::tempdir().unwrap();
        let canary = folder.path().join("canary");
        let node = api.node().await;
        api.store("
name: hostile
inputs: {values: {type: list}}
tasks:
  t:
    foreach: inputs.values
    env: {V: '${{ item }}', RUN: '${{ run.id }}'}
    run: |
      x=${{ item }}
      test \"$x\" = \"$V\"
      printf 'v<<E-N-D\\n%s\\nE-N-D\\n' \"$x\" >> \"$MAINSPRING_OUTPUT\"
outputs: {all: \"${{ tasks.t.output }}\"}
").await;
        let values = commands(&canary.display().to_string());
        let shown = ran(api, "hostile", json!({"inputs": {"values": values}, "correlation_id": values[0], "idempotency_key": values[2]}), "success").await;
        let got: Vec<&str> = shown["outputs"]["all"].as_array().unwrap().iter().map(|one| one["v"].as_str().unwrap()).collect();
        // A script's outputs are lines: what ends in one loses it.
        let sent: Vec<&str> = values.iter().map(|value| value.trim_end_matches('\n')).collect();
        assert_eq!(got.iter().map(|value| value.trim_end_matches('\n')).collect::<Vec<_>>(), sent);
        assert_eq!(shown["correlation_id"], values[0]);
        for value in &values {
            let quoted: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
            for rest in ["", "/tasks", "/tasks/t", "/tasks/t/logs", "/artifacts/x"] {
                api.get(&format!("/api/v1/workflow-runs/{quoted}{rest}")).role(Role::Admin).send().await.expect(400);
            }
            api.post(&format!("/api/v1/workflow-runs/{quoted}/cancel")).role(Role::Admin).send().await.expect(400);
            let task = api.get(&format!("/api/v1/workflow-runs/{}/tasks/{quoted}", shown["id"].as_str().unwrap()));
            task.role(Role::Admin).send().await.expect(404);
        }
        assert!(!canary.exists(), "a value was executed");
        node.stop().await;
    }

    /// Template or expression injection: data is never evaluated, whatever it looks like and wherever it is kept.
    async fn template_or_expression_injection_through_the_api(api: &TestApi) {
        let node = api.trusted_node().await;
        let secret = json!({"value": "open sesame"});
        api.put("/api/v1/secrets/KEY").role(Role::Admin).json(secret).send().await.expect(201);
        let values = json!([
            "${{ 7 * 7 }}", "{{ 7 * 7 }}", "{% for x in range(9) %}x{% endfor %}", "${{ secrets.KEY }}", "#{7*7}", "<%= 7*7 %>", "${7*7}",
            "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ constructor.constructor('return process')() }}", "}} ${{ 1 }} {{",
        ]);
        api.store("
name: literal
inputs: {values: {type: list}}
tasks: {t: {foreach: inputs.values, function: {handler: noop, payload: {v: '${{ item }}', within: '<${{ item }}>'}}}}
outputs: {all: \"${{ tasks.t.output }}\"}
").await;
        let shown = ran(api, "literal", json!({"inputs": {"values": values}, "correlation_id": "${{ secrets.KEY }}"}), "success").await;
        for (sent, got) in values.as_array().unwrap().iter().zip(shown["outputs"]["all"].as_array().unwrap()) {
            assert_eq!(&got["v"], sent);
            assert_eq!(got["within"], format!("<{}>", sent.as_str().unwrap()));
        }
        assert!(!shown.to_string().contains("open sesame"), "{shown}");
        // What is only shown stays as it was written, too.
        let titled = json!({"name": "A ${{ 7 * 7 }} title", "description": "{{ 7 * 7 }} ${{ secrets.KEY }}"});
        let stored = api.post("/api/v1/workflows").role(Role::Author).json(titled.clone()).send().await.expect(201).body();
        assert_eq!((&stored["title"], &stored["description"]), (&titled["name"], &titled["description"]));
        // An expression names what its workflow lists, and cannot reach further.
        for expression in ["secrets.KEY", "''.__class__", "run.__init__", "self", "cycler.__init__.__globals__", "range(1000000000)", "tasks.other.output"] {
            let text = format!("{{name: reach, tasks: {{t: {{function: {{handler: noop, payload: {{v: \"${{{{ {expression} }}}}\"}}}}}}}}}}");
            let answer = api.post("/api/v1/workflows?dry_run=true").role(Role::Author).text("application/yaml", &text).send().await;
            if answer.status.as_u16() == 422 {
                continue;
            }
            // What is only known when it runs fails then, and shows nothing.
            answer.expect(200);
            api.store(&text.replace("reach", "late")).await;
            let failed = ran(api, "late", json!({}), "failed").await;
            assert!(!failed.to_string().contains("open sesame"), "{expression}: {failed}");
        }
        node.stop().await;
    }

    /// SSRF: an http task goes nowhere inside, however the address is written and wherever it came from.
    async fn ssrf_through_an_http_task_of_the_api(api: &TestApi) {
        let node = api.node().await;
        let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = inside.local_addr().unwrap().port();
        api.store("
name: fetch
inputs: {urls: {type: list}}
tasks: {t: {foreach: inputs.urls, http: {url: '${{ item }}'}, retry: {attempts: 1}}}
").await;
        let urls: Vec<String> = [
            "http://127.0.0.1:PORT/", "http://localhost:PORT/", "http://[::ffff:127.0.0.1]:PORT/", "http://2130706433:PORT/", "http://0x7f.1:PORT/",
            "http://0177.0.0.1:PORT/", "http://127.1:PORT/", "http://0.0.0.0:PORT/", "http://[::]:PORT/", "http://user@127.0.0.1:PORT/",
            "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "file:///etc/passwd", "gopher://127.0.0.1:PORT/",
        ].iter().map(|url| url.replace("PORT", &port.to_string())).collect();
        let shown = ran(api, "fetch", json!({"inputs": {"urls": urls}}), "failed").await;
        let run = shown["id"].as_str().unwrap();
        for (number, url) in urls.iter().enumerate() {
            let task = api.task(run, &format!("t%5B{number}%5D")).await;
            assert_eq!(task["status"], "failed", "{url}: {task}");
        }
        let reached = tokio::time::timeout(std::time::Duration::ZERO, inside.accept()).await;
        assert!(reached.is_err(), "an http task reached an address inside: {reached:?}");
        node.stop().await;
    }

    /// Secrets in logs, the UI or the store: what is put is sealed, and no answer of the API holds it.
    async fn secrets_are_in_no_answer_and_not_in_the_store(api: &TestApi) {
        let node = api.trusted_node().await;
        let value = "a-value-that-must-not-be-seen";
        api.put("/api/v1/secrets/KEY").role(Role::Admin).json(json!({"value": value})).send().await.expect(201);
        api.store("{name: teller, secrets: [KEY], tasks: {t: {run: 'echo \"$K\" >&2; echo \"$K\"; exit 1', env: {K: '${{ secrets.KEY }}'}}}}").await;
        let run = api.start("teller").await;
        api.until(&run, "failed").await;
        for target in ["/secrets", "/secrets/KEY", "/audit", "/workflows/teller/versions/1", "/workflows/teller/graph", "/search?q=value",
                       &format!("/workflow-runs/{run}"), &format!("/workflow-runs/{run}/tasks/t?include=logs"), &format!("/workflow-runs/{run}/tasks/t/logs")] {
            let answer = api.get(&format!("/api/v1{target}")).role(Role::Admin).send().await.expect(200);
            assert!(!answer.text.contains(value), "{target} shows a secret");
        }
        // Not even to one that may put it.
        let admin = api.make_token("admin", &[Grant::within("default", Role::Admin)]).await;
        let shown = api.get("/api/v1/secrets/KEY").bearer(&admin).send().await.expect(200).body();
        assert!(shown.get("value").is_none(), "{shown}");
        let sealed = api.client.store().sealed_secrets("default").await.unwrap();
        assert_eq!(sealed.len(), 1);
        assert!(!sealed[0].sealed.windows(value.len()).any(|window| window == value.as_bytes()), "it is not sealed");
        node.stop().await;
    }
}
