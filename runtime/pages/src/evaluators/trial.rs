//! Trials of evaluators: `P/evaluators/{evaluator}/try`, and the fields with which an editor tries an unsaved definition.
//!
//! Invariant: **a trial has the effect of the API operation.** It runs by this operation, which stores nothing.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::evaluation::{Evaluator, JUDGES, TargetKind};
use perpend_http_kit::extract::{Params, must_be_one_of};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading;
use perpend_views::{
    ApiRequest, EvaluatorTryPage, Section, Text, TrialView, dollars, encode, evaluator_href,
    plural, segment,
};
use serde_json::{Map, Value, json};

use super::EvaluatorPath;
use super::trial_results::results;
use crate::request::forms::ContentForm;
use crate::request::operations::{
    call, field_problems, is_about_input, is_about_input_or_reference, is_busy, sent_values,
};
use crate::request::reply::{page, problem_page};
use crate::request::viewer::Viewer;
use crate::rules::definition::conditions_of;
use crate::rules::explain::target;
use crate::state::App;

const TRIAL: &str = "/api/v1/evaluations/trial";
pub(super) const PROMPT: &str = "/api/v1/evaluations/prompt";
/// Targets of a trial, as in the API.
const MAX_TARGETS: usize = 50;
/// Number of recent targets in an empty form.
const DEFAULT_LIMIT: u64 = 10;
const FIELDS: [&str; 7] =
    ["try_from", "try_target", "try_q", "try_limit", "try_ids", "try_item", "try_fresh"];
/// Members of the body and their fields.
const MEMBERS: [(&str, &str); 6] = [
    ("target", "try_target"),
    ("filter", "try_q"),
    ("limit", "try_limit"),
    ("targets", "try_ids"),
    ("item", "try_item"),
    ("variableMapping", "try_target"),
];
/// Buttons of the fields.
pub(crate) const ACTIONS: [&str; 2] = ["estimate", "try"];

/// Problems at fields of the form.
type FieldProblems = Vec<(&'static str, Text)>;

/// The evaluator of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TriedEvaluator<'e> {
    /// The body that would create the evaluator. Without it, the newest version of the stored evaluator is tried.
    pub(crate) definition: Option<&'e Value>,
    /// The stored evaluator, whose scores are shown for comparison; absent for a new one.
    pub(crate) stored: Option<&'e Evaluator>,
}

impl TriedEvaluator<'_> {
    fn is_judge(self) -> bool {
        match self.definition {
            Some(definition) => {
                definition["type"] == "llm_as_judge" || definition["plugin"] == JUDGES
            }
            None => self.stored.is_some_and(|stored| stored.version.plugin_name == JUDGES),
        }
    }

    /// The member of the body of a trial.
    fn member(self) -> (&'static str, Value) {
        match self.definition {
            Some(definition) => ("evaluator", definition.clone()),
            None => ("evaluatorId", json!(self.stored.map(|evaluator| &evaluator.id))),
        }
    }
}

/// The fields of a trial with their submitted values, without results. Of a page that is opened, `params` are those of its
/// URL: `trace`, `observation` and `session` choose a target.
pub(crate) fn form(viewer: &Viewer, params: &Params) -> TrialView {
    let mut view = TrialView::default();
    view.form.values = match params.raw("try_from") {
        Some(_) => sent_values(params, FIELDS),
        None => linked(viewer, params),
    };
    let target = view.form.values.iter().find(|(field, _)| *field == "try_target");
    let target = target.map_or(TargetKind::Observation, |(_, raw)| kind(raw));
    view.columns = target.filter_columns().iter().map(|column| column.id).collect();
    view
}

fn linked(viewer: &Viewer, params: &Params) -> Vec<(&'static str, String)> {
    let base = viewer.base();
    let chosen = match (params.text("trace"), params.text("observation"), params.text("session")) {
        (Some(trace), Some(observation), _) => {
            let observation = encode(observation);
            let url = format!("{base}/traces/{}?observation={observation}", segment(trace));
            Some(("observation", url))
        }
        (Some(trace), None, _) => Some(("trace", format!("{base}/traces/{}", segment(trace)))),
        (None, _, Some(session)) => Some(("session", session.to_owned())),
        (None, _, None) => None,
    };
    let from = if chosen.is_some() { "ids" } else { "recent" };
    let (target, ids) = chosen.unwrap_or(("observation", String::new()));
    vec![
        ("try_from", from.to_owned()),
        ("try_target", target.to_owned()),
        ("try_limit", DEFAULT_LIMIT.to_string()),
        ("try_ids", ids),
    ]
}

/// An unknown kind is that of observations.
fn kind(raw: &str) -> TargetKind {
    raw.parse().unwrap_or(TargetKind::Observation)
}

fn sent_kind(params: &Params) -> TargetKind {
    kind(params.raw("try_target").unwrap_or_default())
}

/// Runs an evaluator as the fields say, or estimates the calls if the button `estimate` was used. Problems of the fields are in
/// the view.
///
/// # Errors
/// Problems of the definition, with paths as of a request that creates the evaluator.
pub(crate) async fn run(
    app: &App,
    viewer: &Viewer,
    tried: TriedEvaluator<'_>,
    params: &Params,
) -> Result<TrialView, Problem> {
    let mut view = form(viewer, params);
    let mut body = match subjects(app, viewer, params).await? {
        Ok(body) => body,
        Err(problems) => {
            view.form.problems = problems;
            return Ok(view);
        }
    };
    let (member, evaluator) = tried.member();
    body.insert(member.to_owned(), evaluator);
    let outcome = match params.raw("action") {
        Some("estimate") if !tried.is_judge() => {
            let text = "Calls and cost can be estimated for judges only.";
            view.estimate = Some(Text::from(text));
            return Ok(view);
        }
        Some("estimate") => {
            let estimate = estimate(app, viewer, body).await;
            estimate.map(|estimate| view.estimate = Some(estimate))
        }
        _ => {
            if params.text("try_fresh").is_some() {
                body.insert("fresh".to_owned(), json!(true));
            }
            let found = call(app, viewer, (Method::POST, TRIAL), &Value::Object(body)).await;
            match found {
                Ok(found) => {
                    let results = results(app, viewer, tried.stored, &found);
                    let results = reading::limited(&app.web, &viewer.project, results).await?;
                    view.results = Some(results);
                    Ok(())
                }
                Err(problem) => Err(problem),
            }
        }
    };
    match outcome {
        Ok(()) => Ok(view),
        Err(problem) if is_of_fields(&problem, tried) => {
            let problem = problem.out_of_member("recent");
            view.form.problems = field_problems(&problem, &MEMBERS, "try_from");
            Ok(view)
        }
        Err(problem) => Err(problem.out_of_member("evaluator")),
    }
}

/// Whether a problem is about the fields of the trial, rather than about the definition.
fn is_of_fields(problem: &Problem, tried: TriedEvaluator<'_>) -> bool {
    if tried.definition.is_none() {
        return is_about_input_or_reference(problem);
    }
    let body = problem.rfc9457_body();
    let issues = body["issues"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_own = |issue: &Value| {
        let path = issue["path"][0].as_str().unwrap_or_default();
        ["targets", "item", "recent"].iter().any(|member| path.starts_with(member))
    };
    is_about_input(problem) && !issues.is_empty() && issues.iter().all(is_own)
}

/// The member of the body with the inputs of the trial.
pub(super) async fn subjects(
    app: &App,
    viewer: &Viewer,
    params: &Params,
) -> Result<Result<Map<String, Value>, FieldProblems>, Problem> {
    let sources = ["recent", "ids", "item"];
    let found = match params.raw("try_from").unwrap_or_default() {
        "recent" => recent(params).map(|recent| ("recent", recent)),
        "ids" => listed(app, viewer, params).await?.map(|targets| ("targets", targets)),
        "item" => item(params).map(|item| ("item", item)),
        other => Err(vec![("try_from", Text::from(must_be_one_of(&sources, other)))]),
    };
    Ok(found.map(|(member, value)| Map::from_iter([(member.to_owned(), value)])))
}

/// The newest targets of a filter.
fn recent(params: &Params) -> Result<Value, FieldProblems> {
    let target = sent_kind(params);
    let (conditions, faults) = conditions_of(params.raw("try_q").unwrap_or_default(), target);
    let mut problems: FieldProblems = faults.into_iter().map(|fault| ("try_q", fault)).collect();
    let text = params.raw("try_limit").unwrap_or_default().trim();
    let limit = match text {
        "" => Ok(DEFAULT_LIMIT),
        text => text.parse::<u32>().map(u64::from),
    };
    if limit.is_err() {
        let message = format!("must be a whole number from 1 to {MAX_TARGETS}, got `{text}`");
        problems.push(("try_limit", Text::from(message)));
    }
    match (limit, problems.is_empty()) {
        (Ok(limit), true) => Ok(json!({ "target": target, "filter": conditions, "limit": limit })),
        _ => Err(problems),
    }
}

/// The targets of the lines of ids and URLs.
async fn listed(
    app: &App,
    viewer: &Viewer,
    params: &Params,
) -> Result<Result<Value, FieldProblems>, Problem> {
    let lines = params.raw("try_ids").unwrap_or_default().lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    if lines.is_empty() || MAX_TARGETS < lines.len() {
        let message = format!("must have 1 to {MAX_TARGETS} lines, got {}", lines.len());
        return Ok(Err(vec![("try_ids", Text::from(message))]));
    }
    let (mut targets, mut problems) = (Vec::new(), Vec::new());
    for line in lines {
        match target(app, viewer, sent_kind(params), line).await? {
            Ok(found) => targets.push(json!({
                "traceId": found.trace(),
                "observationId": found.observation(),
                "sessionId": found.session(),
            })),
            Err(why) => {
                let message = format!("`{line}`: {}", why.raw());
                problems.push(("try_ids", Text::from(message)));
            }
        }
    }
    match problems.is_empty() {
        true => Ok(Ok(Value::Array(targets))),
        false => Ok(Err(problems)),
    }
}

/// The item of the text area.
fn item(params: &Params) -> Result<Value, FieldProblems> {
    let message = match serde_json::from_str(params.raw("try_item").unwrap_or_default()) {
        Ok(Value::Object(members)) => return Ok(Value::Object(members)),
        Ok(_) => "must be a JSON object".to_owned(),
        Err(error) => format!("must be a JSON object: {error}"),
    };
    Err(vec![("try_item", Text::from(message))])
}

/// Keeps the first target of the inputs; returns their number.
pub(super) fn keep_first(body: &mut Map<String, Value>) -> u64 {
    let mut n_targets = 1;
    if let Some(targets) = body.get_mut("targets").and_then(Value::as_array_mut) {
        n_targets = targets.len() as u64;
        targets.truncate(1);
    }
    if let Some(recent) = body.get_mut("recent") {
        n_targets = recent["limit"].as_u64().unwrap_or(DEFAULT_LIMIT);
        recent["limit"] = json!(1);
    }
    n_targets
}

/// The calls and the cost of a trial of a judge, from its prompt for the first target.
async fn estimate(
    app: &App,
    viewer: &Viewer,
    mut body: Map<String, Value>,
) -> Result<Text, Problem> {
    let n_targets = keep_first(&mut body);
    let found = call(app, viewer, (Method::POST, PROMPT), &Value::Object(body)).await?;
    let n_calls = found["requests"].as_u64().unwrap_or(1).saturating_mul(n_targets);
    let calls = plural(n_calls, "model call");
    let targets = plural(n_targets, "target");
    Ok(Text::from(match (found["errorMessage"].as_str(), found["costUsd"].as_f64()) {
        (Some(message), _) => format!("The first target cannot be scored: {message}"),
        (None, Some(cost)) => {
            let cost = dollars(cost * n_targets as f64);
            format!("Up to {targets}: {calls}, about {cost} if they are like the first one.")
        }
        (None, None) => format!("Up to {targets}: {calls}; the price of the model is unknown."),
    }))
}

/// `GET P/evaluators/{evaluator}/try`
pub(crate) async fn try_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<EvaluatorPath>,
    params: Params,
) -> Result<Response, Problem> {
    let evaluator = path.find(&app, &viewer).await?;
    let trial = form(&viewer, &params);
    page(StatusCode::OK, &view(&viewer, &evaluator, trial))
}

/// `POST P/evaluators/{evaluator}/try`
pub(crate) async fn try_evaluator(
    State(app): State<App>,
    Path(path): Path<EvaluatorPath>,
    submitted: ContentForm,
) -> Result<Response, Problem> {
    let (viewer, params) = (&submitted.viewer, &submitted.fields);
    let evaluator = path.find(&app, viewer).await?;
    let action = params.raw("action").unwrap_or_default();
    if !ACTIONS.contains(&action) {
        return Err(Problem::body("action", must_be_one_of(&ACTIONS, action)));
    }
    let tried = TriedEvaluator { definition: None, stored: Some(&evaluator) };
    match Box::pin(run(&app, viewer, tried, params)).await {
        Ok(trial) => {
            let status = match trial.form.problems.is_empty() {
                true => StatusCode::OK,
                false => StatusCode::UNPROCESSABLE_ENTITY,
            };
            page(status, &view(viewer, &evaluator, trial))
        }
        Err(problem) if is_busy(&problem) => {
            let mut trial = form(viewer, params);
            trial.form.problems = vec![("try_from", Text::from(problem.message()))];
            problem_page(&problem, &view(viewer, &evaluator, trial))
        }
        Err(problem) => Err(problem),
    }
}

fn view(viewer: &Viewer, evaluator: &Evaluator, trial: TrialView) -> EvaluatorTryPage {
    let path = format!("/api/public/v2/evaluators/{}", encode(evaluator.id.as_str()));
    EvaluatorTryPage {
        shell: viewer.shell(Section::Evaluators).with_api([ApiRequest::new(&viewer.origin, &path)]),
        name: Text::from(evaluator.name.as_str()),
        version: evaluator.version.number,
        href: evaluator_href(&viewer.base(), evaluator.id.as_str()),
        trial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_targets_of_a_filter_are_a_member_of_the_body() {
        let params = Params::parse("try_target=trace&try_q=name%3Achat&try_limit=");
        let found = recent(&params).unwrap();
        assert_eq!((&found["target"], &found["limit"]), (&json!("trace"), &json!(10)));
        assert_eq!(found["filter"][0]["column"], "name", "{found}");
        let wrong = Params::parse("try_q=weather%3Afine&try_limit=all");
        let problems = recent(&wrong).unwrap_err();
        let fields: Vec<&str> = problems.iter().map(|(field, _)| *field).collect();
        assert_eq!(fields, ["try_q", "try_limit"], "{problems:?}");
    }

    #[test]
    fn a_written_item_is_a_json_object() {
        let params = |item: &str| Params::parse(&format!("try_item={item}"));
        assert_eq!(item(&params(r#"{"output":1}"#)).unwrap(), json!({ "output": 1 }));
        for wrong in ["", "[1]", "{"] {
            assert_eq!(item(&params(wrong)).unwrap_err()[0].0, "try_item", "{wrong}");
        }
    }
}
