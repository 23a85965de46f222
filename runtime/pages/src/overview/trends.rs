//! `GET P/_/trends`: the parts of the overview that take longer to compute. Latency and users are read from traces.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::metrics::{Accumulator, Aggregation, Metric, MetricView};
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{
    Chart, ChartBar, ChartPart, DeferredTrend, Figure, ModelLine, Sort, Text, TracesQuery, Trend,
    TrendPage, duration, percent_change, segment, with_query,
};
use serde::Deserialize;

use crate::overview;
use crate::overview::charts::{self, Bucket, Sums, buckets};
use crate::overview::queries::{MetricReader, Range};
use crate::read;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::scores;
use crate::state::App;
use crate::traces::bars;
use crate::traces::conditions::filter_of;

/// Models with their own row; the others share one.
const MAX_MODELS: usize = 11;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Figures,
    Traces,
    Latency,
    Models,
    Scores,
}

/// The parts with their names in URLs and their labels.
const KINDS: [(Kind, &str, &str); 5] = [
    (Kind::Figures, "figures", "Latency and users"),
    (Kind::Traces, "traces", "Traces over time"),
    (Kind::Latency, "latency", "Latency over time"),
    (Kind::Models, "models", "Cost by model"),
    (Kind::Scores, "scores", "Scores"),
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TrendParams {
    part: String,
}

/// `GET P/_/trends`: one part, with the query parameters of the overview.
pub(crate) async fn trend_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<TrendParams>,
) -> Result<Response, Problem> {
    let kind = KINDS.iter().find(|(_, name, _)| *name == params.part);
    let message = "must be one of `figures`, `traces`, `latency`, `models`, `scores`";
    let (kind, ..) = *kind.ok_or_else(|| Problem::query("part", message))?;
    let range = overview::range::range(&viewer, app.web.clock.now());
    let range = range.ok_or_else(|| Problem::query("to", "must be after `from`"))?;
    let trend = trend(&app, &viewer, range, kind).await?;
    page(StatusCode::OK, &TrendPage { trend })
}

/// All parts: with a range their content, otherwise the URLs to load them from.
pub(crate) async fn deferred_trends(
    app: &App,
    viewer: &Viewer,
    shown: Option<Range>,
) -> Result<Vec<DeferredTrend>, Problem> {
    let base = viewer.base();
    let parts = format!("{base}/_/trends");
    let mut all = Vec::new();
    for (kind, part, label) in KINDS {
        let shown = match shown {
            Some(range) => Some(trend(app, viewer, range, kind).await?),
            None => None,
        };
        let which = Some(("part", part.to_owned()));
        let place = deferred_trend(viewer, label, (&parts, &base), which);
        all.push(DeferredTrend { trend: shown, ..place });
    }
    Ok(all)
}

/// A part without content: the URL of the fragment and that of the page with all parts.
pub(crate) fn deferred_trend(
    viewer: &Viewer,
    label: &'static str,
    (part, page): (&str, &str),
    which: Option<(&'static str, String)>,
) -> DeferredTrend {
    let with = |path: &str, more: Option<(&'static str, String)>| {
        let kept = viewer.focus.pairs().into_iter();
        with_query(path, &kept.chain(more).collect::<Vec<_>>())
    };
    DeferredTrend {
        label,
        fragment_href: with(part, which),
        page_href: with(page, Some(("trends", "1".to_owned()))),
        trend: None,
    }
}

async fn trend(app: &App, viewer: &Viewer, range: Range, kind: Kind) -> Result<Trend, Problem> {
    let reader = MetricReader { app, viewer, range, user: None };
    let trend = match kind {
        Kind::Figures => figures(reader).await,
        Kind::Traces => {
            let chart = bars::chart((app, viewer), &TracesQuery::default(), range).await;
            chart.map(Trend::Chart)
        }
        Kind::Latency => latency(reader).await,
        Kind::Models => models(reader).await,
        Kind::Scores => {
            let scores = scores::trends::scores(reader).await;
            scores.map(|(shown, more)| Trend::Scores(shown, more))
        }
    };
    match trend {
        // Too many values for the limit of memory; a shorter time range has fewer.
        Err(problem) if problem.code() == Code::Conflict => {
            Ok(Trend::Error(Text::from(problem.message())))
        }
        other => other,
    }
}

/// Latencies of the range and a chart of them over time, absent without traces. Each bar links to its traces, the slowest first.
pub(crate) async fn latency_over_time(
    reader: MetricReader<'_>,
    rows: &TracesQuery,
) -> Result<(Accumulator, Option<Chart>), Problem> {
    let granularity = reader.granularity();
    let metrics = [("latency", Aggregation::P95)];
    let groups = reader.read(MetricView::Traces, &[], &metrics, Some(granularity)).await?;
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
    let base = reader.viewer.base();
    let bar = |bucket: &Bucket| {
        let latencies = by_time.get(&bucket.start);
        let end = |aggregation| {
            latencies.and_then(|own| latency_ms(own, aggregation)).unwrap_or_default()
        };
        ChartBar {
            time: bucket.time(),
            value: end(Aggregation::P95),
            part: end(Aggregation::P50),
            partial: bucket.partial,
            href: bucket.rows(reader.viewer, slowest(rows)).first(&base),
        }
    };
    let buckets = buckets(reader.app, reader.range, granularity);
    let bars: Vec<ChartBar> = buckets.iter().map(bar).collect();
    let is_measured = buckets.iter().map(|bucket| by_time.contains_key(&bucket.start));
    let title = ("Latency, p95", ChartPart::Median);
    let chart = (!by_time.is_empty()).then(|| {
        let chart = Chart::new(title, granularity, &bars, latency_text).measured(is_measured);
        chart.of_n(all.values().len())
    });
    Ok((all, chart))
}

fn latency_text(ms: f64) -> String {
    duration((ms * 1_000.0) as i64)
}

/// The list, the slowest first.
fn slowest(rows: &TracesQuery) -> TracesQuery {
    TracesQuery { sort: Sort::from_name("-latency").unwrap_or_default(), ..rows.clone() }
}

/// The list of the slowest traces in the range of the overview.
fn slowest_first(viewer: &Viewer) -> TracesQuery {
    TracesQuery { focus: overview::range::list_focus(viewer), ..slowest(&TracesQuery::default()) }
}

/// Latencies and the number of users in the range.
async fn latencies_and_users(reader: MetricReader<'_>) -> Result<(Accumulator, u64), Problem> {
    let metrics = [("latency", Aggregation::P95)];
    let groups = reader.read(MetricView::Traces, &[], &metrics, None).await?;
    let values = groups.into_iter().flat_map(|group| group.values).next();
    Ok((values.unwrap_or_default(), users(reader).await?))
}

/// Median and 95th percentile of latency, and users, each with the change from the previous period.
async fn figures(reader: MetricReader<'_>) -> Result<Trend, Problem> {
    let (now, n_users) = latencies_and_users(reader).await?;
    let (from, to) = reader.range;
    let before = from.plus_millis(from.as_millis() - to.as_millis());
    let before = MetricReader { range: (before, from), ..reader };
    let (old, n_before) = match latencies_and_users(before).await {
        // Too many values in the previous period.
        Err(problem) if problem.code() == Code::Conflict => (Accumulator::default(), 0),
        found => found?,
    };
    let base = reader.viewer.base();
    let rows = slowest_first(reader.viewer).first(&base);
    let figure = |label, aggregation| {
        let [value, was] = [&now, &old].map(|values| latency_ms(values, aggregation));
        Figure {
            label,
            value: value.map_or_else(|| "–".to_owned(), latency_text),
            change: value.zip(was).and_then(|(now, old)| percent_change(now, old)),
            rows: Some(rows.clone()),
            ..Figure::default()
        }
    };
    let focus = overview::range::list_focus(reader.viewer);
    Ok(Trend::Figures(vec![
        figure("Median latency", Aggregation::P50),
        figure("p95 latency", Aggregation::P95),
        Figure {
            label: "Users",
            value: perpend_views::count(n_users),
            change: percent_change(n_users as f64, n_before as f64),
            rows: Some(format!("{base}/users{}", focus.query())),
            ..Figure::default()
        },
    ]))
}

/// Latency over time and the slowest trace.
async fn latency(reader: MetricReader<'_>) -> Result<Trend, Problem> {
    let (all, chart) = latency_over_time(reader, &TracesQuery::default()).await?;
    let rows = slowest_first(reader.viewer);
    let slowest = slowest_of(reader, &rows).await?;
    let slowest = Figure {
        label: "Slowest trace",
        value: latency_ms(&all, Aggregation::Max).map_or_else(|| "–".to_owned(), latency_text),
        rows: slowest.or_else(|| Some(rows.first(&reader.viewer.base()))),
        ..Figure::default()
    };
    Ok(Trend::Latency(slowest, chart))
}

/// URL of the first trace of a list; absent if the list is empty or too large to sort.
async fn slowest_of(
    reader: MetricReader<'_>,
    rows: &TracesQuery,
) -> Result<Option<String>, Problem> {
    let query = TraceQuery {
        filter: filter_of(rows, reader.app.web.clock.now()),
        order: rows.sort.order.clone(),
        ascending: rows.sort.ascending,
        limit: 1,
        ..TraceQuery::default()
    };
    let found = read::first_traces(reader.app, &reader.viewer.project, query).await?;
    let base = reader.viewer.base();
    let href = |trace: &Trace| format!("{base}/traces/{}", segment(trace.id.as_str()));
    Ok(found.first().map(href))
}

async fn users(reader: MetricReader<'_>) -> Result<u64, Problem> {
    let metrics = [("uniqueUserIds", Aggregation::Uniq)];
    let groups = reader.read(MetricView::Traces, &[], &metrics, None).await?;
    let metric = MetricView::Traces
        .measure("uniqueUserIds")
        .map(|measure| Metric { measure, aggregation: Aggregation::Uniq });
    let value = groups.first().and_then(|group| group.values.first());
    let n = value.zip(metric).and_then(|(value, metric)| value.result(&metric, 0).as_u64());
    Ok(n.unwrap_or_default())
}

/// Models by cost, then by tokens.
async fn models(reader: MetricReader<'_>) -> Result<Trend, Problem> {
    let groups = charts::totals_by(reader, Some("providedModelName"), None).await?;
    let mut by_name: BTreeMap<&str, Sums> = BTreeMap::new();
    for (group, own) in &groups {
        if let Some(Some(name)) = group.dimensions.get(1) {
            let sums = by_name.entry(name).or_default();
            *sums = sums.plus(*own);
        }
    }
    let mut models: Vec<(&str, Sums)> = by_name.into_iter().collect();
    models.sort_by(|(_, a), (_, b)| {
        let by_cost = b.cost.dollars.total_cmp(&a.cost.dollars);
        by_cost.then(b.tokens.total_cmp(&a.tokens))
    });
    let most = models.first().map_or(0.0, |(_, sums)| sums.cost.dollars);
    let n_others = models.len().saturating_sub(MAX_MODELS);
    let others = models.split_off(models.len() - n_others);
    let line = |name: &str, sums: Sums| {
        let n_calls = sums.observations as u64;
        ModelLine::new(name, (sums.cost, sums.tokens, n_calls), most)
    };
    let mut lines: Vec<ModelLine> = models.iter().map(|(name, sums)| line(name, *sums)).collect();
    if !others.is_empty() {
        let sums = others.iter().map(|(_, sums)| *sums);
        let sums = sums.fold(Sums::default(), Sums::plus);
        lines.push(line(&format!("{n_others} other models"), sums));
    }
    Ok(Trend::Models(lines))
}

fn latency_ms(values: &Accumulator, aggregation: Aggregation) -> Option<f64> {
    let measure = MetricView::Traces.measure("latency")?;
    let metric = Metric { measure, aggregation };
    values.result(&metric, 0).as_f64()
}
