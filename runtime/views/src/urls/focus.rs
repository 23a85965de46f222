//! The selected time range and environments. Links between sections preserve them.

use std::fmt;

use crate::markup::with_query;
use perpend_domain::filter::{Column, Condition, Order, Test, find};
use perpend_domain::time::Timestamp;

use crate::urls::unknown_parameters::Parameter;

/// A point in time in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Minutes before now: `-90m`, `-24h`, `-7d`.
    Ago(i64),
    /// A timestamp, or a date with optional time in UTC: `2026-03-01T10:00:00Z`, `2026-03-01 10:00`, `2026-03-01`.
    At(Timestamp),
}

/// Maximum of `Moment::Ago` in minutes.
const MAX_AGO: i64 = 100 * 366 * DAY;
const HOUR: i64 = 60;
const DAY: i64 = 24 * HOUR;

impl Moment {
    /// `None` if the text is not a valid point in time.
    #[must_use]
    pub fn parse(raw: &str) -> Option<Self> {
        let raw = raw.trim();
        if let Some(ago) = raw.strip_prefix('-') {
            let unit = match ago.bytes().last()? {
                b'm' => 1,
                b'h' => HOUR,
                b'd' => DAY,
                _ => return None,
            };
            let digits = &ago[..ago.len() - 1];
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let minutes = digits.parse::<i64>().ok().filter(|_| is_number)?;
            let minutes = minutes.checked_mul(unit)?;
            return (minutes <= MAX_AGO).then_some(Self::Ago(minutes));
        }
        perpend_domain::query::time(raw).map(Self::At)
    }

    /// `2 days ago`, `now`, or the timestamp.
    fn label(self) -> String {
        match self {
            Self::Ago(0) => "now".to_owned(),
            Self::Ago(minutes) => format!("{} ago", long(minutes)),
            Self::At(_) => self.to_string(),
        }
    }

    /// The timestamp, relative to `now`.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(minutes) => now.plus_millis(-minutes * 60_000),
            Self::At(at) => at,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ago(minutes) if minutes % DAY == 0 && 0 < minutes => {
                write!(f, "-{}d", minutes / DAY)
            }
            Self::Ago(minutes) if minutes % HOUR == 0 && 0 < minutes => {
                write!(f, "-{}h", minutes / HOUR)
            }
            Self::Ago(minutes) => write!(f, "-{minutes}m"),
            Self::At(at) => f.write_str(&at.to_string().replace(".000Z", "Z")),
        }
    }
}

/// `7 days`, `36 hours`, `1 minute`.
fn long(minutes: i64) -> String {
    if let Some((_, label)) = RANGES.iter().find(|(own, _)| *own == minutes) {
        return (*label).to_owned();
    }
    let (n, unit) = match (minutes % DAY, minutes % HOUR) {
        (0, _) => (minutes / DAY, "day"),
        (_, 0) => (minutes / HOUR, "hour"),
        _ => (minutes, "minute"),
    };
    format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
}

/// Maximum number of selected environments.
const MAX_ENVIRONMENTS: usize = 20;

/// The selected time range and environments. Empty fields select everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Focus {
    /// Start of the time range, inclusive.
    pub from: Option<Moment>,
    /// End of the time range, exclusive.
    pub to: Option<Moment>,
    /// Names of the environments.
    pub environments: Vec<String>,
}

/// Predefined time ranges: length in minutes, and label.
pub const RANGES: [(i64, &str); 6] = [
    (15, "15 minutes"),
    (HOUR, "1 hour"),
    (DAY, "24 hours"),
    (7 * DAY, "7 days"),
    (30 * DAY, "30 days"),
    (90 * DAY, "90 days"),
];

impl Focus {
    /// Sets a field from a query parameter. Returns `None` for other parameters, and an error message for invalid values.
    pub fn take(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
        const MOMENT: &str = "a time such as -24h, -7d or 2026-03-01 10:00 in UTC";
        let side = match name {
            "from" => &mut self.from,
            "to" => &mut self.to,
            "env" => {
                // Repeated parameters are combined.
                for name in value.split(',').map(str::trim) {
                    if name.is_empty() || self.environments.iter().any(|own| own == name) {
                        continue;
                    }
                    if MAX_ENVIRONMENTS <= self.environments.len() {
                        return Some(Err("a list of at most 20 names"));
                    }
                    self.environments.push(name.to_owned());
                }
                return Some(Ok(()));
            }
            _ => return None,
        };
        if value.trim().is_empty() {
            return Some(Ok(()));
        }
        *side = Moment::parse(value);
        Some(side.map(drop).ok_or(MOMENT))
    }

    /// The query parameters.
    #[must_use]
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        pairs.extend(self.from.map(|from| ("from", from.to_string())));
        pairs.extend(self.to.map(|to| ("to", to.to_string())));
        if !self.environments.is_empty() {
            pairs.push(("env", self.environments.join(",")));
        }
        pairs
    }

    /// The query parameters as [`Parameter`]s.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        let pairs = self.pairs().into_iter();
        pairs.map(|(name, value)| (name.into(), value)).collect()
    }

    /// The query string with `?`; empty if there are no parameters.
    #[must_use]
    pub fn query(&self) -> String {
        with_query("", &self.pairs())
    }

    /// Whether a time range is selected.
    #[must_use]
    pub const fn has_time(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// A copy without the environments.
    #[must_use]
    pub fn without_environments(&self) -> Self {
        Self { from: self.from, to: self.to, ..Self::default() }
    }

    /// Whether the end is not after the start, so that the time range is empty.
    #[must_use]
    pub fn is_backwards(&self, now: Timestamp) -> bool {
        matches!(self.range(now), (Some(from), Some(to)) if to <= from)
    }

    /// Start and end as timestamps.
    #[must_use]
    pub fn range(&self, now: Timestamp) -> (Option<Timestamp>, Option<Timestamp>) {
        let at = |moment: Option<Moment>| moment.map(|moment| moment.at(now));
        (at(self.from), at(self.to))
    }

    /// Filter conditions on the columns `timestamp` and `environment`.
    #[must_use]
    pub fn conditions(&self, columns: &'static [Column], now: Timestamp) -> Vec<Condition> {
        let (from, to) = self.range(now);
        let time_condition = |order, at: Option<Timestamp>| {
            at.map(|at| Condition {
                column: find(columns, "timestamp"),
                test: Test::Time(order, at),
            })
        };
        let environments = (!self.environments.is_empty()).then(|| Condition {
            column: find(columns, "environment"),
            test: Test::AnyOf(self.environments.clone()),
        });
        let all =
            [time_condition(Order::AtLeast, from), time_condition(Order::Less, to), environments];
        all.into_iter().flatten().collect()
    }

    /// `Last 7 days, production`. `default_time` is used if no time range is selected.
    #[must_use]
    pub fn label(&self, default_time: &'static str) -> String {
        let time = match (self.from, self.to) {
            (None, None) => default_time.to_owned(),
            (Some(Moment::Ago(minutes)), None) if 0 < minutes => format!("Last {}", long(minutes)),
            (Some(from), None) => format!("From {}", from.label()),
            (None, Some(to)) => format!("Until {}", to.label()),
            (Some(from), Some(to)) => format!("{} to {}", from.label(), to.label()),
        };
        match self.environments.is_empty() {
            true => time,
            false => format!("{time}, {}", self.environments.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::filter::TRACES;

    use super::*;

    #[test]
    fn moments_round_trip() {
        let at = Timestamp::parse("2026-03-01T10:00:00Z").unwrap();
        for text in
            ["2026-03-01 10:00", "2026-03-01T10:00", " 2026-03-01 10:00:00", "2026-03-01T10:00:00Z"]
        {
            assert_eq!(Moment::parse(text), Some(Moment::At(at)), "{text}");
        }
        assert_eq!(Moment::parse("2026-03-01"), Some(Moment::At(at.plus_millis(-36_000_000))));
        for (text, minutes) in [("-15m", 15), ("-24h", DAY), ("-1d", DAY), ("-0m", 0)] {
            let read = Moment::parse(text).unwrap();
            assert_eq!(read, Moment::Ago(minutes));
            assert_eq!(Moment::parse(&read.to_string()), Some(read));
        }
        for text in
            ["", "-", "-h", "-1", "-1w", "-+1h", "--1h", "-99999999999d", "-é", "last tuesday"]
        {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }

    #[test]
    fn time_ranges_have_labels_and_empty_ones_are_detected() {
        let now = Timestamp::parse("2026-03-01T10:00:00Z").unwrap();
        for (from, to, label, is_backwards) in [
            ("-2d", "", "Last 2 days", false),
            ("-24h", "", "Last 24 hours", false),
            ("-60m", "", "Last 1 hour", false),
            ("-36h", "", "Last 36 hours", false),
            ("-1m", "", "Last 1 minute", false),
            ("-0h", "", "From now", false),
            ("", "-2h", "Until 2 hours ago", false),
            ("-2h", "-1h", "2 hours ago to 1 hour ago", false),
            ("-1h", "-2h", "1 hour ago to 2 hours ago", true),
            ("2026-03-01", "-12h", "2026-03-01T00:00:00Z to 12 hours ago", true),
            ("-1h", "-1h", "1 hour ago to 1 hour ago", true),
        ] {
            let mut focus = Focus::default();
            assert_eq!(focus.take("from", from), Some(Ok(())), "{from}");
            assert_eq!(focus.take("to", to), Some(Ok(())), "{to}");
            assert_eq!(focus.label("All time"), label);
            assert_eq!(focus.is_backwards(now), is_backwards, "{label}");
        }
    }

    #[test]
    fn focus_round_trips_and_becomes_conditions() {
        let mut focus = Focus::default();
        assert_eq!(focus.query(), "");
        assert_eq!(focus.take("from", "-7d"), Some(Ok(())));
        assert_eq!(focus.take("env", " a, b c ,,"), Some(Ok(())));
        assert!(matches!(focus.take("to", "soon"), Some(Err(_))));
        assert_eq!(focus.take("q", "x"), None);
        let mut twice = Focus::default();
        for names in ["a,b", "b,c"] {
            assert_eq!(twice.take("env", names), Some(Ok(())));
        }
        assert_eq!(twice.environments, ["a", "b", "c"]);
        let mut many = Focus::default();
        let names: Vec<String> = (0..21).map(|n| n.to_string()).collect();
        assert!(matches!(many.take("env", &names.join(",")), Some(Err(_))));
        assert_eq!(many.environments.len(), MAX_ENVIRONMENTS);
        assert_eq!(focus.query(), "?from=-7d&env=a%2Cb%20c");
        let now = Timestamp::from_millis(8 * DAY * 60_000);
        let conditions = focus.conditions(TRACES, now);
        let day = Timestamp::from_millis(DAY * 60_000);
        assert_eq!(conditions[0].test, Test::Time(Order::AtLeast, day));
        let both = vec!["a".to_owned(), "b c".to_owned()];
        assert_eq!((conditions.len(), &conditions[1].test), (2, &Test::AnyOf(both)));
        assert_eq!(focus.label("All time"), "Last 7 days, a, b c");
    }
}
