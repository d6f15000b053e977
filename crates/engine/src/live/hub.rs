//! The hub of a process: knows who follows what, and looks for what has changed.
//!
//! It works only while there are subscribers. Its cost is one look per followed run at most, and what changed; a look happens
//! when a hint names the run, and by itself every second (every 50 ms while something happens without hints).

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use mainspring_boxed::boxed;
use mainspring_core::RunId;
use mainspring_store::{LogCursor, Result, RunSummary, Store};
use tokio::sync::{Semaphore, SemaphorePermit, broadcast, watch};

use super::hints::{Gathered, Hint, Hints};
use super::message::{LiveMessage, MessageType};
use super::run::{Mark, RunSubscription};
use super::wide::{SentRuns, WideFilter, WideSubscribers, WideSubscription};
use crate::bus::{Bus, BusMessage};
use crate::clock::SystemClock;
use crate::specs::{Spec, Specs};

/// How many unnumbered messages a subscriber of a run may lag behind.
const UNNUMBERED: usize = 256;
/// How many runs one statement reads.
const LOOK_AT_ONCE: usize = 1_000;
/// How many subscribers read at the same time.
const READS_AT_ONCE: usize = 4;
const LOOK_WHEN_IDLE: Duration = Duration::from_secs(1);
const LOOK_WHEN_BUSY: Duration = Duration::from_millis(50);
const BUSY_FOR: Duration = Duration::from_secs(2);
/// The pause between two passes, so that a burst of changes is read together.
const PASS_PAUSE: Duration = Duration::from_millis(5);
/// Other processes send hints for 15 seconds after each request.
const ASK_EVERY: Duration = Duration::from_secs(5);
const HEARTBEATS_EVERY: Duration = Duration::from_secs(5);
/// Chunks of log lines that are read for subscribers in one pass.
const CHUNKS_PER_PASS: usize = 200;
/// Runs without a subscriber of their own whose starts and log lines are sent in one pass.
const OTHERS_PER_PASS: usize = 500;

/// Live updates. Clones share one hub.
#[derive(Debug, Clone)]
pub struct Live(Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    store: Store,
    specs: Arc<Specs>,
    clock: Arc<SystemClock>,
    hints: Arc<Hints>,
    bus: Bus,
    topics: Mutex<HashMap<RunId, Weak<Topic>>>,
    wide_subscribers: Mutex<WideSubscribers>,
    followers: AtomicUsize,
    /// Whether the loop runs.
    works: Mutex<bool>,
    /// Limits how many subscribers read at once, because the rest of this process needs the database too.
    reads: Semaphore,
}

/// A run with subscribers.
#[derive(Debug)]
pub(super) struct Topic {
    run: RunId,
    hub: Weak<Inner>,
    pub(super) marks: watch::Sender<Mark>,
    pub(super) unnumbered: broadcast::Sender<LiveMessage>,
}

impl Topic {
    /// Raises the last known number of the run.
    pub(super) fn raise_to(&self, seq: i64) {
        self.marks.send_if_modified(|mark| {
            let changed = seq > mark.seq;
            mark.seq = mark.seq.max(seq);
            changed
        });
    }

    /// Sets the last number of the run, even to a lower one.
    pub(super) fn set_to(&self, seq: i64) {
        self.marks.send_modify(|mark| mark.seq = seq);
    }

    pub(super) fn mark_gone(&self) {
        self.marks.send_modify(|mark| mark.gone = true);
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            let mut topics = hub.topics();
            // Another subscriber of the same run may have come meanwhile.
            if topics.get(&self.run).is_some_and(|topic| topic.strong_count() == 0) {
                topics.remove(&self.run);
            }
            drop(topics);
            hub.leave();
        }
    }
}

#[boxed]
impl Live {
    pub(crate) fn new(store: Store, specs: Arc<Specs>, clock: Arc<SystemClock>, hints: Arc<Hints>, bus: Bus) -> Self {
        Self(Arc::new(Inner {
            store,
            specs,
            clock,
            hints,
            bus,
            topics: Mutex::default(),
            wide_subscribers: Mutex::default(),
            followers: AtomicUsize::new(0),
            works: Mutex::new(false),
            reads: Semaphore::new(READS_AT_ONCE),
        }))
    }

    /// Subscribes to a run behind a number: first its state, then every event once and in order.
    /// `types` that are empty mean all.
    pub async fn subscribe_to_run(&self, run: RunId, after: i64, types: Vec<MessageType>) -> Result<RunSubscription> {
        let summary = self.0.store.run_summary(run).await?;
        let spec = self.0.specs.get(summary.version).await?;
        let topic = self.0.topic(run);
        Ok(RunSubscription::new(Arc::clone(&self.0), topic, summary, spec, after.max(0), types))
    }

    /// Subscribes to changes within a filter: first the state of open and recent runs, then messages.
    pub async fn subscribe(&self, filter: WideFilter) -> Result<WideSubscription> {
        self.0.enter();
        let subscription = self.0.wide_subscribers().join(Arc::clone(&self.0), filter);
        self.0.hints.ring();
        Ok(subscription)
    }

    /// The number of subscriptions; a run with several subscribers counts once.
    pub fn followers(&self) -> usize {
        self.0.followers.load(Ordering::Relaxed)
    }

    pub(super) fn topic(&self, run: RunId) -> Arc<Topic> {
        self.0.topic(run)
    }

    pub(super) fn store(&self) -> &Store {
        &self.0.store
    }
}

impl Inner {
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Waits for the permit to read. The semaphore is never closed, so there is no error.
    pub(super) async fn read_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.reads.acquire().await.ok()
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<RunId, Weak<Topic>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wide_subscribers(&self) -> MutexGuard<'_, WideSubscribers> {
        self.wide_subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn topic(self: &Arc<Self>, run: RunId) -> Arc<Topic> {
        let mut topics = self.topics();
        if let Some(topic) = topics.get(&run).and_then(Weak::upgrade) {
            return topic;
        }
        let topic = Arc::new(Topic {
            run,
            hub: Arc::downgrade(self),
            marks: watch::channel(Mark::default()).0,
            unnumbered: broadcast::channel(UNNUMBERED).0,
        });
        topics.insert(run, Arc::downgrade(&topic));
        drop(topics);
        self.enter();
        self.hints.ring();
        topic
    }

    /// Counts a new subscriber; the first one starts the loop.
    fn enter(self: &Arc<Self>) {
        self.followers.fetch_add(1, Ordering::AcqRel);
        let mut works = self.works.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *works, true) {
            self.hints.want_inward(true);
            tokio::spawn(run(Arc::clone(self)));
        }
    }

    pub(super) fn leave(&self) {
        self.followers.fetch_sub(1, Ordering::AcqRel);
        self.hints.ring();
    }

    fn topics_of_subscribers(&self) -> Vec<Arc<Topic>> {
        self.topics().values().filter_map(Weak::upgrade).collect()
    }

    fn followed_run(&self, run: RunId) -> Option<Arc<Topic>> {
        self.topics().get(&run).and_then(Weak::upgrade)
    }

    /// Reads the last numbers of these topics. True if one is new.
    async fn look(&self, topics: &[Arc<Topic>]) -> Result<bool> {
        let mut changed = false;
        for some in topics.chunks(LOOK_AT_ONCE) {
            let ids: Vec<RunId> = some.iter().map(|topic| topic.run).collect();
            let marks: HashMap<RunId, i64> =
                self.store.run_marks(&ids).await?.into_iter().map(|mark| (mark.id, mark.seq)).collect();
            for topic in some {
                match marks.get(&topic.run) {
                    Some(seq) => {
                        changed |= *seq > topic.marks.borrow().seq;
                        topic.raise_to(*seq);
                    }
                    None => topic.mark_gone(),
                }
            }
        }
        Ok(changed)
    }

    /// Sends starts and log lines: they have no numbers, and no subscriber waits for them.
    async fn send_unnumbered(&self, gathered: &Gathered, run_heads: &mut RunHeads) -> Result<()> {
        let (wants_tasks, wants_logs) = {
            let wide_subscribers = self.wide_subscribers();
            (wide_subscribers.want(MessageType::TaskStatus), wide_subscribers.want(MessageType::Log))
        };
        // Runs without a subscriber of their own are sent as far as the limit goes: these messages have no numbers.
        let (mut chunks, mut others) = (0, BTreeSet::new());
        let runs = gathered.hints.iter().filter(|hint| match hint {
            Hint::Changed(_) => false,
            Hint::Started { .. } => wants_tasks,
            Hint::Logged { .. } => wants_logs,
        });
        others.extend(runs.map(Hint::run).take(OTHERS_PER_PASS));
        run_heads.read(self, &others.iter().copied().collect::<Vec<_>>()).await?;
        for hint in &gathered.hints {
            let topic = self.followed_run(hint.run());
            match hint {
                Hint::Changed(_) => {}
                Hint::Started { key, attempt, session, at } => {
                    if topic.is_none() && !(wants_tasks && others.contains(&key.run)) {
                        continue;
                    }
                    let Some((run, spec)) = run_heads.get(self, key.run).await? else { continue };
                    self.spread(topic, &run, LiveMessage::started(&run, &spec, *key, *attempt, *session, *at));
                }
                Hint::Logged { key, attempt, chunk } => {
                    if topic.is_none() && !(wants_logs && others.contains(&key.run)) || chunks >= CHUNKS_PER_PASS {
                        continue;
                    }
                    chunks += 1;
                    let Some((run, spec)) = run_heads.get(self, key.run).await? else { continue };
                    let before = LogCursor { attempt: *attempt, chunk: chunk - 1 };
                    for (cursor, lines) in self.store.read_logs(*key, Some(*attempt), before, 1).await? {
                        for line in &lines {
                            self.spread(topic.clone(), &run, LiveMessage::log(&run, &spec, *key, cursor, line));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn spread(&self, topic: Option<Arc<Topic>>, run: &RunSummary, message: LiveMessage) {
        self.wide_subscribers().send(Some((&run.namespace, &run.workflow)), &message);
        if let Some(topic) = topic {
            let _ = topic.unnumbered.send(message);
        }
    }

    async fn send_heartbeats(&self) -> Result<()> {
        if self.wide_subscribers().want(MessageType::WorkerHeartbeat) {
            for session in self.store.live_sessions().await? {
                self.wide_subscribers().send(None, &LiveMessage::heartbeat(&session));
            }
        }
        Ok(())
    }
}

/// Run heads that were read in this pass.
#[derive(Default)]
pub(super) struct RunHeads(HashMap<RunId, Option<Head>>);

/// A run and its version.
type Head = (Arc<RunSummary>, Arc<Spec>);

impl RunHeads {
    pub(super) async fn get(&mut self, hub: &Inner, run: RunId) -> Result<Option<Head>> {
        if let Some(known) = self.0.get(&run) {
            return Ok(known.clone());
        }
        self.read(hub, &[run]).await?;
        Ok(self.0.get(&run).cloned().flatten())
    }

    /// Reads many at once.
    pub(super) async fn read(&mut self, hub: &Inner, runs: &[RunId]) -> Result<()> {
        let missing: Vec<RunId> = runs.iter().filter(|run| !self.0.contains_key(run)).copied().collect();
        for summary in hub.store.run_summaries(&missing).await? {
            let spec = hub.specs.get(summary.version).await?;
            self.0.insert(summary.id, Some((Arc::new(summary), spec)));
        }
        for run in missing {
            self.0.entry(run).or_insert(None);
        }
        Ok(())
    }
}

/// Runs until the last subscriber leaves.
async fn run(hub: Arc<Inner>) {
    let asking = tokio::spawn(ask(Arc::clone(&hub)));
    let mut sent_runs = SentRuns::default();
    let mut look_at = Instant::now();
    let mut busy_until = Instant::now();
    let mut heartbeats_at = Instant::now();
    loop {
        if stop_if_unused(&hub) {
            break;
        }
        let gathered = hub.hints.take();
        let now = Instant::now();
        let looks = now >= look_at || gathered.lost_some;
        match pass(&hub, &mut sent_runs, &gathered, looks).await {
            Ok(true) => busy_until = now + BUSY_FOR,
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(%error, "looking for what followers want to know");
                hub.wide_subscribers().fall_behind("the database was away");
            }
        }
        if looks {
            look_at = now + if now < busy_until { LOOK_WHEN_BUSY } else { LOOK_WHEN_IDLE };
        }
        if now >= heartbeats_at || hub.wide_subscribers().take_newcomer() {
            heartbeats_at = now + HEARTBEATS_EVERY;
            if let Err(error) = hub.send_heartbeats().await {
                tracing::debug!(%error, "reading the sessions for followers");
            }
        }
        tokio::time::sleep(PASS_PAUSE).await;
        tokio::select! {
            () = hub.hints.rung() => {}
            () = tokio::time::sleep_until(look_at.into()) => {}
        }
    }
    asking.abort();
}

/// Ends the loop, unless a subscriber joined at this moment.
fn stop_if_unused(hub: &Inner) -> bool {
    let mut works = hub.works.lock().unwrap_or_else(PoisonError::into_inner);
    if hub.followers.load(Ordering::Acquire) > 0 {
        return false;
    }
    hub.hints.want_inward(false);
    *works = false;
    true
}

/// Reads the runs that the hints name, or all runs with subscribers. True if something changed.
async fn pass(hub: &Arc<Inner>, sent_runs: &mut SentRuns, gathered: &Gathered, looks: bool) -> Result<bool> {
    let mut run_heads = RunHeads::default();
    hub.send_unnumbered(gathered, &mut run_heads).await?;
    let topics = if looks {
        hub.topics_of_subscribers()
    } else {
        let runs: BTreeSet<RunId> = gathered.hints.iter().map(Hint::run).collect();
        runs.into_iter().filter_map(|run| hub.followed_run(run)).collect()
    };
    let changed = hub.look(&topics).await?;
    if hub.wide_subscribers().is_empty() {
        sent_runs.clear();
        return Ok(changed);
    }
    let wide_changed = sent_runs.pass(hub, gathered, &mut run_heads, looks).await?;
    Ok(changed || wide_changed || !gathered.hints.is_empty())
}

/// Asks other processes for what changes, again and again: they tell it for a while each time.
async fn ask(hub: Arc<Inner>) {
    hub.bus.listen();
    let mut asks = tokio::time::interval(ASK_EVERY);
    loop {
        asks.tick().await;
        hub.bus.publish(BusMessage::RunChangesWanted);
        hub.bus.flush().await;
    }
}

impl Inner {
    pub(super) fn now(&self) -> mainspring_core::Micros {
        use mainspring_core::work::Clock as _;
        self.clock.now()
    }
}
