//! The files of entries of a cache: in the database or as objects, like artifacts, but they stay when their run is forgotten.

use mainspring_boxed::boxed;
use mainspring_core::workflow::CacheKind;
use mainspring_core::{Micros, TaskKey};

use crate::db::{Store, Tx, locking, read, within};
use crate::error::Result;
use crate::runs::artifacts::{ArtifactRow, StoredArtifact};
use crate::runs::kept_files::CACHED_FILES;

#[boxed]
impl Store {
    /// Keeps one of `files` files of an entry. The same name again replaces it. False, and nothing is kept, if the attempt has
    /// no entry (any more) or the object has been given up meanwhile.
    pub async fn keep_cached_file(
        &self,
        now: Micros,
        key: TaskKey,
        attempt: i32,
        files: u32,
        file: &StoredArtifact,
    ) -> Result<bool> {
        let mut tx = self.begin().await?;
        if !has_entry(&mut tx, key, attempt).await? || !CACHED_FILES.make_way(&mut tx, now, key, attempt, file).await? {
            return Ok(false);
        }
        let (content, object) = file.place.columns();
        within!(
            tx,
            sqlx::query(
                "INSERT INTO cached_files (run_id, idx, item, attempt, name, files, bytes, sha256, executable, content, object) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (run_id, idx, item, attempt, name) DO UPDATE \
                 SET files = excluded.files, bytes = excluded.bytes, sha256 = excluded.sha256, \
                 executable = excluded.executable, content = excluded.content, object = excluded.object"
            )
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .bind(attempt)
            .bind(&file.name)
            .bind(i32::try_from(files).unwrap_or(i32::MAX))
            .bind(file.bytes)
            .bind(&file.sha256)
            .bind(file.executable)
            .bind(content)
            .bind(object)
        );
        tx.commit().await?;
        Ok(true)
    }

    /// Bytes that an attempt has left in the database for its cache so far, but for the file of this name.
    pub async fn cached_bytes(&self, key: TaskKey, attempt: i32, besides: &str) -> Result<i64> {
        CACHED_FILES.bytes_in_database(self, key, attempt, besides).await
    }

    /// The files of an entry, by name.
    pub async fn cached_files(&self, key: TaskKey, attempt: i32) -> Result<Vec<ArtifactRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
                "SELECT idx, item, attempt, name, bytes, sha256, executable FROM cached_files WHERE run_id = $1 AND idx = $2 \
                 AND item = $3 AND attempt = $4 ORDER BY name",
            )
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .bind(attempt)
            .fetch_all(conn)
            .await?
        }))
    }

    /// A file of an entry, with its content or object.
    pub async fn cached_file(&self, key: TaskKey, attempt: i32, name: &str) -> Result<Option<StoredArtifact>> {
        CACHED_FILES.file(self, key, attempt, name).await
    }
}

/// Whether an attempt has an entry for files, which then stays until the end of the transaction.
async fn has_entry(tx: &mut Tx, key: TaskKey, attempt: i32) -> Result<bool> {
    let statement = locking!(
        tx,
        "SELECT attempt FROM cache_entries WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 AND kind = $5",
        "FOR KEY SHARE"
    );
    let row: Option<(i32,)> = within!(tx, |conn| {
        sqlx::query_as(statement)
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .bind(attempt)
            .bind(CacheKind::Files.code())
            .fetch_optional(conn)
            .await?
    });
    Ok(row.is_some())
}

/// Forgets the files of an entry; their objects are written down as unused.
pub(crate) async fn forget(tx: &mut Tx, key: TaskKey, attempt: i32) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO unused_objects (object, due_at) SELECT object, 0 FROM cached_files \
             WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 AND object IS NOT NULL"
        )
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .bind(attempt)
    );
    within!(
        tx,
        sqlx::query("DELETE FROM cached_files WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4")
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .bind(attempt)
    );
    Ok(())
}
