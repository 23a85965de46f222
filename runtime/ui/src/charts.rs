//! Bars over time. The numbers stand in a table below the drawing, and each bar leads to the rows behind it.

use perpend_domain::cost::CostSum;
use perpend_domain::metrics::Granularity;
use perpend_domain::time::Timestamp;

use perpend_words::{clock, cost, many};

/// Height of the drawing, in its own units.
const HEIGHT: f64 = 40.0;

/// What was measured in one stretch of time.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its start.
    pub at: Timestamp,
    /// How much.
    pub value: f64,
    /// How much of that is the part that is told apart.
    pub part: f64,
    /// It has not ended yet.
    pub is_partial: bool,
    /// Where the rows behind it are.
    pub href: String,
}

/// The part of each bar that is told apart: the lower end of it in another colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What has errors.
    Errors,
    /// The middle of what the bar is the upper end of.
    Median,
}

impl Part {
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Errors => "With errors",
            Self::Median => "Median",
        }
    }

    /// Behind its value.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Errors => "with errors",
            Self::Median => "in the middle",
        }
    }

    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Errors => "bad",
            Self::Median => "of-part",
        }
    }
}

/// A measure over time.
#[derive(Clone, Debug)]
pub struct Chart {
    pub(crate) title: &'static str,
    pub(crate) part: Part,
    /// How long a bar is: `hour`.
    pub(crate) bucket: &'static str,
    pub(crate) most: String,
    pub(crate) bars: Vec<Drawn>,
    pub(crate) has_part: bool,
    /// How many steps have no cost although they should, in words.
    pub(crate) unpriced: Option<String>,
    /// What else has to be said of what is counted.
    pub(crate) notes: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) x: usize,
    pub(crate) y: f64,
    pub(crate) height: f64,
    pub(crate) part_y: f64,
    pub(crate) part_height: f64,
    pub(crate) at: String,
    pub(crate) iso: String,
    pub(crate) value: String,
    pub(crate) part: String,
    pub(crate) is_partial: bool,
    pub(crate) href: String,
}

impl Chart {
    /// Its first and its last bar.
    pub(crate) fn ends(&self) -> impl Iterator<Item = &Drawn> {
        self.bars.first().into_iter().chain(self.bars.last())
    }

    /// Of bars in the order of time; `shown` writes a value with its unit.
    #[must_use]
    pub fn new(
        (title, part): (&'static str, Part),
        granularity: Granularity,
        bars: &[Bar],
        shown: fn(f64) -> String,
    ) -> Self {
        let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        let height = |value: f64| match 0.0 < most {
            true => (value / most * HEIGHT * 10.0).round() / 10.0,
            false => 0.0,
        };
        let drawn = bars.iter().enumerate().map(|(x, bar)| {
            let (all, part) = (height(bar.value), height(bar.part));
            Drawn {
                x,
                y: HEIGHT - all,
                height: all,
                part_y: HEIGHT - part,
                part_height: part,
                at: clock(bar.at),
                iso: bar.at.to_iso_micros(),
                value: shown(bar.value),
                part: shown(bar.part),
                is_partial: bar.is_partial,
                href: bar.href.clone(),
            }
        });
        Self {
            title,
            part,
            bucket: granularity.as_str(),
            most: shown(most),
            bars: drawn.collect(),
            has_part: bars.iter().any(|bar| 0.0 < bar.part),
            unpriced: None,
            notes: Vec::new(),
        }
    }

    /// Says in its caption what is counted.
    #[must_use]
    pub fn noting(self, notes: Vec<&'static str>) -> Self {
        Self { notes, ..self }
    }

    /// Says of its bars, whose heights are dollars, where prices are missing. `costs` are in the order of the bars.
    #[must_use]
    pub fn of_costs(mut self, costs: &[CostSum]) -> Self {
        let all: CostSum = costs.iter().copied().sum();
        let most = costs.iter().map(|sum| sum.dollars).fold(0.0, f64::max);
        for (bar, sum) in self.bars.iter_mut().zip(costs) {
            bar.value = cost(*sum);
        }
        self.most = cost(CostSum {
            dollars: most,
            ..all
        });
        self.unpriced = (0 < all.n_unpriced).then(|| many(all.n_unpriced, "step"));
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bars.iter().all(|bar| bar.height <= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bar_fills_the_drawing_and_an_empty_one_has_no_height() {
        let bar = |value, part| Bar {
            at: Timestamp::from_millis(0),
            value,
            part,
            is_partial: false,
            href: String::new(),
        };
        let shown = |value: f64| value.to_string();
        let chart = Chart::new(
            ("Steps", Part::Errors),
            Granularity::Hour,
            &[bar(0.0, 0.0), bar(8.0, 2.0)],
            shown,
        );
        let heights: Vec<_> = chart
            .bars
            .iter()
            .map(|bar| (bar.y, bar.height, bar.part_height))
            .collect();
        assert_eq!(heights, [(40.0, 0.0, 0.0), (0.0, 40.0, 10.0)]);
        assert_eq!((chart.most.as_str(), chart.is_empty()), ("8", false));
        let none = Chart::new(
            ("Steps", Part::Errors),
            Granularity::Hour,
            &[bar(0.0, 0.0)],
            shown,
        );
        assert!(none.is_empty());
    }

    #[test]
    fn bars_of_costs_say_where_prices_are_missing() {
        let costs = [(Some(0.5), true), (None, true), (None, false)];
        let costs = costs.map(|(cost, is_call)| CostSum::of_step(cost, is_call));
        let bar = |sum: &CostSum| Bar {
            at: Timestamp::from_millis(0),
            value: sum.dollars,
            part: 0.0,
            is_partial: false,
            href: String::new(),
        };
        let chart = |costs: &[CostSum]| {
            let bars: Vec<Bar> = costs.iter().map(bar).collect();
            let kind = ("Cost", Part::Errors);
            Chart::new(kind, Granularity::Hour, &bars, perpend_words::dollars).of_costs(costs)
        };
        let some = chart(&costs);
        let values: Vec<&str> = some.bars.iter().map(|bar| bar.value.as_str()).collect();
        assert_eq!(values, ["$0.5000", "?", "–"]);
        assert_eq!(
            (some.most.as_str(), some.unpriced.as_deref()),
            ("≥ $0.5000", Some("1 step"))
        );
        let none = chart(&costs[1..]);
        assert!(none.is_empty() && none.most == "?" && none.unpriced.is_some());
    }
}
