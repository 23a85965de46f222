//! `POST P/rules/{rule}/enabled` and `POST P/rules/{rule}/delete`.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::evaluation::Rule;
use perpend_http_kit::extract::must_be_one_of;
use perpend_http_kit::problem::Problem;
use perpend_views::{RejectedForm, Text, Undo, rule_href};
use serde_json::json;

use super::rule::{self, RuleParams};
use super::{RulePath, operation, stored_rule};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, is_about_input};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::state::App;

/// The notice after a switch, with the form that undoes it.
fn outcome(before: &Rule, enabled: bool, href: &str) -> SubmissionOutcome {
    let name = &before.name;
    if before.enabled == enabled {
        return SubmissionOutcome::new(match (enabled, before.paused.is_some()) {
            (true, true) => format!("{name} resumed."),
            (true, false) => format!("{name} is on."),
            (false, _) => format!("{name} is off."),
        });
    }
    let state = if enabled { "on" } else { "off" };
    SubmissionOutcome::new(format!("{name} switched {state}.")).with_undo(Undo {
        action: format!("{href}/enabled"),
        fields: vec![("enabled", before.enabled.to_string())],
    })
}

/// `POST P/rules/{rule}/enabled`: the field `enabled` is `true` or `false`. `true` also resumes a paused rule.
pub(crate) async fn switch_rule(
    State(app): State<App>,
    Path(path): Path<RulePath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let stored = stored_rule(&app, viewer, &path).await?;
    let enabled = match form.fields.text("enabled").unwrap_or_default() {
        "true" => true,
        "false" => false,
        other => {
            return Err(Problem::body("enabled", must_be_one_of(&["true", "false"], other)));
        }
    };
    let href = rule_href(&viewer.base(), stored.id.as_str());
    let act = async {
        let body = json!({ "enabled": enabled });
        call(&app, viewer, (Method::PATCH, &operation(&stored)), &body).await?;
        Ok::<_, Problem>(outcome(&stored, enabled, &href))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let problems = vec![("enabled", Text::from(problem.message()))];
            let rejected = RejectedForm { values: Vec::new(), problems };
            let params = RuleParams::default();
            let view = rule::view(&app, viewer, &stored, (&params, rejected)).await?;
            page(StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        outcome => outcome,
    }
}
