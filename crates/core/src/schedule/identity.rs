//! Stable numbers of a trigger: its identity, and the delay of each of its fires.

use sha2::{Digest, Sha256};

use crate::Micros;
use crate::workflow::{Action, DEFAULT_TIMEZONE, Trigger, TriggerSource};

/// The id of a trigger that was given none: its kind, and the first 8 hexadecimal digits of the SHA-256 of kind,
/// expression and timezone, separated by zero bytes.
///
/// Spaces and the case of letters in a cron expression make no difference, nor do inputs, calendars and the other
/// options: a trigger keeps its id, and with it the fires it has had, when only those change.
pub fn identity(trigger: &Trigger) -> String {
    let kind = trigger.source.kind();
    let zone = match &trigger.source {
        TriggerSource::Cron(_) => trigger.timezone.as_deref().unwrap_or(DEFAULT_TIMEZONE),
        _ => "",
    };
    let digest = Sha256::digest([kind, &expression(trigger), zone].join("\0"));
    let short: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{kind}-{short}")
}

fn expression(trigger: &Trigger) -> String {
    match &trigger.source {
        TriggerSource::Cron(cron) => cron.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_uppercase(),
        TriggerSource::Every(ms) => ms.to_string(),
        TriggerSource::At(at) => at.to_string(),
        TriggerSource::Event(name) | TriggerSource::Webhook(name) => name.clone(),
        TriggerSource::Workflow { name, namespace, on } => {
            let mut ends: Vec<&str> = on.iter().map(|end| end.word()).collect();
            ends.sort_unstable();
            format!("{}/{name} {}", namespace.as_deref().unwrap_or_default(), ends.join(","))
        }
        // Another interval is the same poll: what it has found stays found.
        TriggerSource::Poll(_) => match trigger.poll.as_ref().map(|poll| &poll.task.action) {
            Some(Action::Http(http)) => http.url.clone(),
            Some(Action::Run { script, .. }) => script.clone(),
            _ => String::new(),
        },
        TriggerSource::Manual => String::new(),
    }
}

/// How late a fire is: at least 0 and less than `jitter_ms`, in microseconds, and always the same for the same trigger and nominal
/// instant, for every caller and every call.
pub fn jitter(trigger_id: &str, nominal: Micros, jitter_ms: u64) -> Micros {
    if jitter_ms == 0 {
        return 0;
    }
    let digest =
        Sha256::new().chain_update(trigger_id).chain_update([0]).chain_update(nominal.to_be_bytes()).finalize();
    let random = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let width = u128::from(jitter_ms.saturating_mul(1_000));
    // The upper half of the product: as even as the 64 bits are, without a division.
    let late = (u128::from(random) * width) >> 64;
    Micros::try_from(late).unwrap_or(Micros::MAX)
}
