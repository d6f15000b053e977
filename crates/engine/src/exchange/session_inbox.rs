//! The state of one session: its attempts, its free slots, and the routes that it serves.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mainspring_core::recent::Recent;
use mainspring_core::workflow::SlotClass;
use mainspring_store::{Claimed, RouteRow, TaskToken};

/// How many finished attempts of a remote session are remembered.
const REMEMBERED: usize = 1_000;

/// Slots by [`SlotClass`].
pub(crate) type Slots = [i32; 3];

/// One attempt that a session executes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) version: i64,
    pub(crate) failures: i16,
    pub(crate) generation: i16,
    /// The class of the slot that it occupies.
    pub(crate) class: SlotClass,
}

/// The tasks that a worker may execute.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served {
    /// Empty means all.
    pub(crate) queues: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// `None` means all.
    pub(crate) namespaces: Option<Vec<String>>,
    /// Whether the worker has slots of each class.
    pub(crate) classes: [bool; 3],
    /// Tasks for remote workers occupy function slots, because the node's own pool has no other slots for them.
    pub(crate) remote_as_function: bool,
}

impl Served {
    pub(crate) fn takes(&self, route: &RouteRow) -> bool {
        route.is_understood()
            && self.classes[route.class() as usize]
            && route.suits(&self.queues, &self.labels)
            && self.namespaces.as_ref().is_none_or(|names| names.contains(&route.namespace))
    }

    pub(crate) fn slot_class(&self, class: SlotClass) -> SlotClass {
        if self.remote_as_function && class == SlotClass::Remote { SlotClass::Function } else { class }
    }
}

/// The state of one session at this node.
#[derive(Debug)]
pub(crate) struct SessionInbox {
    served: Served,
    held: HashMap<TaskToken, Held>,
    /// Attempts that a remote worker finished lately. A late reply of the database can name a claim that is over, and
    /// the worker must not execute it again.
    finished: Recent<TaskToken>,
    /// Known reasons why held attempts must stop.
    reasons: HashMap<TaskToken, Arc<str>>,
    free: Slots,
    /// Slots reserved by exchanges in flight.
    reserved: Slots,
    /// The session claims no more work.
    pub(crate) draining: bool,
    /// The session was found dead.
    pub(crate) lost: bool,
    /// Whether the session asks for work now.
    asks: bool,
    /// Whether a finished attempt frees its slot here. A remote worker reports its free slots itself.
    frees_slots: bool,
}

impl SessionInbox {
    /// The session of the node's own pool.
    pub(crate) fn own(served: Served, free: Slots) -> Self {
        Self { frees_slots: true, asks: true, ..Self::remote(served).with_free(free) }
    }

    /// The session of a remote worker. It wants nothing until it asks.
    pub(crate) fn remote(served: Served) -> Self {
        Self {
            served,
            held: HashMap::new(),
            finished: Recent::new(REMEMBERED),
            reasons: HashMap::new(),
            free: [0; 3],
            reserved: [0; 3],
            draining: false,
            lost: false,
            asks: false,
            frees_slots: false,
        }
    }

    fn with_free(mut self, free: Slots) -> Self {
        self.free = free;
        self
    }

    pub(crate) fn served(&self) -> &Served {
        &self.served
    }

    /// Free slots for tasks of this class.
    pub(crate) fn free(&self, class: SlotClass) -> i32 {
        if self.draining || self.lost || !self.asks { 0 } else { self.free[self.served.slot_class(class) as usize] }
    }

    /// Sets how many more tasks the worker can take, beyond those on their way to it.
    pub(crate) fn set_free(&mut self, wanted: Slots) {
        // Unused slots of an exchange in flight are not free if the worker has stopped asking.
        self.asks = wanted.iter().any(|slots| *slots > 0);
        for (class, wanted) in wanted.into_iter().enumerate() {
            self.free[class] = (wanted - self.reserved[class]).max(0);
        }
    }

    pub(crate) fn reserve(&mut self, class: SlotClass, slots: i32) {
        let class = self.served.slot_class(class) as usize;
        self.free[class] -= slots;
        self.reserved[class] += slots;
    }

    /// Settles an exchange that reserved slots: they are free again. Those of an exchange that began before the session
    /// left this node and came back are not reserved any more.
    pub(crate) fn settle_reserved(&mut self, class: SlotClass, slots: i32) {
        let class = self.served.slot_class(class) as usize;
        let slots = slots.min(self.reserved[class]);
        self.reserved[class] -= slots;
        self.free[class] += slots;
    }

    /// Continues a lost session under another id. Exchanges in flight name the old id and settle nothing here.
    pub(crate) fn start_over(&mut self) {
        self.lost = false;
        for (free, reserved) in self.free.iter_mut().zip(&mut self.reserved) {
            *free += std::mem::take(reserved);
        }
    }

    /// Takes slots for claims.
    pub(crate) fn take(&mut self, class: SlotClass, claimed: i32) {
        self.free[self.served.slot_class(class) as usize] -= claimed;
    }

    /// Adds a claim to the session. False if it was known.
    pub(crate) fn hold(&mut self, claim: &Claimed, class: SlotClass) -> bool {
        if self.finished.contains(&claim.token) {
            return false;
        }
        let held = Held {
            version: claim.version,
            failures: claim.failures,
            generation: claim.generation,
            class: self.served.slot_class(class),
        };
        self.held.insert(claim.token, held).is_none()
    }

    /// Removes an attempt that the worker ended. `None` if the session does not hold it.
    pub(crate) fn finish(&mut self, token: TaskToken) -> Option<Held> {
        let held = self.held.remove(&token)?;
        self.reasons.remove(&token);
        if self.frees_slots {
            self.free[held.class as usize] += 1;
        } else {
            self.finished.add(token);
        }
        Some(held)
    }

    /// Forgets an attempt: the database decides whether the session holds it.
    pub(crate) fn forget(&mut self, token: TaskToken) {
        self.held.remove(&token);
        self.reasons.remove(&token);
    }

    /// Forgets all held attempts: the database decides which ones the session holds.
    pub(crate) fn forget_held(&mut self) {
        self.held.clear();
        self.reasons.clear();
    }

    pub(crate) fn get(&self, token: TaskToken) -> Option<&Held> {
        self.held.get(&token)
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = &TaskToken> {
        self.held.keys()
    }

    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn keep_reason(&mut self, token: TaskToken, reason: Arc<str>) {
        if self.held.contains_key(&token) {
            self.reasons.insert(token, reason);
        }
    }

    pub(crate) fn reason(&self, token: TaskToken) -> Option<Arc<str>> {
        self.reasons.get(&token).cloned()
    }

    /// Marks the session lost and forgets its attempts, which belong to other sessions now.
    pub(crate) fn mark_lost(&mut self) {
        self.lost = true;
        if self.frees_slots {
            for held in self.held.values() {
                self.free[held.class as usize] += 1;
            }
        }
        self.held.clear();
        self.reasons.clear();
    }
}
