//! Submissions that start: where the node has free slots, the first tasks of new runs are claimed in the unit that makes
//! them, so submitting and starting cost one commit.
//!
//! Such a unit is one of a lane of its own, so a lost answer is resolved as that of an exchange is: either it was applied, and
//! the claims are read, or it never will be and is repeated. If the store cannot be asked for too long, the callers learn
//! that nothing is known, and the question goes on without them, because the claims are ours.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_store::{Claimed, Error, Lane, PlainSubmission, Resolution, Result, Started, Want};

use crate::client::Client;
use crate::exchange::assignments;
use crate::live::Hint;
use crate::metering;
use crate::node::Shared;

/// How long callers wait while it is unknown whether their unit was applied.
const PATIENCE: Duration = Duration::from_secs(3);
const LONGEST_BACKOFF: Duration = Duration::from_millis(500);

/// Slots that are reserved for first tasks, and the node that executes them.
pub(super) struct Slots {
    node: Arc<Shared>,
    wants: Vec<Want>,
}

impl Slots {
    /// Reserves free slots of the local node for the first tasks of these runs. `None` without a node.
    pub(super) fn reserve(client: &Client, submissions: &[PlainSubmission]) -> Option<Self> {
        let node = client.local_node()?;
        let mut rows: BTreeMap<i32, i32> = BTreeMap::new();
        for (route, count) in submissions.iter().flat_map(|one| &one.run.version.first_routes) {
            *rows.entry(*route).or_default() += count;
        }
        let wants = node.gatherer().reserve_first(&rows);
        Some(Self { node, wants })
    }

    /// Creates the runs and starts what fits; returns whether task runs are left for others. Afterwards the slots are
    /// used or free.
    pub(super) async fn submit(self, now: Micros, submissions: &[PlainSubmission]) -> Result<bool> {
        let held = self.lane().take();
        let lane = match held.filter(|lane| lane.node() == self.node.id) {
            Some(lane) => Ok(lane),
            None => self.node.client.store.open_lane(self.node.id, now).await,
        };
        let mut lane = match lane {
            Ok(lane) => lane,
            Err(error) => {
                self.settle(now, Vec::new());
                return Err(error);
            }
        };
        let outcome = self.apply(&mut lane, now, submissions).await;
        if matches!(outcome, Err(Error::InDoubt(_))) {
            tokio::spawn(self.find_out(lane, now));
            return outcome.map(|started| started.left);
        }
        *self.lane() = Some(lane);
        let (claimed, outcome) = match outcome {
            Ok(Started { claimed, left }) => (claimed, Ok(left)),
            Err(error) => (Vec::new(), Err(error)),
        };
        self.settle(now, claimed);
        outcome
    }

    /// Only one unit is under way at a time: it takes the lane and puts it back.
    fn lane(&self) -> MutexGuard<'_, Option<Lane>> {
        self.node.client.submitter.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn apply(&self, lane: &mut Lane, now: Micros, submissions: &[PlainSubmission]) -> Result<Started> {
        let (mut tries, mut backoff) = (0, Duration::from_millis(5));
        let began = Instant::now();
        loop {
            match lane.submit(now, submissions, &self.wants).await {
                Err(Error::Repeat(error)) if tries < super::MOST_TRIES => {
                    tracing::debug!(%error, "repeating a unit of submissions");
                    tries += 1;
                }
                Err(Error::InDoubt(_)) => loop {
                    match lane.resolve(&self.sessions()).await {
                        Ok(Resolution::Applied(reply)) => {
                            return Ok(Started { claimed: reply.claimed, left: true });
                        }
                        Ok(Resolution::NotApplied) => break,
                        Err(error) if began.elapsed() > PATIENCE || self.node.stop.is_cancelled() => {
                            tracing::warn!(%error, "it is unknown whether a unit of submissions was applied");
                            return Err(Error::InDoubt("a submission"));
                        }
                        Err(error) => tracing::debug!(%error, "resolving a unit of submissions"),
                    }
                    pause(&mut backoff).await;
                },
                outcome => return outcome,
            }
        }
    }

    fn sessions(&self) -> Vec<i64> {
        self.wants.iter().map(|want| want.session).take(1).collect()
    }

    /// Asks the store for the result of a unit until it answers, because the unit may have claimed tasks.
    async fn find_out(self, mut lane: Lane, now: Micros) {
        let mut backoff = LONGEST_BACKOFF;
        loop {
            match lane.resolve(&self.sessions()).await {
                Ok(Resolution::Applied(reply)) => {
                    self.settle(now, reply.claimed);
                    break;
                }
                Ok(Resolution::NotApplied) => {
                    self.settle(now, Vec::new());
                    break;
                }
                // The session ends with its node, and its claims are returned.
                Err(_) if self.node.stop.is_cancelled() => return,
                Err(error) => tracing::debug!(%error, "resolving a unit of submissions"),
            }
            pause(&mut backoff).await;
        }
    }

    /// Assigns the claims to workers and frees the other slots.
    fn settle(&self, now: Micros, claimed: Vec<Claimed>) {
        let claimed = self.node.gatherer().started_first(&self.wants, claimed);
        if claimed.is_empty() {
            return;
        }
        metering::claimed(&self.node, now, &claimed);
        let hints = self.node.client.bus.hints();
        if hints.wanted() {
            for claim in &claimed {
                let token = claim.token;
                hints.publish(Hint::Started {
                    key: token.key,
                    attempt: token.attempt,
                    session: token.session,
                    at: now,
                });
            }
        }
        let node = Arc::clone(&self.node);
        tokio::spawn(async move { assignments::execute(&node, claimed).await });
    }
}

async fn pause(backoff: &mut Duration) {
    tokio::time::sleep(*backoff).await;
    *backoff = (*backoff * 2).min(LONGEST_BACKOFF);
}
