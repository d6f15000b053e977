//! What every handler can reach.

use std::sync::Arc;

use mainspring_engine::Client;
use tokio_util::task::TaskTracker;

use crate::auth::access::RouteEntry;
use crate::auth::guard::Demands;
use crate::auth::jwt::Jwt;
use crate::auth::known_tokens::KnownTokens;
use crate::auth::limits::Limits;
use crate::auth::origin::Origins;
use crate::auth::{JwtSettings, Network, Rates};
use crate::health::Readiness;
use crate::live::{Caps, LiveLimits};
use crate::routes::workflows::known_latest::KnownLatest;

/// What an operator can choose about the API.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub origins: Origins,
    /// Proxies whose `X-Forwarded-For` counts.
    pub proxies: Vec<Network>,
    pub rates: Rates,
    /// JSON Web Tokens that count besides API tokens.
    pub jwt: Option<JwtSettings>,
    /// How long the audit log is kept; `None` is for ever.
    pub audit_kept: Option<std::time::Duration>,
    pub live: LiveLimits,
    pub connections: ConnectionLimits,
}

/// How many connections there may be at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Altogether; fewer than the process may have open files.
    pub most: usize,
    /// From one address, or one /64 of IPv6; trusted proxies may have more.
    pub per_address: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { most: 10_000, per_address: 500 }
    }
}

/// Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct ApiState(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    health: Readiness,
    settings: Settings,
    limits: Limits,
    jwt: Option<Jwt>,
    live: Caps,
    routes: Vec<RouteEntry>,
    demands: Demands,
    /// Requests that write and are not done yet, also those whose client has gone.
    writes: TaskTracker,
    tokens: KnownTokens,
    latest: KnownLatest,
}

impl ApiState {
    /// Fails with what is wrong with the settings.
    pub(crate) fn new(client: Client, settings: Settings, routes: Vec<RouteEntry>) -> Result<Self, String> {
        let health = Readiness::new(client.clone());
        let limits = Limits::new(settings.rates);
        let demands = Demands::new(&routes);
        let jwt = settings.jwt.as_ref().map(Jwt::new).transpose()?;
        let live = Caps::new(settings.live);
        let tokens = KnownTokens::new(&client);
        Ok(Self(Arc::new(Inner {
            client,
            health,
            settings,
            limits,
            jwt,
            live,
            routes,
            demands,
            writes: TaskTracker::new(),
            tokens,
            latest: KnownLatest::default(),
        })))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    pub(crate) fn tokens(&self) -> &KnownTokens {
        &self.0.tokens
    }

    pub(crate) fn known_latest(&self) -> &KnownLatest {
        &self.0.latest
    }

    pub(crate) fn writes(&self) -> &TaskTracker {
        &self.0.writes
    }

    pub(crate) fn health(&self) -> &Readiness {
        &self.0.health
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn jwt(&self) -> Option<&Jwt> {
        self.0.jwt.as_ref()
    }

    /// Who follows what happens.
    pub(crate) fn live(&self) -> &Caps {
        &self.0.live
    }

    pub(crate) fn routes(&self) -> &[RouteEntry] {
        &self.0.routes
    }

    pub(crate) fn demands(&self) -> &Demands {
        &self.0.demands
    }
}
