//! Submissions gather: while one unit commits, the next takes what is submitted meanwhile.
//!
//! A batch is one run when the process is idle and hundreds when it is busy, without a timer. The runs, the idempotency
//! keys, the kept answers and the audit rows of all its requests are one commit. One that the database refuses is found by
//! halving and does not harm its neighbours. Where the node of this process has free slots, first tasks are claimed in the same
//! unit ([`starting`]). Namespaces take turns, so that a busy one does not hold the others up.

mod starting;

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_store::{AuditRow, Error, KeptAnswer, Lane, NewRun, PlainSubmission, RequestKey, Result};
use tokio::sync::oneshot;

use self::starting::Slots;
use crate::bus::BusMessage;
use crate::client::{ANY_WORK, Client};

/// The largest unit; further submissions wait for the next.
const LARGEST_UNIT: usize = 500;
/// How often a unit is repeated that the database asked to repeat.
const MOST_TRIES: usize = 20;

/// What a request stores together with its run.
#[derive(Debug, Default)]
pub struct Leaves {
    pub key: Option<(RequestKey, KeptAnswer)>,
    pub audit: Option<AuditRow>,
}

/// Which version a run may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newness {
    Any,
    /// Only the newest of its workflow; the submission is refused with `NotFound` otherwise.
    Newest,
}

/// Computes what a request stores, given the time at which its run is created.
pub type LeavesAt = Box<dyn FnOnce(Micros) -> Leaves + Send>;

struct Waiting {
    run: NewRun,
    edition: Newness,
    leaves: LeavesAt,
    reply: oneshot::Sender<Result<Micros>>,
}

/// Submissions that wait for the next unit, by namespace.
struct Queue<T> {
    by_namespace: HashMap<String, VecDeque<T>>,
    /// The order of namespaces.
    turns: VecDeque<String>,
    is_draining: bool,
}

#[derive(Default)]
pub(crate) struct Submitter {
    queue: Mutex<Queue<Waiting>>,
    /// The lane of units that start their runs, when none is under way.
    lane: Mutex<Option<Lane>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { by_namespace: HashMap::new(), turns: VecDeque::new(), is_draining: false }
    }
}

impl std::fmt::Debug for Submitter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Submitter")
    }
}

impl<T> Queue<T> {
    fn add(&mut self, namespace: &str, waiting: T) {
        let line = self.by_namespace.entry(namespace.to_owned()).or_default();
        if line.is_empty() {
            self.turns.push_back(namespace.to_owned());
        }
        line.push_back(waiting);
    }

    /// Takes submissions from the namespaces in turn, until the unit is full.
    fn take(&mut self) -> Vec<T> {
        let mut unit = Vec::new();
        while unit.len() < LARGEST_UNIT
            && let Some(namespace) = self.turns.pop_front()
        {
            let Some(line) = self.by_namespace.get_mut(&namespace) else { continue };
            unit.extend(line.pop_front());
            if line.is_empty() {
                self.by_namespace.remove(&namespace);
            } else {
                self.turns.push_back(namespace);
            }
        }
        unit
    }
}

#[boxed]
impl Client {
    /// Creates a plain run together with others, and returns when it was created. The submission goes on if the caller
    /// goes away.
    pub async fn submit_plain(&self, run: NewRun, edition: Newness, leaves: LeavesAt) -> Result<Micros> {
        let (reply, made) = oneshot::channel();
        let begins = {
            let mut queue = self.submitter.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let namespace = run.version.namespace.clone();
            queue.add(&namespace, Waiting { run, edition, leaves, reply });
            !std::mem::replace(&mut queue.is_draining, true)
        };
        if begins {
            tokio::spawn(drain(self.clone()));
        }
        made.await.unwrap_or(Err(Error::InDoubt("a submission")))
    }

    /// The next unit; `None` when nothing waits, and then the next to come begins again.
    fn next_unit(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.submitter.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let unit = queue.take();
        queue.is_draining = !unit.is_empty();
        queue.is_draining.then_some(unit)
    }
}

async fn drain(client: Client) {
    while let Some(unit) = client.next_unit() {
        let now = client.now();
        let mut replies = Vec::with_capacity(unit.len());
        let mut submissions = Vec::with_capacity(unit.len());
        for Waiting { run, edition, leaves, reply } in unit {
            let Leaves { key, audit } = leaves(now);
            submissions.push(PlainSubmission { run, key, audit, only_latest: edition == Newness::Newest });
            replies.push(reply);
        }
        let (outcomes, left) = commit(&client, now, &submissions).await;
        let made = || submissions.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(one, _)| &one.run);
        client.meter(made());
        let made: Vec<_> = made().map(|run| run.id).collect();
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            _ = reply.send(outcome.map(|()| now));
        }
        match (made.is_empty(), left) {
            (true, _) => {}
            (false, false) => client.announce([BusMessage::RunsChanged(made)]).await,
            (false, true) => client.announce([BusMessage::RunsChanged(made), ANY_WORK]).await,
        }
    }
}

/// The result of each submission, and whether task runs are left for others to start. If the whole unit is refused, its
/// halves are tried separately.
async fn commit(client: &Client, now: Micros, unit: &[PlainSubmission]) -> (Vec<Result<()>>, bool) {
    let mut outcomes: Vec<Result<()>> = Vec::with_capacity(unit.len());
    let (mut parts, mut left) = (vec![unit], false);
    let mut slots = Slots::reserve(client, unit);
    while let Some(part) = parts.pop() {
        // Only the whole unit starts its runs: halves are rare, and their first tasks are claimed as usual.
        let outcome = match slots.take() {
            Some(slots) => slots.submit(now, part).await,
            None => try_commit(client, now, part).await.map(|()| true),
        };
        match outcome {
            Ok(leaves) => {
                left |= leaves;
                outcomes.extend(part.iter().map(|_| Ok(())));
            }
            Err(error) if part.len() == 1 => outcomes.push(Err(error)),
            // It is unknown whether the unit was applied.
            Err(error @ (Error::Unavailable(_) | Error::InDoubt(_) | Error::Repeat(_))) => {
                tracing::warn!(%error, submissions = part.len(), "a unit of submissions was not answered");
                outcomes.extend(part.iter().map(|_| Err(Error::InDoubt("a submission"))));
            }
            Err(_) => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.push(second);
                parts.push(first);
            }
        }
    }
    (outcomes, left)
}

async fn try_commit(client: &Client, now: Micros, part: &[PlainSubmission]) -> Result<()> {
    let mut tries = 0;
    loop {
        match client.store.submit_plain(now, part).await {
            Err(Error::Repeat(error)) if tries < MOST_TRIES => {
                tracing::debug!(%error, "repeating a unit of submissions");
                tries += 1;
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_take_turns() {
        let mut queue = Queue::default();
        for number in 0..LARGEST_UNIT * 3 {
            queue.add("busy", number);
        }
        queue.add("quiet", usize::MAX);
        let unit = queue.take();
        assert_eq!((unit.len(), unit[0], unit[1], unit[2]), (LARGEST_UNIT, 0, usize::MAX, 1));
        assert_eq!(queue.take().len() + queue.take().len() + queue.take().len(), LARGEST_UNIT * 2 + 1);
        assert!(queue.take().is_empty() && queue.turns.is_empty() && queue.by_namespace.is_empty());
    }
}
