//! The loop that fires triggers: on the leader, by the time of day, in batches.
//!
//! `next_fire_at` is a row, never memory: a turn reads what is due by its index, decides with the pure schedule what
//! becomes of it, and fires it in units that hold the leader's term. A leader that was overtaken finds its unit stale or
//! itself deposed, and nothing has happened. Between turns it sleeps until shortly before the next fire, bounded, so that a
//! clock that is set is noticed; changes of triggers wake it. In that short time what fires next is read and made, all but
//! the commit: when it is due nothing else is left to do. Whatever changes meanwhile does not undo it: a change either came
//! first, and the unit is stale, or it waits for the unit.
//!
//! A clock that goes back makes the loop wait until it has come to where the triggers are settled. That is not silent: see
//! [`crate::TimekeepingStatus::behind`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_store::{DueTrigger, Error, Fired, Result, Term};
use mainspring_telemetry::Event;
use uuid::Uuid;

use crate::node::Shared;
use crate::schedule::due::{Pending, Timetable, send_all};
use crate::schedule::staging::Units;

/// How many fires one unit has at most. With few due it has as few as configured, so that the first do not wait for the
/// others, and several units go in parallel.
const MOST_PER_UNIT: usize = 1_000;
/// How many triggers a pass takes.
const AT_ONCE: usize = 1_000;
const MOST_AT_ONCE: usize = 16_000;
/// How many parsed schedules are kept, twice: those used lately and those before.
const MOST_TIMETABLES: usize = 10_000;
/// How long before it is due a fire is read and prepared.
const LOOK_AHEAD: Duration = Duration::from_millis(200);
/// How many fires are made ahead at most; more would not be ready in time.
const MOST_AHEAD: usize = 1_000;
/// A fire that is later than this is not late: the clock was set, and the schedule must decide about the time in
/// between.
const GOOD_FOR: Micros = 1_000_000;
const AFTER_ERROR: Duration = Duration::from_millis(200);

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut terms = shared.term.subscribe();
    let mut keeper = Keeper { limit: AT_ONCE, ..Keeper::default() };
    loop {
        let held = match shared.stop.run_until_cancelled(terms.wait_for(Option::is_some)).await {
            Some(Ok(term)) => term.clone(),
            _ => return,
        };
        let Some(term) = held else { continue };
        prepare(&shared).await;
        shared.client.timekeeping.leads.store(true, Ordering::Relaxed);
        while terms.borrow().as_ref() == Some(&term) {
            let started = Instant::now();
            let pause = match keeper.tick(&shared, &term).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "firing triggers");
                    AFTER_ERROR
                }
            };
            shared.client.timekeeping.note_turn(started.elapsed());
            shared.client.metrics.record(Event::LoopPassed { name: "schedule_clock" });
            tokio::select! {
                () = shared.stop.cancelled() => return,
                _ = terms.changed() => {}
                () = shared.client.bus.signals().schedules_were_changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        keeper.ahead = None;
        shared.client.timekeeping.leads.store(false, Ordering::Relaxed);
        shared.client.timekeeping.note_behind(0);
    }
}

async fn prepare(shared: &Shared) {
    let prepared = shared.stop.run_until_cancelled(shared.client.store.prepare_to_fire()).await;
    if let Some(Err(error)) = prepared {
        tracing::debug!(%error, "preparing to fire; the first fires do it then");
    }
}

type Timetables = HashMap<Uuid, (i64, Arc<Timetable>)>;

#[derive(Default)]
struct Keeper {
    /// By trigger; of one revision each.
    timetables: Timetables,
    older_timetables: Timetables,
    limit: usize,
    /// Of the time zones that `timetables` was made with.
    zones: u64,
    /// The latest time of day at which something was due.
    latest: Micros,
    ahead: Option<PreparedFires>,
}

/// The next fires, prepared before they are due. Dropping them rolls them back.
struct PreparedFires {
    at: Micros,
    /// How many there are altogether.
    count: usize,
    /// Staged units that wait for their commit.
    units: Units,
    /// Fires that must be staged when they are due.
    pending: Vec<Pending>,
}

impl PreparedFires {
    /// Whether its time is still to come. If it is further off than when it was prepared, the clock was set.
    fn waits(&self, wall: Micros) -> bool {
        (1..=LOOK_AHEAD.as_micros() as Micros).contains(&(self.at - wall))
    }

    fn is_due(&self, wall: Micros) -> bool {
        (0..GOOD_FOR).contains(&(wall - self.at))
    }
}

impl Keeper {
    /// Fires what is due, and returns how long to sleep.
    async fn tick(&mut self, shared: &Arc<Shared>, term: &Term) -> Result<Duration> {
        let store = &shared.client.store;
        let wall = shared.client.clock.wall();
        let zones = mainspring_core::schedule::zone_generation();
        if std::mem::replace(&mut self.zones, zones) != zones {
            self.timetables.clear();
            self.older_timetables.clear();
        }
        if let Some(ahead) = self.ahead.take_if(|ahead| !ahead.waits(wall))
            && ahead.is_due(wall)
        {
            return self.fire_ahead(shared, ahead).await;
        }
        let next = store.next_fire().await?;
        if next.is_none_or(|next| next.0 > wall) {
            self.limit = AT_ONCE;
            // The next fire may have been added since; the time that is settled elsewhere is remembered.
            let settled = next.map_or(Micros::MIN, |next| next.1.max(self.latest));
            shared.client.timekeeping.note_behind(settled.saturating_sub(wall));
            return self.look_ahead(shared, term, next.map(|next| next.0)).await;
        }
        if store.fire_policy().writes_alone {
            // These would wait for the prepared units, which wait for their time.
            self.ahead = None;
        }
        let due = store.due_triggers(wall, self.limit as i64).await?;
        self.fire_all(shared, term, due, wall).await
    }

    /// Prepares the next fires if they are due soon and nothing is prepared; returns how long to sleep.
    async fn look_ahead(&mut self, shared: &Arc<Shared>, term: &Term, next: Option<Micros>) -> Result<Duration> {
        let until = |next: Micros| {
            let left = next.saturating_sub(shared.client.clock.wall());
            Duration::from_micros(u64::try_from(left).unwrap_or(0))
        };
        if let Some(ahead) = &self.ahead {
            return Ok(until(next.map_or(ahead.at, |next| next.min(ahead.at))));
        }
        let longest = shared.config.schedule_interval;
        let Some(next) = next else { return Ok(longest) };
        let early = until(next).saturating_sub(LOOK_AHEAD);
        if !early.is_zero() {
            return Ok(early.min(longest));
        }
        let due = shared.client.store.due_triggers(next, self.limit as i64).await?;
        match self.make_ahead(shared, term, due, next).await {
            Ok(ahead) => self.ahead = Some(ahead),
            Err(error) => tracing::debug!(%error, "preparing what is due next; it is tried again when it is"),
        }
        Ok(until(next).min(LOOK_AHEAD))
    }

    async fn make_ahead(
        &mut self,
        shared: &Arc<Shared>,
        term: &Term,
        due: Vec<DueTrigger>,
        at: Micros,
    ) -> Result<PreparedFires> {
        let count = due.len();
        let mut units = Units::new(Arc::clone(shared), term.clone(), at);
        let side_by_side = shared.client.store.fire_policy().units;
        let mut pending = self.pending(shared, term, due, at).await?;
        let made_at = shared.client.clock.ahead(at);
        let later = pending.split_off(pending.len().min(MOST_AHEAD));
        let size = pending.len().div_ceil(side_by_side).max(1);
        let (mut unit, mut left) = (Vec::with_capacity(size), Vec::new());
        for mut one in pending {
            match one.whole(shared, made_at).await? {
                Some(firing) => unit.push(firing),
                None => left.push(one),
            }
            if unit.len() == size {
                units.make_ahead(std::mem::take(&mut unit));
            }
        }
        if !unit.is_empty() {
            units.make_ahead(unit);
        }
        left.extend(later);
        Ok(PreparedFires { at, count, units, pending: left })
    }

    /// Commits the prepared fires at their time.
    async fn fire_ahead(&mut self, shared: &Shared, ahead: PreparedFires) -> Result<Duration> {
        let PreparedFires { at, count, mut units, pending } = ahead;
        units.commit();
        self.note_due(at, count);
        let size = unit_size(shared, count);
        let fired = send_all(shared, &mut units, pending, size).await?;
        end_tick(shared, units, fired).await
    }

    fn note_due(&mut self, wall: Micros, count: usize) {
        self.latest = self.latest.max(wall);
        self.limit = if count == self.limit { (self.limit * 4).min(MOST_AT_ONCE) } else { AT_ONCE };
    }

    /// What each due trigger does now. A trigger that cannot be evaluated is parked with the reason.
    async fn pending(
        &mut self,
        shared: &Shared,
        term: &Term,
        due: Vec<DueTrigger>,
        wall: Micros,
    ) -> Result<Vec<Pending>> {
        let versions: Vec<i64> = due.iter().filter_map(|due| due.version).collect();
        let specs = shared.client.specs.get_many(&versions).await?;
        let mut pending = Vec::with_capacity(due.len());
        for due in due {
            let spec = due.version.and_then(|version| specs.get(&version)).map(Arc::clone);
            let timetable = match spec {
                None => Err("its workflow has no version".to_owned()),
                Some(spec) => self.timetable(shared, &due).await?.map(|timetable| (spec, timetable)),
            };
            match timetable {
                Ok((spec, timetable)) => {
                    let advance = timetable.schedule.advance(due.progress, wall, timetable.trigger.catchup);
                    pending.push(Pending::new(due, timetable, spec, advance));
                }
                Err(problem) => {
                    tracing::error!(trigger = %due.id, problem, "a trigger cannot fire");
                    shared.client.store.park_trigger(wall, term, &due, &problem).await?;
                }
            }
        }
        shared.client.limits.read_ahead(pending.iter().filter_map(Pending::limit)).await?;
        Ok(pending)
    }

    async fn timetable(
        &mut self,
        shared: &Shared,
        due: &DueTrigger,
    ) -> Result<std::result::Result<Arc<Timetable>, String>> {
        let cached = self.timetables.get(&due.id).cloned().or_else(|| self.older_timetables.remove(&due.id));
        if let Some((revision, timetable)) = cached
            && revision == due.revision
        {
            self.keep(due, &timetable);
            return Ok(Ok(timetable));
        }
        let trigger = match due.trigger() {
            Ok(trigger) => trigger,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let calendar = match &due.calendar {
            None => None,
            Some(name) => match shared.client.store.calendar(&due.namespace, name).await {
                Ok(calendar) => Some(calendar.spec),
                Err(error @ (Error::NotFound { .. } | Error::BadRow { .. })) => return Ok(Err(error.to_string())),
                Err(error) => return Err(error),
            },
        };
        let schedule = match due.schedule(&trigger, calendar.as_ref()) {
            Ok(schedule) => schedule,
            Err(error) => return Ok(Err(error)),
        };
        let timetable = Arc::new(Timetable { trigger, schedule });
        self.keep(due, &timetable);
        Ok(Ok(timetable))
    }

    fn keep(&mut self, due: &DueTrigger, timetable: &Arc<Timetable>) {
        if self.timetables.len() >= MOST_TIMETABLES {
            let forgotten = std::mem::replace(&mut self.older_timetables, std::mem::take(&mut self.timetables));
            // Taking thousands apart would hold up what is due.
            tokio::task::spawn_blocking(move || drop(forgotten));
        }
        self.timetables.insert(due.id, (due.revision, Arc::clone(timetable)));
    }

    /// Fires everything in units of bounded size; the next unit is prepared while one is under way. A stale unit ends
    /// the pass, and the next pass looks again.
    async fn fire_all(
        &mut self,
        shared: &Arc<Shared>,
        term: &Term,
        due: Vec<DueTrigger>,
        wall: Micros,
    ) -> Result<Duration> {
        self.note_due(wall, due.len());
        let size = unit_size(shared, due.len());
        let mut units = Units::new(Arc::clone(shared), term.clone(), wall);
        let mut due = due.into_iter();
        let mut fired = Fired::Done(Vec::new());
        while matches!(fired, Fired::Done(_)) && due.len() > 0 && !shared.stop.is_cancelled() {
            let some = due.by_ref().take(size).collect();
            let pending = self.pending(shared, term, some, wall).await?;
            fired = send_all(shared, &mut units, pending, size).await?;
        }
        end_tick(shared, units, fired).await
    }
}

/// How many fires one unit has if `due` are due.
fn unit_size(shared: &Shared, due: usize) -> usize {
    let fewest = shared.config.schedule_batch.clamp(1, MOST_PER_UNIT);
    (due / 4).clamp(fewest, MOST_PER_UNIT)
}

/// Waits for the units under way, and returns how long to sleep.
async fn end_tick(shared: &Shared, mut units: Units, mut fired: Fired) -> Result<Duration> {
    if matches!(fired, Fired::Done(_)) {
        fired = units.finish().await?;
    }
    if fired == Fired::Deposed {
        shared.client.metrics.record(Event::WriteFenced { kind: "term" });
        return Ok(shared.config.schedule_interval);
    }
    Ok(Duration::ZERO)
}
