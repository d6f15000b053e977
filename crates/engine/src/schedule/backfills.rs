//! The loop of backfills: on the leader, a few runs of each backfill at a time.
//!
//! The number of open runs is the throttle. The open runs are read from the store when this node begins to lead, and
//! remembered from then on; ends are reported by the lanes or found by polling.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mainspring_boxed::boxed;
use mainspring_core::schedule::{Next, Schedule};
use mainspring_core::workflow::{Trigger, TriggerSource};
use mainspring_core::{Micros, RunId};
use mainspring_store::{
    BackfillRow, Created, Error, FireOf, Fired, NewBackfill, NewFire, NewRun, Result, Term, TriggerRow,
};
use uuid::Uuid;

use crate::bus::{BusMessage, ClaimableRoutes};
use crate::client::Client;
use crate::node::Shared;
use crate::schedule::firing::{FireError, Fires};
use crate::schedule::staging::settle_created;

const AT_ONCE: i64 = 20;
/// How many runs one pass creates.
const RUNS_PER_STEP: usize = 500;
const WHILE_ACTIVE: Duration = Duration::from_millis(250);
/// A backfill of more instants than this is refused.
const MOST_INSTANTS: usize = 1_000_000;
/// How much lower the priority of its runs is.
const BEHIND: i16 = 250;

/// A past range of a trigger to be run.
#[derive(Debug, Clone)]
pub struct BackfillRequest {
    pub trigger: TriggerRow,
    /// The first instant that belongs to it.
    pub from: Micros,
    /// The first instant beyond it.
    pub to: Micros,
    pub max_parallel: Option<u32>,
    /// Lower than the workflow's unless given.
    pub priority: Option<i16>,
    pub created_by: String,
    /// Whether instants that have not come yet may be made now.
    pub allow_future: bool,
}

#[boxed]
impl Client {
    /// The nominal times of a backfill, in order.
    pub async fn backfill_fires(&self, request: &BackfillRequest) -> Result<Vec<Micros>> {
        let row = &request.trigger;
        if request.to <= request.from {
            return Err(Error::Invalid("the range of a backfill ends before it begins: give `to` after `from`".into()));
        }
        if request.to > self.clock.wall() && !request.allow_future {
            let message = "the range of a backfill ends in the future, where the schedule fires by itself: give a `to` that has passed, \
                           or `allow_future` (--allow-future) to make those runs now";
            return Err(Error::Invalid(message.into()));
        }
        let schedule = self.past_schedule(row, request.from).await?;
        let (mut fires, mut after) = (Vec::new(), request.from.saturating_sub(1));
        while let Some(nominal) = following(&schedule, after).filter(|nominal| *nominal < request.to) {
            fires.push(nominal);
            after = nominal;
            if fires.len() > MOST_INSTANTS {
                let message = format!("the range has more than {MOST_INSTANTS} fires: make several backfills of it");
                return Err(Error::Invalid(message));
            }
        }
        if fires.is_empty() {
            return Err(Error::Invalid(format!("trigger `{}` does not fire within the range", row.trigger.id)));
        }
        Ok(fires)
    }

    /// Starts a backfill; the leader creates its runs.
    pub async fn start_backfill(&self, request: &BackfillRequest) -> Result<BackfillRow> {
        let row = &request.trigger;
        let max_parallel = request.max_parallel.unwrap_or(1);
        if !(1..=10_000).contains(&max_parallel) {
            return Err(Error::Invalid(format!("max_parallel is {max_parallel}, but must be between 1 and 10000")));
        }
        self.backfill_fires(request).await?;
        let usual = row.trigger.priority;
        let usual = match usual {
            Some(priority) => priority,
            None => self.latest(&row.namespace, &row.workflow).await?.workflow.priority,
        };
        let new = NewBackfill {
            id: self.clock.new_id(),
            trigger_id: row.id,
            from_at: request.from,
            to_at: request.to,
            max_parallel: max_parallel as i32,
            priority: request.priority.unwrap_or_else(|| (usual - BEHIND).max(0)),
            created_by: request.created_by.clone(),
        };
        self.store.insert_backfill(self.clock.wall(), &new).await?;
        self.schedules_changed().await;
        self.store.backfill(new.id).await
    }

    /// The schedule of a trigger without the bounds of its creation, start and end.
    async fn past_schedule(&self, row: &TriggerRow, from: Micros) -> Result<Schedule> {
        if !row.trigger.source.has_past() {
            let kind = row.trigger.source.kind();
            return Err(Error::Invalid(format!(
                "trigger `{}` is of the kind {kind}: only `cron`, `every` and `at` have a past that can be made up for",
                row.trigger.id
            )));
        }
        let mut trigger =
            Trigger { start: None, end: None, max_executions: None, jitter_ms: None, ..row.trigger.clone() };
        if let TriggerSource::Every(ms) = &trigger.source {
            let interval = Micros::try_from(*ms).unwrap_or(Micros::MAX).saturating_mul(1_000).max(1);
            let anchor = row.trigger.start.unwrap_or(row.anchor_at);
            let back = (anchor - from).max(0).div_euclid(interval).saturating_add(1).saturating_mul(interval);
            trigger.start = Some(anchor.saturating_sub(back));
        }
        self.schedule_of(&TriggerRow { trigger, ..row.clone() }).await
    }
}

fn following(schedule: &Schedule, after: Micros) -> Option<Micros> {
    match schedule.next(after, 0) {
        Next::Fire { fire, .. } => Some(fire.nominal),
        Next::Done => None,
    }
}

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut terms = shared.term.subscribe();
    let mut ended = shared.ended_runs.subscribe();
    loop {
        let held = match shared.stop.run_until_cancelled(terms.wait_for(Option::is_some)).await {
            Some(Ok(term)) => term.clone(),
            _ => return,
        };
        let Some(term) = held else { continue };
        let mut open: HashMap<Uuid, Vec<RunId>> = HashMap::new();
        while terms.borrow().as_ref() == Some(&term) {
            let pause = match tick(&shared, &term, &mut open).await {
                Ok(true) => WHILE_ACTIVE,
                Ok(false) => shared.config.schedule_interval,
                Err(error) => {
                    tracing::warn!(%error, "making up for the past");
                    shared.config.schedule_interval
                }
            };
            tokio::select! {
                () = shared.stop.cancelled() => return,
                _ = terms.changed() => {}
                _ = ended.recv(), if open.values().any(|runs| !runs.is_empty()) => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

/// Advances every active backfill; returns whether there is any.
async fn tick(shared: &Shared, term: &Term, open: &mut HashMap<Uuid, Vec<RunId>>) -> Result<bool> {
    let active = shared.client.store.active_backfills(AT_ONCE).await?;
    open.retain(|id, _| active.iter().any(|backfill| backfill.id == *id));
    for backfill in &active {
        let runs = match open.get(&backfill.id) {
            Some(runs) => shared.client.store.unfinished_runs(runs).await?,
            None => shared.client.store.open_backfill_runs(backfill.id).await?,
        };
        let runs = open.entry(backfill.id).insert_entry(runs).into_mut();
        let room = (backfill.max_parallel as usize).saturating_sub(runs.len()).min(RUNS_PER_STEP);
        if room > 0 {
            step(shared, term, backfill, room, runs).await?;
        }
    }
    Ok(!active.is_empty())
}

async fn step(shared: &Shared, term: &Term, backfill: &BackfillRow, room: usize, open: &mut Vec<RunId>) -> Result<()> {
    let client = &shared.client;
    let row = client.store.trigger(backfill.trigger_id).await?;
    let schedule = match client.past_schedule(&row, backfill.from_at).await {
        Ok(schedule) => schedule,
        Err(error @ (Error::Invalid(_) | Error::NotFound { .. })) => {
            tracing::error!(backfill = %backfill.id, %error, "a backfill cannot go on");
            return client.store.cancel_backfill(client.clock.wall(), backfill.id).await.map(|_| ());
        }
        Err(error) => return Err(error),
    };
    let spec = client.latest(&row.namespace, &row.workflow).await?;
    let mut fires: Vec<NewFire> = Vec::new();
    let mut position = backfill.position_at;
    while fires.len() < room
        && let Some(nominal) = following(&schedule, position).filter(|nominal| *nominal < backfill.to_at)
    {
        let fire = Fires {
            id: row.id,
            run: client.clock().new_id(),
            trigger: &row.trigger,
            spec: &spec,
            nominal,
            event: None,
            depth: 0,
            cause: None,
            backfill: Some((backfill.id, backfill.priority)),
        };
        let what = match client.prepare_fire(fire).await {
            Ok(run) => FireOf::Run(Box::new(run)),
            Err(FireError::Failed(failure)) => FireOf::Failed(failure.message),
            Err(FireError::Store(error)) => return Err(error),
        };
        fires.push(NewFire { nominal, what });
        position = nominal;
    }
    let exhausted = following(&schedule, position).is_none_or(|nominal| nominal >= backfill.to_at);
    // A backfill is done when its last run has ended.
    let done = exhausted && fires.is_empty() && open.is_empty();
    if fires.is_empty() && !done {
        return Ok(());
    }
    let now = (client.now(), client.clock.wall());
    let fired = client.repeat(|| client.store.step_backfill(now, term, backfill, &fires, position, done)).await?;
    if let Fired::Done(created) = fired {
        let runs: Vec<&NewRun> = fires
            .iter()
            .filter_map(|fire| match &fire.what {
                FireOf::Run(run) => Some(&**run),
                _ => None,
            })
            .collect();
        open.extend(created.iter().filter_map(|created: &Created| created.run()));
        settle_created(shared, runs.into_iter().zip(&created)).await?;
        client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
    }
    Ok(())
}
