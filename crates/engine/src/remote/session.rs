//! One remote worker's session: what is on its way to it, and what it has handed in.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mainspring_core::TaskKey;
use mainspring_core::work::{Assignment, Workforce};
use mainspring_store::TaskToken;
use tokio::sync::Notify;

use super::exchange::WorkerAnswer;
use crate::exchange::session_inbox::Served;

/// An answer carries at most this many assignments …
const MOST_ASSIGNMENTS: usize = 200;
/// … of about this many bytes.
const MOST_BYTES: usize = 512 << 10;

/// How long a worker that handed back attempts for others gets no new ones.
const SHARING_LASTS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct RemoteSession {
    pub(crate) id: i64,
    pub(crate) token_hash: Vec<u8>,
    pub(crate) served: Served,
    state: Mutex<SessionState>,
    /// Notified when there is something for the worker.
    changed: Notify,
    /// Requests of one session begin one after the other.
    pub(crate) request_lock: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// The last contact with the worker; `None` when its connection broke.
    last_contact: Option<Instant>,
    /// When an exchange or the registration last moved the session to this node; `None` before the first.
    carried: Option<Instant>,
    /// When a request of it came or ended.
    touched: Option<Instant>,
    /// The newest exchange that was begun.
    pub(crate) seq: i64,
    answer: Option<WorkerAnswer>,
    outbox: Vec<Assignment>,
    /// What the worker was given, with the last exchange whose answer carried it.
    pub(crate) delivered: HashMap<TaskToken, i64>,
    /// Results that were handed in and are not known to be applied.
    pending: HashSet<TaskToken>,
    /// Results that are settled and not yet acknowledged: true if they count.
    settled: HashMap<TaskToken, bool>,
    cancels: HashMap<TaskToken, Cancel>,
    /// Attempts that the worker has not begun, the oldest first.
    backlog: Vec<TaskToken>,
    /// Attempts that the worker should hand back.
    release: Vec<TaskToken>,
    /// When another worker was last asked to share.
    pub(crate) asked_to_share: Option<Instant>,
    shared_at: Option<Instant>,
    pub(crate) draining: bool,
    told_draining: bool,
    pub(crate) lost: bool,
    pub(crate) repaired: Option<Instant>,
    /// Lines stored per attempt.
    pub(crate) log_ends: HashMap<TaskToken, i64>,
}

#[derive(Debug)]
struct Cancel {
    reason: Arc<str>,
    delivered: bool,
}

impl RemoteSession {
    pub(crate) fn new(id: i64, token_hash: Vec<u8>, served: Served, draining: bool) -> Self {
        let state = SessionState {
            last_contact: Some(Instant::now()),
            touched: Some(Instant::now()),
            draining,
            ..SessionState::default()
        };
        let request_lock = tokio::sync::Mutex::new(());
        Self { id, token_hash, served, state: Mutex::new(state), changed: Notify::new(), request_lock }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the requests that wait for something to answer.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Whether this node carries the session, and the worker was in contact lately.
    pub(crate) fn was_in_contact_within(&self, time: Duration) -> bool {
        let state = self.state();
        state.carried.is_some() && state.last_contact.is_some_and(|at| at.elapsed() <= time)
    }

    /// Whether the session was moved to this node at that time or later.
    pub(crate) fn was_carried_since(&self, time: Instant) -> bool {
        self.state().carried.is_some_and(|carried| carried >= time)
    }

    /// Whether there was no contact for this long, not even a connection that broke.
    pub(crate) fn is_silent_for(&self, time: Duration) -> bool {
        self.state().touched.is_none_or(|touched| touched.elapsed() > time)
    }

    pub(crate) fn set_draining(&self) {
        self.state().draining = true;
        self.wake();
    }

    /// Results that an exchange of the node applied or refused.
    pub(crate) fn settle(&self, tokens: impl IntoIterator<Item = (TaskToken, bool)>) {
        let mut state = self.state();
        for (token, counts) in tokens {
            state.forget(token);
            state.pending.remove(&token);
            state.settled.insert(token, counts);
        }
        drop(state);
        self.wake();
    }

    pub(crate) fn lose_it(&self) {
        self.state().lost = true;
        self.wake();
    }
}

impl SessionState {
    pub(crate) fn note_contact(&mut self) {
        self.last_contact = Some(Instant::now());
        self.touched = self.last_contact;
    }

    /// The database says that this node carries the session.
    pub(crate) fn carry(&mut self) {
        self.carried = Some(Instant::now());
    }

    /// The connection broke while the worker waited. The worker makes contact again if it lives.
    pub(crate) fn clear_contact(&mut self) {
        self.last_contact = None;
        self.touched = Some(Instant::now());
    }

    /// Begins an exchange. Earlier ones that still wait are answered now.
    pub(crate) fn begin(&mut self, seq: i64) {
        if seq > self.seq {
            self.answer = None;
        }
        self.seq = seq;
    }

    /// The answer of this exchange, if it was answered before.
    pub(crate) fn given(&self, seq: i64) -> Option<WorkerAnswer> {
        self.answer.as_ref().filter(|answer| answer.seq == seq).cloned()
    }

    /// Notes that a result is being handed in. False if it already is.
    pub(crate) fn hand_in(&mut self, token: TaskToken) -> bool {
        self.forget(token);
        self.pending.insert(token)
    }

    /// Forgets an attempt: the worker is not asked to execute it.
    pub(crate) fn forget(&mut self, token: TaskToken) {
        self.delivered.remove(&token);
        self.cancels.remove(&token);
        self.log_ends.remove(&token);
        self.outbox.retain(|assignment| TaskToken::of(assignment) != token);
    }

    /// Another node carried the session meanwhile, so only the results that were handed in here remain known.
    pub(crate) fn start_over(&mut self) {
        *self = Self {
            last_contact: self.last_contact,
            touched: self.touched,
            seq: self.seq,
            pending: std::mem::take(&mut self.pending),
            settled: std::mem::take(&mut self.settled),
            draining: self.draining,
            lost: self.lost,
            ..Self::default()
        };
    }

    pub(crate) fn is_pending(&self, token: TaskToken) -> bool {
        self.pending.contains(&token)
    }

    pub(crate) fn ask_to_stop(&mut self, token: TaskToken, reason: Arc<str>) {
        self.cancels.entry(token).or_insert(Cancel { reason, delivered: false });
    }

    pub(crate) fn set_backlog(&mut self, session: i64, holding: &[(TaskKey, i32, bool)]) {
        let waiting = holding.iter().filter(|(_, _, started)| !started);
        self.backlog = waiting.map(|(key, attempt, _)| TaskToken { key: *key, session, attempt: *attempt }).collect();
    }

    /// Asks the worker for the newest attempts of its backlog. Returns how many.
    pub(crate) fn share(&mut self, count: usize) -> usize {
        let keep = self.backlog.len().saturating_sub(count);
        let shared = self.backlog.split_off(keep);
        let count = shared.len();
        self.release.extend(shared);
        if count > 0 {
            self.shared_at = Some(Instant::now());
        }
        count
    }

    /// Whether the worker just handed attempts back for others.
    pub(crate) fn is_sharing(&self) -> bool {
        self.shared_at.is_some_and(|shared_at| shared_at.elapsed() < SHARING_LASTS)
    }

    /// Whether there is something that the worker should receive at once.
    pub(crate) fn has_updates(&self) -> bool {
        !self.outbox.is_empty()
            || self.cancels.values().any(|cancel| !cancel.delivered)
            || (self.draining && !self.told_draining)
            || !self.release.is_empty()
            || self.settled.values().any(|counts| !counts)
    }

    /// The answer with everything known now.
    pub(crate) fn answer(&mut self, seq: i64) -> WorkerAnswer {
        let assignments = self.take_assignments(seq);
        let (mut acknowledged, mut fenced) = (Vec::new(), Vec::new());
        for (token, counts) in self.settled.drain() {
            if counts { acknowledged.push(token) } else { fenced.push(token) }
        }
        let mut cancel = Vec::new();
        for (token, request) in &mut self.cancels {
            request.delivered = true;
            cancel.push((*token, request.reason.to_string()));
        }
        self.told_draining = self.draining;
        let drain = self.draining;
        let release = std::mem::take(&mut self.release);
        let answer = WorkerAnswer { seq, assignments, cancel, acknowledged, fenced, release, drain };
        if seq == self.seq {
            self.answer = Some(answer.clone());
        }
        answer
    }

    /// The answer of an exchange that was overtaken.
    pub(crate) fn empty_answer(&self, seq: i64) -> WorkerAnswer {
        let drain = self.draining;
        WorkerAnswer { seq, drain, ..WorkerAnswer::default() }
    }

    fn take_assignments(&mut self, seq: i64) -> Vec<Assignment> {
        let mut bytes = 0;
        let mut count = 0;
        for assignment in self.outbox.iter().take(MOST_ASSIGNMENTS) {
            bytes += size(assignment);
            if count > 0 && bytes > MOST_BYTES {
                break;
            }
            count += 1;
        }
        let assignments: Vec<Assignment> = self.outbox.drain(..count).collect();
        for assignment in &assignments {
            self.delivered.insert(TaskToken::of(assignment), seq);
        }
        assignments
    }
}

fn size(assignment: &Assignment) -> usize {
    let order = &assignment.order;
    let env: usize = order.env.iter().map(|(name, value)| name.len() + value.len()).sum();
    let action = serde_json::to_string(&order.action).map_or(0, |text| text.len());
    env + action + 500
}

impl Workforce for RemoteSession {
    fn assign(&self, assignments: Vec<Assignment>) {
        let mut state = self.state();
        let pending = &state.pending;
        let new: Vec<_> = assignments.into_iter().filter(|new| !pending.contains(&TaskToken::of(new))).collect();
        state.outbox.extend(new);
        drop(state);
        self.wake();
    }

    fn cancel(&self, key: TaskKey, attempt: i32, reason: &str) {
        self.state().ask_to_stop(TaskToken { key, session: self.id, attempt }, reason.into());
        self.wake();
    }

    fn session_lost(&self, _session: i64) {
        self.lose_it();
    }

    fn lease_renewed(&self) {}
}

#[cfg(test)]
mod tests {
    use mainspring_core::RunId;

    use super::*;

    #[test]
    fn an_attempt_whose_result_is_settled_is_not_asked_to_stop_any_more() {
        let session = RemoteSession::new(1, Vec::new(), Served::default(), false);
        let key = TaskKey { run: RunId::from_u128(1), index: 0, item: -1 };
        let token = TaskToken { key, session: 1, attempt: 1 };
        session.state().ask_to_stop(token, "it is not this session's".into());
        assert_eq!(session.state().answer(1).cancel.len(), 1);
        session.settle([(token, false)]);
        let answer = session.state().answer(2);
        assert_eq!((answer.fenced, answer.cancel), (vec![token], Vec::new()));
    }
}
