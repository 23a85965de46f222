//! Datasets and their items.

mod additions;
mod batch;
mod copies;
mod export;
pub(super) mod find;
mod from_traces;
mod history;
pub(crate) mod import;
mod items;
mod manage;
mod schema;
mod state;
mod view;
pub(crate) mod write;
pub(crate) mod writer;

use axum::extract::{Path, State};
use perpend_api_types::list::NumberedList;
use perpend_domain::access::Permission::{DatasetRead, DatasetWrite};
use perpend_domain::list::Cursor;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;

use crate::datasets::find::find;
use crate::state::{App, Routes};
use view::{
    DatasetVersionView, DatasetView, DatasetWithIdsView, DatasetWithItemsView, ItemView, MAX_INLINE,
};

const ALL: &str = "/api/public/v2/datasets";
const ONE: &str = "/api/public/v2/datasets/{datasetName}";
const OLD: &str = "/api/public/datasets";
const OLD_ONE: &str = "/api/public/datasets/{datasetName}";
const VERSIONS: &str = "/api/v1/datasets/{datasetName}/versions";

const GET: &[Param] =
    &[param("version", "date-time", "Description, metadata and schemas as of this time.")];

/// Items per query.
const PER_READ: u32 = 100;
/// Size of the items in one response after which it ends.
const MAX_INLINE_BYTES: usize = 16 << 20;

pub(super) fn routes(routes: &mut Routes) {
    let create =
        Operation::post("putDataset", ALL, "Create or update a dataset by name", DatasetWrite);
    routes.add(create.body::<write::DatasetInput>(), write::put_dataset);
    let list = Operation::get("listDatasets", ALL, "List datasets, newest first", DatasetRead)
        .query(page::PAGED);
    routes.add(list, list_datasets);
    routes.add(
        Operation::get("getDataset", ONE, "Get a dataset", DatasetRead).query(GET),
        get_dataset,
    );
    let create = Operation::post(
        "putDatasetV1",
        OLD,
        "Create or update a dataset by name (v1)",
        DatasetWrite,
    );
    routes.add(create.body::<write::DatasetInput>(), write::put_old_dataset);
    let list = Operation::get(
        "listDatasetsV1",
        OLD,
        "List datasets with the ids of their items (v1)",
        DatasetRead,
    )
    .query(page::PAGED);
    routes.add(list, list_old);
    routes.add(
        Operation::get("getDatasetV1", OLD_ONE, "Get a dataset with its items (v1)", DatasetRead),
        get_old,
    );
    let versions = Operation::get(
        "listDatasetVersions",
        VERSIONS,
        "List all versions of a dataset, newest first",
        DatasetRead,
    );
    routes.add(versions.query(page::PAGED), list_versions);
    items::routes(routes);
    batch::routes(routes);
    copies::routes(routes);
    manage::routes(routes);
    state::routes(routes);
    history::routes(routes);
    additions::routes(routes);
    import::routes(routes);
    export::routes(routes);
}

async fn list_datasets(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<DatasetView>>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.datasets(&caller.project, paging).await?;
    Ok(page::list(paging, &found, |stored| view::dataset(&caller.project, &stored.dataset)))
}

async fn get_dataset(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
) -> Result<Answer<DatasetView>, Problem> {
    let stored = find(&app, &caller, &name).await?;
    let Some(moment) = params.time("version")? else {
        return Ok(Answer(view::dataset(&caller.project, &stored.dataset)));
    };
    let at = perpend_domain::dataset::as_of(moment);
    let then = app.store.catalog.dataset_at(&caller.project, &stored.dataset.id, at).await?;
    let then = then.ok_or_else(|| Problem::not_found("dataset at that moment"))?;
    Ok(Answer(view::dataset(&caller.project, &then.of(&stored.dataset))))
}

async fn list_versions(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
) -> Result<Answer<NumberedList<DatasetVersionView>>, Problem> {
    let stored = find(&app, &caller, &name).await?;
    let paging = page::paging(&params)?;
    let found =
        app.store.catalog.dataset_versions(&caller.project, &stored.dataset.id, paging).await?;
    Ok(page::list(paging, &found, |version| DatasetVersionView {
        dataset: view::dataset(&caller.project, &version.clone().of(&stored.dataset)),
        valid_from: version.valid_from.to_iso_micros(),
    }))
}

async fn list_old(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<DatasetWithIdsView>>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.datasets(&caller.project, paging).await?;
    let datasets: Vec<&str> = found.items.iter().map(|s| s.dataset.id.as_str()).collect();
    let (store, project) = (&app.store, &caller.project);
    let mut items = store.catalog.dataset_item_ids(project, &datasets, MAX_INLINE).await?;
    let mut runs = store.telemetry.run_names_of_datasets(project, &datasets, MAX_INLINE).await?;
    Ok(page::list(paging, &found, |stored| DatasetWithIdsView {
        dataset: view::dataset(project, &stored.dataset),
        items: items.remove(&stored.dataset.id).unwrap_or_default(),
        runs: runs.remove(&stored.dataset.id).unwrap_or_default(),
    }))
}

async fn get_old(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
) -> Result<Answer<DatasetWithItemsView>, Problem> {
    let stored = find(&app, &caller, &name).await?;
    let id = stored.dataset.id.as_str();
    let items = items_of(&app, &caller, id).await?;
    let mut runs =
        app.store.telemetry.run_names_of_datasets(&caller.project, &[id], MAX_INLINE).await?;
    Ok(Answer(DatasetWithItemsView {
        dataset: view::dataset(&caller.project, &stored.dataset),
        items,
        runs: runs.remove(id).unwrap_or_default(),
    }))
}

/// The newest items of a dataset, up to a number and a size. The list of items has all of them.
async fn items_of(app: &App, caller: &Act, dataset_id: &str) -> Result<Vec<ItemView>, Problem> {
    let mut shown = Vec::new();
    let mut n_bytes = 0;
    let mut after: Option<Cursor> = None;
    while shown.len() < MAX_INLINE as usize && n_bytes < MAX_INLINE_BYTES {
        let store = &app.store;
        let some = store.catalog.dataset_items_after(
            &caller.project,
            dataset_id,
            after.as_ref(),
            PER_READ,
        );
        let some = some.await?;
        let is_last = some.len() < PER_READ as usize;
        after = some.last().map(|item| Cursor::new(item.created_at, item.id.clone()));
        for item in &some {
            n_bytes += item.input.to_string().len() + item.expected_output.to_string().len();
            shown.push(view::item(item));
        }
        if is_last {
            break;
        }
    }
    Ok(shown)
}
