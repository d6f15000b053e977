//! The names under which handlers are known.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mainspring_core::work::Failure;

use super::builtin::{Fail, Noop, Sleep};
use super::call::{FunctionCall, FunctionResult, Handler};
use super::notify::Notify;
use super::upkeep::{Duty, Upkeep};
use crate::email::SmtpConfig;
use crate::host::Host;

/// How many names an error about an unknown handler lists beside the likely ones.
const MOST_SUGGESTED: usize = 3;

/// Handlers by name. Filled by the program that starts the worker, then never changed.
///
/// ```
/// use mainspring_worker::{FunctionCall, Registry};
/// use serde_json::json;
///
/// let registry = Registry::builder()
///     .handler("reports:transform", |call: FunctionCall| async move {
///         let rows = call.payload()["rows"].as_u64().unwrap_or(0);
///         call.log.info(&format!("transforming {rows} rows")).await;
///         Ok(Some(json!({"parts": rows.div_ceil(1000)})))
///     })
///     .build();
/// assert!(registry.names().contains(&"reports:transform"));
/// assert!(registry.names().contains(&"notify:send"));
/// ```
#[derive(Clone)]
pub struct Registry {
    handlers: HashMap<String, Arc<dyn Handler>>,
}

/// Gathers what a registry is made of.
#[derive(Default)]
pub struct RegistryBuilder {
    own: Vec<(String, Arc<dyn Handler>)>,
    host: Option<Arc<dyn Host>>,
    smtp: Option<SmtpConfig>,
}

impl fmt::Debug for RegistryBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.own.iter().map(|(name, _)| name.as_str()).collect();
        out.debug_struct("RegistryBuilder").field("own", &names).field("host", &self.host).finish_non_exhaustive()
    }
}

impl RegistryBuilder {
    /// Adds a handler: an `async` closure. It replaces a built-in one of the same name.
    #[must_use]
    pub fn handler<F, Fut>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(FunctionCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = FunctionResult> + Send + 'static,
    {
        self.object(name, handler)
    }

    /// Adds a handler object, which can have more than a closure, such as a time limit of its own.
    #[must_use]
    pub fn object(mut self, name: impl Into<String>, handler: impl Handler) -> Self {
        self.own.push((name.into(), Arc::new(handler)));
        self
    }

    /// What `cleanup:old_traces`, `health:check`, `metrics:collect` and `kb:reindex` work through.
    #[must_use]
    pub fn host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = Some(host);
        self
    }

    /// The mail server of `notify:send`.
    #[must_use]
    pub fn smtp(mut self, smtp: SmtpConfig) -> Self {
        self.smtp = Some(smtp);
        self
    }

    pub fn build(self) -> Registry {
        let mut registry = Registry { handlers: HashMap::new() };
        registry.register("noop", Noop);
        registry.register("sleep", Sleep);
        registry.register("fail", Fail);
        registry.register("notify:send", Notify { smtp: self.smtp });
        for duty in Duty::ALL {
            registry.register(duty.name(), Upkeep { duty, host: self.host.clone() });
        }
        registry.handlers.extend(self.own);
        registry
    }
}

impl Default for Registry {
    /// The built-in handlers, without a host and without a mail server.
    fn default() -> Self {
        Self::builder().build()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.names()).finish()
    }
}

impl Registry {
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// A later handler replaces an earlier one of the same name.
    pub fn register(&mut self, name: impl Into<String>, handler: impl Handler) -> &mut Self {
        self.handlers.insert(name.into(), Arc::new(handler));
        self
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.handlers.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Handler>> {
        self.handlers.get(name)
    }

    /// The failure is permanent: another worker may know the handler, but then the route is wrong.
    pub(crate) fn unknown(&self, name: &str) -> Failure {
        let shown = crate::text::first_characters(name, 80);
        let names = self.names();
        let mut likely: Vec<(f64, &str)> = names
            .iter()
            .map(|candidate| (strsim::jaro_winkler(shown, candidate), *candidate))
            .filter(|(likeness, _)| *likeness > 0.75)
            .collect();
        likely.sort_by(|left, right| right.0.total_cmp(&left.0));
        let likely: Vec<String> = likely.iter().take(MOST_SUGGESTED).map(|(_, name)| format!("`{name}`")).collect();
        let hint = if likely.is_empty() { String::new() } else { format!("did you mean {}? ", likely.join(" or ")) };
        let message = format!("this worker has no handler `{shown}`; {hint}it has {}", names.join(", "));
        Failure { kind: "handler".into(), message, permanent: true, ..Failure::default() }
    }
}
