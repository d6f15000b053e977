//! Waiting for a state: look again and again until it is there or the time is up. Nothing sleeps for a guess.

use std::time::{Duration, Instant};

use anyhow::bail;

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// What `look` finds, once it finds something.
pub async fn until<T>(
    what: &str,
    patience: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("waited {patience:?} in vain: {what}");
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}
