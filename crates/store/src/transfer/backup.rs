//! A consistent copy of a SQLite database while servers write to it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use mainspring_boxed::boxed;
use sqlx::Connection;

use crate::db::{Db, Store};
use crate::error::{Error, Result};

#[boxed]
impl Store {
    /// Writes everything as of now into a new file. Fails if the file exists, or if this is not SQLite.
    pub async fn backup_to(&self, file: &Path) -> Result<()> {
        let Db::Sqlite(sqlite) = &*self.db else {
            return Err(Error::BadUrl("a PostgreSQL database is backed up with pg_dump".to_owned()));
        };
        let name = file.display().to_string();
        // A reader: the copy is of one snapshot, and nothing that writes waits for it. Readers refuse every write, also one
        // into another file, so this one does not go back to the others.
        let mut reader = sqlite.readers.acquire().await?.detach();
        sqlx::query("PRAGMA query_only = OFF").execute(&mut reader).await?;
        // It holds what the database holds: only its owner may read it. SQLite takes an empty file for a new one.
        File::options().write(true).create_new(true).mode(0o600).open(file).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::BadUrl(format!("{name} exists already")),
            _ => Error::BadUrl(format!("{name} cannot be created: {error}")),
        })?;
        let copied = sqlx::query("VACUUM INTO $1").bind(&name).execute(&mut reader).await;
        _ = reader.close().await;
        if let Err(error) = copied {
            _ = std::fs::remove_file(file);
            return Err(error.into());
        }
        File::open(file)
            .and_then(|copy| copy.sync_all())
            .map_err(|error| Error::BadUrl(format!("{name} was not written to the disk: {error}")))
    }
}
