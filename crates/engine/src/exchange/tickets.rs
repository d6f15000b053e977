//! Tickets: entries of a dispatch stream that permit one claim each on a route whose queue is dispatched by Redis.
//!
//! While the streams are connected, such a route is asked for as many tasks as there are tickets, and not because a
//! message or a poll says so; a ticket is used up when the exchange that asked for it is applied, whether or not a task
//! was left to claim. While the streams are not heard, the route is like any other.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Notify;

use super::gatherer::Gatherer;

/// A permit for one claim on a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) route: i32,
    /// The id of its entry in the stream of the route.
    pub(crate) entry: String,
}

/// State that the reader of the streams shares with the gatherer.
#[derive(Debug)]
pub(super) struct TicketOffice {
    /// Used tickets that must be acknowledged.
    pub(super) used: Vec<Ticket>,
    /// Notified when a slot became free or a ticket was used.
    pub(super) changed: Arc<Notify>,
}

impl Gatherer {
    /// Dispatches these queues by streams, once the streams are connected. Returns the signal that the reader has
    /// something to read for or to acknowledge.
    pub(crate) fn dispatch(&mut self, queues: &BTreeSet<String>) -> Arc<Notify> {
        let changed = Arc::new(Notify::new());
        self.routes.dispatch(queues);
        self.tickets = Some(TicketOffice { used: Vec::new(), changed: Arc::clone(&changed) });
        changed
    }

    /// Notes whether the streams are connected. If not, waiting tickets are void and their routes are asked directly.
    pub(crate) fn set_dispatch_heard(&mut self, heard: bool) {
        self.routes.set_dispatch_heard(heard);
        if let Some(office) = &mut self.tickets {
            office.used.clear();
        }
    }

    /// All routes with a dispatched queue, whether or not this node serves them.
    pub(crate) fn dispatched_routes(&self) -> Vec<i32> {
        self.routes.dispatched()
    }

    /// Routes that sessions of this node serve by tickets, and how many more tickets each could use at once.
    pub(crate) fn ticket_room(&self) -> Vec<(i32, usize)> {
        if self.draining {
            return Vec::new();
        }
        let room = |served_by: &[i64], class| -> i32 {
            served_by.iter().filter_map(|session| self.sessions.get(session)).map(|inbox| inbox.free(class)).sum()
        };
        let routes = self.routes.by_ticket().map(|(id, route)| {
            let room = usize::try_from(room(&route.served_by, route.class)).unwrap_or(0);
            (id, room.saturating_sub(route.tickets.len()))
        });
        routes.filter(|(_, room)| *room > 0).collect()
    }

    /// Whether a slot may become free without a message of another process.
    pub(crate) fn is_working(&self) -> bool {
        self.sessions.len() > 1 || self.held() > 0
    }

    /// Adds a ticket.
    pub(crate) fn grant(&mut self, ticket: Ticket) {
        if let Some(route) = self.routes.get_mut(ticket.route)
            && !route.tickets.contains(&ticket.entry)
        {
            route.tickets.push_back(ticket.entry);
            route.hungry = true;
        }
    }

    /// Asks routes for rows without a ticket: an entry may have been lost, or never written.
    pub(crate) fn look_beyond_tickets(&mut self) {
        self.routes.look_beyond_tickets();
    }

    pub(crate) fn take_used_tickets(&mut self) -> Vec<Ticket> {
        self.tickets.as_mut().map(|office| std::mem::take(&mut office.used)).unwrap_or_default()
    }

    /// The exchange that used these tickets was applied.
    pub(super) fn use_tickets(&mut self, tickets: &[Ticket]) {
        if let Some(office) = self.tickets.as_mut().filter(|_| !tickets.is_empty()) {
            office.used.extend_from_slice(tickets);
            office.changed.notify_one();
        }
    }

    /// The exchange that used these tickets was not applied.
    pub(super) fn return_tickets(&mut self, tickets: Vec<Ticket>) {
        for ticket in tickets.into_iter().rev() {
            if let Some(route) = self.routes.get_mut(ticket.route).filter(|route| route.by_ticket) {
                route.tickets.push_front(ticket.entry);
                route.hungry = true;
            }
        }
    }

    /// Wakes the reader, because a slot may have become free.
    pub(super) fn notify_ticket_reader(&self) {
        if let Some(office) = &self.tickets {
            office.changed.notify_one();
        }
    }
}
