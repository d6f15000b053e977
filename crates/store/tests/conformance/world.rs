//! The fixture: a database, a clock moved by hand, one session on one lane, and the names of tasks instead of keys.
//!
//! Names refer to the run in [`World::run`], which is the one submitted last unless a test says otherwise.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use mainspring_core::plan::Decision;
use mainspring_core::state::TaskState;
use mainspring_core::work::Failure;
use mainspring_core::{Micros, RunId, TaskKey, Workflow};
use mainspring_store::{
    Claimed, ContinuedAs, ContinuedAttempt, Created, DecidedStart, Ended, Exchange, Flavor, Lane, NewRun, NewSession,
    Operator, Reply, Store, TaskToken, Term, VersionRef, Want,
};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::database::NOW;
use uuid::Uuid;

pub(crate) const MILLI: Micros = 1_000;
pub(crate) const SECOND: Micros = 1_000_000;

pub(crate) struct World {
    pub(crate) db: TestDatabase,
    pub(crate) store: Store,
    pub(crate) now: Micros,
    pub(crate) node: Uuid,
    pub(crate) lane: Lane,
    pub(crate) session: i64,
    /// The run that names refer to.
    pub(crate) run: RunId,
    /// What this world has claimed and not handed in.
    pub(crate) held: BTreeMap<TaskKey, Claimed>,
    /// What it has taken to decide.
    pub(crate) deciding: BTreeMap<TaskKey, Claimed>,
    ids: Cell<u64>,
    pub(crate) workflows: HashMap<i64, Workflow>,
    /// Which version a run is of.
    pub(crate) versions: HashMap<RunId, i64>,
}

impl World {
    pub(crate) async fn new(flavor: Flavor) -> Self {
        let db = TestDatabase::new(flavor).await;
        let store = db.store().clone();
        Self::on(db, store).await
    }

    /// A world on a database, by a connection of its own.
    pub(crate) async fn on(db: TestDatabase, store: Store) -> Self {
        let node = Uuid::from_u128(1);
        let lane = store.open_lane(node, NOW).await.unwrap();
        let session = open_session(&store, NOW, node).await;
        Self {
            db,
            store,
            now: NOW,
            node,
            lane,
            session,
            run: Uuid::nil(),
            held: BTreeMap::new(),
            deciding: BTreeMap::new(),
            ids: Cell::new(0),
            workflows: HashMap::new(),
            versions: HashMap::new(),
        }
    }

    /// Ids rise with every call and carry the time.
    pub(crate) fn id(&self) -> Uuid {
        self.ids.set(self.ids.get() + 1);
        let mut rest = [0; 10];
        rest[2..].copy_from_slice(&self.ids.get().to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis((self.now / MILLI) as u64, &rest).into_uuid()
    }

    pub(crate) fn pass(&mut self, time: Micros) {
        self.now += time;
    }

    pub(crate) async fn open_session(&self) -> i64 {
        open_session(&self.store, self.now, self.node).await
    }

    // Making runs.

    pub(crate) async fn version(&mut self, yaml: &str) -> VersionRef {
        let workflow = mainspring_core::parse(yaml).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"));
        self.version_of(workflow, yaml).await
    }

    pub(crate) async fn version_of(&mut self, workflow: Workflow, source: &str) -> VersionRef {
        let id = self.id();
        let version = self.store.put_version(self.now, id, &workflow, source, &[]).await.unwrap();
        self.workflows.insert(version.id, workflow);
        version
    }

    /// A run of the version as it would be asked for without any wishes.
    pub(crate) async fn new_run(&mut self, version: &VersionRef) -> NewRun {
        let limit = match &version.concurrency {
            None => None,
            Some(limit) => {
                let key = format!("{}/{}", version.namespace, version.name);
                Some(self.store.concurrency_limit(&key, limit.limit as i32).await.unwrap())
            }
        };
        NewRun {
            id: self.id(),
            version: version.clone(),
            priority: None,
            inputs: None,
            correlation_id: None,
            trigger: None,
            idempotency_key: None,
            limit,
            overlap: None,
            start_at: None,
            audit: None,
        }
    }

    /// The run is being made otherwise than by [`World::create`].
    pub(crate) fn made(&mut self, new: &NewRun) {
        self.versions.insert(new.id, new.version.id);
        self.run = new.id;
    }

    /// These were claimed.
    pub(crate) fn hold(&mut self, claimed: &[Claimed]) {
        self.held.extend(claimed.iter().map(|claim| (claim.token.key, *claim)));
        self.pass(MILLI);
    }

    pub(crate) async fn create(&mut self, new: NewRun) -> Created {
        let created = self.create_only(new).await;
        if let Some(run) = created.run() {
            self.store.proceed_run(self.now, run).await.unwrap();
        }
        created
    }

    /// Makes the run and leaves to others what is left to do.
    pub(crate) async fn create_only(&mut self, new: NewRun) -> Created {
        self.versions.insert(new.id, new.version.id);
        let created = self.store.create_runs(self.now, &[new]).await.unwrap()[0];
        if let Some(run) = created.run() {
            self.run = run;
        }
        self.pass(MILLI);
        created
    }

    pub(crate) async fn try_submit(&mut self, yaml: &str) -> Created {
        let version = self.version(yaml).await;
        let new = self.new_run(&version).await;
        self.create(new).await
    }

    pub(crate) async fn submit(&mut self, yaml: &str) -> RunId {
        self.try_submit(yaml).await.run().expect("the run was refused")
    }

    // The exchange.

    /// Demand for every route that exists.
    pub(crate) async fn wants(&self, slots: i32) -> Vec<Want> {
        let routes = self.store.routes().await.unwrap();
        routes
            .iter()
            .map(|route| Want { session: self.session, route: route.id, slots, hand_over_rank: i16::MAX, floor: None })
            .collect()
    }

    pub(crate) fn empty_exchange(&self) -> Exchange {
        Exchange { now: self.now, sessions: vec![self.session], ..Exchange::default() }
    }

    /// Exchanges, remembers what was claimed and forgets what was handed in.
    pub(crate) async fn exchange(&mut self, exchange: &Exchange) -> Reply {
        let reply = self.lane.exchange(exchange).await.unwrap();
        self.note(exchange, &reply);
        reply
    }

    pub(crate) fn note(&mut self, exchange: &Exchange, reply: &Reply) {
        let ended = exchange.ended.iter().map(|ended| ended.token.key);
        let continued = exchange.continued.iter().map(|continued| continued.token.key);
        if reply.dead_sessions.is_empty() {
            for key in ended.chain(continued) {
                self.held.remove(&key);
                self.deciding.remove(&key);
            }
            for start in &exchange.starts {
                self.deciding.remove(&start.key);
            }
        }
        self.held.extend(reply.claimed.iter().map(|claim| (claim.token.key, *claim)));
        self.deciding.extend(reply.to_decide.iter().map(|claim| (claim.token.key, *claim)));
        self.pass(MILLI);
    }

    /// Claims up to `slots` rows of every route; their names, sorted.
    pub(crate) async fn claim(&mut self, slots: i32) -> Vec<String> {
        let exchange = Exchange { want: self.wants(slots).await, ..self.empty_exchange() };
        let reply = self.exchange(&exchange).await;
        let mut names: Vec<String> = reply.claimed.iter().map(|claim| self.name(claim.token.key)).collect();
        names.sort();
        names
    }

    /// Claims one row at a time until there is none; their names in the order in which they came.
    pub(crate) async fn claim_in_order(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let mut claimed = self.claim(1).await;
            match claimed.len() {
                0 => return names,
                _ => names.append(&mut claimed),
            }
        }
    }

    /// Takes every row that waits for a decision; their names, sorted.
    pub(crate) async fn take_decisions(&mut self) -> Vec<String> {
        let exchange =
            Exchange { decide_session: self.session, decide: 1_000, look_for_undecided: true, ..self.empty_exchange() };
        let reply = self.exchange(&exchange).await;
        let mut names: Vec<String> = reply.to_decide.iter().map(|claim| self.name(claim.token.key)).collect();
        names.sort();
        names
    }

    pub(crate) async fn decide(&mut self, name: &str, decision: Decision) -> Reply {
        let token = self.deciding[&self.key(name)].token;
        let exchange = self.decision(token, decision);
        self.exchange(&exchange).await
    }

    pub(crate) fn decision(&self, token: TaskToken, decision: Decision) -> Exchange {
        let mut exchange = self.empty_exchange();
        match decision {
            Decision::Start => exchange.starts.push(DecidedStart { key: token.key, session: token.session }),
            Decision::Skip => {
                exchange.ended.push(Ended { from: TaskState::Deciding, ..self.ended(token, TaskState::Skipped) });
            }
            Decision::Fail(failure) => exchange.ended.push(Ended {
                from: TaskState::Deciding,
                failure: Some(failure),
                ..self.ended(token, TaskState::Failed)
            }),
        }
        exchange
    }

    pub(crate) async fn succeed(&mut self, name: &str) -> Reply {
        self.end(name, TaskState::Success).await
    }

    /// The attempt fails and no further one is wanted.
    pub(crate) async fn fail(&mut self, name: &str) -> Reply {
        self.end(name, TaskState::Failed).await
    }

    pub(crate) async fn end(&mut self, name: &str, state: TaskState) -> Reply {
        let exchange = Exchange { ended: vec![self.ended(self.token(name), state)], ..self.empty_exchange() };
        self.exchange(&exchange).await
    }

    /// The attempt fails; the next one is due in a second, if the budget allows it.
    pub(crate) async fn retry(&mut self, name: &str) -> Reply {
        let due_at = self.now + SECOND;
        self.continue_attempts(name, ContinuedAs::Retry { due_at }).await
    }

    pub(crate) async fn release(&mut self, name: &str) -> Reply {
        self.continue_attempts(name, ContinuedAs::Released).await
    }

    async fn continue_attempts(&mut self, name: &str, how: ContinuedAs) -> Reply {
        let exchange = Exchange { continued: vec![self.continued(self.token(name), how)], ..self.empty_exchange() };
        self.exchange(&exchange).await
    }

    pub(crate) fn ended(&self, token: TaskToken, state: TaskState) -> Ended {
        let failure = (state == TaskState::Failed).then(failure);
        let finished_at = self.now;
        Ended { token, from: TaskState::Running, state, started_at: None, finished_at, failure, output: None }
    }

    pub(crate) fn continued(&self, token: TaskToken, how: ContinuedAs) -> ContinuedAttempt {
        let failure = matches!(how, ContinuedAs::Retry { .. }).then(failure);
        ContinuedAttempt { token, how, started_at: None, finished_at: self.now, failure }
    }

    /// Drives the run to its end: the named tasks fail for good, or are skipped by their condition; the others succeed.
    pub(crate) async fn play(&mut self, failing: &[&str], skipping: &[&str]) {
        for _ in 0..200 {
            let run = self.run;
            let decisions: Vec<TaskKey> = self.deciding.keys().filter(|key| key.run == run).copied().collect();
            for key in decisions {
                let name = self.task_name(key);
                let decision = if skipping.contains(&name.as_str()) { Decision::Skip } else { Decision::Start };
                self.decide(&name, decision).await;
            }
            let claims: Vec<TaskKey> = self.held.keys().filter(|key| key.run == run).copied().collect();
            for key in claims {
                let name = self.task_name(key);
                let state = if failing.contains(&name.as_str()) { TaskState::Failed } else { TaskState::Success };
                self.end(&name, state).await;
            }
            if self.run_state().await.is_terminal() {
                return;
            }
            self.proceed().await;
            self.take_decisions().await;
            self.claim(100).await;
        }
        panic!("the run does not end: {}", self.states().await);
    }

    /// Does everything that is left to do in chunks.
    pub(crate) async fn proceed(&self) {
        while self.store.proceed(self.now).await.unwrap() {}
    }

    // What people do.

    pub(crate) async fn cancel(&mut self) {
        let id = self.id();
        self.store.cancel_run(self.now, id, self.run, &operator()).await.unwrap();
        self.pass(MILLI);
    }

    pub(crate) async fn pause(&mut self) {
        let id = self.id();
        self.store.pause_run(self.now, id, self.run, &operator()).await.unwrap();
        self.pass(MILLI);
    }

    pub(crate) async fn resume(&mut self) {
        let id = self.id();
        self.store.resume_run(self.now, id, self.run, &operator()).await.unwrap();
        self.pass(MILLI);
    }

    /// The leader's term, taken by whatever it takes.
    pub(crate) async fn lead(&mut self) -> Term {
        let seen = self.store.term("leader").await.unwrap();
        let id = self.id();
        self.store.take_term("leader", self.node, id, seen.as_ref()).await.unwrap().expect("the term is free")
    }

    /// Marks a session dead and returns its rows; how many there were.
    pub(crate) async fn reap(&mut self, session: i64) -> u64 {
        let beat = self.store.live_sessions().await.unwrap().iter().find(|row| row.id == session).map(|row| row.beat);
        let term = self.lead().await;
        self.held.retain(|_, claim| claim.token.session != session);
        self.deciding.retain(|_, claim| claim.token.session != session);
        let returned =
            self.store.reap_session(self.now, session, beat.expect("the session lives"), &term).await.unwrap();
        self.pass(MILLI);
        returned
    }

    /// Lets the session of this world die and goes on with a new one.
    pub(crate) async fn lose_session(&mut self) -> u64 {
        let fresh = self.open_session().await;
        let lost = std::mem::replace(&mut self.session, fresh);
        self.reap(lost).await
    }
}

pub(crate) async fn open_session(store: &Store, now: Micros, node: Uuid) -> i64 {
    let session = NewSession {
        node,
        worker: "worker".into(),
        hostname: "here".into(),
        queues: String::new(),
        labels: String::new(),
        slots: 100,
        function_slots: 0,
        remote: false,
        version: String::new(),
    };
    store.open_session(now, &session).await.unwrap()
}

pub(crate) fn operator() -> Operator {
    Operator::new("somebody", Some("a test".into()))
}

pub(crate) fn failure() -> Failure {
    Failure { kind: "exit".into(), message: "exit code 1".into(), exit_code: Some(1), ..Failure::default() }
}

/// Runs a statement beside the store, for what only a crash or an older program could have written.
pub(crate) async fn execute(db: &TestDatabase, sql: &str) {
    use sqlx::{AssertSqlSafe, Connection};
    let sql = AssertSqlSafe(sql.to_owned());
    if db.url().starts_with("postgres") {
        let mut connection = sqlx::PgConnection::connect(db.url()).await.unwrap();
        sqlx::query(sql).execute(&mut connection).await.unwrap();
    } else {
        let mut connection = sqlx::SqliteConnection::connect(db.url()).await.unwrap();
        sqlx::query(sql).execute(&mut connection).await.unwrap();
    }
}
