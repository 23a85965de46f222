//! The means of one score over the runs of a list, or over time.

use crate::Text;
use crate::experiments::estimate::{Estimate, Unit};

/// Height of the drawing.
const HEIGHT: f64 = 40.0;

/// A run of the chart, or a period.
#[derive(Clone, Debug)]
pub struct RunPoint {
    /// Name.
    pub name: Text,
    /// URL of its page, or of the scores of the period.
    pub href: String,
    /// Absent if the run has no such score.
    pub estimate: Option<Estimate>,
}

/// Bars of means with their intervals, one for each run or period.
#[derive(Clone, Debug)]
pub struct RunChart {
    pub(crate) name: Text,
    pub(crate) about: &'static str,
    /// Heading of the first column of the data table.
    pub(crate) heading: &'static str,
    /// Changes: the number of the bar at which a line is drawn, and the label.
    pub(crate) changes: Vec<(usize, Text)>,
    pub(crate) most: String,
    pub(crate) least: String,
    pub(crate) bars: Vec<RunBar>,
}

/// A bar with its row of the data table.
#[derive(Clone, Debug)]
pub(crate) struct RunBar {
    pub(crate) x: usize,
    pub(crate) y: f64,
    pub(crate) height: f64,
    /// Path of the interval.
    pub(crate) whisker: String,
    pub(crate) name: Text,
    pub(crate) href: String,
    pub(crate) value: String,
    pub(crate) range: String,
    pub(crate) n: String,
}

impl RunChart {
    /// `runs`: oldest first. The scale contains 0 and all intervals, and 1 if no value is larger.
    #[must_use]
    pub fn new(name: &str, runs: &[RunPoint]) -> Self {
        let estimates = || runs.iter().filter_map(|run| run.estimate);
        let ends = |estimate: Estimate| {
            let [low, high] = estimate.interval.unwrap_or([estimate.mean; 2]);
            [low.min(estimate.mean), high.max(estimate.mean)]
        };
        let low = estimates().map(|estimate| ends(estimate)[0]).fold(0.0, f64::min);
        let high = estimates().map(|estimate| ends(estimate)[1]).fold(0.0, f64::max);
        // Scores between 0 and 1 of several runs and names can be compared.
        let is_share = estimates().all(|estimate| estimate.mean <= 1.0);
        let high = if is_share { 1.0 } else { high };
        let place = |value: f64| {
            let share =
                if low < high { (value.clamp(low, high) - low) / (high - low) } else { 0.0 };
            (share * HEIGHT * 10.0).round() / 10.0
        };
        let zero = place(0.0);
        let bars = runs.iter().enumerate().map(|(x, run)| {
            let top = run.estimate.map_or(zero, |estimate| place(estimate.mean));
            let whisker = run.estimate.and_then(|estimate| estimate.interval).map(|[low, high]| {
                let [low, high] = [low, high].map(|end| HEIGHT - place(end));
                format!("M{x}.43 {high:.1}V{low:.1}")
            });
            RunBar {
                x,
                y: HEIGHT - top.max(zero),
                height: (top - zero).abs(),
                whisker: whisker.unwrap_or_default(),
                name: run.name.clone(),
                href: run.href.clone(),
                value: super::estimate::value_of(run.estimate.as_ref()),
                range: run.estimate.as_ref().map(Estimate::range).unwrap_or_default(),
                n: run.estimate.as_ref().map(Estimate::n).unwrap_or_default(),
            }
        });
        let unit = estimates().next().map_or(Unit::Number, |estimate| estimate.unit);
        Self {
            name: Text::from(name),
            about: "mean of each run with 95 % interval, oldest first",
            heading: "Run",
            changes: Vec::new(),
            most: unit.text(high, high),
            least: unit.text(low, low),
            bars: bars.collect(),
        }
    }

    /// A chart of periods, with a line at each change: the number of the period, and a label.
    #[must_use]
    pub fn over_time(self, changes: Vec<(usize, Text)>) -> Self {
        let about = "mean or share over time with 95 % interval, in UTC";
        Self { about, heading: "From", changes, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_contains_zero_and_a_run_without_the_score_has_no_bar() {
        let run = |mean: Option<f64>| RunPoint {
            name: Text::from("run"),
            href: String::new(),
            estimate: mean.map(|mean| Estimate {
                mean,
                interval: Some([mean - 0.1, mean + 0.1]),
                n: 20,
                unit: Unit::Number,
            }),
        };
        let chart = RunChart::new("accuracy", &[run(Some(0.5)), run(None), run(Some(0.75))]);
        let heights: Vec<f64> = chart.bars.iter().map(|bar| bar.height).collect();
        assert_eq!(heights, [20.0, 0.0, 30.0]);
        assert_eq!((chart.most.as_str(), chart.least.as_str()), ("1.00", "0.00"));
        assert_eq!(chart.bars[0].whisker, "M0.43 16.0V24.0");
        assert_eq!((chart.bars[1].value.as_str(), chart.bars[1].whisker.as_str()), ("–", ""));
        let large = RunChart::new("length", &[run(Some(20.0)), run(Some(-20.0))]);
        assert!((large.bars[0].y + large.bars[0].height - large.bars[1].y).abs() < 0.11);
    }
}
