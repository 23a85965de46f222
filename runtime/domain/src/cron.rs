//! When a cron schedule fires (evaluation.md 1.3): five fields in a time zone, and daylight saving as in
//! Debian's cron.
//!
//! Two kinds of schedules go through a change of the clock differently:
//! - A **fixed** one names minutes and hours. Times in a skipped hour run immediately
//!   after the change; times in a repeated hour run the first time only.
//! - An **interval**, whose minute or hour starts with `*`, follows the clock: it does not fire in a
//!   skipped hour, and fires twice in a repeated hour.
//!
//! The time zones are those compiled in, not those of the machine: nothing is read, a machine without
//! any works, and every server of one release computes the same windows.

mod field;

use std::sync::LazyLock;

use jiff::ToSpan;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use self::field::{Field, shown};
use crate::time::Timestamp;

/// Each day that a schedule can name comes again within this time: 29 February on a given weekday
/// takes up to 40 years.
const HORIZON_YEARS: i64 = 41;

static TIME_ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Why a schedule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchedule {
    /// The expression has more or fewer fields than five.
    #[error(
        "must have five fields (minute, hour, day of month, month, day of week), found {0}; the shortest interval is a minute"
    )]
    FieldCount(usize),
    /// A field does not parse.
    #[error("{field}: {problem}")]
    Field {
        /// The field.
        field: &'static str,
        /// The problem.
        problem: String,
    },
    /// It names a day that no month has, such as 30 February.
    #[error("would never fire: none of these months has such a day")]
    Never,
    /// The time zone is unknown.
    #[error(
        "must be a time zone of the IANA database, such as `Europe/Berlin` or `UTC`; got `{0}`"
    )]
    TimeZone(String),
}

impl InvalidSchedule {
    /// The member of a rule that is invalid: `cron` or `timezone`.
    #[must_use]
    pub const fn member(&self) -> &'static str {
        match self {
            Self::FieldCount(_) | Self::Field { .. } | Self::Never => "cron",
            Self::TimeZone(_) => "timezone",
        }
    }
}

/// A cron expression in a time zone, which fires at least once in 41 years.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    expression: String,
    minutes: Field,
    hours: Field,
    days_of_month: Field,
    months: Field,
    days_of_week: Field,
    zone: TimeZone,
}

impl Schedule {
    /// Reads five fields and the IANA name of a time zone, case aside.
    ///
    /// # Errors
    /// [`InvalidSchedule`], which names the field.
    pub fn parse(expression: &str, timezone: &str) -> Result<Self, InvalidSchedule> {
        let texts: Vec<&str> = expression.split_whitespace().collect();
        let [minute, hour, day_of_month, month, day_of_week] = texts[..] else {
            return Err(InvalidSchedule::FieldCount(texts.len()));
        };
        let read = |text, kind: &field::Kind| {
            let field = kind.name;
            Field::parse(text, kind).map_err(|problem| InvalidSchedule::Field { field, problem })
        };
        let zone = TIME_ZONES.get(timezone).ok();
        let schedule = Self {
            expression: texts.join(" "),
            minutes: read(minute, &field::MINUTE)?,
            hours: read(hour, &field::HOUR)?,
            days_of_month: read(day_of_month, &field::DAY_OF_MONTH)?,
            months: read(month, &field::MONTH)?,
            days_of_week: read(day_of_week, &field::DAY_OF_WEEK)?,
            zone: zone
                .filter(|zone| !zone.is_unknown())
                .ok_or_else(|| InvalidSchedule::TimeZone(shown(timezone)))?,
        };
        if schedule.has_no_day() {
            return Err(InvalidSchedule::Never);
        }
        Ok(schedule)
    }

    /// The expression, with single blanks.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The name of the time zone as the database spells it.
    #[must_use]
    pub fn timezone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The first fire strictly after `after`. `None` only where the calendar ends, in the year 9999.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_microsecond(after.as_micros()).ok()?;
        let fire = if self.minutes.is_star || self.hours.is_star {
            self.next_of_interval(after)?
        } else {
            self.next_of_fixed(after)?
        };
        Some(Timestamp::from_micros(fire.as_microsecond()))
    }

    /// A time on the clock of the time zone, such as `Sun 2026-03-29 03:00 +02:00`.
    #[must_use]
    pub fn local(&self, at: Timestamp) -> String {
        let at = jiff::Timestamp::from_microsecond(at.as_micros());
        let at = at.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_zoned(self.zone.clone());
        at.strftime("%a %Y-%m-%d %H:%M %:z").to_string()
    }

    /// The next firings after a time, at most `n`.
    #[must_use]
    pub fn upcoming(&self, after: Timestamp, n: usize) -> Vec<Timestamp> {
        let first = self.next_after(after);
        std::iter::successors(first, |last| self.next_after(*last)).take(n).collect()
    }

    /// The last firing after `after` and not after `until`, and the number of those before it.
    #[must_use]
    pub fn last_until(&self, after: Timestamp, until: Timestamp) -> Option<(Timestamp, u64)> {
        let mut last = self.next_after(after).filter(|first| *first <= until)?;
        let mut n_before = 0;
        while let Some(next) = self.next_after(last).filter(|next| *next <= until) {
            last = next;
            n_before += 1;
        }
        Some((last, n_before))
    }

    /// Walks the local times, each of which maps to at most one instant.
    fn next_of_fixed(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let on_the_wall = self.zone.to_datetime(after);
        let until = horizon(on_the_wall.date());
        // After a change back the current local minute may occur again; earlier minutes have
        // already fired.
        let mut from = start_of_minute(on_the_wall);
        loop {
            let civil = self.next_civil(from, until)?;
            let fire = self.first_instant(civil)?;
            if after < fire {
                return Some(fire);
            }
            from = civil.checked_add(1.minute()).ok()?;
        }
    }

    /// The first instant with this time on the wall, or that at which the clock passes over it.
    fn first_instant(&self, civil: DateTime) -> Option<jiff::Timestamp> {
        match self.zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(civil).ok(),
            AmbiguousOffset::Gap { after, .. } => {
                // With the offset to come, the time lies before the change.
                let earlier = after.to_timestamp(civil).ok()?;
                let change = self.zone.following(earlier).next()?;
                Some(change.timestamp())
            }
        }
    }

    /// Goes through the stretches between changes of the clock, in each of which the wall and the time
    /// run alike.
    fn next_of_interval(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let mut stretch = after;
        let mut offset = self.zone.to_offset(after);
        let on_the_wall = offset.to_datetime(after);
        let until = horizon(on_the_wall.date());
        let mut from = start_of_minute(on_the_wall).checked_add(1.minute()).ok()?;
        loop {
            let civil = self.next_civil(from, until)?;
            let fire = offset.to_timestamp(civil).ok()?;
            let change = self.zone.following(stretch).next();
            match change.map(|change| change.timestamp()) {
                Some(change) if change <= fire => {
                    stretch = change;
                    offset = self.zone.to_offset(change);
                    from = offset.to_datetime(change);
                }
                _ => return Some(fire),
            }
        }
    }

    /// The first time on the wall that all fields allow, from `from` on, as if every day had 24 hours.
    fn next_civil(&self, from: DateTime, until: Date) -> Option<DateTime> {
        let mut date = from.date();
        let mut start = from;
        if start_of_minute(from) != from {
            start = start_of_minute(from).checked_add(1.minute()).ok()?;
        }
        // Rounding up may have led to the next day.
        date = date.max(start.date());
        while date <= until {
            if !self.months.allows(date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
                continue;
            }
            let (hour, minute) =
                if date == start.date() { (start.hour(), start.minute()) } else { (0, 0) };
            let time = self.next_time(hour, minute);
            if let (true, Some((hour, minute))) = (self.allows_day(date), time) {
                return Some(date.at(hour, minute, 0, 0));
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The first allowed time of a day, from this one on.
    fn next_time(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        let this_hour = self.hours.allows(hour);
        if let (true, Some(minute)) = (this_hour, self.minutes.first_from(minute)) {
            return Some((hour, minute));
        }
        let hour = self.hours.first_from(hour + 1)?;
        Some((hour, self.minutes.first_from(0)?))
    }

    /// If both days are restricted, a match of one of them is enough.
    fn allows_day(&self, date: Date) -> bool {
        let of_month = self.days_of_month.allows(date.day());
        let of_week = self.days_of_week.allows(date.weekday().to_sunday_zero_offset());
        if self.is_either_day() { of_month || of_week } else { of_month && of_week }
    }

    fn is_either_day(&self) -> bool {
        !self.days_of_month.is_star && !self.days_of_week.is_star
    }

    fn has_no_day(&self) -> bool {
        let longest = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let has_day = (1..=12).zip(longest).any(|(month, n_days)| {
            let first = self.days_of_month.first_from(1);
            self.months.allows(month) && first.is_some_and(|day| day <= n_days)
        });
        !self.is_either_day() && !has_day
    }
}

fn start_of_minute(civil: DateTime) -> DateTime {
    civil.date().at(civil.hour(), civil.minute(), 0, 0)
}

fn horizon(from: Date) -> Date {
    from.checked_add(HORIZON_YEARS.years()).unwrap_or(Date::MAX)
}

#[cfg(test)]
mod tests;
