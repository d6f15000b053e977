//! Transitions of runs that no other row records. Each has its number among the events of the run.

use mainspring_core::{Micros, RunId};

use crate::db::{Tx, within};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::over_rows::over_rows;

/// Why the state or the stage of a run changed. The codes are those of `run_transitions.kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// It got the slot that it waited for, or all its rows have been made.
    Admitted,
    EnteredStage,
    /// In the log also of a run that has ended and was not reopened; then `runs` records the end and no row does.
    Ended,
    TimedOut,
    /// What waited for it was cancelled.
    CancelledWithParent,
}

impl Transition {
    pub(crate) fn code(self) -> i16 {
        match self {
            Transition::Admitted => 0,
            Transition::EnteredStage => 1,
            Transition::Ended => 2,
            Transition::TimedOut => 3,
            Transition::CancelledWithParent => 4,
        }
    }
}

impl TryFrom<i16> for Transition {
    type Error = i16;

    fn try_from(code: i16) -> std::result::Result<Self, i16> {
        Ok(match code {
            0 => Transition::Admitted,
            1 => Transition::EnteredStage,
            2 => Transition::Ended,
            3 => Transition::TimedOut,
            4 => Transition::CancelledWithParent,
            other => return Err(other),
        })
    }
}

/// Gives a transition to `running` the run's next number. The caller holds the run's lock.
pub(crate) async fn append_transition(tx: &mut Tx, now: Micros, run: RunId, kind: Transition) -> Result<()> {
    let numbered: Option<(i64, i16)> =
        within!(tx, |conn| sqlx::query_as("UPDATE runs SET seq = seq + 1 WHERE id = $1 RETURNING seq, stage")
            .bind(run)
            .fetch_optional(conn)
            .await?);
    let (seq, stage) = numbered.ok_or_else(|| Error::not_found(format!("run {run}")))?;
    within!(
        tx,
        sqlx::query(sql!(
            "INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) \
             VALUES ($1, $2, $3, {run.running}, $4, $5)"
        ))
        .bind(run)
        .bind(seq)
        .bind(kind.code())
        .bind(stage)
        .bind(now)
    );
    Ok(())
}

/// Runs are about to be reopened: the end of each gets a row, since `runs` will tell of another one. Its number is the one
/// that no row carries. The caller holds the locks of the runs.
pub(crate) async fn keep_ends(tx: &mut Tx, runs: &[RunId]) -> Result<()> {
    over_rows!(tx, "id", runs, |values, id| _ = values.push_bind(*id), |query| {
        query.push(
                "INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) \
                 SELECT r.id, r.seq * (r.seq + 1) / 2 - (SELECT CAST(coalesce(sum(e.seq), 0) AS bigint) FROM ( \
                 SELECT seq FROM history WHERE run_id = r.id UNION ALL SELECT seq FROM history_superseded WHERE run_id = r.id \
                 UNION ALL SELECT seq FROM attempts WHERE run_id = r.id \
                 UNION ALL SELECT seq FROM operator_actions WHERE run_id = r.id \
                 UNION ALL SELECT seq FROM run_transitions WHERE run_id = r.id) e), ",
            );
        query
            .push(Transition::Ended.code())
            .push(", r.state, r.stage, r.finished_at FROM k CROSS JOIN runs r WHERE r.id = k.id");
    });
    Ok(())
}
