//! The charts of the overview: what was recorded over time.

use std::collections::BTreeMap;

use perpend_domain::cost::CostSum;
use perpend_domain::metrics::{Accumulator, Aggregation, Granularity, Group, View};
use perpend_domain::observation::ObservationKind;
use perpend_domain::time::Timestamp;
use perpend_ui::{Bar, Chart, Focus, Moment, Part, TracesQuery};
use perpend_web::problem::Problem;

use crate::questions::{Questions, Range};
use crate::state::App;
use crate::viewer::Viewer;

/// What was recorded in some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) observations: f64,
    pub(super) errors: f64,
    pub(super) tokens: f64,
    pub(super) cost: CostSum,
}

impl Sums {
    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            observations: self.observations + other.observations,
            errors: self.errors + other.errors,
            tokens: self.tokens + other.tokens,
            cost: self.cost + other.cost,
        }
    }
}

/// What is asked in each group: [`sums_of`] reads it.
pub(super) const METRICS: [(&str, Aggregation); 3] = [
    ("count", Aggregation::Count),
    ("totalTokens", Aggregation::Sum),
    ("totalCost", Aggregation::Sum),
];

/// What steps of one kind add up to, by [`METRICS`]. A model call without a cost lacks a price, and so does another
/// step that used tokens.
pub(super) fn sums_of(group: &Group, kind: Option<&str>) -> Sums {
    let total = |at: usize| group.values.get(at).map(Accumulator::total);
    let [n, tokens, cost] = [0, 1, 2].map(|at| total(at).unwrap_or_default());
    let kind = kind.and_then(|kind| kind.parse::<ObservationKind>().ok());
    let n_calls = match kind.is_some_and(ObservationKind::is_generation_like) {
        true => n.n,
        false => tokens.n,
    };
    Sums {
        observations: n.n as f64,
        errors: 0.0,
        tokens: tokens.sum,
        cost: CostSum {
            dollars: cost.sum,
            n_priced: cost.n,
            n_unpriced: n_calls.saturating_sub(cost.n),
        },
    }
}

/// The sums of each bucket; of the whole time under its start where there are no buckets.
pub(super) async fn sums(
    app: &App,
    viewer: &Viewer,
    range: Range,
    granularity: Option<Granularity>,
) -> Result<BTreeMap<Timestamp, Sums>, Problem> {
    let asked = Questions { app, viewer, range };
    let dimensions = ["level", "type"];
    let groups = asked
        .ask(View::Observations, &dimensions, &METRICS, granularity)
        .await?;
    let mut all: BTreeMap<Timestamp, Sums> = BTreeMap::new();
    for group in &groups {
        let sums = all.entry(group.at.unwrap_or(range.0)).or_default();
        let [level, kind] = [0, 1].map(|at| group.dimensions.get(at).and_then(Option::as_deref));
        let mut own = sums_of(group, kind);
        if level == Some("ERROR") {
            own.errors = own.observations;
        }
        *sums = sums.plus(own);
    }
    Ok(all)
}

/// A stretch of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Where it begins, or the range.
    pub(super) at: Timestamp,
    /// What the database calls it by.
    pub(super) start: Timestamp,
    next: Timestamp,
    pub(super) is_partial: bool,
}

impl Bucket {
    /// From its start to before its end.
    pub(super) const fn time(self) -> Range {
        (self.at, self.next)
    }

    /// The traces that began in it.
    pub(super) fn rows(self, viewer: &Viewer, query: TracesQuery) -> TracesQuery {
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
pub(super) fn buckets(app: &App, (from, to): Range, granularity: Granularity) -> Vec<Bucket> {
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
            is_partial: now < next,
        });
        at = next;
    }
    all
}

/// Observations, tokens and cost over a time.
pub(super) async fn of(app: &App, viewer: &Viewer, range: Range) -> Result<Vec<Chart>, Problem> {
    let granularity = Questions { app, viewer, range }.granularity();
    let all = sums(app, viewer, range, Some(granularity)).await?;
    let base = viewer.base();
    let buckets = buckets(app, range, granularity);
    let bars = |value: fn(Sums) -> (f64, f64)| {
        let bar = |bucket: &Bucket| {
            let (value, part) = value(all.get(&bucket.start).copied().unwrap_or_default());
            Bar {
                at: bucket.at,
                value,
                part,
                is_partial: bucket.is_partial,
                href: bucket.rows(viewer, TracesQuery::default()).first(&base),
            }
        };
        buckets.iter().map(bar).collect::<Vec<_>>()
    };
    let costs = buckets.iter().map(|bucket| all.get(&bucket.start));
    let costs: Vec<CostSum> = costs
        .map(|sums| sums.map_or_else(CostSum::default, |sums| sums.cost))
        .collect();
    let whole = |value: f64| perpend_ui::count(value as u64);
    let chart =
        |title, bars: &[Bar], shown| Chart::new((title, Part::Errors), granularity, bars, shown);
    Ok(vec![
        chart(
            "Steps",
            &bars(|sums| (sums.observations, sums.errors)),
            whole,
        ),
        chart("Tokens", &bars(|sums| (sums.tokens, 0.0)), whole),
        chart(
            "Cost",
            &bars(|sums| (sums.cost.dollars, 0.0)),
            perpend_ui::dollars,
        )
        .of_costs(&costs),
    ])
}
