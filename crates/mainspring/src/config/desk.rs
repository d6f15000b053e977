//! Staleness and dead letters.

use std::time::Duration;

use mainspring_core::staleness::Thresholds;
use mainspring_engine::{DeskConfig, MOST_ENTRIES_AT_ONCE};

use super::layers::Layers;
use super::read::{duration, integer, text};

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
/// A year.
const MOST_MINUTES: i64 = 525_600;

pub(super) fn read(layers: &mut Layers) -> DeskConfig {
    let defaults = DeskConfig::default();
    let own = defaults.thresholds;
    let mut minutes = |key: &'static str, default: i64| {
        integer(layers, key, 1, MOST_MINUTES).map_or(default, |minutes| minutes * MINUTE)
    };
    let thresholds = Thresholds {
        waiting_for_dependencies: minutes(
            "staleness_detection.default_waiting_deps_threshold_minutes",
            own.waiting_for_dependencies,
        ),
        waiting_for_retry: minutes(
            "staleness_detection.default_waiting_retry_threshold_minutes",
            own.waiting_for_retry,
        ),
        steps_in_process: minutes(
            "staleness_detection.default_steps_in_process_threshold_minutes",
            own.steps_in_process,
        ),
        lifetime: integer(layers, "staleness_detection.default_task_max_lifetime_hours", 1, MOST_MINUTES / 60)
            .map_or(own.lifetime, |hours| hours * HOUR),
    };
    let size = integer(layers, "staleness_detection.batch_size", 1, 1_000);
    let seconds = integer(layers, "staleness_detection.detection_interval_seconds", 1, 86_400);
    let entries = integer(layers, "dead_letters.batch_size", 1, MOST_ENTRIES_AT_ONCE as i64);
    let unserved = duration(layers, "dead_letters.worker_unavailable_after");
    if unserved.is_some_and(|after| after.is_zero()) {
        layers.complain_about("dead_letters.worker_unavailable_after", "must be longer than nothing");
    }
    DeskConfig {
        detects: is_on(layers, "staleness_detection.enabled", defaults.detects),
        dry_run: is_on(layers, "staleness_detection.dry_run", defaults.dry_run),
        batch_size: size.map_or(defaults.batch_size, |size| size as usize),
        entries_at_once: entries.map_or(defaults.entries_at_once, |entries| entries as usize),
        interval: seconds.map_or(defaults.interval, |seconds| Duration::from_secs(seconds as u64)),
        thresholds,
        unserved_after: unserved.unwrap_or(defaults.unserved_after),
        kept: duration(layers, "dead_letters.retention").or(defaults.kept),
    }
}

fn is_on(layers: &mut Layers, key: &'static str, default: bool) -> bool {
    match text(layers, key).as_deref() {
        None => default,
        Some("true") => true,
        Some("false") => false,
        Some(_) => {
            layers.complain_about(key, "must be true or false");
            default
        }
    }
}
