//! How much may follow from one cause.
//!
//! Everything that events start is counted against the event or run at its beginning. Depth alone does not bound it: two
//! listeners that each start two others are 65,536 runs at a depth of 16.

use mainspring_core::Micros;

use crate::db::{Tx, within};
use crate::error::Result;
use crate::events::announce::EventRow;

/// What events may start for one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CauseBudget {
    /// How many runs and jobs events may start…
    pub most: i64,
    /// …within this time.
    pub window: Micros,
}

impl Default for CauseBudget {
    fn default() -> Self {
        Self { most: 1_000, window: 3_600_000_000 }
    }
}

/// That the budget of a cause is used up.
pub(crate) struct Overspent {
    pub(crate) reason: String,
    /// Nothing was refused within this window so far.
    pub(crate) is_first: bool,
}

/// Counts one more run or job for the cause of an event; the refusal if that is one too many.
pub(crate) async fn spend(
    tx: &mut Tx,
    now: Micros,
    event: &EventRow,
    budget: CauseBudget,
) -> Result<Option<Overspent>> {
    let (started,): (i64,) = within!(tx, |conn| {
        sqlx::query_as(
        "INSERT INTO event_causes AS c (cause, since, started) VALUES ($1, $2, 1) ON CONFLICT (cause) DO UPDATE SET \
         started = CASE WHEN c.since <= $3 THEN 1 ELSE c.started + 1 END, \
         since = CASE WHEN c.since <= $3 THEN $2 ELSE c.since END RETURNING started"
    )
    .bind(event.root())
    .bind(now)
    .bind(now.saturating_sub(budget.window))
    .fetch_one(conn)
    .await?
    });
    if started <= budget.most {
        return Ok(None);
    }
    let reason = format!(
        "{} is at the beginning of more than {} runs and jobs that events started within {} s: nothing more is started \
         for it; break the circle by an `if`, or raise `events.budget`",
        event.root(),
        budget.most,
        budget.window / 1_000_000
    );
    Ok(Some(Overspent { reason, is_first: started == budget.most + 1 }))
}
