//! The health of the parts of the installation: the one implementation behind `/health`, `health:check` and `doctor`.
//!
//! A look asks every part within a limit of its own. [`Client::health`] answers within [`LONGEST_WAIT`] whatever
//! becomes of the database: checks run in a task of their own, concurrent callers share one, and a caller that cannot
//! wait gets the last report.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::schedule::zone_version;
use mainspring_core::time::rfc3339;
use mainspring_store::SessionRow;
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};

use crate::client::Client;
use crate::coordination::{CoordinationHealth, LEADERSHIP};

/// A component that does not answer within this time is unhealthy.
const PATIENCE: Duration = Duration::from_secs(5);
/// A database that takes longer than this is degraded.
const SLOW: Duration = Duration::from_secs(1);
/// Every client may ask, so the components are checked at most this often.
const REMEMBERED: Duration = Duration::from_millis(500);
/// The longest wait for an answer.
pub const LONGEST_WAIT: Duration = Duration::from_secs(3);
/// Schedules that are later than this are degraded.
const LATE: Micros = 60_000_000;
/// Less free space than this beside a database file is degraded, or unhealthy.
const LITTLE_SPACE: u64 = 512 << 20;
const NO_SPACE: u64 = 64 << 20;
const SESSIONS: i64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    Healthy,
    Degraded,
    Unhealthy,
}

impl HealthStatus {
    pub fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

#[derive(Debug, Clone)]
pub struct ComponentHealth {
    pub name: &'static str,
    pub status: HealthStatus,
    pub latency: Duration,
    pub message: String,
    pub details: Value,
}

/// A report of all components.
#[derive(Debug, Clone)]
pub struct Health {
    pub at: Micros,
    pub components: Vec<ComponentHealth>,
}

impl Health {
    /// The worst of the components.
    pub fn status(&self) -> HealthStatus {
        self.components.iter().map(|part| part.status).max().unwrap_or(HealthStatus::Healthy)
    }

    /// Whether this node may receive requests. A cluster without workers is ready, because workers must be able to
    /// register.
    pub fn is_ready(&self) -> bool {
        let others = self.components.iter().filter(|part| part.name != "workers");
        others.map(|part| part.status).max().unwrap_or(HealthStatus::Healthy) < HealthStatus::Unhealthy
    }
}

/// The last report, and the check in progress.
#[derive(Debug, Default)]
pub(crate) struct HealthCache(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    last: Option<(Instant, Arc<Health>)>,
    /// Ends when the check does.
    looking: Option<watch::Receiver<Option<Arc<Health>>>>,
}

#[boxed]
impl Client {
    /// The health of the installation, at most half a second old. If the components do not answer in time, the last
    /// report.
    pub async fn health(&self) -> Arc<Health> {
        let mut looking = {
            let mut state = self.health.0.lock().await;
            if let Some((at, health)) = &state.last
                && at.elapsed() < REMEMBERED
            {
                return Arc::clone(health);
            }
            state.looking.get_or_insert_with(|| self.begin_look()).clone()
        };
        let done = async {
            let seen = looking.wait_for(Option::is_some).await.ok()?;
            seen.clone()
        };
        match tokio::time::timeout(LONGEST_WAIT, done).await {
            Ok(Some(health)) => health,
            // The check took too long or failed.
            _ => self.silent_health().await,
        }
    }

    /// Checks in a task of its own, because the caller may go away.
    fn begin_look(&self) -> watch::Receiver<Option<Arc<Health>>> {
        let (finished, looking) = watch::channel(None);
        let client = self.clone();
        tokio::spawn(async move {
            let health = Arc::new(client.look_at_health().await);
            let mut state = client.health.0.lock().await;
            state.last = Some((Instant::now(), Arc::clone(&health)));
            state.looking = None;
            drop(state);
            finished.send_replace(Some(health));
        });
        looking
    }

    /// The last report, with a silent database.
    async fn silent_health(&self) -> Arc<Health> {
        let message = format!("it does not answer within {} s", LONGEST_WAIT.as_secs());
        let silent = |name| ComponentHealth {
            name,
            status: HealthStatus::Unhealthy,
            latency: LONGEST_WAIT,
            message: message.clone(),
            details: json!({}),
        };
        let last = self.health.0.lock().await.last.as_ref().map(|(_, health)| Arc::clone(health));
        let mut components = vec![silent("database")];
        match last {
            Some(last) => components.extend(last.components.iter().filter(|part| part.name != "database").cloned()),
            None => components.extend(["coordination", "schedules", "workers"].map(silent)),
        }
        Arc::new(Health { at: self.now(), components })
    }

    /// Checks every component now, each for at most 5 s.
    pub async fn look_at_health(&self) -> Health {
        let (database, coordination, schedules, workers) = tokio::join!(
            self.database_health(),
            self.coordination_part(),
            self.schedules_health(),
            self.workers_health()
        );
        let mut components = vec![database, coordination, schedules, workers, self.bus_health()];
        if let Some(file) = self.store.sqlite_file() {
            components.push(disk_health(&file).await);
        }
        Health { at: self.now(), components }
    }

    async fn database_health(&self) -> ComponentHealth {
        let look = ComponentCheck::at("database");
        match tokio::time::timeout(PATIENCE, self.store.require_current_schema()).await {
            Ok(Ok(())) if look.since.elapsed() > SLOW => {
                look.saw(HealthStatus::Degraded, "it answers slowly", json!({}))
            }
            Ok(Ok(())) => look.saw(HealthStatus::Healthy, "it answers", json!({})),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the database is not healthy");
                look.saw(HealthStatus::Unhealthy, "it does not answer, or has another schema", json!({}))
            }
            Err(_) => look.saw(HealthStatus::Unhealthy, "it does not answer within 5 s", json!({})),
        }
    }

    async fn coordination_part(&self) -> ComponentHealth {
        let look = ComponentCheck::at("coordination");
        let reading = async { tokio::try_join!(self.store.term(LEADERSHIP), self.store.live_sessions()) };
        let Ok(Ok((term, sessions))) = tokio::time::timeout(PATIENCE, reading).await else {
            return look.saw(HealthStatus::Unhealthy, "the database does not answer", json!({}));
        };
        let leader = term.filter(|term| !term.released).map(|term| term.node);
        // A dead leader is replaced only after it has been silent for its lease.
        let is_live = leader.is_some_and(|leader| sessions.iter().any(|session| session.node == leader));
        let details = json!({
            "leader": leader.map(|leader| leader.to_string()),
            "workers": sessions.iter().filter(|session| session.executes()).count(),
            "coordinator": self.coordination(),
        });
        match (leader, self.coordination_health()) {
            (None, _) => look.saw(HealthStatus::Degraded, "no node leads", details),
            (Some(_), _) if !is_live => look.saw(HealthStatus::Degraded, "the node that leads is silent", details),
            (Some(_), CoordinationHealth::Healthy) => look.saw(HealthStatus::Healthy, "a node leads", details),
            (Some(_), CoordinationHealth::Degraded(cause)) => {
                look.saw(HealthStatus::Degraded, format!("the database coordinates alone: {cause}"), details)
            }
        }
    }

    /// The lateness of the next fire says more than this node's own work, because another node may lead.
    async fn schedules_health(&self) -> ComponentHealth {
        let look = ComponentCheck::at("schedules");
        let Ok(Ok(next)) = tokio::time::timeout(PATIENCE, self.store.next_fire()).await else {
            return look.saw(HealthStatus::Unhealthy, "the database does not answer", json!({}));
        };
        let timekeeping = self.timekeeping();
        let next = next.map(|(next, _)| next);
        let (status, message) = judge_schedules(timekeeping.behind, next, self.now());
        let zones = zone_version();
        let details = json!({
            "leads": timekeeping.leads,
            "behind_ms": timekeeping.behind.map_or(0, |behind| u64::try_from(behind.as_millis()).unwrap_or(u64::MAX)),
            "lag_ms": lag(next, self.now()) / 1_000,
            "next_fire_at": next.map(rfc3339),
            "time_zones": zones.version,
            "time_zones_source": zones.source,
        });
        look.saw(status, message, details)
    }

    async fn workers_health(&self) -> ComponentHealth {
        let look = ComponentCheck::at("workers");
        let Ok(Ok(sessions)) = tokio::time::timeout(PATIENCE, self.store.sessions(true, SESSIONS)).await else {
            return look.saw(HealthStatus::Unhealthy, "the database does not answer", json!({}));
        };
        let (status, message, total, active) = judge_workers(&sessions);
        look.saw(status, message, json!({"total_workers": total, "active_workers": active}))
    }

    /// Nothing depends on wake-ups, so the bus is never worse than degraded.
    fn bus_health(&self) -> ComponentHealth {
        let look = ComponentCheck::at("bus");
        match self.redis_health() {
            None => look.saw(HealthStatus::Healthy, "the database carries wake-ups", json!({"transport": "database"})),
            Some(CoordinationHealth::Healthy) => {
                look.saw(HealthStatus::Healthy, "Redis answers", json!({"transport": "redis"}))
            }
            Some(CoordinationHealth::Degraded(cause)) => {
                let details = json!({"transport": "redis"});
                look.saw(HealthStatus::Degraded, format!("nodes poll instead of using Redis: {cause}"), details)
            }
        }
    }
}

/// The check of one component.
#[derive(Debug, Clone, Copy)]
struct ComponentCheck {
    name: &'static str,
    since: Instant,
}

impl ComponentCheck {
    fn at(name: &'static str) -> Self {
        Self { name, since: Instant::now() }
    }

    fn saw(self, status: HealthStatus, message: impl Into<String>, details: Value) -> ComponentHealth {
        ComponentHealth { name: self.name, status, latency: self.since.elapsed(), message: message.into(), details }
    }
}

fn lag(next: Option<Micros>, now: Micros) -> Micros {
    next.map_or(0, |next| now.saturating_sub(next).max(0))
}

fn judge_schedules(behind: Option<Duration>, next: Option<Micros>, now: Micros) -> (HealthStatus, &'static str) {
    if behind.is_some() {
        return (HealthStatus::Degraded, "the clock was set back: nothing fires until it has caught up");
    }
    match lag(next, now) > LATE {
        true => (HealthStatus::Degraded, "what is due does not fire"),
        false => (HealthStatus::Healthy, "they fire in time"),
    }
}

/// Nodes that execute nothing are no workers.
fn judge_workers(sessions: &[SessionRow]) -> (HealthStatus, &'static str, usize, usize) {
    let total = sessions.iter().filter(|session| session.executes()).count();
    let active = sessions.iter().filter(|session| session.executes() && !session.dead && !session.draining).count();
    let (status, message) = match (active, total) {
        (0, 0) => (HealthStatus::Unhealthy, "No active workers"),
        (0, _) => (HealthStatus::Degraded, "No active workers"),
        _ => (HealthStatus::Healthy, "workers are active"),
    };
    (status, message, total, active)
}

/// The free space beside the database file.
async fn disk_health(file: &std::path::Path) -> ComponentHealth {
    let look = ComponentCheck::at("disk");
    let folder =
        file.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), PathBuf::from);
    // A file system that hangs must not block a thread of the runtime.
    let asking = tokio::task::spawn_blocking(move || nix::sys::statvfs::statvfs(&folder));
    let Ok(Ok(Ok(found))) = tokio::time::timeout(PATIENCE, asking).await else {
        return look.saw(HealthStatus::Degraded, "how much space is left is unknown", json!({}));
    };
    #[expect(clippy::useless_conversion, reason = "narrower on other systems")]
    let free = u64::from(found.blocks_available()).saturating_mul(u64::from(found.fragment_size()));
    let (status, message) = match free {
        free if free < NO_SPACE => (HealthStatus::Unhealthy, "there is hardly any space left for the database"),
        free if free < LITTLE_SPACE => (HealthStatus::Degraded, "there is little space left for the database"),
        _ => (HealthStatus::Healthy, "there is space for the database"),
    };
    look.saw(status, message, json!({"free_bytes": free}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_judged_by_how_late_they_are() {
        let now = 1_000_000_000;
        for (behind, next, status) in [
            (None, None, HealthStatus::Healthy),
            (None, Some(now + 5), HealthStatus::Healthy),
            (None, Some(now - LATE), HealthStatus::Healthy),
            (None, Some(now - LATE - 1), HealthStatus::Degraded),
            (Some(Duration::from_secs(9)), Some(now + 5), HealthStatus::Degraded),
        ] {
            assert_eq!(judge_schedules(behind, next, now).0, status, "{behind:?} {next:?}");
        }
        assert_eq!((lag(None, now), lag(Some(now + 5), now), lag(Some(now - 5), now)), (0, 0, 5));
    }

    #[test]
    fn the_worst_component_decides_and_readiness_ignores_workers() {
        let part = |name, status| ComponentCheck::at(name).saw(status, "", json!({}));
        let of = |database, workers| Health {
            at: 0,
            components: vec![part("database", database), part("workers", workers)],
        };
        let health = of(HealthStatus::Healthy, HealthStatus::Unhealthy);
        assert_eq!((health.status(), health.is_ready()), (HealthStatus::Unhealthy, true));
        let health = of(HealthStatus::Degraded, HealthStatus::Healthy);
        assert_eq!((health.status(), health.is_ready()), (HealthStatus::Degraded, true));
        assert!(!of(HealthStatus::Unhealthy, HealthStatus::Healthy).is_ready());
    }
}
