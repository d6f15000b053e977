//! `cron explain`.

use serde_json::json;

use crate::support::Place;

#[test]
fn an_expression_is_explained_in_words_local_time_and_utc() {
    let place = Place::new();
    let arguments =
        ["cron", "explain", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-27T12:00:00Z", "-n", "3"];
    let ended = place.call(&[&arguments[..], &["-o", "table"]].concat()).expect(0);
    ended.says(&[
        "at 02:30 every day, Europe/Berlin",
        "2026-03-28 02:30:00 +01:00  2026-03-28T01:30:00Z",
        // The clocks jump over 02:30.
        "2026-03-29 03:00:00 +02:00  2026-03-29T01:00:00Z",
        "2026-03-30 02:30:00 +02:00  2026-03-30T00:30:00Z",
    ]);
    let expected = json!({"next": ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]});
    assert_eq!(place.call(&[&arguments[..], &["-o", "json"]].concat()).expect(0).json(), expected);
    assert_eq!(place.call(&arguments).expect(0).json(), expected);
}

#[test]
fn without_flags_it_is_utc_now_and_five_fires() {
    let place = Place::new();
    let next = place.call(&["cron", "explain", "@hourly"]).expect(0).json();
    let next: Vec<&str> = next["next"].as_array().unwrap().iter().map(|at| at.as_str().unwrap()).collect();
    assert!(next.len() == 5 && next.iter().all(|at| at.ends_with(":00:00Z")), "{next:?}");
    let many = place.call(&["cron", "explain", "* * * * * *", "--count", "1000"]).expect(0).json();
    assert_eq!(many["next"].as_array().map(Vec::len), Some(1_000));
    let end = ["cron", "explain", "* * * * * *", "--from", "9999-12-31T23:59:58Z", "-o", "json"];
    assert_eq!(place.call(&end).expect(0).json(), json!({"next": ["9999-12-31T23:59:59Z"]}));
}

#[test]
fn what_is_wrong_is_refused_with_field_and_cause() {
    let place = Place::new();
    let check = |arguments: &[&str], says: &[&str]| {
        place.call(&[&["cron", "explain"], arguments].concat()).expect(2).says(says);
    };
    check(&["0 25 * * *"], &["`0 25 * * *` is not a schedule: the hour field `25`: `25` is not between 0 and 23"]);
    check(&["*/0 * * * *"], &["the minute field `*/0`: a step of 0"]);
    check(&["0 0 31 2 *"], &["it never fires: there is no such day"]);
    check(&["* * *"], &["it has 3 fields", "write minute, hour, day, month and weekday"]);
    check(&[""], &["it is empty"]);
    check(
        &["* * * * *", "--tz", "Europe/Berln"],
        &["there is no timezone `Europe/Berln`", "did you mean `Europe/Berlin`?"],
    );
    check(&["* * * * *", "--from", "yesterday"], &["--from is `yesterday`"]);
    check(&["* * * * *", "-n", "0"], &["-n is `0`", "from 1 to 1000"]);
    check(&["* * * * *", "-n", "many"], &["-n is `many`"]);
}
