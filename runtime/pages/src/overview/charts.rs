//! Totals of observations over time, for the charts of the overview.

use std::collections::{BTreeMap, BTreeSet};

use perpend_domain::cost::CostSum;
use perpend_domain::filter::{Condition, OBSERVATIONS, Test, find};
use perpend_domain::metrics::{
    Accumulator, Aggregation, Granularity, MetricGroup, MetricView, Partial,
};
use perpend_domain::observation::ObservationKind;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{Chart, ChartBar, ChartPart, Focus, Moment, SO_FAR, TracesQuery};

use crate::overview::queries::{MetricReader, Range};
use crate::request::viewer::Viewer;
use crate::state::App;

/// Totals of observations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) observations: f64,
    pub(crate) tokens: f64,
    pub(crate) cost: CostSum,
    /// Whether the number of observations without a price is a lower bound.
    pub(crate) is_least: bool,
}

impl Sums {
    /// The sum of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            observations: self.observations + other.observations,
            tokens: self.tokens + other.tokens,
            cost: self.cost + other.cost,
            is_least: self.is_least || other.is_least,
        }
    }
}

/// Metrics of each group, in the order of [`totals`].
const METRICS: [(&str, Aggregation); 3] = [
    ("count", Aggregation::Count),
    ("totalTokens", Aggregation::Sum),
    ("totalCost", Aggregation::Sum),
];

/// With more observations, those without a price are not counted exactly, because that takes too long for a page.
const MAX_EXACT: f64 = 50_000.0;

/// Observations, tokens and cost of a group.
fn totals(group: &MetricGroup) -> [Partial; 3] {
    let total = |at: usize| group.values.get(at).map(Accumulator::total);
    [0, 1, 2].map(|at| total(at).unwrap_or_default())
}

/// The observation kind of a group of [`totals_by`].
fn kind_of(group: &MetricGroup) -> Option<&str> {
    group.dimensions.first().and_then(Option::as_deref)
}

/// Whether all observations of the group are model calls.
fn has_only_calls(group: &MetricGroup) -> bool {
    let kind = kind_of(group).and_then(|kind| kind.parse::<ObservationKind>().ok());
    kind.is_some_and(ObservationKind::is_generation_like)
}

/// Totals of observations of one kind. A model call without a cost lacks a price, and so does any other observation with tokens
/// but no cost.
fn sums_of(group: &MetricGroup) -> Sums {
    let [n, tokens, cost] = totals(group);
    let n_calls = match has_only_calls(group) {
        true => n.n,
        false => tokens.n,
    };
    Sums {
        observations: n.n as f64,
        tokens: tokens.sum,
        cost: CostSum {
            dollars: cost.sum,
            n_priced: cost.n,
            n_unpriced: n_calls.saturating_sub(cost.n),
        },
        is_least: false,
    }
}

/// Whether observations with a cost but without tokens may hide others of the group that lack a price.
fn is_mixed(group: &MetricGroup) -> bool {
    let [_, tokens, cost] = totals(group);
    !has_only_calls(group) && 0 < tokens.n && 0 < cost.n
}

/// Totals of observations by kind and by an optional dimension.
pub(crate) async fn totals_by(
    reader: MetricReader<'_>,
    dimension: Option<&str>,
    granularity: Option<Granularity>,
) -> Result<Vec<(MetricGroup, Sums)>, Problem> {
    let dimensions: Vec<&str> = ["type"].into_iter().chain(dimension).collect();
    let groups = reader.read(MetricView::Observations, &dimensions, &METRICS, granularity);
    let groups = groups.await?.into_iter();
    let summed = groups.map(|group| {
        let sums = sums_of(&group);
        (group, sums)
    });
    let mut all: Vec<(MetricGroup, Sums)> = summed.collect();
    let n_observations: f64 = all.iter().map(|(_, sums)| sums.observations).sum();
    let mixed = all.iter().filter(|(group, _)| is_mixed(group));
    let kinds = mixed.filter_map(|(group, _)| kind_of(group).map(str::to_owned));
    let kinds: BTreeSet<String> = kinds.collect();
    if kinds.is_empty() {
        return Ok(all);
    }
    if MAX_EXACT < n_observations {
        // At least one may lack a price.
        for (_, sums) in all.iter_mut().filter(|(group, _)| is_mixed(group)) {
            sums.cost.n_unpriced = sums.cost.n_unpriced.max(1);
            sums.is_least = true;
        }
        return Ok(all);
    }
    let condition = |column, test| Condition { column: find(OBSERVATIONS, column), test };
    let unpriced = vec![
        condition("type", Test::AnyOf(kinds.into_iter().collect())),
        condition("totalCost", Test::IsNull),
    ];
    let unpriced =
        reader.read_where(MetricView::Observations, &dimensions, &METRICS, granularity, unpriced);
    let unpriced = unpriced.await?;
    let with_tokens = unpriced.iter().map(|group| {
        let [_, tokens, _] = totals(group);
        ((group.at, &group.dimensions), tokens.n)
    });
    let with_tokens: BTreeMap<_, u64> = with_tokens.collect();
    for (group, sums) in all.iter_mut().filter(|(group, _)| is_mixed(group)) {
        let found = with_tokens.get(&(group.at, &group.dimensions));
        sums.cost.n_unpriced = found.copied().unwrap_or_default();
    }
    Ok(all)
}

/// Totals of each bucket; without a granularity, those of the range under its start.
pub(crate) async fn sums(
    app: &App,
    viewer: &Viewer,
    range: Range,
    granularity: Option<Granularity>,
) -> Result<BTreeMap<Timestamp, Sums>, Problem> {
    let reader = MetricReader { app, viewer, range, user: None };
    let mut all: BTreeMap<Timestamp, Sums> = BTreeMap::new();
    for (group, own) in totals_by(reader, None, granularity).await? {
        let sums = all.entry(group.at.unwrap_or(range.0)).or_default();
        *sums = sums.plus(own);
    }
    Ok(all)
}

/// A period of a chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// Start of the period within the range.
    pub(crate) at: Timestamp,
    /// Start of the calendar unit, the key in the database.
    pub(crate) start: Timestamp,
    next: Timestamp,
    /// Why it is incomplete: limited by the range or not over yet.
    pub(crate) partial: Option<&'static str>,
}

impl Bucket {
    /// Start and end; the end is excluded.
    pub(crate) const fn time(self) -> Range {
        (self.at, self.next)
    }

    /// The list of the traces that started in it.
    pub(crate) fn rows(self, viewer: &Viewer, query: TracesQuery) -> TracesQuery {
        TracesQuery {
            focus: Focus {
                from: Some(Moment::At(self.at)),
                to: Some(Moment::At(self.next)),
                environments: viewer.focus.environments.clone(),
            },
            ..query
        }
    }
}

/// The periods of a range. The first starts with the range and the last ends with it, so that they add up to the totals of the
/// range.
pub(crate) fn buckets(app: &App, (from, to): Range, granularity: Granularity) -> Vec<Bucket> {
    let now = app.web.clock.now();
    let mut at = from;
    let mut all = Vec::new();
    while at < to {
        let start = granularity.start(at);
        let next = granularity.next(start);
        all.push(Bucket {
            at,
            start,
            next: next.min(to),
            partial: match now < next && now <= to {
                true => Some(SO_FAR),
                false => (start < at || to < next).then_some("in part"),
            },
        });
        at = next;
    }
    all
}

/// Chart of cost over time.
pub(crate) async fn cost_chart(app: &App, viewer: &Viewer, range: Range) -> Result<Chart, Problem> {
    let granularity = Granularity::for_range(range.0, range.1);
    let all = sums(app, viewer, range, Some(granularity)).await?;
    let base = viewer.base();
    let buckets = buckets(app, range, granularity);
    let costs = buckets.iter().map(|bucket| all.get(&bucket.start));
    let costs: Vec<CostSum> =
        costs.map(|sums| sums.map_or_else(CostSum::default, |sums| sums.cost)).collect();
    let bars = buckets.iter().zip(&costs).map(|(bucket, cost)| ChartBar {
        time: bucket.time(),
        value: cost.dollars,
        part: 0.0,
        partial: bucket.partial,
        href: bucket.rows(viewer, TracesQuery::default()).first(&base),
    });
    let bars: Vec<ChartBar> = bars.collect();
    let title = ("Cost", ChartPart::Errors);
    let is_least = all.values().any(|sums| sums.is_least);
    Ok(Chart::new(title, granularity, &bars, perpend_views::dollars).of_costs(&costs, is_least))
}
