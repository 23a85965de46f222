//! Numbers and labels of both sides, and their difference.

use crate::format::{NO_VALUE, cost, count, dollars, duration, number};
use crate::markup::Html;
use perpend_domain::cost::CostSum;

/// A number or label of both sides, and the difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ComparedFigure {
    pub(crate) a: String,
    pub(crate) b: String,
    /// Both values as times, for timestamps.
    pub(crate) times: [Option<Html>; 2],
    /// `B - A` with sign and unit; absent if the values are equal or one is unknown.
    pub(crate) delta: Option<String>,
    /// `delta` in percent of A.
    pub(crate) share: Option<String>,
    /// The values differ, or only one is known.
    pub(crate) differs: bool,
    /// A name or another label: a difference is not highlighted.
    pub(crate) is_label: bool,
    /// A difference does not make the traces different.
    pub(crate) is_neutral: bool,
}

/// An amount with its sign.
fn signed(is_more: bool, amount: &str) -> String {
    format!("{}{amount}", if is_more { '+' } else { '−' })
}

fn share(a: f64, b: f64) -> Option<String> {
    let share = (b - a) / a * 100.0;
    let is_shown = a > 0.0 && share.is_finite() && 0.05 <= share.abs();
    is_shown.then(|| {
        let amount = match share.abs() {
            // `100 %` is only shown for exactly 100 %.
            amount if amount != 100.0 && amount.round() == 100.0 => {
                let decimals = (1..4)
                    .find(|decimals| format!("{amount:.decimals$}").parse::<f64>() != Ok(100.0));
                match decimals {
                    Some(decimals) => format!("{amount:.decimals$}"),
                    None => format!("{} 100", if amount < 100.0 { "under" } else { "over" }),
                }
            }
            amount if amount < 10.0 => number((amount * 10.0).round() / 10.0),
            amount => count(amount.round().min(1e15) as u64),
        };
        signed(0.0 < share, &format!("{amount} %"))
    })
}

impl ComparedFigure {
    fn new<T: Copy + PartialOrd>(
        [a, b]: [Option<T>; 2],
        shown: impl Fn(T) -> String,
        (of, as_f64): (impl Fn(T, T) -> String, impl Fn(T) -> f64),
    ) -> Self {
        let text = |value: Option<T>| value.map_or_else(|| NO_VALUE.to_owned(), &shown);
        let mut figure = Self { a: text(a), b: text(b), ..Self::default() };
        match (a, b) {
            (Some(a), Some(b)) if a < b || b < a => {
                let amount = if a < b { of(b, a) } else { of(a, b) };
                figure.delta = Some(signed(a < b, &amount));
                figure.share = share(as_f64(a), as_f64(b));
                figure.differs = true;
            }
            (Some(_), None) | (None, Some(_)) => figure.differs = true,
            _ => {}
        }
        figure
    }

    /// Durations in microseconds.
    pub(crate) fn duration(sides: [Option<i64>; 2]) -> Self {
        let of = |more: i64, less: i64| duration(more.saturating_sub(less));
        Self::new(sides, duration, (of, |n: i64| n as f64))
    }

    /// Counts.
    pub(crate) fn count(sides: [Option<u64>; 2]) -> Self {
        Self::new(sides, count, (|more: u64, less: u64| count(more - less), |n: u64| n as f64))
    }

    /// Costs. There is no delta if a price is missing.
    pub(crate) fn cost(sides: [Option<CostSum>; 2]) -> Self {
        if let [Some(a), Some(b)] = sides.map(|side| side.and_then(CostSum::exact)) {
            return Self::dollars([Some(a), Some(b)]);
        }
        let texts = sides.map(|side| cost(side.unwrap_or_default()));
        let figure = Self::labels(texts.each_ref().map(|text| Some(text.as_str())));
        let lacks_prices = sides.iter().flatten().any(|sum| 0 < sum.n_unpriced);
        // Equal texts can hide a difference, so they do not count as equal.
        match lacks_prices && !figure.differs {
            true => figure.neutral(),
            false => figure,
        }
    }

    fn dollars(sides: [Option<f64>; 2]) -> Self {
        let sides = sides.map(|side| side.filter(|amount| amount.is_finite()));
        // Remove floating-point noise from the difference.
        let of = |more: f64, less: f64| dollars(((more - less) * 1e12).round() / 1e12);
        Self::new(sides, dollars, (of, |amount: f64| amount))
    }

    /// Score values.
    pub(crate) fn number(sides: [Option<f64>; 2]) -> Self {
        let of = |more: f64, less: f64| number(((more - less) * 1e9).round() / 1e9);
        Self::new(sides, number, (of, |value: f64| value))
    }

    /// A figure whose difference does not make the traces different.
    pub(crate) fn neutral(self) -> Self {
        Self { differs: false, is_neutral: true, ..self }
    }

    /// Labels, which have no numeric difference.
    pub(crate) fn labels(sides: [Option<&str>; 2]) -> Self {
        let [a, b] = sides;
        let text = |side: Option<&str>| side.unwrap_or(NO_VALUE).to_owned();
        Self { a: text(a), b: text(b), differs: a != b, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_have_sign_and_unit_and_swapping_inverts_the_sign() {
        let delta = |figure: ComparedFigure| figure.delta.unwrap_or_default();
        assert_eq!(delta(ComparedFigure::duration([Some(1_200_000), Some(1_500_000)])), "+300 ms");
        assert_eq!(delta(ComparedFigure::duration([Some(1_500_000), Some(1_200_000)])), "−300 ms");
        assert_eq!(delta(ComparedFigure::count([Some(1_000), Some(2_500)])), "+1,500");
        let costs = [1.15, 1.1].map(|amount| Some(CostSum::of_observation(Some(amount), true)));
        assert_eq!(delta(ComparedFigure::cost(costs)), "−$0.0500");
        assert_eq!(delta(ComparedFigure::number([Some(0.1), Some(0.3)])), "+0.2");
        let share = ComparedFigure::count([Some(200), Some(250)]).share;
        assert_eq!(share.as_deref(), Some("+25 %"));
        let share = |b| ComparedFigure::count([Some(100_000), Some(b)]).share.unwrap();
        assert_eq!([share(0), share(200_000)], ["−100 %", "+100 %"]);
        assert_eq!([share(20), share(200_300)], ["−99.98 %", "+100.3 %"]);
    }

    #[test]
    fn unknown_value_has_no_delta_and_is_not_zero() {
        let figure = ComparedFigure::count([None, Some(0)]);
        assert_eq!((figure.a.as_str(), figure.b.as_str(), figure.delta), ("–", "0", None));
        assert!(figure.differs && !ComparedFigure::count([None, None]).differs);
    }

    #[test]
    fn costs_with_missing_prices_have_no_delta() {
        let sum = |costs: &[Option<f64>]| -> Option<CostSum> {
            let costs = costs.iter();
            Some(costs.map(|cost| CostSum::of_observation(*cost, true)).sum())
        };
        let free = sum(&[Some(0.0)]);
        let (whole, part) = (sum(&[Some(0.5)]), sum(&[Some(0.5), None]));
        let (unknown, none) = (sum(&[None]), sum(&[]));
        let figure = ComparedFigure::cost([whole, part]);
        assert_eq!((figure.a.as_str(), figure.b.as_str()), ("$0.5000", "≥ $0.5000"));
        assert!(figure.differs && figure.delta.is_none());
        let figure = ComparedFigure::cost([unknown, free]);
        assert_eq!((figure.a.as_str(), figure.b.as_str()), ("?", "$0"));
        assert!(figure.differs && figure.delta.is_none());
        let alone = ComparedFigure::cost([none, None]);
        assert!(alone.a == "–" && !alone.differs);
        for same in [free, whole, part, unknown, none] {
            let figure = ComparedFigure::cost([same, same]);
            let is_equal = !figure.differs && !figure.is_neutral;
            assert_eq!(is_equal, same != part && same != unknown);
        }
    }
}
