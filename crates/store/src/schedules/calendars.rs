//! Named calendars. A change of one moves the next fires of every trigger that names it, in the same transaction.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::schedule::{Calendar, CalendarSpec};

use crate::db::{Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::schedules::triggers;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarRow {
    pub namespace: String,
    pub name: String,
    pub spec: CalendarSpec,
    pub created_at: Micros,
    pub updated_at: Micros,
}

#[derive(sqlx::FromRow)]
struct Row {
    namespace: String,
    name: String,
    spec: String,
    created_at: Micros,
    updated_at: Micros,
}

impl TryFrom<Row> for CalendarRow {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let spec = parse(&row.spec, &row.namespace, &row.name)?;
        let (created_at, updated_at) = (row.created_at, row.updated_at);
        Ok(Self { namespace: row.namespace, name: row.name, spec, created_at, updated_at })
    }
}

#[boxed]
impl Store {
    /// Makes or replaces a calendar; the next fires of the triggers that name it are computed anew. Returns how many
    /// those are.
    pub async fn put_calendar(&self, now: Micros, namespace: &str, name: &str, spec: &CalendarSpec) -> Result<usize> {
        Calendar::new(spec).map_err(|error| Error::Invalid(format!("calendar `{name}`: {error}")))?;
        let text = serde_json::to_string(spec)
            .map_err(|error| Error::Invalid(format!("the calendar `{name}` cannot be stored: {error}")))?;
        let mut tx = self.begin().await?;
        within!(
            tx,
            sqlx::query(
                "INSERT INTO calendars (namespace, name, spec, created_at, updated_at) VALUES ($1, $2, $3, $4, $4) \
                 ON CONFLICT (namespace, name) DO UPDATE SET spec = excluded.spec, updated_at = excluded.updated_at"
            )
            .bind(namespace)
            .bind(name)
            .bind(text)
            .bind(now)
        );
        let named = triggers::naming_calendar(&mut tx, namespace, name).await?;
        for id in named.iter().map(|row| row.id) {
            // Read again under its lock: it may have fired since.
            let row = triggers::lock(&mut tx, id).await?;
            let schedule = row.schedule(Some(spec)).map_err(Error::Invalid)?;
            let next = schedule.upcoming(row.progress());
            within!(
                tx,
                sqlx::query(
                    "UPDATE triggers SET next_nominal = $3, next_fire_at = $4, revision = revision + 1, \
                     updated_at = $2 WHERE id = $1"
                )
                .bind(id)
                .bind(now)
                .bind(next.map(|next| next.nominal))
                .bind(next.map(|next| next.fire_at))
            );
        }
        tx.commit().await?;
        Ok(named.len())
    }

    pub async fn calendar(&self, namespace: &str, name: &str) -> Result<CalendarRow> {
        let row: Option<Row> = read!(self, |conn| sqlx::query_as(
            "SELECT namespace, name, spec, created_at, updated_at FROM calendars WHERE namespace = $1 AND name = $2"
        )
        .bind(namespace)
        .bind(name)
        .fetch_optional(conn)
        .await?);
        row.ok_or_else(|| Error::not_found(format!("calendar `{name}` in namespace `{namespace}`")))?.try_into()
    }

    /// Calendars by a condition of the pages: `$1` is a text, `$2` the limit.
    pub(crate) async fn calendars_where(
        &self,
        condition: &str,
        text: Option<String>,
        limit: i64,
    ) -> Result<Vec<CalendarRow>> {
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT namespace, name, spec, created_at, updated_at FROM calendars {condition}"
        ));
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(sql).bind(text).bind(limit).fetch_all(conn).await?);
        rows.into_iter().map(CalendarRow::try_from).collect()
    }

    /// The calendars of a namespace in the order of their names, those after `after`.
    pub async fn calendars(&self, namespace: &str, after: &str, limit: i64) -> Result<Vec<CalendarRow>> {
        let rows: Vec<Row> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT namespace, name, spec, created_at, updated_at FROM calendars WHERE namespace = $1 AND name > $2 ORDER BY name LIMIT $3"
        )
        .bind(namespace)
        .bind(after)
        .bind(limit)
        .fetch_all(conn)
        .await?
        });
        rows.into_iter().map(CalendarRow::try_from).collect()
    }

    /// Deletes a calendar that no trigger names.
    pub async fn delete_calendar(&self, namespace: &str, name: &str) -> Result<()> {
        let mut tx = self.begin().await?;
        let sql = locking!(tx, "SELECT name FROM calendars WHERE namespace = $1 AND name = $2", "FOR UPDATE");
        let found: Option<(String,)> =
            within!(tx, |conn| sqlx::query_as(sql).bind(namespace).bind(name).fetch_optional(conn).await?);
        if found.is_none() {
            return Err(Error::not_found(format!("calendar `{name}` in namespace `{namespace}`")));
        }
        if let Some(user) = triggers::naming_calendar(&mut tx, namespace, name).await?.first() {
            return Err(Error::Conflict(format!(
                "the calendar `{name}` is named by trigger `{}` of workflow `{}`: apply the workflow without it first",
                user.trigger.id, user.workflow
            )));
        }
        within!(tx, sqlx::query("DELETE FROM calendars WHERE namespace = $1 AND name = $2").bind(namespace).bind(name));
        tx.commit().await
    }
}

/// The calendar that a trigger names, held against being deleted until the transaction ends.
pub(crate) async fn of(tx: &mut Tx, namespace: &str, name: Option<&str>) -> Result<Option<CalendarSpec>> {
    let Some(name) = name else { return Ok(None) };
    let sql = locking!(tx, "SELECT spec FROM calendars WHERE namespace = $1 AND name = $2", "FOR SHARE");
    let found: Option<(String,)> =
        within!(tx, |conn| sqlx::query_as(sql).bind(namespace).bind(name).fetch_optional(conn).await?);
    found.map(|row| parse(&row.0, namespace, name)).transpose()
}

fn parse(text: &str, namespace: &str, name: &str) -> Result<CalendarSpec> {
    serde_json::from_str(text)
        .map_err(|error| Error::bad_row("calendars", "spec", format!("{namespace}/{name}"), error))
}
