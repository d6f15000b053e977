//! The API over its router, on both databases, and over a socket where that makes the difference.

mod access;
mod artifacts;
mod auth;
mod caches;
mod classes;
mod crossings;
mod cut;
mod dead_letters;
mod desk;
mod events;
mod frame;
mod fuzz;
mod injection;
mod interface;
mod jobs;
mod jwt;
mod live;
mod look;
mod namespaces;
mod notifications;
mod openapi;
mod operate;
mod pauses;
mod pools;
mod refusals;
mod repairs;
mod requests;
mod runs;
mod schedules;
mod security;
mod socket;
mod staleness;
mod test_api;
mod ui_sessions;
mod webhooks;
mod work;
mod worker;
mod workflows;

/// Makes a module per test with one test per database.
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($api:ident: &TestApi) $body:block)+) => {$(
        $(#[$meta])*
        async fn $name($api: &crate::test_api::TestApi) $body

        mod $name {
            #[tokio::test]
            async fn postgres() {
                let api = crate::test_api::TestApi::new(mainspring_store::Flavor::Postgres).await;
                super::$name(&api).await;
            }

            #[tokio::test]
            async fn sqlite() {
                let api = crate::test_api::TestApi::new(mainspring_store::Flavor::Sqlite).await;
                super::$name(&api).await;
            }
        }
    )+};
}
pub(crate) use on_both;
