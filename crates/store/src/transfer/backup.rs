//! A consistent copy of a SQLite database while servers write to it.

use std::path::Path;

use crate::db::{Db, Store};
use crate::error::{Error, Result};

impl Store {
    /// Writes everything as of now into a new file. Fails if the file exists, or if this is not SQLite.
    pub async fn backup_to(&self, file: &Path) -> Result<()> {
        let Db::Sqlite(sqlite) = &*self.db else {
            return Err(Error::BadUrl("a PostgreSQL database is backed up with pg_dump".to_owned()));
        };
        let name = file.display().to_string();
        if file.exists() {
            return Err(Error::BadUrl(format!("{name} exists already")));
        }
        // A reader: the copy is of one snapshot, and nothing that writes waits for it.
        sqlx::query("VACUUM INTO $1").bind(&name).execute(&sqlite.readers).await?;
        std::fs::File::open(file)
            .and_then(|copy| copy.sync_all())
            .map_err(|error| Error::BadUrl(format!("{name} was not written to the disk: {error}")))
    }
}
