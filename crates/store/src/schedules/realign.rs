//! Next fires after the time zones were changed.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::schedule::Fire;
use mainspring_core::workflow::TriggerSource;
use uuid::Uuid;

use crate::db::{Store, read, within};
use crate::error::{Error, Result};
use crate::schedules::calendars;
use crate::schedules::triggers::{TriggerRow, kind_code, lock};

/// One page of triggers that were looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Realigned {
    pub moved: usize,
    /// The last that was looked at; `None` if there are no more.
    pub last: Option<Uuid>,
}

#[boxed]
impl Store {
    /// Computes the next fires of cron triggers anew, page by page, and moves those that differ. What is due already stays:
    /// it belongs to the time that has passed.
    pub async fn realign_triggers(&self, now: Micros, after: Option<Uuid>, limit: i64) -> Result<Realigned> {
        let cron = kind_code(&TriggerSource::Cron(String::new()));
        let ids: Vec<(Uuid,)> = read!(self, |conn| sqlx::query_as(
            "SELECT id FROM triggers WHERE kind = $1 AND present AND next_fire_at > $2 AND ($3 IS NULL OR id > $3) \
             ORDER BY id LIMIT $4"
        )
        .bind(cron)
        .bind(now)
        .bind(after)
        .bind(limit)
        .fetch_all(conn)
        .await?);
        let mut page = Realigned { moved: 0, last: ids.last().map(|(id,)| *id) };
        for (id,) in ids {
            let row = self.trigger(id).await?;
            if self.next_of(&row).await? != row.next {
                page.moved += usize::from(self.realign(now, id).await?);
            }
        }
        Ok(page)
    }

    /// When a trigger fires next by the zones of today. One that cannot be read stays as it is.
    async fn next_of(&self, row: &TriggerRow) -> Result<Option<Fire>> {
        let calendar = match &row.trigger.calendar {
            None => None,
            Some(name) => match self.calendar(&row.namespace, name).await {
                Ok(calendar) => Some(calendar.spec),
                Err(Error::NotFound { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        Ok(match row.schedule(calendar.as_ref()) {
            Ok(schedule) => schedule.upcoming(row.progress()),
            Err(_) => row.next,
        })
    }

    async fn realign(&self, now: Micros, id: Uuid) -> Result<bool> {
        let mut tx = self.begin().await?;
        let row = lock(&mut tx, id).await?;
        let calendar = calendars::of(&mut tx, &row.namespace, row.trigger.calendar.as_deref()).await?;
        let next = match row.schedule(calendar.as_ref()) {
            Ok(schedule) => schedule.upcoming(row.progress()),
            Err(_) => row.next,
        };
        let is_due = row.next.is_some_and(|next| next.fire_at <= now);
        let moves = next != row.next && !is_due;
        if moves {
            within!(
                tx,
                sqlx::query(
                    "UPDATE triggers SET next_nominal = $2, next_fire_at = $3, revision = revision + 1, updated_at = $4 \
                     WHERE id = $1"
                )
                .bind(id)
                .bind(next.map(|next| next.nominal))
                .bind(next.map(|next| next.fire_at))
                .bind(now)
            );
        }
        tx.commit().await?;
        Ok(moves)
    }
}
