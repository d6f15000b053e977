//! Which runs have changed: gathered where it happens, heard by the hub of this process and, while a subscriber there
//! follows anything, by other nodes. Hints may be lost; loops that must know look for themselves.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainspring_core::{Micros, RunId, TaskKey};
use tokio::sync::Notify;
use uuid::Uuid;

/// Hints that were not taken yet; more of them become "a lot has changed".
const MOST_HINTS: usize = 4_096;
/// How long other nodes receive hints after they asked; they ask again before.
const WANTED_FOR: Duration = Duration::from_secs(15);

/// A change that subscribers may want to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hint {
    /// The run has a new number, or a new state.
    Changed(RunId),
    Started {
        key: TaskKey,
        attempt: i32,
        session: i64,
        at: Micros,
    },
    /// Log lines were stored under this chunk.
    Logged {
        key: TaskKey,
        attempt: i32,
        chunk: i32,
    },
}

impl Hint {
    pub(crate) fn run(&self) -> RunId {
        match self {
            Hint::Changed(run) => *run,
            Hint::Started { key, .. } | Hint::Logged { key, .. } => key.run,
        }
    }

    pub(crate) fn write(&self) -> String {
        match self {
            Hint::Changed(run) => format!("c{}", run.simple()),
            Hint::Started { key, attempt, session, at } => {
                format!("s{}.{}.{}.{attempt}.{session}.{at}", key.run.simple(), key.index, key.item)
            }
            Hint::Logged { key, attempt, chunk } => {
                format!("l{}.{}.{}.{attempt}.{chunk}", key.run.simple(), key.index, key.item)
            }
        }
    }

    /// What another node wrote; nothing if this program does not know it.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let kind = text.chars().next()?;
        let mut parts = text.get(1..)?.split('.');
        let run = Uuid::parse_str(parts.next()?).ok()?;
        let mut number = || parts.next()?.parse::<i64>().ok();
        if kind == 'c' {
            return Some(Hint::Changed(run));
        }
        let key = TaskKey { run, index: number()? as i32, item: number()? as i32 };
        let attempt = number()? as i32;
        match kind {
            's' => Some(Hint::Started { key, attempt, session: number()?, at: number()? }),
            'l' => Some(Hint::Logged { key, attempt, chunk: number()? as i32 }),
            _ => None,
        }
    }
}

/// Hints since the last pass.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) hints: BTreeSet<Hint>,
    /// Some hints did not fit the queue.
    pub(crate) lost_some: bool,
}

/// A bounded queue of hints, and the signal that one was added.
#[derive(Debug, Default)]
struct HintQueue {
    hints: Mutex<(VecDeque<Hint>, bool)>,
    added: Notify,
}

impl HintQueue {
    fn add(&self, hint: Hint) {
        let mut queue = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.0.len() >= MOST_HINTS {
            queue.1 = true;
        } else {
            queue.0.push_back(hint);
        }
        drop(queue);
        self.added.notify_one();
    }

    fn mark_lossy(&self) {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.added.notify_one();
    }

    fn take(&self) -> Gathered {
        let (hints, lost_some) = std::mem::take(&mut *self.hints.lock().unwrap_or_else(PoisonError::into_inner));
        Gathered { hints: hints.into_iter().collect(), lost_some }
    }
}

/// The hints of a process. Clones of a client share them.
#[derive(Debug)]
pub(crate) struct Hints {
    /// For the hub of this process.
    inward: HintQueue,
    inward_wanted: AtomicBool,
    /// For other processes.
    outward: HintQueue,
    /// Milliseconds since `created` until which other nodes want hints.
    outward_until: AtomicU64,
    created: Instant,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            inward: HintQueue::default(),
            inward_wanted: AtomicBool::new(false),
            outward: HintQueue::default(),
            outward_until: AtomicU64::new(0),
            created: Instant::now(),
        }
    }
}

impl Hints {
    /// Whether there are subscribers. It is cheap, so callers ask before they build a hint.
    pub(crate) fn wanted(&self) -> bool {
        self.inward_wanted.load(Ordering::Relaxed) || self.outward_wanted()
    }

    fn outward_wanted(&self) -> bool {
        let until = self.outward_until.load(Ordering::Relaxed);
        until > 0 && (self.created.elapsed().as_millis() as u64) < until
    }

    pub(crate) fn publish(&self, hint: Hint) {
        if self.inward_wanted.load(Ordering::Relaxed) {
            self.inward.add(hint);
        }
        if self.outward_wanted() {
            self.outward.add(hint);
        }
    }

    pub(crate) fn changed(&self, run: RunId) {
        if self.wanted() {
            self.publish(Hint::Changed(run));
        }
    }

    /// The hub of this process begins or ends to listen.
    pub(super) fn want_inward(&self, wanted: bool) {
        self.inward_wanted.store(wanted, Ordering::Relaxed);
        if !wanted {
            self.inward.take();
        }
    }

    pub(super) async fn rung(&self) {
        self.inward.added.notified().await;
    }

    pub(super) fn ring(&self) {
        self.inward.added.notify_one();
    }

    pub(super) fn take(&self) -> Gathered {
        self.inward.take()
    }

    /// Another process has subscribers and asked for what changes here.
    pub(crate) fn wanted_elsewhere(&self) {
        let until = self.created.elapsed() + WANTED_FOR;
        self.outward_until.store(until.as_millis() as u64, Ordering::Relaxed);
    }

    /// Takes a hint of another process.
    pub(crate) fn receive(&self, hint: Hint) {
        if self.inward_wanted.load(Ordering::Relaxed) {
            self.inward.add(hint);
        }
    }

    /// Other processes have more hints than they can send, or are disconnected.
    pub(crate) fn receive_many(&self) {
        if self.inward_wanted.load(Ordering::Relaxed) {
            self.inward.mark_lossy();
        }
    }

    pub(crate) async fn outward_added(&self) {
        self.outward.added.notified().await;
    }

    pub(crate) fn take_outward(&self) -> Gathered {
        self.outward.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_survive_the_way_to_another_node() {
        let key = TaskKey { run: Uuid::from_u128(7), index: 3, item: -1 };
        let hints = [
            Hint::Changed(Uuid::from_u128(1)),
            Hint::Started { key, attempt: 2, session: 5, at: 1_700_000_000_000_000 },
            Hint::Logged { key: TaskKey { item: 9, ..key }, attempt: 1, chunk: 4 },
        ];
        for hint in hints {
            assert_eq!(Hint::read(&hint.write()), Some(hint));
        }
        for wrong in ["", "c", "x00", "s00000000000000000000000000000001.1", "cnonsense", "é"] {
            assert_eq!(Hint::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hints_are_bounded_and_kept_only_for_subscribers() {
        let hints = Hints::default();
        hints.changed(Uuid::from_u128(1));
        assert!(hints.take().hints.is_empty(), "there was no subscriber");
        hints.want_inward(true);
        for id in 0..10_000 {
            hints.changed(Uuid::from_u128(id));
        }
        let gathered = hints.take();
        assert_eq!((gathered.hints.len(), gathered.lost_some), (MOST_HINTS, true));
        hints.receive(Hint::Changed(Uuid::from_u128(1)));
        hints.receive_many();
        let gathered = hints.take();
        assert_eq!((gathered.hints.len(), gathered.lost_some), (1, true));
    }
}
