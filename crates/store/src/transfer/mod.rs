//! Whole databases: a copy of a SQLite file while it is in use, and the move from SQLite to PostgreSQL.

mod backup;
mod migrate;

pub use migrate::CopiedTable;
