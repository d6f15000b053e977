//! A database, a node that leads, and a time of day that the test moves.

use std::sync::Arc;
use std::time::Duration;

use mainspring_core::state::RunState;
use mainspring_core::{Micros, RunId};
use mainspring_engine::{Client, NodeConfig, SystemClock};
use mainspring_store::{Connect, FireRow, Flavor, RunRow, Store, TriggerRow};
use mainspring_testkit::node::TestNode;
use mainspring_testkit::wait::until;
use mainspring_testkit::{TestDatabase, invariants};
use mainspring_worker::Registry;

pub(crate) const SECOND: Micros = 1_000_000;
pub(crate) const MINUTE: Micros = 60 * SECOND;
pub(crate) const HOUR: Micros = 60 * MINUTE;
pub(crate) const DAY: Micros = 24 * HOUR;
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Scene {
    pub(crate) db: TestDatabase,
    pub(crate) node: TestNode,
}

impl Scene {
    pub(crate) async fn new(flavor: Flavor) -> Self {
        let db = TestDatabase::new(flavor).await;
        let node = node(db.store()).await;
        Self { db, node }
    }

    pub(crate) fn client(&self) -> &Client {
        self.node.client()
    }

    /// Stores a workflow and returns its first trigger.
    pub(crate) async fn apply(&self, yaml: &str) -> TriggerRow {
        let workflow = mainspring_core::parse(yaml).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"));
        let spec = self.client().put_workflow(workflow, yaml).await.unwrap();
        let id = &spec.workflow.triggers[0].id;
        self.db.store().trigger_of(spec.version.workflow_id, id).await.unwrap()
    }

    /// Sets the clock.
    pub(crate) fn pass(&self, time: Micros) {
        self.client().clock().shift_wall(time);
    }

    pub(crate) fn wall(&self) -> Micros {
        self.client().clock().wall()
    }

    /// Goes to shortly before the first fire of this trigger, and waits until the clock loop has prepared it. On a machine
    /// that is slow it may be due by then.
    pub(crate) async fn go_before(&self, row: &TriggerRow) {
        let fire_at = row.next.unwrap().fire_at;
        let made = self.made_ahead();
        self.pass(fire_at - self.wall() - 100_000);
        if self.db.store().fire_policy().writes_alone {
            // There it begins to be made at the last moment.
            return self.turns(2).await;
        }
        self.wait_for("it is prepared", async || self.made_ahead() > made || self.wall() > fire_at).await;
    }

    /// How often the clock loop has prepared a trigger.
    pub(crate) fn made_ahead(&self) -> u64 {
        self.client().timekeeping().made_ahead
    }

    /// Waits until the clock loop has looked `more` times more.
    pub(crate) async fn turns(&self, more: u64) {
        let until = self.client().timekeeping().turns + more;
        self.wait_for("the clock loop looks", async || self.client().timekeeping().turns >= until).await;
    }

    pub(crate) async fn trigger(&self, row: &TriggerRow) -> TriggerRow {
        self.db.store().trigger(row.id).await.unwrap()
    }

    /// What became of a trigger's instants, in order.
    pub(crate) async fn fires(&self, row: &TriggerRow) -> Vec<FireRow> {
        let mut fires = self.db.store().fires_of(row.id, Micros::MAX, 10_000).await.unwrap();
        fires.reverse();
        fires
    }

    /// The outcomes with their counts, once they are as expected and nothing is due any more.
    pub(crate) async fn expect_fires(&self, row: &TriggerRow, expected: &str) {
        let mut seen = String::new();
        let settled = until(expected, PATIENCE, async || {
            let fires = self.fires(row).await;
            let words = fires.iter().map(|fire| match fire.count {
                1 => fire.outcome.to_owned(),
                count => format!("{}x{count}", fire.outcome),
            });
            seen = words.collect::<Vec<_>>().join(" ");
            let due = self.db.store().due_triggers(self.wall(), 1).await?;
            Ok((due.is_empty() && seen == expected).then_some(()))
        });
        if let Err(error) = settled.await {
            panic!("{error}\nthere was: {seen}\n{:?}", self.trigger(row).await);
        }
    }

    pub(crate) async fn wait_for(&self, what: &str, mut look: impl AsyncFnMut() -> bool) {
        until(what, PATIENCE, async || Ok(look().await.then_some(()))).await.unwrap();
    }

    pub(crate) async fn run(&self, id: RunId) -> RunRow {
        self.db.store().run(id).await.unwrap()
    }

    pub(crate) async fn ends_as(&self, id: RunId, state: RunState) -> RunRow {
        until("the run ends", PATIENCE, async || {
            let run = self.run(id).await;
            Ok(run.summary.state.is_terminal().then_some(run))
        })
        .await
        .map(|run| {
            assert_eq!(run.summary.state, state, "{run:?}");
            run
        })
        .unwrap()
    }

    pub(crate) async fn end(self) {
        self.node.stop().await;
        assert_eq!(invariants::check(self.db.url()).await.unwrap(), []);
    }
}

/// A node of its own on the same database.
pub(crate) async fn node(store: &Store) -> TestNode {
    let client = Client::new(store.clone(), Arc::new(SystemClock::new()));
    let config = NodeConfig {
        name: "test".into(),
        heartbeat: Duration::from_millis(50),
        lease_ttl: Duration::from_secs(30),
        schedule_interval: Duration::from_millis(20),
        ..NodeConfig::default()
    };
    TestNode::start_as(client, config, Registry::default()).await.unwrap()
}

/// Another connection to the same database, as another process would have it.
pub(crate) async fn stranger(scene: &Scene) -> Client {
    stranger_of(scene.db.url()).await
}

pub(crate) async fn stranger_of(url: &str) -> Client {
    let store = Store::connect(&Connect::new(url)).await.unwrap();
    Client::new(store, Arc::new(SystemClock::new()))
}
