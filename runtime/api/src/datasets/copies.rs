//! Copies of items in another dataset.

use axum::extract::{Path, State};
use perpend_catalog::datasets::ItemVersion;
use perpend_domain::access::Permission::DatasetWrite;
use perpend_domain::dataset::{DatasetItem, ItemPatch};
use perpend_domain::plugin::Digest;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::batch::BatchView;
use super::find::find;
use super::writer::{ItemChange, ItemOutcome, ItemProblem, ItemResult, ItemWrite, WriteOptions};
use crate::state::{App, Routes};

const COPY: &str = "/api/v1/datasets/{datasetName}/items/copy";
/// Most items in one request.
const MAX_ITEMS: usize = 1_000;

pub(super) fn routes(routes: &mut Routes) {
    let copy = Operation::post(
        "copyDatasetItems",
        COPY,
        "Copy or move up to 1,000 items to another dataset; each has its own outcome",
        DatasetWrite,
    );
    routes.add(copy.body::<CopyInput>(), copy_items);
}

/// Items to copy. The id of a copy follows from the item and the other dataset: repeating the request updates the copies.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetItemCopy)]
struct CopyInput {
    /// 1 to 1,000 items of the dataset.
    item_ids: Vec<String>,
    /// Name of the other dataset.
    to: String,
    /// Deletes the items that were copied; their versions are kept.
    #[serde(default, rename = "move")]
    is_move: bool,
}

/// The id of a copy of an item in a dataset.
pub(super) fn copy_id(dataset_id: &str, item_id: &str) -> String {
    let key = json!(["item-copy", dataset_id, item_id]);
    let mut id = Digest::of(key.to_string().as_bytes()).to_string();
    id.truncate(32);
    id
}

fn copy_of(item: DatasetItem, dataset_id: &str) -> ItemWrite {
    let patch = ItemPatch {
        status: Some(item.status),
        input: Some(item.input),
        expected_output: Some(item.expected_output),
        metadata: Some(item.metadata),
        source_trace_id: item.source_trace_id,
        source_observation_id: item.source_observation_id,
    };
    ItemWrite { id: copy_id(dataset_id, &item.id), change: ItemChange::Put(Box::new(patch)) }
}

async fn copy_items(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    Body(input): Body<CopyInput>,
) -> Result<Answer<BatchView>, Problem> {
    let n_items = input.item_ids.len();
    if n_items == 0 || MAX_ITEMS < n_items {
        let message = format!("must have 1 to {MAX_ITEMS} elements, got {n_items}");
        return Err(Problem::body("itemIds", message));
    }
    let project = &caller.project;
    let from = find(&app, &caller, &name).await?.dataset;
    let to = find(&app, &caller, &input.to).await?.dataset;
    if from.id == to.id {
        return Err(Problem::body("to", "must be another dataset"));
    }
    let ids: Vec<&str> = input.item_ids.iter().map(String::as_str).collect();
    let found = app.store.catalog.dataset_item_states(project, &ids).await?;
    let is_there =
        |version: &ItemVersion| !version.is_deleted && version.item.dataset_id == from.id;
    let found: Vec<DatasetItem> =
        found.into_iter().filter(is_there).map(|version| version.item).collect();
    let mut missing: Vec<&str> = ids;
    missing.retain(|id| found.iter().all(|item| item.id != *id));
    let sources: Vec<String> = found.iter().map(|item| item.id.clone()).collect();
    let writes: Vec<ItemWrite> = found.into_iter().map(|item| copy_of(item, &to.id)).collect();
    let writer = app.item_writer();
    let options = WriteOptions::default();
    let mut outcomes = Box::pin(writer.write(project, &to.id, &writes, options)).await?;
    if input.is_move {
        let copied = sources.into_iter().zip(&outcomes);
        let copied = copied.filter(|(_, outcome)| outcome.result != ItemResult::Invalid);
        let deletions = copied.map(|(id, _)| ItemWrite { id, change: ItemChange::Delete });
        let deletions: Vec<ItemWrite> = deletions.collect();
        Box::pin(writer.write(project, &from.id, &deletions, options)).await?;
    }
    outcomes.extend(missing.into_iter().map(|id| ItemOutcome {
        id: id.to_owned(),
        result: ItemResult::Invalid,
        problems: vec![ItemProblem::new("id", "no such item in this dataset")],
        version: None,
    }));
    Ok(Answer(BatchView::of(outcomes)))
}
