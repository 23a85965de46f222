//! `GET P/rules`: the rules of the project.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_catalog::MAX_ACTIVE_RULES;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::cost::CostSum;
use perpend_domain::cron::Schedule;
use perpend_domain::evaluation::{Evaluator, ExecutionState, Rule};
use perpend_domain::funnel::Funnel;
use perpend_domain::ids::EvaluatorId;
use perpend_domain::time::Timestamp;
use perpend_executions::{RuleCost, StateCount, rule_funnel};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ExampleEvaluator, ResourceLink, RuleRow, RulesPage, Section, Text, Tone, count, plural,
    rule_href,
};

use super::{definition, funnel};
use crate::reference;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::setup;
use crate::state::App;

const DAY_MS: i64 = 86_400_000;

/// Counts and cost of a rule.
pub(super) struct RuleFigures {
    /// Of the last 24 hours.
    pub(super) funnel: Funnel,
    pub(super) states: Vec<StateCount>,
    /// Of the last seven days.
    pub(super) cost: Option<RuleCost>,
}

impl RuleFigures {
    fn n(&self, state: ExecutionState) -> u64 {
        let of_state = self.states.iter().filter(|count| count.state == state);
        of_state.map(|count| count.n).sum()
    }

    /// Cost of the last seven days.
    pub(super) fn cost_text(&self) -> String {
        cost_text(self.cost)
    }
}

/// The cost of calls; absent without calls.
pub(crate) fn cost_text(cost: Option<RuleCost>) -> String {
    let sum = cost.map(|RuleCost { cost, n_unpriced }| CostSum {
        dollars: cost,
        n_priced: u64::from(0.0 < cost || n_unpriced == 0),
        n_unpriced,
    });
    perpend_views::cost(sum.unwrap_or_default())
}

/// The state of a rule with its colour. `evaluators` are its evaluators.
pub(super) fn state(
    rule: &Rule,
    evaluators: &[&Evaluator],
    funnel: &Funnel,
) -> (&'static str, Tone) {
    let is_paused = rule.paused.is_some()
        || (!evaluators.is_empty() && evaluators.iter().all(|each| each.paused.is_some()));
    match (rule.enabled, is_paused, funnel.failed) {
        (false, ..) => ("off", Tone::Plain),
        (true, true, _) => ("paused", Tone::Waiting),
        (true, false, 1..) => ("failing", Tone::Bad),
        (true, false, 0) => ("on", Tone::Good),
    }
}

/// Figures of a rule; its cost is among the costs of all.
pub(super) async fn figures(
    app: &App,
    viewer: &Viewer,
    rule: &Rule,
    costs: &HashMap<String, RuleCost>,
) -> Result<RuleFigures, Problem> {
    let (ledger, project) = (&app.store.ledger, &viewer.project);
    let from = app.web.clock.now().plus_millis(-DAY_MS);
    let counts = ledger.rule_counts(project, &rule.id, from).await?;
    let states = ledger.rule_states(project, &rule.id).await?;
    Ok(RuleFigures {
        funnel: rule_funnel(&counts, &states),
        states,
        cost: costs.get(rule.id.as_str()).copied(),
    })
}

/// Costs of the last seven days by rule.
pub(super) async fn costs(
    app: &App,
    viewer: &Viewer,
) -> Result<HashMap<String, RuleCost>, Problem> {
    let from = app.web.clock.now().plus_millis(-7 * DAY_MS);
    Ok(app.store.ledger.costs_by_rule(&viewer.project, from).await?)
}

pub(crate) async fn rules_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let store = &app.store;
    let limit = RulesPage::LIMIT;
    let rules = store.catalog.rules(&viewer.project, None, limit).await?;
    let evaluators = store.catalog.evaluators(&viewer.project, None, limit).await?;
    let has_more = rules.next.is_some();
    let (rules, evaluators) = (rules.items, evaluators.items);
    // Enabled rules may use older evaluators.
    let in_use = store.catalog.evaluators_in_use(&viewer.project).await?;
    let by_id: HashMap<&EvaluatorId, &Evaluator> =
        in_use.iter().chain(&evaluators).map(|evaluator| (&evaluator.id, evaluator)).collect();
    let setup = match rules.is_empty() {
        true => Some(setup::setup_guide(&app, &viewer.project, &headers).await?),
        false => None,
    };
    let costs = costs(&app, &viewer).await?;
    let base = viewer.base();
    let mut rows = Vec::with_capacity(rules.len());
    for rule in &rules {
        let figures = figures(&app, &viewer, rule, &costs).await?;
        let row = rule_row(rule, &by_id, &figures, &base);
        let row = with_schedule(row, rule, app.web.clock.now());
        rows.push(with_reason(&app, &viewer, rule, row).await?);
    }
    let n_enabled = rules.iter().filter(|rule| rule.enabled).count() as u64;
    let view = RulesPage {
        shell: viewer
            .shell(Section::Rules)
            .with_api(reference::equivalent_requests::rules(&viewer)),
        rules: rows,
        newest_evaluator: evaluators.first().map(|newest| ExampleEvaluator {
            id: Text::from(newest.id.as_str()),
            name: Text::from(newest.name.as_str()),
        }),
        has_more,
        may_write: viewer.may(EvaluatorWrite),
        enabled: (!has_more).then(|| (count(n_enabled), count(MAX_ACTIVE_RULES.into()))),
        setup,
    };
    page(StatusCode::OK, &view)
}

/// The row with the most frequent failure of its rule, if it fails.
async fn with_reason(
    app: &App,
    viewer: &Viewer,
    rule: &Rule,
    row: RuleRow,
) -> Result<RuleRow, Problem> {
    if row.tone != Tone::Bad || row.reason.is_some() {
        return Ok(row);
    }
    let failures = app.store.ledger.rule_failures(&viewer.project, &rule.id).await?;
    let reason = failures.first().map(|most| {
        Text::from(format!("most failures: {} ({})", most.class.as_str(), count(most.n)))
    });
    Ok(RuleRow { reason, ..row })
}

/// The row with the schedule of its rule.
fn with_schedule(row: RuleRow, rule: &Rule, now: Timestamp) -> RuleRow {
    let schedule = rule.schedule.as_ref();
    let text = |own: &Schedule| Text::from(format!("{} {}", own.expression(), own.timezone()));
    let next = schedule.filter(|_| rule.enabled);
    RuleRow {
        schedule: schedule.map(text),
        next_firing: next.and_then(|own| Some(own.local(own.next_after(now)?))),
        ..row
    }
}

fn rule_row(
    rule: &Rule,
    evaluators: &HashMap<&EvaluatorId, &Evaluator>,
    figures: &RuleFigures,
    base: &str,
) -> RuleRow {
    let ids = rule.assignments.iter().map(|assignment| &assignment.evaluator_id);
    let own: Vec<&Evaluator> = ids.filter_map(|id| evaluators.get(id).copied()).collect();
    let (state, tone) = state(rule, &own, &figures.funnel);
    let of_evaluator = || own.iter().find_map(|each| each.paused.as_ref());
    let pause = rule.paused.as_ref().or_else(of_evaluator);
    let assigned = rule.assignments.iter().map(|assignment| {
        let id = &assignment.evaluator_id;
        // An older evaluator that no enabled rule uses is shown with its id.
        let older = || ResourceLink::new(id.as_str(), id.as_str());
        evaluators.get(id).map_or_else(older, |one| ResourceLink::new(&one.name, id.as_str()))
    });
    let some = |n: u64| Some(n).filter(|n| 0 < *n);
    RuleRow {
        id: Text::from(rule.id.as_str()),
        name: Text::from(rule.name.as_str()),
        href: rule_href(base, rule.id.as_str()),
        target: rule.target.as_str(),
        state,
        tone,
        reason: pause.map(|pause| Text::from(pause.message.as_str())),
        schedule: None,
        next_firing: None,
        sampling: format!("{} %", definition::percent(rule.sampling)),
        conditions: definition::conditions(&rule.filter),
        evaluators: assigned.collect(),
        day: funnel::summary(&figures.funnel),
        failed: some(figures.n(ExecutionState::Failed)).map(|n| plural(n, "failed execution")),
        held: some(figures.n(ExecutionState::Held)).map(count),
        cost: figures.cost_text(),
        is_enabled: rule.enabled,
    }
}
