//! Submissions that gather, while servers are killed and answers are lost: every acknowledged one exists once, keys hold
//! across crashes, the audit log tells of exactly those that were made, and everything that was started comes to its end.

mod tokens;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mainspring_engine::{Client, SystemClock};
use mainspring_server::Role;
use mainspring_store::{AuditFilter, Flavor, RunFilter};
use mainspring_testkit::http::JsonRequest;
use mainspring_testkit::proxy::{Fault, Proxy};
use mainspring_testkit::server::ServerPlan;
use mainspring_testkit::wait::until;
use mainspring_testkit::{TestDatabase, invariants, transactions};

use tokens::make_token;

const PATIENCE: Duration = Duration::from_secs(120);
const ROUNDS: usize = 4;
const CLIENTS: usize = 16;
/// Requests of one client in a round.
const EACH: usize = 6;
/// Without any limit, so that its runs gather and start in one unit.
const WORKFLOW: &str = "name: plain\ntasks: {a: {function: noop}, b: {function: noop, needs: a}}";
const TRIGGER: &str = "/api/v1/workflows/plain/trigger";

/// What a key was answered, as far as its client learned of it.
type Answers = BTreeMap<String, Option<String>>;

struct Scene {
    database: TestDatabase,
    client: Client,
    token: String,
}

impl Scene {
    async fn new(flavor: Flavor) -> Self {
        let database = TestDatabase::new(flavor).await;
        let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
        let token = make_token(&client, Role::Admin).await;
        client.put_workflow(mainspring_core::parse(WORKFLOW).unwrap(), WORKFLOW).await.unwrap();
        Self { database, client, token }
    }

    fn request(&self, key: &str) -> JsonRequest {
        JsonRequest {
            method: "POST",
            target: TRIGGER.to_owned(),
            token: self.token.clone(),
            key: Some(key.to_owned()),
            body: "{}".to_owned(),
        }
    }

    /// Many clients at once, each with one request after the other; what each key was answered.
    fn crowd(&self, at: SocketAddr, round: usize) -> tokio::task::JoinSet<Answers> {
        let mut crowd = tokio::task::JoinSet::new();
        for client in 0..CLIENTS {
            let requests: Vec<(String, JsonRequest)> = (0..EACH)
                .map(|number| format!("{round}-{client}-{number}"))
                .map(|key| (key.clone(), self.request(&key)))
                .collect();
            crowd.spawn(async move {
                let mut answers = Answers::new();
                for (key, request) in requests {
                    answers.insert(key, ask(&request, at).await.unwrap());
                }
                answers
            });
        }
        crowd
    }

    /// Repeats every key until it is answered: those that were answered before get the same run.
    async fn insist(&self, at: SocketAddr, answers: &mut Answers) {
        for (key, answer) in answers {
            let request = self.request(key);
            let run = until(&format!("{key} is answered"), PATIENCE, async || ask(&request, at).await).await.unwrap();
            assert_eq!(answer.get_or_insert_with(|| run.clone()), &run, "{key} made one run");
        }
    }

    /// Nothing is missing, nothing is there twice, and everything has come to its end.
    async fn check(&self, answers: &Answers) {
        let store = self.client.store();
        until("every run ends", PATIENCE, async || {
            let open = store.open_runs("default", 1).await?;
            Ok((open == 0).then_some(()))
        })
        .await
        .unwrap();
        let runs = store.list_runs(&RunFilter { limit: 10_000, ..RunFilter::default() }).await.unwrap();
        let mut made: Vec<String> = runs.iter().map(|run| run.id.to_string()).collect();
        let mut acknowledged: Vec<String> = answers.values().flatten().cloned().collect();
        made.sort();
        acknowledged.sort();
        assert_eq!(made, acknowledged, "what was acknowledged exists, and nothing else");
        let audit = store.audit(&AuditFilter { limit: 10_000, ..AuditFilter::default() }).await.unwrap();
        let told = audit.iter().filter(|row| row.path == TRIGGER && row.status == 201).count();
        assert_eq!(told, answers.len(), "the audit log tells of each submission once");
        assert_eq!(invariants::check_at_rest(self.database.url()).await.unwrap(), []);
        assert_eq!(transactions::check(self.database.url()).await.unwrap(), []);
    }
}

/// The run that a request made; `None` if nothing certain was answered.
async fn ask(request: &JsonRequest, at: SocketAddr) -> anyhow::Result<Option<String>> {
    match request.send(at).await {
        Ok((200..=299, text)) => {
            let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            // Killed while it answered: the head alone is no answer.
            let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
            Ok(body["id"].as_str().map(str::to_owned))
        }
        Ok((409 | 503, _)) | Err(_) => Ok(None),
        Ok((status, text)) => anyhow::bail!("{status}: {text}"),
    }
}

async fn servers_are_killed(flavor: Flavor) {
    let scene = Scene::new(flavor).await;
    let mut rng = fastrand::Rng::with_seed(20_261_117);
    let mut answers = Answers::new();
    let folder = tempfile::tempdir().unwrap();
    let plan = ServerPlan::new(scene.database.url(), folder.path());
    for round in 0..ROUNDS {
        let mut server = plan.start().unwrap();
        let crowd = scene.crowd(server.address(PATIENCE).await.unwrap(), round);
        tokio::time::sleep(Duration::from_millis(rng.u64(20..250))).await;
        server.kill().unwrap();
        answers.extend(crowd.join_all().await.into_iter().flatten());
    }
    let mut server = plan.start().unwrap();
    scene.insist(server.address(PATIENCE).await.unwrap(), &mut answers).await;
    scene.check(&answers).await;
    server.stop(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_killed_on_postgres() {
    servers_are_killed(Flavor::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_killed_on_sqlite() {
    servers_are_killed(Flavor::Sqlite).await;
}

/// Answers of the database get lost after their commit, and requests before theirs: the server finds out which, so that
/// clients need not repeat.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_the_database_are_lost() {
    let scene = Scene::new(Flavor::Postgres).await;
    let proxy = Proxy::start(scene.database.url()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerPlan::new(proxy.url(), folder.path()).start().unwrap();
    let at = server.address(PATIENCE).await.unwrap();
    let mut answers = Answers::new();
    // The first look at the route must have been answered before anything starts in the unit that makes it.
    until("runs start with their submission", PATIENCE, async || {
        let key = format!("warm-{}", answers.len());
        let run = ask(&scene.request(&key), at).await?;
        answers.insert(key, run);
        proxy.record();
        let key = format!("warm-{}", answers.len());
        let run = ask(&scene.request(&key), at).await?;
        answers.insert(key, run);
        Ok(proxy.take_trips().iter().any(|trip| trip.text.contains("start_runs_v1")).then_some(()))
    })
    .await
    .unwrap();
    for round in 0..ROUNDS {
        for number in 0..3 {
            let fault = if (round + number) % 2 == 0 { Fault::LoseReply } else { Fault::LoseRequest };
            proxy.plan("start_runs_v1", fault);
            proxy.plan("exchange_v1", fault);
        }
        answers.extend(scene.crowd(at, round).join_all().await.into_iter().flatten());
    }
    assert!(proxy.injected().len() >= ROUNDS, "{:?}", proxy.injected());
    let unknown = answers.values().filter(|answer| answer.is_none()).count();
    assert_eq!(unknown, 0, "a lost answer is found out, not passed on");
    scene.insist(at, &mut answers).await;
    scene.check(&answers).await;
    server.stop(PATIENCE).await.unwrap();
}
