//! Runs over datasets, as the older clients speak of experiments.

use assay_domain::dataset::{DatasetName, DatasetRun, DatasetRunItem, as_of, run_id};
use assay_domain::ids::{ObservationId, ProjectId, TraceId};
use assay_domain::time::Timestamp;
use assay_store::datasets::{ItemVersion, LinkQuery, NewLink, SpanQuery};
use assay_store::{Numbered, Paging};
use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::datasets::{self, MAX_INLINE};
use super::experiments::Range;
use super::experiments::collect::{Experiment, experiments};
use super::page;
use super::routes::{Operation, Routes};
use crate::App;
use crate::auth::{Reader, Writer};
use crate::extract::{Body, Param, Params, param};
use crate::problem::Problem;

const LINKS: &str = "/api/public/dataset-run-items";
const RUNS: &str = "/api/public/datasets/{datasetName}/runs";
const RUN: &str = "/api/public/datasets/{datasetName}/runs/{runName}";

const LIST_LINKS: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("datasetId", "string", "Of this dataset; needed."),
    param("runName", "string", "Of the run of this name; needed."),
];

pub(super) fn routes(routes: &mut Routes) {
    let link = Operation::post(LINKS, "Record what was done for an item of a run");
    routes.add(link.body::<LinkInput>(), link_item);
    let list = Operation::get(LINKS, "Items of a run by page, the newest first").query(LIST_LINKS);
    routes.add(list, list_links);
    let list = Operation::get(RUNS, "Runs over a dataset by page, the newest first");
    routes.add(list.query(page::PAGED), list_runs);
    routes.add(Operation::get(RUN, "One run with its items"), get_run);
    routes.add(
        Operation::delete(RUN, "Delete a run; its traces stay"),
        delete_run,
    );
}

/// What was done for an item of a run; the run is made with its first one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LinkInput {
    run_name: String,
    run_description: Option<String>,
    /// Anything.
    metadata: Option<Value>,
    dataset_item_id: String,
    /// The trace that was recorded; needed unless observationId finds it.
    trace_id: Option<String>,
    /// The observation in it that stands for the item.
    observation_id: Option<String>,
    /// The moment that the dataset was read at.
    dataset_version: Option<String>,
    created_at: Option<String>,
}

fn time(field: &'static str, raw: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let parsed = raw.map(Timestamp::parse).transpose();
    parsed.map_err(|error| Problem::body(field, error.to_string()))
}

/// The trace of a link, looked up by its observation where only that is given.
async fn trace_of(app: &App, project: &ProjectId, input: &LinkInput) -> Result<String, Problem> {
    let bad =
        |field| move |error: assay_domain::ids::InvalidId| Problem::body(field, error.to_string());
    let observation = input.observation_id.as_deref();
    let observation = observation
        .map(ObservationId::new)
        .transpose()
        .map_err(bad("observationId"))?;
    match (&input.trace_id, observation) {
        (Some(trace), _) => Ok(TraceId::new(trace).map_err(bad("traceId"))?.to_string()),
        (None, Some(id)) => {
            let found = app.store.observation(project, &id).await?;
            let found = found.ok_or_else(|| Problem::not_found("observation"))?;
            Ok(found.observation.trace_id.to_string())
        }
        (None, None) => Err(Problem::body(
            "traceId",
            "traceId or observationId is needed",
        )),
    }
}

async fn link_item(
    State(app): State<App>,
    caller: Writer,
    Body(input): Body<LinkInput>,
) -> Result<Json<Value>, Problem> {
    let now = app.clock.now();
    let project = &caller.project;
    DatasetName::new(&input.run_name).map_err(|_| {
        Problem::body(
            "runName",
            "1 to 800 characters, at most 2,400 bytes, none of them control characters",
        )
    })?;
    let dataset_version = time("datasetVersion", input.dataset_version.as_deref())?.map(as_of);
    let created_at = time("createdAt", input.created_at.as_deref())?.unwrap_or(now);
    let trace_id = trace_of(&app, project, &input).await?;
    let missing = || Problem::not_found("dataset item");
    let item = match app
        .store
        .dataset_item(project, &input.dataset_item_id)
        .await?
    {
        Some(ItemVersion { item, is_deleted }) if !is_deleted || dataset_version.is_some() => item,
        _ => return Err(missing()),
    };
    let stored = app.store.dataset_by_id(project, &item.dataset_id).await?;
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
    let made = app
        .store
        .link_run_item(project, &dataset, &link, now)
        .await?;
    Ok(Json(link_view(&made)))
}

fn link_view(link: &DatasetRunItem) -> Value {
    json!({
        "id": link.id,
        "datasetRunId": link.run_id,
        "datasetRunName": link.run_name,
        "datasetItemId": link.item_id,
        "datasetVersion": link.dataset_version,
        "traceId": link.trace_id,
        "observationId": link.observation_id,
        "createdAt": link.created_at,
        "updatedAt": link.updated_at,
    })
}

fn run_view(run: &DatasetRun) -> Value {
    json!({
        "id": run.id,
        "name": run.name,
        "description": run.description,
        "metadata": run.metadata,
        "datasetId": run.dataset_id,
        "datasetName": run.dataset_name,
        "createdAt": run.created_at,
        "updatedAt": run.updated_at,
    })
}

async fn list_links(
    State(app): State<App>,
    caller: Reader,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let needed = |name: &'static str| {
        params
            .text(name)
            .ok_or_else(|| Problem::query(name, "needed"))
    };
    let (dataset_id, run_name) = (needed("datasetId")?, needed("runName")?);
    let paging = page::paging(&params)?;
    let stored = app.store.dataset_by_id(&caller.project, dataset_id).await?;
    let dataset = stored.ok_or_else(|| Problem::not_found("dataset"))?.dataset;
    let runs = runs_of(&app, &caller.project, &dataset).await?;
    let run = runs.into_iter().find(|run| run.name == run_name);
    let run = run.ok_or_else(|| Problem::not_found("dataset run"))?;
    let items = items_of(&app, &caller.project, &run).await?;
    let skip = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
    let found = Numbered {
        n_total: items.len() as u64,
        items: items
            .into_iter()
            .skip(skip)
            .take(paging.limit as usize)
            .collect(),
    };
    Ok(page::answer(paging, &found, link_view))
}

/// The runs over a dataset, the newest first: those of links, and those that clients recorded as spans.
async fn runs_of(
    app: &App,
    project: &ProjectId,
    dataset: &assay_domain::dataset::Dataset,
) -> Result<Vec<DatasetRun>, Problem> {
    let mut runs = app.store.dataset_runs(project, Some(&dataset.id)).await?;
    let of_spans = |experiment: Experiment| DatasetRun {
        id: experiment.id,
        name: experiment.name,
        description: experiment.description,
        metadata: experiment.metadata.unwrap_or(Value::Null),
        dataset_id: dataset.id.clone(),
        dataset_name: dataset.name.clone(),
        created_at: experiment.start,
        updated_at: experiment.end,
    };
    for experiment in experiments(app, project, Range::default()).await? {
        let is_new = runs.iter().all(|run| run.id != experiment.id);
        if is_new && experiment.dataset_id.as_deref() == Some(&dataset.id) {
            runs.push(of_spans(experiment));
        }
    }
    runs.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    Ok(runs)
}

async fn list_runs(
    State(app): State<App>,
    caller: Reader,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let paging = page::paging(&params)?;
    let dataset = datasets::existing(&app, &caller, &name).await?.dataset;
    let runs = runs_of(&app, &caller.project, &dataset).await?;
    let skip = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
    let found = Numbered {
        n_total: runs.len() as u64,
        items: runs
            .into_iter()
            .skip(skip)
            .take(paging.limit as usize)
            .collect(),
    };
    Ok(page::answer(paging, &found, run_view))
}

/// The run of this name, which older clients encode twice.
async fn existing(
    app: &App,
    caller: &Reader,
    names: &(String, String),
) -> Result<DatasetRun, Problem> {
    let dataset = datasets::existing(app, caller, &names.0).await?.dataset;
    let decoded = percent_encoding::percent_decode_str(&names.1).decode_utf8();
    let decoded = decoded.map_or_else(|_| names.1.clone(), |name| name.into_owned());
    for name in [&names.1, &decoded] {
        let id = run_id(&caller.project, &dataset.id, name);
        if let Some(run) = app.store.dataset_run(&caller.project, &id).await? {
            return Ok(run);
        }
    }
    let runs = runs_of(app, &caller.project, &dataset).await?;
    let mut named = runs
        .into_iter()
        .filter(|run| run.name == names.1 || run.name == decoded);
    named
        .next()
        .ok_or_else(|| Problem::not_found("dataset run"))
}

/// The items of a run, the newest first: its links, and spans that no link leads to.
async fn items_of(
    app: &App,
    project: &ProjectId,
    run: &DatasetRun,
) -> Result<Vec<DatasetRunItem>, Problem> {
    let query = LinkQuery {
        run_id: Some(run.id.clone()),
        ..LinkQuery::default()
    };
    let mut items = Vec::new();
    for page in 1.. {
        let paging = Paging {
            page,
            limit: MAX_INLINE,
        };
        let links = app.store.run_items(project, &query, paging).await?.items;
        let is_last = links.len() < MAX_INLINE as usize;
        items.extend(links);
        if is_last {
            break;
        }
    }
    let mut query = SpanQuery {
        limit: MAX_INLINE,
        ..SpanQuery::default()
    };
    loop {
        let (spans, next) = app.store.experiment_spans(project, &query).await?;
        for span in spans
            .into_iter()
            .filter(|span| span.link.id.as_ref() == Some(&run.id))
        {
            let is_linked = items
                .iter()
                .any(|item| item.trace_id == span.trace_id.as_str());
            let Some(item_id) = span.link.item_id.filter(|_| !is_linked) else {
                continue;
            };
            items.push(DatasetRunItem {
                id: span.id.to_string(),
                run_id: run.id.clone(),
                run_name: run.name.clone(),
                item_id,
                dataset_version: span.link.item_version,
                trace_id: span.trace_id.to_string(),
                observation_id: Some(span.id.to_string()),
                created_at: span.start,
                updated_at: span.end.unwrap_or(span.start),
            });
        }
        match next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    items.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    Ok(items)
}

async fn get_run(
    State(app): State<App>,
    caller: Reader,
    Path(names): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let run = existing(&app, &caller, &names).await?;
    let items = items_of(&app, &caller.project, &run).await?;
    let mut view = run_view(&run);
    view["datasetRunItems"] = items.iter().map(link_view).collect();
    Ok(Json(view))
}

async fn delete_run(
    State(app): State<App>,
    caller: Writer,
    Path(names): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let reader = Reader {
        project: caller.project.clone(),
    };
    let run = existing(&app, &reader, &names).await?;
    app.store
        .delete_dataset_run(&caller.project, &run.id, app.clock.now())
        .await?;
    Ok(Json(
        json!({ "message": "Dataset run successfully deleted" }),
    ))
}
