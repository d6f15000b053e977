//! The aggregates of the web interface: what they show, to whom, and at what price.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainspring_engine::Submission;
use mainspring_server::{Grant, Role};
use mainspring_store::Flavor;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::on_both;
use crate::test_api::TestApi;

const WORKFLOW: &str = "name: many\ntriggers: [{id: daily, cron: '0 3 * * *'}]\ntasks:\n  first: {run: echo one}\n  second: {needs: first, run: echo two}\n  third: {needs: [first, second], run: echo three}\n";
const FAILING: &str = "name: failing\ntasks:\n  good: {run: echo fine}\n  bad: {needs: good, run: 'echo oops >&2; exit 3', retry: {attempts: 1}, on_exhausted: dead_letter}\n  after: {needs: bad, run: echo never}\n";

async fn seen(api: &TestApi, target: &str) -> serde_json::Value {
    api.get(target).role(Role::Viewer).send().await.expect(200).body()
}

async fn submit(api: &TestApi, workflow: &str, count: usize) {
    let spec = api.client.latest("default", workflow).await.unwrap();
    let mut left = count;
    while left > 0 {
        let part = left.min(1_000);
        api.client.submit_many(&spec, (0..part).map(|_| Submission::default()).collect()).await.unwrap();
        left -= part;
    }
}

on_both! {
    async fn a_run_is_shown_as_a_whole(api: &TestApi) {
        api.store(FAILING).await;
        let run = api.start("failing").await;
        let node = api.node().await;
        api.until(&run, "failed").await;
        let shown = seen(api, &format!("/api/v1/workflow-runs/{run}/overview")).await;
        assert_eq!((shown["states"].as_str(), shown["first_failure"].as_u64()), (Some("sfu"), Some(1)), "{shown}");
        assert_eq!(shown["tasks"][1], "bad");
        assert_eq!(shown["critical_path"], serde_json::json!([0, 1]));
        assert!(shown["started"][1].as_i64() >= shown["finished"][0].as_i64(), "{shown}");
        assert!(shown["run"]["inputs"].is_object() && shown.get("output").is_none());
        let grid = seen(api, "/api/v1/workflows/failing/grid").await;
        assert_eq!((grid["runs"][0]["states"].as_str(), grid["versions"][0]["tasks"][2].as_str()), (Some("sfu"), Some("after")));
        let now = seen(api, "/api/v1/overview").await;
        assert_eq!((now["dead_letters"][0]["task"].as_str(), now["dead_letters_pending"].as_u64()), (Some("bad"), Some(1)), "{now}");
        assert_eq!(now["failed"][0]["id"], run.as_str());
        let task = seen(api, &format!("/api/v1/workflow-runs/{run}/tasks/bad?include=attempts,dead_letter,log_tail")).await;
        assert_eq!(task["log_tail"]["items"][0]["message"], "oops");
        assert!(task["dead_letter_id"].is_string());
        drop(node);
    }

    async fn rows_of_other_namespaces_are_left_out_of_every_aggregate(api: &TestApi) {
        api.store(WORKFLOW).await;
        api.post("/api/v1/namespaces").role(Role::Admin).json(serde_json::json!({"name": "secret"})).send().await.expect(201);
        let hidden = WORKFLOW.replace("name: many", "name: hidden\nnamespace: secret");
        api.store(&hidden).await;
        let target = "/api/v1/workflows/hidden/trigger?namespace=secret";
        let run = api.post(target).role(Role::Admin).send().await.expect(201).body();
        let token = api.make_token("outsider", &[Grant::within("default", Role::Viewer)]).await;
        for target in ["/api/v1/overview", "/api/v1/approvals", "/api/v1/workflows?include=strip,stats,next", "/api/v1/schedules/agenda"] {
            let mine = api.get(target).bearer(&token).send().await.expect(200);
            assert!(!mine.text.contains("hidden") && !mine.text.contains("secret"), "{target}: {}", mine.text);
            let all = api.get(target).role(Role::Viewer).send().await.expect(200);
            assert!(all.text.contains("hidden") || target.contains("approvals"), "{target}: {}", all.text);
        }
        api.get("/api/v1/overview?namespace=secret").bearer(&token).send().await.expect(403);
        let id = run["id"].as_str().unwrap();
        for target in [format!("/api/v1/workflow-runs/{id}/overview"), "/api/v1/workflows/hidden/grid?namespace=secret".into(),
                       "/api/v1/workflows/hidden/form?namespace=secret".into()] {
            let status = api.get(&target).bearer(&token).send().await.status.as_u16();
            assert!(matches!(status, 403 | 404), "{target}: {status}");
        }
    }

    async fn the_graph_is_laid_out_and_kept_by_its_etag(api: &TestApi) {
        api.store(WORKFLOW).await;
        let answer = api.get("/api/v1/workflows/many/graph?layout=true").role(Role::Viewer).send().await.expect(200);
        let body = answer.body();
        assert_eq!(body["layout"]["x"].as_array().unwrap().len(), 3);
        assert_eq!(body["layout"]["bends"].as_array().unwrap().len(), body["edges"].as_array().unwrap().len());
        let again = api.get("/api/v1/workflows/many/graph?layout=true").role(Role::Viewer).header("if-none-match", answer.header("etag")).send().await;
        assert_eq!(again.status.as_u16(), 304);
    }

    async fn the_agenda_shows_what_comes_and_counts_what_is_too_much(api: &TestApi) {
        api.store(WORKFLOW).await;
        let agenda = seen(api, "/api/v1/schedules/agenda").await;
        assert!(agenda["fires"].as_array().unwrap().iter().any(|fire| fire["outcome"] == "future"), "{agenda}");
        assert_eq!(agenda["hours"].as_array().unwrap().len(), 168);
        api.store("name: often\ntriggers: [{every: 1m}]\ntasks: {a: {run: echo}}\n").await;
        let many = seen(api, "/api/v1/schedules/agenda").await;
        assert_eq!((many["is_bucketed"].as_bool(), many["fires"].as_array().unwrap().len()), (Some(true), 0));
        let seldom = seen(api, "/api/v1/schedules/agenda?seldom=true").await;
        let listed: BTreeSet<&str> = seldom["fires"].as_array().unwrap().iter().map(|fire| seldom["schedules"][fire["schedule"].as_u64().unwrap() as usize]["workflow"].as_str().unwrap()).collect();
        assert!(!listed.is_empty() && !listed.contains("often"), "{listed:?} are listed");
        assert_eq!((seldom["is_bucketed"].as_bool(), &seldom["hours"]), (Some(true), &many["hours"]));
        // A schedule that takes all the room takes it from the end of the window, not from other schedules.
        api.store("name: always\ntriggers: [{every: 5s}]\ntasks: {a: {run: echo}}\n").await;
        let full = seen(api, "/api/v1/schedules/agenda?seldom=true").await;
        let hours: Vec<u64> = full["hours"].as_array().unwrap().iter().map(|hour| hour.as_u64().unwrap()).collect();
        let last = hours.iter().rposition(|hour| *hour > 0).unwrap();
        assert!(hours[last - 1] >= 720 + 60, "the last hours that are counted are counted for all schedules: {hours:?}");
        for (wrong, status) in [("from=x", 400), ("from=2026-01-01T00:00:00Z&to=2025-01-01T00:00:00Z", 422), ("from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z", 422)] {
            api.get(&format!("/api/v1/schedules/agenda?{wrong}")).role(Role::Viewer).send().await.expect(status);
        }
    }

    async fn a_log_is_read_from_its_end_searched_and_downloaded(api: &TestApi) {
        api.store("name: chatty\ntasks:\n  talk: {run: 'for i in $(seq 1 3000); do echo \"line $i\"; done'}\n").await;
        let run = api.start("chatty").await;
        let node = api.node().await;
        api.until(&run, "success").await;
        drop(node);
        let base = format!("/api/v1/workflow-runs/{run}/tasks/talk/logs");
        let tail = seen(api, &format!("{base}?tail=10")).await;
        assert_eq!(tail["items"].as_array().unwrap().last().unwrap()["message"], "line 3000");
        let found = seen(api, &format!("{base}?q=LINE%201500")).await;
        let hits: Vec<&serde_json::Value> = found["items"].as_array().unwrap().iter().filter(|line| line["hit"] == true).collect();
        assert_eq!((hits.len(), hits[0]["line"].as_u64(), found["items"].as_array().unwrap().len()), (1, Some(1_500), 41));
        let file = api.get(&format!("{base}?format=text")).role(Role::Viewer).send().await;
        assert_eq!((file.text.lines().count(), file.header("content-disposition").contains("attachment")), (3_000, true));
        for wrong in ["tail=0", "tail=99999999", "format=html", "q=", "before=x"] {
            api.get(&format!("{base}?{wrong}")).role(Role::Viewer).send().await.expect(400);
        }
    }

    async fn runs_are_retried_by_filter_after_a_look(api: &TestApi) {
        api.store(FAILING).await;
        let run = api.start("failing").await;
        let node = api.node().await;
        api.until(&run, "failed").await;
        let retry = |body: serde_json::Value| api.post("/api/v1/workflow-runs/retry").role(Role::Operator).json(body);
        retry(serde_json::json!({})).send().await.expect(422);
        retry(serde_json::json!({"workflow": "failing", "status": "running"})).send().await.expect(422);
        let look = retry(serde_json::json!({"workflow": "failing", "dry_run": true})).send().await.expect(200).body();
        assert_eq!((look["matched"].as_u64(), look["retried"].as_u64()), (Some(1), Some(0)));
        let done = retry(serde_json::json!({"workflow": "failing"})).send().await.expect(200).body();
        assert_eq!(done["retried"].as_u64(), Some(1));
        drop(node);
    }

    async fn a_run_brings_the_task_that_its_page_opens_on(api: &TestApi) {
        api.store(FAILING).await;
        let run = api.start("failing").await;
        let node = api.node().await;
        api.until(&run, "failed").await;
        let base = format!("/api/v1/workflow-runs/{run}/overview");
        let first = seen(api, &format!("{base}?include=task")).await;
        assert_eq!((first["task"]["task_id"].as_str(), first["task"]["exit_code"].as_i64()), (Some("bad"), Some(3)), "{first}");
        assert!(first["task"]["log_tail"]["items"].is_array() && first["task"]["dead_letter_id"].is_string(), "{first}");
        let named = seen(api, &format!("{base}?include=task&task=good")).await;
        assert_eq!(named["task"]["task_id"], "good");
        assert!(seen(api, &format!("{base}?include=task&task=nothing")).await["task"].is_null());
        assert!(seen(api, &base).await["task"].is_null());
        api.get(&format!("{base}?include=secrets")).role(Role::Viewer).send().await.expect(400);
        drop(node);
    }

    async fn a_look_at_a_start_says_what_is_wrong_and_starts_nothing(api: &TestApi) {
        api.store("name: typed\ninputs: {rows: {type: integer, default: 5, max: 10}}\ntasks: {one: {run: echo}}\n").await;
        let look = |body: serde_json::Value| {
            api.post("/api/v1/workflows/typed/trigger?dry_run=true").role(Role::Operator).json(body)
        };
        let plan = look(serde_json::json!({})).send().await.expect(200).body();
        assert_eq!((plan["inputs"]["rows"].as_i64(), plan["version"].as_i64()), (Some(5), Some(1)), "{plan}");
        look(serde_json::json!({"inputs": {"rows": 11}})).send().await.expect(422);
        let list = seen(api, "/api/v1/workflow-runs?count=true").await;
        assert_eq!(list["total"].as_u64(), Some(0));
    }

    async fn runs_are_listed_by_how_long_they_took(api: &TestApi) {
        api.store(WORKFLOW).await;
        submit(api, "many", 2).await;
        assert_eq!(seen(api, "/api/v1/workflow-runs?longer_than=0").await["items"].as_array().unwrap().len(), 2);
        assert_eq!(seen(api, "/api/v1/workflow-runs?longer_than=3600&count=true").await["total"].as_u64(), Some(0));
        api.get("/api/v1/workflow-runs?longer_than=-1").role(Role::Viewer).send().await.expect(400);
    }

    async fn runs_are_listed_from_either_end(api: &TestApi) {
        api.store(WORKFLOW).await;
        submit(api, "many", 5).await;
        let ids = async |target: &str| -> (Vec<String>, serde_json::Value) {
            let list = seen(api, target).await;
            let ids = list["items"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned());
            (ids.collect(), list["next"].clone())
        };
        let (newest, _) = ids("/api/v1/workflow-runs?sort=-created").await;
        for base in ["/api/v1/workflow-runs?sort=created", "/api/v1/workflow-runs?sort=created&status=running,success"] {
            let (first, next) = ids(&format!("{base}&limit=3")).await;
            let (second, _) = ids(&format!("{base}&limit=3&cursor={}", next.as_str().unwrap())).await;
            let both: Vec<&String> = first.iter().chain(&second).collect();
            assert_eq!(both, newest.iter().rev().collect::<Vec<_>>(), "{base}");
        }
        api.get("/api/v1/workflow-runs?sort=name").role(Role::Viewer).send().await.expect(400);
    }

    async fn several_statuses_are_listed_together(api: &TestApi) {
        api.store(WORKFLOW).await;
        submit(api, "many", 3).await;
        let list = seen(api, "/api/v1/workflow-runs?status=running,failed,success&count=true").await;
        assert_eq!((list["items"].as_array().unwrap().len(), list["total"].as_u64()), (3, Some(3)));
        api.get("/api/v1/workflow-runs?status=running,nonsense").role(Role::Viewer).send().await.expect(400);
    }
}

tokio::task_local! {
    /// Set while a page is read.
    static COUNTED: ();
}

/// Counts the statements that a page sends. PostgreSQL's are seen on the task that reads the page; SQLite's on threads of their
/// own, where those of other tasks count too: the cheapest of many readings is the page's.
struct Statements {
    count: Arc<AtomicUsize>,
    flavor: Flavor,
}

impl Subscriber for Statements {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        if self.flavor == Flavor::Sqlite || COUNTED.try_with(|_| ()).is_ok() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_page_costs_as_many_statements_for_ten_thousand_rows_as_for_ten_on_postgres() {
    same_cost(Flavor::Postgres).await;
}

#[tokio::test]
async fn a_page_costs_as_many_statements_for_ten_thousand_rows_as_for_ten_on_sqlite() {
    same_cost(Flavor::Sqlite).await;
}

async fn same_cost(flavor: Flavor) {
    let count = Arc::new(AtomicUsize::new(0));
    // For the whole process, which is the test's own: SQLite's statements are counted on threads of their own.
    tracing::subscriber::set_global_default(Statements { count: Arc::clone(&count), flavor }).unwrap();
    let api = TestApi::new(flavor).await;
    api.store(WORKFLOW).await;
    let pages = [
        "/api/v1/overview",
        "/api/v1/cluster",
        "/api/v1/workflows?include=strip,stats,next",
        "/api/v1/workflows/many/grid",
        "/api/v1/schedules/agenda",
        "/api/v1/workflow-runs?limit=100&include=progress&workflow=many",
        "/api/v1/dlq/groups",
    ];
    let mut costs = Vec::new();
    for rows in [10, 9_990] {
        submit(&api, "many", rows).await;
        let runs = seen(&api, "/api/v1/workflow-runs?limit=1").await;
        let run = runs["items"][0]["id"].as_str().unwrap();
        let run = format!("/api/v1/workflow-runs/{run}/overview?include=task&task=first");
        let mut cost = Vec::new();
        for page in pages.iter().copied().chain([run.as_str()]) {
            cost.push(cheapest(&api, page, &count).await);
        }
        costs.push(cost);
    }
    assert!(costs[0].iter().all(|cost| *cost > 0), "the statements are counted: {costs:?}");
    assert_eq!(costs[0], costs[1], "by page: {pages:?} and the run");
}

async fn cheapest(api: &TestApi, page: &str, count: &AtomicUsize) -> usize {
    // Once before: what is kept in memory afterwards is not what a page costs.
    seen(api, page).await;
    let mut least = usize::MAX;
    for _ in 0..30 {
        let before = count.load(Ordering::Relaxed);
        COUNTED.scope((), seen(api, page)).await;
        least = least.min(count.load(Ordering::Relaxed) - before);
    }
    least
}
