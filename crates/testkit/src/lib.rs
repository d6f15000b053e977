//! What tests need and no program ships: throwaway databases and the checker of invariants.

pub mod database;
pub mod invariants;

pub use database::TestDatabase;
