//! Sealed secrets. What is here is useless without the key, which the database never sees.

use mainspring_boxed::boxed;
use mainspring_core::Micros;

use crate::db::{Store, read, write};
use crate::error::{Error, Result};

/// A secret as people may see it: without its value.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct SecretRow {
    pub namespace: String,
    pub name: String,
    pub updated_by: String,
    pub created_at: Micros,
    pub updated_at: Micros,
}

/// A secret as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct SealedSecret {
    pub name: String,
    pub sealed: Vec<u8>,
    pub key_id: String,
}

#[boxed]
impl Store {
    /// Keeps a secret; an earlier value is gone. Says whether it is new.
    pub async fn put_secret(&self, now: Micros, namespace: &str, secret: &SealedSecret, by: &str) -> Result<bool> {
        let (created_at,): (Micros,) = write!(self, |conn| sqlx::query_as(
            "INSERT INTO secrets (namespace, name, sealed, key_id, updated_by, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT (namespace, name) DO UPDATE \
             SET sealed = $3, key_id = $4, updated_by = $5, updated_at = $6 RETURNING created_at"
        )
        .bind(namespace)
        .bind(&secret.name)
        .bind(&secret.sealed)
        .bind(&secret.key_id)
        .bind(by)
        .bind(now)
        .fetch_one(conn)
        .await?);
        Ok(created_at == now)
    }

    /// Every secret of a namespace, sealed.
    pub async fn sealed_secrets(&self, namespace: &str) -> Result<Vec<SealedSecret>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT name, sealed, key_id FROM secrets WHERE namespace = $1 ORDER BY name"
        )
        .bind(namespace)
        .fetch_all(conn)
        .await?))
    }

    /// The names of all secrets.
    pub async fn secrets(&self) -> Result<Vec<SecretRow>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT namespace, name, updated_by, created_at, updated_at FROM secrets ORDER BY namespace, name"
        )
        .fetch_all(conn)
        .await?))
    }

    pub async fn secret(&self, namespace: &str, name: &str) -> Result<SecretRow> {
        let row: Option<SecretRow> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT namespace, name, updated_by, created_at, updated_at FROM secrets WHERE namespace = $1 AND name = $2"
        )
        .bind(namespace)
        .bind(name)
        .fetch_optional(conn)
        .await?
        });
        row.ok_or_else(|| Error::not_found(format!("secret `{name}` in namespace `{namespace}`")))
    }

    pub async fn delete_secret(&self, namespace: &str, name: &str) -> Result<()> {
        let gone = write!(
            self,
            sqlx::query("DELETE FROM secrets WHERE namespace = $1 AND name = $2").bind(namespace).bind(name)
        );
        if gone == 0 {
            return Err(Error::not_found(format!("secret `{name}` in namespace `{namespace}`")));
        }
        Ok(())
    }
}
