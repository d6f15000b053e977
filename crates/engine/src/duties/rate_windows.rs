//! Lets in the task runs that wait for the next window of their pool's rate.
//!
//! Every pass reads the windows from the store, so a leader that begins knows as much as the one before. No window is
//! shorter than the longest sleep: each is seen before it ends, on whichever node it began, and no message is needed for that.

use std::time::Duration;

use mainspring_store::{Result, Term};

use super::leader_duty::LeaderDuty;
use crate::bus::{BusMessage, ClaimableRoutes};
use crate::node::{NodeConfig, Shared};

const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Before another look at what was locked, or too much for one unit.
const SHORTEST_SLEEP: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct RateWindows {
    pause: Duration,
}

impl Default for RateWindows {
    fn default() -> Self {
        Self { pause: LONGEST_SLEEP }
    }
}

impl LeaderDuty for RateWindows {
    const NAME: &'static str = "letting in by rate";

    fn interval(&self, _: &NodeConfig) -> Duration {
        self.pause
    }

    async fn act(&mut self, shared: &Shared, term: &Term) -> Result<()> {
        self.pause = LONGEST_SLEEP;
        let client = &shared.client;
        let pass = client.store.let_in_by_rate(client.now(), term).await?;
        if pass.let_in {
            client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        }
        if pass.has_more {
            self.pause = SHORTEST_SLEEP;
        } else if let Some(end) = pass.next_end {
            let left = Duration::from_micros(u64::try_from(end - client.now()).unwrap_or(0));
            self.pause = left.clamp(Duration::from_millis(1), LONGEST_SLEEP);
        }
        Ok(())
    }
}
