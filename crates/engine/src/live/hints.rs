//! Which runs have changed: gathered where it happens, heard by the hub of this process and, while somebody there
//! follows anything, by other nodes. Hints may be lost; whoever must know looks.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainspring_core::{Micros, RunId, TaskKey};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::node::Shared;

/// Hints that nobody has taken yet; more of them become "a lot has changed".
const KEPT: usize = 4_096;
/// Between two tellings.
const TELL_EVERY: Duration = Duration::from_millis(10);
/// How long others are told after they asked; they ask again before.
const TOLD_FOR: Duration = Duration::from_secs(15);
/// What one notification of PostgreSQL can carry, with room to spare.
const LONGEST_TEXT: usize = 7_500;
/// So many notifications at a time say no more than "a lot has changed".
const MOST_TEXTS: usize = 8;

/// Something that followers may want to look at.
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

    fn write(&self) -> String {
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
    fn read(text: &str) -> Option<Self> {
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

/// What was gathered since the last look.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) hints: BTreeSet<Hint>,
    /// There were more than could be kept.
    pub(crate) lost_some: bool,
}

/// A bounded pile of hints and a bell.
#[derive(Debug, Default)]
struct Pile {
    hints: Mutex<(VecDeque<Hint>, bool)>,
    bell: Notify,
}

impl Pile {
    fn add(&self, hint: Hint) {
        let mut pile = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        if pile.0.len() >= KEPT {
            pile.1 = true;
        } else {
            pile.0.push_back(hint);
        }
        drop(pile);
        self.bell.notify_one();
    }

    fn lose(&self) {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.bell.notify_one();
    }

    fn take(&self) -> Gathered {
        let (hints, lost_some) = std::mem::take(&mut *self.hints.lock().unwrap_or_else(PoisonError::into_inner));
        Gathered { hints: hints.into_iter().collect(), lost_some }
    }
}

/// Where hints go. Clones of a client share one.
#[derive(Debug)]
pub(crate) struct Hints {
    /// For the hub of this process.
    inward: Pile,
    inward_wanted: AtomicBool,
    /// For other processes.
    outward: Pile,
    /// Milliseconds since `born` until which others want to be told.
    outward_until: AtomicU64,
    born: Instant,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            inward: Pile::default(),
            inward_wanted: AtomicBool::new(false),
            outward: Pile::default(),
            outward_until: AtomicU64::new(0),
            born: Instant::now(),
        }
    }
}

impl Hints {
    /// Whether anybody wants to know. Cheap: asked before anything is put together.
    pub(crate) fn wanted(&self) -> bool {
        self.inward_wanted.load(Ordering::Relaxed) || self.outward_wanted()
    }

    fn outward_wanted(&self) -> bool {
        let until = self.outward_until.load(Ordering::Relaxed);
        until > 0 && (self.born.elapsed().as_millis() as u64) < until
    }

    pub(crate) fn tell(&self, hint: Hint) {
        if self.inward_wanted.load(Ordering::Relaxed) {
            self.inward.add(hint);
        }
        if self.outward_wanted() {
            self.outward.add(hint);
        }
    }

    pub(crate) fn changed(&self, run: RunId) {
        if self.wanted() {
            self.tell(Hint::Changed(run));
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
        self.inward.bell.notified().await;
    }

    pub(super) fn ring(&self) {
        self.inward.bell.notify_one();
    }

    pub(super) fn take(&self) -> Gathered {
        self.inward.take()
    }

    /// Another process asked to be told.
    pub(crate) fn asked(&self) {
        let until = self.born.elapsed() + TOLD_FOR;
        self.outward_until.store(until.as_millis() as u64, Ordering::Relaxed);
    }

    /// What another process told. Whoever told it is named in the first line, so that nobody hears himself.
    pub(super) fn heard(&self, own: &str, text: &str) {
        let mut lines = text.lines();
        if lines.next() == Some(own) {
            return;
        }
        for line in lines {
            match Hint::read(line) {
                Some(hint) => self.inward.add(hint),
                None => self.inward.lose(),
            }
        }
    }
}

/// Tells other nodes what has changed on this one, while they want to know.
pub(crate) async fn publish(shared: Arc<Shared>) {
    let hints = &shared.client.hints;
    let name = shared.client.live.name();
    while shared.stop.run_until_cancelled(hints.outward.bell.notified()).await.is_some() {
        for text in texts(&name, hints.outward.take()) {
            if let Err(error) = shared.client.store.tell_changes(&text).await {
                tracing::debug!(%error, "telling what has changed; followers will look by themselves");
                break;
            }
        }
        let _ = shared.stop.run_until_cancelled(tokio::time::sleep(TELL_EVERY)).await;
    }
}

fn texts(name: &str, gathered: Gathered) -> Vec<String> {
    let mut texts = Vec::new();
    let mut text = format!("{name}\n");
    for hint in &gathered.hints {
        let line = hint.write();
        if text.len() + line.len() + 1 > LONGEST_TEXT {
            texts.push(std::mem::replace(&mut text, format!("{name}\n")));
        }
        text.push_str(&line);
        text.push('\n');
    }
    texts.push(text);
    if gathered.lost_some || texts.len() > MOST_TEXTS {
        // An unknown hint makes them look at everything that they follow.
        return vec![format!("{name}\n!\n")];
    }
    texts
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
    fn texts_are_short_enough_and_a_flood_is_one_word() {
        let some = |n: u128| Gathered {
            hints: (0..n).map(|id| Hint::Changed(Uuid::from_u128(id))).collect(),
            lost_some: false,
        };
        let told = texts("me", some(1_000));
        assert!(told.len() > 1 && told.iter().all(|text| text.len() <= LONGEST_TEXT && text.starts_with("me\n")));
        assert_eq!(told.iter().map(|text| text.lines().count() - 1).sum::<usize>(), 1_000);
        assert_eq!(texts("me", some(4_000)), ["me\n!\n"]);
    }

    #[test]
    fn hints_are_bounded_and_nobody_hears_himself() {
        let hints = Hints::default();
        hints.changed(Uuid::from_u128(1));
        assert!(hints.take().hints.is_empty(), "nobody wanted it");
        hints.want_inward(true);
        for id in 0..10_000 {
            hints.changed(Uuid::from_u128(id));
        }
        let gathered = hints.take();
        assert_eq!((gathered.hints.len(), gathered.lost_some), (KEPT, true));
        hints.heard("me", "me\nc00000000000000000000000000000001\n");
        assert!(hints.take().hints.is_empty());
        hints.heard("me", "you\nc00000000000000000000000000000001\n!\n");
        let gathered = hints.take();
        assert_eq!((gathered.hints.len(), gathered.lost_some), (1, true));
    }
}
