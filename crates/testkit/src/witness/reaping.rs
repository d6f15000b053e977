//! How long the dead were overlooked, on the database's clock.
//!
//! The bound (TTL, one turn of the leader, one second) is about a leader that looks. While it does not, because it is not
//! scheduled, stopped, or there is none, no time counts: what its turns came late by is taken off. So the bound means the
//! same on a busy machine.

use std::time::Duration;

use anyhow::Context;
use sqlx::{Connection, PgConnection};

use crate::invariants::Violation;

const GRACE: Duration = Duration::from_secs(1);

/// How a server was configured to find dead sessions.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub ttl: Duration,
    /// How often a leader looks.
    pub turn: Duration,
}

/// A session that a leader marked dead. Times are microseconds on the database's clock.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Reap {
    pub session: i64,
    /// Who had opened it.
    pub actor: Option<String>,
    pub epoch: i64,
    pub last_beat: i64,
    pub at: i64,
}

/// Every session that a leader marked dead, in order.
pub async fn reaps(url: &str) -> anyhow::Result<Vec<Reap>> {
    let sql = "SELECT s.session, s.actor, w.epoch, (extract(epoch FROM s.last_beat) * 1e6)::bigint AS last_beat, \
               (extract(epoch FROM w.at) * 1e6)::bigint AS at \
               FROM witness_writes w JOIN witness_sessions s ON s.session = w.subject::bigint WHERE w.what = 'reap' ORDER BY w.at";
    let mut connection = PgConnection::connect(url).await.with_context(|| format!("connecting to {url}"))?;
    let reaps = sqlx::query_as(sql).fetch_all(&mut connection).await?;
    connection.close().await?;
    Ok(reaps)
}

/// A dead session is reaped within TTL + reap interval + 1 s. Only for databases whose leader could always read them: it
/// measures anew after an error, and rightly.
pub async fn check_pace(url: &str, pace: Pace) -> anyhow::Result<Vec<Violation>> {
    let sql = "SELECT epoch, (extract(epoch FROM at) * 1e6)::bigint FROM witness_turns ORDER BY at";
    let mut connection = PgConnection::connect(url).await.with_context(|| format!("connecting to {url}"))?;
    let turns: Vec<(i64, i64)> = sqlx::query_as(sql).fetch_all(&mut connection).await?;
    connection.close().await?;
    let mut violations = Vec::new();
    for reap in reaps(url).await? {
        let own: Vec<i64> = turns.iter().filter(|turn| turn.0 == reap.epoch).map(|turn| turn.1).collect();
        let late = late_by(&reap, &own, pace);
        if late > 0 {
            let subject = format!("{reap:?} came {late} µs late");
            violations
                .push(Violation { invariant: "a dead session is reaped within TTL + reap interval + 1 s", subject });
        }
    }
    Ok(violations)
}

/// A session that still beats is not found dead, whatever etcd or anything but the database says: between its last beat and
/// its mark lies a whole TTL.
pub async fn check_patience(url: &str, ttl: Duration) -> anyhow::Result<Vec<Violation>> {
    let too_soon = |reap: &Reap| reap.at - reap.last_beat < ttl.as_micros() as i64;
    let violation = |reap: Reap| Violation {
        invariant: "a session is found dead only after it was silent for a whole TTL",
        subject: format!("{reap:?} came {} µs after its last beat", reap.at - reap.last_beat),
    };
    Ok(reaps(url).await?.into_iter().filter(too_soon).map(violation).collect())
}

/// A leader that still beats is not succeeded, whatever etcd says or does not say: between the last beat of a term that was
/// not given up and the next term lies a whole TTL. Only where no leader died: the end of a dead one's lease in etcd permits
/// more.
pub async fn check_succession(url: &str, ttl: Duration) -> anyhow::Result<Vec<Violation>> {
    let sql = "SELECT t.epoch, (extract(epoch FROM t.at - max(b.at)) * 1e6)::bigint FROM witness_takeovers t \
               JOIN witness_turns b ON b.epoch = t.epoch - 1 AND b.at < t.at \
               WHERE NOT EXISTS (SELECT 1 FROM witness_releases r WHERE r.epoch = t.epoch - 1) GROUP BY t.epoch, t.at";
    let mut connection = PgConnection::connect(url).await.with_context(|| format!("connecting to {url}"))?;
    let takeovers: Vec<(i64, i64)> = sqlx::query_as(sql).fetch_all(&mut connection).await?;
    connection.close().await?;
    let violation = |(epoch, silent): (i64, i64)| Violation {
        invariant: "a leader is succeeded only after it was silent for a whole TTL",
        subject: format!("epoch {epoch} began {silent} µs after the last beat of the one before"),
    };
    Ok(takeovers.into_iter().filter(|(_, silent)| *silent < ttl.as_micros() as i64).map(violation).collect())
}

/// By how many microseconds the bound was missed, given the turns of the leader that reaped.
fn late_by(reap: &Reap, turns: &[i64], pace: Pace) -> i64 {
    let turn = pace.turn.as_micros() as i64;
    let start = turns.first().map_or(reap.last_beat, |first| reap.last_beat.max(*first));
    let looks: Vec<i64> = std::iter::once(start)
        .chain(turns.iter().copied().filter(|look| *look > start && *look < reap.at))
        .chain([reap.at])
        .collect();
    let stalled: i64 = looks.windows(2).map(|pair| (pair[1] - pair[0] - turn).max(0)).sum();
    let allowed = (pace.ttl + GRACE).as_micros() as i64 + turn + stalled;
    (reap.at - start - allowed).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const PACE: Pace = Pace { ttl: Duration::from_secs(3), turn: Duration::from_secs(1) };

    fn late(last_beat: i64, turns: impl IntoIterator<Item = i64>, at: i64) -> i64 {
        let turns: Vec<i64> = turns.into_iter().map(|turn| turn * SECOND).collect();
        let reap = Reap { session: 1, actor: None, epoch: 1, last_beat: last_beat * SECOND, at: at * SECOND };
        late_by(&reap, &turns, PACE) / SECOND
    }

    #[test]
    fn only_time_in_which_a_leader_looked_counts() {
        assert_eq!(late(10, 0..=15, 15), 0, "within 3 + 1 + 1");
        assert_eq!(late(10, 0..=18, 18), 3, "it looked eight times and overlooked it");
        assert_eq!(late(10, (0..=11).chain(17..=20), 20), 0, "it did not look from 11 to 17");
        assert_eq!(late(10, (0..=11).chain(17..=23), 23), 3);
        assert_eq!(late(10, 30..=35, 35), 0, "it leads since 30");
        assert_eq!(late(10, 30..=36, 36), 1);
        assert_eq!(late(10, [], 30), 0, "nobody looked");
    }
}
