//! Moves deadlines to the present, so that no case depends on how long something takes.

use mainspring_core::{Micros, RunId, TaskKey};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

pub(crate) async fn run(url: &str, run: RunId, now: Micros) -> anyhow::Result<()> {
    execute(url, "UPDATE runs SET deadline_at = $1 WHERE id = $2", now, TaskKey::new(run, 0)).await
}

/// What a task run waits for, or the delay before its next attempt, is over.
pub(crate) async fn task(url: &str, key: TaskKey, now: Micros) -> anyhow::Result<()> {
    let place = "WHERE run_id = $2 AND idx = $3 AND item = $4";
    execute(url, &format!("UPDATE waits SET due_at = $1 {place}"), now, key).await?;
    execute(url, &format!("UPDATE task_runs SET due_at = $1 {place}"), now, key).await
}

async fn execute(url: &str, sql: &str, now: Micros, key: TaskKey) -> anyhow::Result<()> {
    let sql = AssertSqlSafe(sql.to_owned());
    let whole = sql.0.contains("$4");
    macro_rules! on {
        ($connection:ty) => {{
            let mut connection = <$connection>::connect(url).await?;
            let mut query = sqlx::query(sql).bind(now).bind(key.run);
            if whole {
                query = query.bind(key.index).bind(key.item);
            }
            query.execute(&mut connection).await?;
            connection.close().await?;
        }};
    }
    if url.starts_with("sqlite") {
        on!(SqliteConnection)
    } else {
        on!(PgConnection)
    }
    Ok(())
}
