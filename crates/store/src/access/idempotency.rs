//! Answers that are kept, so that a request repeated under the same key is answered instead of done again.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use uuid::Uuid;

use crate::db::{Store, Tx, read, within, write};
use crate::error::Result;

/// What was answered under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    pub status: u16,
    pub content_type: Option<String>,
    /// `None` if the answer was not one to keep.
    pub body: Option<Vec<u8>>,
}

/// What a key means for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// New, or left behind by a process that died: do it.
    Mine,
    /// The same request is under way.
    UnderWay,
    /// Another request was made under this key.
    Differs,
    Answered(KeptAnswer),
}

#[derive(sqlx::FromRow)]
struct Row {
    request_hash: Vec<u8>,
    claim: Uuid,
    status: Option<i16>,
    content_type: Option<String>,
    body: Option<Vec<u8>>,
}

impl Row {
    /// What it means for another request.
    fn meaning(self, hash: &[u8; 32]) -> Claim {
        match self {
            row if row.request_hash != hash => Claim::Differs,
            Row { status: Some(status), content_type, body, .. } => {
                Claim::Answered(KeptAnswer { status: status.unsigned_abs(), content_type, body })
            }
            _ => Claim::UnderWay,
        }
    }
}

/// Written for either database.
macro_rules! keep {
    ($key:expr, $claim:expr, $answer:expr) => {
        sqlx::query(
            "UPDATE idempotent_requests SET status = $4, content_type = $5, body = $6 \
             WHERE actor = $1 AND key = $2 AND claim = $3 AND status IS NULL",
        )
        .bind($key.0)
        .bind($key.1)
        .bind($claim)
        .bind(i16::try_from($answer.status).unwrap_or(500))
        .bind(&$answer.content_type)
        .bind(&$answer.body)
    };
}

/// Stores the answer in the transaction of the request.
pub(crate) async fn keep_answer_within(tx: &mut Tx, key: (&str, &str), claim: Uuid, answer: &KeptAnswer) -> Result<()> {
    within!(tx, keep!(key, claim, answer));
    Ok(())
}

#[boxed]
impl Store {
    /// Takes the key for this request, or says what it was taken for. A claim older than `abandoned_before` without an
    /// answer has lost its owner and is taken over by the same request.
    pub async fn claim_request(
        &self,
        now: Micros,
        abandoned_before: Micros,
        (actor, key): (&str, &str),
        hash: &[u8; 32],
        claim: Uuid,
    ) -> Result<Claim> {
        let taken = write!(
            self,
            sqlx::query(
                "INSERT INTO idempotent_requests AS i (actor, key, request_hash, claim, created_at) \
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (actor, key) DO UPDATE SET claim = $4, created_at = $5 \
                 WHERE i.status IS NULL AND i.request_hash = $3 AND i.created_at < $6"
            )
            .bind(actor)
            .bind(key)
            .bind(hash.to_vec())
            .bind(claim)
            .bind(now)
            .bind(abandoned_before)
        );
        if taken > 0 {
            return Ok(Claim::Mine);
        }
        Ok(match self.kept_request((actor, key)).await? {
            // Given back in between: a repetition finds it free.
            None => Claim::UnderWay,
            Some(row) if row.request_hash == hash && row.claim == claim => Claim::Mine,
            Some(row) => row.meaning(hash),
        })
    }

    /// Keeps the answer of a claim that is still ours.
    pub async fn keep_answer(&self, key: (&str, &str), claim: Uuid, answer: &KeptAnswer) -> Result<()> {
        write!(self, keep!(key, claim, answer));
        Ok(())
    }

    /// What was answered under a key, if it was made for this very request.
    pub async fn request_under(&self, key: (&str, &str), hash: &[u8; 32]) -> Result<Option<Claim>> {
        Ok(self.kept_request(key).await?.map(|row| row.meaning(hash)))
    }

    async fn kept_request(&self, (actor, key): (&str, &str)) -> Result<Option<Row>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT request_hash, claim, status, content_type, body FROM idempotent_requests \
             WHERE actor = $1 AND key = $2"
        )
        .bind(actor)
        .bind(key)
        .fetch_optional(conn)
        .await?))
    }

    /// Gives a claim back: nothing was done under it, or that is unknown.
    pub async fn give_back_request(&self, (actor, key): (&str, &str), claim: Uuid) -> Result<()> {
        write!(
            self,
            sqlx::query(
                "DELETE FROM idempotent_requests WHERE actor = $1 AND key = $2 AND claim = $3 AND status IS NULL"
            )
            .bind(actor)
            .bind(key)
            .bind(claim)
        );
        Ok(())
    }

    /// Forgets what was answered before `before`; returns how many.
    pub async fn forget_requests(&self, before: Micros) -> Result<u64> {
        Ok(write!(self, sqlx::query("DELETE FROM idempotent_requests WHERE created_at < $1").bind(before)))
    }
}
