//! What the two tables of files have in common: `artifacts`, whose rows go with their run, and `cached_files`, whose rows stay.

use mainspring_core::{Micros, TaskKey};

use crate::db::{Store, Tx, read, within};
use crate::error::{Error, Result};
use crate::runs::artifacts::{ArtifactPlace, StoredArtifact};

/// The statements over a table.
macro_rules! file_table {
    ($table:literal) => {
        FileTable {
            name: $table,
            give_up_object: concat!(
                "INSERT INTO unused_objects (object, due_at) SELECT object, $6 FROM ",
                $table,
                " WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 AND name = $5 AND object IS NOT NULL"
            ),
            bytes: concat!(
                "SELECT CAST(coalesce(sum(bytes), 0) AS bigint) FROM ",
                $table,
                " WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 AND name <> $5 AND object IS NULL"
            ),
            select: concat!(
                "SELECT bytes, sha256, executable, content, object FROM ",
                $table,
                " WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 AND name = $5"
            ),
        }
    };
}

pub(crate) static ARTIFACTS: FileTable = file_table!("artifacts");
pub(crate) static CACHED_FILES: FileTable = file_table!("cached_files");

/// The statements about one file of an attempt, `$1` to `$5` being its run, index, item, attempt and name.
pub(crate) struct FileTable {
    name: &'static str,
    /// Writes the object of the file down as unused from `$6` on.
    give_up_object: &'static str,
    /// Sums the bytes of all other files whose content is in the table.
    bytes: &'static str,
    select: &'static str,
}

/// What is kept of a file, and where its content is.
#[derive(sqlx::FromRow)]
struct PlaceRow {
    bytes: i64,
    sha256: String,
    executable: bool,
    content: Option<Vec<u8>>,
    object: Option<String>,
}

impl ArtifactPlace {
    /// The values of the columns `content` and `object`.
    pub(crate) fn columns(&self) -> (Option<&[u8]>, Option<&str>) {
        match self {
            Self::Database(content) => (Some(content.as_slice()), None),
            Self::Object(object) => (None, Some(object.as_str())),
        }
    }
}

impl FileTable {
    /// Takes the object of a file that is to be kept from the unused ones, and gives up the object of the file that it replaces.
    /// False if its own object has been given up meanwhile.
    pub(crate) async fn make_way(
        &self,
        tx: &mut Tx,
        now: Micros,
        key: TaskKey,
        attempt: i32,
        file: &StoredArtifact,
    ) -> Result<bool> {
        if let (_, Some(object)) = file.place.columns() {
            let taken = within!(tx, sqlx::query("DELETE FROM unused_objects WHERE object = $1").bind(object));
            if taken == 0 {
                return Ok(false);
            }
        }
        within!(
            tx,
            sqlx::query(self.give_up_object)
                .bind(key.run)
                .bind(key.index)
                .bind(key.item)
                .bind(attempt)
                .bind(&file.name)
                .bind(now)
        );
        Ok(true)
    }

    /// Bytes that an attempt has left in the database so far, but for the file of this name.
    pub(crate) async fn bytes_in_database(
        &self,
        store: &Store,
        key: TaskKey,
        attempt: i32,
        besides: &str,
    ) -> Result<i64> {
        let row: (i64,) = read!(store, |conn| {
            sqlx::query_as(self.bytes)
                .bind(key.run)
                .bind(key.index)
                .bind(key.item)
                .bind(attempt)
                .bind(besides)
                .fetch_one(conn)
                .await?
        });
        Ok(row.0)
    }

    /// A file with its content or object.
    pub(crate) async fn file(
        &self,
        store: &Store,
        key: TaskKey,
        attempt: i32,
        name: &str,
    ) -> Result<Option<StoredArtifact>> {
        let row: Option<PlaceRow> = read!(store, |conn| {
            sqlx::query_as(self.select)
                .bind(key.run)
                .bind(key.index)
                .bind(key.item)
                .bind(attempt)
                .bind(name)
                .fetch_optional(conn)
                .await?
        });
        let Some(PlaceRow { bytes, sha256, executable, content, object }) = row else { return Ok(None) };
        let place = match (content, object) {
            (Some(content), None) => ArtifactPlace::Database(content),
            (None, Some(object)) => ArtifactPlace::Object(object),
            _ => return Err(Error::bad_row(self.name, "object", key, "it has both or none of content and object")),
        };
        Ok(Some(StoredArtifact { name: name.to_owned(), bytes, sha256, executable, place }))
    }
}
