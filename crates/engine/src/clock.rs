//! The one place that reads the wall clock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mainspring_core::Micros;
use mainspring_core::work::Clock;
use uuid::{ContextV7, Timestamp, Uuid};

/// Wall time at start plus a monotonic clock: what [`Clock::now`] says never jumps while the program runs.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    /// Added to the time of day, for trials at another time.
    shift: AtomicI64,
    started_at: Micros,
    ids: Mutex<ContextV7>,
    /// Of ids for later: those of now would rise with them.
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

    /// The time of day as the machine has it now. It follows the machine's clock when that is set forward or back:
    /// for schedules only, which are about the time of day.
    pub fn wall(&self) -> Micros {
        time_of_day() + self.shift.load(Ordering::Relaxed)
    }

    /// When it will be that time of day, by the clock that never jumps.
    pub(crate) fn ahead(&self, wall: Micros) -> Micros {
        self.now() + (wall - self.wall())
    }

    /// Moves the time of day that schedules go by, as if the machine's clock were set. For trying things out.
    pub fn shift_wall(&self, by: Micros) {
        self.shift.fetch_add(by, Ordering::Relaxed);
    }

    /// A new UUID v7; ids of one clock rise strictly.
    pub fn new_id(&self) -> Uuid {
        id_at(&self.ids, self.now())
    }

    /// The id of something that will be there at that time: what is made until then comes before it.
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
