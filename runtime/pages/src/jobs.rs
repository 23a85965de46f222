//! Shared parts of the pages of jobs over stored targets: backfills and backtests.

use axum::http::Method;
use axum::response::Response;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::backfill::BackfillState;
use perpend_domain::time::Timestamp;
use perpend_http_kit::extract::{Params, must_be_one_of};
use perpend_http_kit::problem::Problem;
use perpend_views::{JobEstimateView, Moment, count, dollars, duration, plural};
use serde_json::{Map, Value, json};

use crate::request::forms::SubmittedForm;
use crate::request::operations::call;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

const ACTIONS: [&str; 3] = ["pause", "resume", "cancel"];

/// The members `from`, `to`, `maxItems` and `maxUsd` of the body of an operation.
pub(crate) fn range_and_limits(
    fields: &Params,
    now: Timestamp,
) -> Result<Map<String, Value>, Problem> {
    let mut body = Map::new();
    for name in ["from", "to"] {
        let text = fields.text(name).map(str::trim).filter(|text| !text.is_empty());
        let Some(text) = text else {
            continue;
        };
        let Some(moment) = Moment::parse(text) else {
            let message = format!(
                "must be a time like 2026-11-01 12:00 (UTC) or a span before now like -7d, got `{text}`"
            );
            return Err(Problem::body(name, message));
        };
        body.insert(name.to_owned(), json!(moment.at(now)));
    }
    if !body.contains_key("from") {
        return Err(Problem::body("from", "is required"));
    }
    if let Some(text) = fields.text("max_items") {
        let number = text.trim().parse::<u64>();
        let number = number.map_err(|_| {
            Problem::body("maxItems", format!("must be a positive integer, got `{text}`"))
        });
        body.insert("maxItems".to_owned(), json!(number?));
    }
    if let Some(text) = fields.text("max_usd") {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number
            .ok_or_else(|| Problem::body("maxUsd", format!("must be a number, got `{text}`")));
        body.insert("maxUsd".to_owned(), json!(number?));
    }
    Ok(body)
}

/// The button that was pressed: `true` for `estimate`, `false` for `start`.
pub(crate) fn is_estimate(fields: &Params) -> Result<bool, Problem> {
    match fields.text("action").unwrap_or("start") {
        "estimate" => Ok(true),
        "start" => Ok(false),
        other => Err(Problem::body("action", must_be_one_of(&["estimate", "start"], other))),
    }
}

/// The estimate of a job, and the targets that it leaves out in words.
pub(crate) fn estimate_view(estimate: &Value, left_out: String) -> JobEstimateView {
    let unknown = || "unknown".to_owned();
    let executions = estimate["executionCount"].as_u64();
    JobEstimateView {
        is_rough: estimate["isWhole"] == false,
        items: plural(estimate["itemCount"].as_u64().unwrap_or_default(), "target"),
        left_out,
        executions: executions.map(|n| plural(n, "execution")),
        cost: estimate["costUsd"].as_f64().map_or_else(unknown, dollars),
        duration: estimate["seconds"]
            .as_f64()
            .map_or_else(unknown, |seconds| duration((seconds * 1e6) as i64)),
    }
}

/// Class of a state: `good`, `bad`, `waiting` or empty.
pub(crate) const fn tone(state: BackfillState) -> &'static str {
    match state {
        BackfillState::Running | BackfillState::Paused => "waiting",
        BackfillState::Completed => "good",
        BackfillState::Failed => "bad",
        BackfillState::Cancelled => "",
    }
}

/// The changes that the viewer may make: action and label.
pub(crate) fn changes(viewer: &Viewer, state: BackfillState) -> Vec<(&'static str, &'static str)> {
    match state {
        _ if !viewer.may(EvaluatorWrite) => Vec::new(),
        BackfillState::Running => vec![("pause", "Pause"), ("cancel", "Cancel")],
        BackfillState::Paused => vec![("resume", "Resume"), ("cancel", "Cancel")],
        BackfillState::Completed | BackfillState::Cancelled | BackfillState::Failed => Vec::new(),
    }
}

/// The limits in words.
pub(crate) fn limits(max_items: Option<u64>, max_usd: Option<f64>) -> Vec<String> {
    let limits = [
        max_items.map(|n| format!("At most {}.", plural(n, "target"))),
        max_usd.map(|usd| format!("At most {} for model calls.", dollars(usd))),
    ];
    limits.into_iter().flatten().collect()
}

/// Such as `120 of 400 targets examined`.
pub(crate) fn examined(n_examined: u64, n_in_range: Option<u64>) -> String {
    match n_in_range {
        Some(n) => format!("{} of {} examined", count(n_examined), plural(n, "target")),
        None => format!("{} examined", plural(n_examined, "target")),
    }
}

/// Pauses, resumes or cancels a job by the field `action`. `operation` is the path of the job.
pub(crate) async fn change_state(
    app: &App,
    form: SubmittedForm,
    (noun, operation): (&str, String),
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let action = form.fields.text("action").unwrap_or_default();
    if !ACTIONS.contains(&action) {
        return Err(Problem::body("action", must_be_one_of(&ACTIONS, action)));
    }
    let act = async {
        let operation = format!("{operation}/{action}");
        let changed = call(app, viewer, (Method::POST, operation.as_str()), &json!({})).await?;
        let state = changed["state"].as_str().unwrap_or_default();
        Ok(SubmissionOutcome::new(format!("The {noun} is {state}.")))
    };
    Box::pin(form.run_once(app, act)).await
}
