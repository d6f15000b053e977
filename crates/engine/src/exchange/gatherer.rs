//! State that the lanes of a node share: results to hand in, sessions, and their free slots.
//!
//! It is plain state behind one lock, and nothing waits while the lock is held.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use mainspring_core::workflow::SlotClass;
use mainspring_core::{RunId, TaskKey};
use mainspring_store::{ContinuedAttempt, DecidedStart, Ended, RouteRow, TaskToken};

use super::routes::Routes;
use super::session_inbox::{Held, Served, SessionInbox, Slots};
use super::tickets::TicketOffice;
use crate::bus::ClaimableRoutes;

#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) ended: VecDeque<Ended>,
    pub(super) continued: VecDeque<ContinuedAttempt>,
    pub(super) starts: VecDeque<DecidedStart>,
}

impl Results {
    pub(super) fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.continued.is_empty() && self.starts.is_empty()
    }

    fn drop_session(&mut self, session: i64) {
        self.ended.retain(|row| row.token.session != session);
        self.continued.retain(|row| row.token.session != session);
        self.starts.retain(|row| row.session != session);
    }
}

/// Collects what the sessions of a node hand in and want.
#[derive(Debug)]
pub(crate) struct Gatherer {
    /// The session of the node itself: its pool executes under it, and the node decides under it.
    pub(super) own: i64,
    pub(super) sessions: HashMap<i64, SessionInbox>,
    /// The order in which sessions are served within a route. It rotates after each exchange.
    pub(super) rotation: Vec<i64>,
    /// Results by lane. All results of a run go through one lane, so that lanes do not wait for each other's lock on
    /// the run.
    pub(super) results: Vec<Results>,
    /// Attempts that have ended and whose log is still being stored.
    unlogged: usize,
    /// Batches with results that a lane has taken and not finished.
    in_flight: usize,
    pub(super) routes: Routes,
    pub(super) look_for_undecided: bool,
    pub(super) draining: bool,
    /// Present only if streams dispatch queues.
    pub(super) tickets: Option<TicketOffice>,
    /// Until then, decisions are left to other nodes.
    pub(super) undecided_until: Option<Instant>,
}

impl Gatherer {
    pub(crate) fn new(own: i64, lanes: usize, pool: SessionInbox, weights: BTreeMap<String, u32>) -> Self {
        Self {
            own,
            sessions: HashMap::from([(own, pool)]),
            rotation: vec![own],
            results: (0..lanes.max(1)).map(|_| Results::default()).collect(),
            unlogged: 0,
            in_flight: 0,
            routes: Routes::with_weights(weights),
            look_for_undecided: true,
            draining: false,
            tickets: None,
            undecided_until: None,
        }
    }

    pub(crate) fn own(&self) -> i64 {
        self.own
    }

    /// Adds routes and the sessions that serve them.
    pub(crate) fn learn_routes(&mut self, rows: &[RouteRow], now: Instant) {
        let new: HashSet<i32> = rows.iter().filter(|row| self.routes.learn(row)).map(|row| row.id).collect();
        if new.is_empty() {
            return;
        }
        for (session, inbox) in &self.sessions {
            self.routes.serve(*session, |row| new.contains(&row.id) && inbox.served().takes(row), now);
        }
    }

    /// Adds a remote worker's session, unless it is known.
    pub(crate) fn join(&mut self, session: i64, served: Served, now: Instant) {
        if self.sessions.contains_key(&session) {
            return;
        }
        let inbox = SessionInbox::remote(served);
        self.routes.serve(session, |row| inbox.served().takes(row), now);
        self.sessions.insert(session, inbox);
        self.rotation.push(session);
    }

    /// Removes a remote worker's session that moved to another node or ended. Nothing is claimed or handed in for it
    /// here any more.
    pub(crate) fn leave(&mut self, session: i64) {
        if session == self.own || self.sessions.remove(&session).is_none() {
            return;
        }
        self.rotation.retain(|other| *other != session);
        self.routes.forget(session);
        self.results.iter_mut().for_each(|results| results.drop_session(session));
    }

    /// The class of a route's tasks.
    pub(crate) fn class_of(&self, route: i32) -> SlotClass {
        self.routes.class(route).unwrap_or(SlotClass::Process)
    }

    /// The routes that a session serves, without those that are paused.
    pub(crate) fn routes_of(&self, session: i64) -> Vec<i32> {
        self.routes.served_by(session)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining
    }

    pub(crate) fn session(&self, session: i64) -> Option<&SessionInbox> {
        self.sessions.get(&session)
    }

    pub(crate) fn session_mut(&mut self, session: i64) -> Option<&mut SessionInbox> {
        self.sessions.get_mut(&session)
    }

    /// Sets how many more tasks a remote worker can take, and looks at its routes again.
    pub(crate) fn want(&mut self, session: i64, wanted: Slots) {
        let Some(inbox) = self.sessions.get_mut(&session) else { return };
        inbox.set_free(wanted);
        if wanted.iter().any(|slots| *slots > 0) {
            self.routes.hungry_for(session);
        }
        self.notify_ticket_reader();
    }

    /// Any route may have become claimable.
    pub(crate) fn look_everywhere(&mut self) {
        self.routes.all_hungry();
        self.look_for_undecided = true;
    }

    /// These routes may have become claimable.
    pub(crate) fn look_at(&mut self, routes: &ClaimableRoutes) {
        match routes {
            ClaimableRoutes::Any => self.look_everywhere(),
            ClaimableRoutes::These(routes) => {
                for id in routes {
                    if let Some(route) = self.routes.get_mut(*id) {
                        route.wake();
                    }
                }
                self.look_for_undecided = true;
            }
        }
    }

    /// There may be decisions to claim.
    pub(crate) fn look_for_decisions(&mut self) {
        self.look_for_undecided = true;
    }

    /// Leaves a route to other nodes until then.
    pub(crate) fn avoid(&mut self, route: i32, until: Instant) {
        if let Some(route) = self.routes.get_mut(route) {
            route.avoid(until);
        }
    }

    /// Leaves decisions to other nodes until then.
    pub(crate) fn avoid_deciding(&mut self, until: Instant) {
        self.undecided_until = Some(until);
    }

    /// Stops claiming for all sessions of the node.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// Stops claiming for one session.
    pub(crate) fn drain_session(&mut self, session: i64) {
        if let Some(inbox) = self.sessions.get_mut(&session) {
            inbox.draining = true;
        }
    }

    /// The lane for the results of a run.
    fn lane_of(&self, run: RunId) -> usize {
        // The last bits of a UUID v7 are random.
        (run.as_u128() as usize) % self.results.len()
    }

    /// Queues an ended row and returns its lane.
    pub(crate) fn push_ended(&mut self, ended: Ended) -> usize {
        let lane = self.lane_of(ended.token.key.run);
        self.results[lane].ended.push_back(ended);
        lane
    }

    pub(crate) fn push_continued(&mut self, continued: ContinuedAttempt) -> usize {
        let lane = self.lane_of(continued.token.key.run);
        self.results[lane].continued.push_back(continued);
        lane
    }

    pub(crate) fn push_start(&mut self, start: DecidedStart) -> usize {
        let lane = self.lane_of(start.key.run);
        self.results[lane].starts.push_back(start);
        lane
    }

    /// Frees an attempt that its worker has ended. `None` if its session does not hold it any more.
    pub(crate) fn finish(&mut self, token: TaskToken) -> Option<Held> {
        let held = self.sessions.get_mut(&token.session)?.finish(token)?;
        self.notify_ticket_reader();
        Some(held)
    }

    /// Like [`Gatherer::finish`], for an attempt whose log must be stored before it is handed in.
    pub(crate) fn finish_unlogged(&mut self, token: TaskToken) -> Option<Held> {
        let held = self.finish(token)?;
        self.unlogged += 1;
        Some(held)
    }

    /// The logs of `count` attempts are stored and their results are queued.
    pub(crate) fn logged(&mut self, count: usize) {
        self.unlogged -= count;
    }

    pub(crate) fn get(&self, token: TaskToken) -> Option<&Held> {
        self.sessions.get(&token.session)?.get(token)
    }

    pub(crate) fn keep_reason(&mut self, token: TaskToken, reason: Arc<str>) {
        if let Some(inbox) = self.sessions.get_mut(&token.session) {
            inbox.keep_reason(token, reason);
        }
    }

    pub(crate) fn reason(&self, token: TaskToken) -> Option<Arc<str>> {
        self.sessions.get(&token.session)?.reason(token)
    }

    /// Whether the pool of this node executes the attempt.
    pub(crate) fn holds_attempt(&self, key: TaskKey, attempt: i32) -> bool {
        self.get(TaskToken { key, session: self.own, attempt }).is_some()
    }

    /// How many attempts the pool of this node executes.
    pub(crate) fn held(&self) -> usize {
        self.sessions.get(&self.own).map_or(0, SessionInbox::count)
    }

    /// A lane has taken a batch with results.
    pub(super) fn hand_in_begins(&mut self) {
        self.in_flight += 1;
    }

    /// A lane has finished a batch with results: they are applied, or queued again.
    pub(crate) fn hand_in_ended(&mut self) {
        self.in_flight -= 1;
    }

    /// Whether the pool holds nothing, and nothing waits to be handed in or is under way to the store.
    pub(crate) fn is_idle(&self) -> bool {
        self.held() == 0 && self.unlogged == 0 && self.in_flight == 0 && self.results.iter().all(Results::is_empty)
    }

    /// Whether this node carries the session and does not know it to be dead.
    pub(crate) fn is_current(&self, session: i64) -> bool {
        self.sessions.get(&session).is_some_and(|inbox| !inbox.lost)
    }

    /// Marks the node's own session dead: nothing that it holds counts any more. True for the first caller, which then
    /// opens a new session.
    pub(crate) fn mark_lost(&mut self, session: i64) -> bool {
        let Some(inbox) = self.sessions.get_mut(&session).filter(|inbox| !inbox.lost) else { return false };
        inbox.mark_lost();
        self.results.iter_mut().for_each(|results| results.drop_session(session));
        true
    }

    /// Replaces the node's own lost session.
    pub(crate) fn start_over(&mut self, session: i64) {
        if let Some(mut inbox) = self.sessions.remove(&self.own) {
            inbox.start_over();
            self.routes.replace(self.own, session);
            self.sessions.insert(session, inbox);
        }
        self.rotation.iter_mut().filter(|other| **other == self.own).for_each(|other| *other = session);
        self.own = session;
        self.look_everywhere();
    }
}

#[cfg(test)]
mod tests;
