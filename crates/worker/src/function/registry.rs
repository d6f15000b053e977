//! The names under which handlers are known.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use mainspring_core::work::Failure;

use super::builtin::{Fail, Noop, Sleep};
use super::call::Handler;

/// Handlers by name. Filled by whoever starts the worker, then never changed.
#[derive(Clone)]
pub struct Registry {
    handlers: HashMap<String, Arc<dyn Handler>>,
}

impl Default for Registry {
    /// The built-in handlers `noop`, `sleep` and `fail`.
    fn default() -> Self {
        let mut registry = Self { handlers: HashMap::new() };
        registry.register("noop", Noop);
        registry.register("sleep", Sleep);
        registry.register("fail", Fail);
        registry
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.names()).finish()
    }
}

impl Registry {
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

    /// Trying again does not help: another worker may know the handler, but then the route is wrong.
    pub(crate) fn unknown(&self, name: &str) -> Failure {
        let shown = crate::text::first_characters(name, 80);
        let names = self.names();
        let nearest = names
            .iter()
            .map(|candidate| (strsim::jaro_winkler(shown, candidate), *candidate))
            .filter(|(likeness, _)| *likeness > 0.75)
            .max_by(|left, right| left.0.total_cmp(&right.0));
        let hint = match nearest {
            Some((_, candidate)) => format!("did you mean `{candidate}`? "),
            None => String::new(),
        };
        let message = format!("this worker has no handler `{shown}`; {hint}it has {}", names.join(", "));
        Failure { kind: "handler".into(), message, permanent: true, ..Failure::default() }
    }
}
