//! Buckets of time, in UTC.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::named::named_enum;
use crate::time::Timestamp;

named_enum!(
    /// Length of a bucket.
    Granularity {
        Minute = "minute",
        Hour = "hour",
        Day = "day",
        Week = "week",
        Month = "month",
    }
);

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// The epoch was a Thursday; weeks begin on Mondays.
const TO_MONDAY: i64 = 3 * DAY;

fn floor(at: i64, step: i64) -> i64 {
    at.div_euclid(step) * step
}

fn date(at: Timestamp) -> Date {
    let instant = jiff::Timestamp::from_microsecond(at.as_micros()).unwrap_or_default();
    instant.to_zoned(TimeZone::UTC).date()
}

fn midnight(date: Date) -> Timestamp {
    let instant = date.to_zoned(TimeZone::UTC).map(|day| day.timestamp());
    Timestamp::from_micros(instant.unwrap_or_default().as_microsecond())
}

impl Granularity {
    /// About fifty buckets for a range.
    #[must_use]
    pub const fn for_range(from: Timestamp, to: Timestamp) -> Self {
        let range = to.micros_since(from);
        if range <= 2 * HOUR {
            Self::Minute
        } else if range <= 72 * HOUR {
            Self::Hour
        } else if range <= 60 * DAY {
            Self::Day
        } else if range <= 366 * DAY {
            Self::Week
        } else {
            Self::Month
        }
    }

    /// Start of the bucket that holds `at`.
    #[must_use]
    pub fn start(self, at: Timestamp) -> Timestamp {
        let micros = at.as_micros();
        Timestamp::from_micros(match self {
            Self::Minute => floor(micros, MINUTE),
            Self::Hour => floor(micros, HOUR),
            Self::Day => floor(micros, DAY),
            Self::Week => floor(micros.saturating_add(TO_MONDAY), 7 * DAY) - TO_MONDAY,
            Self::Month => return midnight(date(at).first_of_month()),
        })
    }

    /// Start of the bucket after the one that begins at `start`.
    #[must_use]
    pub fn next(self, start: Timestamp) -> Timestamp {
        let step = match self {
            Self::Minute => MINUTE,
            Self::Hour => HOUR,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            // No month is longer.
            Self::Month => return self.start(start.plus_millis(31 * DAY / 1_000)),
        };
        Timestamp::from_micros(start.as_micros().saturating_add(step))
    }

    /// Microseconds of the largest fixed step that all of its buckets are made of.
    #[must_use]
    pub const fn step(self) -> i64 {
        match self {
            Self::Minute => MINUTE,
            Self::Hour => HOUR,
            Self::Day | Self::Week | Self::Month => DAY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn buckets_begin_at_calendar_boundaries() {
        let moment = at("2026-03-18T10:20:30.5Z"); // a Wednesday
        for (granularity, start, next) in [
            (Granularity::Minute, "2026-03-18T10:20:00Z", "2026-03-18T10:21:00Z"),
            (Granularity::Hour, "2026-03-18T10:00:00Z", "2026-03-18T11:00:00Z"),
            (Granularity::Day, "2026-03-18T00:00:00Z", "2026-03-19T00:00:00Z"),
            (Granularity::Week, "2026-03-16T00:00:00Z", "2026-03-23T00:00:00Z"),
            (Granularity::Month, "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"),
        ] {
            assert_eq!(granularity.start(moment), at(start), "{granularity}");
            assert_eq!(granularity.next(at(start)), at(next), "{granularity}");
            assert_eq!(granularity.start(at(start)), at(start), "{granularity}");
        }
        let leap = Granularity::Month.next(at("2024-02-01T00:00:00Z"));
        assert_eq!(leap, at("2024-03-01T00:00:00Z"));
        assert_eq!(Granularity::Day.start(Timestamp::from_micros(-1)).as_micros(), -DAY);
    }

    #[test]
    fn a_range_gets_a_sensible_number_of_buckets() {
        let from = at("2026-01-01T00:00:00Z");
        for (days, granularity) in [
            (0, Granularity::Minute),
            (3, Granularity::Hour),
            (60, Granularity::Day),
            (365, Granularity::Week),
            (800, Granularity::Month),
        ] {
            let to = from.plus_millis(days * DAY / 1_000);
            assert_eq!(Granularity::for_range(from, to), granularity);
        }
    }
}
