//! What requests leave beside their runs.

use super::SqliteTx;
use super::bulk::{Bulk, Values};
use crate::access::{AuditRow, KeptAnswer};
use crate::error::Result;
use crate::unit::RequestKey;

static KEYS: Bulk = Bulk::new(
    "WITH v(actor, key, hash, claim, at, status, kind, body) AS (VALUES ",
    8,
    ") INSERT OR ROLLBACK INTO idempotent_requests (actor, key, request_hash, claim, created_at, status, content_type, body) \
     SELECT actor, key, hash, claim, at, status, kind, body FROM v WHERE v.actor IS NOT NULL",
);

static AUDIT: Bulk = Bulk::new(
    "WITH v(id, at, actor, address, method, path, namespace, status, request, detail) AS (VALUES ",
    10,
    ") INSERT OR ROLLBACK INTO audit_log (id, at, actor, address, method, path, namespace, status, request_id, detail) \
     SELECT id, at, actor, address, method, path, namespace, status, request, detail FROM v WHERE v.id IS NOT NULL",
);

/// Keys with their answers, and audit rows.
pub(crate) async fn leave(tx: &mut SqliteTx, keys: &[&(RequestKey, KeptAnswer)], audit: &[&AuditRow]) -> Result<()> {
    let key = |(key, answer): &&(RequestKey, KeptAnswer), values: &mut Values| {
        values.add(key.actor.as_str()).add(key.key.as_str()).add(&key.hash[..]).add(key.claim).add(key.at);
        values.add(i16::try_from(answer.status).unwrap_or(500)).add(answer.content_type.as_deref());
        values.add(answer.body.as_deref());
    };
    KEYS.fetch(tx, keys, key).await?;
    let row = |row: &&AuditRow, values: &mut Values| {
        values.add(row.id).add(row.at).add(row.actor.as_str()).add(row.address.as_deref());
        values.add(row.method.as_str()).add(row.path.as_str()).add(row.namespace.as_deref()).add(row.status);
        values.add(row.request_id.as_str()).add(row.detail.as_deref());
    };
    AUDIT.fetch(tx, audit, row).await?;
    Ok(())
}
