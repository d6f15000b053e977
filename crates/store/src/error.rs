//! What can go wrong between the program and its database.

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was done, or nothing is known to have been done; the same call may be repeated.
    #[error("the database is not reachable: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// The request left, its reply did not arrive. Only for guarded units, which can be resolved.
    #[error("the reply to {0} was lost")]
    InDoubt(&'static str),
    /// Deadlock, serialisation failure, lock timeout, busy: repeat.
    #[error("the database asked to repeat: {0}")]
    Repeat(#[source] sqlx::Error),
    /// The database refuses this data; repeating is useless.
    #[error("the database refused: {0}")]
    Rejected(#[source] sqlx::Error),
    #[error("{what} was not found")]
    NotFound { what: String },
    #[error("{0}")]
    Conflict(String),
    /// What was given is not valid; nothing was done.
    #[error("{0}")]
    Invalid(String),
    /// Nothing was done: another request was made under this idempotency key.
    #[error("a request was made under this idempotency key before")]
    KeyTaken,
    #[error("{table}.{column} of {id} is not readable: {reason}")]
    BadRow { table: &'static str, column: &'static str, id: String, reason: String },
    #[error(
        "the database has schema version {found}, this program knows {known}: use the program that wrote it, or a newer one"
    )]
    NewerSchema { found: i64, known: i64 },
    #[error("{}: run `mainspring migrate up`", older_schema(*found, *known))]
    OlderSchema { found: i64, known: i64 },
    #[error("{0}")]
    BadUrl(String),
    #[error(
        "another server holds {0}: a SQLite file has one server; stop the other or give this one its own --database"
    )]
    FileInUse(String),
}

impl Error {
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }

    pub(crate) fn bad_row(table: &'static str, column: &'static str, id: impl ToString, reason: impl ToString) -> Self {
        Self::BadRow { table, column, id: id.to_string(), reason: reason.to_string() }
    }

    /// Whether waiting and calling again can help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Repeat(_) | Self::InDoubt(_))
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => {
                let code = database.code().unwrap_or_default().into_owned();
                match code.as_str() {
                    // PostgreSQL: serialisation failure, deadlock, lock timeout, statement timeout.
                    "40001" | "40P01" | "55P03" | "57014" => Self::Repeat(error),
                    // PostgreSQL: shutting down, crashing, starting, too many connections, out of disk or memory.
                    "57P01" | "57P02" | "57P03" | "53300" | "53100" | "53200" | "08006" | "08003" | "08000" => {
                        Self::Unavailable(error)
                    }
                    // SQLite: busy, locked and their refinements; full disk and I/O errors.
                    "5" | "6" | "261" | "517" | "262" => Self::Repeat(error),
                    "10" | "13" | "14" | "778" => Self::Unavailable(error),
                    // PostgreSQL: what `create_runs_v1` says of a workflow that was deleted meanwhile.
                    "MS001" => Self::not_found("the workflow"),
                    // PostgreSQL: what `start_runs_v1` says when the guard of its lane did not move.
                    "MS002" => Self::InDoubt("a submission"),
                    // SQLite: the deleted workflow, see `sqlite/runs.rs`.
                    "1299" if database.message().ends_with("runs.state") => Self::not_found("the workflow"),
                    _ => Self::Rejected(error),
                }
            }
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Protocol(_) => Self::Unavailable(error),
            _ => Self::Rejected(error),
        }
    }
}

/// With the version this program knows it is the stored functions that differ.
fn older_schema(found: i64, known: i64) -> String {
    if found == known {
        "the stored functions of the database are not those of this program".to_owned()
    } else {
        format!("the database has schema version {found} of {known}")
    }
}
