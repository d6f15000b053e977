//! A cron expression in words.
//!
//! What people write most becomes a sentence; anything else is said field by field, which is longer but never wrong.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 8] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// More times than this are not listed one by one.
const MOST_TIMES: usize = 6;

/// The second, minute, hour, day, month, weekday and year field, in numbers.
pub(super) fn describe(fields: &[&str; 7]) -> String {
    let [second, minute, hour, day, month, weekday, year] = *fields;
    let sentence = || {
        let (time, daily) = times(second, minute, hour)?;
        let days = days(day, weekday)?;
        let days = if days.is_empty() && daily && month == "*" { "every day".into() } else { days };
        let years = if year == "*" { String::new() } else { format!("of {year}") };
        let parts = [time, days, months(month)?, years];
        Some(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "))
    };
    sentence().unwrap_or_else(|| field_by_field(fields))
}

fn field_by_field(fields: &[&str; 7]) -> String {
    let [second, minute, hour, day, month, weekday, year] = *fields;
    let parts = [
        ("second", second, second == "0"),
        ("minute", minute, false),
        ("hour", hour, false),
        ("day of the month", day, day == "*"),
        ("month", month, month == "*"),
        ("weekday", weekday, weekday == "*"),
        ("year", year, year == "*"),
    ];
    let parts = parts.iter().filter(|(_, _, plain)| !plain).map(|(name, text, _)| format!("{name} {text}"));
    let both = ![day, weekday].contains(&"*") && !weekday.starts_with('+');
    let note = if both { " (a day fits if either its day of the month or its weekday does)" } else { "" };
    format!("when the clock shows {}{note}", parts.collect::<Vec<_>>().join(", "))
}

/// The times of a day, and whether they are few enough that `every day` belongs behind them.
fn times(second: &str, minute: &str, hour: &str) -> Option<(String, bool)> {
    if let (Some(hours), Some(minutes), Ok(second)) = (list(hour), list(minute), second.parse::<u32>())
        && hours.len() * minutes.len() <= MOST_TIMES
    {
        let clock = |hour: &u32, minute: &u32| match second {
            0 => format!("{hour:02}:{minute:02}"),
            second => format!("{hour:02}:{minute:02}:{second:02}"),
        };
        let mut times: Vec<(u32, u32)> =
            hours.iter().flat_map(|hour| minutes.iter().map(|minute| (*hour, *minute))).collect();
        times.sort_unstable();
        times.dedup();
        let times: Vec<String> = times.iter().map(|(hour, minute)| clock(hour, minute)).collect();
        return Some((format!("at {}", joined(&times, "and")), true));
    }
    let hours = hours(hour)?;
    let within = match (second, minute) {
        ("0", "*") => "every minute".into(),
        ("*", "*") => "every second".into(),
        ("0", "0") if hour == "*" => return Some(("every hour, on the hour".into(), false)),
        ("0", minute) => match (step(minute), list(minute)) {
            (Some(step), _) => format!("every {step} minutes"),
            (None, Some(minutes)) => {
                let name = if minutes.len() == 1 { "minute" } else { "minutes" };
                let minutes: Vec<String> = minutes.iter().map(u32::to_string).collect();
                format!("at {name} {}", joined(&minutes, "and"))
            }
            (None, None) => {
                let (low, high) = range(minute)?;
                format!("every minute from minute {low} to {high}")
            }
        },
        (second, "*") => format!("every {} seconds", step(second)?),
        _ => return None,
    };
    Some(([within, hours].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "), false))
}

/// For times that are more than a few.
fn hours(hour: &str) -> Option<String> {
    if hour == "*" {
        return Some(String::new());
    }
    if let Some(step) = step(hour) {
        return Some(format!("of every {} hour", ordinal(step)));
    }
    if let Some((low, high)) = range(hour) {
        return Some(format!("from {low:02}:00 to {high:02}:59"));
    }
    let hours: Vec<String> = list(hour)?.iter().map(|hour| format!("{hour:02}")).collect();
    Some(format!("of hour{} {}", if hours.len() == 1 { "" } else { "s" }, joined(&hours, "and")))
}

fn days(day: &str, weekday: &str) -> Option<String> {
    let any = |text: &str| matches!(text, "*" | "?");
    match (any(day), any(weekday)) {
        (true, true) => Some(String::new()),
        (false, true) => month_days(day),
        (true, false) => weekdays(weekday.strip_prefix('+').unwrap_or(weekday)),
        (false, false) if weekday.starts_with('+') => None,
        (false, false) => Some(format!("{} or {}", month_days(day)?, weekdays(weekday)?)),
    }
}

fn month_days(day: &str) -> Option<String> {
    match day {
        "L" => return Some("on the last day of the month".into()),
        "LW" => return Some("on the last weekday of the month".into()),
        _ => {}
    }
    if let Some(near) = day.strip_suffix('W').filter(|near| near.parse::<u32>().is_ok()) {
        return Some(format!("on the weekday nearest to day {near} of the month"));
    }
    if let Some((low, high)) = range(day) {
        return Some(format!("on days {low} to {high} of the month"));
    }
    let days: Vec<String> = list(day)?.iter().map(u32::to_string).collect();
    Some(format!("on day{} {} of the month", if days.len() == 1 { "" } else { "s" }, joined(&days, "and")))
}

fn weekdays(weekday: &str) -> Option<String> {
    match weekday {
        "1-5" | "1,2,3,4,5" => return Some("on weekdays".into()),
        "0,6" | "6,0" | "6,7" | "6-7" => return Some("on weekends".into()),
        _ => {}
    }
    let name = |text: &str| text.parse::<usize>().ok().and_then(|day| WEEKDAYS.get(day).copied());
    if let Some((day, nth)) = weekday.split_once('#') {
        let nth = if nth == "L" { "last".to_owned() } else { ordinal(nth.parse().ok()?) };
        return Some(format!("on the {nth} {} of the month", name(day)?));
    }
    if let Some(day) = weekday.strip_suffix('L') {
        return Some(format!("on the last {} of the month", name(day)?));
    }
    if let Some((low, high)) = weekday.split_once('-') {
        return Some(format!("from {} to {}", name(low)?, name(high)?));
    }
    let days: Option<Vec<String>> = weekday.split(',').map(|day| name(day).map(|day| format!("{day}s"))).collect();
    Some(format!("on {}", joined(&days?, "and")))
}

fn months(month: &str) -> Option<String> {
    if month == "*" {
        return Some(String::new());
    }
    let name = |month: u32| MONTHS.get(usize::try_from(month).ok()?.checked_sub(1)?).map(|name| (*name).to_owned());
    if let Some((low, high)) = range(month) {
        return Some(format!("from {} to {}", name(low)?, name(high)?));
    }
    let months: Option<Vec<String>> = list(month)?.into_iter().map(name).collect();
    Some(format!("in {}", joined(&months?, "and")))
}

/// `2`, `2,4`.
fn list(text: &str) -> Option<Vec<u32>> {
    text.split(',').map(|number| number.parse().ok()).collect()
}

/// `9-17`.
fn range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.split_once('-')?;
    Some((low.parse().ok()?, high.parse().ok()?))
}

/// `*/15`; not `*/1`, which is not called every 1 minutes.
fn step(text: &str) -> Option<u32> {
    text.strip_prefix("*/")?.parse().ok().filter(|step| *step > 1)
}

fn ordinal(number: u32) -> String {
    match number {
        1 => "first".into(),
        2 => "second".into(),
        3 => "third".into(),
        4 => "fourth".into(),
        5 => "fifth".into(),
        number => {
            let ending = match (number % 10, number % 100) {
                (_, 11..=13) => "th",
                (1, _) => "st",
                (2, _) => "nd",
                (3, _) => "rd",
                _ => "th",
            };
            format!("{number}{ending}")
        }
    }
}

fn joined(parts: &[String], and: &str) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} {and} {last}", rest.join(", ")),
    }
}
