//! The quotas of a namespace. They are read at most every few seconds, so that submitting costs nothing where there is
//! no quota. Where there is one, the store counts concurrent submissions one after the other.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainspring_boxed::boxed;
use mainspring_core::Workflow;
use mainspring_store::{Created, Error, NewRun, Quotas, Result};

use crate::client::{Client, SubmitError};

const REMEMBERED: Duration = Duration::from_secs(2);

/// Quotas that were read a moment ago, by namespace.
#[derive(Debug, Default)]
pub(crate) struct KnownQuotas(Mutex<HashMap<String, (Instant, Quotas)>>);

impl KnownQuotas {
    fn get(&self, namespace: &str) -> Option<Quotas> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(namespace).filter(|(at, _)| at.elapsed() < REMEMBERED).map(|(_, quotas)| *quotas)
    }

    fn keep(&self, namespace: &str, quotas: Quotas) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(namespace.to_owned(), (Instant::now(), quotas));
    }
}

#[boxed]
impl Client {
    /// Reads the quotas of a namespace again with its next submission.
    pub fn quotas_changed(&self, namespace: &str) {
        self.quotas.0.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace);
    }

    /// The reason why `more` further runs may not be created, if there is one.
    pub(crate) async fn over_quota(&self, namespace: &str, more: usize) -> Result<Option<String>> {
        let Some(most) = self.quotas_of(namespace).await?.max_open_runs else { return Ok(None) };
        let room = i64::from(most) - self.store.open_runs(namespace, i64::from(most)).await?;
        if i64::try_from(more).unwrap_or(i64::MAX) <= room {
            return Ok(None);
        }
        Ok(Some(format!(
            "namespace `{namespace}` may have {most} open runs and has {}: wait until some end, or raise max_open_runs",
            i64::from(most) - room
        )))
    }

    /// Makes runs, counted against the quota of their namespace if it has one.
    pub(crate) async fn create_within_quota(
        &self,
        namespace: &str,
        runs: &[NewRun],
    ) -> Result<Vec<Created>, SubmitError> {
        let Some(most) = self.quotas_of(namespace).await?.max_open_runs else {
            return Ok(self.repeat(|| self.store.create_runs(self.now(), runs)).await?);
        };
        let made = self.repeat(|| self.store.create_runs_within(self.now(), runs, namespace, most)).await?;
        made.ok_or_else(|| {
            SubmitError::Quota(format!(
                "namespace `{namespace}` may have {most} open runs and has no room for {} more: wait until some end, or raise \
                 max_open_runs",
                runs.len()
            ))
        })
    }

    /// Refuses a workflow beyond the quota. A new version of an existing workflow does not count.
    pub async fn check_workflow_quota(&self, workflow: &Workflow) -> Result<()> {
        let namespace = workflow.namespace.as_str();
        let Some(most) = self.quotas_of(namespace).await?.max_workflows else { return Ok(()) };
        if self.store.has_workflow(namespace, &workflow.name).await? {
            return Ok(());
        }
        let count = self.store.count_workflows(namespace).await?;
        if count < i64::from(most) {
            return Ok(());
        }
        Err(Error::Conflict(format!(
            "namespace `{namespace}` may have {most} workflows and has {count}: delete some, or raise max_workflows"
        )))
    }

    pub(crate) async fn quotas_of(&self, namespace: &str) -> Result<Quotas> {
        if let Some(quotas) = self.quotas.get(namespace) {
            return Ok(quotas);
        }
        let quotas = self.store.quotas(namespace).await?;
        self.quotas.keep(namespace, quotas);
        Ok(quotas)
    }
}
