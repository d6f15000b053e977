//! Waiting for a state: look again and again until it is there or the time is up. Nothing sleeps for a guess.

use std::time::{Duration, Instant};

use anyhow::bail;

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
const BETWEEN_MEASUREMENTS: Duration = Duration::from_secs(2);

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

/// The same for something that takes as long as a loaded machine needs: the time is up only when nothing has gone on for
/// that long. `progress` is any number that changes with everything that is got done.
pub async fn until_nothing_moves<T>(
    what: &str,
    patience: Duration,
    mut progress: impl AsyncFnMut() -> anyhow::Result<i64>,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let mut last = progress().await?;
    let mut moved = Instant::now();
    loop {
        let next = Instant::now() + BETWEEN_MEASUREMENTS;
        while Instant::now() < next {
            if let Some(found) = look().await? {
                return Ok(found);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        let now = progress().await?;
        if now != last {
            (last, moved) = (now, Instant::now());
        } else if moved.elapsed() >= patience {
            bail!("nothing moved for {patience:?}: {what}");
        }
    }
}
