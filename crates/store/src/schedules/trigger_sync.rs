//! The rows of a workflow's triggers follow its newest version, in the transaction that makes it the newest.
//!
//! A trigger is known by its id within the workflow. What did not change is not touched; what changed otherwise than in
//! its timing goes on where it was; a new timing counts from now on, and what the old one still owed is written down as
//! missed.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::schedule::{Fire, GIVE_UP, Progress, Schedule};
use mainspring_core::workflow::{Trigger, TriggerSource, Workflow, check_name};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::db::{Store, Tx, within};
use crate::error::{Error, Result};
use crate::schedules::calendars;
use crate::schedules::fire_unit;
use crate::schedules::fires::NewFire;
use crate::schedules::triggers::{self, TriggerRow, kind_code, schedule};

/// A row to be written.
#[derive(Debug, Clone)]
pub(crate) struct TriggerSeed {
    pub(crate) id: Uuid,
    pub(crate) workflow_id: Uuid,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) kind: i16,
    pub(crate) listens: Option<String>,
    pub(crate) calendar: Option<String>,
    pub(crate) spec: String,
    pub(crate) active: bool,
    pub(crate) anchor_at: Micros,
    pub(crate) covered_at: Micros,
    pub(crate) next: Option<Fire>,
    pub(crate) fired: u64,
}

/// A trigger to be written down beside what versions bring.
#[derive(Debug, Clone)]
pub struct NewTrigger {
    pub workflow_id: Uuid,
    pub namespace: String,
    pub trigger: Trigger,
    pub next: Option<Fire>,
}

#[boxed]
impl Store {
    /// Writes triggers down as they are, in bulk. They are gone with the next version of their workflow; for measuring
    /// what very many cost.
    pub async fn insert_triggers(&self, now: Micros, new: &[NewTrigger]) -> Result<()> {
        let mut seeds = Vec::with_capacity(new.len());
        for new in new {
            let kind = kind_code(&new.trigger.source)
                .ok_or_else(|| Error::Invalid("this kind of trigger has no row".into()))?;
            let spec = serde_json::to_string(&new.trigger)
                .map_err(|error| Error::Invalid(format!("the trigger cannot be stored: {error}")))?;
            seeds.push(TriggerSeed {
                id: id_of(new.workflow_id, &new.trigger.id),
                workflow_id: new.workflow_id,
                namespace: new.namespace.clone(),
                name: new.trigger.id.clone(),
                kind,
                listens: None,
                calendar: None,
                spec,
                active: true,
                anchor_at: now,
                covered_at: now,
                next: new.next,
                fired: 0,
            });
        }
        let mut tx = self.begin().await?;
        fire_unit::insert_triggers(&mut tx, now, &seeds).await?;
        tx.commit().await
    }
}

/// Writes the triggers of a version that becomes the newest.
pub(crate) async fn sync(
    tx: &mut Tx,
    now: Micros,
    (workflow_id, active): (Uuid, bool),
    workflow: &Workflow,
) -> Result<()> {
    let mut known: HashMap<String, TriggerRow> =
        triggers::all_of(tx, workflow_id).await?.into_iter().map(|row| (row.trigger.id.clone(), row)).collect();
    let mut fresh = Vec::new();
    for trigger in &workflow.triggers {
        let Some(kind) = kind_code(&trigger.source) else { continue };
        let place = Place { workflow_id, workflow, kind, active };
        match known.remove(&trigger.id) {
            None => fresh.push(place.begin(tx, now, trigger).await?),
            Some(row) if row.present && row.trigger == *trigger => {}
            Some(row) => place.change(tx, now, trigger, row).await?,
        }
    }
    for gone in known.values().filter(|row| row.present) {
        within!(
            tx,
            sqlx::query("UPDATE triggers SET present = FALSE, revision = revision + 1, updated_at = $2 WHERE id = $1")
                .bind(gone.id)
                .bind(now)
        );
    }
    fire_unit::insert_triggers(tx, now, &fresh).await
}

struct Place<'a> {
    workflow_id: Uuid,
    workflow: &'a Workflow,
    kind: i16,
    active: bool,
}

impl Place<'_> {
    fn seed(&self, id: Uuid, trigger: &Trigger) -> Result<TriggerSeed> {
        let spec = serde_json::to_string(trigger)
            .map_err(|error| Error::Conflict(format!("the trigger `{}` cannot be stored: {error}", trigger.id)))?;
        Ok(TriggerSeed {
            id,
            workflow_id: self.workflow_id,
            namespace: self.workflow.namespace.clone(),
            name: trigger.id.clone(),
            kind: self.kind,
            listens: listens(trigger, self.workflow),
            calendar: trigger.calendar.clone(),
            spec,
            active: self.active,
            anchor_at: 0,
            covered_at: 0,
            next: None,
            fired: 0,
        })
    }

    async fn schedule(&self, tx: &mut Tx, id: Uuid, trigger: &Trigger, anchor: Micros) -> Result<Option<Schedule>> {
        if !trigger.source.is_scheduled() {
            return Ok(None);
        }
        let namespace = &self.workflow.namespace;
        let calendar = calendars::of(tx, namespace, trigger.calendar.as_deref()).await?;
        if let (Some(name), None) = (&trigger.calendar, &calendar) {
            return Err(Error::Invalid(format!(
                "trigger `{}` of workflow `{}` names the calendar `{name}`, which namespace `{namespace}` does not have: \
                 make it first with `mainspring calendars set {name} FILE`",
                trigger.id, self.workflow.name
            )));
        }
        schedule(id, trigger, anchor, calendar.as_ref()).map(Some).map_err(|error| {
            Error::Invalid(format!("trigger `{}` of workflow `{}`: {error}", trigger.id, self.workflow.name))
        })
    }

    /// A trigger that was not there before: nothing of the past is owed, but for a single instant.
    async fn begin(&self, tx: &mut Tx, now: Micros, trigger: &Trigger) -> Result<TriggerSeed> {
        let mut seed = self.seed(id_of(self.workflow_id, &trigger.id), trigger)?;
        (seed.anchor_at, seed.covered_at) = (now, now);
        if let Some(schedule) = self.schedule(tx, seed.id, trigger, now).await? {
            seed.covered_at = schedule.beginning(now);
            seed.next = schedule.upcoming(Progress { covered: seed.covered_at, fired: 0 });
        }
        Ok(seed)
    }

    async fn change(&self, tx: &mut Tx, now: Micros, trigger: &Trigger, row: TriggerRow) -> Result<()> {
        let mut seed = self.seed(row.id, trigger)?;
        (seed.anchor_at, seed.covered_at, seed.fired) = (row.anchor_at, row.covered_at, row.fired);
        let same_timing = row.present && times(&row.trigger) == times(trigger);
        if !same_timing {
            if row.present {
                self.give_up(tx, now, &row).await?;
            }
            if row.trigger.source != trigger.source {
                seed.anchor_at = now;
            }
            seed.covered_at = row.covered_at.max(now);
        }
        if let Some(schedule) = self.schedule(tx, row.id, trigger, seed.anchor_at).await? {
            if let (TriggerSource::At(at), false) = (&trigger.source, same_timing) {
                // Another instant is another fire, unless it is one that there was.
                let settled = fire_unit::is_settled(tx, row.id, *at).await?;
                seed.covered_at = if settled { *at } else { schedule.beginning(now) };
                seed.fired = u64::from(settled);
            }
            seed.next = schedule.upcoming(Progress { covered: seed.covered_at, fired: seed.fired });
        }
        update(tx, now, &seed).await
    }

    /// What the schedule of before still owed is not made up for under another.
    async fn give_up(&self, tx: &mut Tx, now: Micros, row: &TriggerRow) -> Result<()> {
        if row.next.is_none() {
            return Ok(());
        }
        let calendar = calendars::of(tx, &row.namespace, row.trigger.calendar.as_deref()).await?;
        let Ok(schedule) = row.schedule(calendar.as_ref()) else { return Ok(()) };
        let turn = schedule.give_up(row.progress(), now, Some(GIVE_UP));
        let missed = turn.missed.map(|missed| NewFire::missed(missed, "its schedule was changed"));
        let closed = turn.blacked_out.iter().map(|closed| NewFire::blacked_out(*closed));
        let fires: Vec<NewFire> = missed.into_iter().chain(closed).collect();
        fire_unit::insert_without_runs(tx, now, row.id, &fires).await
    }
}

/// The id of a trigger follows from its workflow and its name, so that it is the same on every node.
pub(crate) fn id_of(workflow_id: Uuid, name: &str) -> Uuid {
    let digest = Sha256::new().chain_update(workflow_id.as_bytes()).chain_update(name).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// What says when a trigger fires; the rest may change without the clock noticing.
fn times(trigger: &Trigger) -> (&TriggerSource, Option<&str>, Option<Micros>) {
    (&trigger.source, trigger.timezone.as_deref(), trigger.start)
}

/// What a trigger listens to, as others look for it.
fn listens(trigger: &Trigger, workflow: &Workflow) -> Option<String> {
    match &trigger.source {
        TriggerSource::Event(name) | TriggerSource::Webhook(name) => Some(name.clone()),
        TriggerSource::Workflow { name, namespace, .. } => {
            Some(format!("{}/{name}", namespace.as_deref().unwrap_or(&workflow.namespace)))
        }
        TriggerSource::Poll(_) => Some(format!("{}/{}", workflow.namespace, check_name(&workflow.name, &trigger.id))),
        _ => None,
    }
}

async fn update(tx: &mut Tx, now: Micros, seed: &TriggerSeed) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "UPDATE triggers SET kind = $2, listens = $3, calendar = $4, spec = $5, revision = revision + \
             1, present = TRUE, \
             anchor_at = $6, covered_at = $7, next_nominal = $8, next_fire_at = $9, fired = $10, active = \
             $11, problem = NULL, check_version = NULL, \
             updated_at = $12 WHERE id = $1"
        )
        .bind(seed.id)
        .bind(seed.kind)
        .bind(&seed.listens)
        .bind(&seed.calendar)
        .bind(&seed.spec)
        .bind(seed.anchor_at)
        .bind(seed.covered_at)
        .bind(seed.next.map(|next| next.nominal))
        .bind(seed.next.map(|next| next.fire_at))
        .bind(seed.fired as i64)
        .bind(seed.active)
        .bind(now)
    );
    Ok(())
}
