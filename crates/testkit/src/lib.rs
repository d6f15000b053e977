//! What tests need and no program ships: throwaway databases, the checkers of invariants, and the storm that tries them.

pub mod audit;
pub mod binary;
pub mod chaos;
pub mod cluster;
pub mod customer;
pub mod database;
pub mod effects;
pub mod http;
pub mod invariants;
pub mod node;
pub mod proxy;
pub mod redis;
pub mod server;
pub mod services;
pub mod transactions;
pub mod wait;
pub mod witness;
pub mod workload;

pub use database::TestDatabase;
