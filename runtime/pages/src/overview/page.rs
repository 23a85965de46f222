//! `GET P`: totals and charts of a period, paused and failing rules and evaluators, and the latest errors.

use std::collections::BTreeSet;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::access::Permission::ExperimentRead;
use perpend_domain::evaluation::ExecutionState;
use perpend_domain::experiment::ExperimentRun;
use perpend_domain::filter::{Condition, Filter, Order, TRACES, Test, find};
use perpend_domain::observation::Level;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    AttentionItem, Figure, Focus, FocusView, OverviewPage, RunLine, Section, Text, TracesQuery,
    encode, evaluator_href, percent_change, point_change, rule_href, run_href, with_query,
};

use crate::overview;
use crate::overview::charts::{self, Sums};
use crate::overview::queries::Range;
use crate::overview::trends;
use crate::read;
use crate::request::query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::setup;
use crate::state::App;
use crate::traces::lines;

/// Newest rules and evaluators whose state is read.
const MAX_RULES: u32 = 100;
/// Traces with errors shown.
const MAX_FAILED: u32 = 5;
/// Dataset runs shown.
const MAX_RUNS: u32 = 5;

/// Label of the default time range.
const DEFAULT_RANGE_LABEL: &str = "Last 7 days";

pub(crate) async fn overview_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    query::reject_repeated(raw.as_deref())?;
    let pairs = form_urlencoded::parse(raw.as_deref().unwrap_or_default().as_bytes());
    let is_whole = pairs.into_iter().any(|(name, _)| name == "trends");
    let any = Filter { conditions: vec![read::exclude_internal(TRACES)] };
    let any = read::newest_traces(&app, &viewer.project, any, 1).await?;
    let own_alone = match any.is_empty() {
        true => read::newest_traces(&app, &viewer.project, Filter::default(), 1).await?,
        false => Vec::new(),
    };
    let mut view = OverviewPage {
        shell: viewer.shell(Section::Overview),
        focus: FocusView::new(
            &viewer.focus,
            (viewer.base(), viewer.unknown_parameters()),
            (DEFAULT_RANGE_LABEL, false),
        ),
        notices: viewer.faults.clone(),
        figures: Vec::new(),
        is_compared: false,
        quantiles: None,
        cost: None,
        trends: Vec::new(),
        attention: Vec::new(),
        failed: Vec::new(),
        runs: Vec::new(),
        newest: any.first().or(own_alone.first()).map(|trace| trace.timestamp),
        has_only_evaluations: !own_alone.is_empty(),
        setup: None,
        evaluations_href: None,
    };
    if view.newest.is_none() {
        view.setup = Some(setup::setup_guide(&app, &viewer.project, &headers).await?);
        return page(StatusCode::OK, &view);
    }
    let Some(range) = overview::range::range(&viewer, app.web.clock.now()) else {
        let fault = match overview::range::is_too_far_ahead(&viewer, app.web.clock.now()) {
            true => "`from` must be at most a year in the future.",
            false => "`to` must be after `from`.",
        };
        view.notices.push(Text::from(fault));
        return page(StatusCode::OK, &view);
    };
    if overview::range::is_cut(&viewer, app.web.clock.now()) {
        let fault = "`from` and `to` must span at most 20 years, with at most one year in the future; showing a part.";
        view.notices.push(Text::from(fault));
    }
    view.evaluations_href =
        viewer.focus.environments.is_empty().then(|| internal_overview_url(&viewer));
    (view.figures, view.is_compared) = figures(&app, &viewer, range).await?;
    view.cost = Some(charts::cost_chart(&app, &viewer, range).await?);
    let later = trends::deferred_trends(&app, &viewer, is_whole.then_some(range)).await?;
    let mut later = later.into_iter();
    view.quantiles = later.next();
    view.trends = later.collect();
    view.attention = waiting(&app, &viewer).await?;
    let mut errors = range_filter(range);
    errors.conditions.extend(error_filter().conditions);
    errors.conditions.push(viewer.environments(TRACES));
    let failed = read::newest_traces(&app, &viewer.project, errors, MAX_FAILED).await?;
    view.failed = lines::trace_lines(&app, &viewer.project, &failed).await?;
    if viewer.may(ExperimentRead) {
        view.runs = runs(&app, &viewer).await?;
    }
    page(StatusCode::OK, &view)
}

/// URL of the overview of internal environments.
fn internal_overview_url(viewer: &Viewer) -> String {
    let focus = Focus {
        environments: read::INTERNAL_ENVIRONMENTS.map(str::to_owned).to_vec(),
        ..viewer.focus.clone()
    };
    let all = [focus.parameters(), viewer.unknown_parameters()].concat();
    with_query(&viewer.base(), &all)
}

/// The newest runs of experiments, regardless of the time range.
async fn runs(app: &App, viewer: &Viewer) -> Result<Vec<RunLine>, Problem> {
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let newest = telemetry.newest_runs(project, MAX_RUNS).await?;
    let line = |run: ExperimentRun| RunLine {
        href: run_href(&viewer.base(), &run.id),
        name: Text::from(run.name),
        dataset: Text::from(run.dataset_name.unwrap_or_default()),
        at: run.created_at,
    };
    Ok(newest.into_iter().map(line).collect())
}

fn error_filter() -> Filter {
    filter_of("level", Test::AnyOf(vec![Level::Error.as_str().to_owned()]))
}

fn filter_of(column: &str, test: Test) -> Filter {
    let column = find(TRACES, column);
    Filter { conditions: vec![Condition { column, test }] }
}

/// Filter for traces that started in the range.
fn range_filter((from, to): Range) -> Filter {
    let mut filter = filter_of("timestamp", Test::Time(Order::AtLeast, from));
    filter
        .conditions
        .push(Condition { column: find(TRACES, "timestamp"), test: Test::Time(Order::Less, to) });
    filter
}

/// Number of traces with an error, which an index covers.
async fn n_failed(app: &App, viewer: &Viewer, range: Range) -> Result<f64, Problem> {
    let mut filter = range_filter(range);
    filter.conditions.extend(error_filter().conditions);
    filter.conditions.push(viewer.environments(TRACES));
    let telemetry = &app.store.telemetry;
    let counted = telemetry.count_traces(&viewer.project, &filter, (None, 0));
    Ok(counted.await?.n as f64)
}

/// A share such as `3.4 %`, or a dash if `of` is zero.
fn share(n: f64, of: f64) -> String {
    match 100.0 * n / of {
        share if !share.is_finite() => "–".to_owned(),
        _ if n == 0.0 => "0 %".to_owned(),
        share if share < 0.1 => "under 0.1 %".to_owned(),
        // Avoids rounding to 100 %.
        share if n < of && 99.95 <= share => "over 99.9 %".to_owned(),
        share => format!("{share:.1} %"),
    }
}

/// Totals of the range and its number of traces.
async fn sums(app: &App, viewer: &Viewer, (from, to): Range) -> Result<(Sums, f64), Problem> {
    let all = charts::sums(app, viewer, (from, to), None).await?;
    let sums = all.into_values().next().unwrap_or_default();
    let count = async |environment: Option<&str>| {
        let mut filter = range_filter((from, to));
        filter.conditions.extend(environment.map(|name| Condition {
            column: find(TRACES, "environment"),
            test: Test::AnyOf(vec![name.to_owned()]),
        }));
        let telemetry = &app.store.telemetry;
        let counted = telemetry.count_traces(&viewer.project, &filter, (None, 0));
        counted.await.map(|counted| counted.n)
    };
    // One query per environment reads only an index; one query that excludes environments would read every row.
    let mut n_of_some = 0;
    let chosen: Vec<&str> = match viewer.focus.environments.as_slice() {
        [] => read::INTERNAL_ENVIRONMENTS.to_vec(),
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    let different: BTreeSet<&str> = chosen.into_iter().collect();
    for environment in different {
        n_of_some += count(Some(environment)).await?;
    }
    let n_traces = match viewer.focus.environments.is_empty() {
        true => count(None).await?.saturating_sub(n_of_some),
        false => n_of_some,
    };
    Ok((sums, n_traces as f64))
}

/// The figures of the range, and whether the previous period, which they are compared with, has traces.
async fn figures(
    app: &App,
    viewer: &Viewer,
    (from, to): Range,
) -> Result<(Vec<Figure>, bool), Problem> {
    let before = from.plus_millis(from.as_millis() - to.as_millis());
    let (now, n_traces) = sums(app, viewer, (from, to)).await?;
    let (old, n_before) = sums(app, viewer, (before, from)).await?;
    let n_failed_now = n_failed(app, viewer, (from, to)).await?;
    let n_failed_before = n_failed(app, viewer, (before, from)).await?;
    // Incomplete costs are not compared.
    let costs = now.cost.exact().zip(old.cost.exact());
    let count = |value: f64| perpend_views::count(value as u64);
    let rows = |q: &str| {
        let query =
            TracesQuery { focus: overview::range::list_focus(viewer), ..TracesQuery::of(q) };
        Some(query.first(&viewer.base()))
    };
    let of = format!("{} of {}", count(n_failed_now), count(n_traces));
    let percent = |n: f64, of: f64| 100.0 * n / of;
    let figures = vec![
        Figure {
            label: "Traces",
            value: count(n_traces),
            change: percent_change(n_traces, n_before),
            rows: rows(""),
            ..Figure::default()
        },
        Figure {
            label: "Traces with errors",
            value: share(n_failed_now, n_traces),
            of: (0.0 < n_failed_now).then_some(of),
            is_bad: 0.0 < n_failed_now,
            change: point_change(
                percent(n_failed_now, n_traces),
                percent(n_failed_before, n_before),
            ),
            rows: rows("level:ERROR"),
        },
        Figure {
            label: "Cost",
            value: perpend_views::cost(now.cost),
            change: costs.and_then(|(now, old)| percent_change(now, old)),
            ..Figure::default()
        },
        Figure {
            label: "Tokens",
            value: count(now.tokens),
            change: percent_change(now.tokens, old.tokens),
            ..Figure::default()
        },
    ];
    Ok((figures, 0.0 < n_before))
}

/// Paused rules and evaluators, and rules with failed executions.
async fn waiting(app: &App, viewer: &Viewer) -> Result<Vec<AttentionItem>, Problem> {
    let (store, project) = (&app.store, &viewer.project);
    let failed_of = format!("{}/executions?state=failed&rule=", viewer.base());
    let mut waiting = Vec::new();
    for rule in store.catalog.rules(project, None, MAX_RULES).await?.items {
        let states = store.ledger.rule_states(project, &rule.id).await?;
        let n = |wanted| {
            let found = states.iter().find(|count| count.state == wanted);
            found.map_or(0, |count| count.n)
        };
        let held = match n(ExecutionState::Held) {
            0 => String::new(),
            n => format!(" Held executions: {}.", perpend_views::count(n)),
        };
        if let (Some(pause), true) = (&rule.paused, rule.enabled) {
            waiting.push(AttentionItem {
                name: Text::from(rule.name.as_str()),
                href: rule_href(&viewer.base(), rule.id.as_str()),
                state: "paused",
                reason: Text::from(format!("{}{held}", pause.message)),
            });
        }
        let n_failed = n(ExecutionState::Failed);
        if 0 < n_failed {
            waiting.push(AttentionItem {
                name: Text::from(rule.name.as_str()),
                href: format!("{failed_of}{}", encode(rule.id.as_str())),
                state: "failed",
                reason: Text::from(match n_failed {
                    1 => "1 failed execution is kept for retry.".to_owned(),
                    n => {
                        format!("{} failed executions are kept for retry.", perpend_views::count(n))
                    }
                }),
            });
        }
    }
    let evaluators = store.catalog.evaluators(project, None, MAX_RULES).await?;
    for evaluator in evaluators.items {
        if let Some(pause) = &evaluator.paused {
            waiting.push(AttentionItem {
                name: Text::from(evaluator.name.as_str()),
                href: evaluator_href(&viewer.base(), evaluator.id.as_str()),
                state: "paused",
                reason: Text::from(pause.message.as_str()),
            });
        }
    }
    Ok(waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_nothing_is_a_dash_and_a_partial_one_is_not_rounded_to_all() {
        let shown = [(0.0, 0.0), (0.0, 8.0), (12.0, 350.0), (1.0, 5_000.0)];
        let shown = shown.map(|(n, of)| share(n, of));
        assert_eq!(shown, ["–", "0 %", "3.4 %", "under 0.1 %"]);
        let most = [(4_999.0, 5_000.0), (8.0, 8.0)].map(|(n, of)| share(n, of));
        assert_eq!(most, ["over 99.9 %", "100.0 %"]);
    }
}
