//! The units of fires that are under way: sent while the next one is prepared.
//!
//! Units go side by side: each has triggers of its own, and takes the locks of the limits that they share in the same order.
//! One that goes on with triggers of another waits for it.
//!
//! What fires at the same instant is made before any of it is started: lanes that woke after the first unit would take the
//! database from the others, and those would be late.
//!
//! Units can be made ahead: the database has done all but the commit when their time comes. Until then no reader sees them, and
//! dropping them changes nothing. On SQLite, where every writer waits for them, they begin as late as possible.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_store::{Created, Error, FireOf, Fired, Firing, NewFire, NewRun, Result, Staged, Term};
use mainspring_telemetry::Event;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::bus::{BusMessage, ClaimableRoutes};
use crate::metering::seconds;
use crate::node::Shared;

/// The database works on one unit while another is prepared and sent.
const AT_ONCE: usize = 2;
/// How long created runs wait to be announced together with the others of their pass.
const LONGEST_SILENCE: Duration = Duration::from_millis(100);

/// How long before its time a unit is staged at most, because its triggers, or all writers, are locked.
const LONGEST_LEAD: Duration = Duration::from_millis(120);
/// How long before its time a unit begins when other writers wait for it. Twice the time of its fires is added.
const MARGIN: Duration = Duration::from_millis(5);
/// The time per fire is estimated from units of at least this size.
const MIN_SAMPLE: usize = 100;

pub(crate) struct Units {
    shared: Arc<Shared>,
    term: Term,
    wall: Micros,
    under_way: JoinSet<Result<Fired>>,
    /// Signals the commit to each staged unit.
    commit_signals: Vec<oneshot::Sender<()>>,
    /// Since when there are runs that were not announced.
    silent_since: Option<Instant>,
}

impl Units {
    pub(crate) fn new(shared: Arc<Shared>, term: Term, wall: Micros) -> Self {
        Self { shared, term, wall, under_way: JoinSet::new(), commit_signals: Vec::new(), silent_since: None }
    }

    /// Stages a unit that waits for [`Units::commit`]; on PostgreSQL it locks nothing but its triggers.
    pub(crate) fn make_ahead(&mut self, unit: Vec<Firing>) {
        let (signal, commit_signal) = oneshot::channel();
        let (shared, term, at) = (Arc::clone(&self.shared), self.term.clone(), self.wall);
        self.under_way.spawn(async move { fire_ahead(&shared, &term, &unit, at, commit_signal).await });
        self.commit_signals.push(signal);
    }

    /// Commits the staged units.
    pub(crate) fn commit(&mut self) {
        for signal in self.commit_signals.drain(..) {
            // A unit that has ended needs no signal.
            _ = signal.send(());
        }
    }

    /// Sends a unit as soon as it may go; `after_others` if it builds on those before it. Returns the result of an
    /// earlier unit that failed, in which case this one was not sent.
    pub(crate) async fn send(&mut self, unit: Vec<Firing>, after_others: bool) -> Result<Fired> {
        let fired = self.wait_for_fewer_than(if after_others { 1 } else { AT_ONCE }).await?;
        if !matches!(fired, Fired::Done(_)) {
            return Ok(fired);
        }
        let (shared, term, wall) = (Arc::clone(&self.shared), self.term.clone(), self.wall);
        self.under_way.spawn(async move { fire(&shared, &term, &unit, wall).await });
        Ok(fired)
    }

    /// Waits for all units under way.
    pub(crate) async fn finish(&mut self) -> Result<Fired> {
        self.wait_for_fewer_than(1).await
    }

    fn ring(&mut self) {
        if self.silent_since.take().is_some() {
            self.shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        }
    }

    async fn wait_for_fewer_than(&mut self, count: usize) -> Result<Fired> {
        while self.under_way.len() >= count
            && let Some(ended) = self.under_way.join_next().await
        {
            let fired =
                ended.unwrap_or_else(|error| Err(Error::Conflict(format!("a unit of fires broke off: {error}"))))?;
            if !matches!(fired, Fired::Done(_)) {
                return Ok(fired);
            }
            if self.silent_since.get_or_insert_with(Instant::now).elapsed() > LONGEST_SILENCE {
                self.ring();
            }
        }
        Ok(Fired::Done(Vec::new()))
    }
}

impl Drop for Units {
    fn drop(&mut self) {
        // A dropped signal rolls a staged unit back.
        if !self.commit_signals.is_empty() {
            self.under_way.detach_all();
        }
        // A cancelled unit may have been committed.
        if !self.under_way.is_empty() {
            self.silent_since.get_or_insert_with(Instant::now);
        }
        self.ring();
    }
}

async fn fire(shared: &Shared, term: &Term, unit: &[Firing], wall: Micros) -> Result<Fired> {
    let client = &shared.client;
    let fired = client.repeat(|| client.store.fire(client.now(), wall, term, unit)).await;
    match fired {
        Ok(Fired::Done(created)) => {
            after(shared, unit, &created).await?;
            Ok(Fired::Done(created))
        }
        // The database refuses one fire of the unit; the fires are tried one by one.
        Err(Error::Rejected(error)) if unit.len() > 1 => {
            tracing::warn!(%error, "a batch of fires was refused; trying one by one");
            for firing in unit {
                let single = Box::pin(fire(shared, term, std::slice::from_ref(firing), wall)).await?;
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

async fn fire_ahead(
    shared: &Shared,
    term: &Term,
    unit: &[Firing],
    at: Micros,
    mut commit_signal: oneshot::Receiver<()>,
) -> Result<Fired> {
    let client = &shared.client;
    let policy = client.store.fire_policy();
    let lead = if policy.writes_alone { shared.pace.lead(unit.len()) } else { LONGEST_LEAD };
    let early = at - client.clock.wall() - lead.as_micros() as Micros;
    if let Ok(early) = u64::try_from(early) {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_micros(early)) => {}
            signal = &mut commit_signal => match signal {
                Ok(()) => return fire(shared, term, unit, at).await,
                Err(_) => return Ok(Fired::Stale),
            },
        }
    }
    let (began, made_at) = (Instant::now(), client.clock.ahead(at));
    let staged = match client.store.stage_fires(made_at, at, term, unit).await {
        Ok(Staged::Ready(staged)) => staged,
        Ok(Staged::Stale) => return Ok(Fired::Stale),
        Ok(Staged::Deposed) => return Ok(Fired::Deposed),
        Err(error) => return Ok(failed_ahead(&error)),
    };
    client.timekeeping.note_made_ahead(unit.len());
    shared.pace.note(unit.len(), began.elapsed());
    if !matches!(tokio::time::timeout(policy.longest_wait, commit_signal).await, Ok(Ok(()))) {
        // The signal was dropped, so nothing happened.
        return Ok(Fired::Stale);
    }
    match staged.commit().await {
        Ok(created) => {
            after(shared, unit, &created).await?;
            Ok(Fired::Done(created))
        }
        Err(error) => Ok(failed_ahead(&error)),
    }
}

fn failed_ahead(error: &Error) -> Fired {
    tracing::debug!(%error, "fires that were staged failed; the next turn looks at them");
    Fired::Stale
}

/// The recent cost of a fire.
#[derive(Debug)]
pub(crate) struct Pace {
    nanos: AtomicU64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { nanos: AtomicU64::new(60_000) }
    }
}

impl Pace {
    fn note(&self, fires: usize, took: Duration) {
        if fires >= MIN_SAMPLE {
            let nanos = took.as_nanos() as u64 / fires as u64;
            let before = self.nanos.load(Ordering::Relaxed);
            self.nanos.store((3 * before + nanos) / 4, Ordering::Relaxed);
        }
    }

    /// How long before its time a unit of `fires` fires should begin.
    fn lead(&self, fires: usize) -> Duration {
        let takes = Duration::from_nanos(self.nanos.load(Ordering::Relaxed) * fires as u64);
        (MARGIN + takes * 2).min(LONGEST_LEAD)
    }
}

/// Follows up on a committed unit.
async fn after(shared: &Shared, unit: &[Firing], created: &[Created]) -> Result<()> {
    let wall = shared.client.clock.wall();
    let fires = unit.iter().flat_map(|firing| &firing.fires);
    let metrics = &shared.client.metrics;
    for (firing, fire) in unit.iter().flat_map(|firing| firing.fires.iter().map(move |fire| (firing, fire))) {
        if let FireOf::Run(run) = &fire.what {
            shared.client.trace_start(run, fire.nominal);
            metrics.record(Event::ScheduleFired { lag: seconds(wall - fire.nominal.max(firing.next_fire_at)) });
        }
    }
    let made = created.iter().filter(|created| created.run().is_some()).count() as u64;
    metrics.record(Event::RunsTriggered { count: made });
    shared.client.timekeeping.note_fires(
        unit.iter()
            .flat_map(|firing| firing.fires.iter().map(|fire| (firing.next_fire_at, fire)))
            .filter(|(_, fire)| matches!(fire.what, FireOf::Run(_) | FireOf::Failed(_)))
            .map(|(due, fire)| wall - fire.nominal.max(due)),
    );
    settle_created(shared, fires.filter_map(NewFire::run).zip(created)).await
}

/// Big runs are created in chunks, and a waiting run may cancel others to make room.
pub(crate) async fn settle_created(shared: &Shared, runs: impl Iterator<Item = (&NewRun, &Created)>) -> Result<()> {
    for (run, created) in runs {
        if *created == Created::Queued(run.id) {
            shared.client.make_room_for(run).await?;
        }
        if run.version.main_tasks > 5_000 {
            shared.client.bus.signals().wake_promotion();
        }
    }
    Ok(())
}

/// The same fire with a failure reason instead of its runs.
fn without_runs(firing: &Firing, reason: &str) -> Firing {
    let mut firing = firing.clone();
    firing.next = firing.next.or(firing.next_if_refused);
    for fire in &mut firing.fires {
        if matches!(fire.what, FireOf::Run(_)) {
            fire.what = FireOf::Failed(format!("the database refused it: {reason}"));
        }
    }
    firing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_begins_the_earlier_the_longer_its_fires_take() {
        let pace = Pace::default();
        let at_first = pace.lead(1_000);
        assert!(pace.lead(10) < at_first);
        for _ in 0..20 {
            pace.note(1_000, Duration::from_millis(20));
        }
        let fast = pace.lead(1_000);
        assert!(fast < at_first && fast > Duration::from_millis(20), "{fast:?}");
        pace.note(1, Duration::from_secs(5));
        assert_eq!(pace.lead(1_000), fast, "one that waited for others tells nothing");
        for _ in 0..20 {
            pace.note(1_000, Duration::from_millis(500));
        }
        assert_eq!(pace.lead(1_000), LONGEST_LEAD);
    }
}
