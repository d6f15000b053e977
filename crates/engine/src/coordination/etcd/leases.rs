//! Leases, and the keys under them.

use serde_json::{Value, json};

use super::gateway::{Gateway, encoded, number};
use crate::coordination::CoordinationError;

type Result<T> = std::result::Result<T, CoordinationError>;

impl Gateway {
    pub(super) async fn grant(&self, seconds: u64) -> Result<i64> {
        let answer = self.call("/v3/lease/grant", &json!({"TTL": seconds})).await?;
        number(answer.get("ID")).ok_or_else(|| CoordinationError::Refused("etcd granted a lease without an id".into()))
    }

    /// Renews a lease; false if it is over.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<bool> {
        let answer = self.call("/v3/lease/keepalive", &json!({"ID": lease.to_string()})).await?;
        let answer = answer.get("result").unwrap_or(&answer);
        Ok(number(answer.get("TTL")).is_some_and(|seconds| seconds > 0))
    }

    pub(super) async fn revoke(&self, lease: i64) -> Result<()> {
        self.call("/v3/lease/revoke", &json!({"ID": lease.to_string()})).await.map(|_| ())
    }

    pub(super) async fn put(&self, key: &str, value: &Value, lease: i64) -> Result<()> {
        let body = json!({"key": encoded(key), "value": encoded(&value.to_string()), "lease": lease.to_string()});
        self.call("/v3/kv/put", &body).await.map(|_| ())
    }

    /// Deletes a key if it has this value.
    pub(super) async fn delete_if(&self, key: &str, value: &Value) -> Result<()> {
        let key = encoded(key);
        let body = json!({
            "compare": [{"key": key, "target": "VALUE", "result": "EQUAL", "value": encoded(&value.to_string())}],
            "success": [{"request_delete_range": {"key": key}}],
        });
        self.call("/v3/kv/txn", &body).await.map(|_| ())
    }

    /// Whether a key exists.
    pub(super) async fn has(&self, key: &str) -> Result<bool> {
        let answer = self.call("/v3/kv/range", &json!({"key": encoded(key), "count_only": true})).await?;
        Ok(number(answer.get("count")).unwrap_or(0) > 0)
    }

    /// Creates a key if it does not exist, and returns the revision.
    pub(super) async fn create(&self, key: &str, value: &Value, lease: i64) -> Result<Option<i64>> {
        let key = encoded(key);
        let put = json!({"key": key, "value": encoded(&value.to_string()), "lease": lease.to_string()});
        let body = json!({
            "compare": [{"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}],
            "success": [{"request_put": put}],
        });
        let answer = self.call("/v3/kv/txn", &body).await?;
        let made = answer.get("succeeded").and_then(Value::as_bool).unwrap_or(false);
        Ok(answer.pointer("/header/revision").and_then(|value| number(Some(value))).filter(|_| made))
    }
}
