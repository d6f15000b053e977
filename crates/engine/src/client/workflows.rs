//! Storing workflows and reading their versions.

use std::sync::Arc;

use mainspring_core::Workflow;
use mainspring_core::work::BundleFile;
use mainspring_store::{Edition, Result};

use super::Client;
use crate::bus::BusMessage;
use crate::specs::Spec;
impl Client {
    /// Stores a workflow; the same content again is the same version.
    pub async fn put_workflow(&self, workflow: Workflow, source: &str) -> Result<Arc<Spec>> {
        self.put_workflow_with_files(workflow, source, &[]).await
    }

    /// The same with the files that its tasks find beside them.
    pub async fn put_workflow_with_files(
        &self,
        workflow: Workflow,
        source: &str,
        files: &[BundleFile],
    ) -> Result<Arc<Spec>> {
        self.put_workflow_over(workflow, source, files, None).await
    }

    /// The same, but only over this edition of the workflow; `Some(None)` if there must be none yet.
    pub async fn put_workflow_over(
        &self,
        workflow: Workflow,
        source: &str,
        files: &[BundleFile],
        expected: Option<Option<Edition>>,
    ) -> Result<Arc<Spec>> {
        self.check_workflow_quota(&workflow).await?;
        self.check_intervals(&workflow)?;
        let has_triggers = !workflow.triggers.is_empty();
        // Schedules go by the time of day.
        let (now, id) = (self.clock.wall(), self.clock.new_id());
        let version = self.store.put_version_over(now, id, &workflow, source, files, expected).await?;
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
}
