//! What a remote worker has: attempts that run, attempts that wait for a slot, results that no server has acknowledged.

use std::collections::{HashMap, VecDeque};

use mainspring_api::worker::{AttemptRef, Exchange, Finished, HeldAttempt, ResultError, ResultOutcome, Slots};
use mainspring_core::TaskKey;
use mainspring_core::recent::Recent;
use mainspring_core::time::rfc3339;
use mainspring_core::work::{Assignment, Completion, OrderAction, Outcome};

/// Results of about this many bytes go into one exchange.
const BYTES_AT_ONCE: usize = 512 << 10;

/// How many begun attempts are remembered.
const REMEMBERED: usize = 10_000;

/// The kind of a failure whose result the server did not take.
const REFUSED: &str = "result_refused";

pub(crate) type Attempt = (TaskKey, i32);

/// Counts of processes, functions and remote tasks.
pub(crate) type Counts = [u32; 3];

#[derive(Debug)]
struct Unacknowledged {
    report: Report,
    bytes: usize,
    /// The last exchange that carried this result.
    sent: Option<i64>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "moved once, into the report that is sent")]
enum Report {
    Finished(Finished),
    Released(AttemptRef),
}

/// What the loop knows of its attempts.
#[derive(Debug)]
pub(crate) struct Desk {
    slots: Counts,
    prefetch: u32,
    running: HashMap<Attempt, usize>,
    /// Attempts that were claimed and have not begun, in the order in which they arrived.
    backlog: VecDeque<Assignment>,
    results: HashMap<Attempt, Unacknowledged>,
    /// Attempts that have ended here but whose log or files are still on their way.
    ending: HashMap<Attempt, usize>,
    /// Attempts whose files are on their way.
    fetching: HashMap<Attempt, usize>,
    /// Attempts that began lately and may have ended, or were handed back. A late answer can assign an attempt again after
    /// another server has taken its result.
    begun: Recent<Attempt>,
    pub(crate) draining: bool,
}

impl Desk {
    pub(crate) fn new(slots: Counts, prefetch: u32) -> Self {
        Self {
            slots,
            prefetch,
            running: HashMap::new(),
            backlog: VecDeque::new(),
            results: HashMap::new(),
            ending: HashMap::new(),
            fetching: HashMap::new(),
            begun: Recent::new(REMEMBERED),
            draining: false,
        }
    }

    /// Takes an assignment from a server. An attempt that has begun or is queued already was delivered twice, and is
    /// ignored.
    pub(crate) fn take(&mut self, assignment: Assignment) {
        let attempt = (assignment.key, assignment.attempt);
        self.fetching.remove(&attempt);
        if !self.knows(attempt) {
            self.backlog.push_back(assignment);
        }
    }

    /// Expects an attempt whose files are being fetched. False if the attempt is known already.
    pub(crate) fn expect(&mut self, assignment: &Assignment) -> bool {
        let attempt = (assignment.key, assignment.attempt);
        !self.knows(attempt) && self.fetching.insert(attempt, class(assignment)).is_none()
    }

    fn knows(&self, attempt: Attempt) -> bool {
        self.begun.contains(&attempt)
            || self.running.contains_key(&attempt)
            || self.ending.contains_key(&attempt)
            || self.results.contains_key(&attempt)
            || self.backlog.iter().any(|waiting| (waiting.key, waiting.attempt) == attempt)
    }

    /// Takes the attempts that can begin now from the backlog.
    pub(crate) fn begin(&mut self) -> Vec<Assignment> {
        let mut beginning = Vec::new();
        let mut waiting = VecDeque::with_capacity(self.backlog.len());
        let mut free = self.free_slots();
        while let Some(assignment) = self.backlog.pop_front() {
            let class = class(&assignment);
            if free[class] == 0 {
                waiting.push_back(assignment);
                continue;
            }
            free[class] -= 1;
            self.running.insert((assignment.key, assignment.attempt), class);
            self.begun.add((assignment.key, assignment.attempt));
            beginning.push(assignment);
        }
        self.backlog = waiting;
        beginning
    }

    fn free_slots(&self) -> Counts {
        let mut free = self.slots;
        for class in self.running.values() {
            free[*class] = free[*class].saturating_sub(1);
        }
        free
    }

    /// An attempt has ended. Its result follows when its log and files are stored. False if the attempt is unknown.
    pub(crate) fn end(&mut self, attempt: Attempt) -> bool {
        match self.running.remove(&attempt) {
            Some(class) => {
                self.ending.insert(attempt, class);
                true
            }
            None => false,
        }
    }

    /// The result of an attempt that has ended, or was never begun.
    pub(crate) fn report(&mut self, completion: &Completion) {
        let attempt = (completion.key, completion.attempt);
        self.running.remove(&attempt);
        self.ending.remove(&attempt);
        self.fetching.remove(&attempt);
        self.begun.add(attempt);
        let report = report(completion);
        let bytes = serde_json::to_string(
            &match &report {
                Report::Finished(finished) => serde_json::to_value(finished),
                Report::Released(released) => serde_json::to_value(released),
            }
            .unwrap_or_default(),
        )
        .map_or(0, |text| text.len());
        self.results.insert(attempt, Unacknowledged { report, bytes, sent: None });
    }

    /// Removes an attempt that was not begun.
    pub(crate) fn unqueue(&mut self, attempt: Attempt) -> Option<Assignment> {
        let position = self.backlog.iter().position(|waiting| (waiting.key, waiting.attempt) == attempt)?;
        self.backlog.remove(position)
    }

    pub(crate) fn unqueue_all(&mut self) -> Vec<Assignment> {
        self.backlog.drain(..).collect()
    }

    pub(crate) fn acknowledged(&mut self, attempt: Attempt) {
        self.results.remove(&attempt);
    }

    /// Replaces the results that this exchange carried with failures. False if there was no result to replace.
    pub(crate) fn fail_sent(&mut self, seq: i64, cause: &str) -> bool {
        let mut any = false;
        for result in self.results.values_mut().filter(|result| result.sent == Some(seq)) {
            if let Report::Finished(finished) = &mut result.report
                && finished.error.as_ref().is_none_or(|error| error.kind != REFUSED)
            {
                any = true;
                finished.outcome = ResultOutcome::Failed;
                finished.output = None;
                let message = format!("the server refused the result: {cause}");
                finished.error = Some(ResultError { kind: REFUSED.into(), message, ..ResultError::default() });
                result.bytes = 500;
            }
            result.sent = None;
        }
        any
    }

    /// Nothing runs, waits or is to be handed in.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
            && self.backlog.is_empty()
            && self.ending.is_empty()
            && self.fetching.is_empty()
            && self.results.is_empty()
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len() + self.ending.len()
    }

    /// Results that no server has acknowledged.
    pub(crate) fn finished(&self) -> usize {
        self.results.values().filter(|result| matches!(result.report, Report::Finished(_))).count()
    }

    /// Whether a result waits that no exchange has carried yet.
    pub(crate) fn has_unsent(&self) -> bool {
        self.results.values().any(|result| result.sent.is_none())
    }

    /// How many more attempts it can take.
    pub(crate) fn want(&self) -> Slots {
        if self.draining {
            return Slots::default();
        }
        let mut free = self.free_slots();
        let mut ahead = self.prefetch;
        for class in self.fetching.values().copied().chain(self.backlog.iter().map(class)) {
            if free[class] > 0 {
                free[class] -= 1;
            } else {
                ahead = ahead.saturating_sub(1);
            }
        }
        let extra = |class: usize| if self.slots[class] > 0 { ahead } else { 0 };
        Slots { process: free[0] + extra(0), function: free[1] + extra(1), remote: free[2] + extra(2) }
    }

    /// The next exchange.
    pub(crate) fn exchange(&mut self, session_id: i64, seq: i64, wait_ms: u64) -> Exchange {
        let (mut finished, mut released) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        for result in self.results.values_mut() {
            // A result whose exchange was not acknowledged is sent again, but not before the next exchange is answered.
            let due = result.sent.is_none_or(|sent| sent + 2 <= seq);
            if !due || (bytes > 0 && bytes + result.bytes > BYTES_AT_ONCE) || finished.len() + released.len() >= 500 {
                continue;
            }
            bytes += result.bytes;
            result.sent = Some(seq);
            match &result.report {
                Report::Finished(report) => finished.push(report.clone()),
                Report::Released(report) => released.push(report.clone()),
            }
        }
        let held =
            self.running.keys().chain(self.ending.keys()).chain(self.fetching.keys()).map(|attempt| (*attempt, true));
        let waiting = self.backlog.iter().map(|waiting| ((waiting.key, waiting.attempt), false));
        let held_attempt =
            |((key, attempt), started): (Attempt, bool)| HeldAttempt { task_run_id: key.to_string(), attempt, started };
        let holding = held.chain(waiting).map(held_attempt).collect();
        Exchange { session_id, seq, finished, released, holding, want: self.want(), wait_ms }
    }
}

fn attempt_ref((key, attempt): Attempt) -> AttemptRef {
    AttemptRef { task_run_id: key.to_string(), attempt }
}

fn class(assignment: &Assignment) -> usize {
    match assignment.order.action {
        OrderAction::Run { .. } | OrderAction::Steps { .. } => 0,
        OrderAction::Http(_) | OrderAction::Function { .. } => 1,
        OrderAction::Remote { .. } => 2,
    }
}

fn report(completion: &Completion) -> Report {
    let mut finished = Finished {
        task_run_id: completion.key.to_string(),
        attempt: completion.attempt,
        outcome: ResultOutcome::Success,
        output: None,
        error: None,
        exit_code: None,
        started_at: Some(rfc3339(completion.started_at)),
        finished_at: Some(rfc3339(completion.finished_at)),
    };
    match &completion.outcome {
        Outcome::Released => return Report::Released(attempt_ref((completion.key, completion.attempt))),
        Outcome::Success { output } => finished.output = output.clone(),
        Outcome::Cancelled { reason } => {
            finished.outcome = ResultOutcome::Cancelled;
            finished.error =
                Some(ResultError { kind: "cancelled".into(), message: reason.clone(), ..ResultError::default() });
        }
        Outcome::Failed(failure) => {
            finished.outcome = ResultOutcome::Failed;
            finished.exit_code = failure.exit_code;
            finished.error = Some(ResultError {
                kind: failure.kind.clone(),
                message: failure.message.clone(),
                status: failure.status,
                detail: failure.detail.clone(),
                permanent: failure.permanent,
            });
        }
    }
    Report::Finished(finished)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mainspring_core::RunId;
    use mainspring_core::work::Order;

    use super::*;

    fn assignment(index: i32) -> Assignment {
        let order = serde_json::json!({"namespace": "default", "workflow": "w", "task": "t", "action": {"kind": "run", "script": "x"}});
        let order: Order = serde_json::from_value(order).unwrap();
        let key = TaskKey { run: RunId::from_u128(1), index, item: -1 };
        Assignment { key, session: 1, attempt: 1, generation: 0, order: Arc::new(order), trace: None }
    }

    fn completion(index: i32) -> Completion {
        let Assignment { key, session, attempt, .. } = assignment(index);
        let outcome = Outcome::Success { output: None };
        Completion {
            key,
            session,
            attempt,
            started_at: 0,
            finished_at: 0,
            outcome,
            artifacts: Vec::new(),
            logged: false,
        }
    }

    #[test]
    fn what_has_no_slot_waits_and_is_wanted_no_more_than_the_prefetch_allows() {
        let mut desk = Desk::new([2, 0, 0], 1);
        assert_eq!(desk.want(), Slots { process: 3, ..Slots::default() });
        (0..3).for_each(|index| desk.take(assignment(index)));
        desk.take(assignment(0));
        assert_eq!(desk.begin().len(), 2, "the same attempt twice is one");
        assert_eq!(desk.want(), Slots::default());
        let exchange = desk.exchange(1, 1, 0);
        assert_eq!(exchange.holding.iter().filter(|held| held.started).count(), 2);
        assert_eq!(exchange.holding.iter().filter(|held| !held.started).count(), 1);
        desk.report(&completion(0));
        assert_eq!(desk.begin().len(), 1);
    }

    #[test]
    fn a_result_is_sent_again_until_it_is_acknowledged_but_not_at_once() {
        let mut desk = Desk::new([2, 0, 0], 0);
        desk.take(assignment(0));
        desk.begin();
        desk.report(&completion(0));
        assert!(desk.has_unsent());
        assert_eq!(desk.exchange(1, 1, 0).finished.len(), 1);
        assert!(!desk.has_unsent());
        assert!(desk.exchange(1, 2, 0).finished.is_empty(), "the answer to the first is on its way");
        assert_eq!(desk.exchange(1, 3, 0).finished.len(), 1);
        assert!(!desk.is_empty());
        desk.acknowledged((completion(0).key, 1));
        assert!(desk.is_empty());
        desk.take(assignment(0));
        assert!(
            desk.begin().is_empty(),
            "an assignment that comes late, after the result was taken, is not executed again"
        );
    }

    #[test]
    fn what_was_handed_back_is_not_begun_when_it_is_assigned_again_late() {
        let mut desk = Desk::new([1, 0, 0], 1);
        (0..2).for_each(|index| desk.take(assignment(index)));
        assert_eq!(desk.begin().len(), 1);
        let waiting = desk.unqueue((assignment(1).key, 1)).unwrap();
        desk.report(&Completion { outcome: Outcome::Released, ..completion(1) });
        desk.acknowledged((waiting.key, 1));
        desk.report(&completion(0));
        desk.take(waiting);
        assert!(desk.begin().is_empty(), "others execute it by now");
    }

    #[test]
    fn what_waits_for_its_files_takes_the_place_of_others() {
        let mut desk = Desk::new([2, 0, 0], 1);
        assert!(desk.expect(&assignment(0)));
        assert!(!desk.expect(&assignment(0)), "it is expected already");
        assert_eq!(desk.want().process, 2);
        (1..3).for_each(|index| assert!(desk.expect(&assignment(index))));
        assert_eq!(desk.want(), Slots::default());
        (0..3).for_each(|index| desk.take(assignment(index)));
        assert_eq!(desk.begin().len(), 2);
    }

    #[test]
    fn a_result_that_the_server_does_not_take_becomes_a_failure_once() {
        let mut desk = Desk::new([1, 0, 0], 0);
        desk.take(assignment(0));
        desk.begin();
        desk.report(&completion(0));
        desk.exchange(1, 1, 0);
        assert!(desk.fail_sent(1, "too large"));
        let again = desk.exchange(1, 1, 0);
        assert_eq!(again.finished[0].outcome, ResultOutcome::Failed);
        assert!(!desk.fail_sent(1, "too large"), "not for ever");
    }
}
