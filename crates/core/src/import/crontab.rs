//! Crontabs: a workflow for each line.

use crate::diagnostic::{Diagnostics, Place, Report, quoted};

use super::Imported;
use super::writer::{Names, Writer, is_variable, literal};

const MAX_BYTES: usize = 16 * 1024 * 1024;
const MAX_JOBS: usize = 10_000;

const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// What holds for the lines that follow.
#[derive(Debug, Default)]
struct Settings {
    env: Vec<(String, String)>,
    shell: Option<String>,
    timezone: Option<String>,
    left_out: Vec<String>,
}

/// `system`: the sixth field is the user, as in `/etc/crontab`.
pub fn crontab(source: &str, system: bool) -> Result<Vec<Imported>, Diagnostics> {
    let mut report = Report::default();
    if source.len() > MAX_BYTES {
        report.add(Place::default(), "", "the text is longer than 16 MiB");
    } else if let Some(line) = source.lines().position(|line| line.chars().any(|one| one.is_control() && one != '\t')) {
        let place = Place { line: line as u32 + 1, ..Place::default() };
        report.add_with_help(place, "", "this line holds a control character", "a crontab is a plain text");
    }
    if !report.is_empty() {
        return report.finish(None);
    }
    let mut settings = Settings::default();
    let mut names = Names::default();
    let mut jobs = Vec::new();
    let mut comments: Vec<&str> = Vec::new();
    for (number, line) in source.lines().enumerate() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            comments.push(comment.trim());
        } else if line.is_empty() {
            comments.clear();
        } else if let Some((variable, value)) = setting(line) {
            settings.set(variable, value);
            comments.clear();
        } else {
            match job(line, system) {
                Some(job) if jobs.len() < MAX_JOBS => {
                    jobs.push(job.write(&settings, &comments, number + 1, &mut names))
                }
                Some(_) => report.add(Place::default(), "", format!("the crontab has more than {MAX_JOBS} jobs")),
                None => {
                    let place = Place { line: number as u32 + 1, column: 1, length: line.chars().count() as u32 };
                    let help = if system {
                        "write five fields for the time, a user and a command, or NAME=value"
                    } else {
                        "write five fields for the time and a command, or NAME=value; --system for a user column"
                    };
                    report.add_with_help(place, "", format!("{} is no line of a crontab", quoted(line)), help);
                }
            }
            comments.clear();
        }
        if report.is_full() {
            break;
        }
    }
    if jobs.is_empty() && report.is_empty() {
        report.add(Place::default(), "", "the crontab has no jobs");
    }
    report.finish(Some(jobs))
}

fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim().trim_matches(['"', '\'']);
    let value = value.trim();
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
    is_variable(name).then_some((name, value))
}

impl Settings {
    fn set(&mut self, name: &str, value: &str) {
        match name {
            "SHELL" => self.shell = Some(value.to_owned()),
            "CRON_TZ" | "TZ" => self.timezone = Some(value.to_owned()),
            "MAILTO" | "MAILFROM" | "RANDOM_DELAY" | "START_HOURS_RANGE" => {
                self.left_out.push(format!("{name}={value}"));
            }
            _ => {
                self.env.retain(|(known, _)| known != name);
                self.env.push((name.to_owned(), value.to_owned()));
            }
        }
    }
}

struct Job<'l> {
    /// `None`: `@reboot`.
    cron: Option<String>,
    user: Option<&'l str>,
    command: String,
    input: Option<String>,
}

fn job(line: &str, system: bool) -> Option<Job<'_>> {
    let mut rest = line;
    let mut next = || {
        let end = rest.find(char::is_whitespace)?;
        let (word, behind) = rest.split_at(end);
        rest = behind.trim_start();
        Some(word)
    };
    let cron = if line.starts_with('@') {
        let nickname = next()?.to_lowercase();
        match NICKNAMES.iter().find(|(known, _)| *known == nickname) {
            Some((_, fields)) => Some((*fields).to_owned()),
            None if nickname == "@reboot" => None,
            None => return None,
        }
    } else {
        let fields = [next()?, next()?, next()?, next()?, next()?];
        let is_field = |field: &&str| {
            field.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'*' | b',' | b'-' | b'/'))
        };
        if !fields.iter().all(is_field) {
            return None;
        }
        Some(debian(fields).join(" "))
    };
    let user = if system { Some(next()?) } else { None };
    let (command, input) = split_input(rest);
    (!command.trim().is_empty()).then_some(Job { cron, user, command, input })
}

/// Debian's cron takes a day or weekday field that begins with `*` for unrestricted, so that the other one decides with
/// it; here that is said by a `+`.
fn debian(fields: [&str; 5]) -> Vec<String> {
    let (day, weekday) = (fields[2], fields[4]);
    let is_step = |field: &str| field.starts_with('*') && field != "*";
    let both = (is_step(day) && weekday != "*") || (is_step(weekday) && day != "*");
    let mut fields: Vec<String> = fields.into_iter().map(Into::into).collect();
    if both {
        fields[4] = format!("+{weekday}");
    }
    fields
}

/// The first `%` ends the command, the others are line breaks of its input; `\%` is a percent sign.
fn split_input(text: &str) -> (String, Option<String>) {
    let mut parts = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let part = parts.len() - 1;
        match character {
            '\\' if characters.peek() == Some(&'%') => {
                characters.next();
                parts[part].push('%');
            }
            '%' => parts.push(String::new()),
            other => parts[part].push(other),
        }
    }
    let command = parts.remove(0);
    (command, (!parts.is_empty()).then(|| parts.join("\n")))
}

impl Job<'_> {
    fn write(&self, settings: &Settings, comments: &[&str], number: usize, names: &mut Names) -> Imported {
        let word = self.command.split_whitespace().find(|word| !word.contains('=')).unwrap_or_default();
        let program = word.rsplit('/').next().unwrap_or_default();
        let program = program.rsplit_once('.').map_or(program, |(stem, _)| stem);
        let name = names.name(program, "job");
        let mut writer = Writer::default();
        writer.comment(0, &format!("from line {number} of a crontab"));
        comments.iter().for_each(|comment| writer.comment(0, comment));
        writer.line(0, &format!("name: {}", serde_json::Value::from(name.as_str())));
        match &self.cron {
            Some(cron) => {
                writer.line(0, "triggers:");
                let cron = serde_json::Value::from(cron.as_str());
                match &settings.timezone {
                    Some(zone) => {
                        writer.line(
                            2,
                            &format!("- {{cron: {cron}, timezone: {}}}", serde_json::Value::from(zone.as_str())),
                        );
                    }
                    None => {
                        writer.comment(
                            2,
                            "cron used the zone of its machine; this is UTC unless `timezone` says otherwise",
                        );
                        writer.line(2, &format!("- {{cron: {cron}}}"));
                    }
                }
            }
            None => writer.left_out(0, "@reboot, there is no trigger for the start of a machine"),
        }
        for setting in &settings.left_out {
            writer.left_out(0, setting);
        }
        if let Some(user) = self.user {
            writer.left_out(0, &format!("user {user}, a worker executes tasks as its own user"));
        }
        if !settings.env.is_empty() {
            writer.line(0, "env:");
            settings.env.iter().for_each(|(name, value)| writer.text(2, name, &literal(value)));
        }
        writer.line(0, "tasks:");
        writer.line(2, "run:");
        if let Some(shell) = &settings.shell {
            let shell = shell.rsplit('/').next().unwrap_or(shell);
            match shell {
                "sh" | "bash" => writer.text(4, "shell", shell),
                _ => writer.left_out(4, &format!("SHELL={shell}, write `shell: {shell}` if workers have it")),
            }
        }
        writer.comment(4, "cron's shell goes on after a failure and begins in the home folder");
        let command = format!("set +e\ncd \"${{HOME:-/}}\"\n{}", self.command);
        let script = match &self.input {
            None => command,
            Some(input) => format!("{command} <<'END_OF_INPUT'\n{input}\nEND_OF_INPUT"),
        };
        writer.script(4, "run", &literal(&script));
        writer.finish(name)
    }
}
