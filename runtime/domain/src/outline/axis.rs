//! The time axis of a trace.

use crate::time::Timestamp;

/// Width of the axis in the units of the SVG drawings.
const UNITS: f64 = 1000.0;
/// The narrowest bar that still shows.
const MIN_WIDTH: f64 = 4.0;

/// The longest number of a label that is not in two units: `0.0625`.
const MAX_CHARS: usize = 6;
/// A label longer than `0.125 s` needs a larger distance to its neighbours.
const LONG: usize = 7;
/// Sixtieths of a unit have no decimals: an axis has at least this number of them, or its labels count from its own start.
const LEAST_SIXTIETHS: f64 = 59.0;

/// A unit of labels.
struct Unit {
    /// The length in microseconds from which on the next one is taken.
    until: f64,
    size: f64,
    name: &'static str,
    /// The unit of the remainder, used instead of decimals.
    sixtieth: Option<&'static str>,
}

/// The same ones that durations are written in: at these lengths they would round up to the next.
const UNITS_OF_TIME: [Unit; 7] = [
    unit(1e3, 1.0, "µs", None),
    unit(999.5e3, 1e3, "ms", None),
    unit(59.95e6, 1e6, "s", None),
    unit(3_599.5e6, 60e6, "min", Some("s")),
    unit(172_770e6, 3_600e6, "h", Some("min")),
    unit(730.0 * 86_400e6, 86_400e6, "d", None),
    unit(999.5 * YEAR, YEAR, "y", None),
];
/// Thousands of years: who sends a wrong clock gets an axis that can be read too.
const LARGEST_UNIT: Unit = unit(f64::INFINITY, 1e3 * YEAR, "ky", None);
/// Microseconds of a year.
const YEAR: f64 = 365.25 * 86_400e6;

const fn unit(until: f64, size: f64, name: &'static str, sixtieth: Option<&'static str>) -> Unit {
    Unit { until, size, name, sixtieth }
}

/// The time axis of one trace.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// The origin of its labels.
    origin: Timestamp,
    start: Timestamp,
    length_us: i64,
    /// Rows outside of it have no bar.
    is_part: bool,
}

/// One bar, in units of the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Left end.
    pub x: f64,
    /// Width.
    pub width: f64,
    /// Width of the part before the first token, when that is known.
    pub wait: Option<f64>,
    /// The observation has not ended; its bar extends to the end of the axis.
    pub is_open: bool,
}

/// The axis of a trace without observations.
impl Default for Axis {
    fn default() -> Self {
        Self::new(Timestamp::default(), Timestamp::default())
    }
}

impl Axis {
    /// From a start to an end.
    #[must_use]
    pub fn new(start: Timestamp, end: Timestamp) -> Self {
        Self { origin: start, start, length_us: end.micros_since(start).max(1), is_part: false }
    }

    /// A part of this axis, in milliseconds from its start; what is beyond its ends is left out.
    #[must_use]
    pub fn part(self, (from, to): (f64, f64)) -> Self {
        // Beyond the range of times the conversion stops at its ends.
        let micros = |ms: f64| (ms * 1e3).round() as i64;
        let from = micros(from).clamp(0, self.length_us - 1);
        let to = micros(to).clamp(from + 1, self.length_us);
        Self {
            start: Timestamp::from_micros(self.start.as_micros().saturating_add(from)),
            length_us: to - from,
            is_part: true,
            ..self
        }
    }

    fn position(&self, at: Timestamp) -> f64 {
        let share = at.micros_since(self.start) as f64 / self.length_us as f64;
        (share * UNITS).clamp(0.0, UNITS)
    }

    /// The bar of what ran from `start` to `end`, or still runs.
    #[must_use]
    pub fn bar(
        &self,
        start: Timestamp,
        end: Option<Timestamp>,
        first_token: Option<Timestamp>,
    ) -> Bar {
        let left = self.position(start);
        let right = end.map_or(UNITS, |end| self.position(end));
        let is_outside = self.length_us < start.micros_since(self.start)
            || end.is_some_and(|end| end < self.start);
        if self.is_part && is_outside {
            return Bar { x: left, width: 0.0, wait: None, is_open: false };
        }
        let width = (right - left).max(MIN_WIDTH);
        let x = left.min(UNITS - width);
        let wait = first_token.map(|first| self.position(first) - left);
        let wait = wait.filter(|wait| MIN_WIDTH < *wait && *wait < width);
        let rounded = |value: f64| (value * 10.0).round() / 10.0;
        Bar {
            x: rounded(x),
            width: rounded(width),
            wait: wait.map(rounded),
            is_open: end.is_none(),
        }
    }

    /// Offset in microseconds from the start of the trace at which the labels begin to count: 0, unless distinct labels
    /// would have too many digits.
    #[must_use]
    pub fn counted_from_us(&self) -> i64 {
        let before = self.start.micros_since(self.origin);
        let (labels, is_short) = self.labels(before);
        let differ = labels.windows(2).all(|pair| pair[0] != pair[1]);
        match is_short && differ {
            true => 0,
            false => before,
        }
    }

    /// Nine labels at equal distances. The style sheet shows two, three, five or all of them, by the width there is.
    #[must_use]
    pub fn ticks(&self) -> Vec<Tick> {
        let before = self.start.micros_since(self.origin);
        let (labels, _) = self.labels(before - self.counted_from_us());
        let ticks = labels.into_iter().enumerate();
        let ticks = ticks.map(|(eighth, label)| Tick {
            label,
            class: match eighth {
                0 => "first",
                4 => "half",
                8 => "last",
                2 | 6 => "quarter",
                _ => "eighth",
            },
        });
        ticks.collect()
    }

    /// The labels from `first_us` on, and whether they are short enough.
    fn labels(&self, first_us: i64) -> ([String; 9], bool) {
        let (first, length) = (first_us as f64, self.length_us as f64);
        let fits = |unit: &&Unit| first + length < unit.until;
        let unit = UNITS_OF_TIME.iter().find(fits).unwrap_or(&LARGEST_UNIT);
        let (name, length) = (unit.name, length / unit.size);
        let at = |eighth: usize| first / unit.size + length * eighth as f64 / 8.0;
        if let Some(smaller) = unit.sixtieth {
            let label = |eighth| in_sixtieths(at(eighth), [name, smaller]);
            return (std::array::from_fn(label), LEAST_SIXTIETHS <= length * 60.0);
        }
        let decimals = decimals(length);
        let number = |eighth| trimmed(&format!("{:.decimals$}", at(eighth))).to_owned();
        let numbers: [String; 9] = std::array::from_fn(number);
        let is_short = numbers.iter().all(|number| number.len() <= MAX_CHARS);
        (numbers.map(|number| format!("{number} {name}")), is_short)
    }
}

/// How many decimals the labels of an axis of this length have: three digits of the way from one to the next are true to
/// the width of a line.
fn decimals(length: f64) -> usize {
    match length < 800.0 {
        true => (2.0 - (length / 8.0).log10().floor()).clamp(1.0, 9.0) as usize,
        false => 0,
    }
}

/// `3 min 01 s`, and `3 min` and `1 s` where the other part is nothing.
fn in_sixtieths(value: f64, [unit, smaller]: [&str; 2]) -> String {
    let all = (value * 60.0).round();
    let (whole, rest) = ((all / 60.0).floor(), all % 60.0);
    match (whole < 1.0, rest < 1.0) {
        (true, _) => format!("{rest} {smaller}"),
        (_, true) => format!("{whole} {unit}"),
        _ => format!("{whole} {unit} {rest:02} {smaller}"),
    }
}

/// The number without trailing zeros after the point.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// A label of the axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// A number and its unit.
    pub label: String,
    /// Its rank: the narrower the axis, the fewer ranks are shown.
    pub class: &'static str,
}

impl Tick {
    /// Whether the label needs a larger distance to its neighbours.
    #[must_use]
    pub fn is_long(&self) -> bool {
        LONG < self.label.chars().count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bars_match_the_interval_of_the_observation_within_the_axis() {
        let at = |ms: i64| Timestamp::from_millis(1_772_359_200_000 + ms);
        let axis = Axis::new(at(0), at(1_000));
        let half = axis.bar(at(250), Some(at(750)), Some(at(375)));
        assert_eq!((half.x, half.width, half.wait), (250.0, 500.0, Some(125.0)));
        let instant = axis.bar(at(1_000), Some(at(1_000)), None);
        assert_eq!((instant.x, instant.width), (996.0, 4.0));
        let skewed = axis.bar(at(-5_000), Some(at(-4_999)), None);
        assert_eq!((skewed.x, skewed.width), (0.0, 4.0));
        let open = axis.bar(at(600), None, None);
        assert_eq!((open.width, open.is_open), (400.0, true));
    }

    fn labels(axis: Axis) -> String {
        let labels = axis.ticks().into_iter().map(|tick| tick.label);
        labels.collect::<Vec<_>>().join(", ")
    }

    /// Of numbers in the same unit.
    fn in_unit(numbers: &str, unit: &str) -> String {
        let labels = numbers.split(' ').map(|number| format!("{number} {unit}"));
        labels.collect::<Vec<_>>().join(", ")
    }

    const EIGHTHS: &str = "0 0.125 0.25 0.375 0.5 0.625 0.75 0.875 1";

    #[test]
    fn each_tick_has_its_unit_and_is_written_as_durations_are() {
        let axis = |micros: i64| {
            let start = Timestamp::from_millis(0);
            Axis::new(start, Timestamp::from_micros(micros))
        };
        let labels = |micros: i64| labels(axis(micros));
        let micros = in_unit("0 100 200 300 400 500 600 700 800", "µs");
        assert_eq!(labels(800), micros);
        assert_eq!(labels(1_000_000), in_unit(EIGHTHS, "s"));
        let long = "0 s, 12 s, 24 s, 36 s, 48 s, 1 min, 1 min 12 s, 1 min 24 s, 1 min 36 s";
        assert_eq!(labels(96_000_000), long);
        let minutes =
            "0 s, 23 s, 45 s, 1 min 08 s, 1 min 30 s, 1 min 53 s, 2 min 15 s, 2 min 38 s, 3 min";
        assert_eq!(labels(180_000_000), minutes);
        let hour = "0 min, 8 min, 16 min, 24 min, 32 min, 40 min, 48 min, 56 min, 1 h 04 min";
        assert_eq!(labels(3_840_000_000), hour);
        let hours = "0 min, 23 min, 45 min, 1 h 08 min, 1 h 30 min, 1 h 53 min, 2 h 15 min, 2 h 38 min, 3 h";
        assert_eq!(labels(10_800_000_000), hours);
        assert!(labels(i64::MAX).ends_with(" 292.3 ky"));
        assert_eq!(Axis::default().ticks().len(), 9);
        let is_long = |micros: i64| axis(micros).ticks().iter().any(Tick::is_long);
        assert!(is_long(96_000_000) && !is_long(1_000_000));
    }

    #[test]
    fn a_small_part_far_from_the_start_counts_from_its_own_start() {
        const HOUR_MS: i64 = 3_600_000;
        let of = |hours: i64, part: (f64, f64)| {
            let end = Timestamp::from_millis(hours * HOUR_MS);
            let axis = Axis::new(Timestamp::from_millis(0), end).part(part);
            (axis.counted_from_us(), labels(axis))
        };
        let second = in_unit(EIGHTHS, "s");
        let (from, shown) = of(3, (9_000_000.0, 9_001_000.0));
        assert_eq!((from, shown), (9_000_000_000, second));
        let (from, shown) = of(240, (500_000_000.0, 500_000_001.0));
        assert_eq!(from, 500_000_000_000);
        assert_eq!(shown, in_unit(EIGHTHS, "ms"));
        // Near the start they count from there.
        let (from, shown) = of(3, (250.0, 500.0));
        let near = "250 281.2 312.5 343.8 375 406.2 437.5 468.8 500";
        assert_eq!((from, shown), (0, in_unit(near, "ms")));
        // A part that is beyond the end is the end, and one that is longer ends with the trace.
        assert_eq!(of(3, (1e300, 1e308)).0, 3 * HOUR_MS * 1_000 - 1);
        assert_eq!(of(1, (-5.0, 1e300)).1, of(1, (0.0, 3.6e6)).1);
    }

    proptest! {
        #[test]
        fn ticks_of_any_part_are_short_and_no_two_alike(
            start in any::<i64>(), length in 0_u32..63, from in 0.0..1.0_f64, share in 0_i32..12, is_part in any::<bool>()
        ) {
            let micros = 1_i64 << length;
            let end = Timestamp::from_micros(start.saturating_add(micros));
            let whole = Axis::new(Timestamp::from_micros(start), end);
            let ms = micros as f64 / 1e3;
            let part = (ms * from, ms * (from + 0.1_f64.powi(share)));
            let axis = match is_part {
                true => whole.part(part),
                false => whole,
            };
            let ticks = axis.ticks();
            prop_assert!((3..=9).contains(&ticks.len()));
            let shown: Vec<&str> = ticks.iter().map(|tick| tick.label.as_str()).collect();
            prop_assert!(shown.iter().all(|label| label.chars().count() <= 11), "{shown:?}");
            let size = |name: &str| {
                let known = UNITS_OF_TIME.iter().find(|unit| unit.name == name);
                known.unwrap_or(&LARGEST_UNIT).size
            };
            let values = shown.iter().map(|label| {
                let parts: Vec<&str> = label.split(' ').collect();
                let parts = parts.chunks(2).map(|part| part[0].parse::<f64>().unwrap() * size(part[1]));
                parts.sum::<f64>()
            });
            let values: Vec<f64> = values.collect();
            prop_assert!(values.is_sorted_by(|one, next| one < next), "{shown:?}");
        }
    }
}
