//! Entries in every situation: their run is still open, ended long ago, is acted on twice and by four clients at once; one task
//! alone as a new run, with changed inputs, with another timeout; and a run that lived too long.

use mainspring_server::Role;
use serde_json::{Value, json};

use crate::on_both;
use crate::test_api::{Answer, TestApi};

/// Files through which a test tells tasks what to do.
struct Signs(tempfile::TempDir);

impl Signs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn set(&self, name: &str) {
        std::fs::write(self.path(name), "").unwrap();
    }

    fn clear(&self) {
        for name in ["up", "end"] {
            let _ = std::fs::remove_file(self.path(name));
        }
    }

    /// `a` fails until `up` is set, `b` depends on it, and `slow` goes on beside them until `end` is.
    fn side_by_side(&self) -> String {
        let (up, end) = (self.path("up"), self.path("end"));
        format!(
            "{{name: w, tasks: {{a: {{run: 'test -e {up}', shell: sh}}, b: {{needs: a, run: 'true', shell: sh}}, \
             slow: {{run: 'until test -e {end}; do sleep 0.05; done', shell: sh}}}}}}"
        )
    }

    /// `a` fails until `up` is set, and `b` depends on it.
    fn chain(&self) -> String {
        format!(
            "{{name: w, tasks: {{a: {{run: 'test -e {}', shell: sh}}, b: {{needs: a, run: 'true'}}}}}}",
            self.path("up")
        )
    }
}

async fn act(api: &TestApi, entry: &str, action: &str, by: &str) -> Answer {
    let body = json!({"by": by, "reason": "because"});
    api.post(&format!("/api/v1/dlq/{entry}/{action}")).role(Role::Operator).json(body).send().await
}

async fn entry_of(api: &TestApi, run: &str) -> Value {
    api.read(&format!("/api/v1/dlq/run/{run}")).await
}

fn id(entry: &Value) -> &str {
    entry["id"].as_str().unwrap()
}

/// What each action answers, how it closes the entry, and what becomes of the task.
const ACTIONS: [(&str, u16, &str, &str); 3] = [
    ("retry", 200, "retried", "success"),
    ("skip", 204, "skipped", "skipped"),
    ("resolve", 204, "resolved", "resolved_manually"),
];

on_both! {
    async fn a_failed_task_is_acted_on_while_its_run_goes_on(api: &TestApi) {
        let signs = Signs::new();
        api.store(&signs.side_by_side()).await;
        let node = api.node().await;
        for (action, code, status, state) in ACTIONS {
            signs.clear();
            let run = api.start("w").await;
            api.until_task(&run, "a", "failed").await;
            api.until_task(&run, "slow", "running").await;
            assert_eq!(api.task(&run, "b").await["status"], "upstream_failed");
            let entry = entry_of(api, &run).await;
            assert_eq!(entry["resolution_status"], "pending");
            signs.set("up");
            act(api, id(&entry), action, "ann").await.expect(code);
            api.until_task(&run, "a", state).await;
            api.until_task(&run, "b", "success").await;
            assert_eq!(entry_of(api, &run).await["resolution_status"], status);
            assert_eq!(api.until(&run, "running").await["status"], "running", "`slow` goes on");
            let again = act(api, id(&entry), action, "bob").await.expect(409);
            assert!(again.text.contains("by ann"), "{}", again.text);
            signs.set("end");
            api.until(&run, "success").await;
        }
        node.stop().await;
    }

    async fn the_actions_on_task_runs_do_the_same(api: &TestApi) {
        let signs = Signs::new();
        api.store(&signs.side_by_side()).await;
        let node = api.node().await;
        for (action, state) in [("retry", "success"), ("skip", "skipped"), ("resolve_manually", "resolved_manually")] {
            signs.clear();
            let run = api.start("w").await;
            api.until_task(&run, "a", "failed").await;
            signs.set("up");
            let target = format!("/api/v1/workflow-runs/{run}/tasks/a/actions");
            let of = |action: &str| api.post(&target).role(Role::Operator).json(json!({"action": action, "by": "ann"}));
            of(action).send().await.expect(200);
            api.until_task(&run, "a", state).await;
            api.until_task(&run, "b", "success").await;
            of("skip").send().await.expect(409);
            api.post(&format!("/api/v1/workflow-runs/{run}/retry")).role(Role::Operator).send().await.expect(409);
            signs.set("end");
            api.until(&run, "success").await;
        }
        node.stop().await;
    }

    async fn a_run_that_ended_long_ago_is_repaired(api: &TestApi) {
        const YEAR: i64 = 365 * 24 * 3_600 * 1_000_000;
        let signs = Signs::new();
        api.store(&signs.chain()).await;
        let node = api.node().await;
        for (action, code, status, state) in ACTIONS {
            signs.clear();
            let run = api.start("w").await;
            api.until(&run, "failed").await;
            let entry = entry_of(api, &run).await;
            api.database.execute(&format!("UPDATE runs SET created_at = created_at - {YEAR}, started_at = started_at - {YEAR}, finished_at = finished_at - {YEAR}, progress_at = progress_at - {YEAR}")).await;
            api.database.execute(&format!("UPDATE history SET started_at = started_at - {YEAR}, finished_at = finished_at - {YEAR}")).await;
            api.database.execute(&format!("UPDATE dead_letters SET created_at = created_at - {YEAR} WHERE resolved_at IS NULL")).await;
            let stats = api.read("/api/v1/dlq/stats").await;
            assert!(stats["oldest_pending_age_seconds"].as_f64().unwrap() > 364.0 * 86_400.0, "{stats}");
            signs.set("up");
            act(api, id(&entry), action, "ann").await.expect(code);
            api.until(&run, "success").await;
            assert_eq!(api.task(&run, "a").await["status"], state);
            assert_eq!(entry_of(api, &run).await["resolution_status"], status);
            assert!(api.read("/api/v1/dlq/staleness").await["items"].as_array().unwrap().is_empty());
        }
        node.stop().await;
    }

    async fn of_four_clients_one_acts(api: &TestApi) {
        let signs = Signs::new();
        api.store(&signs.chain()).await;
        let node = api.node().await;
        for (action, code, status, _) in ACTIONS {
            signs.clear();
            let run = api.start("w").await;
            api.until(&run, "failed").await;
            let entry = entry_of(api, &run).await;
            let client = |by: &'static str| act(api, id(&entry), action, by);
            let (one, two, three, four) = tokio::join!(client("one"), client("two"), client("three"), client("four"));
            let answers = [one, two, three, four];
            let won = answers.iter().filter(|answer| answer.status == code).count();
            let lost: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 409).collect();
            assert_eq!((won, lost.len()), (1, 3), "{action}: {answers:?}");
            let closed = api.read(&format!("/api/v1/dlq/{}", id(&entry))).await;
            assert_eq!(closed["resolution_status"], status);
            let by = format!("by {} at 20", closed["resolved_by"].as_str().unwrap());
            assert!(lost.iter().all(|answer| answer.text.contains(&by)), "who and when: {lost:?}");
            // A retry fails again, as the cause is not gone: that is one new entry, however many asked.
            api.until(&run, if action == "retry" { "failed" } else { "success" }).await;
            let all = api.read(&format!("/api/v1/dlq?run={run}")).await;
            assert_eq!(all["items"].as_array().unwrap().len(), if action == "retry" { 2 } else { 1 }, "{all}");
        }
        node.stop().await;
    }

    async fn a_new_run_is_of_that_task_alone(api: &TestApi) {
        let signs = Signs::new();
        let (up, ran) = (signs.path("up"), signs.path("ran"));
        api.apply(&format!(
            "{{name: w, tasks: {{first: {{function: {{handler: echo, payload: {{n: 5}}}}}}, \
             bad: {{needs: first, run: 'test \"${{{{ tasks.first.output.n }}}}\" = 5 && test -e {up}', shell: sh}}, \
             after: {{needs: bad, run: 'echo after >> {ran}', shell: sh}}}}, finally: {{last: {{run: 'echo last >> {ran}', shell: sh}}}}}}"
        ))
        .await;
        let node = api.work().await;
        let run = api.start("w").await;
        api.until(&run, "failed").await;
        signs.set("up");
        let entry = entry_of(api, &run).await;
        let retry = || api.post(&format!("/api/v1/dlq/{}/retry?as=new_run", id(&entry))).role(Role::Operator).send();
        let made = retry().await.expect(200).body();
        let new = made["id"].as_str().unwrap();
        assert_ne!(new, run);
        assert_eq!((&made["trigger"]["kind"], &made["trigger"]["run"]), (&json!("dead_letter"), &json!(run)));
        api.until(new, "success").await;
        let states: Vec<Value> = [api.task(new, "first").await, api.task(new, "bad").await, api.task(new, "after").await].map(|task| task["status"].clone()).to_vec();
        assert_eq!(states, ["resolved_manually", "success", "skipped"]);
        assert_eq!(std::fs::read_to_string(&ran).unwrap(), "last\n", "what the first run did, and nothing else");
        assert_eq!(entry_of(api, &run).await["resolution_status"], "retried");
        assert_eq!(api.until(&run, "failed").await["status"], "failed", "the old run stays as it is");
        retry().await.expect(409);
        node.stop().await;
    }

    async fn a_task_is_retried_with_changed_inputs(api: &TestApi) {
        api.store("{name: w, inputs: {n: {type: integer, default: 7}, m: {type: integer, default: 1}}, tasks: {a: {run: 'test ${{ inputs.n }} -gt 10'}, b: {needs: a, run: 'true'}}}").await;
        let node = api.node().await;
        let run = api.start("w").await;
        api.until(&run, "failed").await;
        let target = format!("/api/v1/workflow-runs/{run}/tasks/a/actions");
        let with = |inputs: Value| api.post(&target).role(Role::Operator).json(json!({"action": "retry", "inputs": inputs, "by": "ann", "reason": "a typo"}));
        for wrong in [json!({"n": "many"}), json!({"n": 1.5}), json!({"none": 1})] {
            with(wrong).send().await.expect(422);
        }
        api.post(&target).role(Role::Operator).json(json!({"action": "skip", "inputs": {"n": 20}})).send().await.expect(422);
        assert_eq!(entry_of(api, &run).await["resolution_status"], "pending", "nothing was done");
        with(json!({"n": 20})).send().await.expect(200);
        let healed = api.until(&run, "success").await;
        assert_eq!(healed["inputs"], json!({"n": 20, "m": 1}));
        let closed = entry_of(api, &run).await;
        assert_eq!((&closed["resolution_status"], &closed["resolved_by"]), (&json!("retried"), &json!("ann")));
        assert_eq!((&closed["metadata"]["inputs_before"], &closed["metadata"]["inputs_changed"]), (&json!({"n": 7}), &json!({"n": 20})));
        node.stop().await;
    }

    async fn a_task_gets_another_timeout(api: &TestApi) {
        let signs = Signs::new();
        let up = signs.path("up");
        api.store(&format!("{{name: w, tasks: {{a: {{run: 'test -e {up} || sleep 300; sleep 1', shell: sh, timeout: 200ms, retry: {{attempts: 2, delay: 1h, max_delay: 1h}}}}}}}}")).await;
        let node = api.node().await;
        let run = api.start("w").await;
        api.until_task(&run, "a", "retrying").await;
        signs.set("up");
        let config = |body: Value| api.patch(&format!("/api/v1/workflow-runs/{run}/tasks/a/config")).role(Role::Operator).json(body);
        config(json!({"timeout_seconds": 0})).send().await.expect(422);
        config(json!({"timeout": "soon"})).send().await.expect(422);
        config(json!({"timeout": "1m", "by": "ann", "reason": "it is slow today"})).send().await.expect(200);
        api.post(&format!("/api/v1/workflow-runs/{run}/tasks/a/actions")).role(Role::Operator).json(json!({"action": "retry"})).send().await.expect(200);
        api.until(&run, "success").await;
        node.stop().await;
    }

    async fn a_run_that_lived_too_long_has_an_entry(api: &TestApi) {
        api.store("{name: w, lifecycle: {max_duration: 1s}, tasks: {a: {run: 'sleep 300'}}}").await;
        api.store("{name: short, timeout: 1s, tasks: {a: {run: 'sleep 300'}}}").await;
        let node = api.node().await;
        let (run, short) = (api.start("w").await, api.start("short").await);
        api.until(&run, "failed").await;
        let entry = entry_of(api, &run).await;
        assert_eq!((&entry["dlq_reason"], &entry["error_type"]), (&json!("staleness_timeout"), &json!("lifetime")));
        assert_eq!(entry["task_snapshot"]["threshold_minutes"], 0.02, "{entry}");
        assert_eq!(api.task(&run, "a").await["status"], "cancelled");
        api.until(&short, "failed").await;
        api.get(&format!("/api/v1/dlq/run/{short}")).role(Role::Viewer).send().await.expect(404);
        node.stop().await;
    }

    async fn thresholds_of_nothing_are_refused(api: &TestApi) {
        for wrong in ["waiting_for_dependencies: 0s", "waiting_for_retry: -5m", "steps_in_process: 0", "max_duration: soon", "max_duration: 0s"] {
            let yaml = format!("{{name: w, lifecycle: {{{wrong}}}, tasks: {{a: {{run: 'true'}}}}}}");
            api.post("/api/v1/workflows").role(Role::Author).text("application/yaml", &yaml).send().await.expect(422);
        }
    }
}
