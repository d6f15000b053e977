//! Sessions of the web interface. A session is bound to the API token that opened it and ends with it; only hashes of
//! session ids and one-time codes are stored.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use uuid::Uuid;

use super::tokens::TokenRow;
use crate::db::{Store, read, write};
use crate::error::Result;

/// A session that has neither ended nor lost its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UiSession {
    pub created_at: Micros,
    /// Written coarsely: at most once a minute.
    pub used_at: Micros,
    pub token: TokenRow,
}

#[derive(sqlx::FromRow)]
struct Row {
    session_created_at: Micros,
    session_used_at: Micros,
    #[sqlx(flatten)]
    token: TokenRow,
}

/// How stale `used_at` may be.
const COARSE: Micros = 60_000_000;

#[boxed]
impl Store {
    /// Stores a one-time code for the holder of a token.
    pub async fn add_ui_code(&self, hash: &[u8; 32], token: Uuid, expires_at: Micros) -> Result<()> {
        write!(
            self,
            sqlx::query(
                "INSERT INTO ui_codes (hash, token_id, expires_at) VALUES ($1, $2, $3) ON CONFLICT (hash) DO NOTHING"
            )
            .bind(hash.to_vec())
            .bind(token)
            .bind(expires_at)
        );
        Ok(())
    }

    /// Redeems a code: the token it stands for, once. A second call finds nothing, also when both run at the same time.
    pub async fn redeem_ui_code(&self, now: Micros, hash: &[u8; 32]) -> Result<Option<Uuid>> {
        let row: Option<(Uuid,)> = write!(self, |conn| sqlx::query_as(
            "DELETE FROM ui_codes WHERE hash = $1 AND expires_at > $2 RETURNING token_id"
        )
        .bind(hash.to_vec())
        .bind(now)
        .fetch_optional(conn)
        .await?);
        Ok(row.map(|row| row.0))
    }

    /// Opens a session.
    pub async fn add_ui_session(&self, now: Micros, hash: &[u8; 32], token: Uuid) -> Result<()> {
        write!(
            self,
            sqlx::query(
                "INSERT INTO ui_sessions (hash, token_id, created_at, used_at) VALUES ($1, $2, $3, $3) \
                 ON CONFLICT (hash) DO NOTHING"
            )
            .bind(hash.to_vec())
            .bind(token)
            .bind(now)
        );
        Ok(())
    }

    /// The session of this hash with its token: made after `created_after` and used after `used_after`.
    pub async fn ui_session(
        &self,
        hash: &[u8; 32],
        created_after: Micros,
        used_after: Micros,
    ) -> Result<Option<UiSession>> {
        let row: Option<Row> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT s.created_at AS session_created_at, s.used_at AS session_used_at, t.id, t.name, t.hash, t.grants, \
             t.created_by, t.created_at, t.expires_at, t.last_used_at, t.revoked_at \
             FROM ui_sessions s JOIN api_tokens t ON t.id = s.token_id \
             WHERE s.hash = $1 AND s.created_at > $2 AND s.used_at > $3"
        )
        .bind(hash.to_vec())
        .bind(created_after)
        .bind(used_after)
        .fetch_optional(conn)
        .await?
        });
        Ok(row.map(|row| UiSession {
            created_at: row.session_created_at,
            used_at: row.session_used_at,
            token: row.token,
        }))
    }

    /// Notes that a session was used, unless that was noted within the last minute.
    pub async fn touch_ui_session(&self, now: Micros, hash: &[u8; 32]) -> Result<()> {
        write!(
            self,
            sqlx::query("UPDATE ui_sessions SET used_at = $2 WHERE hash = $1 AND used_at < $3")
                .bind(hash.to_vec())
                .bind(now)
                .bind(now - COARSE)
        );
        Ok(())
    }

    /// Ends one session.
    pub async fn end_ui_session(&self, hash: &[u8; 32]) -> Result<()> {
        write!(self, sqlx::query("DELETE FROM ui_sessions WHERE hash = $1").bind(hash.to_vec()));
        Ok(())
    }

    /// Ends every session of a token; returns how many there were.
    pub async fn end_ui_sessions_of(&self, token: Uuid) -> Result<u64> {
        Ok(write!(self, sqlx::query("DELETE FROM ui_sessions WHERE token_id = $1").bind(token)))
    }

    /// Removes sessions made before `created_before` and codes that expired before `now`.
    pub async fn forget_ui_sessions(&self, now: Micros, created_before: Micros) -> Result<()> {
        write!(self, sqlx::query("DELETE FROM ui_sessions WHERE created_at < $1").bind(created_before));
        write!(self, sqlx::query("DELETE FROM ui_codes WHERE expires_at < $1").bind(now));
        Ok(())
    }
}
