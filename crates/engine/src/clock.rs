//! The one place that reads the wall clock.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mainspring_core::Micros;
use mainspring_core::work::Clock;
use uuid::{ContextV7, Timestamp, Uuid};

/// Wall time at start plus a monotonic clock: it never jumps while the program runs.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    started_at: Micros,
    ids: Mutex<ContextV7>,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    pub fn new() -> Self {
        let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros() as Micros;
        Self { started: Instant::now(), started_at, ids: Mutex::new(ContextV7::new()) }
    }

    /// A new UUID v7; ids of one clock rise strictly.
    pub fn new_id(&self) -> Uuid {
        let now = self.now();
        let context = self.ids.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let timestamp = Timestamp::from_unix(&*context, (now / 1_000_000) as u64, (now % 1_000_000) as u32 * 1_000);
        Uuid::new_v7(timestamp)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Micros {
        self.started_at + self.started.elapsed().as_micros() as Micros
    }
}
