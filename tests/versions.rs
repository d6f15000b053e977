//! Nodes of two versions on one database: an older one leaves to newer ones what it does not understand, and goes on with the rest.
//!
//! Nothing has been released, so there is no earlier program to start beside this one. The older node is this program behind a
//! proxy that shows it some versions of workflows as a later program could have written them.

use std::sync::Arc;
use std::time::Duration;

use mainspring_core::RunId;
use mainspring_core::state::RunState;
use mainspring_engine::{Client, NodeConfig, Submission, SystemClock};
use mainspring_store::{Connect, Store};
use mainspring_testkit::node::TestNode;
use mainspring_testkit::proxy::Proxy;
use mainspring_testkit::wait::until;
use mainspring_testkit::{TestDatabase, invariants};
use mainspring_worker::Registry;

const PATIENCE: Duration = Duration::from_secs(60);
const RUNS: usize = 10;
/// Conditions are decided, not executed.
const NEWER: &str = "{name: newer, tasks: {a: {function: noop}, b: {needs: a, if: '${{ inputs.go }}', function: noop}}, \
                     inputs: {go: {type: boolean, default: true}}}";
const PLAIN: &str =
    "{name: plain, tasks: {a: {function: noop, queue: old}, b: {needs: a, function: noop, queue: old}}}";

async fn node(store: Store, name: &str) -> TestNode {
    let config = NodeConfig { name: name.into(), ..NodeConfig::default() };
    let client = Client::new(store, Arc::new(SystemClock::new()));
    TestNode::start_as(client, config, Registry::builder().build()).await.unwrap()
}

async fn submit(client: &Client, source: &str) -> Vec<RunId> {
    let workflow = mainspring_core::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = client.put_workflow(workflow, source).await.unwrap();
    let made = client.submit_many(&spec, vec![Submission::default(); RUNS]).await.unwrap();
    made.into_iter().map(|made| made.run().unwrap()).collect()
}

async fn succeed(client: &Client, runs: &[RunId]) {
    for run in runs {
        let state = until("the run ends", PATIENCE, async || {
            let state = client.store().run_summary(*run).await?.state;
            Ok(state.is_terminal().then_some(state))
        })
        .await
        .unwrap();
        assert_eq!(state, RunState::Success);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_node_leaves_what_it_does_not_understand_to_a_newer_one() {
    let database = TestDatabase::postgres().await;
    let proxy = Proxy::start(database.url()).await.unwrap();
    proxy.rewrite(
        "workflow_id, spec FROM versions",
        "workflow_id, CASE WHEN spec LIKE '%newer%' THEN '{\"of\": \"a later program\"}' ELSE spec END AS spec FROM versions",
    );
    let older = node(Store::connect(&Connect::new(proxy.url())).await.unwrap(), "older").await;
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let newer_runs = submit(&client, NEWER).await;
    until("the older node has handed some back", PATIENCE, async || {
        let released = database.texts("SELECT 'handed back' FROM attempts WHERE outcome = 2").await;
        Ok((!released.is_empty()).then_some(()))
    })
    .await
    .unwrap();
    // It is not stuck with them.
    succeed(&client, &submit(&client, PLAIN).await).await;
    let newer = node(database.store().clone(), "newer").await;
    succeed(&client, &newer_runs).await;
    succeed(&client, &submit(&client, PLAIN).await).await;
    older.stop().await;
    newer.stop().await;
    assert_eq!(invariants::check_at_rest(database.url()).await.unwrap(), []);
}
