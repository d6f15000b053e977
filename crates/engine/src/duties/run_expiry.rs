//! Ends runs whose deadline has passed.

use std::time::Duration;

use mainspring_store::{Result, Term};

use super::leader_duty::LeaderDuty;
use crate::bus::{BusMessage, ClaimableRoutes};
use crate::coordination::election::pace;
use crate::node::{NodeConfig, Shared};

#[derive(Debug)]
pub(crate) struct RunExpiry;

impl LeaderDuty for RunExpiry {
    const NAME: &'static str = "ending overdue runs";

    fn interval(&self, config: &NodeConfig) -> Duration {
        pace(config)
    }

    async fn act(&mut self, shared: &Shared, term: &Term) -> Result<()> {
        if shared.client.store.expire_runs(shared.client.now(), term).await? > 0 {
            shared.client.bus.publish(BusMessage::CancelRequested(Vec::new()));
            shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        }
        Ok(())
    }
}
