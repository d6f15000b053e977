//! Files: those a version brings along, and those that attempts leave to be kept.

use mainspring_core::work::{Artifact, BundleFile};
use mainspring_core::{RunId, TaskKey};

use crate::db::{Store, Tx, read, within};
use crate::error::Result;

/// A kept file, without its content.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct ArtifactRow {
    pub idx: i32,
    pub item: i32,
    pub attempt: i32,
    pub name: String,
    pub bytes: i64,
}

impl Store {
    pub async fn version_files(&self, version: i64) -> Result<Vec<BundleFile>> {
        let rows: Vec<(String, bool, Vec<u8>)> = read!(self, |conn| sqlx::query_as(
            "SELECT path, executable, content FROM version_files WHERE version = $1 ORDER BY path"
        )
        .bind(version)
        .fetch_all(conn)
        .await?);
        Ok(rows.into_iter().map(|(path, executable, content)| BundleFile { path, executable, content }).collect())
    }

    /// Keeps files of an attempt. The same attempt again replaces them.
    pub async fn keep_artifacts(&self, key: TaskKey, attempt: i32, artifacts: &[Artifact]) -> Result<()> {
        let mut tx = self.begin().await?;
        for artifact in artifacts {
            within!(
                tx,
                sqlx::query(
                    "INSERT INTO artifacts (run_id, idx, item, attempt, name, content) VALUES ($1, $2, $3, $4, $5, $6) \
                     ON CONFLICT (run_id, idx, item, attempt, name) DO UPDATE SET content = excluded.content"
                )
                .bind(key.run)
                .bind(key.index)
                .bind(key.item)
                .bind(attempt)
                .bind(&artifact.name)
                .bind(&artifact.content)
            );
        }
        tx.commit().await
    }

    pub async fn artifacts(&self, run: RunId) -> Result<Vec<ArtifactRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT idx, item, attempt, name, CAST(length(content) AS bigint) AS bytes FROM artifacts WHERE run_id = $1 ORDER BY idx, item, attempt, name"
        )
        .bind(run)
        .fetch_all(conn)
        .await?
        }))
    }

    pub async fn artifact(&self, key: TaskKey, attempt: i32, name: &str) -> Result<Option<Vec<u8>>> {
        let row: Option<(Vec<u8>,)> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT content FROM artifacts WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 AND name = $5"
        )
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .bind(attempt)
        .bind(name)
        .fetch_optional(conn)
        .await?
        });
        Ok(row.map(|row| row.0))
    }
}

pub(crate) async fn insert(tx: &mut Tx, version: i64, files: &[BundleFile]) -> Result<()> {
    for file in files {
        within!(
            tx,
            sqlx::query("INSERT INTO version_files (version, path, executable, content) VALUES ($1, $2, $3, $4)")
                .bind(version)
                .bind(&file.path)
                .bind(file.executable)
                .bind(&file.content)
        );
    }
    Ok(())
}
