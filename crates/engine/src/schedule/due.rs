//! What is left to do of the advance of a trigger, and the units of fires that do it.

use std::sync::Arc;

use mainspring_core::Micros;
use mainspring_core::schedule::{Advance, Fire, Progress, Schedule};
use mainspring_core::workflow::Trigger;
use mainspring_store::{DueTrigger, FireOf, Fired, Firing, NewFire, Result};

use crate::limits::{LimitName, is_exclusive};
use crate::node::Shared;
use crate::schedule::firing::{FireError, Fires};
use crate::schedule::staging::Units;
use crate::spans::within_trace;
use crate::specs::Spec;

#[derive(Debug)]
pub(crate) struct Timetable {
    pub(crate) trigger: Trigger,
    pub(crate) schedule: Schedule,
}

/// A due trigger and what is left of its advance.
#[derive(Debug)]
pub(crate) struct Pending {
    due: DueTrigger,
    timetable: Arc<Timetable>,
    spec: Arc<Spec>,
    advance: Advance,
    /// How many of its fires are in units already.
    done: usize,
}

impl Pending {
    pub(crate) fn new(due: DueTrigger, timetable: Arc<Timetable>, spec: Arc<Spec>, advance: Advance) -> Self {
        Self { due, timetable, spec, advance, done: 0 }
    }

    /// The limit that its fires will count against, if that is known.
    pub(crate) fn limit(&self) -> Option<LimitName> {
        LimitName::of_fire(self.due.id, &self.timetable.trigger, &self.spec.workflow)
    }

    fn is_done(&self) -> bool {
        self.done >= self.advance.fire.len()
    }

    /// All of it, to be made ahead; `None` for what is better made when it is due.
    pub(crate) async fn whole(&mut self, shared: &Shared, made_at: Micros) -> Result<Option<Firing>> {
        let takes_slots = self.spec.workflow.concurrency.is_some() || is_exclusive(self.timetable.trigger.overlap);
        // Slots that cannot be given back meanwhile may as well be taken before.
        let policy = shared.client.store.fire_policy();
        if takes_slots && !policy.writes_alone || self.advance.fire.len() > 1 {
            return Ok(None);
        }
        let firing = self.next_part(shared, 1, Some(made_at)).await?;
        self.done = 0;
        Ok(policy.stages(&firing).then_some(firing))
    }

    /// The next `room` fires of it, with the state it is in afterwards. Made now, or at that time.
    async fn next_part(&mut self, shared: &Shared, room: usize, made_at: Option<Micros>) -> Result<Firing> {
        let first = self.done == 0;
        let from = self.done;
        let until = (from + room).min(self.advance.fire.len());
        let expected = if first { self.due.next_fire_at } else { self.advance.fire[from].fire_at };
        let mut fires: Vec<NewFire> = Vec::with_capacity(until - from + 1);
        if first {
            fires.extend(
                self.advance.missed.map(|missed| NewFire::missed(missed, "the scheduler did not fire it in time")),
            );
            fires.extend(self.advance.blacked_out.iter().map(|closed| NewFire::blacked_out(*closed)));
        }
        for fire in &self.advance.fire[from..until] {
            fires.push(self.new_fire(shared, *fire, made_at).await?);
        }
        self.done = until;
        let (covered, next) = match self.advance.fire.get(until) {
            Some(following) => (self.advance.fire[until - 1].nominal, Some(*following)),
            None => (self.advance.covered, self.advance.next),
        };
        // Only fires that start a run count for `max_executions`.
        let started = fires.iter().filter(|fire| fire.run().is_some()).count();
        let next_if_refused = next.or_else(|| self.upcoming(covered));
        let next = if started < until - from { next_if_refused } else { next };
        let (trigger, revision) = (self.due.id, self.due.revision);
        Ok(Firing { trigger, revision, next_fire_at: expected, fires, covered, next, next_if_refused })
    }

    /// What comes after `covered` while a fire of this advance has not counted.
    fn upcoming(&self, covered: Micros) -> Option<Fire> {
        self.timetable.schedule.upcoming(Progress { covered, ..self.due.progress })
    }

    async fn new_fire(&self, shared: &Shared, fire: Fire, made_at: Option<Micros>) -> Result<NewFire> {
        let clock = &shared.client.clock;
        let fires = Fires {
            id: self.due.id,
            run: made_at.map_or_else(|| clock.new_id(), |at| clock.new_id_ahead(at)),
            trigger: &self.timetable.trigger,
            spec: &self.spec,
            nominal: fire.nominal,
            event: None,
            depth: 0,
            cause: None,
            backfill: None,
        };
        let what = match within_trace(fires.trigger.trace, shared.client.prepare_fire(fires)).await {
            Ok(run) => FireOf::Run(Box::new(run)),
            Err(FireError::Failed(failure)) => {
                tracing::warn!(trigger = %self.due.id, error = failure.message, "a trigger fired without a run");
                FireOf::Failed(failure.message)
            }
            Err(FireError::Store(error)) => return Err(error),
        };
        Ok(NewFire { nominal: fire.nominal, what })
    }
}

/// Sends the due fires in units.
pub(crate) async fn send_all(
    shared: &Shared,
    units: &mut Units,
    mut pending: Vec<Pending>,
    size: usize,
) -> Result<Fired> {
    let mut at = 0;
    while at < pending.len() {
        let mut unit: Vec<Firing> = Vec::new();
        let mut room = size;
        // The next fire of a trigger builds on its previous one.
        let goes_on = pending[at].done > 0;
        while at < pending.len() && room > 0 {
            let firing = pending[at].next_part(shared, room, None).await?;
            room = room.saturating_sub(firing.fires.len().max(1));
            unit.push(firing);
            if pending[at].is_done() {
                at += 1;
            }
        }
        let fired = units.send(unit, goes_on).await?;
        if !matches!(fired, Fired::Done(_)) {
            return Ok(fired);
        }
    }
    Ok(Fired::Done(Vec::new()))
}
