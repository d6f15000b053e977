//! Operations on schedules: look ahead, pause, resume, change calendars.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::schedule::{CalendarSpec, Fire, Next, Schedule};
use mainspring_core::workflow::{Trigger, Workflow};
use mainspring_store::{Edition, Error, Result, TriggerRow};
use uuid::Uuid;

use crate::bus::BusMessage;
use crate::client::Client;

/// How many fires are looked at to find how often a trigger fires.
const LOOKED_AT: usize = 200;

#[boxed]
impl Client {
    pub async fn pause_trigger(&self, id: Uuid) -> Result<TriggerRow> {
        let row = self.repeat(|| self.store.pause_trigger(self.clock.wall(), id)).await?;
        self.schedules_changed().await;
        Ok(row)
    }

    /// Resumes a trigger. Its catch-up policy decides about missed fires.
    pub async fn resume_trigger(&self, id: Uuid) -> Result<TriggerRow> {
        let row = self.repeat(|| self.store.resume_trigger(self.clock.wall(), id)).await?;
        self.schedules_changed().await;
        Ok(row)
    }

    /// Enables or disables the triggers of a workflow.
    pub async fn set_workflow_active(&self, workflow_id: Uuid, active: bool, expected: Option<Edition>) -> Result<()> {
        self.repeat(|| self.store.set_workflow_active(self.clock.wall(), workflow_id, active, expected)).await?;
        self.schedules_changed().await;
        Ok(())
    }

    /// Deletes a calendar that no schedule names.
    pub async fn delete_calendar(&self, namespace: &str, name: &str) -> Result<()> {
        self.store.delete_calendar(namespace, name).await
    }

    /// The next fires of a trigger, even if it is paused.
    pub async fn next_fires(&self, row: &TriggerRow, count: usize) -> Result<Vec<Fire>> {
        if !row.trigger.source.is_scheduled() || row.next.is_none() {
            return Ok(Vec::new());
        }
        let schedule = self.schedule_of(row).await?;
        // Fires that were missed while it was paused, or because the loop is late, are not "next".
        let covered = row.covered_at.max(self.clock.wall());
        Ok(following(&schedule, covered, row.fired, count))
    }

    pub(crate) async fn schedule_of(&self, row: &TriggerRow) -> Result<Schedule> {
        let calendar = match &row.trigger.calendar {
            None => None,
            Some(name) => Some(self.store.calendar(&row.namespace, name).await?.spec),
        };
        row.schedule(calendar.as_ref()).map_err(Error::Invalid)
    }

    /// Creates or replaces a calendar; returns how many triggers name it.
    pub async fn put_calendar(&self, namespace: &str, name: &str, spec: &CalendarSpec) -> Result<usize> {
        let named = self.repeat(|| self.store.put_calendar(self.clock.wall(), namespace, name, spec)).await?;
        self.schedules_changed().await;
        Ok(named)
    }

    /// Recomputes the next fires after a change of the time zones, and wakes the clock loop. Returns how many were
    /// moved.
    pub async fn realign_schedules(&self) -> Result<usize> {
        const AT_ONCE: i64 = 500;
        let mut moved = 0;
        let mut after = None;
        loop {
            let page = self.store.realign_triggers(self.now(), after, AT_ONCE).await?;
            moved += page.moved;
            match page.last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        if moved > 0 {
            self.schedules_changed().await;
        }
        Ok(moved)
    }

    pub(crate) async fn schedules_changed(&self) {
        self.announce([BusMessage::SchedulesChanged]).await;
    }

    /// Refuses triggers that fire more often than this installation allows.
    pub(crate) fn check_intervals(&self, workflow: &Workflow) -> Result<()> {
        let Some(minimum) = self.minimum_interval else { return Ok(()) };
        let minimum = i64::try_from(minimum.as_micros()).unwrap_or(Micros::MAX);
        for trigger in workflow.triggers.iter().filter(|trigger| trigger.source.is_scheduled()) {
            if let Some(shortest) = shortest_interval(trigger, self.clock.wall()).filter(|found| *found < minimum) {
                return Err(Error::Invalid(format!(
                    "trigger `{}` of workflow `{}` fires {} s apart, but scheduler.minimum_interval allows no less than {} s: \
                     let it fire less often",
                    trigger.id,
                    workflow.name,
                    shortest as f64 / 1e6,
                    minimum as f64 / 1e6,
                )));
            }
        }
        Ok(())
    }
}

/// The first `count` fires after `covered`.
fn following(schedule: &Schedule, covered: Micros, fired: u64, count: usize) -> Vec<Fire> {
    let mut found = Vec::with_capacity(count.min(1_000));
    let mut after = covered;
    while found.len() < count
        && let Next::Fire { fire, .. } = schedule.next(after, fired + found.len() as u64)
    {
        after = fire.nominal;
        found.push(fire);
    }
    found
}

fn shortest_interval(trigger: &Trigger, now: Micros) -> Option<Micros> {
    // Calendars only remove fires.
    let open = Trigger { calendar: None, max_executions: None, ..trigger.clone() };
    let fires = following(&Schedule::new(&open, now, None).ok()?, now, 0, LOOKED_AT);
    fires.windows(2).map(|pair| pair[1].nominal - pair[0].nominal).min()
}
