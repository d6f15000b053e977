//! Batches: what one exchange hands in and asks for, and what its answer means for slots and routes.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use mainspring_core::Micros;
use mainspring_core::workflow::SlotClass;
use mainspring_store::{Claimed, Exchange, Want};

use super::gatherer::Gatherer;
use super::routes::{Chosen, Routes};
use super::session_inbox::SessionInbox;
use super::tickets::Ticket;

/// An exchange carries at most this many results, and asks for at most this many tasks per session and route.
const BATCH: usize = 500;
/// … and at most this many bytes of outputs and errors.
const BATCH_BYTES: usize = 1 << 20;

/// The demand of a route, what was claimed, and the rank and time of the last claim.
type Answered = (i32, i32, Option<(i16, Micros)>);

/// The content of one exchange, kept until it is known to be applied.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) exchange: Exchange,
    /// Tickets that permit a part of the demand.
    pub(super) tickets: Vec<Ticket>,
}

impl Batch {
    pub(crate) fn hands_in(&self) -> usize {
        self.exchange.ended.len() + self.exchange.continued.len() + self.exchange.starts.len()
    }

    /// The session of the node itself, under which it decides.
    pub(crate) fn own(&self) -> i64 {
        self.exchange.decide_session
    }
}

impl Gatherer {
    /// The next exchange, if there is a reason for one.
    pub(crate) fn take(&mut self, lane: usize, now: Instant) -> Option<Batch> {
        if !self.is_current(self.own) {
            return None;
        }
        let mut batch = Batch::default();
        self.take_results(lane, &mut batch);
        if batch.hands_in() == 0 && !self.has_reason_to_look(now) {
            return None;
        }
        if batch.hands_in() > 0 {
            self.hand_in_begins();
        }
        batch.exchange.decide_session = self.own;
        if !self.draining {
            self.add_wants(&mut batch, now);
            if self.undecided_until.is_none_or(|until| until <= now) {
                batch.exchange.decide = BATCH as i32;
                batch.exchange.look_for_undecided = self.look_for_undecided;
            }
        }
        self.look_for_undecided = false;
        self.add_sessions(&mut batch.exchange);
        Some(batch)
    }

    /// Whether an exchange without results may bring something. A node that drains claims nothing more, but attempts
    /// that it holds may be cancelled.
    fn has_reason_to_look(&self, now: Instant) -> bool {
        if self.draining {
            return self.look_for_undecided && self.sessions.values().any(|inbox| inbox.count() > 0);
        }
        self.look_for_undecided || self.routes.any_hungry(now, |route| self.room_for(route.class, &route.served_by))
    }

    fn take_results(&mut self, lane: usize, batch: &mut Batch) {
        let results = &mut self.results[lane];
        let mut bytes = 0;
        while batch.hands_in() < BATCH && bytes < BATCH_BYTES {
            if let Some(row) = results.ended.pop_front() {
                bytes += row.output.as_ref().map_or(0, String::len) + row.failure.as_ref().map_or(0, failure_bytes);
                batch.exchange.ended.push(row);
            } else if let Some(row) = results.continued.pop_front() {
                bytes += row.failure.as_ref().map_or(0, failure_bytes);
                batch.exchange.continued.push(row);
            } else if let Some(row) = results.starts.pop_front() {
                batch.exchange.starts.push(row);
            } else {
                break;
            }
        }
    }

    /// Names the sessions that appear, and those that hold attempts: the reply lists the attempts to cancel.
    fn add_sessions(&self, exchange: &mut Exchange) {
        let holding = self.sessions.iter().filter(|(_, inbox)| inbox.count() > 0 && !inbox.lost).map(|(id, _)| *id);
        exchange.sessions = sessions_of(exchange).chain(holding).collect();
        exchange.sessions.sort_unstable();
        exchange.sessions.dedup();
    }

    /// More to hand in than one exchange carries.
    pub(crate) fn has_more(&self, lane: usize) -> bool {
        !self.results[lane].is_empty()
    }

    fn room_for(&self, class: SlotClass, served_by: &[i64]) -> bool {
        served_by.iter().any(|session| self.sessions.get(session).is_some_and(|inbox| inbox.free(class) > 0))
    }

    /// Divides the free slots of every session among the routes that may have work. The slots stay reserved until the
    /// reply arrives.
    fn add_wants(&mut self, batch: &mut Batch, now: Instant) {
        let mut routes = std::mem::take(&mut self.routes);
        let chosen = routes.choose(now, |route| self.room_for(route.class, &route.served_by));
        for position in 0..chosen.len() {
            let Some(route) = routes.get_mut(chosen[position].route) else { continue };
            let (class, served_by) = (route.class, route.served_by.clone());
            if !self.room_for(class, &served_by) {
                // Other routes took the last slots, so this one waits for the next exchange.
                continue;
            }
            let mut permitted = route.permitted();
            let (hand_over_rank, floor) = route.ask(now);
            let (id, by_ticket, few) = (chosen[position].route, route.by_ticket, route.is_drained());
            let mut wants = Vec::new();
            for session in self.rotation.iter().filter(|session| served_by.contains(session)) {
                let Some(inbox) = self.sessions.get_mut(session) else { continue };
                let mut slots = share(&chosen[position..], &routes, *session, class, inbox);
                if let Some(permitted) = &mut permitted {
                    slots = slots.min(*permitted);
                    *permitted -= slots;
                }
                if slots > 0 {
                    inbox.reserve(class, slots);
                    wants.push(Want { session: *session, route: id, slots, hand_over_rank, floor });
                }
            }
            if let Some(route) = routes.get_mut(id).filter(|_| by_ticket) {
                let asked = wants.iter().map(|want| want.slots).sum();
                batch.tickets.extend(route.take_tickets(asked).map(|entry| Ticket { route: id, entry }));
            }
            // Rows are claimed in this order, so that a big worker does not take what would suffice for the small ones.
            wants.sort_by_key(|want| want.slots);
            batch.exchange.want.extend(if few && wants.len() > 1 { dealt_in_rounds(&wants) } else { wants });
        }
        self.routes = routes;
        self.rotation.rotate_left(1);
    }

    /// Reserves slots of the node's own pool for the first tasks of new runs, until the unit is settled.
    pub(crate) fn reserve_first(&mut self, rows: &BTreeMap<i32, i32>) -> Vec<Want> {
        let (own, mut wants, now) = (self.own, Vec::new(), Instant::now());
        if self.draining || !self.is_current(own) {
            return wants;
        }
        let Some(inbox) = self.sessions.get_mut(&own) else { return wants };
        for (id, rows) in rows {
            let Some(route) = self.routes.get(*id).filter(|route| route.served_by.contains(&own)) else { continue };
            let Some(hand_over_rank) = route.start_rank(now) else { continue };
            let slots = inbox.free(route.class).min(*rows);
            if slots > 0 {
                inbox.reserve(route.class, slots);
                wants.push(Want { session: own, route: *id, slots, hand_over_rank, floor: None });
            }
        }
        wants
    }

    /// Settles the slots reserved for first tasks. Returns the claims that belong to this node.
    pub(crate) fn started_first(&mut self, wants: &[Want], claimed: Vec<Claimed>) -> Vec<Claimed> {
        let mut used: HashMap<(i64, i32), i32> = HashMap::new();
        let mut new = Vec::with_capacity(claimed.len());
        for claim in claimed {
            *used.entry((claim.token.session, claim.route)).or_default() += 1;
            let class = self.class_of(claim.route);
            let inbox = self.sessions.get_mut(&claim.token.session).filter(|inbox| !inbox.lost);
            if inbox.is_some_and(|inbox| inbox.hold(&claim, class)) {
                new.push(claim);
            }
        }
        let exchange = Exchange { want: wants.to_vec(), ..Exchange::default() };
        self.settle_reserved(&Batch { exchange, tickets: Vec::new() }, &used);
        new
    }

    /// Settles an applied batch with its claims. Slots that were reserved and not used are free again. Returns the new
    /// claims, and whether there is probably more to claim.
    pub(crate) fn applied(&mut self, batch: &Batch, claimed: Vec<Claimed>, now: Instant) -> (Vec<Claimed>, bool) {
        let mut answers: HashMap<i32, Answered> = HashMap::new();
        for want in &batch.exchange.want {
            answers.entry(want.route).or_default().0 += want.slots;
        }
        let mut used: HashMap<(i64, i32), i32> = HashMap::new();
        let mut new = Vec::with_capacity(claimed.len());
        for claim in claimed {
            let answer = answers.entry(claim.route).or_default();
            answer.1 += 1;
            answer.2 = answer.2.max(Some((claim.rank, claim.due_at)));
            *used.entry((claim.token.session, claim.route)).or_default() += 1;
            let class = self.class_of(claim.route);
            let inbox = self.sessions.get_mut(&claim.token.session).filter(|inbox| !inbox.lost);
            // Claims of a lost or departed session do not belong to this node any more.
            if inbox.is_some_and(|inbox| inbox.hold(&claim, class)) {
                new.push(claim);
            }
        }
        self.settle_reserved(batch, &used);
        self.use_tickets(&batch.tickets);
        let mut more = false;
        for (route, (wanted, claimed, furthest)) in answers {
            if let Some(route) = self.routes.get_mut(route) {
                more |= route.answered(wanted, claimed, furthest, now);
            }
        }
        (new, more)
    }

    fn settle_reserved(&mut self, batch: &Batch, used: &HashMap<(i64, i32), i32>) {
        for want in &batch.exchange.want {
            let Some(class) = self.routes.class(want.route) else { continue };
            if let Some(inbox) = self.sessions.get_mut(&want.session) {
                inbox.settle_reserved(class, want.slots);
            }
        }
        for ((session, route), used) in used {
            let Some(class) = self.routes.class(*route) else { continue };
            // A lost session has freed its claims, including those on their way to it.
            if let Some(inbox) = self.sessions.get_mut(session).filter(|inbox| !inbox.lost) {
                inbox.take(class, *used);
            }
        }
    }

    /// Puts back a batch that was not applied, except the parts of departed sessions.
    pub(crate) fn put_back(&mut self, batch: Batch) {
        self.settle_reserved(&batch, &HashMap::new());
        self.return_tickets(batch.tickets);
        for want in &batch.exchange.want {
            if let Some(route) = self.routes.get_mut(want.route) {
                route.hungry = true;
            }
        }
        self.look_for_undecided |= batch.exchange.look_for_undecided;
        for row in batch.exchange.ended {
            if self.is_current(row.token.session) {
                self.push_ended(row);
            }
        }
        for row in batch.exchange.continued {
            if self.is_current(row.token.session) {
                self.push_continued(row);
            }
        }
        for row in batch.exchange.starts {
            if self.is_current(row.session) {
                self.push_start(row);
            }
        }
    }
}

/// Every session that this exchange concerns.
pub(crate) fn sessions_of(exchange: &Exchange) -> impl Iterator<Item = i64> {
    let ended = exchange.ended.iter().map(|row| row.token.session);
    let continued = exchange.continued.iter().map(|row| row.token.session);
    let starts = exchange.starts.iter().map(|row| row.session);
    let want = exchange.want.iter().map(|want| want.session);
    let sessions: Vec<i64> =
        ended.chain(continued).chain(starts).chain(want).chain([exchange.decide_session]).collect();
    sessions.into_iter()
}

/// Splits the demand into rounds of a quarter each, so that few rows are spread over all sessions instead of going to
/// the first.
fn dealt_in_rounds(wants: &[Want]) -> Vec<Want> {
    let mut dealt = Vec::with_capacity(wants.len() * 4);
    let mut left: Vec<i32> = wants.iter().map(|want| want.slots).collect();
    while left.iter().any(|slots| *slots > 0) {
        for (want, left) in wants.iter().zip(&mut left) {
            let slots = (*left).min((want.slots + 3) / 4);
            if slots > 0 {
                *left -= slots;
                dealt.push(Want { slots, ..*want });
            }
        }
    }
    dealt
}

/// The share of a session's free slots for the first of these routes.
fn share(routes: &[Chosen], known: &Routes, session: i64, class: SlotClass, inbox: &SessionInbox) -> i32 {
    let free = inbox.free(class);
    let competes = |chosen: &&Chosen| {
        known.get(chosen.route).is_some_and(|route| {
            inbox.served().slot_class(route.class) == inbox.served().slot_class(class)
                && route.served_by.contains(&session)
        })
    };
    let all: f64 = routes.iter().filter(competes).map(|chosen| chosen.part).sum();
    let part = if all > 0.0 { f64::from(free) * routes[0].part / all } else { f64::from(free) };
    (part as i32).max(1).min(free).min(BATCH as i32)
}

fn failure_bytes(failure: &mainspring_core::work::Failure) -> usize {
    failure.message.len() + failure.detail.as_ref().map_or(0, String::len)
}
