//! Tasks that no worker serves. Each gets a dead letter, which closes when a worker takes the task.

use std::collections::BTreeMap;
use std::time::Duration;

use mainspring_boxed::boxed;
use mainspring_core::workflow::SlotClass;
use mainspring_store::{Result, RouteRow, SessionRow};

use crate::client::Client;

const ENTRIES_AT_ONCE: i64 = 500;

#[boxed]
impl Client {
    /// Reports tasks that have been ready for this long without a live worker that could take them. Tasks that are paused
    /// wait for an operator instead. Returns the number of new entries.
    pub async fn report_unserved(&self, after: Duration) -> Result<u64> {
        self.store.close_served(self.now()).await?;
        let before = self.now() - i64::try_from(after.as_micros()).unwrap_or(i64::MAX);
        let waiting = self.store.routes_ready_since(before).await?;
        if waiting.is_empty() {
            return Ok(0);
        }
        let sessions = self.store.live_sessions().await?;
        let mut made = 0;
        for route in self.store.routes().await?.iter().filter(|route| !route.paused && waiting.contains(&route.id)) {
            if !sessions.iter().any(|session| serves(session, route)) {
                made += self.store.report_unserved(self.now(), route.id, before, ENTRIES_AT_ONCE).await?;
            }
        }
        Ok(made)
    }
}

fn serves(session: &SessionRow, route: &RouteRow) -> bool {
    let list =
        |text: &str| -> Vec<String> { text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect() };
    let labels: BTreeMap<String, String> = list(&session.labels)
        .iter()
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    // Every node that executes anything executes functions; remote tasks are claimed by the workers that can execute
    // them.
    let has_slots = session.slots > 0 || route.class() != SlotClass::Process;
    !session.draining && has_slots && route.suits(&list(&session.queues), &labels)
}
