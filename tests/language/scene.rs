//! A database, a node that works on it, and the playing of one case.

use std::time::Duration;

use mainspring_core::RunId;
use mainspring_engine::{Client, Submission, SubmitError};
use mainspring_store::{Created, Flavor};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::invariants::{self, Violation};
use mainspring_testkit::node::TestNode;
use mainspring_testkit::wait::until;
use serde_json::{Map, Value};

use crate::case::Case;
use crate::gates::Gates;
use crate::report;

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Scene {
    database: TestDatabase,
    node: TestNode,
    pub(crate) gates: Gates,
}

/// One case being played in a namespace of its own.
pub(crate) struct Play<'s> {
    pub(crate) scene: &'s Scene,
    pub(crate) namespace: String,
    /// The name of the first workflow.
    pub(crate) first: String,
    /// In the order of their submission; `None` for one that was refused.
    pub(crate) runs: Vec<Option<RunId>>,
    /// What steps had to say.
    pub(crate) notes: Vec<String>,
}

impl Scene {
    pub(crate) async fn new(flavor: Flavor) -> Self {
        let database = TestDatabase::new(flavor).await;
        let gates = Gates::default();
        let node = TestNode::start(database.store(), gates.registry()).await.expect("a node starts");
        Self { database, node, gates }
    }

    pub(crate) fn url(&self) -> &str {
        self.database.url()
    }

    pub(crate) fn client(&self) -> &Client {
        self.node.client()
    }

    /// What became of a case. Errors of the test itself are part of it, so that they do not hide the other cases.
    pub(crate) async fn play(&self, case: &Case, namespace: &str) -> String {
        let mut play = Play {
            scene: self,
            namespace: namespace.to_owned(),
            first: String::new(),
            runs: Vec::new(),
            notes: Vec::new(),
        };
        let outcome = match play.through(case).await {
            Ok(outcome) => outcome,
            Err(error) => format!("{}\nthe case cannot be played: {error:#}", play.so_far().await),
        };
        // Where a case stands in its file must not matter.
        outcome.replace(&format!("\"{namespace}\""), "\"here\"").replace(&format!("`{namespace}`"), "`here`")
    }

    /// What is wrong with the whole database once every case is over.
    pub(crate) async fn close(self) -> Vec<Violation> {
        let wrong = invariants::check_at_rest(self.database.url()).await.expect("the invariants can be checked");
        self.node.stop().await;
        wrong
    }
}

impl Play<'_> {
    async fn through(&mut self, case: &Case) -> anyhow::Result<String> {
        for source in &case.workflows {
            let mut workflow = mainspring_core::parse(source).map_err(|errors| anyhow::anyhow!("{errors}"))?;
            if self.first.is_empty() {
                self.first.clone_from(&workflow.name);
            }
            if workflow.namespace == "default" {
                workflow.namespace.clone_from(&self.namespace);
            }
            self.scene.client().put_workflow(workflow, source).await?;
        }
        if !case.steps.iter().any(|step| step.starts_with("submit")) {
            self.submit(None, Map::new()).await?;
        }
        for step in &case.steps {
            self.step(step).await.map_err(|error| error.context(format!("step `{step}`")))?;
        }
        let mut all: Vec<RunId> = self.runs.iter().copied().flatten().collect();
        let mut ended = 0;
        while let Some(run) = all.get(ended).copied() {
            self.until_ended(run).await?;
            let waits = self.scene.client().store().waits_of_run(run).await?;
            all.extend(waits.into_iter().filter_map(|wait| wait.child));
            ended += 1;
        }
        self.check(&all).await?;
        Ok(self.so_far().await)
    }

    /// Whatever there is to say now.
    async fn so_far(&self) -> String {
        let mut lines = self.notes.clone();
        for (number, run) in self.runs.iter().enumerate() {
            if self.runs.len() > 1 {
                lines.push(format!("#{}", number + 1));
            }
            lines.push(match run {
                None => "refused".into(),
                Some(run) => report::describe(self.scene.client(), *run)
                    .await
                    .unwrap_or_else(|error| format!("cannot be described: {error:#}")),
            });
        }
        lines.join("\n")
    }

    pub(crate) async fn submit(&mut self, name: Option<&str>, inputs: Map<String, Value>) -> anyhow::Result<()> {
        let client = self.scene.client();
        let spec = client.latest(&self.namespace, name.unwrap_or(&self.first)).await?;
        match client.submit(&spec, Submission { inputs, ..Submission::default() }).await {
            Ok(created) => self.runs.push(match created {
                Created::Refused => None,
                other => other.run(),
            }),
            Err(SubmitError::Inputs(problems)) => self.notes.push(format!("submit: {problems}")),
            Err(error) => self.notes.push(format!("submit: {error}")),
        }
        Ok(())
    }

    pub(crate) async fn until_ended(&self, run: RunId) -> anyhow::Result<()> {
        until("the run ends", PATIENCE, async || {
            let summary = self.scene.client().store().run_summary(run).await?;
            Ok(summary.state.is_terminal().then_some(()))
        })
        .await
    }

    /// Everything about this case's runs must be in order. What concerns others is checked when all are over.
    async fn check(&self, runs: &[RunId]) -> anyhow::Result<()> {
        let ours: Vec<String> = runs.iter().map(|run| run.simple().to_string()).collect();
        until("nothing is left to do for these runs", PATIENCE, async || {
            let all = invariants::check_at_rest(self.scene.database.url()).await?;
            let wrong: Vec<_> = all
                .into_iter()
                .filter(|found| {
                    let subject = found.subject.replace('-', "");
                    ours.iter().any(|run| subject.starts_with(run))
                })
                .collect();
            // A continuation may outlive the end of its run by a moment; everything else may not.
            if wrong.iter().all(|found| found.invariant == "nothing is left to do") {
                return Ok(wrong.is_empty().then_some(()));
            }
            anyhow::bail!("{wrong:#?}")
        })
        .await
    }
}
