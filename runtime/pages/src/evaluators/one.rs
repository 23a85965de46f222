//! `GET P/evaluators/{evaluator}`: an evaluator with its rules and failures.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::access::Permission::{EvaluatorWrite, PluginRead};
use perpend_domain::evaluation::Evaluator;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, EvaluatorPage, EvaluatorUseLine, FailureLine, Html, ResourceLink, Section, Text,
    count, encode, evaluator_href, plural, utc_time,
};

use super::list::week;
use super::{EvaluatorPath, implementation, kind, pause_summary};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::rules::definition::mapping_line;
use crate::rules::list::cost_text;
use crate::settings::evaluator_settings;
use crate::state::App;

/// Rules on the page.
const MAX_RULES: usize = 100;

/// `GET P/evaluators/{evaluator}`
pub(crate) async fn evaluator_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<EvaluatorPath>,
) -> Result<Response, Problem> {
    let evaluator = path.find(&app, &viewer).await?;
    page(StatusCode::OK, &view(&app, &viewer, &evaluator).await?)
}

async fn view(app: &App, viewer: &Viewer, evaluator: &Evaluator) -> Result<EvaluatorPage, Problem> {
    let (base, id) = (viewer.base(), evaluator.id.as_str());
    let version = &evaluator.version;
    let failed = format!("{base}/executions?state=failed&evaluator={}", encode(id));
    let path = format!("/api/public/v2/evaluators/{}", encode(id));
    Ok(EvaluatorPage {
        shell: viewer.shell(Section::Evaluators).with_api([ApiRequest::new(&viewer.origin, &path)]),
        name: Text::from(evaluator.name.as_str()),
        href: evaluator_href(&base, id),
        version: version.number,
        description: evaluator
            .description
            .as_deref()
            .filter(|text| !text.is_empty())
            .map(Text::from),
        pause: evaluator.paused.as_ref().map(|pause| pause_summary(pause, viewer)),
        held: held(app, viewer, evaluator).await?,
        facts: facts(app, viewer, evaluator).await?,
        plugin_href: viewer.may(PluginRead).then(|| format!("{base}/plugins/{}", version.plugin)),
        uses: uses(app, viewer, evaluator).await?,
        scores_href: format!("{base}/scores?fingerprint={}", version.fingerprint),
        failures: failures(app, viewer, evaluator, &failed).await?,
        failed_href: failed,
        may_write: viewer.may(EvaluatorWrite),
    })
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
) -> Result<Vec<(&'static str, Html)>, Problem> {
    let version = &evaluator.version;
    let text = |text: String| Html::from(Text::from(text));
    let costs = app.store.ledger.costs_by_evaluator(&viewer.project, week(app)).await?;
    let mut facts = vec![
        ("Kind", text(kind(version).to_owned())),
        ("Function", Html::from(implementation(version))),
    ];
    let settings = evaluator_settings(version);
    let settings: Vec<String> =
        settings.iter().map(|(name, value)| format!("{} {}", name.raw(), value.raw())).collect();
    if !settings.is_empty() {
        facts.push(("Settings", text(settings.join("; "))));
    }
    facts.push(("Cost of 7 days", text(cost_text(costs.get(evaluator.id.as_str()).copied()))));
    facts.push(("Created", utc_time(evaluator.created_at)));
    facts.push(("Changed", utc_time(evaluator.updated_at)));
    facts.push(("Fingerprint", text(version.fingerprint.to_string())));
    facts.push(("Id", text(evaluator.id.to_string())));
    Ok(facts)
}

/// The rules that use it, with their policies.
async fn uses(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
) -> Result<Vec<EvaluatorUseLine>, Problem> {
    let (catalog, project) = (&app.store.catalog, &viewer.project);
    let mut lines = Vec::new();
    for of_rule in catalog.evaluator_uses(project, &evaluator.id).await?.iter().take(MAX_RULES) {
        let Some(rule) = catalog.rule(project, &of_rule.rule_id).await? else {
            continue;
        };
        let mut assignments = rule.assignments.iter();
        let Some(assignment) = assignments.find(|each| each.id == of_rule.assignment_id) else {
            continue;
        };
        let mapping = assignment.mapping.iter().flatten();
        lines.push(EvaluatorUseLine {
            rule: ResourceLink::new(&rule.name, rule.id.as_str()),
            state: match (rule.enabled, rule.paused.is_some()) {
                (false, _) => "off",
                (true, true) => "paused",
                (true, false) => "on",
            },
            target: rule.target.as_str(),
            policy: assignment.version.to_string(),
            mapping: mapping.map(|entry| Text::from(mapping_line(entry))).collect(),
        });
    }
    Ok(lines)
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
    let line = |(_, failure): (_, perpend_executions::FailureCount)| {
        let class = failure.class.as_str();
        FailureLine {
            class,
            n: count(failure.n),
            first_at: failure.first_at,
            last_at: failure.last_at,
            href: format!("{failed}&class={}", encode(class)),
        }
    };
    Ok(own.map(line).collect())
}
