//! Files that a version brings along.

use mainspring_boxed::boxed;
use mainspring_core::work::BundleFile;

use crate::db::{Store, Tx, read, within};
use crate::error::Result;

#[boxed]
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
