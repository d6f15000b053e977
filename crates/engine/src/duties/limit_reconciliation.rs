//! Compares what limits hold with what is counted, and corrects a difference. A difference is a bug.

use std::time::Duration;

use mainspring_store::{Result, Term};

use super::leader_duty::LeaderDuty;
use crate::node::{NodeConfig, Shared};

#[derive(Debug)]
pub(crate) struct LimitReconciliation;

impl LeaderDuty for LimitReconciliation {
    const NAME: &'static str = "reconciling limits";

    fn interval(&self, _: &NodeConfig) -> Duration {
        Duration::from_secs(60)
    }

    async fn act(&mut self, shared: &Shared, term: &Term) -> Result<()> {
        let corrected = shared.client.store.reconcile_limits(shared.client.now(), term).await?;
        if corrected > 0 {
            tracing::error!(corrected, "limits held other than what was counted; corrected");
        }
        Ok(())
    }
}
