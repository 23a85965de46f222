//! The differences of all items in one metric, sorted.

use crate::Text;
use crate::experiments::estimate::Unit;
use crate::format::count;

/// Height of the drawing above and below zero.
const HALF: f64 = 20.0;
/// Maximum number of bars; of more items evenly spaced ones are drawn.
const MAX_BARS: usize = 120;

/// Bars of the differences of a run to the baseline, from the smallest to the largest.
#[derive(Clone, Debug)]
pub struct DeltaChart {
    pub(crate) metric: Text,
    pub(crate) run: Text,
    pub(crate) n: String,
    pub(crate) most: String,
    pub(crate) least: String,
    pub(crate) bars: Vec<DeltaBar>,
    /// Labels and values of the quantiles.
    pub(crate) quantiles: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct DeltaBar {
    pub(crate) x: usize,
    pub(crate) y: f64,
    pub(crate) height: f64,
    pub(crate) class: &'static str,
    pub(crate) value: String,
}

impl DeltaChart {
    /// `higher_is_better`: absent if the direction is unknown. `None` without differences other than 0.
    #[must_use]
    pub fn new(
        (metric, run): (&str, &str),
        mut differences: Vec<f64>,
        (unit, higher_is_better): (Unit, Option<bool>),
    ) -> Option<Self> {
        differences.retain(|difference| difference.is_finite());
        differences.sort_by(f64::total_cmp);
        let reach = differences.iter().map(|value| value.abs()).fold(0.0, f64::max);
        if reach <= 0.0 {
            return None;
        }
        let n = differences.len();
        let n_bars = n.min(MAX_BARS);
        let at = |bar: usize, n_bars: usize| bar * (n - 1) / (n_bars - 1).max(1);
        let bars = (0..n_bars).map(|x| {
            let value = differences[at(x, n_bars)];
            let height = (value.abs() / reach * HALF * 10.0).round() / 10.0;
            let is_better = higher_is_better.map(|higher| higher == (0.0 < value));
            DeltaBar {
                x,
                y: if 0.0 < value { HALF - height } else { HALF },
                height,
                class: match is_better {
                    Some(true) => "good",
                    Some(false) => "bad",
                    None => "",
                },
                value: unit.signed(value),
            }
        });
        let quantile = |quarter: usize| unit.signed(differences[quarter * (n - 1) / 4]);
        let labels = ["smallest", "lower quartile", "median", "upper quartile", "largest"];
        Some(Self {
            metric: Text::from(metric),
            run: Text::from(run),
            n: count(n as u64),
            most: unit.signed(reach),
            least: unit.signed(-reach),
            bars: bars.collect(),
            quantiles: labels
                .into_iter()
                .enumerate()
                .map(|(at, label)| (label, quantile(at)))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_sorted_and_drawn_on_both_sides_of_zero() {
        let values = vec![0.5, -1.0, 0.0];
        let chart = DeltaChart::new(("tone", "new"), values, (Unit::Number, Some(true))).unwrap();
        let bars: Vec<_> = chart.bars.iter().map(|bar| (bar.y, bar.height, bar.class)).collect();
        assert_eq!(bars, [(20.0, 20.0, "bad"), (20.0, 0.0, "bad"), (10.0, 10.0, "good")]);
        assert_eq!(chart.quantiles[2], ("median", "±0.00".to_owned()));
        let many = (0..5_000).map(f64::from).collect();
        let many = DeltaChart::new(("tone", "new"), many, (Unit::Number, None)).unwrap();
        assert_eq!((many.bars.len(), many.n.as_str()), (MAX_BARS, "5,000"));
        assert_eq!(many.bars[MAX_BARS - 1].height, HALF);
        let none = DeltaChart::new(("tone", "new"), vec![0.0, 0.0], (Unit::Number, None));
        assert!(none.is_none());
    }
}
