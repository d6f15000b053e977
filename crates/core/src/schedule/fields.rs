//! The fields of a cron expression: how many, what each may hold, and what is wrong with one.

use std::fmt;

use crate::diagnostic::quoted;

use super::pattern::{DayRule, Pattern, WeekdayRule, YEARS, values};
use super::zone::UnknownTimezone;

const LONGEST: usize = 256;
const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const NICKNAMES: [(&str, &str); 7] = [
    ("@YEARLY", "0 0 1 1 *"),
    ("@ANNUALLY", "0 0 1 1 *"),
    ("@MONTHLY", "0 0 1 * *"),
    ("@WEEKLY", "0 0 * * 0"),
    ("@DAILY", "0 0 * * *"),
    ("@MIDNIGHT", "0 0 * * *"),
    ("@HOURLY", "0 * * * *"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronField {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Weekday,
    Year,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {LONGEST} characters")]
    TooLong,
    #[error("it has {0} field{s}", s = if *.0 == 1 { "" } else { "s" })]
    FieldCount(usize),
    #[error("there is no {}", quoted(.0))]
    Nickname(String),
    #[error("the {field} field {}: {cause}", quoted(.text))]
    Field { field: CronField, text: String, cause: String },
    #[error("it never fires: there is no such day")]
    NeverFires,
    #[error(transparent)]
    Timezone(#[from] UnknownTimezone),
}

/// Seven fields in capitals and numbers, the second first and the year last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields(pub(super) [String; 7]);

impl CronField {
    pub(super) const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Month, Self::Weekday, Self::Year];

    /// What a plain number in it may be.
    pub(super) fn bounds(self) -> (u32, u32) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::Day => (1, 31),
            Self::Month => (1, 12),
            Self::Weekday => (0, 7),
            Self::Year => YEARS,
        }
    }
}

impl fmt::Display for CronField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Weekday => "weekday",
            Self::Year => "year",
        })
    }
}

impl CronError {
    /// What to write instead.
    pub fn help(&self) -> String {
        match self {
            Self::Timezone(unknown) => unknown.help.clone(),
            Self::NeverFires => "choose a day that the months have, or `L` for the last day of a month".into(),
            Self::Nickname(_) => {
                "write @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually, or five fields".into()
            }
            Self::Field { field: CronField::Weekday, .. } => {
                "weekdays are 0-7 (0 and 7 are Sunday) or SUN-SAT; `FRI#2` is the second, `FRIL` the last of a month"
                    .into()
            }
            Self::Field { field: CronField::Month, .. } => "months are 1-12 or JAN-DEC".into(),
            Self::Field { field: CronField::Day, .. } => {
                "days are 1-31; `L` is the last, `L-3` the third before it, `15W` the weekday nearest to the 15th".into()
            }
            Self::Field { field, .. } => {
                let (low, high) = field.bounds();
                format!("{field}s are {low}-{high}: `5`, `1,2`, `1-5`, `*` or `*/2`")
            }
            Self::Empty | Self::TooLong | Self::FieldCount(_) => {
                "write minute, hour, day, month and weekday, with seconds before them if need be and years behind: `0 2 * * 1-5`".into()
            }
        }
    }
}

/// Splits and checks an expression. The last of the three says what is legal but hardly meant.
pub(super) fn read(text: &str) -> Result<(Fields, Pattern, Vec<String>), CronError> {
    if text.len() > LONGEST {
        return Err(CronError::TooLong);
    }
    let upper = text.trim().to_ascii_uppercase();
    if upper.is_empty() {
        return Err(CronError::Empty);
    }
    let plain = if upper.starts_with('@') {
        let known = NICKNAMES.iter().find(|(name, _)| *name == upper);
        known.map(|(_, plain)| *plain).ok_or_else(|| CronError::Nickname(text.trim().to_owned()))?
    } else {
        &upper
    };
    let mut parts: Vec<&str> = plain.split_whitespace().collect();
    match parts.len() {
        5 => {
            parts.insert(0, "0");
            parts.push("*");
        }
        6 => parts.push("*"),
        7 => {}
        count => return Err(CronError::FieldCount(count)),
    }
    let mut fields = [const { String::new() }; 7];
    let mut pattern = Pattern::default();
    let mut warnings = Vec::new();
    for ((field, part), place) in CronField::ALL.into_iter().zip(parts).zip(&mut fields) {
        let failed = |cause| CronError::Field { field, text: part.to_owned(), cause };
        let numbers = numbers(field, part).map_err(failed)?;
        *place = compile(field, &numbers, &mut pattern, &mut warnings).map_err(failed)?;
    }
    Ok((Fields(fields), pattern, warnings))
}

/// One item of a list: where it begins, where it ends (the same for a single number), and the step.
struct Item {
    first: u32,
    last: u32,
    step: u32,
}

/// Adds a field to the pattern; gives its text as it is described.
fn compile(field: CronField, part: &str, pattern: &mut Pattern, warnings: &mut Vec<String>) -> Result<String, String> {
    let part = match part.strip_prefix('+').filter(|_| field == CronField::Weekday) {
        Some(rest) => {
            pattern.both = true;
            rest
        }
        None => part,
    };
    let is_any = |item: &str| item == "*" || item == "?" && matches!(field, CronField::Day | CronField::Weekday);
    let mut numbers = 0;
    let mut shown = Vec::new();
    for item in part.split(',') {
        if special(field, item, pattern)? {
            shown.push(item.to_owned());
            continue;
        }
        let read = read_item(field, item)?;
        let written = shorten(field, item, &read, warnings);
        shown.push(written);
        if field == CronField::Year {
            if !is_any(item) {
                pattern.years.push((read.first, read.last, read.step));
            }
        } else if !is_any(item) || !matches!(field, CronField::Day | CronField::Weekday) {
            numbers |= values(field, read.first, read.last, read.step);
        }
    }
    let has_any = part.split(',').any(is_any);
    match field {
        CronField::Second => pattern.seconds = numbers,
        CronField::Minute => pattern.minutes = numbers,
        CronField::Hour => pattern.hours = numbers,
        CronField::Month => pattern.months = numbers,
        // A `*` in a list leaves nothing out, whatever stands beside it.
        CronField::Day if has_any => pattern.days.clear(),
        CronField::Day if numbers != 0 => pattern.days.push(DayRule::Days(numbers)),
        CronField::Weekday if has_any => pattern.weekdays.clear(),
        CronField::Weekday if numbers != 0 => pattern.weekdays.push(WeekdayRule::Weekdays(numbers)),
        CronField::Year if has_any => pattern.years.clear(),
        _ => {}
    }
    let text = if has_any { "*".to_owned() } else { shown.join(",") };
    Ok(if pattern.both && field == CronField::Weekday { format!("+{text}") } else { text })
}

fn read_item(field: CronField, item: &str) -> Result<Item, String> {
    let (low, high) = field.bounds();
    let (base, step) = item.split_once('/').map_or((item, None), |(base, step)| (base, Some(step)));
    let step = match step {
        None => 1,
        Some(step) => match step.parse::<u32>() {
            Ok(0) => return Err("a step of 0 never comes to an end".into()),
            Ok(number) => number,
            Err(_) => return Err(format!("the step {} is not a number", quoted(step))),
        },
    };
    let any_end = if field == CronField::Weekday { 6 } else { high };
    if base == "*" || base == "?" && matches!(field, CronField::Day | CronField::Weekday) {
        return Ok(Item { first: low, last: any_end, step });
    }
    if base.is_empty() {
        return Err("a value is missing".into());
    }
    let (first, last) = match base.split_once('-') {
        Some((first, last)) => (number(field, first)?, number(field, last)?),
        // `5/15` is every 15th from the 5th on.
        None if item.contains('/') => (number(field, base)?, any_end),
        None => (number(field, base)?, number(field, base)?),
    };
    if field == CronField::Year && first > last {
        return Err("the range runs backwards".into());
    }
    // Sunday is 0; as the end of a range it is 7.
    let first = if field == CronField::Weekday && first == 7 { 0 } else { first };
    let last = if field == CronField::Weekday && last == 7 && first == 0 && !base.contains('-') { 0 } else { last };
    if field == CronField::Weekday && last == 7 {
        // `5-7` is Friday to Sunday, `0-7` and `7-7` are what they are.
        return Ok(Item { first, last: if first == 0 { 6 } else { 0 }, step });
    }
    Ok(Item { first, last, step })
}

/// A step that leads out of the field leaves the first value: legal in every cron, and hardly meant.
fn shorten(field: CronField, item: &str, read: &Item, warnings: &mut Vec<String>) -> String {
    let (low, high) = field.bounds();
    let size = high - low + 1;
    let length = if read.last >= read.first { read.last - read.first } else { read.last + size - read.first };
    if read.step > 1 && read.step > length && item.contains('/') {
        warnings.push(format!(
            "the step of {} in the {field} field leads out of it: only {} fits",
            quoted(item),
            read.first
        ));
        return read.first.to_string();
    }
    item.to_owned()
}

/// `L`, `L-3`, `LW`, `15W` among days, `FRIL`, `5L`, `5#2`, `1-5#1` among weekdays. Whether it was one of them.
fn special(field: CronField, item: &str, pattern: &mut Pattern) -> Result<bool, String> {
    match field {
        CronField::Day => {
            let rule = match item {
                "L" => DayRule::BeforeLast(0),
                "LW" | "WL" => DayRule::LastWeekday,
                _ => match (item.strip_prefix("L-"), item.strip_suffix('W')) {
                    (Some(before), _) => match before.parse::<u32>() {
                        Ok(before) if before <= 30 => DayRule::BeforeLast(before),
                        _ => return Err(format!("{} is not between 0 and 30", quoted(before))),
                    },
                    (None, Some(day)) => DayRule::Nearest(number(field, day)?),
                    (None, None) => return Ok(false),
                },
            };
            pattern.days.push(rule);
        }
        CronField::Weekday => {
            let weekdays = |text: &str| {
                if text.is_empty() {
                    return Err("`L` needs a weekday before it".to_owned());
                }
                read_item(field, text).map(|read| values(field, read.first, read.last, read.step))
            };
            let rule = match (item.split_once('#'), item.strip_suffix('L')) {
                (Some((days, "L")), _) | (None, Some(days)) => WeekdayRule::Last(weekdays(days)?),
                (Some((days, nth)), _) => match nth.parse::<u32>() {
                    Ok(nth @ 1..=5) => WeekdayRule::Nth(weekdays(days)?, nth),
                    _ => return Err(format!("{} is not one of #1 to #5", quoted(nth))),
                },
                (None, None) => return Ok(false),
            };
            pattern.weekdays.push(rule);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn number(field: CronField, text: &str) -> Result<u32, String> {
    let (low, high) = field.bounds();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{} is not a number", quoted(text)));
    }
    match text.parse() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("{} is not between {low} and {high}", quoted(text))),
    }
}

/// The names in a field as numbers; each name belongs to one field.
fn numbers(field: CronField, part: &str) -> Result<String, String> {
    let mut read = String::new();
    let mut rest = part;
    while let Some(first) = rest.chars().next() {
        let letters = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_alphabetic()).len();
        let name = rest.get(..3).filter(|_| letters >= 3);
        let number = match field {
            CronField::Month => name.and_then(|name| MONTHS.iter().position(|month| *month == name)).map(|at| at + 1),
            CronField::Weekday => name.and_then(|name| WEEKDAYS.iter().position(|day| *day == name)),
            _ => None,
        };
        // `FRIL`, but not `FRIDAY`.
        if let Some(number) = number.filter(|_| letters == 3 || (letters == 4 && rest[3..].starts_with('L'))) {
            // A range ends with Sunday, it does not begin again.
            let number = if field == CronField::Weekday && number == 0 && read.ends_with('-') { 7 } else { number };
            read.push_str(&number.to_string());
            rest = &rest[3..];
        } else if letters > 1 && !(field == CronField::Day && rest.starts_with("LW")) {
            return Err(format!("{} is not a name that belongs there", quoted(&rest[..letters])));
        } else {
            read.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(read)
}
