//! The one place that reads the wall clock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mainspring_core::Micros;
use mainspring_core::work::Clock;
use uuid::{ContextV7, Timestamp, Uuid};

/// The wall time at the start plus a monotonic clock, so that [`Clock::now`] never jumps while the program runs.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    /// Added to the time of day, for tests at another time.
    shift: AtomicI64,
    started_at: Micros,
    ids: Mutex<ContextV7>,
    /// A separate context for ids in the future, because it would otherwise push the present ids ahead.
    ids_ahead: Mutex<ContextV7>,
}

impl SystemClock {
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            shift: AtomicI64::new(0),
            started_at: time_of_day(),
            ids: Mutex::new(ContextV7::new()),
            ids_ahead: Mutex::new(ContextV7::new()),
        }
    }

    /// The time of day of the machine. It follows the machine's clock when that is set, so only schedules use it.
    pub fn wall(&self) -> Micros {
        time_of_day() + self.shift.load(Ordering::Relaxed)
    }

    /// Converts a time of day to the clock that never jumps.
    pub(crate) fn ahead(&self, wall: Micros) -> Micros {
        self.now() + (wall - self.wall())
    }

    /// Shifts the time of day for schedules, as if the machine's clock were set. For tests.
    pub fn shift_wall(&self, by: Micros) {
        self.shift.fetch_add(by, Ordering::Relaxed);
    }

    /// A new UUID v7; ids of one clock rise strictly.
    pub fn new_id(&self) -> Uuid {
        id_at(&self.ids, self.now())
    }

    /// The id of something that begins at that time. It sorts after everything created until then.
    pub fn new_id_ahead(&self, at: Micros) -> Uuid {
        id_at(&self.ids_ahead, at)
    }
}

fn id_at(context: &Mutex<ContextV7>, at: Micros) -> Uuid {
    let context = context.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Uuid::new_v7(Timestamp::from_unix(&*context, (at / 1_000_000) as u64, (at % 1_000_000) as u32 * 1_000))
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn time_of_day() -> Micros {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros() as Micros
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
