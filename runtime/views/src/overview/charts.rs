//! Bar charts over time, with a data table and links to the rows of each bar.

use perpend_domain::cost::CostSum;
use perpend_domain::metrics::Granularity;
use perpend_domain::time::Timestamp;

use crate::Html;
use crate::facts::utc_time;
use crate::format::{NO_VALUE, clock, cost, count, date, plural};

/// Height of the drawing in SVG units.
const HEIGHT: f64 = 40.0;
/// Distances of the hatching lines from the top of a bar.
const LINES: [f64; 8] = [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0];
/// Label of a bar whose time range has not ended.
pub const SO_FAR: &str = "so far";

/// The value of one time bucket.
#[derive(Clone, Debug)]
pub struct ChartBar {
    /// Start and end, exclusive.
    pub time: (Timestamp, Timestamp),
    /// Value.
    pub value: f64,
    /// Value of the highlighted part.
    pub part: f64,
    /// Reason for an incomplete bucket: [`SO_FAR`], or `in part` if the range cuts it.
    pub partial: Option<&'static str>,
    /// URL of its rows.
    pub href: String,
}

/// The highlighted part of each bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartPart {
    /// Number of items with errors.
    Errors,
    /// Median of the values whose percentile is the bar.
    Median,
}

impl ChartPart {
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Errors => "With errors",
            Self::Median => "Median",
        }
    }

    /// Words after the value of the part.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Errors => "with errors",
            Self::Median => "median",
        }
    }

    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Errors => "bad",
            Self::Median => "of-part",
        }
    }

    /// Whether it is drawn as a line rather than an area.
    pub(crate) const fn is_line(self) -> bool {
        matches!(self, Self::Median)
    }
}

/// A bar chart.
#[derive(Clone, Debug)]
pub struct Chart {
    pub(crate) title: &'static str,
    pub(crate) part: ChartPart,
    /// Length of a bucket: `hour`, `UTC day`. Days are always UTC.
    pub(crate) bucket: &'static str,
    /// Heading of the time column in the data table.
    pub(crate) from: &'static str,
    /// Start of the first bucket and end of the last; for days, the first and the last day.
    pub(crate) ends: Vec<Html>,
    pub(crate) most: String,
    pub(crate) bars: Vec<DrawnBar>,
    pub(crate) has_part: bool,
    /// Legend of hatched bars.
    pub(crate) partial: Option<&'static str>,
    /// Number of values of a percentile.
    pub(crate) n: Option<String>,
    /// Whether the chart ignores the filter of the list.
    pub(crate) is_unfiltered: bool,
    /// Number of observations without a known price, in words.
    pub(crate) unpriced: Option<String>,
    /// Notes on the values.
    pub(crate) notes: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct DrawnBar {
    pub(crate) x: usize,
    pub(crate) y: f64,
    pub(crate) height: f64,
    pub(crate) part_y: f64,
    pub(crate) part_height: f64,
    pub(crate) at: String,
    /// ISO 8601 time or date; empty for a turn.
    pub(crate) iso: String,
    pub(crate) value: String,
    pub(crate) part: String,
    pub(crate) partial: Option<&'static str>,
    /// SVG path of the hatching.
    pub(crate) hatch: String,
    pub(crate) href: String,
}

/// The value of one turn.
#[derive(Clone, Debug)]
pub(crate) struct TurnBar {
    pub(crate) number: u64,
    pub(crate) value: f64,
    /// Whether it has errors, so that it is hatched.
    pub(crate) is_failed: bool,
}

impl Chart {
    /// A bar for each turn, with a link to it.
    pub(crate) fn of_turns(
        title: &'static str,
        bars: &[TurnBar],
        shown: fn(f64) -> String,
    ) -> Self {
        const FAILED: &str = "with errors";
        let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        let drawn = bars.iter().enumerate().map(|(x, bar)| {
            let height = height(bar.value, most);
            DrawnBar {
                x,
                y: HEIGHT - height,
                height,
                part_y: HEIGHT,
                part_height: 0.0,
                at: format!("Turn {}", count(bar.number)),
                iso: String::new(),
                value: shown(bar.value),
                part: String::new(),
                partial: bar.is_failed.then_some(FAILED),
                hatch: match bar.is_failed {
                    true => hatch(x, height),
                    false => String::new(),
                },
                href: format!("#turn-{}", bar.number),
            }
        });
        let ends = bars.first().zip(bars.last());
        let ends = ends.map(|(first, last)| {
            [first, last].map(|bar| Html::text(&format!("Turn {}", count(bar.number))))
        });
        let is_failed = |bar: &TurnBar| bar.is_failed && 0.0 < bar.value;
        Self {
            title,
            part: ChartPart::Errors,
            bucket: "turn",
            from: "Turn",
            ends: ends.into_iter().flatten().collect(),
            most: shown(most),
            bars: drawn.collect(),
            has_part: false,
            partial: bars.iter().any(is_failed).then_some(FAILED),
            n: None,
            is_unfiltered: false,
            unpriced: None,
            notes: Vec::new(),
        }
    }

    /// Bars in order of time. `shown` formats a value with its unit.
    #[must_use]
    pub fn new(
        (title, part): (&'static str, ChartPart),
        granularity: Granularity,
        bars: &[ChartBar],
        shown: fn(f64) -> String,
    ) -> Self {
        let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        let (bucket, from) = match granularity {
            Granularity::Minute | Granularity::Hour => (granularity.as_str(), "From, UTC"),
            Granularity::Day => ("UTC day", "Day (UTC)"),
            Granularity::Week => ("UTC week", "Week (UTC) from"),
            Granularity::Month => ("UTC month", "Month (UTC) from"),
        };
        let is_of_days = bucket != granularity.as_str();
        let ends = bars.first().zip(bars.last());
        let ends = ends.map(|(first, last)| match is_of_days {
            true => [first.time.0, last.time.0].map(|at| Html::time(&date(at), &date(at))),
            false => [first.time.0, last.time.1].map(utc_time),
        });
        let drawn = bars.iter().enumerate().map(|(x, bar)| {
            let [all, part] = [bar.value, bar.part].map(|value| height(value, most));
            let at = bar.time.0;
            let (at, iso) = match is_of_days {
                true => (date(at), date(at)),
                false => (clock(at), at.to_iso_micros()),
            };
            DrawnBar {
                x,
                y: HEIGHT - all,
                height: all,
                part_y: HEIGHT - part,
                part_height: part,
                at,
                iso,
                value: shown(bar.value),
                part: shown(bar.part),
                hatch: bar.partial.map(|_| hatch(x, all)).unwrap_or_default(),
                partial: bar.partial,
                href: bar.href.clone(),
            }
        });
        Self {
            title,
            part,
            bucket,
            from,
            ends: ends.into_iter().flatten().collect(),
            most: shown(most),
            bars: drawn.collect(),
            has_part: bars.iter().any(|bar| 0.0 < bar.part),
            partial: partial(granularity, bars),
            n: None,
            is_unfiltered: false,
            unpriced: None,
            notes: Vec::new(),
        }
    }

    /// Marks buckets without values, to distinguish them from zero.
    #[must_use]
    pub fn measured(mut self, is_measured: impl IntoIterator<Item = bool>) -> Self {
        for (bar, is_measured) in self.bars.iter_mut().zip(is_measured) {
            if !is_measured {
                bar.value = NO_VALUE.to_owned();
                bar.part = NO_VALUE.to_owned();
            }
        }
        self
    }

    /// Adds notes to the caption.
    #[must_use]
    pub fn noting(self, notes: Vec<&'static str>) -> Self {
        Self { notes, ..self }
    }

    /// Sets the number of values of its percentiles.
    #[must_use]
    pub fn of_n(self, n: usize) -> Self {
        Self { n: Some(count(n as u64)), ..self }
    }

    /// Marks the chart as not filtered.
    #[must_use]
    pub fn unfiltered(self) -> Self {
        Self { is_unfiltered: true, ..self }
    }

    /// Formats the values of the bars as costs and counts observations without a known price. `costs` are in the order of
    /// the bars; with `is_least` the count is a lower bound.
    #[must_use]
    pub fn of_costs(mut self, costs: &[CostSum], is_least: bool) -> Self {
        let all: CostSum = costs.iter().copied().sum();
        let most = costs.iter().map(|sum| sum.dollars).fold(0.0, f64::max);
        for (bar, sum) in self.bars.iter_mut().zip(costs) {
            bar.value = cost(*sum);
        }
        self.most = cost(CostSum { dollars: most, ..all });
        let least = if is_least { "at least " } else { "" };
        self.unpriced = (0 < all.n_unpriced)
            .then(|| format!("{least}{}", plural(all.n_unpriced, "observation")));
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bars.iter().all(|bar| bar.height <= 0.0)
    }
}

/// Height of a bar; the highest fills the drawing.
fn height(value: f64, most: f64) -> f64 {
    match 0.0 < most {
        true => (value / most * HEIGHT * 10.0).round() / 10.0,
        false => 0.0,
    }
}

/// SVG path of the hatching of a bar. The lines are horizontal, so that they stay the same in a stretched drawing.
fn hatch(x: usize, height: f64) -> String {
    let top = HEIGHT - height;
    let fit = LINES.into_iter().filter(|below| *below <= height);
    let lines = fit.map(|below| format!("M{x} {:.1}h.86", top + below));
    lines.collect()
}

/// Legend of the incomplete buckets with values, if any.
fn partial(granularity: Granularity, bars: &[ChartBar]) -> Option<&'static str> {
    let mut seen = bars.iter().filter(|bar| 0.0 < bar.value);
    let found = seen.rfind(|bar| bar.partial.is_some())?.partial;
    Some(match granularity {
        _ if found != Some(SO_FAR) => "in part",
        Granularity::Minute => "this minute so far",
        Granularity::Hour => "this hour so far",
        Granularity::Day => "today so far",
        Granularity::Week => "this week so far",
        Granularity::Month => "this month so far",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bar_fills_the_drawing_and_an_empty_one_has_no_height() {
        let bar = |value, part| ChartBar {
            time: (Timestamp::from_millis(0), Timestamp::from_millis(3_600_000)),
            value,
            part,
            partial: None,
            href: String::new(),
        };
        let shown = |value: f64| value.to_string();
        let chart = Chart::new(
            ("Observations", ChartPart::Errors),
            Granularity::Hour,
            &[bar(0.0, 0.0), bar(8.0, 2.0)],
            shown,
        );
        let heights: Vec<_> =
            chart.bars.iter().map(|bar| (bar.y, bar.height, bar.part_height)).collect();
        assert_eq!(heights, [(40.0, 0.0, 0.0), (0.0, 40.0, 10.0)]);
        assert_eq!((chart.most.as_str(), chart.is_empty()), ("8", false));
        let measured = chart.clone().measured([false, true]);
        let values = measured.bars.iter().map(|bar| (bar.value.as_str(), bar.part.as_str()));
        assert_eq!(values.collect::<Vec<_>>(), [("–", "–"), ("8", "2")]);
        let ends = ["00:00:00", "01:00:00"].map(|time| format!(">1970-01-01 {time} UTC<"));
        let shown_there = |n: usize| chart.ends[n].as_str().contains(&ends[n]);
        assert!(shown_there(0) && shown_there(1), "{:?}", chart.ends);
        let days = Chart::new(
            ("Observations", ChartPart::Errors),
            Granularity::Day,
            &[bar(8.0, 2.0)],
            shown,
        );
        let date = "<time datetime=\"1970-01-01\">1970-01-01</time>";
        assert_eq!((days.ends[1].as_str(), days.bucket), (date, "UTC day"));
        let none = Chart::new(
            ("Observations", ChartPart::Errors),
            Granularity::Hour,
            &[bar(0.0, 0.0)],
            shown,
        );
        assert!(none.is_empty());
    }

    #[test]
    fn an_incomplete_bar_is_hatched_and_has_a_legend() {
        let bar = |value, partial| ChartBar {
            time: (Timestamp::from_millis(0), Timestamp::from_millis(86_400_000)),
            value,
            part: 0.0,
            partial,
            href: String::new(),
        };
        let chart = |bars: &[ChartBar]| {
            let shown = |value: f64| value.to_string();
            Chart::new(("Traces", ChartPart::Errors), Granularity::Day, bars, shown)
        };
        let cut = bar(4.0, Some("in part"));
        let today = chart(&[cut.clone(), bar(8.0, None), bar(2.0, Some(SO_FAR))]);
        assert_eq!(today.partial, Some("today so far"));
        let hatches: Vec<&str> = today.bars.iter().map(|bar| bar.hatch.as_str()).collect();
        let cut_lines = "M0 25.0h.86M0 30.0h.86M0 35.0h.86M0 40.0h.86";
        assert_eq!(hatches, [cut_lines, "", "M2 35.0h.86M2 40.0h.86"]);
        assert_eq!(chart(&[cut]).partial, Some("in part"));
        let unseen = chart(&[bar(1.0, None), bar(0.0, Some(SO_FAR))]);
        assert_eq!(unseen.partial, None);
    }

    #[test]
    fn bars_of_costs_mark_missing_prices() {
        let costs = [(Some(0.5), true), (None, true), (None, false)];
        let costs = costs.map(|(cost, is_call)| CostSum::of_observation(cost, is_call));
        let bar = |sum: &CostSum| ChartBar {
            time: (Timestamp::from_millis(0), Timestamp::from_millis(3_600_000)),
            value: sum.dollars,
            part: 0.0,
            partial: None,
            href: String::new(),
        };
        let chart = |costs: &[CostSum]| {
            let bars: Vec<ChartBar> = costs.iter().map(bar).collect();
            let kind = ("Cost", ChartPart::Errors);
            Chart::new(kind, Granularity::Hour, &bars, crate::format::dollars)
        };
        let some = chart(&costs).of_costs(&costs, false);
        let values: Vec<&str> = some.bars.iter().map(|bar| bar.value.as_str()).collect();
        assert_eq!(values, ["$0.5000", "?", "–"]);
        assert_eq!(
            (some.most.as_str(), some.unpriced.as_deref()),
            ("≥ $0.5000", Some("1 observation"))
        );
        let least = chart(&costs).of_costs(&costs, true);
        assert_eq!(least.unpriced.as_deref(), Some("at least 1 observation"));
        let none = chart(&costs[1..]).of_costs(&costs[1..], false);
        assert!(none.is_empty() && none.most == "?" && none.unpriced.is_some());
    }
}
