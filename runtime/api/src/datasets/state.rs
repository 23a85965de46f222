//! Datasets with their archive state and their baseline.

use axum::extract::{Path, State};
use perpend_api_types::list::NumberedList;
use perpend_catalog::datasets::StoredDataset;
use perpend_domain::access::Permission::DatasetRead;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::Serialize;
use utoipa::ToSchema;

use super::find::find;
use super::view::{self, DatasetView};
use crate::state::{App, Routes};

const ALL: &str = "/api/v1/datasets";
const ONE: &str = "/api/v1/datasets/{datasetName}";

const LIST: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("archived", "boolean", "Only archived or only active datasets; all when absent."),
];

pub(super) fn routes(routes: &mut Routes) {
    let get = |id, path, summary| Operation::get(id, path, summary, DatasetRead);
    let summary = "List datasets with their archive state and their baseline, newest first";
    routes.add(get("listDatasetsWithState", ALL, summary).query(LIST), list_datasets);
    let summary = "Get a dataset with its archive state and its baseline";
    routes.add(get("getDatasetWithState", ONE, summary), get_dataset);
}

/// A dataset with its archive state and its baseline.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetWithState)]
pub(super) struct DatasetStateView {
    #[serde(flatten)]
    dataset: DatasetView,
    /// Time since which the dataset is archived; `null` while it is active.
    archived_at: Option<Timestamp>,
    /// Id of the run that the other runs are compared with. The run may be deleted.
    baseline_run_id: Option<String>,
}

impl DatasetStateView {
    pub(super) fn of(project: &ProjectId, stored: &StoredDataset) -> Self {
        Self {
            dataset: view::dataset(project, &stored.dataset),
            archived_at: stored.archived_at,
            baseline_run_id: stored.baseline_run_id.clone(),
        }
    }
}

async fn list_datasets(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<DatasetStateView>>, Problem> {
    let paging = page::paging(&params)?;
    let (project, is_archived) = (&caller.project, params.flag("archived")?);
    let found = app.store.catalog.datasets_by_state(project, is_archived, paging).await?;
    Ok(page::list(paging, &found, |stored| DatasetStateView::of(project, stored)))
}

async fn get_dataset(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
) -> Result<Answer<DatasetStateView>, Problem> {
    let stored = find(&app, &caller, &name).await?;
    Ok(Answer(DatasetStateView::of(&caller.project, &stored)))
}
