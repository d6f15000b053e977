//! One suite for both databases: every test runs as `name::postgres` and `name::sqlite`.
//!
//! A test gets a [`World`]: a throwaway database with a clock that it moves by hand. When it returns, the invariants
//! are checked; those at rest too if every run has ended.

mod access;
mod artifacts;
mod big;
mod caches;
mod claims;
mod cluster;
mod concurrency;
mod cut;
mod dead_letters;
mod decisions;
mod deliveries;
mod due;
mod finalisers;
mod finish;
mod firing;
mod following;
mod lanes;
mod limits;
mod logs;
mod looking;
mod model;
mod operate;
mod outages;
mod plans;
mod polls;
mod rates;
mod reads;
mod remote;
mod reopen;
mod reopen_many;
mod reopen_open;
mod repair;
mod retention;
mod rules;
mod run_log;
mod schema;
mod sessions;
mod submitting;
mod terms;
mod triggers;
mod versions;
mod waiting;
mod worker_sessions;
mod world;

/// Makes a module per test with one test per database.
macro_rules! conformance {
    ($($(#[$meta:meta])* async fn $name:ident($world:ident: &mut World) $body:block)+) => {$(
        $(#[$meta])*
        async fn $name($world: &mut World) $body

        mod $name {
            #[tokio::test]
            async fn postgres() {
                let mut world = crate::world::World::new(mainspring_store::Flavor::Postgres).await;
                super::$name(&mut world).await;
                world.check().await;
            }

            #[tokio::test]
            async fn sqlite() {
                let mut world = crate::world::World::new(mainspring_store::Flavor::Sqlite).await;
                super::$name(&mut world).await;
                world.check().await;
            }
        }
    )+};
}
pub(crate) use conformance;
