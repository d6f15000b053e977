//! Times as people read them: of this machine's time zone, without fractions.

use std::sync::OnceLock;

use mainspring_core::Micros;
use mainspring_core::schedule::{local, timezone};
use mainspring_core::time;

/// `2026-11-17 20:05:33` of the local zone.
fn local_time(at: Micros) -> String {
    let zone = timezone(zone_name()).or_else(|_| timezone("UTC"));
    // Without the offset: every time of a table has the same.
    zone.map_or_else(|_| time::rfc3339_short(at), |zone| local(at, &zone).chars().take(19).collect())
}

/// Formats a time of the API in local time; any other text stays as it is.
pub(crate) fn local_text(text: &str) -> String {
    time::parse(text).map_or_else(|| text.to_owned(), local_time)
}

/// The name of the local zone: `TZ`, or what `/etc/localtime` points to.
fn zone_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let given = std::env::var("TZ").ok().map(|name| name.trim_start_matches(':').to_owned());
        let linked = || {
            let target = std::fs::read_link("/etc/localtime").ok()?;
            let target = target.to_str()?;
            target.split_once("zoneinfo/").map(|(_, name)| name.to_owned())
        };
        let known = |name: &String| timezone(name).is_ok();
        given.filter(known).or_else(|| linked().filter(known)).unwrap_or_else(|| "UTC".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::local_text;

    #[test]
    fn what_is_no_time_stays_as_it_is() {
        assert_eq!(local_text("never"), "never");
        assert_eq!(local_text("2026-11-17T19:05:33.123456Z").len(), "2026-11-17 19:05:33".len());
    }
}
