//! Returns the claims of sessions that are not live. A crash between marking a session dead and returning its claims
//! leaves them behind.

use std::time::Duration;

use mainspring_store::{Result, Term};

use super::leader_duty::LeaderDuty;
use crate::bus::{BusMessage, ClaimableRoutes};
use crate::node::{NodeConfig, Shared};

#[derive(Debug)]
pub(crate) struct ClaimSweep;

impl LeaderDuty for ClaimSweep {
    const NAME: &'static str = "returning claims of dead sessions";

    fn interval(&self, _: &NodeConfig) -> Duration {
        Duration::from_secs(5)
    }

    async fn act(&mut self, shared: &Shared, term: &Term) -> Result<()> {
        if shared.client.store.sweep_claims(shared.client.now(), term).await? > 0 {
            shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        }
        Ok(())
    }
}
