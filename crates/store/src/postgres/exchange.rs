//! Calls `exchange_v1` with columns instead of rows: one round trip, in autocommit, on the lane's own connection.

use sqlx::{Connection, PgConnection};

use super::{AnswerRow, answer};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::runs::exchange::{ContinuedAs, ContinuedAttempt, Ended, Exchange, Lane, Reply};

const EXCHANGE: &str = "SELECT * FROM exchange_v1($1, $2, $3, $4, \
    $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, \
    $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, \
    $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44)";

pub(crate) async fn exchange(lane: &mut Lane, exchange: &Exchange) -> Result<Reply> {
    let mut connection = match lane.connection.take() {
        Some(connection) => connection,
        None => connect(lane).await?,
    };
    let rows = match call(&mut connection, lane.id, lane.seq + 1, exchange).await {
        Ok(rows) => rows,
        Err(error) => {
            let error = Error::from(error);
            return Err(match error {
                // The connection broke: it may have been applied.
                Error::Unavailable(_) => Error::InDoubt("exchange"),
                other => {
                    lane.connection = Some(connection);
                    other
                }
            });
        }
    };
    lane.connection = Some(connection);
    let mut reply = Reply::default();
    for row in rows {
        if row.kind == answer::NOT_APPLIED {
            return Err(Error::InDoubt("exchange"));
        }
        reply.push(row.kind, row.claimed())?;
    }
    Ok(reply)
}

/// A connection that cannot be made refuses nothing that it was to carry, whatever the reason.
pub(super) async fn connect(lane: &Lane) -> Result<PgConnection> {
    match &*lane.store.db {
        Db::Postgres(pg) => PgConnection::connect_with(&pg.options).await.map_err(Error::Unavailable),
        Db::Sqlite(_) => Err(Error::Conflict("a PostgreSQL lane on SQLite".into())),
    }
}

async fn call(
    connection: &mut PgConnection,
    lane: i64,
    seq: i64,
    exchange: &Exchange,
) -> Result<Vec<AnswerRow>, sqlx::Error> {
    let ended = &exchange.ended;
    let continued = &exchange.continued;
    let starts = &exchange.starts;
    let want = &exchange.want;
    sqlx::query_as(EXCHANGE)
        .bind(lane)
        .bind(seq)
        .bind(exchange.now)
        .bind(&exchange.sessions)
        .bind(columns(ended, |row| row.token.key.run))
        .bind(columns(ended, |row| row.token.key.index))
        .bind(columns(ended, |row| row.token.key.item))
        .bind(columns(ended, |row| row.token.session))
        .bind(columns(ended, |row| row.token.attempt))
        .bind(columns(ended, |row| row.from.code()))
        .bind(columns(ended, |row| row.state.code()))
        .bind(columns(ended, |row| row.started_at))
        .bind(columns(ended, |row| row.finished_at))
        .bind(columns(ended, |row| row.failure.as_ref().and_then(|failure| failure.exit_code)))
        .bind(columns(ended, |row: &Ended| row.failure.as_ref().map(|failure| failure.kind.as_str())))
        .bind(columns(ended, |row: &Ended| row.failure.as_ref().map(|failure| failure.message.as_str())))
        .bind(columns(ended, |row: &Ended| row.failure.as_ref().and_then(|failure| failure.detail.as_deref())))
        .bind(columns(ended, |row: &Ended| row.output.as_deref()))
        .bind(columns(continued, |row| row.token.key.run))
        .bind(columns(continued, |row| row.token.key.index))
        .bind(columns(continued, |row| row.token.key.item))
        .bind(columns(continued, |row| row.token.session))
        .bind(columns(continued, |row| row.token.attempt))
        .bind(columns(continued, |row| if matches!(row.how, ContinuedAs::Retry { .. }) { 0i16 } else { 2 }))
        .bind(columns(continued, |row| if let ContinuedAs::Retry { due_at } = row.how { Some(due_at) } else { None }))
        .bind(columns(continued, |row| row.started_at))
        .bind(columns(continued, |row| row.finished_at))
        .bind(columns(continued, |row| row.failure.as_ref().and_then(|failure| failure.exit_code)))
        .bind(columns(continued, |row: &ContinuedAttempt| row.failure.as_ref().map(|failure| failure.kind.as_str())))
        .bind(columns(continued, |row: &ContinuedAttempt| row.failure.as_ref().map(|failure| failure.message.as_str())))
        .bind(columns(continued, |row: &ContinuedAttempt| {
            row.failure.as_ref().and_then(|failure| failure.detail.as_deref())
        }))
        .bind(columns(starts, |row| row.key.run))
        .bind(columns(starts, |row| row.key.index))
        .bind(columns(starts, |row| row.key.item))
        .bind(columns(starts, |row| row.session))
        .bind(columns(want, |row| row.session))
        .bind(columns(want, |row| row.route))
        .bind(columns(want, |row| row.slots))
        .bind(columns(want, |row| row.hand_over_rank))
        .bind(columns(want, |row| row.floor.map(|floor| floor.0)))
        .bind(columns(want, |row| row.floor.map(|floor| floor.1)))
        .bind(exchange.decide_session)
        .bind(exchange.decide)
        .bind(exchange.look_for_undecided)
        .fetch_all(connection)
        .await
}

fn columns<'a, R, T: 'a>(rows: &'a [R], column: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(column).collect()
}
