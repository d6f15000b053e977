//! What holds for every schedule.

use proptest::prelude::*;

use crate::Micros;
use crate::workflow::CatchupPolicy;

use super::tests::{catchup, schedule};
use super::*;

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "America/Sao_Paulo",
];

fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("*".to_owned()),
        3 => (low..=high).prop_map(|number| number.to_string()),
        1 => (1..=high.min(20)).prop_map(|step| format!("*/{step}")),
        1 => (low..=high, low..=high).prop_map(|(one, other)| format!("{}-{}", one.min(other), one.max(other))),
        1 => (low..=high, low..=high).prop_map(|(one, other)| format!("{one},{other}")),
    ]
}

fn cron() -> impl Strategy<Value = Cron> {
    let fields = (field(0, 59), field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 7));
    (fields, 0..ZONES.len(), any::<bool>()).prop_map(|((second, minute, hour, day, month, weekday), zone, seconds)| {
        let five = format!("{minute} {hour} {day} {month} {weekday}");
        let text = if seconds { format!("{second} {five}") } else { five };
        Cron::parse(&text, ZONES[zone]).unwrap_or_else(|error| panic!("{text}: {error}"))
    })
}

/// Near changes of clocks as often as anywhere.
fn instant() -> impl Strategy<Value = Micros> {
    let change = prop::sample::select(vec![
        1_774_746_000, // Berlin forward, 2026-03-29
        1_792_890_000, // Berlin back, 2026-10-25
        1_772_953_200, // New York forward, 2026-03-08
        1_793_512_800, // New York back, 2026-11-01
        1_775_314_800, // Lord Howe back, 2026-04-04
        1_791_041_400, // Lord Howe forward, 2026-10-03
        1_325_239_200, // Apia loses a day, 2011-12-30
    ]);
    prop_oneof![
        (0..4_000_000_000_i64).prop_map(|second| second * 1_000_000),
        (change, -9_000_i64..9_000, 0..1_000_000_i64)
            .prop_map(|(change, seconds, micros)| (change + seconds) * 1_000_000 + micros),
    ]
}

proptest! {
    #[test]
    fn fires_come_strictly_one_after_the_other(cron in cron(), from in instant()) {
        let mut after = from;
        for _ in 0..50 {
            let Some(next) = cron.next_after(after) else { break };
            prop_assert!(next > after, "{next} is not after {after}");
            // Who restarts anywhere in between finds the same.
            prop_assert_eq!(cron.next_after(after + (next - after) / 2), Some(next));
            prop_assert_eq!(cron.next_after(next - 1), Some(next));
            after = next;
        }
    }

    /// The definition, second by second: slow, but nothing to misunderstand.
    #[test]
    fn elapsed_time_is_every_second_that_fits(cron in cron().prop_filter("elapsed", |cron| !cron.is_fixed()), from in instant()) {
        let first = from.div_euclid(1_000_000) + 1;
        let fits = |second: &i64| {
            let clock = cron.timezone().instant(second * 1_000_000).unwrap().naive_local();
            cron.fits(clock)
        };
        let expected = (first..first + 8_000).find(fits).map(|second| second * 1_000_000);
        let found = cron.next_after(from).filter(|found| *found < (first + 8_000) * 1_000_000);
        prop_assert_eq!(found, expected);
    }

    /// The definition, local minute by local minute.
    #[test]
    fn fixed_times_fire_at_the_first_instant_that_is_not_before_them(
        cron in cron().prop_filter("fixed minutes", |cron| cron.is_fixed() && cron.fields.0[0] == "0"),
        from in instant(),
    ) {
        use chrono::{TimeDelta, Timelike};
        let clock = cron.timezone().instant(from).unwrap().naive_local();
        let minute = clock.with_second(0).and_then(|clock| clock.with_nanosecond(0)).unwrap();
        // A day and more on both sides: no clock was ever changed by more.
        let minutes = (-1_500..3_000).map(|offset| minute + TimeDelta::minutes(offset));
        let instants = minutes.filter(|clock| cron.fits(*clock)).filter_map(|clock| cron.timezone().earliest(clock));
        let expected = instants.filter(|at| *at > from).min();
        let end = from + 1_440 * 60_000_000;
        prop_assert_eq!(cron.next_after(from).filter(|at| *at < end), expected.filter(|at| *at < end));
    }

    #[test]
    fn no_catch_up_exceeds_its_bound(
        (cron, longest) in prop::sample::select(vec![
            ("* * * * * *", 4_000),
            ("*/7 * * * *", 400_000),
            ("0 2 * * *", 40_000_000),
            ("30 1 1 * *", 400_000_000),
            ("0 */3 * * 1-5", 4_000_000),
        ]),
        policy in prop::sample::select(CatchupPolicy::ALL.to_vec()),
        since in instant(),
        length in 0.0..1.0_f64,
        max in prop::option::of(1_u32..50),
        window_ms in prop::option::of(1_u64..1_000_000_000),
    ) {
        let schedule = schedule(&format!("{{cron: '{cron}', timezone: Europe/Berlin}}"), None);
        let now = since + (length * f64::from(longest)) as i64 * 1_000_000;
        let owed = schedule.owed(since, 0, now, catchup(policy, window_ms, max));
        let most = match policy {
            CatchupPolicy::None => 0,
            CatchupPolicy::Latest => 1,
            CatchupPolicy::All => max.unwrap_or(DEFAULT_CATCHUP_MAX) as usize,
        };
        prop_assert!(owed.fire.len() <= most);
        prop_assert!(owed.fire.windows(2).all(|pair| pair[0].nominal < pair[1].nominal));
        let oldest = window_ms.filter(|_| policy != CatchupPolicy::None).map_or(since, |ms| since.max(now - ms as i64 * 1_000));
        prop_assert!(owed.fire.iter().all(|fire| oldest < fire.nominal && fire.nominal <= now));
        // Nothing is forgotten: missed and made up for together are what a walk finds.
        let mut walked = 0_u64;
        let mut after = since;
        while let Next::Fire { fire, .. } = schedule.next(after, 0) {
            if fire.nominal > now {
                break;
            }
            walked += 1;
            after = fire.nominal;
        }
        let said = owed.fire.len() as u64 + owed.missed.map_or(0, |missed| missed.count);
        prop_assert_eq!(said, walked);
    }
}
