//! Dataset runs, the former API of experiments.

use std::collections::{HashMap, HashSet};

use axum::extract::{Path, State};
use perpend_api_types::any_json::AnyJson;
use perpend_api_types::list::{Confirmation, NumberedList};
use perpend_catalog::datasets::ItemVersion;
use perpend_domain::access::Permission::{ExperimentRead, ExperimentWrite};
use perpend_domain::dataset::{Dataset, DatasetName, DatasetRun, DatasetRunItem, as_of};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::list::{NumberedPage, Paging};
use perpend_domain::telemetry::{NewLink, Period};
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, MISSING, Param, Params, param};
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::datasets;
use crate::state::{App, Routes};

const LINKS: &str = "/api/public/dataset-run-items";
const RUNS: &str = "/api/public/datasets/{datasetName}/runs";
const RUN: &str = "/api/public/datasets/{datasetName}/runs/{runName}";

const LIST_LINKS: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("datasetId", "string", "Id of the dataset.").required(),
    param("runName", "string", "Name of the run.").required(),
];

pub(super) fn routes(routes: &mut Routes) {
    let link = Operation::post(
        "createDatasetRunItem",
        LINKS,
        "Link an item of a run to a trace",
        ExperimentWrite,
    );
    routes.add(link.body::<LinkInput>().unrecorded(), link_item);
    let list = Operation::get(
        "listDatasetRunItems",
        LINKS,
        "List the items of a run, newest first",
        ExperimentRead,
    )
    .query(LIST_LINKS);
    routes.add(list, list_links);
    let list = Operation::get(
        "listDatasetRuns",
        RUNS,
        "List the runs of a dataset, newest first",
        ExperimentRead,
    );
    routes.add(list.query(page::PAGED), list_runs);
    routes.add(
        Operation::get("getDatasetRun", RUN, "Get a run with its items", ExperimentRead),
        get_run,
    );
    routes.add(
        Operation::delete(
            "deleteDatasetRun",
            RUN,
            "Delete a run; its traces are kept",
            ExperimentWrite,
        ),
        delete_run,
    );
}

/// A link between an item of a run and a trace. The first one creates the run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LinkInput {
    run_name: String,
    run_description: Option<String>,
    /// Any JSON value.
    metadata: Option<Value>,
    dataset_item_id: String,
    /// Id of the trace. Required without `observationId`.
    trace_id: Option<String>,
    /// Id of the observation of the item.
    observation_id: Option<String>,
    /// Version of the dataset that was read.
    dataset_version: Option<String>,
    created_at: Option<String>,
}

fn time(field: &'static str, raw: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let parsed = raw.map(Timestamp::parse).transpose();
    parsed.map_err(|error| Problem::body(field, error.to_string()))
}

/// The trace of a link, looked up by its observation if absent.
async fn trace_of(app: &App, project: &ProjectId, input: &LinkInput) -> Result<String, Problem> {
    let bad = |field| {
        move |error: perpend_domain::ids::InvalidId| Problem::body(field, error.to_string())
    };
    let observation = input.observation_id.as_deref();
    let observation =
        observation.map(ObservationId::to_store).transpose().map_err(bad("observationId"))?;
    match (&input.trace_id, observation) {
        (Some(trace), _) => Ok(TraceId::to_store(trace).map_err(bad("traceId"))?.to_string()),
        (None, Some(id)) => {
            let found = app.store.telemetry.observation(project, &id).await?;
            let found = found.ok_or_else(|| Problem::not_found("observation"))?;
            Ok(found.observation.trace_id.to_string())
        }
        (None, None) => Err(Problem::body("traceId", "traceId or observationId is required")),
    }
}

async fn link_item(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<LinkInput>,
) -> Result<Answer<LinkView>, Problem> {
    let now = app.web.clock.now();
    let project = &caller.project;
    DatasetName::new(&input.run_name).map_err(|_| {
        Problem::body(
            "runName",
            "must have 1 to 800 characters and at most 2,400 bytes, without control characters",
        )
    })?;
    let dataset_version = time("datasetVersion", input.dataset_version.as_deref())?.map(as_of);
    let created_at = time("createdAt", input.created_at.as_deref())?.unwrap_or(now);
    let trace_id = trace_of(&app, project, &input).await?;
    let missing = || Problem::not_found("dataset item");
    let item = match app.store.catalog.dataset_item(project, &input.dataset_item_id).await? {
        Some(ItemVersion { item, is_deleted }) if !is_deleted || dataset_version.is_some() => item,
        _ => return Err(missing()),
    };
    let stored = app.store.catalog.dataset_by_id(project, &item.dataset_id).await?;
    let dataset = stored.ok_or_else(missing)?.dataset;
    let link = NewLink {
        run_name: input.run_name,
        run_description: input.run_description,
        metadata: input.metadata,
        item_id: item.id,
        dataset_version,
        trace_id,
        observation_id: input.observation_id,
        created_at,
    };
    let made = app.store.telemetry.link_run_item(project, &dataset, &link, now).await?;
    app.scheduler.wake();
    Ok(Answer(link_view(&made)))
}

/// An item of a run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetRunItem)]
struct LinkView {
    id: String,
    dataset_run_id: String,
    dataset_run_name: String,
    dataset_item_id: String,
    /// Version of the dataset that was read, if not the current one.
    dataset_version: Option<Timestamp>,
    trace_id: String,
    observation_id: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// A run of a dataset.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetRun)]
struct RunView {
    id: String,
    name: String,
    description: Option<String>,
    metadata: AnyJson,
    dataset_id: String,
    dataset_name: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// A run of a dataset with its items.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DatasetRunWithItems {
    #[serde(flatten)]
    run: RunView,
    dataset_run_items: Vec<LinkView>,
}

fn link_view(link: &DatasetRunItem) -> LinkView {
    LinkView {
        id: link.id.clone(),
        dataset_run_id: link.run_id.clone(),
        dataset_run_name: link.run_name.clone(),
        dataset_item_id: link.item_id.clone(),
        dataset_version: link.dataset_version,
        trace_id: link.trace_id.clone(),
        observation_id: link.observation_id.clone(),
        created_at: link.created_at,
        updated_at: link.updated_at,
    }
}

fn run_view(run: &DatasetRun) -> RunView {
    RunView {
        id: run.id.clone(),
        name: run.name.clone(),
        description: run.description.clone(),
        metadata: (&run.metadata).into(),
        dataset_id: run.dataset_id.clone(),
        dataset_name: run.dataset_name.clone(),
        created_at: run.created_at,
        updated_at: run.updated_at,
    }
}

async fn list_links(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<LinkView>>, Problem> {
    let required =
        |name: &'static str| params.text(name).ok_or_else(|| Problem::query(name, MISSING));
    let (dataset_id, run_name) = (required("datasetId")?, required("runName")?);
    let paging = page::paging(&params)?;
    let stored = app.store.catalog.dataset_by_id(&caller.project, dataset_id).await?;
    let dataset = stored.ok_or_else(|| Problem::not_found("dataset"))?.dataset;
    let run = find_by_name(&app, &caller.project, &dataset, &[run_name]).await?;
    let found = app.store.telemetry.run_entries(&caller.project, &run, Some(paging)).await?;
    Ok(page::list(paging, &found, link_view))
}

/// The runs of a dataset that exist as spans only, without those in `known`.
async fn recorded_runs(
    app: &App,
    project: &ProjectId,
    dataset: &Dataset,
    known: &HashSet<&str>,
) -> Result<Vec<DatasetRun>, Problem> {
    let all = Period::default();
    let active = app.store.telemetry.span_activity(project, all).await?;
    let ids: Vec<&str> =
        active.iter().map(|(id, _)| id.as_str()).filter(|id| !known.contains(id)).collect();
    let found = app.store.telemetry.span_experiments(project, &ids, all).await?;
    let of_dataset =
        found.into_iter().filter(|found| found.link.dataset_id.as_deref() == Some(&dataset.id));
    Ok(of_dataset
        .map(|found| DatasetRun {
            name: found.link.name.unwrap_or_else(|| found.id.clone()),
            id: found.id,
            description: found.link.description,
            metadata: found.link.metadata.unwrap_or(Value::Null),
            dataset_id: dataset.id.clone(),
            dataset_name: dataset.name.clone(),
            created_at: found.start,
            updated_at: found.end,
        })
        .collect())
}

/// A page of the runs of a dataset, newest first: runs with links, of which only the page is read,
/// and runs recorded as spans.
async fn runs_of(
    app: &App,
    project: &ProjectId,
    dataset: &Dataset,
    paging: Paging,
) -> Result<NumberedPage<DatasetRun>, Problem> {
    let linked =
        app.store.telemetry.run_activity(project, Some(&dataset.id), Period::default()).await?;
    let known: HashSet<&str> = linked.iter().map(|(id, _, _)| id.as_str()).collect();
    let recorded = recorded_runs(app, project, dataset, &known).await?;
    let mut recorded: HashMap<String, DatasetRun> =
        recorded.into_iter().map(|run| (run.id.clone(), run)).collect();
    let heads = linked.iter().map(|(id, made, _)| (*made, id.clone()));
    let mut heads: Vec<(Timestamp, String)> =
        heads.chain(recorded.values().map(|run| (run.created_at, run.id.clone()))).collect();
    heads.sort_unstable_by(|a, b| b.cmp(a));
    let skip = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
    let shown: Vec<&str> =
        heads.iter().skip(skip).take(paging.limit as usize).map(|(_, id)| id.as_str()).collect();
    for run in app.store.telemetry.dataset_runs_by_id(project, &shown).await? {
        recorded.insert(run.id.clone(), run);
    }
    Ok(NumberedPage {
        n_total: heads.len() as u64,
        items: shown.iter().filter_map(|id| recorded.remove(*id)).collect(),
    })
}

async fn list_runs(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
) -> Result<Answer<NumberedList<RunView>>, Problem> {
    let paging = page::paging(&params)?;
    let dataset = datasets::find::find(&app, &caller, &name).await?.dataset;
    let found = runs_of(&app, &caller.project, &dataset, paging).await?;
    Ok(page::list(paging, &found, run_view))
}

/// The run of a dataset with one of these names.
async fn find_by_name(
    app: &App,
    project: &ProjectId,
    dataset: &Dataset,
    names: &[&str],
) -> Result<DatasetRun, Problem> {
    for name in names {
        let id = app.store.telemetry.run_id_of_name(project, &dataset.id, name).await?;
        if let Some(run) = app.store.telemetry.dataset_run(project, &id).await? {
            return Ok(run);
        }
    }
    let recorded = recorded_runs(app, project, dataset, &HashSet::new()).await?;
    let found = recorded.into_iter().find(|run| names.contains(&run.name.as_str()));
    let found = found.ok_or_else(|| Problem::not_found("dataset run"))?;
    // Spans of a renamed run keep its first name.
    let stored = app.store.telemetry.dataset_run(project, &found.id).await?;
    Ok(stored.unwrap_or(found))
}

/// The run of this name, which some clients encode twice.
async fn find(
    app: &App,
    caller: &Act,
    (dataset, name): &(String, String),
) -> Result<DatasetRun, Problem> {
    let dataset = datasets::find::find(app, caller, dataset).await?.dataset;
    let decoded = percent_encoding::percent_decode_str(name).decode_utf8();
    let decoded = decoded.map_or_else(|_| name.clone(), |name| name.into_owned());
    find_by_name(app, &caller.project, &dataset, &[name, &decoded]).await
}

async fn get_run(
    State(app): State<App>,
    caller: Act,
    Path(names): Path<(String, String)>,
) -> Result<Answer<DatasetRunWithItems>, Problem> {
    let run = find(&app, &caller, &names).await?;
    let items = app.store.telemetry.run_entries(&caller.project, &run, None).await?;
    Ok(Answer(DatasetRunWithItems {
        run: run_view(&run),
        dataset_run_items: items.items.iter().map(link_view).collect(),
    }))
}

async fn delete_run(
    State(app): State<App>,
    caller: Act,
    Path(names): Path<(String, String)>,
) -> Result<Answer<Confirmation>, Problem> {
    let run = find(&app, &caller, &names).await?;
    app.store.delete_run(&caller.project, &run.id, app.web.clock.now()).await?;
    Ok(Answer(Confirmation::new("Dataset run successfully deleted")))
}
