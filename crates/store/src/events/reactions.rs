//! Reactions of listeners to events, within the transaction that writes the delivery.

use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::db::{Tx, within};
use crate::error::Result;
use crate::events::announce::EventRow;
use crate::events::budgets::{self, CauseBudget, Overspent};
use crate::events::deliveries::{DeliveryOutcome, DeliveryRow, Reaction, Recipient};
use crate::names::sql;
use crate::runs::create::{Created, create_one};
use crate::schedules::{job_creation, polls};

/// Does what a reaction says, and returns the delivery.
pub(super) async fn react(
    tx: &mut Tx,
    now: Micros,
    event: &EventRow,
    listener: Recipient,
    reaction: &Reaction,
    budget: CauseBudget,
) -> Result<DeliveryRow> {
    if matches!(reaction, Reaction::Start(_) | Reaction::CreateJob(_))
        && let Some(refusal) = budgets::spend(tx, now, event, budget).await?
    {
        return refuse(tx, now, event, listener, refusal).await;
    }
    let mut delivery =
        DeliveryRow { listener: listener.id(), outcome: DeliveryOutcome::Ignored, run: None, job: None, reason: None };
    match reaction {
        Reaction::Ignore { reason } => delivery.reason = Some(reason.clone()),
        Reaction::Fail { reason, circle } => {
            delivery.outcome = DeliveryOutcome::Failed;
            delivery.reason = Some(reason.clone());
            if let Some(run) = circle {
                enter_circle(tx, now, event.id, *run, reason).await?;
            }
        }
        Reaction::Debounce { key, due_at } => {
            supersede(tx, listener.id(), key).await?;
            debounce(tx, event.id, listener.id(), key, *due_at).await?;
            delivery.outcome = DeliveryOutcome::Debounced;
        }
        Reaction::CreateJob(job) => {
            job_creation::create_in(tx, now, job).await?;
            delivery.outcome = DeliveryOutcome::Started;
            delivery.job = Some(job.id);
        }
        Reaction::Poll(finding) => return polls::note(tx, now, event, listener.id(), finding).await,
        Reaction::Start(run) => {
            if !may_fire(tx, now, listener).await? {
                delivery.reason = Some("it has fired as often as `max_executions` allows".into());
                return Ok(delivery);
            }
            match create_one(tx, now, run).await? {
                Created::Refused => {
                    delivery.reason = Some("the workflow's concurrency limit is used up".into());
                }
                created => {
                    delivery.outcome = DeliveryOutcome::Started;
                    delivery.run = created.run();
                }
            }
        }
    }
    Ok(delivery)
}

/// A reaction beyond the budget of its cause starts nothing; the first one leaves a dead letter.
async fn refuse(
    tx: &mut Tx,
    now: Micros,
    event: &EventRow,
    listener: Recipient,
    refusal: Overspent,
) -> Result<DeliveryRow> {
    if let Some(run) = event.run.filter(|_| refusal.is_first) {
        enter_circle(tx, now, event.id, run, &refusal.reason).await?;
    }
    Ok(DeliveryRow {
        listener: listener.id(),
        outcome: DeliveryOutcome::Failed,
        run: None,
        job: None,
        reason: Some(refusal.reason),
    })
}

/// Counts a fire of a trigger. False if the trigger has fired as often as it may.
async fn may_fire(tx: &mut Tx, now: Micros, listener: Recipient) -> Result<bool> {
    let Recipient::Trigger { id, max } = listener else { return Ok(true) };
    let counted = within!(
        tx,
        sqlx::query("UPDATE triggers SET fired = fired + 1, last_fire_at = $2 WHERE id = $1 AND fired < $3")
            .bind(id)
            .bind(now)
            .bind(max.and_then(|max| i64::try_from(max).ok()).unwrap_or(i64::MAX))
    );
    Ok(counted == 1)
}

/// The event that waited in the same window so far makes way.
async fn supersede(tx: &mut Tx, trigger: Uuid, key: &str) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "UPDATE event_deliveries SET outcome = 4 WHERE listener = $1 AND outcome = 3 \
             AND event_id IN (SELECT event_id FROM debounces WHERE trigger_id = $1 AND key = $2)",
        )
        .bind(trigger)
        .bind(key)
    );
    Ok(())
}

async fn debounce(tx: &mut Tx, event: Uuid, trigger: Uuid, key: &str, due_at: Micros) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO debounces (trigger_id, key, event_id, due_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (trigger_id, key) DO UPDATE SET event_id = excluded.event_id, due_at = excluded.due_at",
        )
        .bind(trigger)
        .bind(key)
        .bind(event)
        .bind(due_at)
    );
    Ok(())
}

pub(super) async fn note(tx: &mut Tx, event: Uuid, delivery: &DeliveryRow) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "UPDATE event_deliveries SET outcome = $3, run_id = $4, job_id = $5, reason = $6 WHERE \
             event_id = $1 AND listener = $2",
        )
        .bind(event)
        .bind(delivery.listener)
        .bind(delivery.outcome as i16)
        .bind(delivery.run)
        .bind(delivery.job)
        .bind(&delivery.reason)
    );
    Ok(())
}

pub(super) async fn count(tx: &mut Tx, now: Micros, handler: Uuid, outcome: DeliveryOutcome) -> Result<()> {
    let well = outcome == DeliveryOutcome::Started;
    within!(
        tx,
        sqlx::query(
            "UPDATE event_handlers SET trigger_count = trigger_count + 1, success_count = success_count \
             + $2, failure_count = failure_count + $3, \
             last_triggered = $4 WHERE id = $1",
        )
        .bind(handler)
        .bind(i64::from(well))
        .bind(i64::from(!well))
        .bind(now)
    );
    Ok(())
}

/// A circle of events is broken at the run that announced the last of them: one entry for an operator to look at.
async fn enter_circle(tx: &mut Tx, now: Micros, id: Uuid, run: RunId, reason: &str) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            sql!("INSERT INTO dead_letters (id, run_id, version, reason, original_state, error_type, \
             error_message, total_attempts, created_at, updated_at) \
             SELECT $1, r.id, r.version, {letter_reason.dependency_cycle_detected}, CASE r.state WHEN {run.success} THEN 'success' WHEN {run.failed} THEN 'failed' \
             WHEN {run.cancelled} THEN 'cancelled' ELSE 'running' END, \
                    'dependency_cycle_detected', $3, 0, $4, $4 FROM runs r WHERE r.id = $2 ON CONFLICT \
             DO NOTHING"),
        )
        .bind(id)
        .bind(run)
        .bind(reason)
        .bind(now)
    );
    Ok(())
}
