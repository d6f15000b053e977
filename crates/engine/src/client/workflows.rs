//! Storing workflows and reading their versions.

use std::sync::Arc;
use std::time::Duration;

use mainspring_boxed::boxed;
use mainspring_core::Workflow;
use mainspring_core::work::BundleFile;
use mainspring_store::{Error, Operator, PutOptions, Result, WorkflowRow};

use super::Client;
use crate::bus::BusMessage;
use crate::specs::Spec;
/// How long a deletion waits for the runs that it cancelled.
const PATIENCE: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
const MOST_CANCELLED: i64 = 10_000;

/// Why a workflow was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteWorkflowError {
    /// Running tasks take a moment to end.
    #[error("runs of the workflow are being cancelled")]
    RunsEnding,
    #[error(transparent)]
    Store(#[from] Error),
}

#[boxed]
impl Client {
    /// Stores a workflow; the same content again is the same version.
    pub async fn put_workflow(&self, workflow: Workflow, source: &str) -> Result<Arc<Spec>> {
        self.put_workflow_with_files(workflow, source, &[]).await
    }

    /// Stores a workflow with its files.
    pub async fn put_workflow_with_files(
        &self,
        workflow: Workflow,
        source: &str,
        files: &[BundleFile],
    ) -> Result<Arc<Spec>> {
        self.put_workflow_over(workflow, source, files, &PutOptions::default()).await
    }

    /// Stores a workflow under conditions.
    pub async fn put_workflow_over(
        &self,
        workflow: Workflow,
        source: &str,
        files: &[BundleFile],
        options: &PutOptions,
    ) -> Result<Arc<Spec>> {
        self.check_workflow_quota(&workflow).await?;
        self.check_intervals(&workflow)?;
        let has_triggers = !workflow.triggers.is_empty();
        // Schedules follow the time of day.
        let (now, id) = (self.clock.wall(), self.clock.new_id());
        let version = self.store.put_version_over(now, id, &workflow, source, files, options).await?;
        self.bus.publish(BusMessage::RoutesChanged);
        if has_triggers {
            self.schedules_changed().await;
        }
        Ok(match self.specs.cached(version.id) {
            Some(spec) => spec,
            None => self.specs.keep(Spec::new(version, workflow)),
        })
    }

    /// The newest version of a workflow.
    pub async fn latest(&self, namespace: &str, name: &str) -> Result<Arc<Spec>> {
        let (version, workflow) = self.store.latest_version(namespace, name).await?;
        Ok(match self.specs.cached(version.id) {
            Some(spec) => spec,
            None => self.specs.keep(Spec::new(version, workflow)),
        })
    }

    pub async fn spec(&self, version: i64) -> Result<Arc<Spec>> {
        self.specs.get(version).await
    }

    /// Deletes a workflow with its versions and ended runs. With an operator its open runs are cancelled first; without
    /// one they prevent the deletion.
    pub async fn delete_workflow(
        &self,
        row: &WorkflowRow,
        cancels: Option<&Operator>,
    ) -> Result<(), DeleteWorkflowError> {
        if let Some(operator) = cancels {
            self.cancel_all_of(row, operator).await?;
        }
        Ok(self.store.delete_workflow(row.id).await?)
    }

    /// Cancels the open runs of a workflow and waits a while for them to end.
    async fn cancel_all_of(&self, row: &WorkflowRow, operator: &Operator) -> Result<(), DeleteWorkflowError> {
        self.set_workflow_active(row.id, false, None).await?;
        for run in self.store.open_runs_of(row.id, MOST_CANCELLED).await? {
            self.cancel(run, operator).await?;
        }
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !self.store.open_runs_of(row.id, 1).await?.is_empty() {
            if tokio::time::Instant::now() > deadline {
                return Err(DeleteWorkflowError::RunsEnding);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        Ok(())
    }
}
