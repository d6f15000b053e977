//! What schedules promise, case by case.

use crate::Micros;
use crate::time;
use crate::workflow::{Catchup, CatchupPolicy, Trigger, Workflow};

use super::*;

fn at(text: &str) -> Micros {
    time::parse(text).unwrap_or_else(|| panic!("{text} is no time"))
}

fn trigger(yaml: &str) -> Trigger {
    let workflow: Workflow =
        crate::parse(&format!("{{name: w, triggers: [{yaml}], tasks: {{a: {{run: x}}}}}}")).unwrap();
    workflow.triggers[0].clone()
}

pub(super) fn schedule(yaml: &str, calendar: Option<CalendarSpec>) -> Schedule {
    let calendar = calendar.map(|spec| Calendar::new(&spec).unwrap());
    Schedule::new(&trigger(yaml), at("2026-01-01T00:00:00Z"), calendar).unwrap()
}

fn weekends(action: CalendarAction) -> CalendarSpec {
    CalendarSpec {
        timezone: None,
        days: vec!["2026-12-25".into()],
        weekdays: vec!["sat".into(), "sun".into()],
        windows: Vec::new(),
        action,
    }
}

/// The next fires after an instant: `nominal`, or `nominal > fire_at` where they differ.
fn fires(schedule: &Schedule, after: &str, most: usize) -> Vec<String> {
    let (mut after, mut found) = (at(after), Vec::new());
    while found.len() < most {
        let Next::Fire { fire, .. } = schedule.next(after, found.len() as u64) else { break };
        let short = time::rfc3339_short;
        found.push(match fire.fire_at == fire.nominal {
            true => short(fire.nominal),
            false => format!("{} > {}", short(fire.nominal), short(fire.fire_at)),
        });
        after = fire.nominal;
    }
    found
}

#[test]
fn errors_name_the_field_and_the_cause() {
    let check = |text: &str, expected: &str| match Cron::parse(text, "UTC") {
        Ok(_) => panic!("{text} was taken"),
        Err(error) => {
            assert_eq!(error.to_string(), expected, "{text}");
            assert!(!error.help().is_empty());
        }
    };
    check("", "it is empty");
    check("* * *", "it has 3 fields");
    check("*", "it has 1 field");
    check("* * * * * * * *", "it has 8 fields");
    check("0 0 0 1 1 * 2030-2020", "the year field `2030-2020`: the range runs backwards");
    check("0 0 0 1 1 * 1960", "the year field `1960`: `1960` is not between 1970 and 9999");
    check("0 0 L-31 * *", "the day field `L-31`: `31` is not between 0 and 30");
    check("*/0 * * * *", "the minute field `*/0`: a step of 0 never comes to an end");
    check("0 25 * * *", "the hour field `25`: `25` is not between 0 and 23");
    check("60 * * * * *", "the second field `60`: `60` is not between 0 and 59");
    check("0 0 0 * *", "the day field `0`: `0` is not between 1 and 31");
    check("0 0 * 13 *", "the month field `13`: `13` is not between 1 and 12");
    check("0 0 * * 8", "the weekday field `8`: `8` is not between 0 and 7");
    check("0 1,,2 * * *", "the hour field `1,,2`: a value is missing");
    check("*/x * * * *", "the minute field `*/X`: the step `X` is not a number");
    check("JAN * * * *", "the minute field `JAN`: `JAN` is not a name that belongs there");
    check("0 0 * * FRIDAY", "the weekday field `FRIDAY`: `FRIDAY` is not a name that belongs there");
    check("0 0 * MON *", "the month field `MON`: `MON` is not a name that belongs there");
    check("0 0 * * 1#6", "the weekday field `1#6`: `6` is not one of #1 to #5");
    check("0 0 * * L", "the weekday field `L`: `L` needs a weekday before it");
    check("0 0 31 2 *", "it never fires: there is no such day");
    check("0 0 30,31 FEB *", "it never fires: there is no such day");
    check("0 0 * * +x", "the weekday field `+X`: `X` is not a number");
    check("@noon", "there is no `@noon`");
    check(&"1".repeat(300), "it is longer than 256 characters");
    check("é * * * *", "the minute field `é`: `é` is not a number");
    let error = Cron::parse("* * * * *", "Europe/Berln").unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.help().as_str()),
        ("there is no timezone `Europe/Berln`", "did you mean `Europe/Berlin`?")
    );
    assert_eq!(Cron::parse("* * * * *", "Tokyo").unwrap_err().help(), "did you mean `Asia/Tokyo`?");
}

#[test]
fn fixed_means_that_neither_hour_nor_minute_begins_with_a_star() {
    for (text, fixed) in [
        ("0 2 * * *", true),
        ("0,30 1-3 * * *", true),
        ("*/10 30 2 * * *", true),
        ("@daily", true),
        ("* 2 * * *", false),
        ("0 * * * *", false),
        ("0 */2 * * *", false),
        ("0-30/10 2 * * *", true),
        ("0 0/2 * * *", true),
        ("*,0 2 * * *", false),
        ("@hourly", false),
    ] {
        assert_eq!(Cron::parse(text, "UTC").unwrap().is_fixed(), fixed, "{text}");
    }
}

/// The next instants of an expression in UTC, without their year.
fn instants(text: &str, after: &str, most: usize) -> Vec<String> {
    let cron = Cron::parse(text, "UTC").unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut at = at(after);
    let mut found = Vec::new();
    while found.len() < most {
        at = cron.next_after(at).unwrap_or_else(|| panic!("{text} ends"));
        found.push(time::rfc3339_short(at)[5..16].to_owned());
    }
    found
}

#[test]
fn forms_of_other_crons_are_taken() {
    let from = "2026-01-01T00:00:00Z";
    assert_eq!(instants("0 0 * * 7L", from, 2), ["01-25T00:00", "02-22T00:00"]);
    assert_eq!(instants("0 0 * * 5,7L", "2026-01-20T00:00:00Z", 3), ["01-23T00:00", "01-25T00:00", "01-30T00:00"]);
    assert_eq!(instants("0 *,0 * * *", from, 2), ["01-01T01:00", "01-01T02:00"]);
    assert_eq!(instants("5/15 0 * * *", from, 4), ["01-01T00:05", "01-01T00:20", "01-01T00:35", "01-01T00:50"]);
    assert_eq!(
        instants("0 0 * * FRI-MON", from, 5),
        ["01-02T00:00", "01-03T00:00", "01-04T00:00", "01-05T00:00", "01-09T00:00"]
    );
    assert_eq!(instants("0 22-3/2 * * *", from, 4), ["01-01T02:00", "01-01T22:00", "01-02T00:00", "01-02T02:00"]);
    assert_eq!(instants("0 0 1 NOV-FEB *", from, 4), ["02-01T00:00", "11-01T00:00", "12-01T00:00", "01-01T00:00"]);
    assert_eq!(instants("0 0 L-3 * *", from, 2), ["01-28T00:00", "02-25T00:00"]);
    assert_eq!(
        instants("0 0 * * MON-FRI#1", from, 6),
        ["01-02T00:00", "01-05T00:00", "01-06T00:00", "01-07T00:00", "02-02T00:00", "02-03T00:00"]
    );
    assert_eq!(instants("0 0 * * SAT-SUN", from, 3), ["01-03T00:00", "01-04T00:00", "01-10T00:00"]);
    let once = Cron::parse("0 0 0 1 1 * 2099,2100", "UTC").unwrap();
    assert_eq!(once.next_after(at(from)), Some(at("2099-01-01T00:00:00Z")));
    assert_eq!(once.next_after(at("2100-01-01T00:00:00Z")), None);
    assert!(Cron::parse("0 0 0 29 2 * 2027", "UTC").is_err(), "no such day in that year");
}

#[test]
fn a_step_that_leads_out_of_its_field_is_the_first_value_and_a_warning() {
    let cron = Cron::parse("0 0 1 */15 *", "UTC").unwrap();
    assert_eq!(cron.describe(), "at 00:00 on day 1 of the month in January");
    assert_eq!(cron.warnings(), ["the step of `*/15` in the month field leads out of it: only 1 fits"]);
    assert_eq!(instants("*/99 0 * * *", "2026-01-01T00:30:00Z", 1), ["01-02T00:00"]);
    assert_eq!(Cron::parse("*/15 0 * * *", "UTC").unwrap().warnings(), Vec::<String>::new());
}

/// A file with one zone: an hour east of UTC until `change`, then `after` seconds.
fn zone_file(change: i64, after: i32, footer: &str) -> Vec<u8> {
    let header = |counts: [u32; 6]| {
        let mut bytes = b"TZif2".to_vec();
        bytes.extend([0; 15]);
        counts.iter().for_each(|count| bytes.extend(count.to_be_bytes()));
        bytes
    };
    let mut file = header([0; 6]);
    file.extend(header([0, 0, 0, 1, 2, 4]));
    file.extend(change.to_be_bytes());
    file.push(1);
    for offset in [3_600, after] {
        file.extend(offset.to_be_bytes());
        file.extend([0, 0]);
    }
    file.extend(b"ABC\0");
    file.extend(format!("\n{footer}\n").bytes());
    file
}

#[test]
fn tables_that_were_installed_are_used_for_what_is_made_afterwards() {
    // A zone that nothing else here uses: tables are installed for the whole process.
    let zone = "Antarctica/Troll";
    let mut first = ZoneTables::new("/one", "2026a");
    assert!(first.add(zone, &zone_file(at("2026-06-01T00:00:00Z") / 1_000_000, 7_200, "<+02>-2")));
    assert!(!first.add(zone, b"nonsense") && !first.add("Nowhere/City", &zone_file(0, 0, "")));
    assert!(install_zones(first.clone()) && !install_zones(first));
    assert_eq!(zone_version(), ZoneVersion { source: "/one".into(), version: "2026a".into() });
    let cron = Cron::parse("30 2 * * *", zone).unwrap();
    assert_eq!(cron.next_after(at("2026-05-30T12:00:00Z")), Some(at("2026-05-31T01:30:00Z")));
    assert_eq!(cron.next_after(at("2026-06-01T12:00:00Z")), Some(at("2026-06-02T00:30:00Z")));
    // The change leaps from 01:00 to 02:00 local time.
    let leapt = Cron::parse("30 1 * * *", zone).unwrap();
    assert_eq!(leapt.next_after(at("2026-05-31T12:00:00Z")), Some(at("2026-06-01T00:00:00Z")));
    assert_eq!(local(at("2026-07-01T00:00:00Z"), cron.timezone()), "2026-07-01 02:00:00 +02:00");

    let mut second = ZoneTables::new("/two", "2026b");
    assert!(second.add(zone, &zone_file(0, 0, "GMT0BST,M3.5.0/1,M10.5.0")));
    assert!(install_zones(second));
    let moved = Cron::parse("30 2 * * *", zone).unwrap();
    assert_eq!(moved.next_after(at("2026-01-01T00:00:00Z")), Some(at("2026-01-01T02:30:00Z")));
    assert_eq!(
        moved.next_after(at("2030-07-01T00:00:00Z")),
        Some(at("2030-07-01T01:30:00Z")),
        "by the rule at the end"
    );
    assert_eq!(moved.next_after(at("2030-10-26T12:00:00Z")), Some(at("2030-10-27T02:30:00Z")));
    let twice = Cron::parse("30 * * * *", zone).unwrap();
    assert_eq!(twice.next_after(at("2030-10-27T00:30:00Z")), Some(at("2030-10-27T01:30:00Z")));
    assert!(install_zones(ZoneTables::default()));
    assert_eq!(zone_version().source, "bundled");
}

#[test]
fn the_tables_of_this_machine_say_what_the_bundled_ones_do_about_the_past() {
    let folder = std::path::Path::new("/usr/share/zoneinfo");
    let mut compared = 0;
    for name in
        ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo", "Africa/Cairo", "Pacific/Apia"]
    {
        let Ok(file) = std::fs::read(folder.join(name)) else { continue };
        let table = super::tzif::Transitions::read(&file).unwrap_or_else(|| panic!("{name} cannot be read"));
        let zone = timezone(name).unwrap();
        for day in 0..20_000_i64 {
            let at = day * 86_400 + 1_800;
            let bundled = zone.instant(at * 1_000_000).unwrap();
            assert_eq!(i64::from(bundled.offset().local_minus_utc()), table.offset(at), "{name} {bundled}");
            compared += 1;
        }
    }
    assert!(compared > 0 || !folder.exists());
}

#[test]
fn the_search_ends() {
    let rare = Cron::parse("0 0 29 2 +MON", "UTC").unwrap();
    assert_eq!(rare.next_after(at("2072-03-01T00:00:00Z")), Some(at("2112-02-29T00:00:00Z")));
    // The longest there is between two: each of these days exists in every 41 years of the 400 that repeat.
    for weekday in 0..7 {
        let cron = Cron::parse(&format!("0 0 29 2 +{weekday}"), "UTC").unwrap();
        for year in (2000..2400).step_by(1) {
            assert!(cron.next_after(time::month_start(year, 3)).is_some(), "{weekday} after {year}");
        }
    }
    let every = Cron::parse("* * * * * *", "Europe/Berlin").unwrap();
    assert_eq!(every.next_after(at("9999-12-31T22:59:58Z")), Some(at("9999-12-31T22:59:59Z")));
    for end in [at("9999-12-31T23:59:59Z"), Micros::MAX, Micros::MIN] {
        assert_eq!(every.next_after(end), None);
    }
    // Two o'clock is skipped on every last Sunday of March, so nothing is ever found.
    let never = Cron::parse("*/15 2 * 3 SUNL", "Europe/Berlin").unwrap();
    assert_eq!(never.next_after(at("2026-01-01T00:00:00Z")), None);
}

#[test]
fn words() {
    for (text, expected) in [
        ("0 2 * * 1-5", "at 02:00 on weekdays"),
        ("0 2 * * *", "at 02:00 every day"),
        ("30 0 2 * * *", "at 02:00:30 every day"),
        ("0 9,17 * * MON,FRI", "at 09:00 and 17:00 on Mondays and Fridays"),
        ("* * * * *", "every minute"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:59 on weekdays"),
        ("@hourly", "every hour, on the hour"),
        ("5 * * * *", "at minute 5"),
        ("0 */2 * * *", "at minute 0 of every second hour"),
        ("0 0 1 1 *", "at 00:00 on day 1 of the month in January"),
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        ("0 0 LW * *", "at 00:00 on the last weekday of the month"),
        ("0 0 15W * *", "at 00:00 on the weekday nearest to day 15 of the month"),
        ("0 0 * * FRI#2", "at 00:00 on the second Friday of the month"),
        ("0 0 * * FRIL", "at 00:00 on the last Friday of the month"),
        ("0 0 13 * FRI", "at 00:00 on day 13 of the month or on Fridays"),
        ("0 0 * JAN-MAR SAT,SUN", "at 00:00 on weekends from January to March"),
        ("0 0 * * 6,0", "at 00:00 on weekends"),
        ("0 0 13 * +FRI", "when the clock shows minute 0, hour 0, day of the month 13, weekday +5"),
        ("5-20/3 1 * * *", "when the clock shows minute 5-20/3, hour 1"),
        ("*/20 0-5,7 * * *", "when the clock shows minute */20, hour 0-5,7"),
    ] {
        assert_eq!(Cron::parse(text, "UTC").unwrap().describe(), expected, "{text}");
    }
}

#[test]
fn intervals_are_anchored() {
    let from_start = schedule("{every: 15m, start: 2026-02-01T00:05:00Z, end: 2026-02-01T00:36:00Z}", None);
    assert_eq!(
        fires(&from_start, "2026-01-01T00:00:00Z", 9),
        ["2026-02-01T00:05:00Z", "2026-02-01T00:20:00Z", "2026-02-01T00:35:00Z"]
    );
    let from_creation = schedule("{every: 90m, max_executions: 2}", None);
    assert_eq!(fires(&from_creation, "1970-01-01T00:00:00Z", 9), ["2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z"]);
    assert_eq!(fires(&from_creation, "2026-01-01T03:00:01Z", 1), ["2026-01-01T04:30:00Z"]);
}

#[test]
fn start_end_and_the_most_executions_bound_a_schedule() {
    let cron = schedule("{cron: '0 0 * * *', start: 2026-02-01T00:00:00Z, end: 2026-02-03T00:00:00Z}", None);
    assert_eq!(fires(&cron, "1970-01-01T00:00:00Z", 9), ["2026-02-01T00:00:00Z", "2026-02-02T00:00:00Z"]);
    let once = schedule("{at: 2026-05-01T10:00:00Z}", None);
    assert_eq!(fires(&once, "2026-01-01T00:00:00Z", 9), ["2026-05-01T10:00:00Z"]);
    assert_eq!(fires(&once, "2026-05-01T10:00:00Z", 9), Vec::<String>::new());
    let error = Schedule::new(&trigger("{webhook: a}"), 0, None).unwrap_err();
    assert_eq!(error.to_string(), "the clock does not fire a trigger of the kind webhook");
    let mut backwards = trigger("{every: 1h}");
    (backwards.start, backwards.end) = (Some(2), Some(1));
    assert_eq!(Schedule::new(&backwards, 0, None).unwrap_err(), ScheduleError::EndBeforeStart);
}

#[test]
fn closed_days_are_skipped_and_said() {
    let daily = schedule("{cron: '0 2 * * *'}", Some(weekends(CalendarAction::Skip)));
    // The 25th of December 2026 is a Friday, so three days follow each other.
    let Next::Fire { fire, blacked_out } = daily.next(at("2026-12-24T02:00:00Z"), 0) else { panic!() };
    assert_eq!(fire.nominal, at("2026-12-28T02:00:00Z"));
    let expected = BlackedOut { first: at("2026-12-25T02:00:00Z"), last: at("2026-12-28T00:00:00Z") - 1 };
    assert_eq!(blacked_out, Some(expected));
    let Next::Fire { blacked_out, .. } = daily.next(at("2026-12-28T02:00:00Z"), 0) else { panic!() };
    assert_eq!(blacked_out, None);
}

#[test]
fn closed_windows_are_skipped_however_many_fires_they_hold() {
    let freeze = |from: &str, to: &str| Window { from: at(from), to: at(to) };
    let windows = vec![
        freeze("2026-06-10T00:00:00Z", "2027-06-10T00:00:00Z"),
        freeze("2026-06-01T00:00:00Z", "2026-06-10T00:00:00Z"),
    ];
    let spec = CalendarSpec { windows, weekdays: Vec::new(), ..weekends(CalendarAction::Skip) };
    let seconds = schedule("{cron: '* * * * * *'}", Some(spec));
    assert_eq!(fires(&seconds, "2026-05-31T23:59:58Z", 2), ["2026-05-31T23:59:59Z", "2027-06-10T00:00:00Z"]);
}

#[test]
fn closed_days_move_the_first_fire_unless_a_regular_one_comes_before() {
    let monthly = schedule("{cron: '0 9 1 * *'}", Some(weekends(CalendarAction::Move)));
    assert_eq!(
        fires(&monthly, "2026-07-02T00:00:00Z", 3),
        ["2026-08-01T09:00:00Z > 2026-08-03T09:00:00Z", "2026-09-01T09:00:00Z", "2026-10-01T09:00:00Z"]
    );
    let daily = schedule("{cron: '0 9 * * *'}", Some(weekends(CalendarAction::Move)));
    assert_eq!(fires(&daily, "2026-07-31T00:00:00Z", 2), ["2026-07-31T09:00:00Z", "2026-08-03T09:00:00Z"]);
    let both = schedule("{cron: '0 9 * * SAT,SUN'}", Some(weekends(CalendarAction::Move)));
    assert_eq!(
        fires(&both, "2026-07-31T00:00:00Z", 2),
        ["2026-08-01T09:00:00Z > 2026-08-03T09:00:00Z", "2026-08-08T09:00:00Z > 2026-08-10T09:00:00Z"]
    );
}

#[test]
fn bad_calendars_are_refused() {
    let check =
        |spec: CalendarSpec, expected: &str| assert_eq!(Calendar::new(&spec).unwrap_err().to_string(), expected);
    let good = || weekends(CalendarAction::Skip);
    check(
        CalendarSpec { days: vec!["2026-02-30".into()], ..good() },
        "days[0] `2026-02-30` is not a day like `2026-12-25`",
    );
    check(
        CalendarSpec { weekdays: vec!["sat".into(), "tomorrow".into()], ..good() },
        "weekdays[1] `tomorrow` is not one of mon, tue, wed, thu, fri, sat, sun",
    );
    check(
        CalendarSpec { windows: vec![Window { from: 2, to: 2 }], ..good() },
        "windows[0] does not end after it begins",
    );
    check(CalendarSpec { timezone: Some("Mars".into()), ..good() }, "there is no timezone `Mars`");
    let all = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].map(String::from).to_vec();
    check(CalendarSpec { weekdays: all, ..good() }, "every weekday is closed, so nothing could ever fire");
}

#[test]
fn a_calendar_that_does_not_open_ends_the_schedule() {
    let start = chrono::NaiveDate::from_ymd_opt(2026, 1, 1).unwrap();
    let days = start.iter_days().take(2_000).map(|day| day.to_string()).collect();
    let closed = schedule("{cron: '* * * * * *'}", Some(CalendarSpec { days, ..weekends(CalendarAction::Skip) }));
    assert_eq!(closed.next(at("2026-01-01T00:00:00Z"), 0), Next::Done);
}

pub(super) fn catchup(policy: CatchupPolicy, window_ms: Option<u64>, max: Option<u32>) -> Option<Catchup> {
    Some(Catchup { policy, window_ms, max })
}

#[test]
fn catching_up_follows_the_policy() {
    let hourly = schedule("{cron: '0 * * * *'}", None);
    let (since, now) = (at("2026-03-01T00:00:00Z"), at("2026-03-01T10:30:00Z"));
    let owed = |policy, window, max| {
        let owed = hourly.owed(since, 0, now, catchup(policy, window, max));
        let hours: Vec<i64> = owed.fire.iter().map(|fire| (fire.nominal - since) / 3_600_000_000).collect();
        (hours, owed.missed.map_or(0, |missed| missed.count))
    };
    assert_eq!(owed(CatchupPolicy::None, None, None), (vec![], 10));
    assert_eq!(owed(CatchupPolicy::Latest, None, None), (vec![10], 9));
    assert_eq!(owed(CatchupPolicy::Latest, Some(60_000), None), (vec![], 10));
    assert_eq!(owed(CatchupPolicy::All, None, None), ((1..=10).collect(), 0));
    assert_eq!(owed(CatchupPolicy::All, Some(3 * 3_600_000), None), (vec![8, 9, 10], 7));
    assert_eq!(owed(CatchupPolicy::All, None, Some(2)), (vec![9, 10], 8));
    assert_eq!(hourly.owed(now, 0, now, None), CatchupFires::default());
    assert_eq!(hourly.owed(since, 0, now, None).fire.len(), 1);
}

#[test]
fn a_catch_up_of_a_hundred_million_is_bounded_and_said() {
    let seconds = schedule("{cron: '* * * * * *'}", None);
    let (since, now) = (at("2026-01-01T00:00:00Z"), at("2029-03-01T00:00:00Z"));
    let owed = seconds.owed(since, 0, now, catchup(CatchupPolicy::All, None, None));
    assert_eq!(owed.fire.len(), DEFAULT_CATCHUP_MAX as usize);
    assert_eq!(owed.fire.last().map(|fire| fire.nominal), Some(now));
    let missed = owed.missed.unwrap();
    assert_eq!((missed.count, missed.exact), (MOST_COUNTED, false));
    assert_eq!((missed.first, missed.last), (since + 1_000_000, owed.fire[0].nominal - 1_000_000));
    let most = seconds.owed(since, 0, now, catchup(CatchupPolicy::All, None, Some(u32::MAX)));
    assert_eq!(most.fire.len(), MOST_CATCHUP as usize);
    assert_eq!(most.fire[0].nominal, now - i64::from(MOST_CATCHUP - 1) * 1_000_000);
}

#[test]
fn a_single_fire_in_the_past_is_owed_or_missed() {
    let once = schedule("{at: 2025-05-01T10:00:00Z}", None);
    let (since, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:01Z"));
    let late = at("2025-05-01T10:00:00Z");
    assert_eq!(once.owed(since, 0, now, None).fire, [Fire { nominal: late, fire_at: late }]);
    let none = once.owed(since, 0, now, catchup(CatchupPolicy::None, None, None));
    assert_eq!((none.fire.len(), none.missed.map(|missed| missed.first)), (0, Some(late)));
    assert_eq!(once.owed(since, 1, now, None), CatchupFires::default());
}

#[test]
fn the_most_executions_bound_a_catch_up() {
    let hourly = schedule("{cron: '0 * * * *', max_executions: 5}", None);
    let (since, now) = (at("2026-03-01T00:00:00Z"), at("2026-03-01T10:30:00Z"));
    let owed = |fired| hourly.owed(since, fired, now, catchup(CatchupPolicy::All, None, None)).fire.len();
    assert_eq!((owed(0), owed(3), owed(5)), (5, 2, 0));
}

#[test]
fn what_only_jitter_holds_back_is_not_missed() {
    let hourly = schedule("{id: late, cron: '0 * * * *', jitter: 30m}", None);
    let since = at("2026-03-01T00:30:00Z");
    let Next::Fire { fire, .. } = hourly.next(since, 0) else { panic!() };
    assert!(fire.fire_at > fire.nominal && fire.fire_at <= fire.nominal + 1_800_000_000);
    let owed = hourly.owed(since, 0, fire.fire_at - 1, catchup(CatchupPolicy::None, None, None));
    assert_eq!((owed.fire, owed.missed), (vec![fire], None));
    let owed = hourly.owed(since, 0, fire.fire_at, catchup(CatchupPolicy::None, None, None));
    assert_eq!((owed.fire, owed.missed.map(|missed| missed.count)), (vec![], Some(1)));
}

#[test]
fn the_identity_survives_what_does_not_change_when_it_fires() {
    let id = |yaml: &str| identity(&trigger(yaml));
    // Written down: a change of this number would orphan the fires of every stored trigger.
    assert_eq!(id("{cron: '0 2 * * 1-5'}"), "cron-47d2f79c");
    let same = id("{cron: '0 2 * * mon-fri', timezone: Europe/Paris}");
    for other in [
        "{cron: ' 0  2 * * MON-FRI', timezone: Europe/Paris}",
        "{cron: '0 2 * * MON-FRI', timezone: Europe/Paris, jitter: 2m, catchup: all, priority: high}",
    ] {
        assert_eq!(id(other), same, "{other}");
    }
    assert_eq!(id("{cron: '0 2 * * *'}"), id("{cron: '0 2 * * *', timezone: UTC}"));
    assert_eq!(id("{workflow: a, on: [success, failed]}"), id("{workflow: a, on: [failed, success]}"));
    let different = [
        "{cron: '0 2 * * mon-fri'}",
        "{every: 1h}",
        "{every: 2h}",
        "{event: a}",
        "{webhook: a}",
        "{workflow: a}",
        "{manual: true}",
    ];
    let mut ids: Vec<String> = different.iter().map(|yaml| id(yaml)).chain([same]).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), different.len() + 1);
}

#[test]
fn jitter_is_stable_spread_and_bounded() {
    let late: Vec<Micros> = (0..1_000).map(|minute| jitter("t", minute * 60_000_000, 1_000)).collect();
    assert!(late.iter().all(|late| (0..1_000_000).contains(late)));
    for quarter in 0..4 {
        let within = late.iter().filter(|late| (quarter * 250_000..(quarter + 1) * 250_000).contains(*late)).count();
        assert!((150..350).contains(&within), "{within} of 1000 in quarter {quarter}");
    }
    assert_eq!(jitter("t", 60_000_000, 1_000), late[1]);
    assert_ne!(jitter("u", 60_000_000, 1_000), late[1]);
    assert_eq!(jitter("t", 60_000_000, 0), 0);
    assert!(jitter("t", 1, u64::MAX) >= 0);
}
