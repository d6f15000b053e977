//! One lane: gather, exchange, dispatch, again. While one commit is under way, the next batch gathers.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_store::{ContinuedAs, Error, Exchange, Lane, Reply, Resolution, TaskToken};

use crate::bus::BusMessage;
use crate::exchange::assignments;
use crate::exchange::batches::Batch;
use crate::exchange::bisect::bisect;
use crate::live::Hint;
use crate::metering;
use crate::node::Shared;

/// How long after an exchange with results more of them are expected.
const BUSY_FOR: Duration = Duration::from_secs(2);
const LONGEST_BACKOFF: Duration = Duration::from_millis(500);

pub(crate) async fn run(shared: Arc<Shared>, number: usize) {
    let mut lane = match open(&shared).await {
        Some(lane) => lane,
        None => return,
    };
    let mut busy_until = Instant::now();
    loop {
        if let Some(routes) = shared.client.bus.signals().take_claimable() {
            if shared.client.bus.signals().take_new_routes()
                && let Err(error) = shared.refresh_routes().await
            {
                tracing::debug!(%error, "reading the routes");
                shared.client.bus.signals().routes_changed();
            }
            shared.gatherer().look_at(&routes);
        }
        let now = Instant::now();
        let batch = shared.gatherer().take(number, now);
        let Some(batch) = batch else {
            if shared.stop.is_cancelled() {
                return;
            }
            let pause = shared.client.bus.poll_interval(now < busy_until);
            tokio::select! {
                () = shared.client.bus.signals().lane_woken(number) => {}
                () = shared.stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {
                    shared.client.bus.signals().routes_changed();
                    shared.client.bus.look_here();
                }
            }
            continue;
        };
        if shared.gatherer().has_more(number) {
            shared.client.bus.signals().wake_lane(number);
        }
        let hands_in = batch.hands_in() > 0;
        if hands_in {
            busy_until = now + BUSY_FOR;
        }
        if exchange(&shared, &mut lane, batch).await.is_break() {
            return;
        }
        if hands_in {
            shared.gatherer().hand_in_ended();
        }
    }
}

/// Opens the lane. Retries while the store is unreachable.
async fn open(shared: &Shared) -> Option<Lane> {
    let mut backoff = Duration::from_millis(20);
    while !shared.stop.is_cancelled() {
        match shared.client.store.open_lane(shared.id, shared.client.now()).await {
            Ok(lane) => return Some(lane),
            Err(error) => tracing::warn!(%error, "opening a lane"),
        }
        wait(shared, &mut backoff).await;
    }
    None
}

/// Applies a batch exactly once, whatever happens to the connection. Breaks off when the node stops before the store has
/// answered: what the batch carried is returned with its sessions.
async fn exchange(shared: &Arc<Shared>, lane: &mut Lane, mut batch: Batch) -> ControlFlow<()> {
    let mut backoff = Duration::from_millis(5);
    loop {
        batch.exchange.now = shared.client.now();
        let began = Instant::now();
        let answer = lane.exchange(&batch.exchange).await;
        metering::store_called(&shared.client.metrics, "exchange", began);
        match answer {
            Ok(reply) => {
                applied(shared, batch, reply, RefusedResults::Named).await;
                return ControlFlow::Continue(());
            }
            Err(Error::InDoubt(_)) => match resolve(shared, lane, &batch).await {
                Some(Resolution::Applied(reply)) => {
                    applied(shared, batch, reply, RefusedResults::Unknown).await;
                    return ControlFlow::Continue(());
                }
                Some(Resolution::NotApplied) => {}
                None => return ControlFlow::Break(()),
            },
            Err(Error::Repeat(error)) => tracing::debug!(%error, "repeating an exchange"),
            Err(error @ Error::Rejected(_)) => {
                bisect(shared, lane, batch, &error.to_string()).await;
                return ControlFlow::Continue(());
            }
            Err(error) => {
                tracing::warn!(%error, "exchanging");
                if shared.stop.is_cancelled() {
                    return ControlFlow::Break(());
                }
                wait(shared, &mut backoff).await;
            }
        }
    }
}

/// A lost reply is neither success nor failure: ask until the store says which. `None` when the node stops first.
async fn resolve(shared: &Shared, lane: &mut Lane, batch: &Batch) -> Option<Resolution> {
    let mut backoff = Duration::from_millis(5);
    loop {
        match lane.resolve(&batch.exchange.sessions).await {
            Ok(resolution) => return Some(resolution),
            Err(error) => tracing::warn!(%error, "resolving an exchange whose reply was lost"),
        }
        if shared.stop.is_cancelled() {
            return None;
        }
        wait(shared, &mut backoff).await;
    }
}

pub(super) async fn wait(shared: &Shared, backoff: &mut Duration) {
    let _ = shared.stop.run_until_cancelled(tokio::time::sleep(*backoff)).await;
    *backoff = (*backoff * 2).min(LONGEST_BACKOFF);
}

/// Whether the reply of an exchange names the results that were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusedResults {
    Named,
    Unknown,
}

async fn applied(shared: &Arc<Shared>, batch: Batch, reply: Reply, refused_results: RefusedResults) {
    if !reply.dead_sessions.is_empty() {
        return refused(shared, batch, &reply.dead_sessions).await;
    }
    metering::exchange_applied(shared, &batch.exchange, &reply);
    shared.remote.handed_in(shared, &batch.exchange, &reply.fenced, refused_results == RefusedResults::Named);
    for token in &reply.fenced {
        tracing::warn!(task = %token.key, attempt = token.attempt, "a result was refused: the attempt is not ours any more");
    }
    if reply.followed {
        ends_pending(shared);
    }
    notify_subscribers(shared, &batch.exchange, &reply);
    for run in reply.ended_runs {
        // There may be no receiver.
        let _ = shared.ended_runs.send(run);
    }
    wake_for_retries(shared, &batch.exchange);
    if reply.decidable || batch.exchange.ended.iter().any(|row| row.token.key.item >= 0) {
        shared.gatherer().look_for_decisions();
        shared.client.bus.signals().wake_lanes();
    }
    let own = batch.own();
    let (claimed, more) = shared.gatherer().applied(&batch, reply.claimed, Instant::now());
    if more {
        shared.client.bus.signals().wake_lanes();
    }
    stop_attempts(shared, &reply.cancel);
    if !claimed.is_empty() {
        assignments::execute(shared, claimed).await;
    }
    if !reply.to_decide.is_empty() && shared.gatherer().is_current(own) {
        assignments::decide(shared, reply.to_decide).await;
    }
}

/// Nothing was applied, because sessions of the batch are dead. The rows of the other sessions go back.
async fn refused(shared: &Arc<Shared>, batch: Batch, dead: &[i64]) {
    let own = batch.own();
    for session in dead.iter().filter(|session| **session != own) {
        shared.remote.lost(shared, *session);
    }
    if dead.contains(&own) {
        shared.gatherer().put_back(batch);
        return start_over(shared, own).await;
    }
    shared.gatherer().put_back(batch);
    shared.client.bus.signals().wake_lanes();
}

/// Runs with followers have ended, and the leader must count them. Other processes get the message only if one of them
/// leads.
pub(super) fn ends_pending(shared: &Shared) {
    if shared.term.borrow().is_some() {
        shared.client.bus.signals().events_pending();
    } else {
        shared.client.bus.publish(BusMessage::EventsPending);
    }
}

/// Sends hints for the runs that this exchange changed and the attempts that began, if there are subscribers.
fn notify_subscribers(shared: &Shared, exchange: &Exchange, reply: &Reply) {
    let hints = &shared.client.bus.hints();
    if !hints.wanted() {
        return;
    }
    let handed_in = exchange.ended.iter().map(|row| row.token).chain(exchange.continued.iter().map(|row| row.token));
    let mut last = None;
    for run in handed_in.map(|token| token.key.run).chain(reply.ended_runs.iter().map(|ended| ended.0)) {
        if last.replace(run) != Some(run) {
            hints.publish(Hint::Changed(run));
        }
    }
    let at = exchange.now;
    for claim in &reply.claimed {
        let TaskToken { key, session, attempt } = claim.token;
        hints.publish(Hint::Started { key, attempt, session, at });
    }
}

/// Stops attempts that were asked to end. The request repeats until they have ended; the reason is read from the store
/// once, off the lane.
fn stop_attempts(shared: &Arc<Shared>, tokens: &[TaskToken]) {
    let mut unexplained = Vec::new();
    for token in tokens {
        let (holds, reason) = {
            let gatherer = shared.gatherer();
            (gatherer.get(*token).is_some(), gatherer.reason(*token))
        };
        match reason {
            Some(reason) => shared.cancel(*token, &reason),
            None if holds => unexplained.push(*token),
            None => {}
        }
    }
    if unexplained.is_empty() {
        return;
    }
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let mut sessions: Vec<i64> = unexplained.iter().map(|token| token.session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let mut reasons = HashMap::new();
        for session in sessions {
            match shared.client.store.cancel_reasons(session).await {
                Ok(read) => reasons.extend(read),
                Err(error) => tracing::warn!(%error, "reading why attempts are to be stopped"),
            }
        }
        for token in unexplained {
            let reason: Arc<str> = reasons.get(&token).map_or("cancelled", String::as_str).into();
            shared.gatherer().keep_reason(token, Arc::clone(&reason));
            shared.cancel(token, &reason);
        }
    });
}

/// Wakes the promotion loop in time for the next retry.
fn wake_for_retries(shared: &Shared, exchange: &Exchange) {
    let soonest = exchange
        .continued
        .iter()
        .filter_map(|row| if let ContinuedAs::Retry { due_at } = row.how { Some(due_at) } else { None })
        .min();
    if let Some(due_at) = soonest {
        shared.due_then(due_at);
    }
}

/// The node's session was marked dead. Kills its attempts, forgets them, and opens a new session.
pub(crate) async fn start_over(shared: &Arc<Shared>, dead: i64) {
    if !shared.gatherer().mark_lost(dead) {
        return;
    }
    tracing::warn!(session = dead, "this worker's session was found dead: its work is killed and goes on elsewhere");
    shared.workforce.session_lost(dead);
    let mut backoff = Duration::from_millis(20);
    while !shared.stop.is_cancelled() {
        match shared.client.store.open_session(shared.client.now(), &shared.new_session()).await {
            Ok(session) => {
                shared.gatherer().start_over(session);
                shared.client.bus.look_here();
                return;
            }
            Err(error) => tracing::warn!(%error, "registering a new session"),
        }
        wait(shared, &mut backoff).await;
    }
}
