//! Deletes objects that no artifact names: of runs that were forgotten, and of uploads that were broken off.

use std::time::Duration;

use mainspring_store::{Result, Term};

use super::leader_duty::LeaderDuty;
use crate::node::{NodeConfig, Shared};

const AT_ONCE: i64 = 100;

#[derive(Debug)]
pub(crate) struct ObjectRemoval;

impl LeaderDuty for ObjectRemoval {
    const NAME: &'static str = "deleting unused objects";

    fn interval(&self, _: &NodeConfig) -> Duration {
        Duration::from_secs(30)
    }

    /// An object is deleted before its row: a leader that dies in between, or is not the leader any more, deletes what is
    /// to be deleted anyway.
    async fn act(&mut self, shared: &Shared, _: &Term) -> Result<()> {
        shared.client.delete_unused_objects(AT_ONCE).await.map(|_| ())
    }
}
