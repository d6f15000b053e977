//! Calls `settle_v1` with columns instead of rows.

use mainspring_core::Micros;
use sqlx::PgConnection;

use super::AnswerRow;
use crate::error::Result;
use crate::runs::exchange::Reply;
use crate::runs::settle::{Count, EndedTaskRun};

pub(crate) async fn settle(
    connection: &mut PgConnection,
    now: Micros,
    ended_rows: &[EndedTaskRun],
    counts: &[Count],
) -> Result<Reply> {
    let column = |text: fn(&EndedTaskRun) -> Option<String>| ended_rows.iter().map(text).collect::<Vec<_>>();
    let rows: Vec<AnswerRow> = sqlx::query_as(
        "SELECT * FROM settle_v1($1, 0, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, \
         $21, $22, $23, '{}', '{}', '{}', '{}', 0, 0)",
    )
    .bind(now)
    .bind(ended_rows.iter().map(|row| row.key.run).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.key.index).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.key.item).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.version).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.state.code()).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.flags).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.generation).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.attempt).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.failures).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.lost).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.session).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.started_at).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.finished_at).collect::<Vec<_>>())
    .bind(ended_rows.iter().map(|row| row.failure.as_ref().and_then(|failure| failure.exit_code)).collect::<Vec<_>>())
    .bind(column(|row| row.failure.as_ref().map(|failure| failure.kind.clone())))
    .bind(column(|row| row.failure.as_ref().map(|failure| failure.message.clone())))
    .bind(column(|row| row.failure.as_ref().and_then(|failure| failure.detail.clone())))
    .bind(column(|row| row.output.clone()))
    .bind(ended_rows.iter().map(|row| row.pool).collect::<Vec<_>>())
    .bind(counts.iter().map(|count| count.run).collect::<Vec<_>>())
    .bind(counts.iter().map(|count| count.dependent).collect::<Vec<_>>())
    .bind(counts.iter().map(|count| count.counts).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    let mut reply = Reply::default();
    for row in rows {
        reply.push(row.kind, row.claimed())?;
    }
    Ok(reply)
}
