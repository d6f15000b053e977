//! The life of one session: exchange, begin, hand in, until it is lost or the worker is asked to stop.

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
use super::session::{Session, Told};
use crate::control::CancelReason;

/// A request that only waits may be overtaken by another that hands in: two at once, never more.
const MOST_REQUESTS: usize = 2;

/// A worker that was asked to stop, and has nothing that a server must learn of, waits this long for one to answer.
const SILENCE_PATIENCE: Duration = Duration::from_secs(5);
/// How long after its deadline it goes on trying to hand in what it has.
const LAST_RESULTS_PATIENCE: Duration = Duration::from_secs(10);

/// What the loop waits for besides completions.
#[derive(Debug)]
enum Event {
    Answer(i64, Told<Exchanged>),
    /// The log and the files of an attempt are stored: its result may be handed in.
    Stored(Completion),
    Ready(Assignment),
}

/// How it ended.
pub(crate) enum Ended {
    Lost,
    Done,
}

/// The life of one session.
pub(crate) struct SessionLoop<'w> {
    worker: &'w mut RemoteWorker,
    session: Session,
    desk: Desk,
    seq: i64,
    /// Exchanges under way.
    requests: JoinSet<Event>,
    flights: usize,
    /// Logs and files under way.
    uploads: JoinSet<Event>,
    /// When what still runs is handed back.
    deadline: Option<Instant>,
    /// When a server answered last, or the worker was asked to stop.
    heard: Instant,
    shutting: bool,
    /// The session cannot go on.
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
            flights: 0,
            uploads: JoinSet::new(),
            deadline: None,
            heard: Instant::now(),
            shutting: false,
            broken: false,
        }
    }

    pub(crate) async fn run(mut self, stop: &CancellationToken) -> Ended {
        let mut wants = Slots::default();
        loop {
            let beginning = self.desk.begin();
            if !beginning.is_empty() {
                self.worker.pool.assign(beginning);
            }
            if self.broken {
                return Ended::Lost;
            }
            if self.deadline.is_some() && self.desk.is_empty() && self.flights == 0 {
                return Ended::Done;
            }
            // A request that waits for more work than is wanted now must not bring any.
            let withdraws = self.desk.draining && wants != Slots::default();
            let news = withdraws || self.desk.has_unsent() || more(self.desk.want(), wants);
            if self.flights == 0 || (self.flights < MOST_REQUESTS && news) {
                wants = self.send();
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
                () = until(self.deadline), if self.deadline.is_some() && !self.shutting => {
                    self.hand_back();
                    continue;
                }
                () = until(gives_up_at), if gives_up_at.is_some() => {
                    tracing::warn!(results = self.desk.finished(), "no server answers: leaving without handing in");
                    return Ended::Done;
                }
            };
            match event {
                Event::Answer(_, Told::Lost) => {
                    self.requests.abort_all();
                    self.uploads.abort_all();
                    return Ended::Lost;
                }
                Event::Answer(seq, told) => self.answered(seq, told),
                Event::Stored(completion) => self.desk.report(&completion),
                // Its files came after the worker was asked to take no more.
                Event::Ready(assignment) if self.desk.draining => self.release(&assignment),
                Event::Ready(assignment) => self.desk.take(assignment),
            }
        }
    }

    /// When a worker that was asked to stop leaves although no server answers.
    fn gives_up_at(&self) -> Option<Instant> {
        let deadline = self.deadline?;
        let has_work = self.desk.running() > 0 || self.desk.finished() > 0;
        Some(if has_work { deadline + LAST_RESULTS_PATIENCE } else { self.heard + SILENCE_PATIENCE })
    }

    /// Sends the next exchange; returns what it wants.
    fn send(&mut self) -> Slots {
        self.seq += 1;
        let seq = self.seq;
        let wait = if self.deadline.is_some() { Duration::from_millis(100) } else { self.session.exchange_wait };
        let exchange: Exchange = self.desk.exchange(self.session.id, seq, wait.as_millis() as u64);
        let want = exchange.want;
        let session = self.session.clone();
        self.flights += 1;
        self.requests.spawn(async move { Event::Answer(seq, session.exchange(&exchange).await) });
        want
    }

    fn answered(&mut self, seq: i64, told: Told<Exchanged>) {
        self.flights -= 1;
        let answer = match told {
            Told::Answer(answer) => answer,
            // A later one overtook it.
            Told::Refused(error) if seq < self.seq => return tracing::debug!(%error, seq, "an exchange was overtaken"),
            Told::Refused(error) => return self.refused(seq, &error),
            Told::Lost => return,
        };
        self.worker.pool.heard();
        self.heard = Instant::now();
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

    /// The server refuses what this exchange carried: its results fail, and it is sent again without them. Anything else
    /// means that both sides disagree about the session.
    fn refused(&mut self, seq: i64, error: &LinkError) {
        tracing::error!(%error, seq, "the server refuses an exchange");
        let about_content = matches!(error.status(), Some(400 | 413 | 422));
        if about_content && self.flights == 0 && self.desk.fail_sent(seq, &error.to_string()) {
            self.seq -= 1;
        } else {
            self.broken = true;
        }
    }

    fn assigned(&mut self, assigned: mainspring_api::worker::Assignment) {
        let files = assigned.files.clone();
        match assignments::read(assigned, self.session.id) {
            // It was on its way when the worker was asked to take no more.
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

    /// Gets the files of an order before it waits for a slot.
    fn fetch(&mut self, mut assignment: Assignment, version: i64) {
        let (session, cache, clock) =
            (self.session.clone(), Arc::clone(&self.worker.files), Arc::clone(&self.worker.clock));
        if !self.desk.expect((assignment.key, assignment.attempt)) {
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
                // The loop learns of it by its next exchange.
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

    /// An attempt has ended: its log and its files go first.
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

    /// Takes no more, hands back what was not begun, and lets the rest finish for a while.
    fn drain(&mut self) {
        tracing::info!(running = self.desk.running(), timeout = ?self.worker.config.shutdown_timeout, "draining");
        self.desk.draining = true;
        self.heard = Instant::now();
        self.deadline = Some(self.heard + self.worker.config.shutdown_timeout);
        self.release_backlog();
    }

    fn release_backlog(&mut self) {
        for assignment in self.desk.unqueue_all() {
            self.release(&assignment);
        }
    }

    /// Hands back what was not begun.
    fn release(&mut self, assignment: &Assignment) {
        self.desk.report(&completion(assignment, self.worker.clock.now(), Outcome::Released));
    }

    /// What has not finished in time is stopped; the pool reports it as handed back.
    fn hand_back(&mut self) {
        self.shutting = true;
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

/// Whether it wants more than it has said.
fn more(now: Slots, said: Slots) -> bool {
    now.process > said.process || now.function > said.function || now.remote > said.remote
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Keeps the files of an attempt. One that cannot be kept fails it, unless it was for a cache.
async fn upload(session: &Session, mut completion: Completion) -> Completion {
    let task_run = completion.key.to_string();
    for artifact in std::mem::take(&mut completion.artifacts) {
        if let Told::Refused(error) = session.keep_artifact(&task_run, completion.attempt, &artifact).await {
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
