//! Triggers by the real node on both databases. The time of day is moved by hand, so nothing waits for an hour; what is
//! waited for is always a state.

mod backfills;
mod clock;
mod jumps;
mod scene;
mod storm;

/// Makes a module per test with one test per database.
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($scene:ident: &Scene) $body:block)+) => {$(
        $(#[$meta])*
        async fn $name($scene: &Scene) $body

        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                let scene = crate::scene::Scene::new(mainspring_store::Flavor::Postgres).await;
                super::$name(&scene).await;
                scene.end().await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                let scene = crate::scene::Scene::new(mainspring_store::Flavor::Sqlite).await;
                super::$name(&scene).await;
                scene.end().await;
            }
        }
    )+};
}
pub(crate) use on_both;
