//! Which routes may have work, and their order: routes rotate within a namespace, namespaces share by weight.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_core::workflow::SlotClass;
use mainspring_store::RouteRow;

/// How many routes one exchange asks.
const ROUTES_PER_EXCHANGE: usize = 12;
/// How long a route that gave work is asked again without a wake-up.
const ROUTE_STAYS_WARM: Duration = Duration::from_secs(1);
/// The floor of a route is dropped this often, so that a late commit below it is found.
const FLOOR_LASTS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) class: SlotClass,
    /// Sessions that may execute its tasks.
    pub(crate) served_by: Vec<i64>,
    /// There may be rows to claim.
    pub(crate) hungry: bool,
    /// The last claim found fewer rows than it asked for, so nothing of a better rank waits.
    drained: bool,
    last_rank: i16,
    floor: Option<(i16, Micros)>,
    floor_since: Instant,
    warm_until: Option<Instant>,
    /// Whether a claim on this route was ever answered. Until then it is unknown what waits.
    answered_once: bool,
    /// The route is asked only as often as there are tickets.
    pub(crate) by_ticket: bool,
    pub(crate) tickets: VecDeque<String>,
    /// The next claim ignores tickets.
    beyond_tickets: bool,
    /// Until then the route is left to other nodes.
    avoided_until: Option<Instant>,
    /// Nothing of it is started for now.
    paused: bool,
}

impl Route {
    /// The route may have rows to claim. A route with tickets is woken only by tickets.
    pub(crate) fn wake(&mut self) {
        self.hungry |= !self.by_ticket;
    }

    /// How many tasks may be asked for now, if fewer than there are slots.
    pub(crate) fn permitted(&self) -> Option<i32> {
        let by_ticket = self.by_ticket && !self.beyond_tickets;
        by_ticket.then(|| i32::try_from(self.tickets.len()).unwrap_or(i32::MAX))
    }

    /// Takes the tickets that permit a claim of this many tasks.
    pub(crate) fn take_tickets(&mut self, asked: i32) -> impl Iterator<Item = String> + '_ {
        let count = usize::try_from(asked).unwrap_or(0).min(self.tickets.len());
        self.beyond_tickets = false;
        self.hungry = self.tickets.len() > count;
        self.tickets.drain(..count)
    }

    /// The rank up to which dependents may skip the queue, and the position of the last claim. Another lane need not
    /// ask the same until the answer arrives.
    pub(crate) fn ask(&mut self, now: Instant) -> (i16, Option<(i16, Micros)>) {
        self.hungry = false;
        if now.duration_since(self.floor_since) > FLOOR_LASTS {
            self.floor = None;
            self.floor_since = now;
        }
        (if self.drained { i16::MAX } else { self.last_rank }, self.floor)
    }

    /// Notes the claim of an exchange that asked for `wanted` rows, and the position of its last row. True if there is
    /// probably more.
    pub(crate) fn answered(
        &mut self,
        wanted: i32,
        claimed: i32,
        furthest: Option<(i16, Micros)>,
        now: Instant,
    ) -> bool {
        let full = claimed >= wanted;
        self.answered_once = true;
        // A wake-up that came meanwhile stays pending.
        self.hungry |= if self.by_ticket { !self.tickets.is_empty() } else { full };
        self.drained = !full;
        if claimed > 0 {
            self.warm_until = Some(now + ROUTE_STAYS_WARM);
        }
        match furthest {
            // Behind a full claim there is more of the same; in front of it only rows that are dead, taken or late.
            Some(position) if full => {
                self.last_rank = position.0;
                self.floor = Some(position);
            }
            _ => self.floor = None,
        }
        full
    }

    pub(crate) fn avoid(&mut self, until: Instant) {
        self.avoided_until = Some(until);
    }

    /// Whether nothing is asked of the route for now.
    fn is_closed(&self, now: Instant) -> bool {
        self.paused || self.avoided_until.is_some_and(|until| until > now)
    }

    fn set_paused(&mut self, paused: bool) {
        self.hungry |= self.paused && !paused;
        self.paused = paused;
    }

    /// Whether the last claim found less than it asked for.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained
    }

    /// The rank up to which new runs may start at once, because no earlier row waits.
    pub(crate) fn start_rank(&self, now: Instant) -> Option<i16> {
        if self.is_closed(now) {
            return None;
        }
        match (self.answered_once, self.drained) {
            (false, _) => None,
            (true, true) => Some(i16::MAX),
            (true, false) => self.last_rank.checked_sub(1),
        }
    }

    fn is_worth_a_look(&self, now: Instant) -> bool {
        let warm = !self.by_ticket && self.warm_until.is_some_and(|until| until > now);
        (self.hungry || warm) && !self.is_closed(now)
    }
}

#[derive(Debug)]
struct Namespace {
    weight: u32,
    /// The routes, rotated after each exchange.
    routes: Vec<i32>,
}

/// A route to ask, and its share of the slots relative to the other chosen routes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) route: i32,
    pub(crate) part: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Routes {
    routes_by_id: HashMap<i32, Route>,
    /// Every route that was read, including those without a session.
    rows: HashMap<i32, RouteRow>,
    namespaces: Vec<Namespace>,
    namespace_names: HashMap<String, usize>,
    weights: BTreeMap<String, u32>,
    /// The namespace that is asked first.
    next_namespace: usize,
    /// Queues that streams dispatch, and whether the streams are connected.
    dispatched_queues: BTreeSet<String>,
    dispatch_is_heard: bool,
}

impl Routes {
    pub(crate) fn with_weights(weights: BTreeMap<String, u32>) -> Self {
        Self { weights, ..Self::default() }
    }

    pub(crate) fn get(&self, id: i32) -> Option<&Route> {
        self.routes_by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: i32) -> Option<&mut Route> {
        self.routes_by_id.get_mut(&id)
    }

    pub(crate) fn class(&self, id: i32) -> Option<SlotClass> {
        self.rows.get(&id).map(RouteRow::class)
    }

    /// Adds a route, or notes whether it is paused. True if it is new.
    pub(crate) fn learn(&mut self, row: &RouteRow) -> bool {
        if let Some(known) = self.rows.get_mut(&row.id) {
            known.paused = row.paused;
            if let Some(route) = self.routes_by_id.get_mut(&row.id) {
                route.set_paused(row.paused);
            }
            return false;
        }
        self.rows.insert(row.id, row.clone());
        true
    }

    /// Notes that a session serves these known routes.
    pub(crate) fn serve(&mut self, session: i64, takes: impl Fn(&RouteRow) -> bool, now: Instant) {
        let rows: Vec<RouteRow> = self.rows.values().filter(|row| takes(row)).cloned().collect();
        for row in rows {
            let route = self.route(&row, now);
            if !route.served_by.contains(&session) {
                route.served_by.push(session);
                route.hungry = true;
                route.beyond_tickets = true;
            }
        }
    }

    fn route(&mut self, row: &RouteRow, now: Instant) -> &mut Route {
        let next = self.namespaces.len();
        let namespace = *self.namespace_names.entry(row.namespace.clone()).or_insert(next);
        if namespace == next {
            let weight = self.weights.get(&row.namespace).copied().unwrap_or(1).max(1);
            self.namespaces.push(Namespace { weight, routes: Vec::new() });
        }
        let routes = &mut self.namespaces[namespace].routes;
        let by_ticket = self.dispatch_is_heard && self.dispatched_queues.contains(&row.queue);
        self.routes_by_id.entry(row.id).or_insert_with(|| {
            routes.push(row.id);
            Route {
                class: row.class(),
                served_by: Vec::new(),
                hungry: true,
                drained: true,
                last_rank: i16::MAX,
                floor: None,
                floor_since: now,
                warm_until: None,
                answered_once: false,
                by_ticket,
                tickets: VecDeque::new(),
                beyond_tickets: true,
                avoided_until: None,
                paused: row.paused,
            }
        })
    }

    /// The routes of a session that are not paused.
    pub(crate) fn served_by(&self, session: i64) -> Vec<i32> {
        let open = self.routes_by_id.iter().filter(|(_, route)| !route.paused && route.served_by.contains(&session));
        open.map(|(id, _)| *id).collect()
    }

    /// Removes a session from all routes.
    pub(crate) fn forget(&mut self, session: i64) {
        for route in self.routes_by_id.values_mut() {
            route.served_by.retain(|served_by| *served_by != session);
        }
    }

    /// Replaces a session by another.
    pub(crate) fn replace(&mut self, old: i64, new: i64) {
        for route in self.routes_by_id.values_mut() {
            route.served_by.iter_mut().filter(|session| **session == old).for_each(|session| *session = new);
        }
    }

    /// Wakes the routes that a session serves.
    pub(crate) fn hungry_for(&mut self, session: i64) {
        for route in self.routes_by_id.values_mut().filter(|route| route.served_by.contains(&session)) {
            route.wake();
        }
    }

    pub(crate) fn all_hungry(&mut self) {
        self.routes_by_id.values_mut().for_each(Route::wake);
    }

    pub(crate) fn dispatch(&mut self, queues: &BTreeSet<String>) {
        self.dispatched_queues = queues.clone();
    }

    /// All routes whose queue is dispatched.
    pub(crate) fn dispatched(&self) -> Vec<i32> {
        self.rows.values().filter(|row| self.dispatched_queues.contains(&row.queue)).map(|row| row.id).collect()
    }

    /// Routes that are asked by tickets at the moment.
    pub(crate) fn by_ticket(&self) -> impl Iterator<Item = (i32, &Route)> {
        self.routes_by_id.iter().filter(|(_, route)| route.by_ticket && !route.paused).map(|(id, route)| (*id, route))
    }

    pub(crate) fn set_dispatch_heard(&mut self, heard: bool) {
        self.dispatch_is_heard = heard;
        for id in self.dispatched() {
            if let Some(route) = self.routes_by_id.get_mut(&id) {
                route.by_ticket = heard;
                route.tickets.clear();
                route.beyond_tickets = true;
                route.hungry = true;
            }
        }
    }

    pub(crate) fn look_beyond_tickets(&mut self) {
        for route in self.routes_by_id.values_mut().filter(|route| route.by_ticket) {
            route.beyond_tickets = true;
            route.hungry = true;
        }
    }

    /// Whether a route may have work for a free slot.
    pub(crate) fn any_hungry(&self, now: Instant, has_room: impl Fn(&Route) -> bool) -> bool {
        self.routes_by_id.values().any(|route| route.hungry && has_room(route) && !route.is_closed(now))
    }

    /// The routes to ask now: of each namespace in turn as many as its weight allows, up to the limit.
    pub(crate) fn choose(&mut self, now: Instant, has_room: impl Fn(&Route) -> bool) -> Vec<Chosen> {
        let mut waiting: Vec<Vec<i32>> = self
            .namespaces
            .iter()
            .map(|namespace| {
                let worth = |id: &&i32| {
                    self.routes_by_id.get(*id).is_some_and(|route| route.is_worth_a_look(now) && has_room(route))
                };
                namespace.routes.iter().filter(worth).rev().copied().collect()
            })
            .collect();
        let count = self.namespaces.len();
        let mut chosen: Vec<(usize, i32)> = Vec::new();
        while chosen.len() < ROUTES_PER_EXCHANGE && waiting.iter().any(|routes| !routes.is_empty()) {
            for step in 0..count {
                let namespace = (self.next_namespace + step) % count;
                for _ in 0..self.namespaces[namespace].weight {
                    if let Some(route) = waiting[namespace].pop() {
                        chosen.push((namespace, route));
                    }
                }
            }
        }
        chosen.truncate(ROUTES_PER_EXCHANGE);
        self.advance(&chosen);
        let among = |namespace: usize| chosen.iter().filter(|(other, _)| *other == namespace).count() as f64;
        let part = |namespace: usize| f64::from(self.namespaces[namespace].weight) / among(namespace);
        chosen.iter().map(|(namespace, route)| Chosen { route: *route, part: part(*namespace) }).collect()
    }

    /// Moves the chosen routes behind the others.
    fn advance(&mut self, chosen: &[(usize, i32)]) {
        for (namespace, route) in chosen {
            let routes = &mut self.namespaces[*namespace].routes;
            if let Some(position) = routes.iter().position(|other| other == route) {
                let route = routes.remove(position);
                routes.push(route);
            }
        }
        if let Some(count) = std::num::NonZeroUsize::new(self.namespaces.len()) {
            self.next_namespace = (self.next_namespace + 1) % count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_route_is_not_asked_until_it_is_resumed() {
        let now = Instant::now();
        let mut routes = Routes::default();
        let mut row = RouteRow::new(1, "default", "gpu", "", SlotClass::Process);
        routes.learn(&row);
        routes.serve(7, |_| true, now);
        assert_eq!(routes.choose(now, |_| true).len(), 1);
        let route = routes.get_mut(1).unwrap();
        route.ask(now);
        route.answered(2, 0, None, now);
        assert_eq!(route.start_rank(now), Some(i16::MAX));
        row.paused = true;
        routes.learn(&row);
        routes.all_hungry();
        assert!(routes.choose(now, |_| true).is_empty() && !routes.any_hungry(now, |_| true));
        assert_eq!(routes.get(1).unwrap().start_rank(now), None, "new runs do not start either");
        assert!(routes.served_by(7).is_empty(), "nothing of it is asked of other workers");
        routes.get_mut(1).unwrap().ask(now);
        row.paused = false;
        routes.learn(&row);
        assert!(routes.any_hungry(now, |_| true), "what gathered meanwhile is asked for at once");
    }
}
