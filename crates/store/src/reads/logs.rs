//! Log lines, in append-only chunks per attempt.

use mainspring_boxed::boxed;
use mainspring_core::TaskKey;
use mainspring_core::state::UnknownState;
use mainspring_core::work::{LogLine, LogStream};

use crate::db::{Db, Store, read};
use crate::error::{Error, Result};
use crate::postgres::transaction::acquire;

/// Lines to be stored under a chunk number that rises within the attempt.
#[derive(Debug, Clone)]
pub struct StoredChunk {
    pub key: TaskKey,
    pub attempt: i32,
    pub chunk: i32,
    pub lines: Vec<LogLine>,
}

/// Where reading stopped: everything up to this chunk of this attempt was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogCursor {
    pub attempt: i32,
    pub chunk: i32,
}

#[boxed]
impl Store {
    /// Appends chunks. The same chunk again is the same row: a repetition after a lost reply does no harm.
    pub async fn append_logs(&self, chunks: &[StoredChunk]) -> Result<()> {
        if chunks.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = chunks.iter().map(|chunk| encode(&chunk.lines)).collect();
        match &*self.db {
            Db::Postgres(pg) => {
                let mut connection = acquire(&pg.pool).await?;
                sqlx::query(
                    "INSERT INTO logs (run_id, idx, item, attempt, chunk, lines) \
                     SELECT * FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $6::text[]) ON CONFLICT DO NOTHING",
                )
                .bind(chunks.iter().map(|chunk| chunk.key.run).collect::<Vec<_>>())
                .bind(chunks.iter().map(|chunk| chunk.key.index).collect::<Vec<_>>())
                .bind(chunks.iter().map(|chunk| chunk.key.item).collect::<Vec<_>>())
                .bind(chunks.iter().map(|chunk| chunk.attempt).collect::<Vec<_>>())
                .bind(chunks.iter().map(|chunk| chunk.chunk).collect::<Vec<_>>())
                .bind(texts)
                .execute(&mut *connection)
                .await?;
            }
            Db::Sqlite(sqlite) => {
                let mut tx = sqlite.begin().await?;
                for (chunk, text) in chunks.iter().zip(texts) {
                    sqlx::query("INSERT INTO logs (run_id, idx, item, attempt, chunk, lines) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING")
                        .bind(chunk.key.run)
                        .bind(chunk.key.index)
                        .bind(chunk.key.item)
                        .bind(chunk.attempt)
                        .bind(chunk.chunk)
                        .bind(text)
                        .execute(tx.connection().await?)
                        .await?;
                }
                tx.commit().await?;
            }
        }
        Ok(())
    }

    /// Chunks behind the cursor, oldest first, at most `limit`; of one attempt if it is given.
    pub async fn read_logs(
        &self,
        key: TaskKey,
        attempt: Option<i32>,
        after: LogCursor,
        limit: i64,
    ) -> Result<Vec<(LogCursor, Vec<LogLine>)>> {
        let rows: Vec<ChunkRow> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT attempt, chunk, lines FROM logs WHERE run_id = $1 AND idx = $2 AND item = $3 AND (attempt, chunk) > ($4, $5) \
             AND attempt = coalesce($6, attempt) ORDER BY attempt, chunk LIMIT $7"
        )
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .bind(after.attempt)
        .bind(after.chunk)
        .bind(attempt)
        .bind(limit)
        .fetch_all(conn)
        .await?
        });
        decoded(key, rows)
    }
}

#[boxed]
impl Store {
    /// Chunks before the cursor, newest first, at most `limit`; of one attempt if it is given.
    pub async fn read_logs_back(
        &self,
        key: TaskKey,
        attempt: Option<i32>,
        before: LogCursor,
        limit: i64,
    ) -> Result<Vec<(LogCursor, Vec<LogLine>)>> {
        let rows: Vec<ChunkRow> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT attempt, chunk, lines FROM logs WHERE run_id = $1 AND idx = $2 AND item = $3 AND (attempt, chunk) < ($4, $5) \
             AND attempt = coalesce($6, attempt) ORDER BY attempt DESC, chunk DESC LIMIT $7"
        )
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .bind(before.attempt)
        .bind(before.chunk)
        .bind(attempt)
        .bind(limit)
        .fetch_all(conn)
        .await?
        });
        decoded(key, rows)
    }
}

fn encode(lines: &[LogLine]) -> String {
    let rows: Vec<(i64, i16, &str)> =
        lines.iter().map(|line| (line.at, line.stream.code(), line.text.as_str())).collect();
    serde_json::to_string(&rows).unwrap_or_else(|_| "[]".to_owned())
}

fn decode(text: &str) -> Result<Vec<LogLine>, String> {
    let rows: Vec<(i64, i16, String)> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    rows.into_iter()
        .map(|(at, stream, text)| {
            Ok(LogLine {
                at,
                stream: LogStream::try_from(stream).map_err(|error: UnknownState| error.to_string())?,
                text,
            })
        })
        .collect()
}

/// Attempt, chunk and lines.
type ChunkRow = (i32, i32, String);

fn decoded(key: TaskKey, rows: Vec<ChunkRow>) -> Result<Vec<(LogCursor, Vec<LogLine>)>> {
    let decoded = rows.into_iter().map(|(attempt, chunk, text)| {
        let lines = decode(&text).map_err(|reason| Error::bad_row("logs", "lines", key, reason))?;
        Ok((LogCursor { attempt, chunk }, lines))
    });
    decoded.collect()
}
