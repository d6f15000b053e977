//! Entries together: per reason for the dashboard, per cause where there are thousands of them.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::dead_letter::{Reason, Resolution};
use sqlx::QueryBuilder;

use super::read::{DeadLetter, FROM, LetterFilter, narrowed};
use crate::db::{Acquired, Store};
use crate::error::{Error, Result};

/// How many bars a histogram has.
const BARS: usize = 24;
const SAMPLES: i64 = 3;

/// Entries of one cause.
#[derive(Debug, Clone)]
pub struct GroupRow {
    pub fingerprint: String,
    pub count: i64,
    pub first_seen: Micros,
    pub last_seen: Micros,
    /// When each bar begins, and how many entries fall into it.
    pub histogram: Vec<(Micros, i64)>,
    /// The newest entries.
    pub samples: Vec<DeadLetter>,
}

/// The dashboard's line for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct ReasonStatistics {
    pub reason: Reason,
    pub total: i64,
    /// By the code of the resolution.
    pub by_status: [i64; 6],
    pub oldest: Micros,
    pub newest: Micros,
    pub oldest_pending: Option<Micros>,
    /// Of those that are closed, in microseconds.
    pub average_resolution: Option<f64>,
}

#[derive(sqlx::FromRow)]
struct StatisticsRow {
    reason: i16,
    status: i16,
    entries: i64,
    oldest: Micros,
    newest: Micros,
    taken: Option<f64>,
}

#[boxed]
impl Store {
    /// The dashboard: one line per reason that there are entries of.
    pub async fn letter_statistics(&self, filter: &LetterFilter) -> Result<Vec<ReasonStatistics>> {
        macro_rules! selected {
            ($database:ty) => {{
                let mut query = QueryBuilder::<$database>::new(
                    "SELECT d.reason, d.status, count(*) AS entries, min(d.created_at) AS oldest, max(d.created_at) AS newest, \
                     CAST(sum(d.resolved_at - d.created_at) AS double precision) AS taken",
                );
                query.push(FROM);
                narrowed!(query, filter);
                query.push(" GROUP BY d.reason, d.status ORDER BY d.reason, d.status");
                query
            }};
        }
        let rows: Vec<StatisticsRow> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => selected!(sqlx::Postgres).build_query_as().fetch_all(pg.connection()).await?,
            Acquired::Sqlite(sqlite) => {
                selected!(sqlx::Sqlite).build_query_as().fetch_all(sqlite.connection().await?).await?
            }
        };
        summed(&rows)
    }

    /// Causes, the most frequent first, each with a histogram from the first of them until `now`.
    pub async fn letter_groups(&self, now: Micros, filter: &LetterFilter) -> Result<Vec<GroupRow>> {
        macro_rules! grouped {
            ($database:ty) => {{
                let mut query = QueryBuilder::<$database>::new(
                    "SELECT d.fingerprint, count(*), min(d.created_at), max(d.created_at)",
                );
                query.push(FROM).push(" AND d.fingerprint IS NOT NULL");
                narrowed!(query, filter);
                query.push(" GROUP BY d.fingerprint ORDER BY 2 DESC, 1 LIMIT ").push_bind(filter.limit);
                query.push(" OFFSET ").push_bind(filter.offset);
                query
            }};
        }
        let rows: Vec<(String, i64, Micros, Micros)> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => grouped!(sqlx::Postgres).build_query_as().fetch_all(pg.connection()).await?,
            Acquired::Sqlite(sqlite) => {
                grouped!(sqlx::Sqlite).build_query_as().fetch_all(sqlite.connection().await?).await?
            }
        };
        let from = rows.iter().map(|row| row.2).min().unwrap_or(now);
        let width = ((now - from).max(0) / BARS as i64 + 1).max(1);
        let mut groups = Vec::with_capacity(rows.len());
        for (fingerprint, count, first_seen, last_seen) in rows {
            let one =
                LetterFilter { fingerprint: Some(fingerprint.clone()), limit: SAMPLES, offset: 0, ..filter.clone() };
            let mut histogram: Vec<(Micros, i64)> = (0..BARS as i64).map(|bar| (from + bar * width, 0)).collect();
            for (bar, entries) in self.letter_bars(&one, from, width).await? {
                if let Some(bar) = usize::try_from(bar).ok().and_then(|bar| histogram.get_mut(bar)) {
                    bar.1 += entries;
                }
            }
            let samples = self.letters(&one).await?;
            groups.push(GroupRow { fingerprint, count, first_seen, last_seen, histogram, samples });
        }
        Ok(groups)
    }

    async fn letter_bars(&self, filter: &LetterFilter, from: Micros, width: Micros) -> Result<Vec<(i64, i64)>> {
        macro_rules! barred {
            ($database:ty) => {{
                let mut query = QueryBuilder::<$database>::new("SELECT x.bar, count(*) FROM (SELECT (d.created_at - ");
                query.push_bind(from).push(") / ").push_bind(width).push(" AS bar").push(FROM);
                narrowed!(query, filter);
                query.push(") x GROUP BY x.bar");
                query
            }};
        }
        Ok(match &mut self.to_read().await? {
            Acquired::Postgres(pg) => barred!(sqlx::Postgres).build_query_as().fetch_all(pg.connection()).await?,
            Acquired::Sqlite(sqlite) => {
                barred!(sqlx::Sqlite).build_query_as().fetch_all(sqlite.connection().await?).await?
            }
        })
    }
}

fn summed(rows: &[StatisticsRow]) -> Result<Vec<ReasonStatistics>> {
    let mut all: Vec<ReasonStatistics> = Vec::new();
    let mut taken = (0.0, 0);
    for row in rows {
        let reason = Reason::try_from(row.reason)
            .map_err(|error| Error::bad_row("dead_letters", "reason", row.reason, error))?;
        let status = Resolution::try_from(row.status)
            .map_err(|error| Error::bad_row("dead_letters", "status", row.status, error))?;
        if all.last().is_none_or(|last| last.reason != reason) {
            taken = (0.0, 0);
            all.push(ReasonStatistics {
                reason,
                total: 0,
                by_status: [0; 6],
                oldest: row.oldest,
                newest: row.newest,
                oldest_pending: None,
                average_resolution: None,
            });
        }
        let Some(line) = all.last_mut() else { continue };
        line.total += row.entries;
        line.by_status[status as usize] = row.entries;
        (line.oldest, line.newest) = (line.oldest.min(row.oldest), line.newest.max(row.newest));
        match status {
            Resolution::Pending => line.oldest_pending = Some(row.oldest),
            _ => {
                taken = (taken.0 + row.taken.unwrap_or(0.0), taken.1 + row.entries);
                line.average_resolution = Some(taken.0 / taken.1 as f64);
            }
        }
    }
    Ok(all)
}
