//! `GET P/executions/{execution}`: an execution with its attempts, log lines, model calls and scores.

use std::collections::BTreeSet;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{EvaluatorVersion, Execution};
use perpend_domain::ids::ExecutionId;
use perpend_domain::score::Score;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    CallLine, ExecutionLine, ExecutionPage, Html, Section, Text, count, evaluator_href,
    execution_href, number, segment, utc_time, with_query,
};

use crate::executions::names::Names;
use crate::executions::requeue::ExecutionPath;
use crate::reference;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::scores::views::{score_views, scores_about};
use crate::state::App;

fn facts(execution: &Execution, version: Option<&EvaluatorVersion>) -> Vec<(&'static str, Html)> {
    let made = &execution.made;
    let mut facts = Vec::new();
    let text = |text: String| Html::from(Text::from(text));
    if let Some(version) = version {
        let plugin = format!(
            "{} {} · {}",
            version.plugin_name, version.plugin_version, version.plugin_evaluator
        );
        facts.push(("Plug-in", text(plugin)));
    }
    facts.push(("Created", utc_time(execution.created_at)));
    let times = [
        ("First attempt", execution.first_attempt_at),
        ("Firing of the schedule", execution.firing_at),
        ("Next attempt", (!execution.state.is_final()).then_some(execution.due_at)),
        ("Finished", execution.finished_at),
    ];
    facts.extend(times.into_iter().filter_map(|(label, at)| Some((label, utc_time(at?)))));
    facts.push(("Origin", text(made.origin.to_string())));
    facts.push(("Target complete because", text(made.completion.to_string())));
    facts.push(("Observations", text(count(made.n_observations.into()))));
    facts.push(("Late observations", text(count(execution.n_late.into()))));
    facts.push(("Sample rate", text(format!("{} %", number(made.inclusion_probability * 100.0)))));
    facts.push(("Generation", text(count(made.generation.into()))));
    if made.is_audit {
        facts
            .push(("Audit", text("selected although conditions on scores rejected it".to_owned())));
    }
    if let Some(shadow) = made.shadow {
        facts.push(("Shadow version", text(shadow.to_string())));
    }
    facts.push(("Assignment", text(made.assignment_id.to_string())));
    facts
}

/// URL of the form that tries the newest version of the evaluator on the target; absent for a deleted evaluator or a run.
async fn try_href(
    app: &App,
    viewer: &Viewer,
    execution: &Execution,
) -> Result<Option<String>, Problem> {
    let (id, target) = (&execution.made.evaluator_id, &execution.made.target);
    let is_there = app.store.catalog.evaluator(&viewer.project, id).await?.is_some();
    let ids = [
        ("trace", target.trace().map(|id| id.as_str())),
        ("observation", target.observation().map(|id| id.as_str())),
        ("session", target.session().map(|id| id.as_str())),
    ];
    let ids = ids.into_iter().filter_map(|(name, id)| Some((name, id?.to_owned())));
    let ids: Vec<(&str, String)> = ids.collect();
    let path = format!("{}/try", evaluator_href(&viewer.base(), id.as_str()));
    let may_try = is_there && viewer.may(EvaluatorWrite) && !ids.is_empty();
    Ok(may_try.then(|| with_query(&path, &ids)))
}

/// The scores of the execution that are in use.
pub(crate) async fn own_scores(
    app: &App,
    viewer: &Viewer,
    execution: &Execution,
) -> Result<Vec<Score>, Problem> {
    let mut scores = scores_about(app, viewer, &execution.made.target).await?;
    scores.retain(|score| {
        let origin = score.written.origin.as_ref();
        origin.is_some_and(|origin| origin.execution_id == execution.made.id)
    });
    Ok(scores)
}

/// The decision of the rule about the target; absent for a deleted rule.
async fn explanation(
    app: &App,
    viewer: &Viewer,
    execution: &Execution,
) -> Result<Option<Text>, Problem> {
    let project = &viewer.project;
    let Some(rule) = app.store.catalog.rule(project, &execution.made.rule_id).await? else {
        return Ok(None);
    };
    let explanation = app.scheduler.explain(project, &rule, &execution.made.target).await?;
    Ok(Some(Text::from(explanation.step.sentence())))
}

pub(crate) async fn execution_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<ExecutionPath>,
) -> Result<Response, Problem> {
    let missing = || Problem::not_found("execution");
    let id = ExecutionId::new(&path.execution).map_err(|_| missing())?;
    let (store, project) = (&app.store, &viewer.project);
    let execution = store.ledger.execution(project, &id).await?.ok_or_else(missing)?;
    let executions = [execution];
    let names = Names::read(&app, &viewer, &executions).await?;
    let [execution] = executions;
    let costs = store.ledger.execution_costs(project, std::slice::from_ref(&id)).await?;
    let base = viewer.base();
    let cost = costs.get(&id).copied();
    let line = ExecutionLine::new(&execution, names.of(&execution), cost, &base);
    let attempts = store.ledger.attempts(project, &id).await?;
    let log = store.ledger.execution_log(&execution).await?;
    let calls = store.ledger.model_calls(project, &id).await?;
    let scores = own_scores(&app, &viewer, &execution).await?;
    let target = &execution.made.target;
    let superseded = store.telemetry.superseded_scores(project, target, &id).await?;
    let (older, by): (Vec<Score>, Vec<ExecutionId>) = superseded.into_iter().unzip();
    let older = score_views(&app, &viewer, &older).await?;
    let superseded = older.into_iter().zip(by).map(|(score, by)| {
        let href = execution_href(&base, by.as_str());
        (score, Text::from(by.as_str()), href)
    });
    let traced = store.telemetry.trace_names(project, &BTreeSet::from([id.as_str()])).await?;
    let version = names.version(&execution);
    let view = ExecutionPage {
        shell: viewer
            .shell(Section::Executions)
            .with_api(reference::equivalent_requests::execution(&viewer, &id)),
        message: execution.error_message.as_deref().map(Text::lines),
        explanation: explanation(&app, &viewer, &execution).await?,
        facts: facts(&execution, version),
        own_trace: traced.contains_key(id.as_str()).then(|| {
            let id = segment(id.as_str());
            format!("{base}/traces/{id}")
        }),
        try_href: try_href(&app, &viewer, &execution).await?,
        fingerprint: version.map(|version| version.fingerprint.to_string()),
        attempts: attempts.into_iter().map(Into::into).collect(),
        log: log.into_iter().map(Into::into).collect(),
        calls: calls.into_iter().map(|(attempt, call)| CallLine::new(attempt, call)).collect(),
        scores: score_views(&app, &viewer, &scores).await?,
        superseded: superseded.collect(),
        line: if viewer.may(EvaluatorWrite) { line.requeueable() } else { line },
    };
    page(StatusCode::OK, &view)
}
