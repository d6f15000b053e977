//! Search over workflows, runs and their errors. What is new is read where it stands, so that it is found at once; the
//! index is for what is older. It holds nothing of its own: it is rebuilt from the other tables, by a namespace at a time.

use mainspring_boxed::boxed;

use crate::db::{Flavor, Store, Tx, read, within};
use crate::error::Result;

/// How many runs, and how many failed ones, are looked at without the index.
const NEWEST: i64 = 5_000;
/// Further words narrow nothing.
const MOST_WORDS: usize = 16;

/// How many documents of each kind were put into the index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Indexed {
    pub workflows: u64,
    pub runs: u64,
    pub errors: u64,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Found {
    /// 0 workflow, 1 run, 2 error.
    pub kind: i16,
    /// A workflow's name, a run's id, or a run's id and the number of a task.
    pub id: String,
    pub title: String,
    pub body: String,
}

impl Found {
    pub fn kind_word(&self) -> &'static str {
        match self.kind {
            0 => "workflow",
            1 => "run",
            _ => "error",
        }
    }
}

#[boxed]
impl Store {
    /// Builds the index of a namespace anew, from at most `limit` documents of each kind, the newest first.
    pub async fn reindex(&self, namespace: &str, limit: Option<u64>) -> Result<Indexed> {
        let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        let mut tx = self.begin().await?;
        within!(tx, sqlx::query("DELETE FROM search_documents WHERE namespace = $1").bind(namespace));
        let id = run_id(tx.flavor());
        let workflows = insert(
            &mut tx,
            "SELECT w.namespace, 0, w.name, w.name, v.source FROM workflows w JOIN versions v ON v.id = w.latest \
             WHERE w.namespace = $1 ORDER BY w.updated_at DESC LIMIT $2",
            namespace,
            limit,
        )
        .await?;
        let runs = format!(
            "SELECT w.namespace, 1, {id}, w.name || ' ' || {id}, coalesce(d.correlation_id, '') || ' ' || coalesce(d.inputs, '') || ' ' || coalesce(d.reason, '') \
             FROM runs r JOIN workflows w ON w.id = r.workflow_id LEFT JOIN run_details d ON d.run_id = r.id \
             WHERE w.namespace = $1 ORDER BY r.id DESC LIMIT $2"
        );
        let runs = insert(&mut tx, &runs, namespace, limit).await?;
        let errors = format!(
            "SELECT w.namespace, 2, {id} || '.' || h.idx || CASE WHEN h.item < 0 THEN '' ELSE '.' || h.item END, w.name, \
                    coalesce(h.error_kind, '') || ' ' || coalesce(h.error, '') || ' ' || coalesce(h.detail, '') \
             FROM runs r JOIN workflows w ON w.id = r.workflow_id JOIN history h ON h.run_id = r.id \
             WHERE w.namespace = $1 AND h.error IS NOT NULL ORDER BY r.id DESC, h.idx, h.item LIMIT $2"
        );
        let errors = insert(&mut tx, &errors, namespace, limit).await?;
        tx.commit().await?;
        Ok(Indexed { workflows, runs, errors })
    }

    /// What holds all the words: the newest workflows, runs and errors as they are now, then what the index has besides,
    /// best first.
    pub async fn search(&self, namespace: &str, words: &str, limit: i64) -> Result<Vec<Found>> {
        let words: Vec<&str> =
            words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).take(MOST_WORDS).collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for select in live(&run_id(self.flavor())) {
            found.extend(self.look(&select, namespace, &words, limit).await?);
        }
        for one in self.look_up(namespace, &words, limit).await? {
            if !found.iter().any(|known: &Found| (known.kind, &known.id) == (one.kind, &one.id)) {
                found.push(one);
            }
        }
        found.truncate(usize::try_from(limit).unwrap_or(0));
        Ok(found)
    }

    /// Reads the documents that a statement makes, and keeps those with every word.
    async fn look(&self, select: &str, namespace: &str, words: &[&str], limit: i64) -> Result<Vec<Found>> {
        let has: Vec<String> =
            (3..3 + words.len()).map(|number| format!("lower(title || ' ' || body) LIKE ${number}")).collect();
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT kind, id, title, substr(body, 1, 500) AS body FROM ({select}) d WHERE {} LIMIT $2",
            has.join(" AND ")
        ));
        // No word holds `%` or `_`: those are no letters and no digits.
        let patterns: Vec<String> = words.iter().map(|word| format!("%{}%", word.to_lowercase())).collect();
        Ok(read!(self, |conn| {
            let query = sqlx::query_as(sql).bind(namespace).bind(limit);
            patterns.iter().fold(query, |query, pattern| query.bind(pattern)).fetch_all(conn).await?
        }))
    }

    /// Asks the index, which may still name runs that were purged since it was built.
    async fn look_up(&self, namespace: &str, words: &[&str], limit: i64) -> Result<Vec<Found>> {
        Ok(match self.flavor() {
            Flavor::Postgres => read!(self, |conn| sqlx::query_as(
                "SELECT kind, id, title, left(body, 500) AS body FROM search_documents s \
                 WHERE namespace = $1 AND kind > 0 AND words @@ plainto_tsquery('simple', $2) \
                   AND EXISTS (SELECT 1 FROM runs r WHERE r.id = CAST(left(s.id, 36) AS uuid)) \
                 ORDER BY ts_rank(words, plainto_tsquery('simple', $2)) DESC, id DESC LIMIT $3"
            )
            .bind(namespace)
            .bind(words.join(" "))
            .bind(limit)
            .fetch_all(conn)
            .await?),
            Flavor::Sqlite => {
                // Words are data: each is quoted, so that nothing in it is taken for an operator.
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                read!(self, |conn| {
                    sqlx::query_as(
                        "SELECT CAST(kind AS INTEGER) AS kind, id, title, substr(body, 1, 500) AS body FROM search_documents \
                         WHERE search_documents MATCH $2 AND namespace = $1 AND kind > 0 \
                           AND EXISTS (SELECT 1 FROM runs r WHERE r.id = unhex(replace(substr(search_documents.id, 1, 36), '-', ''))) \
                         ORDER BY rank, id DESC LIMIT $3",
                    )
                    .bind(namespace)
                    .bind(quoted.join(" "))
                    .bind(limit)
                    .fetch_all(conn)
                    .await?
                })
            }
        })
    }
}

/// The id of the run `r` as people write it.
fn run_id(flavor: Flavor) -> String {
    match flavor {
        Flavor::Postgres => "CAST(r.id AS text)".into(),
        // A blob of 16 bytes.
        Flavor::Sqlite => {
            let part = |from: u8, length: u8| format!("substr(hex(r.id), {from}, {length})");
            let parts = [part(1, 8), part(9, 4), part(13, 4), part(17, 4), part(21, 12)];
            format!("lower({})", parts.join(" || '-' || "))
        }
    }
}

/// Documents as the index has them, made of what is there now: workflows, the newest runs, the newest failures.
fn live(run_id: &str) -> [String; 3] {
    [
        "SELECT CAST(0 AS smallint) AS kind, w.name AS id, w.name AS title, v.source AS body FROM workflows w JOIN versions v ON v.id = w.latest \
         WHERE w.namespace = $1 ORDER BY w.updated_at DESC"
            .into(),
        format!(
            "SELECT CAST(1 AS smallint) AS kind, {run_id} AS id, w.name || ' ' || {run_id} AS title, \
                    coalesce(d.correlation_id, '') || ' ' || coalesce(d.inputs, '') || ' ' || coalesce(d.reason, '') AS body \
             FROM (SELECT id, workflow_id FROM runs ORDER BY id DESC LIMIT {NEWEST}) r JOIN workflows w ON w.id = r.workflow_id \
             LEFT JOIN run_details d ON d.run_id = r.id WHERE w.namespace = $1 ORDER BY r.id DESC"
        ),
        format!(
            "SELECT CAST(2 AS smallint) AS kind, {run_id} || '.' || h.idx || CASE WHEN h.item < 0 THEN '' ELSE '.' || h.item END AS id, w.name AS title, \
                    coalesce(h.error_kind, '') || ' ' || coalesce(h.error, '') || ' ' || coalesce(h.detail, '') AS body \
             FROM (SELECT run_id FROM unsuccessful_runs ORDER BY run_id DESC LIMIT {NEWEST}) u JOIN runs r ON r.id = u.run_id \
             JOIN workflows w ON w.id = r.workflow_id JOIN history h ON h.run_id = r.id \
             WHERE w.namespace = $1 AND h.error IS NOT NULL ORDER BY r.id DESC, h.idx, h.item"
        ),
    ]
}

async fn insert(tx: &mut Tx, select: &str, namespace: &str, limit: i64) -> Result<u64> {
    let sql = sqlx::AssertSqlSafe(format!("INSERT INTO search_documents (namespace, kind, id, title, body) {select}"));
    Ok(within!(tx, sqlx::query(sql).bind(namespace).bind(limit)))
}
