//! What the pages of the web interface read: a fixed number of statements per page, however many rows there are.
//!
//! Every statement that crosses namespaces takes the ones that its reader may see; nothing is filtered afterwards.

mod agenda;
mod overview;
mod run_overview;
mod strips;

pub use agenda::AgendaFire;
pub use overview::{ApprovalRow, LetterRow, MissedRow, OpenRunRow, QueueRow, UpcomingRow};
pub use run_overview::{ActionRow, AttemptSpan, ItemCount, TaskMoment};
pub use strips::{RecentInputsRow, StripRun};

use crate::db::Flavor;

/// Namespaces as one bound text, so that a list of any length is one statement; `None` is all of them.
fn bound(namespaces: Option<&[String]>) -> Option<String> {
    namespaces.map(|names| serde_json::Value::from(names.to_vec()).to_string())
}

/// The condition that a column is one of the namespaces bound as `$1`.
fn within(flavor: Flavor, column: &str) -> String {
    match flavor {
        Flavor::Postgres => format!("($1 IS NULL OR {column} IN (SELECT json_array_elements_text($1::json)))"),
        Flavor::Sqlite => format!("($1 IS NULL OR {column} IN (SELECT value FROM json_each($1)))"),
    }
}
