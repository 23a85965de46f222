//! `GET` and `POST P/experiments/new`: estimates or starts an experiment that the server executes;
//! `POST P/experiments/{experiment}/state` pauses, resumes or cancels one of its runs, or retries its failed items.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_catalog::prompts::PromptQuery;
use perpend_domain::list::Paging;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    DatasetsPage, ExperimentEstimate, NewExperimentPage, RejectedForm, RunEstimateLine, RunsQuery,
    Section, Text, dollars, duration, plural, run_href, segment,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::experiments::run::RunPath;
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input_or_reference, sent_values};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

const OPERATION: &str = "/api/v1/experiments";
/// Names of prompts and connections that are shown as examples.
const MAX_NAMES: u32 = 20;
/// Assumed duration of a call, for the estimate.
const CALL_MICROS: u64 = 2_000_000;
/// Members of the body and their fields.
const FIELDS: [(&str, &str); 14] = [
    ("dataset", "dataset"),
    ("datasetVersion", "as_of"),
    ("itemFilter", "metadata_key"),
    ("prompts", "prompts"),
    ("models", "models"),
    ("endpoint", "endpoint"),
    ("params", "params"),
    ("tools", "tools"),
    ("outputSchema", "output_schema"),
    ("evaluators", "evaluators"),
    ("baseline", "baseline"),
    ("repetitions", "repetitions"),
    ("concurrency", "concurrency"),
    ("maxUsd", "max_usd"),
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewExperimentParams {
    /// Name of the selected dataset.
    dataset: String,
    /// Name of a prompt.
    prompt: String,
    /// Ids of items, each percent-encoded, separated by commas.
    items: String,
}

/// `GET P/experiments/new`
pub(crate) async fn new_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<NewExperimentParams>,
) -> Result<Response, Problem> {
    let mut form = RejectedForm::default();
    if !params.prompt.is_empty() || !params.items.is_empty() {
        let items = RunsQuery::parse_runs(&params.items).join("\n");
        form.values = vec![("prompts", params.prompt), ("items", items)];
        form.values.push(("repetitions", "1".to_owned()));
        form.values.push(("concurrency", "8".to_owned()));
    }
    let view = view(&app, &viewer, &params.dataset, (form, None)).await?;
    page(StatusCode::OK, &view)
}

/// `POST P/experiments/new`: the button `action` is `estimate` or `start`.
pub(crate) async fn submit(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let dataset = form.fields.raw("dataset").unwrap_or_default().to_owned();
    if form.fields.text("action") == Some("estimate") {
        let estimate = estimate(&app, viewer, &form.fields).await;
        return match estimate {
            Ok(estimate) => {
                let values = RejectedForm { values: values(&form.fields), problems: Vec::new() };
                let view = view(&app, viewer, &dataset, (values, Some(estimate))).await?;
                page(StatusCode::OK, &view)
            }
            Err(problem) => rejected(&app, viewer, &form.fields, problem).await,
        };
    }
    let act = async {
        let started = call(&app, viewer, (Method::POST, OPERATION), &body(&form.fields)?).await?;
        let runs = started["runs"].as_array().map_or(&[][..], Vec::as_slice);
        let base = viewer.base();
        let outcome =
            SubmissionOutcome::new(format!("{} started.", plural(runs.len() as u64, "run")));
        Ok(match runs {
            [run] => outcome.at(run_href(&base, run["id"].as_str().unwrap_or_default())),
            _ => outcome.at(format!("{base}/experiments")),
        })
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
    let problems = field_problems(&problem, &FIELDS, "name");
    let form = RejectedForm { values: values(fields), problems };
    let dataset = fields.raw("dataset").unwrap_or_default();
    let view = view(app, viewer, dataset, (form, None)).await?;
    page(StatusCode::UNPROCESSABLE_ENTITY, &view)
}

/// The sent values, except the secret.
fn values(fields: &Params) -> Vec<(&'static str, String)> {
    let names = FIELDS.iter().map(|(_, field)| *field);
    sent_values(fields, names.chain(["metadata_value", "items", "name"]))
}

fn lines(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.unwrap_or_default().lines().map(str::trim).filter(|line| !line.is_empty())
}

/// `name`, `name@3` or `name@label`.
fn prompt(line: &str) -> Value {
    match line.rsplit_once('@') {
        Some((name, version)) => match version.parse::<u32>() {
            Ok(version) => json!({ "name": name, "version": version }),
            Err(_) => json!({ "name": name, "label": version }),
        },
        None => json!({ "name": line }),
    }
}

/// `connection/model`.
fn model(line: &str) -> Result<Value, Problem> {
    match line.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok(json!({ "provider": provider, "model": model }))
        }
        _ => {
            let message = format!("must be lines of the form `connection/model`, got `{line}`");
            Err(Problem::body("models", message))
        }
    }
}

/// The body of the operation.
fn body(fields: &Params) -> Result<Value, Problem> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
    put("dataset", json!(fields.raw("dataset").unwrap_or_default()));
    let prompts: Vec<Value> = lines(fields.raw("prompts")).map(prompt).collect();
    let models = lines(fields.raw("models")).map(model).collect::<Result<Vec<_>, _>>()?;
    put("prompts", json!(prompts));
    put("models", json!(models));
    let evaluators: Vec<&str> = lines(fields.raw("evaluators")).collect();
    if !evaluators.is_empty() {
        put("evaluators", json!(evaluators));
    }
    for (name, field) in
        [("datasetVersion", "as_of"), ("runName", "name"), ("baseline", "baseline")]
    {
        if let Some(text) = fields.text(field).map(str::trim) {
            put(name, json!(text));
        }
    }
    let mut conditions = Vec::new();
    let ids: Vec<&str> = lines(fields.raw("items")).collect();
    if !ids.is_empty() {
        conditions.push(json!({
            "type": "stringOptions", "column": "id", "operator": "any of", "value": ids,
        }));
    }
    if let Some(key) = fields.text("metadata_key") {
        let value = fields.raw("metadata_value").unwrap_or_default();
        conditions.push(json!({
            "type": "stringObject", "column": "metadata", "key": key, "operator": "=", "value": value,
        }));
    }
    if !conditions.is_empty() {
        put("itemFilter", conditions.into());
    }
    if let Some(url) = fields.text("endpoint") {
        put("endpoint", json!({ "url": url.trim(), "secret": fields.text("secret") }));
    }
    for (name, field) in
        [("params", "params"), ("tools", "tools"), ("outputSchema", "output_schema")]
    {
        if let Some(text) = fields.text(field).filter(|text| !text.trim().is_empty()) {
            let value: Result<Value, _> = serde_json::from_str(text);
            put(
                name,
                value.map_err(|error| Problem::body(name, format!("must be JSON: {error}")))?,
            );
        }
    }
    for name in ["repetitions", "concurrency"] {
        if let Some(text) = fields.text(name) {
            let number = text.trim().parse::<u32>();
            let number = number.map_err(|_| {
                Problem::body(name, format!("must be a positive integer, got `{text}`"))
            });
            put(name, json!(number?));
        }
    }
    if let Some(text) = fields.text("max_usd") {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number
            .ok_or_else(|| Problem::body("maxUsd", format!("must be a number, got `{text}`")));
        put("maxUsd", json!(number?));
    }
    Ok(Value::Object(body))
}

async fn estimate(
    app: &App,
    viewer: &Viewer,
    fields: &Params,
) -> Result<ExperimentEstimate, Problem> {
    let mut body = body(fields)?;
    body["dryRun"] = true.into();
    let estimate = call(app, viewer, (Method::POST, OPERATION), &body).await?;
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let cost = |value: &Value| value.as_f64().map_or_else(|| "unknown".to_owned(), dollars);
    let runs = estimate["runs"].as_array().map_or(&[][..], Vec::as_slice);
    let n_parallel = body["concurrency"].as_u64().unwrap_or(8).max(1) * (runs.len() as u64).max(1);
    let rounds = number(&estimate["callCount"]).div_ceil(n_parallel);
    let micros = i64::try_from(rounds.saturating_mul(CALL_MICROS)).unwrap_or(i64::MAX);
    let runs = runs.iter().map(|run| {
        let n_unfilled = number(&run["unfilledCount"]);
        let unfilled = run["unfilledItems"].as_array().map_or(&[][..], Vec::as_slice);
        let text = |value: &Value| Text::from(value.as_str().unwrap_or_default());
        RunEstimateLine {
            name: text(&run["name"]),
            calls: plural(number(&run["callCount"]), "call"),
            cost: cost(&run["estimatedCostUsd"]),
            unfilled: (0 < n_unfilled).then(|| plural(n_unfilled, "item")),
            unfilled_items: unfilled
                .iter()
                .map(|item| (text(&item["itemId"]), text(&item["message"])))
                .collect(),
        }
    });
    Ok(ExperimentEstimate {
        items: plural(number(&estimate["itemCount"]), "item"),
        calls: plural(number(&estimate["callCount"]), "call"),
        cost: cost(&estimate["estimatedCostUsd"]),
        duration: duration(micros),
        runs: runs.collect(),
    })
}

async fn view(
    app: &App,
    viewer: &Viewer,
    dataset: &str,
    (rejected_form, estimate): (RejectedForm, Option<ExperimentEstimate>),
) -> Result<NewExperimentPage, Problem> {
    let (catalog, project) = (&app.store.catalog, &viewer.project);
    let datasets = catalog.dataset_summaries(project, DatasetsPage::LIMIT).await?;
    let datasets = datasets.into_iter().filter_map(|one| {
        let is_selected = one.name == dataset;
        (is_selected || !one.is_archived).then_some((one.name, is_selected))
    });
    let paging = Paging { page: 1, limit: MAX_NAMES };
    let prompts = catalog.prompts(project, &PromptQuery::default(), paging).await?;
    let connections = catalog.connections(project, paging).await?;
    Ok(NewExperimentPage {
        shell: viewer.shell(Section::Experiments),
        datasets: datasets.collect(),
        prompts: prompts.items.into_iter().map(|prompt| Text::from(prompt.name)).collect(),
        connections: connections.items.into_iter().map(|one| Text::from(one.provider)).collect(),
        rejected_form,
        estimate,
    })
}

/// `POST P/experiments/{experiment}/state`: `action` is `pause`, `resume`, `cancel` or `retry`.
pub(crate) async fn change_state(
    State(app): State<App>,
    Path(path): Path<RunPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let action = match form.fields.text("action") {
        Some(action @ ("pause" | "resume" | "cancel" | "retry")) => action,
        _ => {
            let message = "must be one of `pause`, `resume`, `cancel`, `retry`";
            return Err(Problem::query("action", message));
        }
    };
    let act = async {
        let operation = format!("{OPERATION}/{}/{action}", segment(path.id()));
        let status = call(&app, viewer, (Method::POST, operation.as_str()), &json!({})).await?;
        let state = status["state"].as_str().unwrap_or_default().to_owned();
        Ok(SubmissionOutcome::new(format!("The run is {state}.")))
    };
    Box::pin(form.run_once(&app, act)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_prompt_with_a_version_or_a_label() {
        assert_eq!(prompt("a/b"), json!({ "name": "a/b" }));
        assert_eq!(prompt("a@3"), json!({ "name": "a", "version": 3 }));
        assert_eq!(prompt("a@b@prod"), json!({ "name": "a@b", "label": "prod" }));
        assert_eq!(model("main/a/b").unwrap(), json!({ "provider": "main", "model": "a/b" }));
        assert!(model("main").is_err() && model("/m").is_err());
    }

    #[test]
    fn empty_fields_are_absent_from_the_body_and_wrong_ones_are_named() {
        let form = "dataset=d&prompts=a%0D%0Ab%402&models=main%2Fm&max_usd=&params=&repetitions=2&action=start";
        let expected = json!({
            "dataset": "d", "prompts": [{ "name": "a" }, { "name": "b", "version": 2 }],
            "models": [{ "provider": "main", "model": "m" }], "repetitions": 2,
        });
        assert_eq!(body(&Params::parse(form)).unwrap(), expected);
        for wrong in ["models=m", "params=%7B", "max_usd=much", "repetitions=-1"] {
            assert!(body(&Params::parse(wrong)).is_err(), "{wrong}");
        }
    }
}
