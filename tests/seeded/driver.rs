//! A node in small, moved by hand: claims, executes, hands in, dies, and comes back.

use std::sync::Arc;

use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::Failure;
use mainspring_core::{Micros, RunId};
use mainspring_engine::{Client, Submission, SystemClock};
use mainspring_store::{
    Claimed, Connect, ContinuedAs, ContinuedAttempt, Ended, Exchange, Flavor, Lane, NewSession, Reply, Store,
    TaskToken, Want,
};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::audit::{Acknowledged, Evidence, audit};
use mainspring_testkit::effects::Effect;
use mainspring_testkit::invariants::Violation;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use uuid::Uuid;

use crate::mutation::{self, Mutation};

const HOUR: Micros = 3_600_000_000;

pub(crate) struct Driver {
    pub(crate) database: TestDatabase,
    pub(crate) store: Store,
    pub(crate) lane: Lane,
    pub(crate) session: i64,
    client: Client,
    node: Uuid,
    evidence: Evidence,
    /// How far its clock is ahead.
    ahead: Micros,
    /// The bug of a node that changes the run's counter by a statement of its own, after the exchange.
    pub(crate) counts_apart: bool,
}

impl Driver {
    /// On a database of its own, with this bug in it.
    pub(crate) async fn new(bug: Option<Mutation>) -> Self {
        Self::of(Flavor::Postgres, bug).await
    }

    pub(crate) async fn of(flavor: Flavor, bug: Option<Mutation>) -> Self {
        let database = TestDatabase::new(flavor).await;
        if let Some(bug) = bug {
            mutation::apply(&database, bug).await;
        }
        let store = database.store().clone();
        Self::on(database, store).await
    }

    /// With its own way to the database.
    pub(crate) async fn by_way_of(database: TestDatabase, url: &str) -> Self {
        let store = Store::connect(&Connect::new(url)).await.unwrap();
        Self::on(database, store).await
    }

    async fn on(database: TestDatabase, store: Store) -> Self {
        let client = Client::new(store.clone(), Arc::new(SystemClock::new()));
        let node = Uuid::from_u128(1);
        let lane = store.open_lane(node, client.now()).await.unwrap();
        let session = open_session(&store, client.now(), node).await;
        Self {
            database,
            store,
            lane,
            session,
            client,
            node,
            evidence: Evidence { hands_back_unbegun: true, ..Evidence::default() },
            ahead: 0,
            counts_apart: false,
        }
    }

    pub(crate) fn now(&self) -> Micros {
        self.client.now() + self.ahead
    }

    /// Submits a run that must succeed.
    pub(crate) async fn submit(&mut self, tasks: &str) -> RunId {
        self.submit_expecting(tasks, RunState::Success).await
    }

    pub(crate) async fn submit_expecting(&mut self, tasks: &str, end: RunState) -> RunId {
        let key = format!("key-{}", self.evidence.acknowledged.len());
        let source = format!("{{name: w, tasks: {{{tasks}}}}}");
        let workflow = mainspring_core::parse(&source).unwrap_or_else(|errors| panic!("{errors}"));
        let effects = (0..workflow.tasks.len() as i32).collect();
        let spec = self.client.put_workflow(workflow, &source).await.unwrap();
        let submission = Submission { idempotency_key: Some(key.clone()), ..Submission::default() };
        let run = self.client.submit(&spec, submission).await.unwrap().run().unwrap();
        self.evidence.acknowledged.push(Acknowledged { key, run, effects, delays: Vec::new(), ends: vec![end] });
        run
    }

    pub(crate) fn exchange(&self) -> Exchange {
        Exchange { now: self.now(), sessions: vec![self.session], ..Exchange::default() }
    }

    pub(crate) async fn wants(&self, slots: i32) -> Vec<Want> {
        let session = self.session;
        let routes = self.store.routes().await.unwrap();
        let want = |route: i32| Want { session, route, slots, hand_over_rank: i16::MAX, floor: None };
        routes.iter().map(|route| want(route.id)).collect()
    }

    pub(crate) async fn send(&mut self, exchange: &Exchange) -> Reply {
        self.lane.exchange(exchange).await.unwrap()
    }

    pub(crate) async fn claim(&mut self, slots: i32) -> Vec<Claimed> {
        let exchange = Exchange { want: self.wants(slots).await, ..self.exchange() };
        self.send(&exchange).await.claimed
    }

    /// Executes what was claimed, with its effect, and says how it ended.
    pub(crate) fn execute(&mut self, claim: &Claimed) -> Ended {
        let TaskToken { key, session, attempt } = claim.token;
        self.evidence.effects.push(Effect { key, generation: claim.generation.into(), attempt, session });
        Ended {
            token: claim.token,
            from: TaskState::Running,
            state: TaskState::Success,
            started_at: Some(self.now()),
            finished_at: self.now(),
            failure: None,
            output: None,
        }
    }

    pub(crate) fn retry(&self, claim: &Claimed, due_at: Micros) -> ContinuedAttempt {
        let failure = Failure { kind: "handler".into(), message: "failed on purpose".into(), ..Failure::default() };
        let now = self.now();
        let how = ContinuedAs::Retry { due_at };
        ContinuedAttempt { token: claim.token, how, started_at: Some(now), finished_at: now, failure: Some(failure) }
    }

    /// Hands an attempt back that it has not begun.
    pub(crate) fn release(&self, claim: &Claimed) -> ContinuedAttempt {
        ContinuedAttempt {
            token: claim.token,
            how: ContinuedAs::Released,
            started_at: None,
            finished_at: self.now(),
            failure: None,
        }
    }

    /// Dies with everything it holds in memory and comes back. Who leads finds the old session dead.
    pub(crate) async fn die(&mut self) {
        let dead = self.come_back().await;
        assert!(self.reap(dead).await, "the session was alive");
    }

    /// Comes back before it is found dead; the session it had.
    pub(crate) async fn come_back(&mut self) -> i64 {
        self.lane = self.store.open_lane(self.node, self.now()).await.unwrap();
        let fresh = open_session(&self.store, self.now(), self.node).await;
        std::mem::replace(&mut self.session, fresh)
    }

    async fn reap(&self, session: i64) -> bool {
        let seen = self.store.term("leader").await.unwrap();
        let term = self.store.take_term("leader", self.node, Uuid::from_u128(9), seen.as_ref()).await.unwrap().unwrap();
        let beat = self.store.live_sessions().await.unwrap().iter().find(|row| row.id == session).map(|row| row.beat);
        let Some(beat) = beat else { return false };
        self.store.reap_session(self.now(), session, beat, &term).await.unwrap();
        true
    }

    /// Does everything that can be done, for as long as it takes.
    pub(crate) async fn drain(&mut self) {
        self.ahead += HOUR;
        loop {
            self.store.promote_due(self.now(), 1_000).await.unwrap();
            while self.store.proceed(self.now()).await.unwrap() {}
            let claimed = self.claim(100).await;
            if claimed.is_empty() {
                return;
            }
            for claim in &claimed {
                self.hand_in(claim).await;
            }
        }
    }

    pub(crate) async fn hand_in(&mut self, claim: &Claimed) {
        let exchange = Exchange { ended: vec![self.execute(claim)], ..self.exchange() };
        self.send(&exchange).await;
        if self.counts_apart {
            let id = claim.token.key.run.simple().to_string();
            let id = if self.store.flavor() == Flavor::Postgres { format!("'{id}'") } else { format!("x'{id}'") };
            execute(&self.database, &format!("UPDATE runs SET open = open - 1 WHERE id = {id}")).await;
        }
    }

    pub(crate) async fn violations(&self) -> Vec<Violation> {
        audit(self.database.url(), &self.evidence).await.unwrap()
    }
}

async fn open_session(store: &Store, now: Micros, node: Uuid) -> i64 {
    let session = NewSession {
        node,
        worker: "driver".into(),
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

/// Changes a database without going through the store.
pub(crate) async fn execute(database: &TestDatabase, sql: &str) {
    let (url, text) = (database.url(), AssertSqlSafe(sql.to_owned()));
    let done = match database.store().flavor() {
        Flavor::Postgres => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            sqlx::raw_sql(text).execute(&mut connection).await.map(|_| ())
        }
        Flavor::Sqlite => {
            let mut connection = SqliteConnection::connect(url).await.unwrap();
            sqlx::raw_sql(text).execute(&mut connection).await.map(|_| ())
        }
    };
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}
