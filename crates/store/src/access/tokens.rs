//! API tokens. Only the hash of a token is ever here; a lost token is replaced by a new one.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use uuid::Uuid;

use crate::db::{Store, read, write};
use crate::error::{Error, Result};

/// A token to keep.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub id: Uuid,
    pub name: String,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// A JSON array of `{namespace, role}`.
    pub grants: String,
    pub created_by: String,
    pub expires_at: Option<Micros>,
}

/// A token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct TokenRow {
    pub id: Uuid,
    pub name: String,
    pub hash: Vec<u8>,
    pub grants: String,
    pub created_by: String,
    pub created_at: Micros,
    pub expires_at: Option<Micros>,
    /// Written coarsely: at most once a minute.
    pub last_used_at: Option<Micros>,
    pub revoked_at: Option<Micros>,
}

/// How stale `last_used_at` may be.
const COARSE: Micros = 60_000_000;

#[boxed]
impl Store {
    /// May be repeated: the same token is kept once.
    pub async fn add_token(&self, now: Micros, token: &NewToken) -> Result<()> {
        write!(
            self,
            sqlx::query(
                "INSERT INTO api_tokens (id, name, hash, grants, created_by, created_at, expires_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING"
            )
            .bind(token.id)
            .bind(&token.name)
            .bind(token.hash.to_vec())
            .bind(&token.grants)
            .bind(&token.created_by)
            .bind(now)
            .bind(token.expires_at)
        );
        Ok(())
    }

    /// The token of this id, revoked and expired ones too.
    pub async fn token(&self, id: Uuid) -> Result<Option<TokenRow>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT id, name, hash, grants, created_by, created_at, expires_at, last_used_at, revoked_at \
             FROM api_tokens WHERE id = $1"
        )
        .bind(id)
        .fetch_optional(conn)
        .await?))
    }

    /// Newest first, those before `before`.
    pub async fn tokens(&self, before: Option<Uuid>, limit: i64, offset: i64) -> Result<Vec<TokenRow>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT id, name, hash, grants, created_by, created_at, expires_at, last_used_at, revoked_at \
             FROM api_tokens WHERE id < $1 ORDER BY id DESC LIMIT $2 OFFSET $3"
        )
        .bind(before.unwrap_or(Uuid::max()))
        .bind(limit)
        .bind(offset)
        .fetch_all(conn)
        .await?))
    }

    /// Whether there is any token that still opens something.
    pub async fn has_tokens(&self, now: Micros) -> Result<bool> {
        let found: Option<(Uuid,)> = read!(self, |conn| sqlx::query_as(
            "SELECT id FROM api_tokens WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1) LIMIT 1"
        )
        .bind(now)
        .fetch_optional(conn)
        .await?);
        Ok(found.is_some())
    }

    /// Notes that a token was used, unless that was noted within the last minute.
    pub async fn touch_token(&self, now: Micros, id: Uuid) -> Result<()> {
        write!(
            self,
            sqlx::query(
                "UPDATE api_tokens SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $3)"
            )
            .bind(id)
            .bind(now)
            .bind(now - COARSE)
        );
        Ok(())
    }

    /// From now on it opens nothing. Revoking again keeps the first time.
    pub async fn revoke_token(&self, now: Micros, id: Uuid) -> Result<()> {
        let touched = write!(
            self,
            sqlx::query("UPDATE api_tokens SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1").bind(id).bind(now)
        );
        if touched == 0 {
            return Err(Error::not_found(format!("token {id}")));
        }
        Ok(())
    }
}
