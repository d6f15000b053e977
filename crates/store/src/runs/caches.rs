//! Results and files that later runs take over, by key.
//!
//! An attempt that finds nothing by its key becomes an entry before it begins. Nothing is written when it has ended: its
//! success in the history is what makes the entry valid, so a result counts exactly if the success counts, whichever process
//! dies when. When the run of an entry is forgotten, its output is copied in the same unit. The age of an entry is
//! counted from the beginning of its attempt.

use mainspring_boxed::boxed;
use mainspring_core::workflow::CacheKind;
use mainspring_core::{Micros, RunId, TaskKey};

use crate::db::{Store, Tx, read, within};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::purge::execute_over_runs;

/// How many entries one call forgets.
const FORGOTTEN_AT_ONCE: i64 = 500;

/// What an attempt looks for.
#[derive(Debug, Clone, Copy)]
pub struct CacheLookup<'a> {
    pub kind: CacheKind,
    /// Keys of different scopes have nothing to do with each other.
    pub scope: &'a str,
    pub key: &'a str,
    /// How old it may be, and how long it is kept if the attempt makes it.
    pub ttl_micros: i64,
    /// Takes nothing of before.
    pub anew: bool,
}

/// The attempt whose result or files are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSource {
    pub key: TaskKey,
    pub attempt: i32,
}

/// An earlier attempt whose result or files are taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheHit {
    pub source: CacheSource,
    /// Of a result, as JSON.
    pub output: Option<String>,
}

/// What an attempt looked for, and whose it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheUse {
    pub task_run: TaskKey,
    pub attempt: i32,
    pub kind: CacheKind,
    pub key: String,
    pub source: Option<CacheSource>,
}

#[derive(sqlx::FromRow)]
struct HitRow {
    run_id: RunId,
    idx: i32,
    item: i32,
    attempt: i32,
    output: Option<String>,
}

#[derive(sqlx::FromRow)]
struct UseRow {
    idx: i32,
    item: i32,
    attempt: i32,
    kind: i16,
    key: String,
    source_run: Option<RunId>,
    source_idx: Option<i32>,
    source_item: Option<i32>,
    source_attempt: Option<i32>,
}

#[derive(sqlx::FromRow)]
struct EntryRow {
    run_id: RunId,
    idx: i32,
    item: i32,
    attempt: i32,
    kind: i16,
}

const VALID_RESULT: &str = sql!(
    "SELECT e.run_id, e.idx, e.item, e.attempt, CASE WHEN e.kept THEN e.output ELSE h.output END AS output \
     FROM cache_entries e LEFT JOIN history h ON h.run_id = e.run_id AND h.idx = e.idx AND h.item = e.item \
     AND h.attempt = e.attempt AND h.state = {task.success} \
     WHERE e.kind = {cache.result} AND e.scope = $1 AND e.key = $2 AND e.begun_at > $3 AND e.expires_at > $4 \
     AND (e.kept OR h.run_id IS NOT NULL) ORDER BY e.begun_at DESC LIMIT 1"
);
/// Files are stored before the success of their attempt, but not always all of them.
const VALID_FILES: &str = sql!(
    "SELECT e.run_id, e.idx, e.item, e.attempt, CAST(NULL AS text) AS output FROM cache_entries e \
     WHERE e.kind = {cache.files} AND e.scope = $1 AND e.key = $2 AND e.begun_at > $3 AND e.expires_at > $4 \
     AND (e.kept OR EXISTS (SELECT 1 FROM history h WHERE h.run_id = e.run_id AND h.idx = e.idx AND h.item = e.item \
     AND h.attempt = e.attempt AND h.state = {task.success})) \
     AND (SELECT count(*) FROM cached_files f WHERE f.run_id = e.run_id AND f.idx = e.idx AND f.item = e.item \
     AND f.attempt = e.attempt) = (SELECT max(f.files) FROM cached_files f WHERE f.run_id = e.run_id AND f.idx = e.idx \
     AND f.item = e.item AND f.attempt = e.attempt) \
     ORDER BY e.begun_at DESC LIMIT 1"
);

#[boxed]
impl Store {
    /// Looks for what is kept by a key and writes down what the attempt got. If there is nothing, the attempt becomes the
    /// one whose success is found by the key. The same attempt may ask again.
    pub async fn use_cache(&self, now: Micros, by: CacheSource, wanted: &CacheLookup<'_>) -> Result<Option<CacheHit>> {
        let mut tx = self.begin().await?;
        let found = if wanted.anew { None } else { find(&mut tx, now, wanted).await? };
        let hit = found.map(|row| CacheHit {
            source: CacheSource {
                key: TaskKey { run: row.run_id, index: row.idx, item: row.item },
                attempt: row.attempt,
            },
            output: row.output,
        });
        note_use(&mut tx, by, wanted, hit.as_ref().map(|hit| hit.source)).await?;
        if hit.is_none() {
            announce_entry(&mut tx, now, by, wanted).await?;
        }
        tx.commit().await?;
        Ok(hit)
    }

    /// What the attempts of a run looked for, in their order.
    pub async fn cache_uses(&self, run: RunId) -> Result<Vec<CacheUse>> {
        let rows: Vec<UseRow> = read!(self, |conn| {
            sqlx::query_as(
                "SELECT idx, item, attempt, kind, key, source_run, source_idx, source_item, source_attempt FROM cache_uses \
                 WHERE run_id = $1 ORDER BY idx, item, attempt, kind",
            )
            .bind(run)
            .fetch_all(conn)
            .await?
        });
        rows.into_iter().map(|row| cache_use(run, row)).collect()
    }

    /// The attempt whose files an attempt was given.
    pub async fn files_given_to(&self, by: CacheSource) -> Result<Option<CacheSource>> {
        let uses = self.cache_uses(by.key.run).await?;
        let own = uses
            .into_iter()
            .find(|one| (one.task_run, one.attempt, one.kind) == (by.key, by.attempt, CacheKind::Files));
        Ok(own.and_then(|own| own.source))
    }

    /// Forgets entries whose time was up at `before`, with their files; how many. Call again until there are none.
    pub async fn forget_expired_caches(&self, before: Micros) -> Result<usize> {
        let expired: Vec<EntryRow> = read!(self, |conn| {
            sqlx::query_as(
                "SELECT run_id, idx, item, attempt, kind FROM cache_entries WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
            )
            .bind(before)
            .bind(FORGOTTEN_AT_ONCE)
            .fetch_all(conn)
            .await?
        });
        for row in &expired {
            self.forget_entry(row).await?;
        }
        Ok(expired.len())
    }

    async fn forget_entry(&self, row: &EntryRow) -> Result<()> {
        let mut tx = self.begin().await?;
        // First: a file that is stored meanwhile finds no entry, or is found here.
        within!(
            tx,
            sqlx::query(
                "DELETE FROM cache_entries WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 AND kind = $5"
            )
            .bind(row.run_id)
            .bind(row.idx)
            .bind(row.item)
            .bind(row.attempt)
            .bind(row.kind)
        );
        if row.kind == CacheKind::Files.code() {
            let key = TaskKey { run: row.run_id, index: row.idx, item: row.item };
            super::cached_files::forget(&mut tx, key, row.attempt).await?;
        }
        tx.commit().await
    }
}

async fn find(tx: &mut Tx, now: Micros, wanted: &CacheLookup<'_>) -> Result<Option<HitRow>> {
    let statement = match wanted.kind {
        CacheKind::Result => VALID_RESULT,
        CacheKind::Files => VALID_FILES,
    };
    Ok(within!(tx, |conn| {
        sqlx::query_as(statement)
            .bind(wanted.scope)
            .bind(wanted.key)
            .bind(now.saturating_sub(wanted.ttl_micros))
            .bind(now)
            .fetch_optional(conn)
            .await?
    }))
}

async fn note_use(tx: &mut Tx, by: CacheSource, wanted: &CacheLookup<'_>, source: Option<CacheSource>) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO cache_uses (run_id, idx, item, attempt, kind, key, source_run, source_idx, source_item, source_attempt) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (run_id, idx, item, attempt, kind) DO UPDATE SET \
             key = excluded.key, source_run = excluded.source_run, source_idx = excluded.source_idx, \
             source_item = excluded.source_item, source_attempt = excluded.source_attempt"
        )
        .bind(by.key.run)
        .bind(by.key.index)
        .bind(by.key.item)
        .bind(by.attempt)
        .bind(wanted.kind.code())
        .bind(wanted.key)
        .bind(source.map(|source| source.key.run))
        .bind(source.map(|source| source.key.index))
        .bind(source.map(|source| source.key.item))
        .bind(source.map(|source| source.attempt))
    );
    Ok(())
}

async fn announce_entry(tx: &mut Tx, now: Micros, by: CacheSource, wanted: &CacheLookup<'_>) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO cache_entries (kind, scope, key, run_id, idx, item, attempt, begun_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (run_id, idx, item, attempt, kind) DO NOTHING"
        )
        .bind(wanted.kind.code())
        .bind(wanted.scope)
        .bind(wanted.key)
        .bind(by.key.run)
        .bind(by.key.index)
        .bind(by.key.item)
        .bind(by.attempt)
        .bind(now)
        .bind(now.saturating_add(wanted.ttl_micros))
    );
    Ok(())
}

/// What a run that is forgotten has made for others stays: an output is copied, and the success is noted.
pub(crate) async fn keep_results(tx: &mut Tx, runs: &[RunId]) -> Result<()> {
    let valid = sql!(
        "UPDATE cache_entries SET kept = TRUE, output = (SELECT h.output FROM history h WHERE h.run_id = cache_entries.run_id \
         AND h.idx = cache_entries.idx AND h.item = cache_entries.item AND cache_entries.kind = {cache.result}) \
         WHERE EXISTS (SELECT 1 FROM history h WHERE h.run_id = cache_entries.run_id \
         AND h.idx = cache_entries.idx AND h.item = cache_entries.item AND h.attempt = cache_entries.attempt \
         AND h.state = {task.success}) AND run_id"
    );
    execute_over_runs(tx, valid, runs, "").await?;
    Ok(())
}

fn cache_use(run: RunId, row: UseRow) -> Result<CacheUse> {
    let task_run = TaskKey { run, index: row.idx, item: row.item };
    let kind = CacheKind::try_from(row.kind)
        .map_err(|error| Error::bad_row("cache_uses", "kind", task_run, error.to_string()))?;
    let source = match (row.source_run, row.source_idx, row.source_item, row.source_attempt) {
        (Some(run), Some(index), Some(item), Some(attempt)) => {
            Some(CacheSource { key: TaskKey { run, index, item }, attempt })
        }
        _ => None,
    };
    Ok(CacheUse { task_run, attempt: row.attempt, kind, key: row.key, source })
}
