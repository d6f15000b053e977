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
                    code if asks_to_repeat(code) => Self::Repeat(error),
                    code if is_outage(code) => Self::Unavailable(error),
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

/// Whether a code says that the same may succeed at once: another transaction was in the way.
fn asks_to_repeat(code: &str) -> bool {
    match sqlite_code(code) {
        // Busy, locked and their refinements.
        Some(primary) => matches!(primary, 5 | 6),
        // Serialisation failure, deadlock, lock timeout, statement timeout.
        None => matches!(code, "40001" | "40P01" | "55P03" | "57014"),
    }
}

/// Whether a code speaks of the state of the database and not of the data: nothing that was given to it is at fault.
fn is_outage(code: &str) -> bool {
    match sqlite_code(code) {
        // Out of memory, failed input or output, full disk, a file that cannot be opened, a failed locking protocol, and their
        // refinements.
        Some(primary) => matches!(primary, 7 | 10 | 13 | 14 | 15),
        // The connection failed (which a pooler also says of a database that is down), no resources, shutting down, crashing
        // or starting, a failure of the system below. A database that only reads is a standby, or was one's primary until now.
        None => {
            matches!(code.get(..2), Some("08" | "53" | "58"))
                || code.starts_with("57P0")
                || matches!(code, "25006" | "25P03" | "25P04")
        }
    }
}

/// The primary code of SQLite; `None` for a code of PostgreSQL, which has five characters.
fn sqlite_code(code: &str) -> Option<u32> {
    let number: u32 = code.parse().ok().filter(|_| code.len() < 5)?;
    Some(number & 0xff)
}

/// With the version this program knows it is the stored functions that differ.
fn older_schema(found: i64, known: i64) -> String {
    if found == known {
        "the stored functions of the database are not those of this program".to_owned()
    } else {
        format!("the database has schema version {found} of {known}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_the_database_is_told_from_a_refusal_of_data() {
        let kinds =
            |codes: &[&str]| codes.iter().map(|code| (asks_to_repeat(code), is_outage(code))).collect::<Vec<_>>();
        for (repeats, passes, codes) in [
            (true, false, &["40001", "40P01", "55P03", "57014", "5", "6", "261", "517", "773", "262"][..]),
            (false, true, &["57P01", "57P03", "57P05", "53300", "53100", "08006", "08P01", "58030", "25006", "25P03"]),
            (false, true, &["10", "778", "1034", "8714", "13", "14", "7", "15"]),
            (false, false, &["22021", "23505", "42501", "54000", "XX000", "MS001", "MS002", "25001"]),
            (false, false, &["19", "1299", "1555", "2067", "8", "11", "18", ""]),
        ] {
            assert_eq!(kinds(codes), vec![(repeats, passes); codes.len()], "{codes:?}");
        }
    }
}
