//! The loop that fires triggers: on the leader, by the time of day, in batches.
//!
//! `next_fire_at` is a row, never memory: a turn reads what is due by its index, decides with the pure schedule what
//! becomes of it, and fires it in units that hold the leader's term. Whoever was overtaken finds his unit stale or
//! himself deposed, and nothing has happened. Between turns it sleeps until the next fire, bounded, so that a clock that
//! is set is noticed; changes of triggers wake it.
//!
//! A clock that goes back makes the loop wait until it has come to where the triggers are settled. That is not silent: see
//! [`TimekeepingStatus::behind`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_core::schedule::{Fire, Schedule, Turn};
use mainspring_core::workflow::Trigger;
use mainspring_store::{Created, DueTrigger, Error, FireOf, Fired, Firing, NewFire, NewRun, Result, Term};
use uuid::Uuid;

use crate::firing::{FireError, Fires};
use crate::node::Shared;
use crate::specs::Spec;

/// How many fires one unit makes at most.
const FIRES_PER_UNIT: usize = 1_000;
/// How many triggers a turn takes at most.
const MOST_AT_ONCE: usize = 4_000;
/// How many parsed schedules are kept.
const KEPT: usize = 20_000;
/// A clock that is behind by less has not been set.
const NOTABLE: Micros = 2_000_000;
const AFTER_ERROR: Duration = Duration::from_millis(200);
/// Lags are counted by the millisecond up to here.
const LAGS: usize = 4_096;

/// What others may know of the loop.
#[derive(Debug)]
pub(crate) struct Timekeeping {
    turns: AtomicU64,
    busy_us: AtomicU64,
    fired: AtomicU64,
    behind_us: AtomicI64,
    lags: Mutex<Vec<u64>>,
}

/// How the loop that fires triggers is doing on this node.
#[derive(Debug, Clone)]
pub struct TimekeepingStatus {
    pub leads: bool,
    /// How often it has looked.
    pub turns: u64,
    /// How long that took altogether.
    pub busy: Duration,
    /// How many nominal instants it has settled by a fire.
    pub fired: u64,
    /// The machine's clock was set back: nothing fires until so much time has passed.
    pub behind: Option<Duration>,
    /// How many fires were so many milliseconds late; the last counts all that were later.
    pub lags: Vec<u64>,
}

impl Default for Timekeeping {
    fn default() -> Self {
        Self {
            turns: AtomicU64::new(0),
            busy_us: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            behind_us: AtomicI64::new(0),
            lags: Mutex::new(vec![0; LAGS]),
        }
    }
}

impl Timekeeping {
    pub(crate) fn status(&self, leads: bool) -> TimekeepingStatus {
        let behind = self.behind_us.load(Ordering::Relaxed);
        TimekeepingStatus {
            leads,
            turns: self.turns.load(Ordering::Relaxed),
            busy: Duration::from_micros(self.busy_us.load(Ordering::Relaxed)),
            fired: self.fired.load(Ordering::Relaxed),
            behind: (behind > 0).then(|| Duration::from_micros(behind as u64)),
            lags: self.lags.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn note_turn(&self, took: Duration) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.busy_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }

    fn note_fires(&self, late: impl Iterator<Item = Micros>) {
        let mut lags = self.lags.lock().unwrap_or_else(PoisonError::into_inner);
        for late in late {
            let at = usize::try_from(late / 1_000).unwrap_or(0).min(LAGS - 1);
            lags[at] += 1;
            self.fired.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes how far the clock is behind what is settled; logged once per time it goes back.
    fn note_behind(&self, behind: Micros) {
        let behind = if behind > NOTABLE { behind } else { 0 };
        let before = self.behind_us.swap(behind, Ordering::Relaxed);
        if behind > 0 && before == 0 {
            let seconds = behind / 1_000_000;
            tracing::warn!(seconds, "the clock was set back: schedules wait until it has caught up");
        } else if behind == 0 && before > 0 {
            tracing::info!("the clock has caught up: schedules go on");
        }
    }
}

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut terms = shared.term.subscribe();
    let mut keeper = Keeper { limit: shared.config.schedule_batch.max(1), ..Keeper::default() };
    loop {
        let held = match shared.stop.run_until_cancelled(terms.wait_for(Option::is_some)).await {
            Some(Ok(term)) => term.clone(),
            _ => return,
        };
        let Some(term) = held else { continue };
        while terms.borrow().as_ref() == Some(&term) {
            let started = Instant::now();
            let pause = match keeper.turn(&shared, &term).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "firing triggers");
                    AFTER_ERROR
                }
            };
            shared.timekeeping.note_turn(started.elapsed());
            tokio::select! {
                () = shared.stop.cancelled() => return,
                _ = terms.changed() => {}
                () = shared.client.bell.clock_rung() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        shared.timekeeping.note_behind(0);
    }
}

#[derive(Debug, Default)]
struct Keeper {
    /// By trigger; of one revision each.
    known: HashMap<Uuid, (i64, Arc<Timetable>)>,
    limit: usize,
    /// The latest time of day at which something was due.
    latest: Micros,
}

#[derive(Debug)]
struct Timetable {
    trigger: Trigger,
    schedule: Schedule,
}

/// A due trigger and what is left to do of its turn.
#[derive(Debug)]
struct Pending {
    due: DueTrigger,
    timetable: Arc<Timetable>,
    spec: Arc<Spec>,
    turn: Turn,
    /// How many of its fires are in units already.
    done: usize,
}

impl Keeper {
    /// Fires what is due and says how long nothing will be.
    async fn turn(&mut self, shared: &Shared, term: &Term) -> Result<Duration> {
        let store = &shared.client.store;
        let wall = shared.client.clock.wall();
        let due = store.due_triggers(wall, self.limit as i64).await?;
        if due.is_empty() {
            self.limit = shared.config.schedule_batch.max(1);
            let next = store.next_fire().await?;
            // What fires next may have been made since; where others are settled is remembered.
            let settled = next.map_or(Micros::MIN, |next| next.1.max(self.latest));
            shared.timekeeping.note_behind(settled.saturating_sub(wall));
            let until = next.map_or(Micros::MAX, |next| next.0.saturating_sub(shared.client.clock.wall()));
            let until = Duration::from_micros(u64::try_from(until).unwrap_or(0));
            return Ok(until.min(shared.config.schedule_interval));
        }
        self.latest = self.latest.max(wall);
        let full = due.len() == self.limit;
        let pending = self.pending(shared, term, due, wall).await?;
        self.limit = if full { (self.limit * 4).min(MOST_AT_ONCE) } else { shared.config.schedule_batch.max(1) };
        self.fire_all(shared, term, pending, wall).await
    }

    /// What each due trigger does now. One that cannot be understood is taken out of sight, with the reason.
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
            let known = match spec {
                None => Err("its workflow has no version".to_owned()),
                Some(spec) => self.timetable(shared, &due).await?.map(|timetable| (spec, timetable)),
            };
            match known {
                Ok((spec, timetable)) => {
                    let turn = timetable.schedule.turn(due.progress, wall, timetable.trigger.catchup);
                    pending.push(Pending { due, timetable, spec, turn, done: 0 });
                }
                Err(problem) => {
                    tracing::error!(trigger = %due.id, problem, "a trigger cannot fire");
                    shared.client.store.park_trigger(wall, term, &due, &problem).await?;
                }
            }
        }
        Ok(pending)
    }

    async fn timetable(
        &mut self,
        shared: &Shared,
        due: &DueTrigger,
    ) -> Result<std::result::Result<Arc<Timetable>, String>> {
        if let Some((revision, timetable)) = self.known.get(&due.id)
            && *revision == due.revision
        {
            return Ok(Ok(Arc::clone(timetable)));
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
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        let timetable = Arc::new(Timetable { trigger, schedule });
        self.known.insert(due.id, (due.revision, Arc::clone(&timetable)));
        Ok(Ok(timetable))
    }

    /// Fires everything in units of bounded size. A unit that is stale ends the turn: the next one looks again.
    async fn fire_all(
        &mut self,
        shared: &Shared,
        term: &Term,
        mut pending: Vec<Pending>,
        wall: Micros,
    ) -> Result<Duration> {
        let mut at = 0;
        while at < pending.len() {
            let mut unit: Vec<Firing> = Vec::new();
            let mut room = FIRES_PER_UNIT;
            while at < pending.len() && room > 0 {
                let firing = pending[at].next_part(shared, room).await?;
                room = room.saturating_sub(firing.fires.len().max(1));
                unit.push(firing);
                if pending[at].is_done() {
                    at += 1;
                }
            }
            match self.fire_unit(shared, term, &unit, wall).await? {
                Fired::Done(_) => {}
                Fired::Stale => break,
                Fired::Deposed => return Ok(shared.config.schedule_interval),
            }
            if shared.stop.is_cancelled() {
                break;
            }
        }
        Ok(Duration::ZERO)
    }

    async fn fire_unit(&mut self, shared: &Shared, term: &Term, unit: &[Firing], wall: Micros) -> Result<Fired> {
        let client = &shared.client;
        let fired = client.repeat(|| client.store.fire(client.now(), wall, term, unit)).await;
        match fired {
            Ok(Fired::Done(created)) => {
                after(shared, unit, &created).await?;
                Ok(Fired::Done(created))
            }
            // The database refuses something of it: find out what.
            Err(Error::Rejected(error)) if unit.len() > 1 => {
                tracing::warn!(%error, "a batch of fires was refused; trying one by one");
                for firing in unit {
                    let single = Box::pin(self.fire_unit(shared, term, std::slice::from_ref(firing), wall)).await?;
                    if single == Fired::Deposed {
                        return Ok(single);
                    }
                }
                Ok(Fired::Done(Vec::new()))
            }
            Err(Error::Rejected(error)) => {
                let without = without_runs(&unit[0], &error.to_string());
                tracing::error!(trigger = %unit[0].trigger, %error, "the database refused a fire");
                client.store.fire(client.now(), wall, term, &[without]).await
            }
            other => other,
        }
    }
}

impl Pending {
    fn is_done(&self) -> bool {
        self.done >= self.turn.fire.len()
    }

    /// The next so many fires of it, with the state it is in afterwards.
    async fn next_part(&mut self, shared: &Shared, room: usize) -> Result<Firing> {
        let first = self.done == 0;
        let from = self.done;
        let until = (from + room).min(self.turn.fire.len());
        let expected = if first { self.due.next_fire_at } else { self.turn.fire[from].fire_at };
        let mut fires: Vec<NewFire> = Vec::with_capacity(until - from + 1);
        if first {
            fires.extend(self.turn.missed.map(|missed| NewFire::missed(missed, "nobody fired it in time")));
            fires.extend(self.turn.blacked_out.iter().map(|closed| NewFire::blacked_out(*closed)));
        }
        for fire in &self.turn.fire[from..until] {
            fires.push(self.new_fire(shared, *fire).await?);
        }
        self.done = until;
        let (covered, next) = match self.turn.fire.get(until) {
            Some(following) => (self.turn.fire[until - 1].nominal, Some(*following)),
            None => (self.turn.covered, self.turn.next),
        };
        let (trigger, revision) = (self.due.id, self.due.revision);
        Ok(Firing { trigger, revision, next_fire_at: expected, fires, covered, next })
    }

    async fn new_fire(&self, shared: &Shared, fire: Fire) -> Result<NewFire> {
        let fires = Fires {
            id: self.due.id,
            trigger: &self.timetable.trigger,
            spec: &self.spec,
            nominal: fire.nominal,
            event: None,
            depth: 0,
            backfill: None,
        };
        let what = match shared.client.prepare_fire(fires).await {
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

/// What has to happen when a unit is done.
async fn after(shared: &Shared, unit: &[Firing], created: &[Created]) -> Result<()> {
    let wall = shared.client.clock.wall();
    let fires = unit.iter().flat_map(|firing| &firing.fires);
    shared.timekeeping.note_fires(
        unit.iter()
            .flat_map(|firing| firing.fires.iter().map(|fire| (firing.next_fire_at, fire)))
            .filter(|(_, fire)| matches!(fire.what, FireOf::Run(_) | FireOf::Failed(_)))
            .map(|(due, fire)| wall - fire.nominal.max(due)),
    );
    let runs = fires.filter_map(|fire| match &fire.what {
        FireOf::Run(run) => Some(&**run),
        _ => None,
    });
    settle_created(shared, runs.zip(created)).await?;
    shared.client.bell.look();
    Ok(())
}

/// Big runs are made in chunks, and one that waits may ask others to make room.
pub(crate) async fn settle_created(shared: &Shared, runs: impl Iterator<Item = (&NewRun, &Created)>) -> Result<()> {
    for (run, created) in runs {
        if *created == Created::Queued(run.id) {
            shared.client.make_room_for(run).await?;
        }
        if run.version.main_tasks > 5_000 {
            shared.duty.notify_one();
        }
    }
    Ok(())
}

/// The same fire with the reason instead of its runs.
fn without_runs(firing: &Firing, reason: &str) -> Firing {
    let mut firing = firing.clone();
    for fire in &mut firing.fires {
        if matches!(fire.what, FireOf::Run(_)) {
            fire.what = FireOf::Failed(format!("the database refused it: {reason}"));
        }
    }
    firing
}
