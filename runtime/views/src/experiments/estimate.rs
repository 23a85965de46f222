//! Means, intervals and differences as text.

use crate::format::{NO_VALUE, count, dollars, duration, number_like, percent, percent_range};

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number without a unit.
    Number,
    /// A share between 0 and 1, shown in percent.
    Share,
    /// Milliseconds.
    Milliseconds,
    /// US dollars.
    Dollars,
    /// A count, such as tokens.
    Count,
}

impl Unit {
    /// A value, rounded like `mean`.
    pub(crate) fn text(self, value: f64, mean: f64) -> String {
        let sign = if value < 0.0 { "−" } else { "" };
        let amount = value.abs();
        match self {
            Self::Number => number_like(value, mean).replace('-', "−"),
            Self::Share => format!("{sign}{}", percent(amount)),
            Self::Milliseconds => format!("{sign}{}", duration(micros(amount))),
            Self::Dollars => format!("{sign}{}", dollars(amount)),
            Self::Count => format!("{sign}{}", count(amount.round() as u64)),
        }
    }

    /// Both ends of an interval around `mean`.
    pub(crate) fn range(self, ends: [f64; 2], mean: f64) -> String {
        match self {
            Self::Share if 0.0 <= ends[0] && ends[1] <= 1.0 => percent_range(ends),
            _ => {
                let [low, high] = ends.map(|end| self.text(end, mean));
                format!("{low}–{high}")
            }
        }
    }

    /// The absolute value of a difference; shares in percentage points.
    #[must_use]
    pub fn amount(self, value: f64) -> String {
        self.signed(value.abs()).trim_start_matches(['+', '±']).to_owned()
    }

    /// A difference with its sign; shares in percentage points.
    #[must_use]
    pub fn signed(self, value: f64) -> String {
        self.difference(value, value)
    }

    /// A difference with its sign, rounded like `mean`; shares in percentage points.
    pub(crate) fn difference(self, value: f64, mean: f64) -> String {
        let sign = match value {
            more if 0.0 < more => "+",
            less if less < 0.0 => "−",
            _ => "±",
        };
        let amount = value.abs();
        let text = match self {
            Self::Share => format!("{} pp", number_like(amount * 100.0, 1.0)),
            _ => self.text(amount, mean),
        };
        format!("{sign}{text}")
    }
}

/// Microseconds of a duration in milliseconds.
fn micros(ms: f64) -> i64 {
    (ms * 1e3).round() as i64
}

/// A mean with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The ends of the 95 % interval; absent with fewer than two values.
    pub interval: Option<[f64; 2]>,
    /// The number of values.
    pub n: u64,
    /// The unit of the values.
    pub unit: Unit,
}

impl Estimate {
    /// `0.81`.
    pub(crate) fn value(&self) -> String {
        self.unit.text(self.mean, self.mean)
    }

    /// `(0.76–0.85)`; empty without an interval.
    pub(crate) fn range(&self) -> String {
        self.interval.map_or_else(String::new, |ends| {
            let range = self.unit.range(ends, self.mean);
            format!("({range})")
        })
    }

    /// `0.81 (0.76–0.85)`.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{} {}", self.value(), self.range()).trim_end().to_owned()
    }

    /// The number of values.
    pub(crate) fn n(&self) -> String {
        count(self.n)
    }
}

/// The mean of an estimate, or the sign of an absent value.
pub(crate) fn value_of(estimate: Option<&Estimate>) -> String {
    estimate.map_or_else(|| NO_VALUE.to_owned(), Estimate::value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_differences_have_units_and_signs() {
        let estimate = |mean, ends, unit| Estimate { mean, interval: Some(ends), n: 1_234, unit };
        let score = estimate(0.812, [0.76, 0.85], Unit::Number);
        assert_eq!((score.value().as_str(), score.range().as_str()), ("0.81", "(0.76–0.85)"));
        assert_eq!(score.n(), "1,234");
        let passed = estimate(0.81, [0.758, 0.854], Unit::Share);
        assert_eq!((passed.value().as_str(), passed.range().as_str()), ("81 %", "(76–85)"));
        for (unit, value, text) in [
            (Unit::Number, 0.05, "+0.05"),
            (Unit::Number, -0.05, "−0.05"),
            (Unit::Number, 0.0, "±0.00"),
            (Unit::Share, -0.125, "−12.50 pp"),
            (Unit::Milliseconds, 1_500.0, "+1.50 s"),
            (Unit::Dollars, -0.5, "−$0.5000"),
            (Unit::Count, 1_200.4, "+1,200"),
        ] {
            assert_eq!(unit.difference(value, 0.8), text);
        }
    }
}
