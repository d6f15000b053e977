//! The exchange of a remote worker: it reports results, what it holds and what it wants, and receives its claims.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_boxed::boxed;
use mainspring_core::work::{Assignment, Completion, Outcome};
use mainspring_core::{Micros, TaskKey};
use mainspring_store::TaskToken;

use super::registry::{WorkerError, WorkerGate, WorkerSession};
use super::session::RemoteSession;
use crate::exchange::completions;
use crate::node::Shared;

/// The longest wait for an answer with content.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The result of an attempt.
#[derive(Debug, Clone)]
pub struct WorkerResult {
    pub key: TaskKey,
    pub attempt: i32,
    pub outcome: Outcome,
    pub started_at: Micros,
    pub finished_at: Micros,
}

/// A request of the worker.
#[derive(Debug, Clone)]
pub struct WorkerExchange {
    pub seq: i64,
    pub finished: Vec<WorkerResult>,
    /// Every attempt that the worker has, and whether it has begun.
    pub holding: Vec<(TaskKey, i32, bool)>,
    /// How many more attempts the worker can take: processes, functions, remote tasks.
    pub want: [i32; 3],
    pub wait: Duration,
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerAnswer {
    pub seq: i64,
    pub assignments: Vec<Assignment>,
    pub cancel: Vec<(TaskToken, String)>,
    /// Results that were applied, perhaps in an earlier exchange.
    pub acknowledged: Vec<TaskToken>,
    /// Results that were refused: the attempt was not this session's any more.
    pub fenced: Vec<TaskToken>,
    /// Attempts in the worker's backlog that other workers could begin at once; the worker hands them back.
    pub release: Vec<TaskToken>,
    /// The worker should finish its attempts and claim no more.
    pub drain: bool,
}

#[boxed]
impl WorkerGate {
    /// Answers one exchange. The same number again gives the same answer, also at another node: results that were applied
    /// are acknowledged again, and claims that the worker does not hold are delivered again.
    pub async fn exchange(&self, wanted: &WorkerSession, request: WorkerExchange) -> Result<WorkerAnswer, WorkerError> {
        let session = self.session(wanted).await?;
        let seq = request.seq;
        let contact = ContactGuard::begin(&self.shared, &session, seq);
        let given = session.state().given(seq);
        if let Some(answer) = given {
            return contact.done(answer);
        }
        {
            let _guard = session.request_lock.lock().await;
            self.pass_guard(&session, &request).await?;
            session.state().begin(seq);
            // An earlier request that still waits is answered now.
            session.wake();
            session.state().set_backlog(session.id, &request.holding);
            let mut taken_in = self.repair(&session, &request).await;
            if taken_in.is_ok() {
                taken_in = self.take_in(&session, &request).await;
            }
            if matches!(taken_in, Err(WorkerError::Moved)) {
                // The next request carries the session anew.
                self.shared.remote.forget_orphan(&session);
            }
            taken_in?;
        }
        let deadline = Instant::now() + request.wait.min(LONGEST_WAIT);
        let handed_in: Vec<TaskToken> = request.finished.iter().map(|result| token(&session, result)).collect();
        let answer = wait(&session, seq, &handed_in, deadline).await?;
        if answer.assignments.is_empty() && answer.release.is_empty() {
            self.steal_for(&session, request.want).await;
        }
        contact.done(answer)
    }

    /// Notes the worker's demand and hands in its results, so that both go into the same exchange of the node.
    async fn take_in(&self, session: &Arc<RemoteSession>, request: &WorkerExchange) -> Result<(), WorkerError> {
        let shared = &self.shared;
        if shared.gatherer().session(session.id).is_none() {
            // The attempt would look like that of another session.
            return Err(WorkerError::Moved);
        }
        let (completions, unknown) = self.sort_results(session, request);
        let mut free = request.want;
        {
            let mut gatherer = shared.gatherer();
            let state = session.state();
            if let Some(inbox) = gatherer.session(session.id) {
                let known: HashSet<TaskToken> = named(session, request).collect();
                // Assignments on their way to the worker are not yet among its held attempts.
                let is_new = |held: &&TaskToken| {
                    !known.contains(held) && state.delivered.get(held).is_none_or(|seq| seq + 1 >= request.seq)
                };
                for held in inbox.held().filter(is_new).filter_map(|held| inbox.get(*held)) {
                    free[held.class as usize] -= 1;
                }
            }
            if state.is_sharing() {
                free = [0; 3];
            }
            drop(state);
            gatherer.want(session.id, free.map(|slots| slots.max(0)));
        }
        completions::take_in(shared, completions);
        shared.client.bus.signals().wake_lanes();
        for token in unknown {
            let counts = shared.client.store.was_applied(token).await?;
            session.settle([(token, counts)]);
        }
        Ok(())
    }

    /// Separates results to hand in from results of attempts that the session does not hold.
    fn sort_results(&self, session: &RemoteSession, request: &WorkerExchange) -> (Vec<Completion>, Vec<TaskToken>) {
        let (mut completions, mut unknown) = (Vec::new(), Vec::new());
        let gatherer = self.shared.gatherer();
        let mut state = session.state();
        for result in &request.finished {
            let token = token(session, result);
            if state.is_pending(token) {
                continue;
            }
            if gatherer.get(token).is_none() {
                unknown.push(token);
            } else if state.hand_in(token) {
                completions.push(completion(session.id, result));
            }
        }
        (completions, unknown)
    }
}

fn token(session: &RemoteSession, result: &WorkerResult) -> TaskToken {
    TaskToken { key: result.key, session: session.id, attempt: result.attempt }
}

/// Every attempt that the worker's request names.
fn named<'r>(session: &'r RemoteSession, request: &'r WorkerExchange) -> impl Iterator<Item = TaskToken> + 'r {
    let finished = request.finished.iter().map(|result| token(session, result));
    let holding =
        request.holding.iter().map(|(key, attempt, _)| TaskToken { key: *key, session: session.id, attempt: *attempt });
    finished.chain(holding)
}

fn completion(session: i64, result: &WorkerResult) -> Completion {
    Completion {
        key: result.key,
        session,
        attempt: result.attempt,
        started_at: result.started_at,
        finished_at: result.finished_at,
        outcome: result.outcome.clone(),
        // Files and log lines came earlier, in separate requests.
        artifacts: Vec::new(),
        logged: false,
    }
}

/// Waits until there is something to answer, at most until the deadline.
async fn wait(
    session: &RemoteSession,
    seq: i64,
    handed_in: &[TaskToken],
    deadline: Instant,
) -> Result<WorkerAnswer, WorkerError> {
    loop {
        let changed = session.changed();
        tokio::pin!(changed);
        changed.as_mut().enable();
        {
            let mut state = session.state();
            if state.lost {
                return Err(WorkerError::SessionLost);
            }
            if let Some(answer) = state.given(seq) {
                return Ok(answer);
            }
            let settled = !handed_in.iter().any(|token| state.is_pending(*token));
            if state.seq > seq {
                // A later request has begun and takes what there is.
                return Ok(state.empty_answer(seq));
            }
            if Instant::now() >= deadline || (settled && state.has_updates()) {
                return Ok(state.answer(seq));
            }
        }
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep_until(deadline.into()) => {}
        }
    }
}

/// Counts the worker as connected while its request is being answered. If the connection breaks instead, the worker
/// must make contact again.
struct ContactGuard<'a> {
    shared: &'a Arc<Shared>,
    session: &'a Arc<RemoteSession>,
    seq: i64,
    answered: bool,
}

impl<'a> ContactGuard<'a> {
    fn begin(shared: &'a Arc<Shared>, session: &'a Arc<RemoteSession>, seq: i64) -> Self {
        session.state().note_contact();
        Self { shared, session, seq, answered: false }
    }

    fn done(mut self, answer: WorkerAnswer) -> Result<WorkerAnswer, WorkerError> {
        self.answered = true;
        Ok(answer)
    }
}

impl Drop for ContactGuard<'_> {
    fn drop(&mut self) {
        let is_latest = {
            let mut state = self.session.state();
            if self.answered {
                state.note_contact()
            } else {
                state.clear_contact()
            }
            state.seq <= self.seq
        };
        if is_latest {
            // The worker wants nothing until it asks again.
            self.shared.gatherer().want(self.session.id, [0; 3]);
        }
    }
}
