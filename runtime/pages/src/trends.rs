//! `GET P/_/trends`: what takes longer to add up than the rest of the overview. Latency and users are read from traces,
//! means of scores with their intervals from single scores.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::filter::{Filter, OBSERVATIONS, SCORES, TRACES};
use perpend_domain::metrics::{
    Accumulator, Aggregation, Granularity, Group, Metric, Question, View,
};
use perpend_domain::time::Timestamp;
use perpend_stats::{proportion, summary};
use perpend_ui::{
    Bar, Chart, Figure, Later, ModelLine, Part, ScoreTrend, Sort, Text, Together, TracesQuery,
    Trend, TrendPage, clock, duration, encode,
};
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::page;
use crate::charts::{Bucket, buckets};
use crate::overview_range;
use crate::query::Query;
use crate::state::App;
use crate::viewer::Viewer;

/// Models that are named; the rest is one line.
const MODELS: usize = 11;
/// Names of scores that are shown.
const SCORE_NAMES: usize = 8;
/// Of intervals.
const LEVEL: f64 = 0.95;

type Range = (Timestamp, Timestamp);

/// What can be asked for, with its label.
const PARTS: [(&str, &str); 3] = [
    ("latency", "Latency and users"),
    ("models", "Cost by model"),
    ("scores", "Scores"),
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    part: String,
}

/// `GET P/_/trends`: a part alone. The rest of the query is that of the overview.
pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let is_known = PARTS.iter().any(|(name, _)| *name == asked.part);
    if !is_known {
        let message = "is latency, models or scores";
        return Err(Problem::query("part", message));
    }
    let now = app.web.clock.now();
    let range = overview_range::of(&viewer, now);
    let range = range.ok_or_else(|| Problem::query("to", "comes after from"))?;
    let trend = of(&app, &viewer, range, &asked.part).await?;
    page(StatusCode::OK, &TrendPage { trend })
}

/// Where the parts stand; with what is in them where there is a range.
pub(super) async fn later(
    app: &App,
    viewer: &Viewer,
    shown: Option<Range>,
) -> Result<Vec<Later>, Problem> {
    let (base, query) = (viewer.base(), viewer.focus.query());
    let sign = if query.is_empty() { '?' } else { '&' };
    let mut all = Vec::new();
    for (part, label) in PARTS {
        let shown = match shown {
            Some(range) => Some(of(app, viewer, range, part).await?),
            None => None,
        };
        all.push(Later {
            label,
            part: format!("{base}/_/trends{query}{sign}part={part}"),
            whole: format!("{base}{query}{sign}trends=1"),
            shown,
        });
    }
    Ok(all)
}

async fn of(app: &App, viewer: &Viewer, range: Range, part: &str) -> Result<Trend, Problem> {
    let asking = Asking { app, viewer, range };
    Ok(match part {
        "latency" => {
            let (mut figures, chart) = asking.latency().await?;
            figures.push(Figure {
                label: "Users",
                value: perpend_ui::count(asking.users().await?),
                change: None,
                rows: Some(format!("{}/users{}", viewer.base(), viewer.focus.query())),
            });
            Trend::Latency(figures, chart)
        }
        "models" => Trend::Models(asking.models().await?),
        _ => {
            let (scores, n_more) = asking.scores().await?;
            Trend::Scores(scores, n_more)
        }
    })
}

/// What is asked about a time.
struct Asking<'a> {
    app: &'a App,
    viewer: &'a Viewer,
    range: Range,
}

impl Asking<'_> {
    fn granularity(&self) -> Granularity {
        Granularity::for_range(self.range.0, self.range.1)
    }

    async fn ask(
        &self,
        view: View,
        dimensions: &[&str],
        metrics: &[(&str, Aggregation)],
        granularity: Option<Granularity>,
    ) -> Result<Vec<Group>, Problem> {
        let columns = match view {
            View::Traces => TRACES,
            View::Observations => OBSERVATIONS,
            _ => SCORES,
        };
        let metric = |(name, aggregation): &(&str, Aggregation)| {
            let measure = view.measure(name)?;
            Some(Metric {
                measure,
                aggregation: *aggregation,
            })
        };
        let question = Question {
            view,
            with_booleans: view == View::ScoresNumeric,
            dimensions: dimensions
                .iter()
                .filter_map(|name| view.dimension(name))
                .collect(),
            metrics: metrics.iter().filter_map(metric).collect(),
            filter: Filter {
                conditions: vec![self.viewer.environments(columns)],
            },
            from: self.range.0,
            to: self.range.1,
            granularity,
            top: None,
        };
        let telemetry = &self.app.store.telemetry;
        Ok(telemetry.metrics(&self.viewer.project, &question).await?)
    }

    /// Median and 95th percentile, of the whole time and over it.
    async fn latency(&self) -> Result<(Vec<Figure>, Option<Chart>), Problem> {
        let granularity = self.granularity();
        let metrics = [("latency", Aggregation::P95)];
        let groups = self
            .ask(View::Traces, &[], &metrics, Some(granularity))
            .await?;
        let mut by_time: BTreeMap<Timestamp, Accumulator> = BTreeMap::new();
        let mut all = Accumulator::default();
        for group in groups {
            let values = group.values.into_iter().next();
            let (Some(at), Some(values)) = (group.at, values) else {
                continue;
            };
            all.join(values.clone());
            by_time.insert(at, values);
        }
        let slowest = || TracesQuery {
            sort: Sort::named("-latency").unwrap_or_default(),
            ..TracesQuery::default()
        };
        let base = self.viewer.base();
        let bar = |bucket: Bucket| {
            let measured = by_time.get(&bucket.start);
            let end = |aggregation| {
                measured
                    .and_then(|own| millis(own, aggregation))
                    .unwrap_or_default()
            };
            Bar {
                at: bucket.at,
                value: end(Aggregation::P95),
                part: end(Aggregation::P50),
                is_partial: bucket.is_partial,
                href: bucket.rows(self.viewer, slowest()).first(&base),
            }
        };
        let bars: Vec<Bar> = buckets(self.app, self.range, granularity)
            .into_iter()
            .map(bar)
            .collect();
        let shown = |ms: f64| duration((ms * 1_000.0) as i64);
        let rows = TracesQuery {
            focus: overview_range::focus(self.viewer),
            ..slowest()
        };
        let rows = rows.first(&base);
        let figure = |label, aggregation| Figure {
            label,
            value: millis(&all, aggregation).map_or_else(|| "–".to_owned(), shown),
            change: None,
            rows: Some(rows.clone()),
        };
        let figures = vec![
            figure("Median latency", Aggregation::P50),
            figure("95th percentile", Aggregation::P95),
        ];
        let title = ("Latency, 95th percentile", Part::Median);
        let chart = (!by_time.is_empty()).then(|| Chart::new(title, granularity, &bars, shown));
        Ok((figures, chart))
    }

    async fn users(&self) -> Result<u64, Problem> {
        let metrics = [("uniqueUserIds", Aggregation::Uniq)];
        let groups = self.ask(View::Traces, &[], &metrics, None).await?;
        let metric = View::Traces.measure("uniqueUserIds").map(|measure| Metric {
            measure,
            aggregation: Aggregation::Uniq,
        });
        let value = groups.first().and_then(|group| group.values.first());
        let n = value
            .zip(metric)
            .and_then(|(value, metric)| value.result(&metric, 0).as_u64());
        Ok(n.unwrap_or_default())
    }

    /// The dearest first; those without a known price by their tokens.
    async fn models(&self) -> Result<Vec<ModelLine>, Problem> {
        let metrics = [
            ("totalCost", Aggregation::Sum),
            ("totalTokens", Aggregation::Sum),
            ("count", Aggregation::Count),
        ];
        let dimensions = ["providedModelName"];
        let groups = self
            .ask(View::Observations, &dimensions, &metrics, None)
            .await?;
        let mut models: Vec<(String, [f64; 3])> = groups
            .into_iter()
            .filter_map(|group| {
                let name = group.dimensions.into_iter().next().flatten()?;
                let total = |at: usize| group.values.get(at).map_or(0.0, |value| value.total().sum);
                let n = group.values.get(2).map_or(0, |value| value.total().n);
                Some((name, [total(0), total(1), n as f64]))
            })
            .collect();
        models.sort_by(|(_, a), (_, b)| b[0].total_cmp(&a[0]).then(b[1].total_cmp(&a[1])));
        let most = models.first().map_or(0.0, |(_, sums)| sums[0]);
        let n_others = models.len().saturating_sub(MODELS);
        let others = models.split_off(models.len() - n_others);
        let line = |(name, [cost, tokens, n]): &(String, [f64; 3])| {
            ModelLine::new(name, (*cost, *tokens, *n), most)
        };
        let mut lines: Vec<ModelLine> = models.iter().map(line).collect();
        if !others.is_empty() {
            let sum = |at: usize| others.iter().map(|(_, sums)| sums[at]).sum::<f64>();
            let name = format!("{n_others} other models");
            lines.push(line(&(name, [sum(0), sum(1), sum(2)])));
        }
        Ok(lines)
    }

    /// The names with most scores, and how many others there are.
    async fn scores(&self) -> Result<(Vec<ScoreTrend>, usize), Problem> {
        let mut all = Vec::new();
        let dimensions = ["name", "dataType"];
        let metrics = [("value", Aggregation::P50)];
        let granularity = Some(self.granularity());
        let groups = self
            .ask(View::ScoresNumeric, &dimensions, &metrics, granularity)
            .await?;
        for ((name, kind), by_time) in by_name(groups) {
            all.push(Named {
                n: by_time.values().map(|values| values.len() as u64).sum(),
                what: match kind.as_str() {
                    "BOOLEAN" => What::Truths(by_time),
                    _ => What::Numbers(by_time),
                },
                name,
            });
        }
        all.extend(self.categories().await?);
        all.sort_by(|a, b| b.n.cmp(&a.n).then_with(|| a.name.cmp(&b.name)));
        let n_more = all.len().saturating_sub(SCORE_NAMES);
        all.truncate(SCORE_NAMES);
        let trends = all.into_iter().filter_map(|named| self.trend(named));
        Ok((trends.collect(), n_more))
    }

    /// The most frequent category of each name.
    async fn categories(&self) -> Result<Vec<Named>, Problem> {
        let view = View::ScoresCategorical;
        let metrics = [("count", Aggregation::Count)];
        let mut by_name: BTreeMap<String, Named> = BTreeMap::new();
        let groups = self
            .ask(view, &["name", "stringValue"], &metrics, None)
            .await?;
        for group in groups {
            let mut dimensions = group.dimensions.into_iter();
            let (Some(Some(name)), Some(Some(category))) = (dimensions.next(), dimensions.next())
            else {
                continue;
            };
            let n = group.values.first().map_or(0, |value| value.total().n);
            let named = by_name.entry(name.clone()).or_insert_with(|| Named {
                name,
                n: 0,
                what: What::Category(String::new(), 0),
            });
            named.n += n;
            match &mut named.what {
                What::Category(top, most) if *most < n => (*top, *most) = (category, n),
                _ => {}
            }
        }
        Ok(by_name.into_values().collect())
    }

    fn trend(&self, named: Named) -> Option<ScoreTrend> {
        let empty = BTreeMap::new();
        let (said, by_time) = match &named.what {
            What::Numbers(by_time) => {
                let values: Vec<f64> = by_time.values().flatten().copied().collect();
                let all = summary::summarize(&values, None, LEVEL).ok()?;
                let ends = all.interval.map(|ends| [ends.lower, ends.upper]);
                (Together::Mean(all.mean?, ends), by_time)
            }
            What::Truths(by_time) => {
                let truths = by_time.values().flatten().filter(|value| **value != 0.0);
                (share("true", truths.count() as u64, named.n)?, by_time)
            }
            What::Category(top, most) => (share(top, *most, named.n)?, &empty),
        };
        let over_time: Vec<(String, Option<f64>)> = match by_time.is_empty() {
            true => Vec::new(),
            false => buckets(self.app, self.range, self.granularity())
                .into_iter()
                .map(|bucket| {
                    let values = by_time.get(&bucket.start).filter(|own| !own.is_empty());
                    let mean = values.map(|own| own.iter().sum::<f64>() / own.len() as f64);
                    (clock(bucket.at), mean)
                })
                .collect(),
        };
        let href = format!("{}/scores?name={}", self.viewer.base(), encode(&named.name));
        Some(ScoreTrend::new(
            &named.name,
            (said, named.n),
            &over_time,
            href,
        ))
    }
}

type ByTime = BTreeMap<Timestamp, Vec<f64>>;

/// The scores of a name.
struct Named {
    name: String,
    n: u64,
    what: What,
}

enum What {
    Numbers(ByTime),
    Truths(ByTime),
    /// The most frequent one, and how often it is.
    Category(String, u64),
}

/// By name and type.
fn by_name(groups: Vec<Group>) -> BTreeMap<(String, String), ByTime> {
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

fn share(what: &str, n: u64, of: u64) -> Option<Together> {
    let ends = proportion::wilson(n, of, LEVEL).ok()?;
    let share = n as f64 / of as f64;
    Some(Together::Share(
        Text::from(what),
        share,
        [ends.lower, ends.upper],
    ))
}

fn millis(values: &Accumulator, aggregation: Aggregation) -> Option<f64> {
    let measure = View::Traces.measure("latency")?;
    let metric = Metric {
        measure,
        aggregation,
    };
    values.result(&metric, 0).as_f64()
}
