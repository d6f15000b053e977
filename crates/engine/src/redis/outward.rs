//! The common part of the relays to Redis: they run while this node leads and restart after an error, and those to
//! `stream:scheduler:events.out` append to one stream of bounded length.

use std::time::Duration;

use mainspring_store::Error;

use super::connection::{Connection, RedisError};
use super::settings::RedisStatus;
use crate::node::Shared;

const STREAM: &str = "stream:scheduler:events.out";
/// The approximate length of the stream.
const KEPT: &str = "100000";
const AFTER_ERROR: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(super) enum RelayError {
    #[error(transparent)]
    Redis(#[from] RedisError),
    #[error(transparent)]
    Store(#[from] Error),
}

/// Runs a relay whenever this node leads, until the node stops. `reading` says what it reads from the store.
pub(super) async fn while_leading<F>(shared: &Shared, status: &RedisStatus, reading: &str, relay: impl Fn() -> F)
where
    F: Future<Output = Result<(), RelayError>>,
{
    let mut terms = shared.term.subscribe();
    loop {
        match shared.stop.run_until_cancelled(terms.wait_for(Option::is_some)).await {
            Some(Ok(_)) => {}
            _ => return,
        }
        tokio::select! {
            ended = relay() => match ended {
                Err(RelayError::Redis(error)) => status.trouble(error.to_string()),
                Err(RelayError::Store(error)) => tracing::debug!(%error, reading, "relaying to Redis"),
                Ok(()) => {}
            },
            _ = terms.wait_for(Option::is_none) => {}
            () = shared.stop.cancelled() => return,
        }
        let _ = shared.stop.run_until_cancelled(tokio::time::sleep(AFTER_ERROR)).await;
    }
}

/// Appends one entry with these fields.
pub(super) async fn append(redis: &mut Connection, fields: &[(&str, &str)]) -> Result<(), RedisError> {
    let mut arguments = vec!["XADD", STREAM, "MAXLEN", "~", KEPT, "*"];
    arguments.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
    redis.ask(&arguments).await.map(|_| ())
}
