//! Which workflows have followers: those that jobs stand for, that `workflow` triggers name, that polls check with, or that live where
//! something listens to `run.…` events.
//!
//! `workflows.followed` is what making a run looks at. It is computed anew by whatever begins or ceases to listen, in its
//! own transaction; runs that are under way when that begins are marked too.

use uuid::Uuid;

use crate::db::{Tx, locking, within};
use crate::error::Result;
use crate::names::sql;

/// Names that stand for at least one of `run.success`, `run.failed` and `run.cancelled`.
macro_rules! hears_runs {
    ($column:literal) => {
        concat!("(", $column, " LIKE 'run.%' OR ", $column, " IN ('r*', 'ru*', 'run*'))")
    };
}
pub(crate) use hears_runs;

/// Whether a handler or trigger listens to the ends of the runs of workflow `w`, as events.
macro_rules! heard {
    () => {
        concat!(
            "(EXISTS (SELECT 1 FROM triggers t WHERE t.kind >= 5 AND t.present AND t.listens = w.namespace || '/' || w.name) \
              OR EXISTS (SELECT 1 FROM triggers t WHERE t.namespace = w.namespace AND t.kind = 3 AND t.present AND t.listens IS NOT NULL AND ",
            crate::events::following::hears_runs!("t.listens"),
            ") OR EXISTS (SELECT 1 FROM event_handlers h WHERE h.enabled AND (h.namespace IS NULL OR h.namespace = w.namespace) AND ",
            crate::events::following::hears_runs!("h.event_name"),
            "))"
        )
    };
}
pub(crate) use heard;

/// Turns the mark of those workflows over for which it is wrong.
macro_rules! turn {
    ($scope:literal) => {
        concat!(
            "UPDATE workflows AS w SET followed = NOT w.followed WHERE ",
            $scope,
            " AND w.followed <> (EXISTS (SELECT 1 FROM jobs j WHERE j.workflow_id = w.id) OR ",
            heard!(),
            ") RETURNING followed"
        )
    };
}

type Turned = Vec<(bool,)>;

/// Whether an event of this name, or pattern, is one that ends of runs make.
pub(crate) fn is_about_runs(name: &str) -> bool {
    name.starts_with("run.") || ["r*", "ru*", "run*"].contains(&name)
}

/// After a workflow was stored with its triggers: it, and everything that its triggers name or named.
pub(crate) async fn follow_workflow(tx: &mut Tx, workflow: Uuid, namespace: &str) -> Result<()> {
    let mut turned: Turned =
        within!(tx, |conn| sqlx::query_as(turn!("w.id = $1")).bind(workflow).fetch_all(conn).await?);
    let named: Vec<(i16, String)> = within!(tx, |conn| {
        sqlx::query_as(
        "SELECT DISTINCT kind, listens FROM triggers WHERE workflow_id = $1 AND kind IN (3, 5, 6) AND listens IS NOT NULL"
    )
    .bind(workflow)
    .fetch_all(conn)
    .await?
    });
    for (kind, listens) in &named {
        match listens.split_once('/') {
            Some((other, name)) if *kind >= 5 => {
                let more: Turned = within!(tx, |conn| sqlx::query_as(turn!("w.namespace = $1 AND w.name = $2"))
                    .bind(other)
                    .bind(name)
                    .fetch_all(conn)
                    .await?);
                turned.extend(more);
            }
            _ if *kind == 3 && is_about_runs(listens) => turned.extend(turn_namespace(tx, Some(namespace)).await?),
            _ => {}
        }
    }
    mark_live(tx, &turned).await
}

/// After what listens to events of that name has changed, in one namespace or in all.
pub(crate) async fn follow_event(tx: &mut Tx, name: &str, namespace: Option<&str>) -> Result<()> {
    if !is_about_runs(name) {
        return Ok(());
    }
    let turned = turn_namespace(tx, namespace).await?;
    mark_live(tx, &turned).await
}

async fn turn_namespace(tx: &mut Tx, namespace: Option<&str>) -> Result<Turned> {
    Ok(match namespace {
        Some(namespace) => {
            within!(tx, |conn| sqlx::query_as(turn!("w.namespace = $1")).bind(namespace).fetch_all(conn).await?)
        }
        None => within!(tx, |conn| sqlx::query_as(turn!("TRUE")).fetch_all(conn).await?),
    })
}

/// Runs that are open when their workflow gets its first follower. Found by their live rows, or by what has yet to make
/// them: what has ended is not looked at, however much of it there is.
async fn mark_live(tx: &mut Tx, turned: &[(bool,)]) -> Result<()> {
    if !turned.iter().any(|followed| followed.0) {
        return Ok(());
    }
    let sql = locking!(
        tx,
        "SELECT r.id FROM runs r WHERE r.id IN (SELECT run_id FROM task_runs UNION SELECT run_id FROM continuations UNION SELECT run_id FROM starts) AND r.flags & {run_flag.followed} = 0 AND r.state < {run.success} \
         AND EXISTS (SELECT 1 FROM workflows w WHERE w.id = r.workflow_id AND w.followed) ORDER BY r.id",
        "FOR NO KEY UPDATE"
    );
    let live: Vec<(Uuid,)> = within!(tx, |conn| sqlx::query_as(sql).fetch_all(conn).await?);
    for (run,) in live {
        within!(tx, sqlx::query(sql!("UPDATE runs SET flags = flags | {run_flag.followed} WHERE id = $1")).bind(run));
    }
    Ok(())
}
