//! A node beside the API, with functions of the tests' own, and patience.

use std::time::Duration;

use mainspring_core::work::Failure;
use mainspring_engine::NodeConfig;
use mainspring_server::Role;
use mainspring_testkit::node::TestNode;
use mainspring_testkit::wait::until;
use mainspring_worker::{FunctionCall, Registry};
use serde_json::{Value, json};

use crate::test_api::TestApi;

const PATIENCE: Duration = Duration::from_secs(90);

/// `echo` returns its payload and logs a line, `flaky` fails in its first generation, `hang` ends only when it is cancelled.
fn registry() -> Registry {
    Registry::builder()
        .handler("echo", |call: FunctionCall| async move {
            call.log.info("hello").await;
            Ok(Some(call.payload().clone()))
        })
        .handler("flaky", |call: FunctionCall| async move {
            match call.generation {
                0 => Err(Failure { kind: "flaky".into(), message: "not yet".into(), ..Failure::default() }),
                _ => Ok(Some(json!({"ok": true}))),
            }
        })
        .handler("hang", |call: FunctionCall| async move {
            call.cancel.cancelled().await;
            Ok(None)
        })
        .build()
}

impl TestApi {
    /// Starts to execute.
    pub(crate) async fn work(&self) -> TestNode {
        let config = NodeConfig {
            name: "test".into(),
            heartbeat: Duration::from_millis(50),
            lease_ttl: Duration::from_secs(30),
            serves_remote: true,
            ..NodeConfig::default()
        };
        TestNode::start_as(self.client.clone(), config, registry()).await.unwrap()
    }

    pub(crate) async fn read(&self, target: &str) -> Value {
        self.get(target).role(Role::Viewer).send().await.expect(200).body()
    }

    /// Reads until it is as it should be.
    pub(crate) async fn wait(&self, target: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = until("the state that is waited for", PATIENCE, async || {
            last = self.read(target).await;
            Ok(wanted(&last).then(|| last.clone()))
        })
        .await;
        found.unwrap_or_else(|error| panic!("{target}: {error}: {last}"))
    }

    pub(crate) async fn post_ok(&self, target: &str, body: Value) -> Value {
        self.post(target).role(Role::Author).json(body).send().await.expect(201).body()
    }

    /// Stores a workflow.
    pub(crate) async fn apply(&self, yaml: &str) {
        let workflow = mainspring_core::parse(yaml).unwrap_or_else(|errors| panic!("{errors}"));
        self.client.put_workflow(workflow, yaml).await.unwrap();
    }

    /// The runs of a workflow once there are `count` of them and all have ended.
    pub(crate) async fn runs(&self, workflow: &str, count: usize) -> Vec<mainspring_store::RunRow> {
        let filter = mainspring_store::RunFilter { workflow: Some(workflow.into()), limit: 100, ..Default::default() };
        let runs = until("the runs of a workflow end", PATIENCE, async || {
            let runs = self.client.store().list_runs(&filter).await?;
            let over = runs.len() >= count && runs.iter().all(|run| run.state.is_terminal());
            Ok(over.then_some(runs))
        })
        .await
        .unwrap();
        assert_eq!(runs.len(), count, "{runs:?}");
        let mut rows = Vec::new();
        for run in runs {
            rows.push(self.client.store().run(run.id).await.unwrap());
        }
        rows
    }
}
