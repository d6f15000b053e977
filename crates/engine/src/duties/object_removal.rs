//! Deletes objects that no artifact names: those of deleted runs and of broken uploads.

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

    /// An object is deleted before its row. A leader that dies in between, or was deposed, deletes only what must be
    /// deleted anyway.
    async fn act(&mut self, shared: &Shared, _: &Term) -> Result<()> {
        shared.client.delete_unused_objects(AT_ONCE).await.map(|_| ())
    }
}
