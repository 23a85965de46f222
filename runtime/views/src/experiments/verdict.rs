//! The verdicts of a comparison: for each metric and run the difference to the baseline.

use crate::Text;
use crate::experiments::bar::IntervalBar;
use crate::experiments::estimate::{Estimate, Unit, value_of};
use crate::format::{NO_VALUE, count, plural};
use crate::scores::score::Tone;

/// A metric of the compared runs.
#[derive(Clone, Debug)]
pub struct MetricVerdicts {
    /// Name of the score or figure.
    pub name: Text,
    /// `higher is better`; empty if unknown.
    pub direction: &'static str,
    /// The difference between identical runs as a sentence; absent if it was not measured.
    pub noise: Option<Text>,
    /// The baseline.
    pub base: Option<Estimate>,
    /// One for each other run.
    pub rows: Vec<VerdictRow>,
}

impl MetricVerdicts {
    pub(crate) fn base_value(&self) -> String {
        value_of(self.base.as_ref())
    }

    pub(crate) fn base_range(&self) -> String {
        self.base.as_ref().map(Estimate::range).unwrap_or_default()
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.rows.len()
    }
}

/// A run compared with the baseline by one metric.
#[derive(Clone, Debug)]
pub struct VerdictRow {
    pub(crate) run: Text,
    pub(crate) mean: String,
    pub(crate) range: String,
    pub(crate) difference: String,
    pub(crate) difference_range: String,
    pub(crate) bar: Option<IntervalBar>,
    pub(crate) verdict: &'static str,
    pub(crate) tone: Tone,
    pub(crate) p: String,
    pub(crate) method: Text,
    pub(crate) tally: String,
    pub(crate) effect: String,
    /// Sentences below the verdict.
    pub(crate) notes: Vec<Text>,
}

/// Input of [`VerdictRow`].
#[derive(Clone, Debug)]
pub struct VerdictInput {
    /// Name of the run.
    pub run: Text,
    /// The run alone.
    pub estimate: Option<Estimate>,
    /// The unit of the difference.
    pub unit: Unit,
    /// Mean difference to the baseline.
    pub difference: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// Largest absolute value of the drawings of this metric.
    pub reach: f64,
    /// The verdict as one word.
    pub verdict: &'static str,
    /// Its colour.
    pub tone: Tone,
    /// The p value, adjusted for the number of comparisons.
    pub adjusted_p: Option<f64>,
    /// The name of the test.
    pub method: Text,
    /// Items in which the run is larger, equal and smaller than the baseline.
    pub tally: Option<[u64; 3]>,
    /// The effect size.
    pub effect_size: Option<f64>,
    /// Sentences below the verdict.
    pub notes: Vec<Text>,
}

impl VerdictRow {
    /// The row of a run.
    #[must_use]
    pub fn new(input: VerdictInput) -> Self {
        let mean = input.estimate.map_or(0.0, |estimate| estimate.mean);
        let unit = input.unit;
        let text = |value: f64| unit.difference(value, mean);
        Self {
            run: input.run,
            mean: value_of(input.estimate.as_ref()),
            range: input.estimate.as_ref().map(Estimate::range).unwrap_or_default(),
            difference: input.difference.map_or_else(|| NO_VALUE.to_owned(), text),
            difference_range: input
                .interval
                .map(|[low, high]| format!("({} to {})", text(low), text(high)))
                .unwrap_or_default(),
            bar: input
                .difference
                .zip(input.interval)
                .map(|(middle, ends)| IntervalBar::new(middle, ends, input.reach)),
            verdict: input.verdict,
            tone: input.tone,
            p: input.adjusted_p.map_or_else(|| NO_VALUE.to_owned(), p_value),
            method: input.method,
            tally: input
                .tally
                .map_or_else(|| NO_VALUE.to_owned(), |tally| tally.map(count).join(" / ")),
            effect: input
                .effect_size
                .map_or_else(|| NO_VALUE.to_owned(), |size| Unit::Number.difference(size, size)),
            notes: input.notes,
        }
    }

    pub(crate) fn class(&self) -> &'static str {
        self.tone.class()
    }
}

/// A p value with three decimals.
fn p_value(p: f64) -> String {
    match p {
        small if small < 0.001 => "< 0.001".to_owned(),
        _ => format!("{p:.3}"),
    }
}

/// The metrics of a group of items.
#[derive(Clone, Debug)]
pub struct SegmentVerdicts {
    /// The metadata value; absent for items without the key.
    pub value: Option<Text>,
    /// Number of items.
    pub n_items: u64,
    /// The metrics.
    pub metrics: Vec<MetricVerdicts>,
}

impl SegmentVerdicts {
    pub(crate) fn items(&self) -> String {
        plural(self.n_items, "item")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(difference: Option<f64>) -> VerdictRow {
        VerdictRow::new(VerdictInput {
            run: Text::from("second"),
            estimate: Some(Estimate { mean: 0.7, interval: None, n: 20, unit: Unit::Number }),
            unit: Unit::Number,
            difference,
            interval: difference.map(|middle| [middle - 0.1, middle + 0.1]),
            reach: 0.2,
            verdict: "inconclusive",
            tone: Tone::Plain,
            adjusted_p: Some(0.0004),
            method: Text::default(),
            tally: Some([1, 2, 1_000]),
            effect_size: Some(-0.3),
            notes: Vec::new(),
        })
    }

    #[test]
    fn a_row_has_the_difference_with_its_interval() {
        let shown = row(Some(-0.1));
        assert_eq!(
            (shown.difference.as_str(), shown.difference_range.as_str()),
            ("−0.10", "(−0.20 to ±0.00)")
        );
        assert_eq!((shown.p.as_str(), shown.tally.as_str()), ("< 0.001", "1 / 2 / 1,000"));
        assert_eq!(shown.effect, "−0.30");
        assert_eq!(p_value(0.0456), "0.046");
        let none = row(None);
        assert_eq!((none.difference.as_str(), none.bar), ("–", None));
    }
}
