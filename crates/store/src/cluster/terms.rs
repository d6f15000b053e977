//! Leadership: a term is made only here, by compare-and-swap, and every leader's unit holds it while it acts.

use mainspring_boxed::boxed;
use uuid::Uuid;

use crate::db::{Store, Tx, locking, read, within, write};
use crate::error::Result;
use crate::postgres;

/// One term of one singleton duty.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Term {
    pub name: String,
    pub epoch: i64,
    pub term_id: Uuid,
    pub node: Uuid,
    pub beat: i64,
    /// Given up by its holder: may be taken at once.
    pub released: bool,
}

#[boxed]
impl Store {
    pub async fn term(&self, name: &str) -> Result<Option<Term>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT name, epoch, term_id, node, beat, released FROM terms WHERE name = $1"
        )
        .bind(name)
        .fetch_optional(conn)
        .await?))
    }

    /// Takes the term over from exactly the state that was `seen`; `None` if another node was faster or the holder lives.
    pub async fn take_term(&self, name: &str, node: Uuid, term_id: Uuid, seen: Option<&Term>) -> Result<Option<Term>> {
        Ok(match seen {
            None => {
                write!(self, |conn| {
                    sqlx::query_as(
                "INSERT INTO terms (name, epoch, term_id, node, beat) VALUES ($1, 1, $2, $3, 0) ON CONFLICT DO NOTHING \
                 RETURNING name, epoch, term_id, node, beat, released"
            )
            .bind(name)
            .bind(term_id)
            .bind(node)
            .fetch_optional(conn)
            .await?
                })
            }
            Some(seen) => self.take_over(node, term_id, seen).await?,
        })
    }

    /// Waits for the units that hold the term: what they do belongs to it.
    async fn take_over(&self, node: Uuid, term_id: Uuid, seen: &Term) -> Result<Option<Term>> {
        let mut tx = self.begin().await?;
        let sql = locking!(tx, "SELECT epoch FROM terms WHERE name = $1", "FOR UPDATE");
        let _: Option<(i64,)> = within!(tx, |conn| sqlx::query_as(sql).bind(&seen.name).fetch_optional(conn).await?);
        let taken: Option<Term> = within!(tx, |conn| {
            sqlx::query_as(
            "UPDATE terms SET epoch = epoch + 1, term_id = $2, node = $3, beat = 0, released = FALSE \
             WHERE name = $1 AND epoch = $4 AND term_id = $5 AND beat = $6 RETURNING name, epoch, term_id, node, beat, released"
        )
        .bind(&seen.name)
        .bind(term_id)
        .bind(node)
        .bind(seen.epoch)
        .bind(seen.term_id)
        .bind(seen.beat)
        .fetch_optional(conn)
        .await?
        });
        tx.commit().await?;
        Ok(taken)
    }

    /// The holder says that it lives; false if the term is not its own any more.
    pub async fn beat_term(&self, term: &Term) -> Result<bool> {
        let touched = write!(
            self,
            sqlx::query("UPDATE terms SET beat = beat + 1 WHERE name = $1 AND epoch = $2 AND term_id = $3")
                .bind(&term.name)
                .bind(term.epoch)
                .bind(term.term_id)
        );
        Ok(touched == 1)
    }

    /// Gives the term up, so that another may take it at once.
    pub async fn release_term(&self, term: &Term) -> Result<()> {
        write!(
            self,
            sqlx::query(
                "UPDATE terms SET released = TRUE, beat = beat + 1 WHERE name = $1 AND epoch = $2 AND term_id = $3"
            )
            .bind(&term.name)
            .bind(term.epoch)
            .bind(term.term_id)
        );
        Ok(())
    }
}

/// Holds the term for the rest of the transaction. A plain read would let an old leader commit after the takeover. The
/// holder's beats pass: units that follow each other closely must not make it look dead.
pub(crate) async fn hold(tx: &mut Tx, term: &Term) -> Result<bool> {
    match tx {
        Tx::Postgres(tx) => postgres::hold_term(tx, &term.name, term.epoch, term.term_id).await,
        Tx::Sqlite(tx) => {
            let held: Option<(i64,)> =
                sqlx::query_as("SELECT epoch FROM terms WHERE name = $1 AND epoch = $2 AND term_id = $3")
                    .bind(&term.name)
                    .bind(term.epoch)
                    .bind(term.term_id)
                    .fetch_optional(tx.connection().await?)
                    .await?;
            Ok(held.is_some())
        }
    }
}
