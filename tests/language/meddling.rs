//! What cases do behind the engine's back: deadlines are moved to the present, so that none depends on how long something
//! takes, and there have been many events, without each having been announced.

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

/// As many events as if they had been announced just now.
pub(crate) async fn events(url: &str, namespace: &str, name: &str, count: i32, now: Micros) -> anyhow::Result<()> {
    let sql = |id: &str| {
        AssertSqlSafe(format!(
            "INSERT INTO events (id, namespace, name, key, data, source, created_at, matched) \
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $4) \
             SELECT {id}, $1, $2, 'other', '{{}}', 'test', $3, TRUE FROM n"
        ))
    };
    macro_rules! on {
        ($connection:ty, $id:literal) => {{
            let mut connection = <$connection>::connect(url).await?;
            sqlx::query(sql($id)).bind(namespace).bind(name).bind(now).bind(count).execute(&mut connection).await?;
            connection.close().await?;
        }};
    }
    if url.starts_with("sqlite") {
        on!(SqliteConnection, "randomblob(16)")
    } else {
        on!(PgConnection, "gen_random_uuid()")
    }
    Ok(())
}
