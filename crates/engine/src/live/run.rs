//! Following one run: every number once, in order, without a gap, from wherever the subscription stands.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use mainspring_boxed::boxed;
use mainspring_core::{RunId, TaskKey};
use mainspring_store::{RunEvent, RunEventKind, RunSummary};
use tokio::sync::{broadcast, watch};

use super::hub::{Inner, Topic};
use super::message::{LiveMessage, MessageType};
use crate::specs::Spec;

/// How many events are read at once.
const PAGE: i64 = 100;
/// For this many task runs a subscriber remembers which attempt has ended.
const REMEMBERED: usize = 10_000;

/// The last known state of a run with subscribers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) seq: i64,
    /// The run was deleted.
    pub(super) gone: bool,
}

/// The next message of a subscriber.
#[derive(Debug, Clone)]
pub enum LiveUpdate {
    Message(LiveMessage),
    /// The subscription has ended, for this reason.
    Over(&'static str),
}

/// A subscription to one run from a number on. Dropping it unsubscribes.
#[derive(Debug)]
pub struct RunSubscription {
    hub: Arc<Inner>,
    topic: Arc<Topic>,
    marks: watch::Receiver<Mark>,
    unnumbered: broadcast::Receiver<LiveMessage>,
    run: RunSummary,
    spec: Arc<Spec>,
    /// Everything up to this number was sent, or left out by the types.
    after: i64,
    /// Everything up to this number was read.
    through: i64,
    types: Vec<MessageType>,
    ready: VecDeque<LiveMessage>,
    /// Attempts whose end was sent, so that a late start is not sent after it.
    over: HashMap<TaskKey, i32>,
}

#[boxed]
impl RunSubscription {
    pub(super) fn new(
        hub: Arc<Inner>,
        topic: Arc<Topic>,
        run: RunSummary,
        spec: Arc<Spec>,
        after: i64,
        types: Vec<MessageType>,
    ) -> Self {
        let mut ready = VecDeque::new();
        if wants(&types, MessageType::WorkflowStatus) {
            ready.push_back(LiveMessage::snapshot(&run));
        }
        let (marks, unnumbered) = (topic.marks.subscribe(), topic.unnumbered.subscribe());
        topic.raise_to(run.seq);
        Self { hub, topic, marks, unnumbered, run, spec, after, through: after, types, ready, over: HashMap::new() }
    }

    pub fn run(&self) -> RunId {
        self.run.id
    }

    /// The number of the last event that was sent or left out by the types.
    pub fn position(&self) -> i64 {
        self.after
    }

    /// Waits for the next message. If the caller stops waiting, what was read and not sent is sent next time.
    pub async fn next(&mut self) -> mainspring_store::Result<LiveUpdate> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                if let Some(seq) = message.seq {
                    self.after = seq;
                }
                return Ok(LiveUpdate::Message(message));
            }
            self.after = self.after.max(self.through);
            // Starts are sent before ends.
            if let Ok(extra) = self.unnumbered.try_recv() {
                if self.is_news(&extra) {
                    return Ok(LiveUpdate::Message(extra));
                }
                continue;
            }
            let mark = *self.marks.borrow_and_update();
            if mark.gone {
                return Ok(LiveUpdate::Over("the run is not kept any more"));
            }
            if mark.seq > self.through {
                match self.read().await {
                    Err(mainspring_store::Error::NotFound { .. }) => self.topic.mark_gone(),
                    other => other?,
                }
                continue;
            }
            tokio::select! {
                changed = self.marks.changed() => if changed.is_err() {
                    return Ok(LiveUpdate::Over("the server is closing"));
                },
                extra = self.unnumbered.recv() => match extra {
                    Ok(message) if self.is_news(&message) => return Ok(LiveUpdate::Message(message)),
                    // What has no number may be missed.
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return Ok(LiveUpdate::Over("the server is closing")),
                },
            }
        }
    }

    async fn read(&mut self) -> mainspring_store::Result<()> {
        let permit = self.hub.read_permit().await;
        let log = self.hub.store().run_log(self.run.id, self.through, PAGE).await?;
        drop(permit);
        self.topic.raise_to(log.seq);
        if log.events.is_empty() {
            // The mark was of a database that has forgotten since: there is nothing behind this number.
            self.topic.set_to(log.seq);
        }
        for event in &log.events {
            self.note(event);
            let message = LiveMessage::event(&self.run, &self.spec, event);
            if wants(&self.types, message.kind) {
                self.ready.push_back(message);
            }
            self.through = event.seq;
        }
        Ok(())
    }

    fn note(&mut self, event: &RunEvent) {
        let (RunEventKind::TaskEnded { key, attempt, .. } | RunEventKind::AttemptEnded { key, attempt, .. }) =
            &event.what
        else {
            return;
        };
        if self.over.len() >= REMEMBERED {
            self.over.clear();
        }
        self.over.insert(*key, attempt.number);
    }

    fn is_news(&self, message: &LiveMessage) -> bool {
        let is_late =
            || message.began.is_some_and(|(key, attempt)| self.over.get(&key).is_some_and(|over| *over >= attempt));
        wants(&self.types, message.kind) && !is_late()
    }
}

pub(super) fn wants(types: &[MessageType], kind: MessageType) -> bool {
    types.is_empty() || types.contains(&kind)
}
