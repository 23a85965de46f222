//! `GET P/backtests`: the backtests of the project; `POST` estimates or starts one.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::TargetKind;
use perpend_domain::list::ListPosition;
use perpend_domain::time::Timestamp;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, BacktestsPage, JobEstimateView, RejectedForm, Section, Text, plural,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{OPERATION, backtest_href, line};
use crate::jobs::{estimate_view, is_estimate, range_and_limits};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input_or_reference, sent_values};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Members of the body and their fields.
const FIELDS: [(&str, &str); 9] = [
    ("evaluatorId", "evaluator"),
    ("version", "version"),
    ("config", "config"),
    ("model", "model"),
    ("ruleId", "rule"),
    ("from", "from"),
    ("to", "to"),
    ("maxItems", "max_items"),
    ("maxUsd", "max_usd"),
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BacktestsParams {
    /// The selected evaluator.
    evaluator: String,
    /// The selected rule.
    rule: String,
}

/// `GET P/backtests`
pub(crate) async fn list_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<BacktestsParams>,
) -> Result<Response, Problem> {
    let selected = (params.evaluator.as_str(), params.rule.as_str());
    let form = (RejectedForm::default(), None);
    page(StatusCode::OK, &view(&app, &viewer, selected, form).await?)
}

/// `POST P/backtests`: the button `action` is `estimate` or `start`.
pub(crate) async fn submit(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let (viewer, fields) = (&form.viewer, &form.fields);
    if is_estimate(fields)? {
        return match estimate(&app, viewer, fields).await {
            Ok(estimate) => {
                let values = RejectedForm { values: values(fields), problems: Vec::new() };
                let view = view(&app, viewer, selected(fields), (values, Some(estimate))).await?;
                page(StatusCode::OK, &view)
            }
            Err(problem) => rejected(&app, viewer, fields, problem).await,
        };
    }
    let act = async {
        let body = body(fields, app.web.clock.now())?;
        let started = call(&app, viewer, (Method::POST, OPERATION), &body).await?;
        let id = started["id"].as_str().unwrap_or_default();
        let outcome = SubmissionOutcome::new("The backtest is started.");
        Ok(outcome.at(backtest_href(&viewer.base(), id)))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Ok(response) => Ok(response),
        Err(problem) => rejected(&app, viewer, fields, problem).await,
    }
}

/// The form again with the messages of a problem about its values.
async fn rejected(
    app: &App,
    viewer: &Viewer,
    fields: &Params,
    problem: Problem,
) -> Result<Response, Problem> {
    if !is_about_input_or_reference(&problem) {
        return Err(problem);
    }
    let problems = field_problems(&problem, &FIELDS, "evaluator");
    let form = RejectedForm { values: values(fields), problems };
    let view = view(app, viewer, selected(fields), (form, None)).await?;
    page(StatusCode::UNPROCESSABLE_ENTITY, &view)
}

fn values(fields: &Params) -> Vec<(&'static str, String)> {
    sent_values(fields, FIELDS.map(|(_, field)| field))
}

/// The sent evaluator and rule.
fn selected(fields: &Params) -> (&str, &str) {
    let sent = |name| fields.raw(name).unwrap_or_default();
    (sent("evaluator"), sent("rule"))
}

async fn estimate(app: &App, viewer: &Viewer, fields: &Params) -> Result<JobEstimateView, Problem> {
    let body = body(fields, app.web.clock.now())?;
    let path = format!("{OPERATION}/estimate");
    let estimate = call(app, viewer, (Method::POST, path.as_str()), &body).await?;
    let n_unscored = estimate["unscoredCount"].as_u64().unwrap_or_default();
    let left_out = format!("{} without a live score", plural(n_unscored, "target"));
    Ok(estimate_view(&estimate, left_out))
}

/// The body of the operation.
fn body(fields: &Params, now: Timestamp) -> Result<Value, Problem> {
    let mut body = Map::new();
    body.insert("evaluatorId".to_owned(), json!(fields.raw("evaluator").unwrap_or_default()));
    let sent = |name| fields.text(name).map(str::trim).filter(|text| !text.is_empty());
    if let Some(rule) = sent("rule") {
        body.insert("ruleId".to_owned(), json!(rule));
    }
    if let Some(text) = sent("version") {
        let number = text.parse::<u32>();
        let message = || format!("must be the number of a version, got `{text}`");
        let number = number.map_err(|_| Problem::body("version", message()))?;
        body.insert("version".to_owned(), json!(number));
    }
    if let Some(text) = sent("config") {
        let config = serde_json::from_str::<Map<String, Value>>(text);
        let config = config
            .map_err(|error| Problem::body("config", format!("must be a JSON object: {error}")))?;
        body.insert("config".to_owned(), Value::Object(config));
    }
    if let Some(text) = sent("model") {
        let Some((provider, model)) = text.split_once('/') else {
            let message = format!("must have the form connection/model, got `{text}`");
            return Err(Problem::body("model", message));
        };
        body.insert("model".to_owned(), json!({ "provider": provider, "model": model }));
    }
    body.extend(range_and_limits(fields, now)?);
    Ok(Value::Object(body))
}

async fn view(
    app: &App,
    viewer: &Viewer,
    (evaluator, rule): (&str, &str),
    (rejected_form, estimate): (RejectedForm, Option<JobEstimateView>),
) -> Result<BacktestsPage, Problem> {
    let (store, project, base) = (&app.store, &viewer.project, viewer.base());
    let position = ListPosition::default();
    let found = store.ledger.backtests(project, &position, BacktestsPage::LIMIT).await?;
    let may_write = viewer.may(EvaluatorWrite);
    let (mut evaluators, mut rules) = (Vec::new(), Vec::new());
    if may_write {
        let limit = BacktestsPage::MAX_OPTIONS;
        for each in store.catalog.evaluators(project, None, limit).await?.items {
            let is_selected = each.id.as_str() == evaluator;
            evaluators.push((each.id.to_string(), Text::from(each.name), is_selected));
        }
        for each in store.catalog.rules(project, None, limit).await?.items {
            if each.target != TargetKind::Run {
                let is_selected = each.id.as_str() == rule;
                rules.push((each.id.to_string(), Text::from(each.name), is_selected));
            }
        }
    }
    Ok(BacktestsPage {
        shell: viewer
            .shell(Section::Evaluators)
            .with_api([ApiRequest::new(&viewer.origin, OPERATION)]),
        backtests: found.items.iter().map(|each| line(&base, each)).collect(),
        has_more: found.older.is_some(),
        evaluators,
        rules,
        may_write,
        rejected_form,
        estimate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_the_body_of_the_operation_and_wrong_values_are_refused() {
        let now = Timestamp::parse("2026-11-08T12:00:00Z").unwrap();
        let form = "evaluator=e&version=&config=%7B%22max%22%3A5%7D&model=main%2Fmeta%2Fsmall&rule=&from=-7d";
        let expected = json!({
            "evaluatorId": "e", "config": { "max": 5 },
            "model": { "provider": "main", "model": "meta/small" }, "from": "2026-11-01T12:00:00.000Z",
        });
        assert_eq!(body(&Params::parse(form), now).unwrap(), expected);
        for wrong in ["from=", "from=-7d&version=x", "from=-7d&config=5", "from=-7d&model=small"] {
            assert!(body(&Params::parse(wrong), now).is_err(), "{wrong}");
        }
    }
}
