//! `POST P/evaluators/{evaluator}/rules`: switches all rules that use an evaluator on or off.

use axum::extract::{Path, State};
use axum::http::Method;
use axum::response::Response;
use perpend_http_kit::extract::must_be_one_of;
use perpend_http_kit::problem::Problem;
use perpend_views::{encode, evaluator_href};
use serde_json::json;

use super::EvaluatorPath;
use super::one::rules_of;
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, is_about_input};
use crate::request::submissions::SubmissionOutcome;
use crate::state::App;

/// Names of rules in a notice.
const MAX_NAMES: usize = 5;

/// `rule a, rule b and 3 more`.
fn listed(names: &[String]) -> String {
    let shown = names.get(..MAX_NAMES.min(names.len())).unwrap_or_default().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `POST P/evaluators/{evaluator}/rules`: the field `enabled` is `true` or `false`. A rule that cannot be switched on, such as
/// one whose models fail their test, is named with the reason.
pub(crate) async fn switch_rules(
    State(app): State<App>,
    Path(path): Path<EvaluatorPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let evaluator = path.find(&app, viewer).await?;
    let enabled = match form.fields.text("enabled").unwrap_or_default() {
        "true" => true,
        "false" => false,
        other => {
            return Err(Problem::body("enabled", must_be_one_of(&["true", "false"], other)));
        }
    };
    let act = async {
        let (mut switched, mut refused) = (Vec::new(), Vec::new());
        for (rule, _) in rules_of(&app, viewer, &evaluator).await? {
            let is_paused = enabled && rule.paused.is_some();
            if rule.enabled == enabled && !is_paused {
                continue;
            }
            let path = format!("/api/public/v2/evaluation-rules/{}", encode(rule.id.as_str()));
            let body = json!({ "enabled": enabled });
            match call(&app, viewer, (Method::PATCH, path.as_str()), &body).await {
                Ok(_) => switched.push(rule.name),
                Err(problem) if is_about_input(&problem) => {
                    refused.push(format!("{}: {}", rule.name, problem.message()));
                }
                Err(problem) => return Err(problem),
            }
        }
        let state = if enabled { "on" } else { "off" };
        let mut words = match switched.as_slice() {
            [] => format!("No rule was switched {state}."),
            names => format!("Switched {state}: {}.", listed(names)),
        };
        if !refused.is_empty() {
            words.push_str(&format!(" Not switched {state}: {}.", listed(&refused)));
        }
        let href = evaluator_href(&viewer.base(), evaluator.id.as_str());
        Ok(SubmissionOutcome::new(words).at(format!("{href}#uses")))
    };
    Box::pin(form.run_once(&app, act)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_names_five_rules() {
        let names: Vec<String> = ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned).to_vec();
        assert_eq!(listed(&names), "a, b, c, d, e and 2 more");
        assert_eq!(listed(&names[..2]), "a, b");
    }
}
