//! `GET P/rules/{rule}`: a rule with its funnel, failures, latest scores and changes, and the decision about one target.

use std::collections::HashMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_catalog::RuleChange;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{
    Assignment, Evaluator, ExecutionState, LatePolicy, OnMissing, Pause, Rule,
};
use perpend_domain::ids::{EvaluatorId, RuleId};
use perpend_domain::slots::CONNECTION_REASONS;
use perpend_executions::{ExecutionFilter, FailureCount, StateCount, WaitingCount, rule_funnel};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, AssignmentLine, ExecutionLine, FailureLine, FunnelStep, Html, PauseView,
    RejectedForm, ResourceLink, RuleChangeLine, RuleExplanation, RuleFunnelFragment, RulePage,
    Section, Text, count, dollars, encode, plural, rule_href, utc_time,
};
use serde::Deserialize;

use super::list::{RuleFigures, costs, figures, state};
use super::{RulePath, definition, explain, funnel, schedule, stored_rule};
use crate::authors::author_names;
use crate::executions::newest::{newest, scored};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

const HOUR_MS: i64 = 3_600_000;
/// Hours and label of the periods of the funnel.
const PERIODS: [(u32, &str); 4] =
    [(1, "1 hour"), (24, "24 hours"), (168, "7 days"), (720, "30 days")];
/// Executions shown that failed, and that gave scores.
const LATEST: u32 = 5;
/// Changes shown.
const MAX_CHANGES: u32 = 20;

/// Query parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RuleParams {
    /// Length of the period of the funnel.
    hours: Option<String>,
    /// Id of a target whose decision is explained.
    explain: Option<String>,
}

impl RuleParams {
    /// Hours of the period of the funnel.
    fn period(&self) -> u32 {
        let chosen = self.hours.as_deref().and_then(|raw| raw.parse::<u32>().ok());
        let chosen = PERIODS.iter().find(|(hours, _)| Some(*hours) == chosen);
        chosen.map_or(24, |(hours, _)| *hours)
    }
}

/// The funnel of the last hours. `states` are the numbers of executions now.
async fn steps(
    app: &App,
    viewer: &Viewer,
    rule: &Rule,
    (hours, states): (u32, &[StateCount]),
) -> Result<Vec<FunnelStep>, Problem> {
    let (ledger, project) = (&app.store.ledger, &viewer.project);
    let from = app.web.clock.now().plus_millis(-i64::from(hours) * HOUR_MS);
    let counts = ledger.rule_counts(project, &rule.id, from).await?;
    let executions = format!("{}/executions?rule={}", viewer.base(), encode(rule.id.as_str()));
    Ok(funnel::steps(&rule_funnel(&counts, states), &executions))
}

/// `GET P/_/rules/{rule}/funnel?hours=`
pub(crate) async fn funnel_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<RulePath>,
    Query(params): Query<RuleParams>,
) -> Result<Response, Problem> {
    let rule = stored_rule(&app, &viewer, &path).await?;
    let states = app.store.ledger.rule_states(&viewer.project, &rule.id).await?;
    let funnel = steps(&app, &viewer, &rule, (params.period(), &states)).await?;
    page(StatusCode::OK, &RuleFunnelFragment { funnel })
}

pub(crate) async fn rule_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<RulePath>,
    Query(params): Query<RuleParams>,
) -> Result<Response, Problem> {
    let rule = stored_rule(&app, &viewer, &path).await?;
    let view = view(&app, &viewer, &rule, (&params, RejectedForm::default())).await?;
    page(StatusCode::OK, &view)
}

/// The evaluators of a rule that exist, in the order of its assignments.
async fn evaluators_of(app: &App, viewer: &Viewer, rule: &Rule) -> Result<Vec<Evaluator>, Problem> {
    let mut evaluators = Vec::with_capacity(rule.assignments.len());
    for assignment in &rule.assignments {
        let found = app.store.catalog.evaluator(&viewer.project, &assignment.evaluator_id).await?;
        evaluators.extend(found);
    }
    Ok(evaluators)
}

/// The decision about an entered target, or the reason for its absence.
async fn explained(
    app: &App,
    viewer: &Viewer,
    rule: &Rule,
    id: &str,
) -> Result<(Option<RuleExplanation>, Option<Text>), Problem> {
    if id.is_empty() {
        return Ok((None, None));
    }
    Ok(match explain::explanation(app, viewer, rule, id).await? {
        Ok(explanation) => (Some(explanation), None),
        Err(why) => (None, Some(why)),
    })
}

pub(super) async fn view(
    app: &App,
    viewer: &Viewer,
    rule: &Rule,
    (params, rejected_form): (&RuleParams, RejectedForm),
) -> Result<RulePage, Problem> {
    let (ledger, project, base) = (&app.store.ledger, &viewer.project, viewer.base());
    let id = rule.id.as_str();
    let href = rule_href(&base, id);
    let evaluators = evaluators_of(app, viewer, rule).await?;
    let by_reference: Vec<&Evaluator> = evaluators.iter().collect();
    let costs = costs(app, viewer).await?;
    let figures = figures(app, viewer, rule, &costs).await?;
    let (state, tone) = state(rule, &by_reference, &figures.funnel);
    let hours = params.period();
    let executions = format!("{base}/executions?rule={}", encode(id));
    let failures = ledger.rule_failures(project, &rule.id).await?;
    let explained_id = params.explain.as_deref().unwrap_or_default().trim().to_owned();
    let (explanation, explain_problem) = explained(app, viewer, rule, &explained_id).await?;
    let periods = PERIODS.map(|(n, label)| (label, format!("{href}?hours={n}"), n == hours));
    let held = ledger.held_counts(project).await?;
    Ok(RulePage {
        shell: viewer.shell(Section::Rules).with_api(requests(viewer, rule)),
        id: Text::from(id),
        name: Text::from(rule.name.as_str()),
        state,
        tone,
        is_enabled: rule.enabled,
        may_write: viewer.may(EvaluatorWrite),
        pauses: pauses(rule, &evaluators, &held, &base),
        facts: facts(app, viewer, rule, &figures).await?,
        conditions: definition::conditions(&rule.filter),
        assignments: assignment_lines(rule, &evaluators),
        periods: periods.to_vec(),
        funnel: steps(app, viewer, rule, (hours, &figures.states)).await?,
        funnel_href: format!("{base}/_/rules/{}/funnel?hours={hours}", encode(id)),
        schedule: schedule::view(app, viewer, rule).await?,
        failures: failures.iter().map(|each| failure_line(each, &executions)).collect(),
        failed_href: format!("{executions}&state=failed"),
        failed: failed(app, viewer, rule).await?,
        scored: scored(app, viewer, &in_state(rule, ExecutionState::Completed), LATEST).await?,
        changes: changes(app, viewer, rule).await?,
        explained_id,
        id_label: explain::id_label(rule),
        explanation,
        explain_problem,
        rejected_form,
        href,
    })
}

fn requests(viewer: &Viewer, rule: &Rule) -> Vec<ApiRequest> {
    let id = encode(rule.id.as_str());
    let request = |path: String, note| ApiRequest::new(&viewer.origin, &path).with_note(note);
    vec![
        request(super::operation(rule), "The rule:"),
        request(format!("/api/v1/evaluation-rules/{id}/counters"), "Its counters with the funnel:"),
        request(format!("/api/v1/evaluation-rules/{id}/firings"), "The firings of its schedule:"),
        request(format!("/api/v1/evaluation-rules/{id}/changes"), "Its changes:"),
    ]
}

/// The event that ends a pause of a rule or evaluator.
pub(crate) fn end_condition(pause: &Pause) -> &'static str {
    match pause.reason.as_str() {
        Pause::BUDGET_REACHED => {
            "The pause ends with the next period of the budget, or when the budget is changed."
        }
        Pause::PLUGIN_FAILING | Pause::UPSTREAM_FAILING => {
            "The pause ends when a test execution succeeds; the failures are below."
        }
        "DEFAULT_EVAL_MODEL_MISSING" => "The pause ends when the project has a default model.",
        "EVAL_MODEL_CONFIG_INVALID" | "EVAL_MODEL_UNAVAILABLE" => {
            "The pause ends when the evaluator or its LLM connection is saved and passes its check."
        }
        "PLUGIN_CONFIG_INVALID" => {
            "The pause ends when a version of the evaluator is saved that passes its check."
        }
        _ => "The pause ends when the LLM connection is saved again and passes its check.",
    }
}

/// The pauses of a rule and of its evaluators, with the executions that they hold.
fn pauses(
    rule: &Rule,
    evaluators: &[Evaluator],
    held: &[WaitingCount],
    base: &str,
) -> Vec<PauseView> {
    let n_held = |evaluator: Option<&EvaluatorId>| {
        let own = held.iter().filter(|each| {
            each.rule == rule.id && evaluator.is_none_or(|evaluator| each.evaluator == *evaluator)
        });
        let n: u64 = own.map(|each| each.n).sum();
        format!("{} held", plural(n, "execution"))
    };
    let pause = |pause: &Pause, evaluator: Option<&Evaluator>| PauseView {
        evaluator: evaluator.map(|own| ResourceLink::new(&own.name, own.id.as_str())),
        reason: Text::from(pause.reason.as_str()),
        message: Text::from(pause.message.as_str()),
        since: pause.at,
        until: pause.until,
        held: n_held(evaluator.map(|own| &own.id)),
        end_condition: end_condition(pause),
        connections_href: CONNECTION_REASONS
            .contains(&pause.reason.as_str())
            .then(|| format!("{base}/settings/connections")),
        may_resume: evaluator.is_none() && rule.enabled,
    };
    let own = rule.paused.iter().map(|own| pause(own, None));
    let of_evaluators = evaluators.iter().filter_map(|each| {
        let paused = each.paused.as_ref()?;
        Some(pause(paused, Some(each)))
    });
    own.chain(of_evaluators).collect()
}

async fn facts(
    app: &App,
    viewer: &Viewer,
    rule: &Rule,
    figures: &RuleFigures,
) -> Result<Vec<(&'static str, Html)>, Problem> {
    let text = |text: String| Html::from(Text::from(text));
    let independent = if rule.sampling_independent { ", independent of other rules" } else { "" };
    let sampling = format!("{} %{independent}", definition::percent(rule.sampling));
    let mut facts = vec![
        ("Target", text(format!("{}s", rule.target.as_str()))),
        ("Sample rate", text(sampling)),
    ];
    let waits = [
        ("Complete after", rule.timing.settle_ms),
        ("Complete without a root after", rule.timing.quiet_ms),
        ("Longest wait", rule.timing.max_wait_ms),
    ];
    let waits = waits.into_iter().filter_map(|(label, ms)| Some((label, ms?)));
    facts.extend(waits.map(|(label, ms)| (label, text(format!("{ms} ms")))));
    if rule.on_missing != OnMissing::Fail {
        facts.push(("Missing parts", text(rule.on_missing.as_str().to_owned())));
    }
    if rule.late != LatePolicy::Ignore {
        facts.push(("Late spans", text(rule.late.as_str().to_owned())));
    }
    for budget in &rule.budget {
        let (window, action) = (budget.window.as_str(), budget.on_reached.as_str());
        facts.push(("Budget", text(format!("{window}: {}, {action}", dollars(budget.usd)))));
    }
    if !rule.after.is_empty() {
        let links = app.store.catalog.rule_links(&viewer.project).await?;
        let names: HashMap<&RuleId, &str> =
            links.iter().map(|link| (&link.id, link.name.as_str())).collect();
        let after = rule.after.iter().map(|id| names.get(id).copied().unwrap_or(id.as_str()));
        facts.push(("After", text(after.collect::<Vec<_>>().join(", "))));
        facts.push(("Audit", text(format!("{} %", definition::percent(rule.audit)))));
    }
    facts.push(("Cost of 7 days", text(figures.cost_text())));
    facts.push(("Created", utc_time(rule.created_at)));
    facts.push(("Id", text(rule.id.to_string())));
    Ok(facts)
}

fn assignment_lines(rule: &Rule, evaluators: &[Evaluator]) -> Vec<AssignmentLine> {
    let line = |assignment: &Assignment| {
        let id = &assignment.evaluator_id;
        let found = evaluators.iter().find(|each| each.id == *id);
        let deleted = || ResourceLink::deleted(id.as_str());
        let mapping = assignment.mapping.iter().flatten();
        AssignmentLine {
            evaluator: found.map_or_else(deleted, |own| ResourceLink::new(&own.name, id.as_str())),
            version: assignment.version.to_string(),
            mapping: mapping.map(|entry| Text::from(definition::mapping_line(entry))).collect(),
        }
    };
    rule.assignments.iter().map(line).collect()
}

fn failure_line(failure: &FailureCount, executions: &str) -> FailureLine {
    let class = failure.class.as_str();
    FailureLine {
        class,
        n: count(failure.n),
        first_at: failure.first_at,
        last_at: failure.last_at,
        href: format!("{executions}&state=failed&class={}", encode(class)),
    }
}

/// Selects the executions of a rule in a state.
fn in_state(rule: &Rule, state: ExecutionState) -> ExecutionFilter {
    let rule = Some(rule.id.clone());
    ExecutionFilter { state: Some(state), rule, ..ExecutionFilter::default() }
}

async fn failed(app: &App, viewer: &Viewer, rule: &Rule) -> Result<Vec<ExecutionLine>, Problem> {
    let failed = newest(app, viewer, &in_state(rule, ExecutionState::Failed), LATEST).await?;
    Ok(failed.into_iter().map(|(_, line)| line).collect())
}

/// The changes, each with the members that differ from the change before. The last one is read for its definition only if
/// there are more than are shown.
async fn changes(app: &App, viewer: &Viewer, rule: &Rule) -> Result<Vec<RuleChangeLine>, Problem> {
    let all = app.store.catalog.rule_changes(&viewer.project, &rule.id, MAX_CHANGES + 1).await?;
    let authors = all.iter().filter_map(|change| change.author.as_deref());
    let names = author_names(app, viewer, authors.collect()).await?;
    let shown = all.iter().take(MAX_CHANGES as usize).enumerate();
    let line = |(at, change): (usize, &RuleChange)| {
        let before = all.get(at + 1);
        let members =
            before.map(|before| definition::differences(&before.definition, &change.definition));
        RuleChangeLine {
            at: change.at,
            author: change
                .author
                .as_ref()
                .map(|id| Text::from(names.get(id).unwrap_or(id).as_str())),
            is_oldest: before.is_none(),
            members: members.unwrap_or_default(),
        }
    };
    Ok(shown.map(line).collect())
}
