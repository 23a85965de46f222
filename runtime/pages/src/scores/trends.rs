//! Scores of the overview: means and shares with confidence intervals of the most frequent score names.

use std::collections::BTreeMap;

use perpend_domain::metrics::{Accumulator, Aggregation, MetricGroup, MetricView};
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_stats::{proportion, summary};
use perpend_views::{ScoreAggregate, ScoreTrend, Text, clock, with_query};

use crate::overview;
use crate::overview::charts::buckets;
use crate::overview::queries::MetricReader;

/// Score names shown.
const MAX_NAMES: usize = 8;
/// Confidence level of intervals.
const CONFIDENCE: f64 = 0.95;

/// Text and link for the other score names.
type OtherNames = Option<(String, String)>;

/// The most frequent score names, and a link to the others.
pub(crate) async fn scores(
    reader: MetricReader<'_>,
) -> Result<(Vec<ScoreTrend>, OtherNames), Problem> {
    let mut all = Vec::new();
    let dimensions = ["name", "dataType"];
    let metrics = [("value", Aggregation::P50)];
    let granularity = Some(reader.granularity());
    let groups = reader.read(MetricView::ScoresNumeric, &dimensions, &metrics, granularity).await?;
    for ((name, kind), by_time) in by_name(groups) {
        all.push(ScoreSeries {
            n: by_time.values().map(|values| values.len() as u64).sum(),
            values: match kind.as_str() {
                "BOOLEAN" => SeriesValues::Truths(by_time),
                _ => SeriesValues::Numbers(by_time),
            },
            name,
        });
    }
    all.extend(categories(reader).await?);
    all.sort_by(|a, b| b.n.cmp(&a.n).then_with(|| a.name.cmp(&b.name)));
    let n_more = all.len().saturating_sub(MAX_NAMES);
    all.truncate(MAX_NAMES);
    let trends = all.into_iter().filter_map(|series| trend(reader, series));
    let more = match n_more {
        0 => None,
        1 => Some("1 more name".to_owned()),
        n => Some(format!("{n} more names")),
    };
    let more = more.map(|text| (text, scores_url(reader, "/scores", None)));
    Ok((trends.collect(), more))
}

/// Categorical scores by name, with the most frequent category.
async fn categories(reader: MetricReader<'_>) -> Result<Vec<ScoreSeries>, Problem> {
    let view = MetricView::ScoresCategorical;
    let metrics = [("count", Aggregation::Count)];
    let mut by_name: BTreeMap<String, ScoreSeries> = BTreeMap::new();
    let groups = reader.read(view, &["name", "stringValue"], &metrics, None).await?;
    for group in groups {
        let mut dimensions = group.dimensions.into_iter();
        let (Some(Some(name)), Some(Some(category))) = (dimensions.next(), dimensions.next())
        else {
            continue;
        };
        let n = group.values.first().map_or(0, |value| value.total().n);
        let series = by_name.entry(name.clone()).or_insert_with(|| ScoreSeries {
            name,
            n: 0,
            values: SeriesValues::Category(String::new(), 0),
        });
        series.n += n;
        match &mut series.values {
            SeriesValues::Category(top, most) if *most < n => (*top, *most) = (category, n),
            _ => {}
        }
    }
    Ok(by_name.into_values().collect())
}

/// URL of a page about the summarized scores, with a parameter.
fn scores_url(
    reader: MetricReader<'_>,
    path: &str,
    parameter: Option<(&'static str, String)>,
) -> String {
    let focus = overview::range::list_focus(reader.viewer);
    let mut pairs = focus.pairs();
    if focus.environments.is_empty() {
        pairs.push(("own", "0".to_owned()));
    }
    pairs.extend(parameter);
    with_query(&format!("{}{path}", reader.viewer.base()), &pairs)
}

fn trend(reader: MetricReader<'_>, series: ScoreSeries) -> Option<ScoreTrend> {
    let empty = BTreeMap::new();
    let (summary, by_time) = match &series.values {
        SeriesValues::Numbers(by_time) => {
            let values: Vec<f64> = by_time.values().flatten().copied().collect();
            // Numbers that are all 0 or 1 are a share, whose interval stays within them.
            let n_ones = values.iter().filter(|value| **value == 1.0).count();
            let n_zeros = values.iter().filter(|value| **value == 0.0).count();
            let summary = match n_ones + n_zeros == values.len() {
                true => share("", n_ones as u64, series.n)?,
                false => mean(&values)?,
            };
            (summary, by_time)
        }
        SeriesValues::Truths(by_time) => {
            let truths = by_time.values().flatten().filter(|value| **value != 0.0);
            (share("true", truths.count() as u64, series.n)?, by_time)
        }
        SeriesValues::Category(top, most) => (share(top, *most, series.n)?, &empty),
    };
    let over_time: Vec<(String, Option<f64>)> = match by_time.is_empty() {
        true => Vec::new(),
        false => buckets(reader.app, reader.range, reader.granularity())
            .into_iter()
            .map(|bucket| {
                let values = by_time.get(&bucket.start).filter(|own| !own.is_empty());
                let mean = values.map(|own| own.iter().sum::<f64>() / own.len() as f64);
                (clock(bucket.at), mean)
            })
            .collect(),
    };
    let hrefs = [("/scores", "name"), ("/scores/analytics", "a")]
        .map(|(path, name)| scores_url(reader, path, Some((name, series.name.clone()))));
    Some(ScoreTrend::new(&series.name, (summary, series.n), &over_time, hrefs))
}

type ByTime = BTreeMap<Timestamp, Vec<f64>>;

/// Scores with one name.
struct ScoreSeries {
    name: String,
    n: u64,
    values: SeriesValues,
}

enum SeriesValues {
    Numbers(ByTime),
    Truths(ByTime),
    /// The most frequent category and its number of scores.
    Category(String, u64),
}

/// By name and type.
fn by_name(groups: Vec<MetricGroup>) -> BTreeMap<(String, String), ByTime> {
    let mut names: BTreeMap<(String, String), ByTime> = BTreeMap::new();
    for group in groups {
        let mut dimensions = group.dimensions.into_iter();
        let name = dimensions.next().flatten().zip(dimensions.next().flatten());
        let values = group.values.first().map(Accumulator::values);
        if let (Some(at), Some(name), Some(values)) = (group.at, name, values) {
            names.entry(name).or_default().insert(at, values.to_vec());
        }
    }
    names
}

fn mean(values: &[f64]) -> Option<ScoreAggregate> {
    let all = summary::summarize(values, None, CONFIDENCE).ok()?;
    // The interval of numbers from 0 to 1 stays within this scale.
    let is_scale = values.iter().all(|value| (0.0..=1.0).contains(value));
    let ends = all.interval.map(|ends| match is_scale {
        true => [ends.lower.max(0.0), ends.upper.min(1.0)],
        false => [ends.lower, ends.upper],
    });
    Some(ScoreAggregate::Mean(all.mean?, ends))
}

fn share(label: &str, n: u64, of: u64) -> Option<ScoreAggregate> {
    let ends = proportion::wilson(n, of, CONFIDENCE).ok()?;
    let share = n as f64 / of as f64;
    Some(ScoreAggregate::Share(Text::from(label), share, [ends.lower, ends.upper]))
}
