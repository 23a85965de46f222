//! `GET /api/v1/experiments/compare` and `GET /api/v1/experiments/{experimentId}/results`.

use axum::extract::{Path, State};
use perpend_domain::experiment::RunResults;
use perpend_domain::ids::ProjectId;
use perpend_domain::score_config::ScoreDirection;
use perpend_experiments::comparison::{Comparison, DirectionSource};
use perpend_experiments::options::{parse_correction, parse_reducer};
use perpend_experiments::run_file::RunFile;
use perpend_experiments::{CompareError, CompareOptions, ItemSelection, names};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::problem::{Code, Problem};
use perpend_storage::{CompareRunsError, ComparisonQuery};

use crate::state::App;

/// Items per page, by default and at most.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 1_000;
/// Further runs of the baseline in a request.
const MAX_NOISE_RUNS: usize = 6;

pub(super) const COMPARE: &[Param] = &[
    param(
        "runs",
        "string",
        "Ids of 2 to 6 runs: a comma-separated list, or one parameter for each. A run that was started with a baseline can be alone.",
    )
    .required(),
    param("base", "string", "The id of the baseline; the first run when absent."),
    param("alpha", "number", "The probability of a false verdict; 0.05 when absent."),
    param(
        "margin",
        "number",
        "The smallest difference that counts: in the unit of a score, as a share of the mean of the baseline for latency, cost and tokens. 0.02 when absent, 0 for scores outside 0 to 1.",
    ),
    param("correction", "string", "`holm`, `bh` or `bonferroni`; `holm` when absent."),
    param(
        "reducer",
        "string",
        "The reduction of repetitions: `mean`, `median`, `mode`, `max`, `at_least:K`, `pass_at:K` or `pass_k:K`; `mean` when absent.",
    ),
    param(
        "metrics",
        "string",
        "Comma-separated list of metrics; all when absent. `score:NAME` is a score with the name of a measure.",
    ),
    param(
        "direction",
        "string",
        "`NAME:higher_is_better` or `NAME:lower_is_better`: the direction of a score, instead of the stored one. One parameter for each score.",
    ),
    param(
        "segmentBy",
        "string",
        "A key of the metadata of the items, by which they are also compared separately.",
    ),
    param("clusterBy", "string", "A key of the metadata of items that depend on one another."),
    param(
        "noiseRuns",
        "string",
        "Ids of further runs of the baseline, comma-separated. When absent, up to 2 runs over the dataset with the same metadata.",
    ),
    param(
        "show",
        "string",
        "Only items that are `regressed`, `improved`, `changed` (another score, error or output), `errors`, `missing` or `disagree`; all when absent.",
    ),
    param("limit", "integer", "Items in the response, 1 to 1000; 50 when absent."),
    param("offset", "integer", "Number of skipped items."),
];

pub(super) async fn compare_runs(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<Comparison>, Problem> {
    params.only(COMPARE)?;
    let ids = match params.all("runs").as_slice() {
        [] => return Err(Problem::query("runs", perpend_http_kit::extract::MISSING)),
        [_] => params.list("runs"),
        several => several.to_vec(),
    };
    let ids = with_baseline(&app, &caller.project, ids).await?;
    let query = query(&params)?;
    let selection = params.choice("show", &ItemSelection::NAMED, ItemSelection::name)?;
    let selection = selection.unwrap_or_default();
    let limit = params.int("limit", 1, MAX_PAGE, PAGE)? as usize;
    let offset = params.int("offset", 0, u32::MAX, 0)? as usize;
    let now = app.web.clock.now();
    let runs = app.store.compare_runs(&caller.project, &ids, &query, now).await?;
    let runs = runs.map_err(|error| compare_runs_problem(&error))?;
    let selected = app.store.selected_items(&caller.project, &runs, selection).await?;
    Ok(Answer(runs.comparison.with_items(selected.into_iter().skip(offset).take(limit))))
}

/// One run is compared with the baseline with which the server started it.
async fn with_baseline(
    app: &App,
    project: &ProjectId,
    mut ids: Vec<String>,
) -> Result<Vec<String>, Problem> {
    let baseline = match ids.as_slice() {
        [run] => app.store.ledger.baseline_of_run(project, run).await?,
        _ => None,
    };
    if let Some(baseline) = baseline {
        ids.insert(0, baseline);
    }
    Ok(ids)
}

fn query(params: &Params) -> Result<ComparisonQuery, Problem> {
    let mut options = CompareOptions { base: owned(params, "base"), ..CompareOptions::default() };
    options.alpha = params.number("alpha")?.unwrap_or(options.alpha);
    options.margin = params.number("margin")?;
    options.metrics = params.list("metrics");
    if let Some(text) = params.text("correction") {
        let correction = parse_correction(text);
        options.correction = correction.map_err(|message| Problem::query("correction", message))?;
    }
    if let Some(text) = params.text("reducer") {
        let reducer = parse_reducer(text);
        options.reducer = reducer.map_err(|message| Problem::query("reducer", message))?;
    }
    for text in params.all("direction") {
        let (name, direction) = score_direction(&text)?;
        let definition = options.scores.entry(name).or_default();
        definition.direction = Some((direction, DirectionSource::Request));
    }
    let noise_runs = params.list("noiseRuns");
    if MAX_NOISE_RUNS < noise_runs.len() {
        let n = noise_runs.len();
        let message = format!("must have at most {MAX_NOISE_RUNS} runs, got {n}");
        return Err(Problem::query("noiseRuns", message));
    }
    Ok(ComparisonQuery {
        options,
        segment_by: owned(params, "segmentBy"),
        cluster_by: owned(params, "clusterBy"),
        noise_runs,
    })
}

/// Reads `NAME:DIRECTION`; the name may contain colons.
fn score_direction(text: &str) -> Result<(String, ScoreDirection), Problem> {
    let (name, value) = text.rsplit_once(':').unwrap_or((text, ""));
    let direction = ScoreDirection::ALL.iter().find(|each| each.as_str() == value);
    let direction = direction.filter(|_| !name.is_empty()).copied();
    let direction = direction.ok_or_else(|| {
        let expected = "`NAME:higher_is_better` or `NAME:lower_is_better`";
        Problem::query("direction", format!("must be {expected}; got `{text}`"))
    })?;
    let score = names::score_of_metric(name);
    let score = score.ok_or_else(|| Problem::query("direction", names::not_a_score(name)))?;
    Ok((score.to_owned(), direction))
}

fn owned(params: &Params, name: &str) -> Option<String> {
    params.text(name).map(str::to_owned)
}

/// The results of these runs, which the parameter `name` lists.
pub(super) async fn results(
    app: &App,
    project: &ProjectId,
    ids: &[String],
    name: &str,
) -> Result<Vec<RunResults>, Problem> {
    let found = app.store.results_of_runs(project, ids).await?;
    found.map_err(|id| unknown_run(name, &id))
}

pub(super) async fn options(
    app: &App,
    project: &ProjectId,
    results: &[RunResults],
    query: &ComparisonQuery,
) -> Result<CompareOptions, Problem> {
    let found = app.store.compare_options(project, results, query).await?;
    found.map_err(|id| unknown_run("noiseRuns", &id))
}

fn unknown_run(name: &str, id: &str) -> Problem {
    let problem = Problem::new(Code::NotFound, format!("`{name}`: unknown run `{id}`"));
    problem.with("field", name)
}

/// Runs a computation on a thread of its own.
pub(super) async fn compared<T: Send + 'static>(
    compute: impl FnOnce() -> Result<T, CompareError> + Send + 'static,
) -> Result<T, Problem> {
    let computed = tokio::task::spawn_blocking(compute).await.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "comparing runs failed");
        Problem::internal()
    })?;
    computed.map_err(|error| compare_problem(&error))
}

fn compare_runs_problem(error: &CompareRunsError) -> Problem {
    match error {
        CompareRunsError::UnknownRun(id) => unknown_run("runs", id),
        CompareRunsError::UnknownNoiseRun(id) => unknown_run("noiseRuns", id),
        CompareRunsError::Compare(error) => compare_problem(error),
    }
}

fn compare_problem(error: &CompareError) -> Problem {
    let message = error.to_string();
    match error {
        CompareError::NumberOfRuns { .. } | CompareError::SameRun { .. } => {
            Problem::query("runs", message)
        }
        CompareError::UnknownBase { .. } => Problem::query("base", message),
        CompareError::Option { option, rule } if option.starts_with("stats.") => {
            Problem::body(&format!("config.{option}"), rule.clone())
        }
        CompareError::Option { option, rule } => Problem::query(option, rule.clone()),
        _ => Problem::new(Code::Unprocessable, message),
    }
}

pub(super) async fn get_results(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<RunFile>, Problem> {
    let found = app.store.run_results(&caller.project, &id).await?;
    let results = [found.ok_or_else(|| Problem::not_found("experiment"))?];
    let mut file = RunFile::of(&results[0]);
    for (name, definition) in app.store.score_definitions(&caller.project, &results).await? {
        if let Some((direction, _)) = definition.direction {
            file.directions.insert(name.clone(), direction);
        }
        if !definition.categories.is_empty() {
            file.categories.insert(name, definition.categories);
        }
    }
    Ok(Answer(file))
}
