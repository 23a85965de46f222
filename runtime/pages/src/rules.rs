//! `GET P/rules`: the rules and evaluators of the project.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::evaluation::{Evaluator, Rule};
use perpend_domain::filter::describe_condition;
use perpend_domain::ids::EvaluatorId;
use perpend_http_kit::problem::Problem;
use perpend_views::{EvaluatorRow, ResourceLink, RuleRow, RulesPage, Section, Text, Tone};

use crate::reference;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::settings;
use crate::setup;
use crate::state::App;

pub(super) async fn rules_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let store = &app.store;
    let limit = RulesPage::LIMIT;
    let rules = store.catalog.rules(&viewer.project, None, limit).await?;
    let evaluators = store.catalog.evaluators(&viewer.project, None, limit).await?;
    let has_more = rules.next.is_some() || evaluators.next.is_some();
    let (rules, evaluators) = (rules.items, evaluators.items);
    let names: HashMap<&EvaluatorId, &str> =
        evaluators.iter().map(|evaluator| (&evaluator.id, evaluator.name.as_str())).collect();
    let setup = match rules.is_empty() || evaluators.is_empty() {
        true => Some(setup::setup_guide(&app, &viewer.project, &headers).await?),
        false => None,
    };
    let view = RulesPage {
        shell: viewer
            .shell(Section::Rules)
            .with_api(reference::equivalent_requests::rules(&viewer)),
        rules: rules.iter().map(|rule| rule_row(rule, &names)).collect(),
        evaluators: evaluators.iter().map(evaluator_row).collect(),
        has_more,
        setup,
    };
    page(StatusCode::OK, &view)
}

fn rule_row(rule: &Rule, names: &HashMap<&EvaluatorId, &str>) -> RuleRow {
    let (state, tone) = match (&rule.paused, rule.enabled) {
        (_, false) => ("off", Tone::Plain),
        (Some(_), true) => ("paused", Tone::Waiting),
        (None, true) => ("on", Tone::Good),
    };
    let assigned = rule.assignments.iter().map(|assignment| {
        let id = &assignment.evaluator_id;
        // An evaluator that is not among the newest has no row on this page.
        let older = || ResourceLink::deleted(id.as_str());
        names.get(id).map_or_else(older, |name| ResourceLink::new(name, id.as_str()))
    });
    RuleRow {
        id: Text::from(rule.id.as_str()),
        name: Text::from(rule.name.as_str()),
        target: rule.target.as_str(),
        state,
        tone,
        reason: rule.paused.as_ref().map(|pause| Text::from(pause.message.as_str())),
        sampling: format!("{} %", (rule.sampling * 1e6).round() / 1e4),
        conditions: rule
            .filter
            .sent()
            .iter()
            .map(|condition| Text::from(describe_condition(condition)))
            .collect(),
        evaluators: assigned.collect(),
    }
}

fn evaluator_row(evaluator: &Evaluator) -> EvaluatorRow {
    let version = &evaluator.version;
    EvaluatorRow {
        id: Text::from(evaluator.id.as_str()),
        name: Text::from(evaluator.name.as_str()),
        version: version.number,
        plugin: Text::from(format!("{} {}", version.plugin_name, version.plugin_version)),
        function: Text::from(version.plugin_evaluator.as_str()),
        settings: settings::evaluator_settings(version),
        fingerprint: version.fingerprint.to_string(),
        paused: evaluator.paused.as_ref().map(|pause| Text::from(pause.message.as_str())),
    }
}
