//! Full-text search over workflows, runs and their errors. The index holds nothing of its own: it is rebuilt from the
//! other tables, by a namespace at a time.

use crate::db::{Flavor, Store, Tx, read, within};
use crate::error::Result;

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

impl Store {
    /// Builds the index of a namespace anew, from at most `limit` documents of each kind, the newest first.
    pub async fn reindex(&self, namespace: &str, limit: Option<u64>) -> Result<Indexed> {
        let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        let mut tx = self.begin().await?;
        within!(tx, sqlx::query("DELETE FROM search_documents WHERE namespace = $1").bind(namespace));
        let id = match tx.flavor() {
            Flavor::Postgres => "CAST(r.id AS text)",
            // A blob of 16 bytes, written as people write it.
            Flavor::Sqlite => {
                "lower(substr(hex(r.id), 1, 8) || '-' || substr(hex(r.id), 9, 4) || '-' || substr(hex(r.id), 13, 4) || '-' || \
                 substr(hex(r.id), 17, 4) || '-' || substr(hex(r.id), 21))"
            }
        };
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

    /// What holds all the words, best first.
    pub async fn search(&self, namespace: &str, words: &str, limit: i64) -> Result<Vec<Found>> {
        // Words are data: each is quoted, so that nothing in it is taken for an operator.
        let quoted: Vec<String> = words
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(|word| format!("\"{word}\""))
            .collect();
        if quoted.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<Found> = match self.flavor() {
            Flavor::Postgres => read!(self, |conn| sqlx::query_as(
                "SELECT kind, id, title, left(body, 500) AS body FROM search_documents \
                 WHERE namespace = $1 AND words @@ plainto_tsquery('simple', $2) \
                 ORDER BY ts_rank(words, plainto_tsquery('simple', $2)) DESC, id DESC LIMIT $3"
            )
            .bind(namespace)
            .bind(words)
            .bind(limit)
            .fetch_all(conn)
            .await?),
            Flavor::Sqlite => read!(self, |conn| {
                sqlx::query_as(
                "SELECT CAST(kind AS INTEGER) AS kind, id, title, substr(body, 1, 500) AS body FROM search_documents \
                 WHERE search_documents MATCH $2 AND namespace = $1 ORDER BY rank, id DESC LIMIT $3"
            )
            .bind(namespace)
            .bind(quoted.join(" "))
            .bind(limit)
            .fetch_all(conn)
            .await?
            }),
        };
        Ok(found)
    }
}

async fn insert(tx: &mut Tx, select: &str, namespace: &str, limit: i64) -> Result<u64> {
    let sql = sqlx::AssertSqlSafe(format!("INSERT INTO search_documents (namespace, kind, id, title, body) {select}"));
    Ok(within!(tx, sqlx::query(sql).bind(namespace).bind(limit)))
}
