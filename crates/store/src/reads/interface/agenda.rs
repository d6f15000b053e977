//! What became of the fires of all schedules within a window of time.

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::{bound, within};
use crate::db::{Store, read};
use crate::error::Result;
use crate::schedules::calendars::CalendarRow;
use crate::schedules::fires::outcome_word;
use crate::schedules::triggers::TriggerRow;

/// What became of an instant of a schedule, or of a range of them.
#[derive(Debug, Clone)]
pub struct AgendaFire {
    pub trigger: Uuid,
    pub nominal_at: Micros,
    pub until_at: Option<Micros>,
    pub count: i64,
    /// `fired`, `skipped`, `missed`, `blacked_out` or `failed`.
    pub outcome: &'static str,
    pub run_id: Option<RunId>,
    pub reason: Option<String>,
}

#[derive(sqlx::FromRow)]
struct Row {
    trigger_id: Uuid,
    nominal_at: Micros,
    until_at: Option<Micros>,
    count: i64,
    outcome: i16,
    run_id: Option<RunId>,
    reason: Option<String>,
}

#[boxed]
impl Store {
    /// Fires of `[from, to)`, the oldest first.
    pub async fn fires_between(
        &self,
        namespaces: Option<&[String]>,
        from: Micros,
        to: Micros,
        limit: i64,
    ) -> Result<Vec<AgendaFire>> {
        let sql = AssertSqlSafe(format!(
            "SELECT f.trigger_id, f.nominal_at, f.until_at, f.count, f.outcome, f.run_id, f.reason \
             FROM triggers t JOIN fires f ON f.trigger_id = t.id AND f.nominal_at >= $2 AND f.nominal_at < $3 \
             WHERE {} ORDER BY f.nominal_at LIMIT $4",
            within(self.flavor(), "t.namespace")
        ));
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql)
            .bind(bound(namespaces))
            .bind(from)
            .bind(to)
            .bind(limit)
            .fetch_all(conn)
            .await?);
        let shown = |row: Row| AgendaFire {
            trigger: row.trigger_id,
            nominal_at: row.nominal_at,
            until_at: row.until_at,
            count: row.count,
            outcome: outcome_word(row.outcome),
            run_id: row.run_id,
            reason: row.reason,
        };
        Ok(rows.into_iter().map(shown).collect())
    }

    /// Schedules that the clock fires, with those that are paused.
    pub async fn clock_triggers(&self, namespaces: Option<&[String]>, limit: i64) -> Result<Vec<TriggerRow>> {
        self.triggers_where(
            &format!(
                "WHERE t.present AND t.next_fire_at IS NOT NULL AND {} ORDER BY t.id LIMIT $2",
                within(self.flavor(), "t.namespace")
            ),
            bound(namespaces),
            limit,
        )
        .await
    }

    /// The triggers of these workflows that are present.
    pub async fn triggers_of_workflows(&self, workflows: &[Uuid]) -> Result<Vec<TriggerRow>> {
        let ids = match self.flavor() {
            crate::Flavor::Postgres => "SELECT CAST(json_array_elements_text($1::json) AS uuid)",
            crate::Flavor::Sqlite => "SELECT unhex(value) FROM json_each($1)",
        };
        let condition = format!("WHERE t.present AND t.workflow_id IN ({ids}) ORDER BY t.id LIMIT $2");
        self.triggers_where(&condition, Some(crate::reads::clauses::hex_ids(workflows)), i64::from(i32::MAX)).await
    }

    /// Calendars of these namespaces.
    pub async fn calendars_of(&self, namespaces: Option<&[String]>, limit: i64) -> Result<Vec<CalendarRow>> {
        self.calendars_where(
            &format!("WHERE {} ORDER BY namespace, name LIMIT $2", within(self.flavor(), "namespace")),
            bound(namespaces),
            limit,
        )
        .await
    }
}
