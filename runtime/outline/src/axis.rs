//! Where a step lies on its trace's time axis.

use perpend_domain::time::Timestamp;

/// Width of the axis in the units of the SVG drawings.
const UNITS: f64 = 1000.0;
/// The narrowest bar that still shows.
const MIN_WIDTH: f64 = 4.0;

/// The longest number of a label: `119:59`.
const MAX_CHARS: usize = 6;
/// Units whose labels have sixtieths behind a colon instead of decimals: minutes with seconds, hours with minutes.
const SIXTIETHS: [&str; 2] = ["min", "h"];
/// The units of labels: the length in microseconds from which on the next one is taken, where its labels would get longer
/// or round up to it, and its own.
const UNITS_OF_TIME: [(f64, f64, &str); 7] = [
    (1e3, 1.0, "µs"),
    (999.5e3, 1e3, "ms"),
    (120e6, 1e6, "s"),
    (7_200e6, 60e6, "min"),
    (172_800e6, 3_600e6, "h"),
    (730.0 * 86_400e6, 86_400e6, "d"),
    (999.5 * YEAR, YEAR, "y"),
];
/// Thousands of years: who sends a wrong clock gets an axis that can be read too.
const LARGEST_UNIT: (f64, f64, &str) = (f64::INFINITY, 1e3 * YEAR, "ky");
/// Microseconds of a year.
const YEAR: f64 = 365.25 * 86_400e6;

/// The time axis of one trace.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// What its labels count from.
    origin: Timestamp,
    start: Timestamp,
    length_us: i64,
    /// What is outside of it has no bar.
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
    /// The step has not ended; its bar runs to the end of the axis.
    pub is_open: bool,
}

/// That of a trace without steps.
impl Default for Axis {
    fn default() -> Self {
        Self::new(Timestamp::default(), Timestamp::default())
    }
}

impl Axis {
    /// From a start to an end.
    #[must_use]
    pub fn new(start: Timestamp, end: Timestamp) -> Self {
        Self {
            origin: start,
            start,
            length_us: end.micros_since(start).max(1),
            is_part: false,
        }
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
            return Bar {
                x: left,
                width: 0.0,
                wait: None,
                is_open: false,
            };
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

    /// How many microseconds behind the start of the trace the labels begin to count: nothing, unless so many digits would
    /// be needed to tell them from each other that they had no room.
    #[must_use]
    pub fn counted_from_us(&self) -> i64 {
        let before = self.start.micros_since(self.origin);
        let (numbers, _) = self.numbers(before);
        // Decimals of sixtieths are too fine for the place that they would count from.
        let is_one = |number: &String| number.len() <= MAX_CHARS && !is_mixed(number);
        let is_short = numbers.iter().all(is_one);
        let differ = numbers.windows(2).all(|pair| pair[0] != pair[1]);
        match is_short && differ {
            true => 0,
            false => before,
        }
    }

    /// Nine labels at equal distances. The style sheet shows three, five or all of them, by the width there is; they
    /// are short, because the unit is that of the whole axis and only the last one names it.
    #[must_use]
    pub fn ticks(&self) -> Vec<Tick> {
        let before = self.start.micros_since(self.origin);
        let (numbers, unit) = self.numbers(before - self.counted_from_us());
        let ticks = numbers.into_iter().enumerate();
        let ticks = ticks.map(|(eighth, number)| Tick {
            label: match eighth {
                8 => format!("{number} {unit}"),
                _ => number,
            },
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

    /// The numbers of the labels, which begin with so many microseconds, and their unit.
    fn numbers(&self, first_us: i64) -> ([String; 9], &'static str) {
        let (first, length) = (first_us as f64, self.length_us as f64);
        let fits = |unit: &&(f64, f64, &str)| first + length < unit.0;
        let &(_, size, unit) = UNITS_OF_TIME.iter().find(fits).unwrap_or(&LARGEST_UNIT);
        let number = |eighth: usize| {
            let micros = first + length * eighth as f64 / 8.0;
            match SIXTIETHS.contains(&unit) {
                true => in_sixtieths(micros / size, decimals(length / size * 60.0, 60.0)),
                false => {
                    let decimals = decimals(length / size, 800.0);
                    trimmed(&format!("{:.decimals$}", micros / size)).to_owned()
                }
            }
        };
        let mut numbers: [String; 9] = std::array::from_fn(number);
        // Those that have no sixtieths are written like those that have; nothing is nothing.
        if numbers.iter().any(|number| number.contains(':')) {
            let whole = numbers.iter_mut();
            let whole = whole.filter(|number| *number != "0" && !number.contains(':'));
            whole.for_each(|number| number.push_str(":00"));
        }
        (numbers, unit)
    }
}

/// How many decimals the labels of an axis of this length have: three digits of the way from one to the next are true to
/// the width of a line. From `whole` on they have none.
fn decimals(length: f64, whole: f64) -> usize {
    match length < whole {
        true => (2.0 - (length / 8.0).log10().floor()).clamp(1.0, 9.0) as usize,
        false => 0,
    }
}

/// `3:01`, and `3` without sixtieths.
fn in_sixtieths(value: f64, decimals: usize) -> String {
    let parts = 10_f64.powi(i32::try_from(decimals).unwrap_or(0));
    let all = (value * 60.0 * parts).round();
    let (whole, rest) = ((all / (60.0 * parts)).floor(), all % (60.0 * parts));
    let digits = match decimals {
        0 => 2,
        _ => 3 + decimals,
    };
    match rest == 0.0 {
        true => whole.to_string(),
        false => format!("{whole}:{:0digits$.decimals$}", rest / parts),
    }
}

/// Whether a label has sixtieths and decimals.
fn is_mixed(number: &str) -> bool {
    number.contains(':') && number.contains('.')
}

/// Without zeros at its end that say nothing.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// A label of the axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// A number; the last one has the unit.
    pub label: String,
    /// Its rank: the narrower the axis, the fewer ranks are shown.
    pub class: &'static str,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bars_lie_where_the_step_ran_and_never_leave_the_axis() {
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
        labels.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_share_one_unit_and_stay_short() {
        let labels = |micros: i64| {
            let start = Timestamp::from_millis(0);
            labels(Axis::new(start, Timestamp::from_micros(micros)))
        };
        assert_eq!(labels(800), "0 100 200 300 400 500 600 700 800 µs");
        let second = "0 0.125 0.25 0.375 0.5 0.625 0.75 0.875 1 s";
        assert_eq!(labels(1_000_000), second);
        let long = "0 12.5 25 37.5 50 62.5 75 87.5 100 s";
        assert_eq!(labels(100_000_000), long);
        let minutes = "0 0:23 0:45 1:08 1:30 1:53 2:15 2:38 3:00 min";
        assert_eq!(labels(180_000_000), minutes);
        assert_eq!(labels(3_840_000_000), "0 8 16 24 32 40 48 56 64 min");
        let hours = "0 0:23 0:45 1:08 1:30 1:53 2:15 2:38 3:00 h";
        assert_eq!(labels(10_800_000_000), hours);
        assert!(labels(i64::MAX).ends_with(" 292.3 ky"));
        let axis = Axis::default();
        assert_eq!(axis.ticks().len(), 9);
        assert!(axis.ticks().iter().all(|tick| tick.label.len() < 9));
    }

    #[test]
    fn a_small_part_far_from_the_start_counts_from_its_own_start() {
        const HOUR_MS: i64 = 3_600_000;
        let of = |hours: i64, part: (f64, f64)| {
            let end = Timestamp::from_millis(hours * HOUR_MS);
            let axis = Axis::new(Timestamp::from_millis(0), end).part(part);
            (axis.counted_from_us(), labels(axis))
        };
        let second = "0 0.125 0.25 0.375 0.5 0.625 0.75 0.875 1 s";
        let (from, shown) = of(3, (9_000_000.0, 9_001_000.0));
        assert_eq!((from, shown.as_str()), (9_000_000_000, second));
        let (from, shown) = of(240, (500_000_000.0, 500_000_001.0));
        assert_eq!(from, 500_000_000_000);
        assert_eq!(shown, second.replace('s', "ms"));
        // Near the start they count from there.
        let (from, shown) = of(3, (250.0, 500.0));
        assert_eq!(
            (from, shown.as_str()),
            (0, "250 281.2 312.5 343.8 375 406.2 437.5 468.8 500 ms")
        );
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
            let numbers = ticks.iter().map(|tick| tick.label.split(' ').next().unwrap().to_owned());
            let numbers: Vec<String> = numbers.collect();
            prop_assert!(numbers.iter().all(|number| number.len() <= MAX_CHARS), "{numbers:?}");
            let values = numbers.iter().map(|number| match number.split_once(':') {
                Some((whole, rest)) => {
                    whole.parse::<f64>().unwrap() + rest.parse::<f64>().unwrap() / 60.0
                }
                None => number.parse::<f64>().unwrap(),
            });
            let values: Vec<f64> = values.collect();
            prop_assert!(values.is_sorted_by(|one, next| one < next), "{numbers:?}");
            let unit = ticks[8].label.split(' ').nth(1).unwrap();
            prop_assert!(unit.chars().count() <= 3, "{unit}");
        }
    }
}
