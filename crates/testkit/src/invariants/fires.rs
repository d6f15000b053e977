//! Schedules: every nominal instant that a trigger has come past is settled exactly once.
//!
//! The instants are computed anew from the trigger, between its making and `covered_at`. A trigger that was changed since it
//! was made is left out: what it owed before the change cannot be seen from its rows.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context;
use mainspring_core::Micros;
use mainspring_core::schedule::{Calendar, CalendarSpec, Next, Schedule};
use mainspring_core::workflow::Trigger;

use super::reading::{Snapshot, Violation};

const ONCE: &str = "every nominal instant up to covered_at is settled exactly once";
const OWED: &str = "nothing fires but what the schedule says";

#[derive(sqlx::FromRow)]
struct TriggerRow {
    id: String,
    namespace: String,
    spec: String,
    calendar: Option<String>,
    anchor_at: Micros,
    covered_at: Micros,
    created_at: Micros,
}

#[derive(sqlx::FromRow)]
struct FireRow {
    id: String,
    nominal_at: Micros,
    until_at: Option<Micros>,
    outcome: i16,
}

pub(super) async fn check(snapshot: &mut Snapshot) -> anyhow::Result<Vec<Violation>> {
    let triggers: Vec<TriggerRow> = snapshot
        .rows("SELECT ID(id) AS id, namespace, spec, calendar, anchor_at, covered_at, created_at FROM triggers WHERE kind < 3 AND revision = 1")
        .await?;
    if triggers.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<(String, String, String)> = snapshot.rows("SELECT namespace, name, spec FROM calendars").await?;
    let mut calendars = HashMap::new();
    for (namespace, name, spec) in rows {
        let spec: CalendarSpec = serde_json::from_str(&spec).context("reading a calendar")?;
        calendars.insert((namespace, name), Calendar::new(&spec)?);
    }
    let rows: Vec<FireRow> = snapshot
        .rows("SELECT ID(f.trigger_id) AS id, f.nominal_at, f.until_at, f.outcome FROM fires f JOIN triggers t ON t.id = f.trigger_id \
               WHERE t.revision = 1 AND ID(f.backfill) IN ('00000000-0000-0000-0000-000000000000', '00000000000000000000000000000000') ORDER BY f.nominal_at")
        .await?;
    let mut fires: HashMap<&str, BTreeMap<Micros, &FireRow>> = HashMap::new();
    for row in &rows {
        fires.entry(&row.id).or_default().insert(row.nominal_at, row);
    }
    let mut violations = Vec::new();
    for row in &triggers {
        let trigger: Trigger =
            serde_json::from_str(&row.spec).with_context(|| format!("reading trigger {}", row.id))?;
        let calendar = row.calendar.as_ref().and_then(|name| calendars.get(&(row.namespace.clone(), name.clone())));
        let schedule = Schedule::new(&trigger, row.anchor_at, calendar.cloned())?;
        check_one(row, &schedule, fires.remove(row.id.as_str()).unwrap_or_default(), &mut violations);
    }
    Ok(violations)
}

/// Walks the instants and the rows side by side.
fn check_one(
    row: &TriggerRow,
    schedule: &Schedule,
    mut fires: BTreeMap<Micros, &FireRow>,
    violations: &mut Vec<Violation>,
) {
    let mut violate = |invariant, subject: String| violations.push(Violation { invariant, subject });
    let mut after = schedule.beginning(row.created_at);
    // The end of the last range, and whether that range may hold instants: a closed day's are left out by the schedule.
    let mut covered_until = Micros::MIN;
    while let Next::Fire { fire, .. } = schedule.next(after, 0)
        && fire.nominal <= row.covered_at
    {
        after = fire.nominal;
        // What lies before this instant and is no range was never due.
        while let Some(entry) = fires.first_entry().filter(|entry| *entry.key() < fire.nominal) {
            let found = entry.remove();
            match (found.until_at, found.outcome) {
                (Some(until), _) => covered_until = covered_until.max(until),
                (None, _) => violate(OWED, format!("{} has a row for {}", row.id, found.nominal_at)),
            }
        }
        match fires.remove(&fire.nominal) {
            Some(found) if covered_until >= fire.nominal => {
                violate(
                    ONCE,
                    format!(
                        "{} at {} is within a range and has a row of its own ({})",
                        row.id, fire.nominal, found.outcome
                    ),
                );
            }
            Some(found) => covered_until = covered_until.max(found.until_at.unwrap_or(Micros::MIN)),
            None if covered_until >= fire.nominal => {}
            None => violate(ONCE, format!("{} owes {}", row.id, fire.nominal)),
        }
    }
    for (nominal, found) in fires {
        let is_closed_range = found.outcome == 3;
        if !is_closed_range || nominal > row.covered_at {
            violate(OWED, format!("{} has a row for {nominal}, but is covered up to {}", row.id, row.covered_at));
        }
    }
}
