//! The handler `hold`: a task that runs until the test lets it go, so that nothing depends on how long something takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mainspring_worker::{FunctionCall, FunctionResult, Registry};
use tokio::sync::watch;

/// Gates by namespace and name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gates(Arc<Mutex<HashMap<(String, String), Gate>>>);

#[derive(Debug)]
struct Gate {
    open: watch::Sender<bool>,
    inside: usize,
    peak: usize,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: watch::channel(false).0, inside: 0, peak: 0 }
    }
}

impl Gates {
    /// The built-in handlers and `hold`, whose payload is the name of its gate.
    pub(crate) fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        let gates = self.clone();
        registry.register("hold", move |call: FunctionCall| gates.clone().hold(call));
        registry
    }

    async fn hold(self, call: FunctionCall) -> FunctionResult {
        let gate = call.payload().as_str().unwrap_or_default().to_owned();
        let name = (call.order.namespace.clone(), gate);
        let mut opened = {
            let mut gates = self.lock();
            let gate = gates.entry(name.clone()).or_default();
            gate.inside += 1;
            gate.peak = gate.peak.max(gate.inside);
            gate.open.subscribe()
        };
        tokio::select! {
            _ = opened.wait_for(|open| *open) => {}
            () = call.cancel.cancelled() => {}
        }
        self.lock().entry(name).or_default().inside -= 1;
        Ok(None)
    }

    /// Lets every task through, now and later.
    pub(crate) fn open(&self, namespace: &str, gate: &str) {
        self.lock().entry((namespace.to_owned(), gate.to_owned())).or_default().open.send_replace(true);
    }

    /// How many are held now.
    pub(crate) fn inside(&self, namespace: &str, gate: &str) -> usize {
        self.lock().entry((namespace.to_owned(), gate.to_owned())).or_default().inside
    }

    /// How many were held at once, at most.
    pub(crate) fn peak(&self, namespace: &str, gate: &str) -> usize {
        self.lock().entry((namespace.to_owned(), gate.to_owned())).or_default().peak
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Gate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
