//! `GET P/backfills`: the backfills of the project; `POST` estimates or starts one.

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
    ApiRequest, BackfillsPage, JobEstimateView, RejectedForm, Section, Text, plural,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{OPERATION, backfill_href, line};
use crate::jobs::{estimate_view, is_estimate, range_and_limits};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input_or_reference, sent_values};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Members of the body and their fields.
const FIELDS: [(&str, &str); 6] = [
    ("ruleId", "rule"),
    ("mode", "mode"),
    ("from", "from"),
    ("to", "to"),
    ("maxItems", "max_items"),
    ("maxUsd", "max_usd"),
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BackfillsParams {
    /// The selected rule.
    rule: String,
}

/// `GET P/backfills`
pub(crate) async fn list_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<BackfillsParams>,
) -> Result<Response, Problem> {
    let view = view(&app, &viewer, &params.rule, (RejectedForm::default(), None)).await?;
    page(StatusCode::OK, &view)
}

/// `POST P/backfills`: the button `action` is `estimate` or `start`.
pub(crate) async fn submit(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let now = app.web.clock.now();
    if is_estimate(&form.fields)? {
        return match estimate(&app, viewer, &form.fields).await {
            Ok(estimate) => {
                let values = RejectedForm { values: values(&form.fields), problems: Vec::new() };
                let rule = form.fields.raw("rule").unwrap_or_default();
                let view = view(&app, viewer, rule, (values, Some(estimate))).await?;
                page(StatusCode::OK, &view)
            }
            Err(problem) => rejected(&app, viewer, &form.fields, problem).await,
        };
    }
    let act = async {
        let body = body(&form.fields, now)?;
        let started = call(&app, viewer, (Method::POST, OPERATION), &body).await?;
        let id = started["id"].as_str().unwrap_or_default();
        let outcome = SubmissionOutcome::new("Backfill started.");
        Ok(outcome.at(backfill_href(&viewer.base(), id)))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Ok(response) => Ok(response),
        Err(problem) => rejected(&app, viewer, &form.fields, problem).await,
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
    let problems = field_problems(&problem, &FIELDS, "rule");
    let form = RejectedForm { values: values(fields), problems };
    let rule = fields.raw("rule").unwrap_or_default();
    let view = view(app, viewer, rule, (form, None)).await?;
    page(StatusCode::UNPROCESSABLE_ENTITY, &view)
}

fn values(fields: &Params) -> Vec<(&'static str, String)> {
    sent_values(fields, FIELDS.map(|(_, field)| field))
}

/// The body of the operation.
fn body(fields: &Params, now: Timestamp) -> Result<Value, Problem> {
    let mut body = Map::new();
    body.insert("ruleId".to_owned(), json!(fields.raw("rule").unwrap_or_default()));
    if let Some(mode) = fields.text("mode") {
        body.insert("mode".to_owned(), json!(mode));
    }
    body.extend(range_and_limits(fields, now)?);
    Ok(Value::Object(body))
}

async fn estimate(app: &App, viewer: &Viewer, fields: &Params) -> Result<JobEstimateView, Problem> {
    let body = body(fields, app.web.clock.now())?;
    let path = format!("{OPERATION}/estimate");
    let estimate = call(app, viewer, (Method::POST, path.as_str()), &body).await?;
    let n_present = estimate["presentCount"].as_u64().unwrap_or_default();
    let left_out = format!("{} with a result", plural(n_present, "target"));
    Ok(estimate_view(&estimate, left_out))
}

async fn view(
    app: &App,
    viewer: &Viewer,
    rule: &str,
    (rejected_form, estimate): (RejectedForm, Option<JobEstimateView>),
) -> Result<BackfillsPage, Problem> {
    let (store, project, base) = (&app.store, &viewer.project, viewer.base());
    let position = ListPosition::default();
    let found = store.ledger.backfills(project, &position, BackfillsPage::LIMIT).await?;
    let may_write = viewer.may(EvaluatorWrite);
    let rules = match may_write {
        true => store.catalog.enabled_rules(project).await?,
        false => Vec::new(),
    };
    let rules = rules.into_iter().rev().filter(|each| each.target != TargetKind::Run);
    let rules = rules.map(|each| {
        let is_selected = each.id.as_str() == rule;
        (each.id.to_string(), Text::from(each.name), is_selected)
    });
    let api = ApiRequest::new(&viewer.origin, OPERATION);
    Ok(BackfillsPage {
        shell: viewer.shell(Section::Rules).with_api([api]),
        backfills: found.items.iter().map(|each| line(&base, each)).collect(),
        has_more: found.older.is_some(),
        rules: rules.collect(),
        may_write,
        rejected_form,
        estimate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_become_times_and_wrong_values_are_refused() {
        let now = Timestamp::parse("2026-11-08T12:00:00Z").unwrap();
        let form = "rule=r&mode=fill&from=-7d&to=&max_items=5&max_usd=&action=start";
        let expected = json!({
            "ruleId": "r", "mode": "fill", "from": "2026-11-01T12:00:00.000Z", "maxItems": 5,
        });
        assert_eq!(body(&Params::parse(form), now).unwrap(), expected);
        for wrong in ["from=", "from=soon", "from=-7d&max_items=-1", "from=-7d&max_usd=much"] {
            assert!(body(&Params::parse(wrong), now).is_err(), "{wrong}");
        }
    }
}
