//! Checks a requested experiment and derives its runs: each prompt with each model, or the endpoint.

use perpend_api_types::server_run::{NewExperiment, PromptSelection};
use perpend_catalog::prompts::Prompt;
use perpend_domain::budget::{BudgetScope, MAX_USD, ScopedBudget};
use perpend_domain::dataset::{Dataset, DatasetName, as_of};
use perpend_domain::filter::{Column, ColumnKind, Filter};
use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_domain::observation::Usage;
use perpend_domain::prompt::compose::VersionSelector;
use perpend_domain::prompt::{PRODUCTION, PromptName};
use perpend_domain::server_run::{
    EndpointTask, MAX_CONCURRENCY, MAX_REPETITIONS, MAX_RUNS, ModelTask, RunPrompt, RunTask,
};
use perpend_domain::slots::ModelChoice;
use perpend_domain::time::Timestamp;
use perpend_http_kit::auth::Act;
use perpend_http_kit::filters::filter_problem_at;
use perpend_http_kit::problem::{Code, Problem};
use serde_json::Value;

use super::scoring;
use crate::prompts::compose;
use crate::state::App;

const CONCURRENCY: u32 = 8;
const TIMEOUT_MS: u32 = 120_000;
/// Characters of a secret.
const SECRET: std::ops::RangeInclusive<usize> = 16..=512;

/// Adapter whose connections can be stored but not called.
const UNSUPPORTED: &str = "google-vertex-ai";

/// Columns of the filter of items.
const COLUMNS: &[Column] =
    &[Column::new("id", ColumnKind::Options), Column::new("metadata", ColumnKind::QueryMembers)];

/// A run to start.
#[derive(Debug)]
pub(super) struct PlannedRun {
    pub(super) name: String,
    pub(super) task: RunTask,
}

impl PlannedRun {
    pub(super) fn model(&self) -> Option<&ModelChoice> {
        match &self.task {
            RunTask::Model(task) => Some(&task.model),
            RunTask::Endpoint(_) => None,
        }
    }

    /// Name and version of the prompt.
    pub(super) fn prompt_name(&self) -> Option<String> {
        match &self.task {
            RunTask::Model(task) => Some(prompt_name(&task.prompt)),
            RunTask::Endpoint(_) => None,
        }
    }
}

/// A checked experiment.
pub(super) struct Plan {
    pub(super) dataset: Dataset,
    /// The time as of which the dataset is read.
    pub(super) at: Timestamp,
    /// Conditions on the items.
    pub(super) filter: Filter,
    pub(super) runs: Vec<PlannedRun>,
    pub(super) repetitions: u32,
    pub(super) concurrency: u32,
    /// The secret of the endpoint.
    pub(super) secret: Option<String>,
    /// They score the results.
    pub(super) evaluators: Vec<EvaluatorId>,
    /// The run that comparisons start with.
    pub(super) baseline: Option<String>,
}

fn prompt_name(prompt: &RunPrompt) -> String {
    format!("{} v{}", prompt.name, prompt.version)
}

fn within(
    field: &'static str,
    value: Option<u32>,
    (min, max, default): (u32, u32, u32),
) -> Result<u32, Problem> {
    let value = value.unwrap_or(default);
    match (min..=max).contains(&value) {
        true => Ok(value),
        false => Err(Problem::body(field, format!("must be from {min} to {max}, got {value}"))),
    }
}

/// Checks the request.
///
/// # Errors
/// 400 with the field; 404 for a dataset or a prompt; 422 for a connection or a price that does not exist.
pub(super) async fn of(app: &App, caller: &Act, input: &NewExperiment) -> Result<Plan, Problem> {
    let repetitions = within("repetitions", input.repetitions, (1, MAX_REPETITIONS, 1))?;
    let concurrency = within("concurrency", input.concurrency, (1, MAX_CONCURRENCY, CONCURRENCY))?;
    let timeout_ms = within("timeoutMs", input.timeout_ms, (1_000, 600_000, TIMEOUT_MS))?;
    if let Some(usd) = input.max_usd.filter(|usd| !(0.0 < *usd && *usd <= MAX_USD)) {
        let message = format!("must be greater than 0 and at most {MAX_USD:e}, got {usd}");
        return Err(Problem::body("maxUsd", message));
    }
    check_structure(input)?;
    let filter = Filter::parse(&input.item_filter.0, COLUMNS);
    let filter = filter.map_err(|errors| filter_problem_at("itemFilter", errors))?;
    let dataset = crate::datasets::find::find(app, caller, &input.dataset).await?.dataset;
    let at = input.dataset_version.map_or_else(|| app.web.clock.now(), as_of);
    let tasks = match &input.endpoint {
        Some(endpoint) => {
            let secret = endpoint.secret.as_deref();
            check_endpoint(input, &endpoint.url, secret)?;
            vec![RunTask::Endpoint(EndpointTask {
                url: endpoint.url.clone(),
                timeout_ms,
                is_signed: secret.is_some(),
            })]
        }
        None => model_tasks(app, &caller.project, input, timeout_ms).await?,
    };
    let secret = input.endpoint.as_ref().and_then(|endpoint| endpoint.secret.clone());
    let runs = named(input, tasks, app.web.clock.now())?;
    let evaluators = scoring::evaluators(app, &caller.project, &input.evaluators).await?;
    let baseline = match &input.baseline {
        Some(run) => Some(scoring::baseline(app, &caller.project, (&dataset, run)).await?),
        None => None,
    };
    Ok(Plan { dataset, at, filter, runs, repetitions, concurrency, secret, evaluators, baseline })
}

fn check_endpoint(input: &NewExperiment, url: &str, secret: Option<&str>) -> Result<(), Problem> {
    let of_models = [
        ("prompts", !input.prompts.is_empty()),
        ("models", !input.models.is_empty()),
        ("params", !input.params.is_empty()),
        ("tools", !input.tools.is_empty()),
        ("outputSchema", input.output_schema.is_some()),
    ];
    if let Some((field, _)) = of_models.into_iter().find(|(_, is_set)| *is_set) {
        return Err(Problem::body(field, "must be absent with `endpoint`"));
    }
    let invalid = |message: String| Problem::body("url", message).in_member("endpoint");
    perpend_http_client::check_address(url).map_err(invalid)?;
    match secret.map(|secret| secret.chars().count()) {
        Some(n) if !SECRET.contains(&n) => {
            let (min, max) = (SECRET.start(), SECRET.end());
            let message = format!("must have {min} to {max} characters, got {n}");
            Err(Problem::body("secret", message).in_member("endpoint"))
        }
        _ => Ok(()),
    }
}

async fn model_tasks(
    app: &App,
    project: &ProjectId,
    input: &NewExperiment,
    timeout_ms: u32,
) -> Result<Vec<RunTask>, Problem> {
    for (field, is_empty) in
        [("prompts", input.prompts.is_empty()), ("models", input.models.is_empty())]
    {
        if is_empty {
            return Err(Problem::body(
                field,
                "must have at least one element, or `endpoint` must be set",
            ));
        }
    }
    let n_runs = input.prompts.len().saturating_mul(input.models.len());
    if MAX_RUNS < n_runs {
        let message = format!("prompts and models must give at most {MAX_RUNS} runs, got {n_runs}");
        return Err(Problem::body("prompts", message));
    }
    let models = models(app, project, input).await?;
    let mut tasks = Vec::with_capacity(n_runs);
    for (at, selection) in input.prompts.iter().enumerate() {
        let prompt = prompt(app, project, selection).await;
        let prompt = prompt.map_err(|problem| problem.with("field", format!("prompts[{at}]")))?;
        for model in &models {
            tasks.push(RunTask::Model(Box::new(ModelTask {
                prompt: prompt.clone(),
                model: model.clone(),
                tools: input.tools.clone(),
                output_schema: input.output_schema.clone(),
                timeout_ms,
            })));
        }
    }
    Ok(tasks)
}

/// Checks the tools and the output schema.
fn check_structure(input: &NewExperiment) -> Result<(), Problem> {
    for (at, tool) in input.tools.iter().enumerate() {
        let field = |member: &str| format!("tools[{at}].{member}");
        if tool.name.is_empty() {
            return Err(Problem::body(&field("name"), "must not be empty"));
        }
        if input.tools[..at].iter().any(|other| other.name == tool.name) {
            let message = format!("must be unique, got {:?} twice", tool.name);
            return Err(Problem::body(&field("name"), message));
        }
        if !tool.parameters.is_object() {
            return Err(Problem::body(&field("parameters"), "must be a JSON Schema, an object"));
        }
    }
    match &input.output_schema {
        Some(schema) if !schema.is_object() => {
            Err(Problem::body("outputSchema", "must be a JSON Schema, an object"))
        }
        _ => Ok(()),
    }
}

/// The models with the common parameters. Each has a connection, and a price if the cost is limited.
async fn models(
    app: &App,
    project: &ProjectId,
    input: &NewExperiment,
) -> Result<Vec<ModelChoice>, Problem> {
    let now = app.web.clock.now();
    let prices = app.prices.of(&app.store.catalog, project, now).await?;
    let probe = Usage::from([("input".to_owned(), 1.into()), ("output".to_owned(), 1.into())]);
    let budgets = app.store.catalog.budgets(project).await?;
    let is_of_project = |scoped: &ScopedBudget| scoped.scope == BudgetScope::Project;
    let is_limited = input.max_usd.is_some() || budgets.iter().any(is_of_project);
    let mut models = Vec::with_capacity(input.models.len());
    for (at, model) in input.models.iter().enumerate() {
        let mut model = model.clone();
        for (name, value) in &input.params {
            model.params.entry(name.clone()).or_insert_with(|| value.clone());
        }
        let refused = |message: String| {
            Problem::new(Code::Unprocessable, message)
                .with("field", format!("models[{at}]"))
                .with("provider", model.provider.clone())
                .with("model", model.model.clone())
        };
        let connection = app.store.catalog.connection(project, &model.provider).await?;
        let Some(connection) = connection else {
            let message = format!("the project has no LLM connection {:?}", model.provider);
            return Err(refused(message));
        };
        if connection.adapter == UNSUPPORTED {
            let message = format!(
                "the LLM connection {:?} has the adapter `{}`, which cannot be called",
                model.provider, connection.adapter
            );
            return Err(refused(message));
        }
        if is_limited && prices.cost_of_call(&model.model, &probe, now).is_none() {
            let message = format!(
                "the model {:?} has no price, which maxUsd and the budget of the project require: create one with POST /api/public/models",
                model.model
            );
            return Err(refused(message));
        }
        models.push(model);
    }
    Ok(models)
}

/// The version of a prompt with its included prompts inserted.
async fn prompt(
    app: &App,
    project: &ProjectId,
    selection: &PromptSelection,
) -> Result<RunPrompt, Problem> {
    let selector = match (selection.version, &selection.label) {
        (Some(_), Some(_)) => {
            return Err(Problem::body("prompts", "`label` must be absent with `version`"));
        }
        (Some(version), None) => VersionSelector::Version(version.into()),
        (None, label) => {
            VersionSelector::Label(label.clone().unwrap_or_else(|| PRODUCTION.to_owned()))
        }
    };
    let missing = || {
        let which = match &selector {
            VersionSelector::Version(version) => format!("version {version}"),
            VersionSelector::Label(label) => format!("label {label:?}"),
        };
        Problem::not_found(&format!("prompt {:?} with {which}", selection.name))
    };
    let name = PromptName::new(&selection.name).map_err(|_| missing())?;
    let found: Option<Prompt> = app.store.catalog.prompt(project, &name, &selector).await?;
    let found = found.ok_or_else(missing)?;
    let composed = compose::resolve(app, project, &found.part()).await?;
    let body: Value =
        composed.map_or_else(|| found.body.to_json(), |composed| composed.body.to_json());
    Ok(RunPrompt { name: found.name, version: found.version, body })
}

/// Names the runs. Of several runs each has the prompt and the model in its name.
fn named(
    input: &NewExperiment,
    tasks: Vec<RunTask>,
    now: Timestamp,
) -> Result<Vec<PlannedRun>, Problem> {
    let n_tasks = tasks.len();
    let runs = tasks.into_iter().map(|task| {
        let own = match &task {
            RunTask::Model(task) => format!("{} · {}", prompt_name(&task.prompt), task.model.model),
            RunTask::Endpoint(_) => "endpoint".to_owned(),
        };
        let name = match &input.run_name {
            Some(name) if n_tasks == 1 => name.clone(),
            Some(name) => format!("{name} · {own}"),
            None => format!("{own} - {now}"),
        };
        PlannedRun { name, task }
    });
    let mut runs: Vec<PlannedRun> = runs.collect();
    for at in 0..runs.len() {
        if DatasetName::new(&runs[at].name).is_err() {
            let message = "must give names of 1 to 800 characters and at most 2,400 bytes, without control characters";
            return Err(Problem::body("runName", message));
        }
        // The same model over several connections, or with several parameters.
        let n_before = runs[..at].iter().filter(|other| other.name == runs[at].name).count();
        if 0 < n_before {
            runs[at].name = format!("{} #{}", runs[at].name, at + 1);
        }
    }
    Ok(runs)
}
