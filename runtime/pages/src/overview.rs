//! `GET P`: what was recorded lately, which rules and evaluators are paused or failing, and the latest errors.

use std::collections::BTreeSet;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::access::Permission::ExperimentRead;
use perpend_domain::dataset::DatasetRun;
use perpend_domain::evaluation::ExecutionState;
use perpend_domain::filter::{Condition, Filter, Order, TRACES, Test, find};
use perpend_domain::observation::Level;
use perpend_ui::{
    Figure, Focus, FocusView, OverviewPage, RunLine, Section, Text, TracesQuery, Waiting, change,
    encode,
};
use perpend_web::problem::Problem;

use crate::answer::page;
use crate::charts::{self, Sums};
use crate::questions::Range;
use crate::state::App;
use crate::viewer::Viewer;
use crate::{lines, overview_range, query, read, setup, trends};

/// Rules and evaluators that are asked whether they wait: the newest.
const MAX_ASKED: u32 = 100;
/// Traces with errors that are shown.
const FAILED: u32 = 5;
/// Runs that are shown.
const RUNS: u32 = 5;

const USUAL_LABEL: &str = "Last 7 days";

pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    query::unrepeated(raw.as_deref())?;
    let pairs = form_urlencoded::parse(raw.as_deref().unwrap_or_default().as_bytes());
    let is_whole = pairs.into_iter().any(|(name, _)| name == "trends");
    let any = Filter {
        conditions: vec![read::without_own(TRACES)],
    };
    let any = read::newest(&app, &viewer.project, any, 1).await?;
    let mut view = OverviewPage {
        shell: viewer.shell(Section::Overview),
        focus: FocusView::new(
            &viewer.focus,
            (viewer.base(), Vec::new()),
            (USUAL_LABEL, false),
        ),
        notices: viewer.faults.clone(),
        figures: Vec::new(),
        charts: Vec::new(),
        later: Vec::new(),
        waiting: Vec::new(),
        failed: Vec::new(),
        runs: Vec::new(),
        newest: any.first().map(|trace| trace.timestamp),
        setup: None,
        own: None,
    };
    if any.is_empty() {
        view.setup = Some(setup::of(&app, &viewer.project, &headers).await?);
        return page(StatusCode::OK, &view);
    }
    let Some(range) = overview_range::of(&viewer, app.web.clock.now()) else {
        let fault = match overview_range::is_beyond(&viewer, app.web.clock.now()) {
            true => "from: the overview shows no time that begins more than a year ahead.",
            false => "to: the end of a range comes after its start, so there is nothing to show.",
        };
        view.notices.push(Text::from(fault));
        return page(StatusCode::OK, &view);
    };
    if overview_range::is_cut(&viewer, app.web.clock.now()) {
        let fault = "from, to: the overview shows 20 years, and no more than one ahead; the rest is left out.";
        view.notices.push(Text::from(fault));
    }
    view.own = viewer.focus.environments.is_empty().then(|| own(&viewer));
    view.figures = figures(&app, &viewer, range).await?;
    view.charts = charts::of(&app, &viewer, range).await?;
    view.later = trends::later(&app, &viewer, is_whole.then_some(range)).await?;
    view.waiting = waiting(&app, &viewer).await?;
    let mut errors = started(range);
    errors.conditions.extend(with_errors().conditions);
    errors.conditions.push(viewer.environments(TRACES));
    let failed = read::newest(&app, &viewer.project, errors, FAILED).await?;
    view.failed = lines::of(&app, &viewer.project, &failed).await?;
    if viewer.may(ExperimentRead) {
        view.runs = runs(&app, &viewer).await?;
    }
    page(StatusCode::OK, &view)
}

/// The same page with what it leaves out, alone.
fn own(viewer: &Viewer) -> String {
    let focus = Focus {
        environments: read::OWN.map(str::to_owned).to_vec(),
        ..viewer.focus.clone()
    };
    format!("{}{}", viewer.base(), focus.query())
}

/// The newest runs over datasets, in any time.
async fn runs(app: &App, viewer: &Viewer) -> Result<Vec<RunLine>, Problem> {
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let newest = telemetry.newest_dataset_runs(project, RUNS).await?;
    let line = |run: DatasetRun| RunLine {
        href: format!(
            "{}/datasets/{}/runs/{}",
            viewer.base(),
            encode(&run.dataset_id),
            encode(&run.id)
        ),
        name: Text::from(run.name),
        dataset: Text::from(run.dataset_name),
        at: run.created_at,
    };
    Ok(newest.into_iter().map(line).collect())
}

fn with_errors() -> Filter {
    passing("level", Test::AnyOf(vec![Level::Error.as_str().to_owned()]))
}

fn passing(column: &str, test: Test) -> Filter {
    let column = find(TRACES, column);
    Filter {
        conditions: vec![Condition { column, test }],
    }
}

/// The traces that began in some time.
fn started((from, to): Range) -> Filter {
    let mut filter = passing("timestamp", Test::Time(Order::AtLeast, from));
    filter.conditions.push(Condition {
        column: find(TRACES, "timestamp"),
        test: Test::Time(Order::Less, to),
    });
    filter
}

/// How many of them have a step with an error: one index tells it.
async fn n_failed(app: &App, viewer: &Viewer, range: Range) -> Result<f64, Problem> {
    let mut filter = started(range);
    filter.conditions.extend(with_errors().conditions);
    filter.conditions.push(viewer.environments(TRACES));
    let telemetry = &app.store.telemetry;
    let counted = telemetry.count_traces(&viewer.project, &filter, (None, 0));
    Ok(counted.await?.n as f64)
}

/// `12 (3.4 %)`: nothing has no share.
fn with_share(n: f64, of: f64) -> String {
    let shown = perpend_ui::count(n as u64);
    match 100.0 * n / of {
        share if n == 0.0 || !share.is_finite() => shown,
        share if share < 0.1 => format!("{shown} (under 0.1 %)"),
        // What is not all does not read as if it were.
        share if n < of && 99.95 <= share => format!("{shown} (over 99.9 %)"),
        share => format!("{shown} ({share:.1} %)"),
    }
}

/// What was recorded in some time, and in how many traces.
async fn sums(app: &App, viewer: &Viewer, (from, to): Range) -> Result<(Sums, f64), Problem> {
    let all = charts::sums(app, viewer, (from, to), None).await?;
    let sums = all.into_values().next().unwrap_or_default();
    let count = async |environment: Option<&str>| {
        let mut filter = started((from, to));
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
        [] => read::OWN.to_vec(),
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

async fn figures(app: &App, viewer: &Viewer, (from, to): Range) -> Result<Vec<Figure>, Problem> {
    let before = from.plus_millis(from.as_millis() - to.as_millis());
    let (now, n_traces) = sums(app, viewer, (from, to)).await?;
    let (old, n_before) = sums(app, viewer, (before, from)).await?;
    let n_failed_now = n_failed(app, viewer, (from, to)).await?;
    let n_failed_before = n_failed(app, viewer, (before, from)).await?;
    let figure = |label, value: fn(Sums) -> f64, shown: String| Figure {
        label,
        value: shown,
        change: change(value(now), value(old)),
        rows: None,
    };
    // Sums that lack prices are not compared.
    let costs = now.cost.exact().zip(old.cost.exact());
    let count = |value: f64| perpend_ui::count(value as u64);
    let rows = |q: &str| {
        let query = TracesQuery {
            focus: overview_range::focus(viewer),
            ..TracesQuery::of(q)
        };
        Some(query.first(&viewer.base()))
    };
    Ok(vec![
        Figure {
            label: "Traces",
            value: count(n_traces),
            change: change(n_traces, n_before),
            rows: rows(""),
        },
        Figure {
            label: "Traces with errors",
            value: with_share(n_failed_now, n_traces),
            change: change(n_failed_now, n_failed_before),
            rows: rows("level:ERROR"),
        },
        figure("Steps", |sums| sums.observations, count(now.observations)),
        figure("Steps with errors", |sums| sums.errors, count(now.errors)),
        figure("Tokens", |sums| sums.tokens, count(now.tokens)),
        Figure {
            label: "Cost",
            value: perpend_ui::cost(now.cost),
            change: costs.and_then(|(now, old)| change(now, old)),
            rows: None,
        },
    ])
}

/// What is paused, and which rules have executions that failed.
async fn waiting(app: &App, viewer: &Viewer) -> Result<Vec<Waiting>, Problem> {
    let (store, project) = (&app.store, &viewer.project);
    let mut waiting = Vec::new();
    for rule in store.catalog.rules(project, None, MAX_ASKED).await?.items {
        let states = store.ledger.rule_states(project, &rule.id).await?;
        let n = |wanted| {
            let found = states.iter().find(|count| count.state == wanted);
            found.map_or(0, |count| count.n)
        };
        let held = match n(ExecutionState::Held) {
            0 => String::new(),
            n => format!(" Held until then: {}.", perpend_ui::count(n)),
        };
        if let (Some(pause), true) = (&rule.paused, rule.enabled) {
            waiting.push(Waiting {
                name: Text::from(rule.name.as_str()),
                state: "paused",
                reason: Text::from(format!("{}{held}", pause.message)),
            });
        }
        let n_failed = n(ExecutionState::Failed);
        if 0 < n_failed {
            waiting.push(Waiting {
                name: Text::from(rule.name.as_str()),
                state: "failed",
                reason: Text::from(match n_failed {
                    1 => "1 execution failed and is kept to be tried again.".to_owned(),
                    n => format!(
                        "{} executions failed and are kept to be tried again.",
                        perpend_ui::count(n)
                    ),
                }),
            });
        }
    }
    let evaluators = store.catalog.evaluators(project, None, MAX_ASKED).await?;
    for evaluator in evaluators.items {
        if let Some(pause) = &evaluator.paused {
            waiting.push(Waiting {
                name: Text::from(evaluator.name.as_str()),
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
    fn a_count_stands_with_its_share_where_there_is_one() {
        let shown = [(0.0, 0.0), (0.0, 8.0), (12.0, 350.0), (1.0, 5_000.0)];
        let shown = shown.map(|(n, of)| with_share(n, of));
        assert_eq!(shown, ["0", "0", "12 (3.4 %)", "1 (under 0.1 %)"]);
        let most = [(4_999.0, 5_000.0), (8.0, 8.0)].map(|(n, of)| with_share(n, of));
        assert_eq!(most, ["4,999 (over 99.9 %)", "8 (100.0 %)"]);
    }
}
