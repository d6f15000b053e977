//! The fields of a cron expression: how many, what each may hold, and what is wrong with one.

use std::fmt;

use croner::CronPattern;
use croner::parser::{CronParser, Seconds, Year};

use crate::diagnostic::quoted;

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

/// Six fields in capitals, the second first, as croner reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields(pub(super) [String; 6]);

impl CronField {
    pub(super) const ALL: [Self; 6] = [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Month, Self::Weekday];

    /// What a plain number in it may be.
    fn bounds(self) -> (u32, u32) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::Day => (1, 31),
            Self::Month => (1, 12),
            Self::Weekday => (0, 7),
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
                "days are 1-31; `L` is the last, `15W` the weekday nearest to the 15th".into()
            }
            Self::Field { field, .. } => {
                let (low, high) = field.bounds();
                format!("{field}s are {low}-{high}: `5`, `1,2`, `1-5`, `*` or `*/2`")
            }
            Self::Empty | Self::TooLong | Self::FieldCount(_) => {
                "write minute, hour, day, month and weekday, with seconds before them if need be: `0 2 * * 1-5`".into()
            }
        }
    }
}

/// Splits and checks an expression.
pub(super) fn read(text: &str) -> Result<(Fields, CronPattern), CronError> {
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
        5 => parts.insert(0, "0"),
        6 => {}
        count => return Err(CronError::FieldCount(count)),
    }
    let mut fields = [const { String::new() }; 6];
    for ((field, part), place) in CronField::ALL.into_iter().zip(parts).zip(&mut fields) {
        let failed = |cause| CronError::Field { field, text: part.to_owned(), cause };
        let numbers = numbers(field, part).map_err(failed)?;
        check(field, &numbers).map_err(failed)?;
        *place = numbers;
    }
    let fields = Fields(fields);
    let pattern = parse(&fields.0.join(" ")).map_err(|error| {
        let guilty = CronField::ALL.into_iter().zip(&fields.0).find_map(|(field, text)| {
            let cause = alone(field, text).err()?;
            Some(CronError::Field { field, text: text.clone(), cause })
        });
        guilty.unwrap_or_else(|| {
            let (field, text) = (CronField::Day, fields.0[3].clone());
            CronError::Field { field, text, cause: words(&error) }
        })
    })?;
    Ok((fields, pattern))
}

/// Nobody asks for the years: every year would be ten thousand marks, set and kept for each expression.
fn parse(fields: &str) -> Result<CronPattern, croner::errors::CronError> {
    let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Required).build();
    let mut pattern = parser.parse(&format!("{fields} 2000"))?.pattern;
    pattern.years = Default::default();
    Ok(pattern)
}

/// The names in a field as numbers. croner would take a name in any field.
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

/// What croner would say less clearly, or let pass.
fn check(field: CronField, part: &str) -> Result<(), String> {
    let any = matches!(field, CronField::Day | CronField::Weekday);
    let part = if field == CronField::Weekday { part.strip_prefix('+').unwrap_or(part) } else { part };
    for item in part.split(',') {
        let (base, step) = item.split_once('/').map_or((item, None), |(base, step)| (base, Some(step)));
        if let Some(step) = step {
            match step.parse::<u32>() {
                Ok(0) => return Err("a step of 0 never comes to an end".into()),
                Ok(step) if step > field.bounds().1 => {
                    return Err(format!("a step of {step} is longer than the field"));
                }
                Ok(_) => {}
                Err(_) => return Err(format!("the step {} is not a number", quoted(step))),
            }
            if base != "*" && !base.contains('-') {
                return Err("a step needs `*` or a range before it".into());
            }
        }
        match base.split_once('-') {
            Some((low, high)) => {
                if number(field, low)? > number(field, high)? {
                    return Err("the range runs backwards".into());
                }
            }
            None if base == "*" || (any && base == "?") => {}
            None if base.is_empty() => return Err("a value is missing".into()),
            None => special(field, base)?,
        }
    }
    Ok(())
}

/// A number, or a number with `L`, `W` or `#`.
fn special(field: CronField, base: &str) -> Result<(), String> {
    match field {
        CronField::Day if base == "L" || base == "LW" => Ok(()),
        CronField::Day => number(field, base.strip_suffix('W').unwrap_or(base)).map(drop),
        CronField::Weekday => match base.split_once('#') {
            Some((day, "1" | "2" | "3" | "4" | "5" | "L")) => number(field, day).map(drop),
            Some((_, nth)) => Err(format!("{} is not one of #1 to #5", quoted(nth))),
            None if base == "L" => Err("`L` needs a weekday before it".into()),
            None => number(field, base.strip_suffix('L').unwrap_or(base)).map(drop),
        },
        _ => number(field, base).map(drop),
    }
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

/// Whether croner takes the field when nothing else is said.
fn alone(field: CronField, part: &str) -> Result<(), String> {
    let pattern = CronField::ALL.map(|other| if other == field { part } else { "*" });
    parse(&pattern.join(" ")).map(drop).map_err(|error| words(&error))
}

/// The parser's words, as the rest of a sentence.
fn words(error: &croner::errors::CronError) -> String {
    use croner::errors::CronError::{ComponentError, IllegalCharacters, InvalidPattern};
    let text = match error {
        InvalidPattern(text) | IllegalCharacters(text) | ComponentError(text) => text,
        other => &other.to_string(),
    };
    let text = text.trim_end_matches('.').replace("CronPattern", "it");
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().collect::<String>() + letters.as_str()).unwrap_or_default()
}
