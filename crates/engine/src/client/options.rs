//! Options of a client, set when a process starts.

use std::sync::Arc;
use std::time::Duration;

use mainspring_boxed::boxed;
use mainspring_telemetry::{Metrics, Tracer};

use super::Client;
use crate::access::secrets::Secrets;
use crate::coordination::database::DatabaseCoordinator;
use crate::coordination::etcd::EtcdCoordinator;
use crate::coordination::{CoordinationError, EtcdSettings};
use crate::redis::wake::RedisWake;
use crate::redis::{Redis, RedisSettings};
#[boxed]
impl Client {
    /// Sets the secrets that tasks of this process may use.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Limits how many runs and jobs events may start for one cause.
    #[must_use]
    pub fn with_event_budget(mut self, most: i64) -> Self {
        self.budget.most = most;
        self
    }

    /// Refuses workflows with a trigger that fires more often.
    #[must_use]
    pub fn with_minimum_interval(mut self, interval: Option<Duration>) -> Self {
        self.minimum_interval = interval;
        self
    }

    /// Coordinates by etcd beside the database. Invalid settings are refused; an unreachable etcd is not.
    pub async fn with_etcd(mut self, settings: &EtcdSettings) -> Result<Self, CoordinationError> {
        let database = Arc::new(DatabaseCoordinator::new(self.store.clone(), Arc::clone(&self.clock)));
        let etcd = Arc::new(EtcdCoordinator::new(settings, database)?);
        match etcd.check().await {
            Ok(()) | Err(CoordinationError::Unreachable(_)) => {}
            Err(error) => return Err(error),
        }
        self.coordinator = etcd;
        Ok(self)
    }

    /// Uses Redis beside the database. It is not contacted yet, because it may become available later.
    #[must_use]
    pub fn with_redis(mut self, settings: &RedisSettings) -> Self {
        let redis = Redis { settings: settings.clone(), status: Arc::default() };
        self.bus.prefer(Arc::new(RedisWake::new(redis.settings.clone(), Arc::clone(&redis.status))));
        self.redis = Some(redis);
        self
    }

    /// Sets the names of the functions that this process can execute.
    #[must_use]
    pub fn with_handlers(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.handlers = names.into_iter().collect();
        self
    }

    /// Sets the metrics.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Sets the tracer.
    #[must_use]
    pub fn with_tracer(mut self, tracer: Tracer) -> Self {
        self.tracer = tracer;
        self
    }
}
