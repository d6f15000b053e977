//! The consumers of a group. Every start of a node makes one with a name of its own in each group that it reads, and Redis keeps it
//! until it is deleted: a node deletes its own when it stops, and those that dead nodes left when it begins to read.

use std::time::Duration;

use super::connection::{Connection, RedisError};
use super::resp::Reply;
use super::settings::RedisSettings;

/// Deletes a consumer without pending entries. One script, because a deleted consumer takes its pending entries along.
const DELETE_IF_DONE: &str = "\
    if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 0 end \
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) return 1";
/// A consumer that has asked for nothing so long is of a node that is gone. One that lives is made again when it reads.
const ABANDONED_AFTER_MILLIS: i64 = 3_600_000;
/// How long a node that stops takes for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Deletes this node's consumer where nothing is pending for it; what is pending is claimed by other nodes.
pub(super) async fn leave(settings: &RedisSettings, streams: &[String], group: &str, consumer: &str) {
    let leaving = async {
        let mut redis = Connection::open(settings).await?;
        for stream in streams {
            delete_if_done(&mut redis, stream, group, consumer).await?;
        }
        Ok::<(), RedisError>(())
    };
    match tokio::time::timeout(PATIENCE, leaving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(%error, "leaving the groups of Redis; another node deletes this consumer later")
        }
        Err(_) => tracing::debug!("Redis does not answer; another node deletes this consumer later"),
    }
}

/// Deletes consumers that dead nodes left and for which nothing is pending.
pub(super) async fn forget_abandoned(redis: &mut Connection, stream: &str, group: &str) -> Result<(), RedisError> {
    let reply = match redis.ask(&["XINFO", "CONSUMERS", stream, group]).await {
        Ok(reply) => reply,
        // It is not permitted here, or the group was flushed meanwhile: nothing depends on it.
        Err(RedisError::Refused { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    for consumer in abandoned(&reply) {
        delete_if_done(redis, stream, group, consumer).await?;
    }
    Ok(())
}

async fn delete_if_done(redis: &mut Connection, stream: &str, group: &str, consumer: &str) -> Result<(), RedisError> {
    match redis.ask(&["EVAL", DELETE_IF_DONE, "1", stream, group, consumer]).await {
        Ok(_) => Ok(()),
        Err(error @ RedisError::Refused { .. }) => {
            tracing::debug!(%error, stream, consumer, "a consumer is not deleted");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// The names of consumers of an answer to `XINFO CONSUMERS` that are abandoned and have nothing pending.
fn abandoned(reply: &Reply) -> impl Iterator<Item = &str> {
    reply.list().iter().filter_map(|consumer| {
        let field =
            |name: &str| consumer.list().chunks_exact(2).find(|pair| pair[0].text() == Some(name)).map(|pair| &pair[1]);
        let (Some(Reply::Number(pending)), Some(Reply::Number(idle))) = (field("pending"), field("idle")) else {
            return None;
        };
        field("name")?.text().filter(|_| *pending == 0 && *idle >= ABANDONED_AFTER_MILLIS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_that_are_idle_for_long_with_nothing_pending_are_abandoned() {
        let consumer = |name: &str, pending: i64, idle: i64| {
            let text = |text: &str| Reply::Text(text.to_owned());
            let numbers = [("pending", pending), ("idle", idle), ("inactive", -1)];
            let numbers = numbers.into_iter().flat_map(|(name, number)| [text(name), Reply::Number(number)]);
            Reply::List([text("name"), text(name)].into_iter().chain(numbers).collect())
        };
        let reply = Reply::List(vec![
            consumer("works", 1, 10),
            consumer("rests", 0, 2_000),
            consumer("died", 0, 86_400_000),
            consumer("died-with-entries", 2, 86_400_000),
        ]);
        assert_eq!(abandoned(&reply).collect::<Vec<_>>(), ["died"]);
        assert_eq!(abandoned(&Reply::Nil).count(), 0);
    }
}
