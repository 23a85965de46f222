//! Parts of the overview that are loaded later: latency, users, cost by model and scores.

use askama::Template;
use perpend_domain::cost::CostSum;

use crate::format::{count, number, number_like, percent, percent_range};
use crate::overview::figure::Figure;
use crate::{Chart, Text};

/// Height of a sparkline in SVG units.
const HEIGHT: f64 = 16.0;
/// Minimum number of points of a sparkline.
const MIN_DOTS: usize = 3;

/// A part of the overview as a fragment.
#[derive(Clone, Debug, Template)]
#[template(path = "trend.html")]
pub struct TrendPage {
    /// Content of the part.
    pub trend: Trend,
}

/// A computed part.
#[derive(Clone, Debug)]
pub enum Trend {
    /// One measure over time.
    Chart(Chart),
    /// Several measures of the same time.
    Charts(Vec<Chart>),
    /// Figures of the whole range.
    Figures(Vec<Figure>),
    /// The slowest trace of the range, and latency over time if there are traces.
    Latency(Figure, Option<Chart>),
    /// Cost by model, highest first.
    Models(Vec<ModelLine>),
    /// Most frequent score names, and label and URL of the link to the others.
    Scores(Vec<ScoreTrend>, Option<(String, String)>),
    /// Error, with a way to reduce the work.
    Error(Text),
}

/// A part of the overview, computed or with the URL that computes it.
#[derive(Clone, Debug)]
pub struct DeferredTrend {
    /// Label.
    pub label: &'static str,
    /// URL of the fragment.
    pub fragment_href: String,
    /// URL of the page with all parts.
    pub page_href: String,
    /// The computed part, if it was requested with the page.
    pub trend: Option<Trend>,
}

/// Cost of a model, or of several.
#[derive(Clone, Debug)]
pub struct ModelLine {
    pub(crate) name: Text,
    pub(crate) cost: String,
    pub(crate) tokens: String,
    pub(crate) calls: String,
    /// Percent of the highest cost, from 0 to 100.
    pub(crate) width: f64,
}

impl ModelLine {
    /// `most` is the highest cost in dollars.
    #[must_use]
    pub fn new(name: &str, (cost, tokens, n_calls): (CostSum, f64, u64), most: f64) -> Self {
        Self {
            name: Text::from(name),
            cost: crate::format::cost(cost),
            tokens: count(tokens as u64),
            calls: count(n_calls),
            width: match 0.0 < most {
                true => (cost.dollars / most * 1_000.0).round() / 10.0,
                false => 0.0,
            },
        }
    }
}

/// Aggregate of the scores of a name.
#[derive(Clone, Debug)]
pub enum ScoreAggregate {
    /// Mean with its confidence interval, which a single value does not have.
    Mean(f64, Option<[f64; 2]>),
    /// Label, share and confidence interval of true values or of the most frequent category. The label is empty for numbers
    /// that are all 0 or 1.
    Share(Text, f64, [f64; 2]),
}

/// Trend of the scores of a name.
#[derive(Clone, Debug)]
pub struct ScoreTrend {
    pub(crate) name: Text,
    pub(crate) value: Text,
    pub(crate) interval: Option<String>,
    pub(crate) n: String,
    pub(crate) spark: Vec<SparkPoint>,
    pub(crate) href: String,
    /// URL of the statistics of the score.
    pub(crate) analytics_href: String,
}

/// Mean of one time bucket.
#[derive(Clone, Debug)]
pub(crate) struct SparkPoint {
    pub(crate) x: usize,
    pub(crate) y: f64,
    pub(crate) height: f64,
    pub(crate) title: String,
}

/// The points of a sparkline from the start and the value of each bucket; none if there are too few.
pub(crate) fn spark(over_time: &[(String, Option<f64>)]) -> Vec<SparkPoint> {
    // The scale includes 0, so that small changes do not look large, and 1, so that scores between 0 and 1 of several
    // names can be compared.
    let values = || over_time.iter().filter_map(|(_, value)| *value);
    let (low, high) = (values().fold(0.0, f64::min), values().fold(1.0, f64::max));
    let place = |value: f64| match low < high {
        true => (value - low) / (high - low) * HEIGHT,
        false => 0.0,
    };
    let dots = over_time.iter().enumerate().filter_map(|(x, (at, value))| {
        let (end, zero) = (place((*value)?), place(0.0));
        let height = ((end - zero).abs() * 10.0).round() / 10.0;
        Some(SparkPoint {
            x,
            y: HEIGHT - end.max(zero),
            height: height.max(0.5),
            title: format!("{at}: {}", number((*value)?)),
        })
    });
    let dots: Vec<SparkPoint> = dots.collect();
    match dots.len() < MIN_DOTS {
        true => Vec::new(),
        false => dots,
    }
}

impl ScoreTrend {
    /// `over_time` is the start and the mean of each bucket. The URLs are those of the scores and of their statistics.
    #[must_use]
    pub fn new(
        name: &str,
        (value, n): (ScoreAggregate, u64),
        over_time: &[(String, Option<f64>)],
        [href, analytics_href]: [String; 2],
    ) -> Self {
        let spark = spark(over_time);
        let (value, interval) = match value {
            ScoreAggregate::Mean(mean, interval) => (
                Text::from(number_like(mean, mean)),
                interval.map(|ends| {
                    let [low, high] = ends.map(|end| number_like(end, mean));
                    format!("({low}–{high})")
                }),
            ),
            ScoreAggregate::Share(what, share, ends) => (
                Text::from(format!("{} {}", percent(share), what.raw()).trim_end()),
                Some(format!("({})", percent_range(ends))),
            ),
        };
        Self { name: Text::from(name), value, interval, n: count(n), spark, href, analytics_href }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_an_interval_and_a_sparkline_starts_at_zero() {
        let at = |hour: u32, mean| (format!("{hour}:00"), mean);
        let means = [at(1, Some(0.4)), at(2, None), at(3, Some(0.8)), at(4, Some(1.0))];
        let value = ScoreAggregate::Mean(0.6, Some([0.5, 0.7]));
        let trend = ScoreTrend::new("tone", (value, 1_234), &means, Default::default());
        assert_eq!((trend.value.raw(), trend.n.as_str()), ("0.60", "1,234"));
        assert_eq!(trend.interval.as_deref(), Some("(0.50–0.70)"));
        let drawn: Vec<_> = trend.spark.iter().map(|dot| (dot.x, dot.height)).collect();
        assert_eq!(drawn, [(0, 6.4), (2, 12.8), (3, 16.0)]);
        let value = ScoreAggregate::Mean(0.6, None);
        let few = ScoreTrend::new("tone", (value, 2), &means[..3], Default::default());
        assert!(few.spark.is_empty(), "two points show nothing: {few:?}");
        let value = ScoreAggregate::Share(Text::from("true"), 0.81, [0.758, 0.854]);
        let trend = ScoreTrend::new("safe", (value, 10), &[], Default::default());
        assert_eq!(trend.value.raw(), "81 % true");
        assert_eq!(trend.interval.as_deref(), Some("(76–85)"));
        let value = ScoreAggregate::Share(Text::from("no refusal"), 0.999_96, [0.999_76, 0.999_99]);
        let trend = ScoreTrend::new("kind", (value, 23_403), &[], Default::default());
        let whole = format!("{} {}", trend.value, trend.interval.unwrap());
        assert_eq!(whole, "over 99.9 % no refusal (99.976–99.999)");
        let value = ScoreAggregate::Share(Text::default(), 0.8, [0.376, 0.964]);
        let trend = ScoreTrend::new("exact", (value, 5), &[], Default::default());
        let whole = format!("{} {}", trend.value, trend.interval.unwrap());
        assert_eq!(whole, "80 % (38–96)");
    }

    #[test]
    fn a_model_without_a_known_price_has_no_cost_and_no_bar() {
        let of = |dollars, n_priced, n_unpriced| CostSum { dollars, n_priced, n_unpriced };
        let line = ModelLine::new("own", (of(0.0, 0, 3), 1_500.0, 3), 0.0);
        assert_eq!((line.cost.as_str(), line.width), ("?", 0.0));
        let line = ModelLine::new("large", (of(1.5, 1, 0), 10.0, 1), 3.0);
        assert_eq!((line.cost.as_str(), line.width), ("$1.50", 50.0));
        let line = ModelLine::new("renamed", (of(1.5, 1, 1), 10.0, 2), 3.0);
        assert_eq!((line.cost.as_str(), line.width), ("≥ $1.50", 50.0));
    }
}
