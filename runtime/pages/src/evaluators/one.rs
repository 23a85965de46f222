//! `GET P/evaluators/{evaluator}`: an evaluator with its definition, versions, rules and failures.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{Evaluator, EvaluatorVersion, ExecutionState, Rule};
use perpend_domain::time::Timestamp;
use perpend_executions::{ExecutionFilter, FailureCount};
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::VersionScores;
use perpend_views::{
    ApiRequest, EvaluatorPage, EvaluatorPauseSummary, EvaluatorUseLine, FailureLine, Html,
    ResourceLink, Section, Text, VersionComparison, count, encode, evaluator_href, plural,
    utc_time,
};
use serde::Deserialize;

use super::list::week;
use super::scores::{means, score_count};
use super::versions::MAX_SCORES;
use super::{EvaluatorPath, definition, figures, kind, pause_summary, versions};
use crate::executions::newest::{newest, scored};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::rules::definition::mapping_line;
use crate::rules::list::cost_text;
use crate::state::App;

/// Rules on the page.
const MAX_RULES: usize = 100;
/// Versions on the page.
const MAX_VERSIONS: usize = 50;
/// Executions on the page that failed, and that gave scores.
const LATEST: u32 = 5;

/// Query parameters: numbers of versions.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EvaluatorParams {
    /// The version whose definition is shown.
    version: Option<String>,
    /// The versions to compare.
    a: Option<String>,
    b: Option<String>,
}

/// `GET P/evaluators/{evaluator}`
pub(crate) async fn evaluator_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<EvaluatorPath>,
    Query(params): Query<EvaluatorParams>,
) -> Result<Response, Problem> {
    let evaluator = path.find(&app, &viewer).await?;
    let view = view(&app, &viewer, &evaluator, &params).await?;
    page(StatusCode::OK, &view)
}

/// The version of a query parameter; the newest without one.
async fn version(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
    number: Option<&str>,
) -> Result<EvaluatorVersion, Problem> {
    let Some(number) = number.filter(|number| !number.is_empty()) else {
        return Ok(evaluator.version.clone());
    };
    let missing = || Problem::not_found("version of the evaluator");
    let number: u32 = number.parse().map_err(|_| missing())?;
    let catalog = &app.store.catalog;
    let found = catalog.evaluator_at(&viewer.project, &evaluator.id, number).await?;
    Ok(found.ok_or_else(missing)?.version)
}

/// The selected comparison.
async fn comparison(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
    params: &EvaluatorParams,
) -> Result<Option<VersionComparison>, Problem> {
    let (Some(a), Some(b)) = (params.a.as_deref(), params.b.as_deref()) else {
        return Ok(None);
    };
    let a = version(app, viewer, evaluator, Some(a)).await?;
    let b = version(app, viewer, evaluator, Some(b)).await?;
    Ok(Some(versions::comparison(&a, &b)))
}

async fn view(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
    params: &EvaluatorParams,
) -> Result<EvaluatorPage, Problem> {
    let (base, id, project) = (viewer.base(), evaluator.id.as_str(), &viewer.project);
    let href = evaluator_href(&base, id);
    let failed_href = format!("{base}/executions?state=failed&evaluator={}", encode(id));
    let api = format!("/api/public/v2/evaluators/{}", encode(id));
    let shown = version(app, viewer, evaluator, params.version.as_deref()).await?;
    let rules = rules_of(app, viewer, evaluator).await?;
    let limit = MAX_VERSIONS as u32 + 1;
    let mut all = app.store.catalog.evaluator_versions(project, &evaluator.id, None, limit).await?;
    let has_more_versions = MAX_VERSIONS < all.len();
    all.truncate(MAX_VERSIONS);
    let scores = version_scores(app, viewer, &all, None).await?;
    let policies = versions::policies(&rules);
    let failed = newest(app, viewer, &in_state(evaluator, ExecutionState::Failed), LATEST).await?;
    let completed = in_state(evaluator, ExecutionState::Completed);
    Ok(EvaluatorPage {
        shell: viewer.shell(Section::Evaluators).with_api([
            ApiRequest::new(&viewer.origin, &api).with_note("The evaluator:"),
            ApiRequest::new(&viewer.origin, &format!("{api}/versions")).with_note("Its versions:"),
        ]),
        name: Text::from(evaluator.name.as_str()),
        description: evaluator
            .description
            .as_deref()
            .filter(|text| !text.is_empty())
            .map(Text::from),
        pause: pause(app, viewer, evaluator).await?,
        held: held(app, viewer, evaluator).await?,
        facts: facts(app, viewer, evaluator, &all).await?,
        figures: figures::view(app, viewer, evaluator, (&all, &scores)).await?,
        switches: [true, false].map(|on| {
            let is = |rule: &Rule| (rule.enabled && rule.paused.is_none()) == on;
            rules.iter().any(|(rule, _)| is(rule))
        }),
        definition: definition::view(app, viewer, &shown, evaluator.version.number).await?,
        versions: versions::lines(viewer, &href, &all, (shown.number, &scores), &policies),
        has_more_versions,
        comparison: comparison(app, viewer, evaluator, params).await?,
        uses: rules.iter().filter_map(|(rule, at)| use_line(rule, *at)).collect(),
        scores_href: format!("{base}/scores?fingerprint={}", evaluator.version.fingerprint),
        failures: failures(app, viewer, evaluator, &failed_href).await?,
        failed: failed.into_iter().map(|(_, line)| line).collect(),
        scored: scored(app, viewer, &completed, LATEST).await?,
        failed_href,
        may_write: viewer.may(EvaluatorWrite),
        href,
    })
}

/// Its pause. If all its models have one connection, the link leads to that connection.
async fn pause(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
) -> Result<Option<EvaluatorPauseSummary>, Problem> {
    let Some(pause) = &evaluator.paused else {
        return Ok(None);
    };
    let mut summary = pause_summary(pause, viewer);
    let connections = definition::connections(app, viewer, &evaluator.version).await?;
    if let (Some(href), [(_, of_models)]) = (&mut summary.connections_href, connections.as_slice())
    {
        href.clone_from(of_models);
    }
    Ok(Some(summary))
}

/// The scores of versions since a time.
async fn version_scores(
    app: &App,
    viewer: &Viewer,
    versions: &[EvaluatorVersion],
    since: Option<Timestamp>,
) -> Result<Vec<Vec<VersionScores>>, Problem> {
    let keys: Vec<_> = versions.iter().map(|version| version.id.clone()).collect();
    let telemetry = &app.store.telemetry;
    Ok(telemetry.version_scores(&viewer.project, &keys, since, MAX_SCORES).await?)
}

/// The number of its executions that wait for the end of a pause.
async fn held(app: &App, viewer: &Viewer, evaluator: &Evaluator) -> Result<String, Problem> {
    let all = app.store.ledger.held_counts(&viewer.project).await?;
    let own = all.iter().filter(|each| each.evaluator == evaluator.id);
    let n: u64 = own.map(|each| each.n).sum();
    Ok(format!("{} held.", plural(n, "execution")))
}

async fn facts(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
    versions: &[EvaluatorVersion],
) -> Result<Vec<(&'static str, Html)>, Problem> {
    let since = week(app);
    let text = |text: String| Html::from(Text::from(text));
    let costs = app.store.ledger.costs_by_evaluator(&viewer.project, since).await?;
    let scores = version_scores(app, viewer, versions, Some(since)).await?;
    let means = means(&scores);
    let means: Vec<&str> = means.iter().map(Text::raw).collect();
    let n_scores = score_count(&scores, MAX_SCORES);
    let scores = match means.is_empty() {
        true => n_scores,
        false => format!("{n_scores}; {}", means.join(", ")),
    };
    Ok(vec![
        ("Kind", text(kind(&evaluator.version).to_owned())),
        ("Newest version", text(evaluator.version.number.to_string())),
        ("Scores of 7 days", text(scores)),
        ("Cost of 7 days", text(cost_text(costs.get(evaluator.id.as_str()).copied()))),
        ("Created", utc_time(evaluator.created_at)),
        ("Changed", utc_time(evaluator.updated_at)),
        ("Id", text(evaluator.id.to_string())),
    ])
}

/// The rules that use it, each with the index of its assignment.
pub(super) async fn rules_of(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
) -> Result<Vec<(Rule, usize)>, Problem> {
    let (catalog, project) = (&app.store.catalog, &viewer.project);
    let uses = catalog.evaluator_uses(project, &evaluator.id).await?;
    let mut rules = Vec::with_capacity(uses.len().min(MAX_RULES));
    for of_rule in uses.iter().take(MAX_RULES) {
        if let Some(rule) = catalog.rule(project, &of_rule.rule_id).await? {
            let mut assignments = rule.assignments.iter();
            let at = assignments.position(|each| each.id == of_rule.assignment_id);
            rules.extend(at.map(|at| (rule, at)));
        }
    }
    Ok(rules)
}

fn use_line(rule: &Rule, at: usize) -> Option<EvaluatorUseLine> {
    let assignment = rule.assignments.get(at)?;
    let mapping = assignment.mapping.iter().flatten();
    Some(EvaluatorUseLine {
        rule: ResourceLink::new(&rule.name, rule.id.as_str()),
        state: match (rule.enabled, rule.paused.is_some()) {
            (false, _) => "off",
            (true, true) => "paused",
            (true, false) => "on",
        },
        target: rule.target.as_str(),
        policy: assignment.version.to_string(),
        mapping: mapping.map(|entry| Text::from(mapping_line(entry))).collect(),
    })
}

/// Failed executions of the last seven days by class.
async fn failures(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
    failed: &str,
) -> Result<Vec<FailureLine>, Problem> {
    let all = app.store.ledger.failures_by_evaluator(&viewer.project, week(app)).await?;
    let own = all.into_iter().filter(|(id, _)| *id == evaluator.id);
    let line = |failure: FailureCount| {
        let class = failure.class.as_str();
        FailureLine {
            class,
            n: count(failure.n),
            first_at: failure.first_at,
            last_at: failure.last_at,
            href: format!("{failed}&class={}", encode(class)),
        }
    };
    Ok(own.map(|(_, failure)| line(failure)).collect())
}

/// Selects the executions of an evaluator in a state.
fn in_state(evaluator: &Evaluator, state: ExecutionState) -> ExecutionFilter {
    let evaluator = Some(evaluator.id.clone());
    ExecutionFilter { state: Some(state), evaluator, ..ExecutionFilter::default() }
}
