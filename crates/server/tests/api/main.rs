//! The API over its router, on both databases, and over a socket where that makes the difference.

mod auth;
mod classes;
mod doors;
mod events;
mod frame;
mod fuzz;
mod house;
mod injection;
mod jobs;
mod jwt;
mod live;
mod look;
mod namespaces;
mod pools;
mod repairs;
mod runs;
mod schedules;
mod security;
mod socket;
mod webhooks;
mod work;
mod workflows;

/// Makes a module per test with one test per database.
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($house:ident: &House) $body:block)+) => {$(
        $(#[$meta])*
        async fn $name($house: &crate::house::House) $body

        mod $name {
            #[tokio::test]
            async fn postgres() {
                let house = crate::house::House::new(mainspring_store::Flavor::Postgres).await;
                super::$name(&house).await;
            }

            #[tokio::test]
            async fn sqlite() {
                let house = crate::house::House::new(mainspring_store::Flavor::Sqlite).await;
                super::$name(&house).await;
            }
        }
    )+};
}
pub(crate) use on_both;
