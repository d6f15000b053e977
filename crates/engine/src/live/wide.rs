//! Following many runs: a snapshot, then what happens, from a bounded queue.
//!
//! Not every message is promised here. A subscriber that falls behind gets `resync` and a new snapshot, and so do all when
//! more changes than can be sent. The end of a run that was sent as open is always sent.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mainspring_boxed::boxed;
use mainspring_core::state::RunState;
use mainspring_core::{Micros, RunId};
use mainspring_store::{Result, RunFilter, RunSummary};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::hints::{Gathered, Hint};
use super::hub::{Inner, RunHeads};
use super::message::{LiveMessage, MessageType};
use super::run::{LiveUpdate, wants};
use crate::specs::Spec;

/// How many messages a subscriber may lag behind.
const QUEUE: usize = 512;
/// The shortest time between two snapshots for a subscriber.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);
/// Runs in a snapshot, of each kind.
const SNAPSHOT: i64 = 100;
/// Runs whose events are read in one pass, and runs that may wait for it.
const RUNS_PER_PASS: usize = 200;
const BACKLOG: usize = 2_000;
/// Events of one run that are sent in one pass; beyond, only where it stands.
const EVENTS_PER_RUN: i64 = 200;
/// Runs that are remembered, and how long after their end.
const MOST_SENT_RUNS: usize = 20_000;
const KEPT_AFTER_END: Duration = Duration::from_secs(30);
/// The time between two reads of every open run that was sent, and at what was made late under an early id.
const SWEEP_EVERY: Duration = Duration::from_secs(2);
const LATE: Micros = 3_000_000;

/// The runs and messages of a subscription.
#[derive(Debug, Clone, Default)]
pub struct WideFilter {
    /// Only runs of these namespaces; `None` is all.
    pub namespaces: Option<Vec<String>>,
    pub workflow: Option<String>,
    /// Empty means all.
    pub types: Vec<MessageType>,
}

impl WideFilter {
    fn lets_run(&self, namespace: &str, workflow: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|names| names.iter().any(|name| name == namespace))
            && self.workflow.as_ref().is_none_or(|name| name == workflow)
    }
}

/// Subscribers of many runs.
#[derive(Debug, Default)]
pub(super) struct WideSubscribers {
    members: HashMap<u64, Member>,
    next: u64,
    newcomer: bool,
    /// Runs that a snapshot contained, with their number.
    snapshot_runs: Vec<(RunId, i64)>,
}

#[derive(Debug)]
struct Member {
    filter: WideFilter,
    queue: mpsc::Sender<LiveMessage>,
    behind: Arc<MissedMessages>,
}

/// Whether a subscriber has missed messages, and why.
#[derive(Debug, Default)]
struct MissedMessages {
    is: AtomicBool,
    why: std::sync::Mutex<&'static str>,
}

impl MissedMessages {
    fn fall(&self, why: &'static str) {
        *self.why.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = why;
        self.is.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<&'static str> {
        let fell = self.is.swap(false, Ordering::AcqRel);
        fell.then(|| *self.why.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl WideSubscribers {
    pub(super) fn join(&mut self, hub: Arc<Inner>, filter: WideFilter) -> WideSubscription {
        let (queue, messages) = mpsc::channel(QUEUE);
        let behind = Arc::new(MissedMessages::default());
        self.next += 1;
        self.newcomer = true;
        let member = Member { filter: filter.clone(), queue, behind: Arc::clone(&behind) };
        self.members.insert(self.next, member);
        WideSubscription {
            hub,
            id: self.next,
            filter,
            messages,
            behind,
            ready: VecDeque::new(),
            is_new: true,
            snapshot_at: Instant::now(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn take_newcomer(&mut self) -> bool {
        std::mem::take(&mut self.newcomer)
    }

    pub(super) fn want(&self, kind: MessageType) -> bool {
        self.members.values().any(|member| wants(&member.filter.types, kind))
    }

    fn want_run(&self, namespace: &str, workflow: &str) -> bool {
        self.members.values().any(|member| member.filter.lets_run(namespace, workflow))
    }

    /// Sends a message to the subscribers that want it; `of` is the namespace and the workflow it is about.
    pub(super) fn send(&self, of: Option<(&str, &str)>, message: &LiveMessage) {
        for member in self.members.values() {
            let wanted = wants(&member.filter.types, message.kind)
                && of.is_none_or(|(namespace, workflow)| member.filter.lets_run(namespace, workflow));
            // A subscriber that is behind gets a snapshot when it has caught up; more messages would only be in the way.
            if wanted
                && !member.behind.is.load(Ordering::Acquire)
                && let Err(mpsc::error::TrySendError::Full(_)) = member.queue.try_send(message.clone())
            {
                member.behind.fall("messages were not taken fast enough");
            }
        }
    }

    pub(super) fn fall_behind(&self, why: &'static str) {
        for member in self.members.values() {
            member.behind.fall(why);
            // Wakes a subscriber that waits for a message.
            let _ = member.queue.try_send(LiveMessage::resync(why));
        }
    }
}

/// A subscription to changes within a filter. Dropping it unsubscribes.
#[derive(Debug)]
pub struct WideSubscription {
    hub: Arc<Inner>,
    id: u64,
    filter: WideFilter,
    messages: mpsc::Receiver<LiveMessage>,
    behind: Arc<MissedMessages>,
    ready: VecDeque<LiveMessage>,
    is_new: bool,
    snapshot_at: Instant,
}

impl Drop for WideSubscription {
    fn drop(&mut self) {
        self.hub.wide_subscribers().members.remove(&self.id);
        self.hub.leave();
    }
}

#[boxed]
impl WideSubscription {
    pub async fn next(&mut self) -> Result<LiveUpdate> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(LiveUpdate::Message(message));
            }
            if std::mem::take(&mut self.is_new) {
                self.read_snapshot().await?;
                continue;
            }
            let message = match self.messages.try_recv() {
                Ok(message) => message,
                Err(_) => {
                    if self.behind.is.load(Ordering::Acquire) {
                        // Where more happens than can be sent, subscribers get a snapshot now and then instead.
                        tokio::time::sleep_until((self.snapshot_at + SNAPSHOT_EVERY).into()).await;
                    }
                    if let Some(why) = self.behind.take() {
                        self.snapshot_at = Instant::now();
                        self.ready.push_back(LiveMessage::resync(why));
                        self.read_snapshot().await?;
                        continue;
                    }
                    match self.messages.recv().await {
                        Some(message) => message,
                        None => return Ok(LiveUpdate::Over("the server is closing")),
                    }
                }
            };
            // An empty message wakes the subscriber; its meaning is in the flag.
            if message.kind != MessageType::Resync {
                return Ok(LiveUpdate::Message(message));
            }
        }
    }

    async fn read_snapshot(&mut self) -> Result<()> {
        if !wants(&self.filter.types, MessageType::WorkflowStatus) {
            return Ok(());
        }
        let runs = snapshot(&self.hub, &self.filter).await?;
        self.hub.wide_subscribers().snapshot_runs.extend(runs.iter().map(|run| (run.id, run.seq)));
        self.ready.extend(runs.iter().map(LiveMessage::snapshot));
        Ok(())
    }
}

/// Open runs and the newest ones, the oldest first.
async fn snapshot(hub: &Inner, filter: &WideFilter) -> Result<Vec<RunSummary>> {
    let namespaces: Vec<Option<String>> = match &filter.namespaces {
        None => vec![None],
        Some(names) => names.iter().cloned().map(Some).collect(),
    };
    let mut runs: Vec<RunSummary> = Vec::new();
    for namespace in namespaces {
        for state in [None, Some(RunState::Running), Some(RunState::Paused), Some(RunState::Pending)] {
            let wanted = RunFilter {
                state,
                namespace: namespace.clone(),
                workflow: filter.workflow.clone(),
                limit: SNAPSHOT,
                ..RunFilter::default()
            };
            runs.extend(hub.store().list_runs(&wanted).await?);
        }
    }
    let mut seen = HashSet::new();
    runs.retain(|run| seen.insert(run.id));
    runs.sort_unstable_by_key(|run| run.id);
    Ok(runs)
}

#[derive(Debug, Clone, Copy)]
struct SentRun {
    seq: i64,
    ended: Option<Instant>,
}

/// What the hub has sent to subscribers of many runs.
#[derive(Debug, Default)]
pub(super) struct SentRuns {
    runs: HashMap<RunId, SentRun>,
    backlog: BTreeSet<RunId>,
    /// The newest run that was read; `None` before the first pass.
    newest: Option<(RunId, Uuid)>,
    /// Runs made after this are sent from their beginning.
    since: RunId,
    sweep_at: Option<Instant>,
}

impl SentRuns {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Reads what has changed and sends it. True if there was something.
    pub(super) async fn pass(
        &mut self,
        hub: &Inner,
        gathered: &Gathered,
        run_heads: &mut RunHeads,
        looks: bool,
    ) -> Result<bool> {
        let snapshot_runs = std::mem::take(&mut hub.wide_subscribers().snapshot_runs);
        for (run, seq) in snapshot_runs {
            self.runs.entry(run).or_insert(SentRun { seq, ended: None });
        }
        self.backlog.extend(gathered.hints.iter().filter_map(|hint| match hint {
            Hint::Changed(run) => Some(*run),
            Hint::Started { .. } | Hint::Logged { .. } => None,
        }));
        if looks || self.newest.is_none() {
            self.look(hub).await?;
        }
        if gathered.lost_some || self.backlog.len() > BACKLOG {
            self.clear();
            hub.wide_subscribers().fall_behind("more has changed than can be told");
            return Ok(true);
        }
        let changed = !self.backlog.is_empty();
        let some: Vec<RunId> = self.backlog.iter().take(RUNS_PER_PASS).copied().collect();
        run_heads.read(hub, &some).await?;
        for run in some {
            self.backlog.remove(&run);
            if let Some((summary, spec)) = run_heads.get(hub, run).await? {
                self.send(hub, &summary, &spec).await?;
            }
        }
        self.forget();
        Ok(changed)
    }

    /// New runs, what people did, and now and then every open run that was sent.
    async fn look(&mut self, hub: &Inner) -> Result<()> {
        let now = hub.now();
        let Some((mut run, mut action)) = self.newest else {
            self.since = earliest_id(now - LATE);
            self.newest = Some((self.since, self.since));
            return Ok(());
        };
        for id in hub.store().runs_made_after(run, BACKLOG as i64 + 1).await? {
            run = run.max(id);
            self.backlog.insert(id);
        }
        for (id, of) in hub.store().actions_after(action, BACKLOG as i64 + 1).await? {
            action = action.max(id);
            self.backlog.insert(of);
        }
        self.newest = Some((run, action));
        if self.sweep_at.is_none_or(|at| Instant::now() >= at) {
            self.sweep_at = Some(Instant::now() + SWEEP_EVERY);
            self.sweep(hub, now).await?;
        }
        Ok(())
    }

    async fn sweep(&mut self, hub: &Inner, now: Micros) -> Result<()> {
        let late = earliest_id(now - LATE);
        for id in hub.store().runs_made_after(late, BACKLOG as i64).await? {
            if !self.runs.contains_key(&id) {
                self.backlog.insert(id);
            }
        }
        let open: Vec<RunId> = self.runs.iter().filter(|(_, sent)| sent.ended.is_none()).map(|(id, _)| *id).collect();
        for some in open.chunks(1_000) {
            for mark in hub.store().run_marks(some).await? {
                let is_behind = self.runs.get(&mark.id).is_some_and(|sent| sent.seq < mark.seq);
                if is_behind {
                    self.backlog.insert(mark.id);
                } else if mark.state.is_terminal()
                    && let Some(sent) = self.runs.get_mut(&mark.id)
                {
                    sent.ended = Some(Instant::now());
                }
            }
        }
        Ok(())
    }

    async fn send(&mut self, hub: &Inner, run: &RunSummary, spec: &Spec) -> Result<()> {
        if !hub.wide_subscribers().want_run(&run.namespace, &run.workflow) {
            return Ok(());
        }
        let of = Some((run.namespace.as_str(), run.workflow.as_str()));
        let mut through = match self.runs.get(&run.id) {
            Some(sent) => sent.seq,
            None => {
                hub.wide_subscribers().send(of, &LiveMessage::snapshot(run));
                // For an older run only later changes are sent.
                if run.id > self.since { 0 } else { run.seq }
            }
        };
        let mut ended = run.state.is_terminal();
        if run.seq > through {
            let log = hub.store().run_log(run.id, through, EVENTS_PER_RUN).await?;
            for event in &log.events {
                hub.wide_subscribers().send(of, &LiveMessage::event(run, spec, event));
                through = event.seq;
            }
            ended = log.state.is_terminal();
            if through < log.seq {
                hub.wide_subscribers().send(of, &LiveMessage::snapshot(run));
                through = log.seq;
            }
        }
        self.runs.insert(run.id, SentRun { seq: through, ended: ended.then(Instant::now) });
        Ok(())
    }

    fn forget(&mut self) {
        if self.runs.len() > MOST_SENT_RUNS / 2 {
            self.runs.retain(|_, sent| sent.ended.is_none_or(|at| at.elapsed() < KEPT_AFTER_END));
        }
        if self.runs.len() > MOST_SENT_RUNS {
            self.runs.clear();
        }
    }
}

/// The smallest id of that moment.
fn earliest_id(at: Micros) -> Uuid {
    uuid::Builder::from_unix_timestamp_millis(u64::try_from(at / 1_000).unwrap_or(0), &[0; 10]).into_uuid()
}
