//! Responses of datasets and items.

use perpend_domain::dataset::{Dataset, DatasetItem};
use perpend_domain::ids::ProjectId;
use serde_json::{Value, json};

/// Most items and runs inside another response.
pub(super) const MAX_INLINE: u32 = 1_000;

pub(super) fn dataset(project: &ProjectId, dataset: &Dataset) -> Value {
    json!({
        "id": dataset.id,
        "name": dataset.name,
        "description": dataset.description,
        "metadata": dataset.metadata,
        "inputSchema": dataset.input_schema,
        "expectedOutputSchema": dataset.expected_output_schema,
        "projectId": project,
        "createdAt": dataset.created_at,
        "updatedAt": dataset.updated_at,
    })
}

/// An item. `version` has microseconds, so that it identifies this version.
pub(crate) fn item(item: &DatasetItem) -> Value {
    json!({
        "id": item.id,
        "status": item.status.as_str(),
        "input": item.input,
        "expectedOutput": item.expected_output,
        "metadata": item.metadata,
        "sourceTraceId": item.source_trace_id,
        "sourceObservationId": item.source_observation_id,
        "datasetId": item.dataset_id,
        "datasetName": item.dataset_name,
        "createdAt": item.created_at,
        "updatedAt": item.valid_from,
        "version": item.valid_from.to_iso_micros(),
        "mediaReferences": [],
    })
}
