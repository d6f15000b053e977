//! Files that attempts leave to be kept: small ones in the database, others as objects that rows here name.
//!
//! No object is lost track of: it is written down as unused before its first byte is sent, and the row of the artifact
//! takes its place in one unit. What no row names when its time has come is deleted.

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId, TaskKey};

use crate::db::{Store, Tx, read, within, write};
use crate::error::Result;
use crate::names::sql;
use crate::runs::kept_files::ARTIFACTS;
use crate::runs::purge::execute_over_runs;

/// A kept file, without its content.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct ArtifactRow {
    pub idx: i32,
    pub item: i32,
    pub attempt: i32,
    pub name: String,
    pub bytes: i64,
    pub sha256: String,
    pub executable: bool,
}

/// Where the content of a kept file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactPlace {
    Database(Vec<u8>),
    /// The key in the object store.
    Object(String),
}

/// A kept file, or one to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredArtifact {
    pub name: String,
    pub bytes: i64,
    pub sha256: String,
    pub executable: bool,
    pub place: ArtifactPlace,
}

#[boxed]
impl Store {
    /// Writes down an object that is about to be written. Unless an artifact names it by then, it is deleted at `due_at`.
    pub async fn announce_object(&self, object: &str, due_at: Micros) -> Result<()> {
        write!(
            self,
            sqlx::query("INSERT INTO unused_objects (object, due_at) VALUES ($1, $2)").bind(object).bind(due_at)
        );
        Ok(())
    }

    /// Keeps a file of an attempt. The same name again replaces it. False, and nothing is kept, if its object has been
    /// given up meanwhile.
    pub async fn keep_artifact(
        &self,
        now: Micros,
        key: TaskKey,
        attempt: i32,
        artifact: &StoredArtifact,
    ) -> Result<bool> {
        let mut tx = self.begin().await?;
        if !ARTIFACTS.make_way(&mut tx, now, key, attempt, artifact).await? {
            return Ok(false);
        }
        let (content, object) = artifact.place.columns();
        within!(
            tx,
            sqlx::query(
                "INSERT INTO artifacts (run_id, idx, item, attempt, name, bytes, sha256, executable, content, object) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (run_id, idx, item, attempt, name) DO UPDATE SET \
                 bytes = excluded.bytes, sha256 = excluded.sha256, executable = excluded.executable, \
                 content = excluded.content, object = excluded.object"
            )
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .bind(attempt)
            .bind(&artifact.name)
            .bind(artifact.bytes)
            .bind(&artifact.sha256)
            .bind(artifact.executable)
            .bind(content)
            .bind(object)
        );
        tx.commit().await?;
        Ok(true)
    }

    /// Every file that a run left.
    pub async fn artifacts(&self, run: RunId) -> Result<Vec<ArtifactRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
                "SELECT idx, item, attempt, name, bytes, sha256, executable FROM artifacts WHERE run_id = $1 \
                 ORDER BY idx, item, attempt, name",
            )
            .bind(run)
            .fetch_all(conn)
            .await?
        }))
    }

    /// The files of the attempts that ended a task, or each of its items.
    pub async fn artifacts_of_task(&self, run: RunId, idx: i32) -> Result<Vec<ArtifactRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
                "SELECT a.idx, a.item, a.attempt, a.name, a.bytes, a.sha256, a.executable FROM artifacts a \
                 JOIN history h ON h.run_id = a.run_id AND h.idx = a.idx AND h.item = a.item AND h.attempt = a.attempt \
                 WHERE a.run_id = $1 AND a.idx = $2 ORDER BY a.item, a.name",
            )
            .bind(run)
            .bind(idx)
            .fetch_all(conn)
            .await?
        }))
    }

    /// Whether a task has ended with success.
    pub async fn task_succeeded(&self, run: RunId, idx: i32) -> Result<bool> {
        let row: (i64,) = read!(self, |conn| {
            sqlx::query_as(sql!(
                "SELECT count(*) FROM history WHERE run_id = $1 AND idx = $2 AND item = -1 AND state = {task.success}"
            ))
            .bind(run)
            .bind(idx)
            .fetch_one(conn)
            .await?
        });
        Ok(row.0 > 0)
    }

    /// Bytes that an attempt has left in the database so far, but for the file of this name.
    pub async fn artifact_bytes(&self, key: TaskKey, attempt: i32, besides: &str) -> Result<i64> {
        ARTIFACTS.bytes_in_database(self, key, attempt, besides).await
    }

    /// A file of an attempt, with its content or object.
    pub async fn artifact(&self, key: TaskKey, attempt: i32, name: &str) -> Result<Option<StoredArtifact>> {
        ARTIFACTS.file(self, key, attempt, name).await
    }

    /// Objects that are to be deleted now.
    pub async fn unused_objects(&self, now: Micros, most: i64) -> Result<Vec<String>> {
        let rows: Vec<(String,)> = read!(self, |conn| {
            sqlx::query_as("SELECT object FROM unused_objects WHERE due_at <= $1 ORDER BY due_at LIMIT $2")
                .bind(now)
                .bind(most)
                .fetch_all(conn)
                .await?
        });
        Ok(rows.into_iter().map(|(object,)| object).collect())
    }

    /// An object is deleted: nothing is known of it any more.
    pub async fn forget_object(&self, object: &str) -> Result<()> {
        write!(self, sqlx::query("DELETE FROM unused_objects WHERE object = $1").bind(object));
        Ok(())
    }
}

/// The objects of a run that is forgotten are written down as unused: the duty that deletes those finds them.
pub(crate) async fn give_up_objects(tx: &mut Tx, runs: &[RunId]) -> Result<()> {
    let objects = "INSERT INTO unused_objects (object, due_at) SELECT object, 0 FROM artifacts WHERE object IS NOT NULL AND run_id";
    execute_over_runs(tx, objects, runs, "").await?;
    Ok(())
}
