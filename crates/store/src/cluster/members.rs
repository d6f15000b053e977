//! Members of the cluster. A row says that a process takes part; how long its beat stood still says whether it still does.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use uuid::Uuid;

use crate::db::{Store, read, write};
use crate::error::Result;

/// A process as it presents itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMember {
    pub node: Uuid,
    pub name: String,
    /// Where its HTTP server listens, if it has one.
    pub address: Option<String>,
    /// Separated by commas.
    pub roles: String,
    pub version: String,
    pub started_at: Micros,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct MemberRow {
    pub node: Uuid,
    pub name: String,
    pub address: Option<String>,
    pub roles: String,
    pub version: String,
    pub started_at: Micros,
    pub beat: i64,
    pub beat_at: Micros,
}

#[boxed]
impl Store {
    /// Says that a process takes part, or still does.
    pub async fn beat_member(&self, now: Micros, member: &NewMember) -> Result<()> {
        write!(
            self,
            sqlx::query(
                "INSERT INTO members (node, name, address, roles, version, started_at, beat, beat_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, 1, $7) \
                 ON CONFLICT (node) DO UPDATE SET beat = members.beat + 1, beat_at = excluded.beat_at, \
                 address = excluded.address"
            )
            .bind(member.node)
            .bind(&member.name)
            .bind(&member.address)
            .bind(&member.roles)
            .bind(&member.version)
            .bind(member.started_at)
            .bind(now)
        );
        Ok(())
    }

    /// Every member that has not left, those that died lately included.
    pub async fn members(&self) -> Result<Vec<MemberRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT node, name, address, roles, version, started_at, beat, beat_at FROM members ORDER BY started_at, node"
        )
        .fetch_all(conn)
        .await?
        }))
    }

    /// A process leaves.
    pub async fn remove_member(&self, node: Uuid) -> Result<()> {
        write!(self, sqlx::query("DELETE FROM members WHERE node = $1").bind(node));
        Ok(())
    }

    /// Forgets members that were not heard of since. One that lives after all comes back with its next beat.
    pub async fn forget_members(&self, before: Micros) -> Result<u64> {
        Ok(write!(self, sqlx::query("DELETE FROM members WHERE beat_at < $1").bind(before)))
    }
}
