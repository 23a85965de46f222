//! The charts of the overview: what was recorded over time.

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

/// What was recorded in some time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) observations: f64,
    pub(crate) tokens: f64,
    pub(crate) cost: CostSum,
    /// More steps than are counted may lack a price.
    pub(crate) is_least: bool,
}

impl Sums {
    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            observations: self.observations + other.observations,
            tokens: self.tokens + other.tokens,
            cost: self.cost + other.cost,
            is_least: self.is_least || other.is_least,
        }
    }
}

/// What is asked in each group: [`totals`] reads it.
const METRICS: [(&str, Aggregation); 3] = [
    ("count", Aggregation::Count),
    ("totalTokens", Aggregation::Sum),
    ("totalCost", Aggregation::Sum),
];

/// In more steps than these those without a price are not looked for one by one: that takes longer than a page may.
const MAX_READ: f64 = 50_000.0;

/// Steps, tokens and cost of a group of [`METRICS`].
fn totals(group: &MetricGroup) -> [Partial; 3] {
    let total = |at: usize| group.values.get(at).map(Accumulator::total);
    [0, 1, 2].map(|at| total(at).unwrap_or_default())
}

/// The first dimension of [`by`].
fn kind_of(group: &MetricGroup) -> Option<&str> {
    group.dimensions.first().and_then(Option::as_deref)
}

/// Whether every step of the group is a model call.
fn is_of_calls(group: &MetricGroup) -> bool {
    let kind = kind_of(group).and_then(|kind| kind.parse::<ObservationKind>().ok());
    kind.is_some_and(ObservationKind::is_generation_like)
}

/// What steps of one kind add up to. A model call without a cost lacks a price, and so does another step that used tokens.
fn sums_of(group: &MetricGroup) -> Sums {
    let [n, tokens, cost] = totals(group);
    let n_calls = match is_of_calls(group) {
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

/// Whether steps that have a cost without tokens may stand for others of the group, which lack one.
fn is_mixed(group: &MetricGroup) -> bool {
    let [_, tokens, cost] = totals(group);
    !is_of_calls(group) && 0 < tokens.n && 0 < cost.n
}

/// What steps add up to by their kind, and by one more dimension.
pub(crate) async fn by(
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
    let n_steps: f64 = all.iter().map(|(_, sums)| sums.observations).sum();
    let mixed = all.iter().filter(|(group, _)| is_mixed(group));
    let kinds = mixed.filter_map(|(group, _)| kind_of(group).map(str::to_owned));
    let kinds: BTreeSet<String> = kinds.collect();
    if kinds.is_empty() {
        return Ok(all);
    }
    if MAX_READ < n_steps {
        // How many lack a price is not known, but not that none does.
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

/// The sums of each bucket; of the whole time under its start where there are no buckets.
pub(crate) async fn sums(
    app: &App,
    viewer: &Viewer,
    range: Range,
    granularity: Option<Granularity>,
) -> Result<BTreeMap<Timestamp, Sums>, Problem> {
    let reader = MetricReader { app, viewer, range, user: None };
    let mut all: BTreeMap<Timestamp, Sums> = BTreeMap::new();
    for (group, own) in by(reader, None, granularity).await? {
        let sums = all.entry(group.at.unwrap_or(range.0)).or_default();
        *sums = sums.plus(own);
    }
    Ok(all)
}

/// A stretch of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// Where it begins, or the range.
    pub(crate) at: Timestamp,
    /// What the database calls it by.
    pub(crate) start: Timestamp,
    next: Timestamp,
    /// Why it is not whole: cut by the range, or not ended yet.
    pub(crate) partial: Option<&'static str>,
}

impl Bucket {
    /// From its start to before its end.
    pub(crate) const fn time(self) -> Range {
        (self.at, self.next)
    }

    /// The traces that began in it.
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

/// The stretches of a range. The first one begins with the range and the last one ends with it, so that all of them add up
/// to its figures.
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

/// Cost over a time.
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
