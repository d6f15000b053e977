//! The loop of one session: exchange, begin attempts, report results, until the session is lost or the worker is
//! asked to stop.

use std::sync::Arc;
use std::time::Duration;

use mainspring_api::worker::{Exchange, Exchanged, Slots};
use mainspring_core::TaskKey;
use mainspring_core::work::{Assignment, Completion, Order, Outcome};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::assignments;
use super::client::RemoteWorker;
use super::desk::{Attempt, Desk};
use super::link::LinkError;
use super::logs::LogRequest;
use super::session::{Reply, Session};
use crate::control::CancelReason;

/// At most two requests at once: one that only waits may be overtaken by one that carries results.
const MOST_REQUESTS: usize = 2;

/// How long a worker that was asked to stop waits for an answer when it has no results to report.
const SILENCE_PATIENCE: Duration = Duration::from_secs(5);
/// How long after the shutdown deadline the worker retries to report its results.
const LAST_RESULTS_PATIENCE: Duration = Duration::from_secs(10);

/// An event that the loop waits for, apart from completions.
#[derive(Debug)]
enum Event {
    Answer(i64, Reply<Exchanged>),
    /// The log and the files of an attempt are stored: its result may be handed in.
    Stored(Completion),
    Ready(Assignment),
}

/// How a session ended.
pub(crate) enum SessionEnd {
    Lost,
    Done,
}

/// The loop of one session.
pub(crate) struct SessionLoop<'w> {
    worker: &'w mut RemoteWorker,
    session: Session,
    desk: Desk,
    seq: i64,
    /// Exchanges in flight.
    requests: JoinSet<Event>,
    in_flight: usize,
    /// Uploads of logs and files in flight.
    uploads: JoinSet<Event>,
    /// When the attempts that still run are handed back.
    deadline: Option<Instant>,
    /// When a server answered last, or when the worker was asked to stop.
    last_contact: Instant,
    shutting_down: bool,
    /// The session is in a state that an exchange cannot repair.
    broken: bool,
}

impl<'w> SessionLoop<'w> {
    pub(crate) fn new(worker: &'w mut RemoteWorker, session: Session) -> Self {
        let desk = Desk::new(worker.config.slots, worker.config.prefetch);
        Self {
            worker,
            session,
            desk,
            seq: 0,
            requests: JoinSet::new(),
            in_flight: 0,
            uploads: JoinSet::new(),
            deadline: None,
            last_contact: Instant::now(),
            shutting_down: false,
            broken: false,
        }
    }

    pub(crate) async fn run(mut self, stop: &CancellationToken) -> SessionEnd {
        let mut requested = Slots::default();
        loop {
            let beginning = self.desk.begin();
            if !beginning.is_empty() {
                self.worker.pool.assign(beginning);
            }
            if self.broken {
                return SessionEnd::Lost;
            }
            if self.deadline.is_some() && self.desk.is_empty() && self.in_flight == 0 {
                return SessionEnd::Done;
            }
            // A pending request that still asks for work must be replaced, or it could bring some.
            let withdraws = self.desk.draining && requested != Slots::default();
            let has_changes = withdraws || self.desk.has_unsent() || exceeds(self.desk.want(), requested);
            if self.in_flight == 0 || (self.in_flight < MOST_REQUESTS && has_changes) {
                requested = self.send();
            }
            let gives_up_at = self.gives_up_at();
            let event = tokio::select! {
                Some(completion) = self.worker.completions.recv() => {
                    self.completed(completion);
                    while let Ok(completion) = self.worker.completions.try_recv() {
                        self.completed(completion);
                    }
                    continue;
                }
                Some(Ok(event)) = self.requests.join_next() => event,
                Some(Ok(event)) = self.uploads.join_next() => event,
                () = stop.cancelled(), if self.deadline.is_none() => {
                    self.drain();
                    continue;
                }
                () = until(self.deadline), if self.deadline.is_some() && !self.shutting_down => {
                    self.hand_back();
                    continue;
                }
                () = until(gives_up_at), if gives_up_at.is_some() => {
                    tracing::warn!(results = self.desk.finished(), "no server answers: leaving without handing in");
                    return SessionEnd::Done;
                }
            };
            match event {
                Event::Answer(_, Reply::Lost) => {
                    self.requests.abort_all();
                    self.uploads.abort_all();
                    return SessionEnd::Lost;
                }
                Event::Answer(seq, reply) => self.answered(seq, reply),
                Event::Stored(completion) => self.desk.report(&completion),
                // The files arrived after the worker was asked to stop claiming.
                Event::Ready(assignment) if self.desk.draining => self.release(&assignment),
                Event::Ready(assignment) => self.desk.take(assignment),
            }
        }
    }

    /// When a worker that was asked to stop leaves although no server answers.
    fn gives_up_at(&self) -> Option<Instant> {
        let deadline = self.deadline?;
        let has_work = self.desk.running() > 0 || self.desk.finished() > 0;
        Some(if has_work { deadline + LAST_RESULTS_PATIENCE } else { self.last_contact + SILENCE_PATIENCE })
    }

    /// Sends the next exchange and returns the slots that it asks for.
    fn send(&mut self) -> Slots {
        self.seq += 1;
        let seq = self.seq;
        let wait = if self.deadline.is_some() { Duration::from_millis(100) } else { self.session.exchange_wait };
        let exchange: Exchange = self.desk.exchange(self.session.id, seq, wait.as_millis() as u64);
        let want = exchange.want;
        let session = self.session.clone();
        self.in_flight += 1;
        self.requests.spawn(async move { Event::Answer(seq, session.exchange(&exchange).await) });
        want
    }

    fn answered(&mut self, seq: i64, reply: Reply<Exchanged>) {
        self.in_flight -= 1;
        let answer = match reply {
            Reply::Answer(answer) => answer,
            // A later exchange overtook this one.
            Reply::Refused(error) if seq < self.seq => return tracing::debug!(%error, seq, "an exchange was overtaken"),
            Reply::Refused(error) => return self.refused(seq, &error),
            Reply::Lost => return,
        };
        self.worker.pool.lease_renewed();
        self.last_contact = Instant::now();
        for settled in answer.acknowledged.iter().chain(&answer.fenced) {
            if let Ok(key) = settled.task_run_id.parse::<TaskKey>() {
                self.desk.acknowledged((key, settled.attempt));
            }
        }
        for fenced in &answer.fenced {
            tracing::warn!(
                task = fenced.task_run_id,
                attempt = fenced.attempt,
                "a result was refused: the attempt is not ours any more"
            );
        }
        if answer.drain && !self.desk.draining {
            tracing::info!("this worker was asked to take no more work");
            self.desk.draining = true;
            self.release_backlog();
        }
        for wanted in &answer.release {
            let attempt = wanted.task_run_id.parse::<TaskKey>().map(|key| (key, wanted.attempt));
            if let Some(assignment) = attempt.ok().and_then(|attempt| self.desk.unqueue(attempt)) {
                self.release(&assignment);
            }
        }
        for assigned in answer.assignments {
            self.assigned(assigned);
        }
        for cancel in answer.cancel {
            if let Ok(key) = cancel.task_run_id.parse::<TaskKey>() {
                self.cancel((key, cancel.attempt), cancel.reason);
            }
        }
    }

    /// The server refuses the content of this exchange. Its results are replaced with failures, and it is sent again.
    /// After any other refusal, worker and server disagree about the session, and it ends.
    fn refused(&mut self, seq: i64, error: &LinkError) {
        tracing::error!(%error, seq, "the server refuses an exchange");
        let about_content = matches!(error.status(), Some(400 | 413 | 422));
        if about_content && self.in_flight == 0 && self.desk.fail_sent(seq, &error.to_string()) {
            self.seq -= 1;
        } else {
            self.broken = true;
        }
    }

    fn assigned(&mut self, assigned: mainspring_api::worker::Assignment) {
        let files = assigned.files.clone();
        match assignments::read(assigned, self.session.id) {
            // The assignment was on its way when the worker was asked to stop claiming.
            Ok(assignment) if self.desk.draining => self.release(&assignment),
            Ok(assignment) => match files {
                None => self.desk.take(assignment),
                Some(files) => self.fetch(assignment, files.version),
            },
            Err((attempt, failure)) => {
                if let Some((key, attempt)) = attempt {
                    self.desk.report(&self.not_begun(key, attempt, Outcome::Failed(failure)));
                }
            }
        }
    }

    /// Fetches the files of an order before the attempt waits for a slot.
    fn fetch(&mut self, mut assignment: Assignment, version: i64) {
        let (session, cache, clock) =
            (self.session.clone(), Arc::clone(&self.worker.files), Arc::clone(&self.worker.clock));
        if !self.desk.expect(&assignment) {
            return;
        }
        self.uploads.spawn(async move {
            match cache.get(&session, version).await {
                Some(Ok(bundle)) => {
                    assignment.order = Arc::new(Order { files: Some(bundle), ..Order::clone(&assignment.order) });
                    Event::Ready(assignment)
                }
                Some(Err(failure)) => {
                    let now = clock.now();
                    Event::Stored(completion(&assignment, now, Outcome::Failed(failure)))
                }
                // The session was lost; the next exchange shows that to the loop.
                None => std::future::pending().await,
            }
        });
    }

    fn cancel(&mut self, attempt: Attempt, reason: String) {
        match self.desk.unqueue(attempt) {
            Some(assignment) => {
                let cancelled = Outcome::Cancelled { reason };
                self.desk.report(&completion(&assignment, self.worker.clock.now(), cancelled));
            }
            None => self.worker.pool.cancel(attempt.0, attempt.1, CancelReason::Requested(reason)),
        }
    }

    /// Handles an attempt that has ended. Its log and its files are stored before its result is reported.
    fn completed(&mut self, completion: Completion) {
        let attempt = (completion.key, completion.attempt);
        if completion.session != self.session.id || !self.desk.end(attempt) {
            return;
        }
        if !completion.logged && completion.artifacts.is_empty() {
            return self.desk.report(&completion);
        }
        let (done, stored) = oneshot::channel();
        let _ = self.worker.logs.send(LogRequest::Flush(attempt, done));
        let session = self.session.clone();
        self.uploads.spawn(async move {
            // A sender that is dropped has nothing to store any more.
            let _ = stored.await;
            Event::Stored(upload(&session, completion).await)
        });
    }

    /// Stops claiming, hands back the backlog, and gives running attempts time to finish.
    fn drain(&mut self) {
        tracing::info!(running = self.desk.running(), timeout = ?self.worker.config.shutdown_timeout, "draining");
        self.desk.draining = true;
        self.last_contact = Instant::now();
        self.deadline = Some(self.last_contact + self.worker.config.shutdown_timeout);
        self.release_backlog();
    }

    fn release_backlog(&mut self) {
        for assignment in self.desk.unqueue_all() {
            self.release(&assignment);
        }
    }

    /// Hands back an attempt that has not begun.
    fn release(&mut self, assignment: &Assignment) {
        self.desk.report(&completion(assignment, self.worker.clock.now(), Outcome::Released));
    }

    /// Stops the attempts that did not finish in time. The pool reports them as handed back.
    fn hand_back(&mut self) {
        self.shutting_down = true;
        let pool = self.worker.pool.clone();
        tokio::spawn(async move { pool.shutdown(Duration::ZERO).await });
    }

    fn not_begun(&self, key: TaskKey, attempt: i32, outcome: Outcome) -> Completion {
        let now = self.worker.clock.now();
        let session = self.session.id;
        Completion {
            key,
            session,
            attempt,
            started_at: now,
            finished_at: now,
            outcome,
            artifacts: Vec::new(),
            logged: false,
        }
    }
}

/// Whether more slots are wanted than the pending request asked for.
fn exceeds(wanted: Slots, requested: Slots) -> bool {
    wanted.process > requested.process || wanted.function > requested.function || wanted.remote > requested.remote
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Uploads the files of an attempt. A file that cannot be stored fails the attempt, unless it was for a cache.
async fn upload(session: &Session, mut completion: Completion) -> Completion {
    let task_run = completion.key.to_string();
    for artifact in std::mem::take(&mut completion.artifacts) {
        if let Reply::Refused(error) = session.keep_artifact(&task_run, completion.attempt, &artifact).await {
            tracing::error!(%error, task = task_run, name = artifact.name, "a file of a task cannot be kept");
            if artifact.cache_files.is_none() && matches!(completion.outcome, Outcome::Success { .. }) {
                completion.outcome = Outcome::Failed(assignments::failure(
                    "artifacts",
                    format!("the file `{}` cannot be kept: {error}", artifact.name),
                ));
            }
        }
    }
    completion
}

fn completion(assignment: &Assignment, now: i64, outcome: Outcome) -> Completion {
    Completion {
        key: assignment.key,
        session: assignment.session,
        attempt: assignment.attempt,
        started_at: now,
        finished_at: now,
        outcome,
        artifacts: Vec::new(),
        logged: false,
    }
}
