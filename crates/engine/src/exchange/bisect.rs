//! Finds the row that the store refuses for good, by halving the batch, and fails that row.

use std::sync::Arc;
use std::time::Duration;

use mainspring_core::state::TaskState;
use mainspring_core::work::Failure;
use mainspring_store::{ContinuedAttempt, Ended, Error, Exchange, Lane, Resolution};

use super::batches::{Batch, sessions_of};
use super::lane::{ends_pending, wait};
use crate::node::Shared;

/// After this pause a row whose failure the store refused too is handed in again.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

/// The store refuses a row of this batch for good. Halves the batch until the row is alone, and fails it.
pub(super) async fn bisect(shared: &Arc<Shared>, lane: &mut Lane, batch: Batch, reason: &str) {
    tracing::error!(reason, results = batch.hands_in(), "the store refuses a batch; looking for the offender");
    let own = batch.own();
    let mut parts = vec![(batch.exchange.ended.clone(), batch.exchange.continued.clone())];
    let starts = batch.exchange.starts.clone();
    // The demand is withdrawn; the results go in pieces.
    let mut demand = batch;
    demand.exchange.ended.clear();
    demand.exchange.continued.clear();
    demand.exchange.starts.clear();
    shared.gatherer().put_back(demand);
    // What the store may still take, beside what it would replace.
    let decided = with_sessions(Exchange { starts, decide_session: own, ..Exchange::default() });
    let mut pending: Vec<(Exchange, Exchange)> = vec![(decided.clone(), decided)];
    while let Some((ended, continued)) = parts.pop() {
        let part = with_sessions(Exchange { ended, continued, decide_session: own, ..Exchange::default() });
        if part.ended.is_empty() && part.continued.is_empty() {
            continue;
        }
        match apply_part(shared, lane, &part).await {
            PartOutcome::Done => {}
            PartOutcome::Refused(reason) if part.ended.len() + part.continued.len() == 1 => {
                pending.push((rejected(part.clone(), &reason), part))
            }
            PartOutcome::Refused(_) => {
                let (left, right) = part.ended.split_at(part.ended.len() / 2);
                let (first, second) = part.continued.split_at(part.continued.len() / 2);
                if part.ended.len() == 1 {
                    parts.push((part.ended.clone(), Vec::new()));
                    parts.push((Vec::new(), part.continued.clone()));
                } else {
                    parts.push((left.to_vec(), first.to_vec()));
                    parts.push((right.to_vec(), second.to_vec()));
                }
            }
        }
    }
    for (part, replaced) in pending {
        if let PartOutcome::Refused(reason) = apply_part(shared, lane, &part).await {
            // The session lives on, so the reaper would never return the task.
            tracing::error!(
                reason,
                "the store refuses even the failure of a task; its result is handed in again later"
            );
            hand_in_later(shared, replaced);
        }
    }
}

fn hand_in_later(shared: &Arc<Shared>, part: Exchange) {
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let _ = shared.stop.run_until_cancelled(tokio::time::sleep(REFUSED_PAUSE)).await;
        put_back(&shared, part);
    });
}

fn put_back(shared: &Shared, part: Exchange) {
    shared.gatherer().put_back(Batch { exchange: part, ..Batch::default() });
    shared.client.bus.signals().wake_lanes();
}

enum PartOutcome {
    Done,
    Refused(String),
}

async fn apply_part(shared: &Arc<Shared>, lane: &mut Lane, part: &Exchange) -> PartOutcome {
    let mut backoff = Duration::from_millis(5);
    let mut part = part.clone();
    loop {
        part.now = shared.client.now();
        match lane.exchange(&part).await {
            Ok(reply) if !reply.dead_sessions.is_empty() => {
                // Nothing was applied. The results of live sessions must not be lost with those of the dead ones.
                part = without_sessions(part, &reply.dead_sessions);
                if reply.dead_sessions.contains(&part.decide_session) {
                    // The node opens another session, and hands in what remote workers have with it.
                    put_back(shared, part);
                    return PartOutcome::Done;
                }
                if part.ended.is_empty() && part.continued.is_empty() && part.starts.is_empty() {
                    return PartOutcome::Done;
                }
            }
            Ok(reply) => {
                shared.remote.handed_in(shared, &part, &reply.fenced, true);
                if reply.followed {
                    ends_pending(shared);
                }
                for run in reply.ended_runs {
                    let _ = shared.ended_runs.send(run);
                }
                return PartOutcome::Done;
            }
            Err(Error::Rejected(error)) => return PartOutcome::Refused(error.to_string()),
            Err(Error::InDoubt(_)) => match lane.resolve(&part.sessions).await {
                Ok(Resolution::Applied(_)) => {
                    shared.remote.handed_in(shared, &part, &[], true);
                    return PartOutcome::Done;
                }
                Ok(Resolution::NotApplied) => {}
                Err(error) => tracing::warn!(%error, "resolving an exchange whose reply was lost"),
            },
            Err(error) => tracing::warn!(%error, "exchanging"),
        }
        if shared.stop.is_cancelled() {
            return PartOutcome::Done;
        }
        wait(shared, &mut backoff).await;
    }
}

/// Names every session that appears in the exchange.
fn with_sessions(mut exchange: Exchange) -> Exchange {
    exchange.sessions = sessions_of(&exchange).collect();
    exchange.sessions.sort_unstable();
    exchange.sessions.dedup();
    exchange
}

fn without_sessions(mut exchange: Exchange, dead: &[i64]) -> Exchange {
    exchange.ended.retain(|row| !dead.contains(&row.token.session));
    exchange.continued.retain(|row| !dead.contains(&row.token.session));
    exchange.starts.retain(|row| !dead.contains(&row.session));
    with_sessions(exchange)
}

/// Replaces a refused row with a failure that names the reason.
fn rejected(part: Exchange, reason: &str) -> Exchange {
    let failure = Failure {
        kind: "store_rejected".into(),
        message: format!("the store refused the result: {reason}").replace('\0', ""),
        permanent: true,
        ..Failure::default()
    };
    let from_continued = |row: &ContinuedAttempt| Ended {
        token: row.token,
        from: TaskState::Running,
        state: TaskState::Failed,
        started_at: row.started_at,
        finished_at: row.finished_at,
        failure: Some(failure.clone()),
        output: None,
    };
    let ended = part
        .ended
        .iter()
        .map(|row| Ended { state: TaskState::Failed, failure: Some(failure.clone()), output: None, ..row.clone() })
        .chain(part.continued.iter().map(from_continued))
        .collect();
    Exchange { ended, continued: Vec::new(), ..part }
}
