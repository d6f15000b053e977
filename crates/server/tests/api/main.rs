//! The API over its router, on both databases, and over a socket where that makes the difference.

mod auth;
mod doors;
mod frame;
mod house;
mod jwt;
mod live;
mod pools;
mod security;
mod socket;
mod schedules;
mod events;
mod jobs;
mod webhooks;
mod work;

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
