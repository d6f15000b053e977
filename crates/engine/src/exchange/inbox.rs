//! What the lanes of a node share: what is to be handed in, what is held, which slots are free, and where to look.
//!
//! Everything here is plain state behind one lock; nothing waits while it is held.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_core::workflow::SlotClass;
use mainspring_core::{Micros, RunId, TaskKey};
use mainspring_store::{Claimed, DecidedStart, Ended, Exchange, GoesOn, RouteRow, TaskToken, Want};

use crate::bus::ClaimableRoutes;

/// An exchange carries at most this many results, and asks for at most this many tasks.
const BATCH: usize = 500;
/// … and at most this many bytes of outputs and errors.
const BATCH_BYTES: usize = 1 << 20;
/// How many routes one exchange looks at.
const ROUTES_PER_EXCHANGE: usize = 12;
/// How long a route that gave work is looked at again without being asked to.
const ROUTE_STAYS_WARM: Duration = Duration::from_secs(1);
/// The floor of a route is dropped this often, for a full look at what a late commit may have left behind it.
const FLOOR_LASTS: Duration = Duration::from_secs(1);

/// One attempt that our worker executes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) version: i64,
    pub(crate) failures: i16,
    pub(crate) generation: i16,
    pub(crate) class: SlotClass,
}

#[derive(Debug)]
struct Route {
    class: SlotClass,
    /// There may be rows to claim.
    hungry: bool,
    /// The last claim found fewer rows than it asked for: nobody better waits.
    drained: bool,
    last_rank: i16,
    floor: Option<(i16, Micros)>,
    floor_since: Instant,
    warm_until: Option<Instant>,
}

/// What one exchange carries, kept until it is known to be applied.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) exchange: Exchange,
    reserved: [i32; 2],
}

impl Batch {
    pub(crate) fn hands_in(&self) -> usize {
        self.exchange.ended.len() + self.exchange.goes_on.len() + self.exchange.starts.len()
    }

    pub(crate) fn session(&self) -> i64 {
        self.exchange.decide_session
    }
}

#[derive(Debug, Default)]
struct Results {
    ended: VecDeque<Ended>,
    goes_on: VecDeque<GoesOn>,
    starts: VecDeque<DecidedStart>,
}

impl Results {
    fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.goes_on.is_empty() && self.starts.is_empty()
    }
}

#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) session: i64,
    /// The session was found dead, and there is no other yet.
    lost: bool,
    /// What is to be handed in, by lane: all results of a run go through one lane, so that lanes do not wait for each
    /// other's lock on it.
    results: Vec<Results>,
    held: HashMap<TaskToken, Held>,
    /// Why attempts that are held must stop, as far as it is known.
    reasons: HashMap<TaskToken, Arc<str>>,
    /// Attempts that are over, but whose log is still being stored before they are handed in.
    unlogged: usize,
    free: [i32; 2],
    routes: HashMap<i32, Route>,
    /// The order in which routes are asked, turned after each exchange so that all get their turn.
    order: Vec<i32>,
    look_for_undecided: bool,
    draining: bool,
}

impl Inbox {
    pub(crate) fn new(session: i64, lanes: usize, process_slots: i32, function_slots: i32) -> Self {
        Self {
            session,
            lost: false,
            results: (0..lanes.max(1)).map(|_| Results::default()).collect(),
            held: HashMap::new(),
            reasons: HashMap::new(),
            unlogged: 0,
            free: [process_slots, function_slots],
            routes: HashMap::new(),
            order: Vec::new(),
            look_for_undecided: true,
            draining: false,
        }
    }

    /// Learns of routes that our worker may serve.
    pub(crate) fn serve(&mut self, routes: &[RouteRow], now: Instant) {
        for route in routes {
            self.serve_route(route.id, route.class(), now);
        }
    }

    fn serve_route(&mut self, id: i32, class: SlotClass, now: Instant) {
        if self.routes.contains_key(&id) {
            return;
        }
        self.order.push(id);
        // What remote workers execute takes the place of a function here.
        let class = if class == SlotClass::Remote { SlotClass::Function } else { class };
        self.routes.insert(
            id,
            Route {
                class,
                hungry: true,
                drained: true,
                last_rank: i16::MAX,
                floor: None,
                floor_since: now,
                warm_until: None,
            },
        );
    }

    /// Something may be claimable anywhere.
    pub(crate) fn look_everywhere(&mut self) {
        self.routes.values_mut().for_each(|route| route.hungry = true);
        self.look_for_undecided = true;
    }

    /// Something may be claimable on these routes.
    pub(crate) fn look_at(&mut self, routes: &ClaimableRoutes) {
        match routes {
            ClaimableRoutes::Any => self.look_everywhere(),
            ClaimableRoutes::These(routes) => {
                for id in routes {
                    if let Some(route) = self.routes.get_mut(id) {
                        route.hungry = true;
                    }
                }
                self.look_for_undecided = true;
            }
        }
    }

    /// There may be something to decide.
    pub(crate) fn look_for_decisions(&mut self) {
        self.look_for_undecided = true;
    }

    /// No new work from now on.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// The lane that a run's results go through.
    fn lane_of(&self, run: RunId) -> usize {
        // The last bits of a UUID v7 are random.
        (run.as_u128() as usize) % self.results.len()
    }

    /// Each returns the lane that has to hand it in.
    pub(crate) fn push_ended(&mut self, ended: Ended) -> usize {
        let lane = self.lane_of(ended.token.key.run);
        self.results[lane].ended.push_back(ended);
        lane
    }

    pub(crate) fn push_goes_on(&mut self, goes_on: GoesOn) -> usize {
        let lane = self.lane_of(goes_on.token.key.run);
        self.results[lane].goes_on.push_back(goes_on);
        lane
    }

    pub(crate) fn push_start(&mut self, start: DecidedStart) -> usize {
        let lane = self.lane_of(start.key.run);
        self.results[lane].starts.push_back(start);
        lane
    }

    /// The worker is done with an attempt: its slot is free. `None` if it is not ours (any more).
    pub(crate) fn finish(&mut self, token: TaskToken) -> Option<Held> {
        let held = self.held.remove(&token)?;
        self.reasons.remove(&token);
        self.free[held.class as usize] += 1;
        Some(held)
    }

    /// Like [`Inbox::finish`], for an attempt that is handed in only when its log is stored.
    pub(crate) fn finish_unlogged(&mut self, token: TaskToken) -> Option<Held> {
        let held = self.finish(token)?;
        self.unlogged += 1;
        Some(held)
    }

    /// The logs of so many attempts are stored, and their results were pushed.
    pub(crate) fn logged(&mut self, count: usize) {
        self.unlogged -= count;
    }

    /// What an attempt that is held occupies.
    pub(crate) fn class(&self, token: TaskToken) -> Option<SlotClass> {
        self.held.get(&token).map(|held| held.class)
    }

    /// The version that an attempt which is held belongs to.
    pub(crate) fn version(&self, token: TaskToken) -> Option<i64> {
        self.held.get(&token).map(|held| held.version)
    }

    pub(crate) fn keep_reason(&mut self, token: TaskToken, reason: Arc<str>) {
        if self.holds(token) {
            self.reasons.insert(token, reason);
        }
    }

    pub(crate) fn reason(&self, token: TaskToken) -> Option<Arc<str>> {
        self.reasons.get(&token).cloned()
    }

    pub(crate) fn holds(&self, token: TaskToken) -> bool {
        self.held.contains_key(&token)
    }

    pub(crate) fn holds_attempt(&self, key: TaskKey, attempt: i32) -> bool {
        self.holds(TaskToken { key, session: self.session, attempt })
    }

    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Nothing is held and nothing waits to be handed in.
    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.unlogged == 0 && self.results.iter().all(Results::is_empty)
    }

    /// Whether this is our session, and alive as far as we know.
    pub(crate) fn is_current(&self, session: i64) -> bool {
        self.session == session && !self.lost
    }

    /// The next exchange, if there is reason for one.
    pub(crate) fn take(&mut self, lane: usize, now: Instant) -> Option<Batch> {
        if self.lost {
            return None;
        }
        let mut batch = Batch::default();
        let mut bytes = 0;
        let results = &mut self.results[lane];
        while batch.hands_in() < BATCH && bytes < BATCH_BYTES {
            if let Some(row) = results.ended.pop_front() {
                bytes += row.output.as_ref().map_or(0, String::len) + row.failure.as_ref().map_or(0, failure_bytes);
                batch.exchange.ended.push(row);
            } else if let Some(row) = results.goes_on.pop_front() {
                bytes += row.failure.as_ref().map_or(0, failure_bytes);
                batch.exchange.goes_on.push(row);
            } else if let Some(row) = results.starts.pop_front() {
                batch.exchange.starts.push(row);
            } else {
                break;
            }
        }
        let hands_in = batch.hands_in() > 0;
        let hungry = !self.draining
            && (self.look_for_undecided
                || self.routes.values().any(|route| route.hungry && self.free[route.class as usize] > 0));
        if !hands_in && !hungry {
            return None;
        }
        if !self.draining {
            self.add_wants(&mut batch, now);
            batch.exchange.decide = BATCH as i32;
            batch.exchange.look_for_undecided = std::mem::take(&mut self.look_for_undecided);
        }
        batch.exchange.decide_session = self.session;
        batch.exchange.sessions = vec![self.session];
        Some(batch)
    }

    /// More to hand in than one exchange carries.
    pub(crate) fn has_more(&self, lane: usize) -> bool {
        !self.results[lane].is_empty()
    }

    /// Shares the free slots among the routes that may have work. They are reserved until the reply is in.
    fn add_wants(&mut self, batch: &mut Batch, now: Instant) {
        let chosen: Vec<i32> = self
            .order
            .iter()
            .copied()
            .filter(|id| {
                let route = &self.routes[id];
                (route.hungry || route.warm_until.is_some_and(|until| until > now))
                    && self.free[route.class as usize] > 0
            })
            .take(ROUTES_PER_EXCHANGE)
            .collect();
        let mut competing = [0i32; 2];
        for id in &chosen {
            competing[self.routes[id].class as usize] += 1;
        }
        for id in chosen {
            let Some(route) = self.routes.get_mut(&id) else { continue };
            let class = route.class as usize;
            let slots = (self.free[class] / competing[class].max(1)).max(1).min(self.free[class]).min(BATCH as i32);
            competing[class] -= 1;
            if slots <= 0 {
                continue;
            }
            self.free[class] -= slots;
            batch.reserved[class] += slots;
            // Asked now: another lane need not ask the same until the answer is in.
            route.hungry = false;
            if now.duration_since(route.floor_since) > FLOOR_LASTS {
                route.floor = None;
                route.floor_since = now;
            }
            let hand_over_rank = if route.drained { i16::MAX } else { route.last_rank };
            batch.exchange.want.push(Want {
                session: self.session,
                route: id,
                slots,
                hand_over_rank,
                floor: route.floor,
            });
        }
        if !self.order.is_empty() {
            let turn = ROUTES_PER_EXCHANGE.min(self.order.len());
            if self.order.len() > ROUTES_PER_EXCHANGE {
                self.order.rotate_left(turn);
            } else {
                self.order.rotate_left(1);
            }
        }
    }

    /// The batch was applied and this is what it claimed. Only what was reserved and not used is free again.
    /// True if there is probably more to claim.
    pub(crate) fn applied(&mut self, batch: &Batch, claimed: &[Claimed], now: Instant) -> bool {
        let mut more = false;
        let mut used = [0i32; 2];
        // What an earlier session of ours claimed is not ours any more.
        let current = self.is_current(batch.session());
        for want in &batch.exchange.want {
            let Some(route) = self.routes.get_mut(&want.route) else { continue };
            let mut count = 0;
            let mut furthest: Option<(i16, Micros)> = None;
            for claim in claimed.iter().filter(|claim| current && claim.route == want.route) {
                count += 1;
                furthest = furthest.max(Some((claim.rank, claim.due_at)));
                let (version, failures, generation) = (claim.version, claim.failures, claim.generation);
                self.held.insert(claim.token, Held { version, failures, generation, class: route.class });
            }
            used[route.class as usize] += count;
            let full = count >= want.slots;
            // A look that was asked for meanwhile stays asked for.
            route.hungry |= full;
            more |= full;
            route.drained = !full;
            if count > 0 {
                route.warm_until = Some(now + ROUTE_STAYS_WARM);
            }
            match furthest {
                // Behind a full claim lies more of the same; in front of it only what is dead, taken or late.
                Some(position) if full => {
                    route.last_rank = position.0;
                    route.floor = Some(position);
                }
                _ => route.floor = None,
            }
        }
        for (class, used) in used.into_iter().enumerate() {
            self.free[class] += batch.reserved[class] - used;
        }
        more
    }

    /// The batch was not applied: everything goes back.
    pub(crate) fn put_back(&mut self, batch: Batch) {
        if self.is_current(batch.session()) {
            for row in batch.exchange.ended {
                self.push_ended(row);
            }
            for row in batch.exchange.goes_on {
                self.push_goes_on(row);
            }
            for row in batch.exchange.starts {
                self.push_start(row);
            }
        }
        for want in &batch.exchange.want {
            if let Some(route) = self.routes.get_mut(&want.route) {
                route.hungry = true;
            }
        }
        for class in 0..2 {
            self.free[class] += batch.reserved[class];
        }
        self.look_for_undecided |= batch.exchange.look_for_undecided;
    }

    /// A session is dead: nothing that it holds or wanted to hand in counts any more. True for whoever is the first to
    /// notice: opening another is up to him.
    pub(crate) fn lose(&mut self, session: i64) -> bool {
        if !self.is_current(session) {
            return false;
        }
        self.lost = true;
        for held in self.held.values() {
            self.free[held.class as usize] += 1;
        }
        self.held.clear();
        self.reasons.clear();
        self.results.iter_mut().for_each(|results| *results = Results::default());
        true
    }

    /// A new session begins in the place of the lost one.
    pub(crate) fn start_over(&mut self, session: i64) {
        self.session = session;
        self.lost = false;
        self.look_everywhere();
    }
}

fn failure_bytes(failure: &mainspring_core::work::Failure) -> usize {
    failure.message.len() + failure.detail.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> Inbox {
        let mut inbox = Inbox::new(7, 1, 4, 4);
        inbox.serve_route(1, SlotClass::Function, Instant::now());
        inbox
    }

    fn claimed(session: i64) -> Claimed {
        let key = TaskKey { run: RunId::from_u128(1), index: 0, item: -1 };
        Claimed {
            token: TaskToken { key, session, attempt: 1 },
            version: 1,
            failures: 0,
            generation: 0,
            route: 1,
            rank: 0,
            due_at: 0,
        }
    }

    #[test]
    fn a_session_is_lost_once_and_nothing_is_exchanged_until_there_is_another() {
        let mut inbox = inbox();
        let batch = inbox.take(0, Instant::now()).unwrap();
        inbox.applied(&batch, &[claimed(7)], Instant::now());
        assert!(inbox.lose(7));
        assert!(!inbox.lose(7), "somebody else is opening another already");
        assert_eq!(inbox.held(), 0);
        inbox.look_everywhere();
        assert!(inbox.take(0, Instant::now()).is_none());
        inbox.start_over(8);
        assert!(!inbox.lose(7), "that was the one before");
        let batch = inbox.take(0, Instant::now()).unwrap();
        assert_eq!(batch.session(), 8);
        assert_eq!(batch.exchange.want[0].slots, 4, "what the lost session occupied is free");
    }

    #[test]
    fn a_claim_that_is_heard_of_after_the_loss_is_not_held() {
        let mut inbox = inbox();
        let batch = inbox.take(0, Instant::now()).unwrap();
        assert!(inbox.lose(7));
        inbox.applied(&batch, &[claimed(7)], Instant::now());
        assert_eq!(inbox.held(), 0);
        inbox.start_over(8);
        assert_eq!(inbox.take(0, Instant::now()).unwrap().exchange.want[0].slots, 4);
    }
}
