//! The rules against a walk through every minute, and what is refused.

use jiff::SignedDuration;
use serde_json::Value;

use super::*;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn schedule(expression: &str, timezone: &str) -> Schedule {
    Schedule::parse(expression, timezone).unwrap()
}

fn fires(schedule: &Schedule, after: &str, n: usize) -> Vec<String> {
    let first = schedule.next_after(at(after));
    std::iter::successors(first, |fire| schedule.next_after(*fire))
        .take(n)
        .map(|fire| fire.to_string().replace(":00.000Z", "Z"))
        .collect()
}

/// Zones with changes of an hour, of half an hour, at a minute past midnight, and of a whole day.
const CHANGES: [(&str, &str, i64); 8] = [
    ("Europe/Berlin", "2026-03-27T22:10:30Z", 3),
    ("Europe/Berlin", "2026-10-23T22:10:30Z", 3),
    ("America/New_York", "2026-10-30T22:10:30Z", 3),
    ("Australia/Lord_Howe", "2026-04-03T00:10:30Z", 3),
    ("Australia/Lord_Howe", "2026-10-02T00:10:30Z", 3),
    ("America/St_Johns", "2010-11-05T22:10:30Z", 3),
    ("America/St_Johns", "2010-03-12T22:10:30Z", 3),
    ("Pacific/Apia", "2011-12-28T22:10:30Z", 4),
];

/// Every whole minute with its time on the wall.
fn minutes(zone: &TimeZone, from: &str, n_days: i64) -> Vec<(jiff::Timestamp, DateTime)> {
    let from: jiff::Timestamp = from.parse().unwrap();
    let minute = |n| from + SignedDuration::from_secs(30 + 60 * n);
    (0..n_days * 24 * 60).map(|n| (minute(n), zone.to_datetime(minute(n)))).collect()
}

fn all_fires(schedule: &Schedule, from: &str, until: jiff::Timestamp) -> Vec<jiff::Timestamp> {
    let first = schedule.next_after(at(from));
    std::iter::successors(first, |fire| schedule.next_after(*fire))
        .map(|fire| jiff::Timestamp::from_microsecond(fire.as_micros()).unwrap())
        .take_while(|fire| *fire <= until)
        .collect()
}

#[test]
fn an_interval_fires_in_every_minute_whose_wall_time_fits() {
    for expression in ["* * * * *", "*/20 * * * *", "15 * * * *", "*/10 0-3 * * *"] {
        for (zone, from, n_days) in CHANGES {
            let schedule = schedule(expression, zone);
            let minutes = minutes(&schedule.zone, from, n_days);
            let fits = |wall: &DateTime| {
                schedule.minutes.allows(wall.minute()) && schedule.hours.allows(wall.hour())
            };
            let expected: Vec<_> =
                minutes.iter().filter(|(_, wall)| fits(wall)).map(|(at, _)| *at).collect();
            let until = minutes.last().unwrap().0;
            assert_eq!(all_fires(&schedule, from, until), expected, "{expression} {zone} {from}");
        }
    }
}

#[test]
fn a_fixed_time_fires_once_for_each_time_on_the_wall_and_at_once_after_a_gap() {
    for expression in ["30 0 * * *", "0,30 1-3 * * *", "1 0,2,23 * * *", "45 1,2 * * *"] {
        for (zone, from, n_days) in CHANGES {
            let schedule = schedule(expression, zone);
            let minutes = minutes(&schedule.zone, from, n_days);
            let until = minutes.last().unwrap().0;
            let mut expected = Vec::new();
            let mut latest = schedule.zone.to_datetime(minutes[0].0 - 1.minute());
            for (at, wall) in &minutes {
                // All times on the wall that this minute is the first to reach.
                let mut reached = latest;
                let mut is_due = false;
                while reached < *wall {
                    reached = reached.checked_add(1.minute()).unwrap();
                    is_due |= schedule.minutes.allows(reached.minute())
                        && schedule.hours.allows(reached.hour());
                }
                latest = latest.max(*wall);
                if is_due {
                    expected.push(*at);
                }
            }
            assert_eq!(all_fires(&schedule, from, until), expected, "{expression} {zone} {from}");
        }
    }
}

#[test]
fn a_start_within_the_repeated_hour_never_yields_an_earlier_time() {
    let schedule = schedule("30 1 * * *", "America/New_York");
    // 01:10 for the second time: the fire of the first pass is over.
    assert_eq!(fires(&schedule, "2026-11-01T06:10:00Z", 1), ["2026-11-02T06:30Z"]);
}

#[test]
fn days_are_either_or_only_where_both_are_restricted() {
    // 13 February 2026 is a Friday.
    let either = schedule("0 0 13 * 1", "UTC");
    assert_eq!(
        fires(&either, "2026-02-08T00:00:00Z", 3),
        ["2026-02-09T00:00Z", "2026-02-13T00:00Z", "2026-02-16T00:00Z"]
    );
    let both = schedule("0 0 */12 * 5", "UTC");
    assert_eq!(fires(&both, "2026-02-08T00:00:00Z", 2), ["2026-02-13T00:00Z", "2026-03-13T00:00Z"]);
}

#[test]
fn the_rarest_day_is_found() {
    let leap_sundays = schedule("0 0 29 2 */7", "Europe/Berlin");
    assert_eq!(
        fires(&leap_sundays, "2076-01-01T00:00:00Z", 2),
        // 2100 is no leap year, so this gap has the full 40 years.
        ["2088-02-28T23:00Z", "2128-02-28T23:00Z"]
    );
    let every_minute_of_it = schedule("* * 29 2 */7", "Europe/Berlin");
    assert_eq!(
        fires(&every_minute_of_it, "2088-12-01T00:00:00Z", 2),
        ["2128-02-28T23:00Z", "2128-02-28T23:01Z"]
    );
    let end = Timestamp::parse("9999-12-30T00:00:00Z").unwrap();
    assert_eq!(schedule("0 0 1 1 *", "UTC").next_after(end), None);
    let beyond = Timestamp::from_micros(i64::MAX);
    assert_eq!(schedule("* * * * *", "UTC").next_after(beyond), None);
}

#[test]
fn an_invalid_schedule_is_rejected_and_the_field_named() {
    let refused = |expression: &str, timezone: &str| {
        Schedule::parse(expression, timezone).unwrap_err().to_string()
    };
    for (expression, problem) in [
        (
            "* * * *",
            "must have five fields (minute, hour, day of month, month, day of week), found 4; the shortest interval is a minute",
        ),
        (
            "0 * * * * *",
            "must have five fields (minute, hour, day of month, month, day of week), found 6; the shortest interval is a minute",
        ),
        (
            "@daily",
            "must have five fields (minute, hour, day of month, month, day of week), found 1; the shortest interval is a minute",
        ),
        ("60 * * * *", "minute: `60` must be a number from 0 to 59"),
        ("+5 * * * *", "minute: `+5` must be a number from 0 to 59"),
        ("1, * * * *", "minute: `` must be a number from 0 to 59"),
        ("* 9-5 * * *", "hour: `9-5` ends before it starts"),
        ("*/0 * * * *", "minute: `0` must be a step from 1 to 255"),
        (
            "5/10 * * * *",
            "minute: a step needs `*` or a range before it, such as `0-59/2`, not `5/10`",
        ),
        ("* * L * *", "day of month: `L` must be a number from 1 to 31"),
        (
            "* * * * 8",
            "day of week: `8` must be a number from 0 to 7 or one of SUN, MON, TUE, WED, THU, FRI, SAT",
        ),
        ("0 0 30 2 *", "would never fire: none of these months has such a day"),
        ("0 0 31 4,6 *", "would never fire: none of these months has such a day"),
    ] {
        assert_eq!(refused(expression, "UTC"), problem);
    }
    let problem = "must be a time zone of the IANA database, such as `Europe/Berlin` or `UTC`; got `Europe/Bonn`";
    assert_eq!(refused("* * * * *", "Europe/Bonn"), problem);
    assert!(Schedule::parse("* * * * *", "").is_err());
    assert!(Schedule::parse("* * * * *", "Etc/Unknown").is_err());
    // Restricted on both days, the weekday alone is enough.
    assert!(Schedule::parse("0 0 30 2 1", "UTC").is_ok());
}

#[test]
fn firings_between_two_times_are_counted() {
    let daily = schedule("30 2 * * *", "Europe/Berlin");
    // The clock skips 02:30 on 29 March.
    let (last, n_before) =
        daily.last_until(at("2026-03-27T12:00:00Z"), at("2026-03-30T00:30:00Z")).unwrap();
    assert_eq!((last, n_before), (at("2026-03-30T00:30:00Z"), 2));
    let next: Vec<Timestamp> = daily.upcoming(at("2026-03-28T12:00:00Z"), 2);
    assert_eq!(next, [at("2026-03-29T01:00:00Z"), at("2026-03-30T00:30:00Z")]);
    assert_eq!(daily.local(next[0]), "Sun 2026-03-29 03:00 +02:00");
    assert_eq!(daily.last_until(last, at("2026-03-30T23:00:00Z")), None);
}

#[test]
fn names_and_blanks_are_free() {
    let spelled = schedule("  0   0 * jan-Mar,DEC  sat,SUN ", "europe/berlin");
    assert_eq!(spelled.expression(), "0 0 * jan-Mar,DEC sat,SUN");
    assert_eq!(spelled.timezone(), "Europe/Berlin");
    let in_numbers = schedule("0 0 * 1-3,12 6-7", "Europe/Berlin");
    let from = "2026-01-01T00:00:00Z";
    assert_eq!(fires(&spelled, from, 40), fires(&in_numbers, from, 40));
}

/// The vectors of `tests/corpus/eval`.
#[test]
fn schedules_of_the_corpus_fire_at_the_expected_times() {
    let path = std::path::absolute("../../tests/corpus/eval/cron.json").unwrap();
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let text = |key: &str| case[key].as_str().unwrap();
        let schedule = schedule(text("cron"), text("timezone"));
        let mut last = at(text("after"));
        for want in case["want"].as_array().unwrap() {
            last = schedule.next_after(last).unwrap();
            assert_eq!(
                last,
                at(want.as_str().unwrap()),
                "{}: {}",
                case["id"],
                schedule.expression()
            );
        }
    }
}
