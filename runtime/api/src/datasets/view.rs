//! Responses of datasets and items.

use perpend_api_types::any_json::AnyJson;
use perpend_domain::dataset::{Dataset, DatasetItem, ItemStatus};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::media::reference::MediaReference;

/// Most items and runs inside another response.
pub(super) const MAX_INLINE: u32 = 1_000;

/// A dataset.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Dataset)]
pub(super) struct DatasetView {
    id: String,
    name: String,
    description: Option<String>,
    metadata: AnyJson,
    /// JSON Schema of the inputs of items.
    #[schema(nullable = false)]
    input_schema: Option<AnyJson>,
    /// JSON Schema of the expected outputs of items.
    #[schema(nullable = false)]
    expected_output_schema: Option<AnyJson>,
    project_id: ProjectId,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// A version of a dataset.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetVersion)]
pub(super) struct DatasetVersionView {
    #[serde(flatten)]
    pub(super) dataset: DatasetView,
    /// Start of the version, with microseconds.
    #[schema(value_type = Timestamp)]
    pub(super) valid_from: String,
}

/// A dataset with the ids of its items and the names of its runs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DatasetWithIds)]
pub(super) struct DatasetWithIdsView {
    #[serde(flatten)]
    pub(super) dataset: DatasetView,
    /// Ids of the newest active items, at most 1000.
    pub(super) items: Vec<String>,
    /// Names of the newest runs, at most 1000.
    pub(super) runs: Vec<String>,
}

/// A dataset with its items and the names of its runs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DatasetWithItems)]
pub(super) struct DatasetWithItemsView {
    #[serde(flatten)]
    pub(super) dataset: DatasetView,
    /// The newest active items, at most 1000.
    pub(super) items: Vec<ItemView>,
    /// Names of the newest runs, at most 1000.
    pub(super) runs: Vec<String>,
}

/// An item of a dataset.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetItem)]
pub(super) struct ItemView {
    id: String,
    status: ItemStatus,
    input: AnyJson,
    expected_output: AnyJson,
    metadata: AnyJson,
    source_trace_id: Option<String>,
    source_observation_id: Option<String>,
    dataset_id: String,
    dataset_name: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Start of the version, with microseconds, so that it identifies the version.
    #[schema(value_type = Timestamp)]
    version: String,
    /// Media that the item refers to; empty inside a dataset and in lists of versions.
    pub(super) media_references: Vec<MediaReference>,
}

/// A version of an item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetItemVersion)]
pub(super) struct ItemVersionView {
    #[serde(flatten)]
    pub(super) item: ItemView,
    /// Whether the item was deleted at the start of the version.
    pub(super) is_deleted: bool,
}

pub(super) fn dataset(project: &ProjectId, dataset: &Dataset) -> DatasetView {
    DatasetView {
        id: dataset.id.clone(),
        name: dataset.name.clone(),
        description: dataset.description.clone(),
        metadata: (&dataset.metadata).into(),
        input_schema: dataset.input_schema.as_ref().map(AnyJson::from),
        expected_output_schema: dataset.expected_output_schema.as_ref().map(AnyJson::from),
        project_id: project.clone(),
        created_at: dataset.created_at,
        updated_at: dataset.updated_at,
    }
}

/// An item without media references.
pub(super) fn item(item: &DatasetItem) -> ItemView {
    ItemView {
        id: item.id.clone(),
        status: item.status,
        input: (&item.input).into(),
        expected_output: (&item.expected_output).into(),
        metadata: (&item.metadata).into(),
        source_trace_id: item.source_trace_id.clone(),
        source_observation_id: item.source_observation_id.clone(),
        dataset_id: item.dataset_id.clone(),
        dataset_name: item.dataset_name.clone(),
        created_at: item.created_at,
        updated_at: item.valid_from,
        version: item.valid_from.to_iso_micros(),
        media_references: Vec::new(),
    }
}
