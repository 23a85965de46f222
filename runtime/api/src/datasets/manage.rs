//! Rename, change, archive and deletion of a dataset, and help with its schemas.

use axum::extract::{Path, State};
use perpend_api_types::any_json::AnyJson;
use perpend_api_types::list::Confirmation;
use perpend_api_types::nullable;
use perpend_catalog::audit;
use perpend_catalog::datasets::StoredDataset;
use perpend_domain::access::Permission::{DatasetRead, DatasetWrite};
use perpend_domain::dataset::{DatasetName, DatasetPatch};
use perpend_domain::dataset_schema::SchemaInference;
use perpend_domain::ids::ProjectId;
use perpend_domain::list::Cursor;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::batch::present;
use super::find::find;
use super::schema::{self, ExcessWork};
use super::state::DatasetStateView;
use super::write::{impact, name_of, patch_dataset};
use crate::state::{App, Routes};

const ONE: &str = "/api/v1/datasets/{datasetName}";
const IMPACT: &str = "/api/v1/datasets/{datasetName}/schema-impact";
const INFER: &str = "/api/v1/datasets/{datasetName}/infer-schema";

/// Items from which schemas are inferred.
const MAX_SAMPLE: usize = 1_000;
/// Items per query.
const PER_READ: u32 = 100;

pub(super) fn routes(routes: &mut Routes) {
    let change = Operation::patch(
        "patchDataset",
        ONE,
        "Rename, change or archive a dataset; `null` clears a member",
        DatasetWrite,
    );
    routes.add(change.body::<PatchInput>(), patch);
    routes.add(
        Operation::delete(
            "deleteDataset",
            ONE,
            "Delete a dataset with its items and runs; traces and scores are kept",
            DatasetWrite,
        ),
        delete,
    );
    let impact = Operation::post(
        "previewDatasetSchemas",
        IMPACT,
        "Count the items that would not match new schemas",
        DatasetRead,
    );
    routes.add(impact.body::<SchemasInput>().unrecorded(), schema_impact);
    routes.add(
        Operation::get(
            "inferDatasetSchemas",
            INFER,
            "Derive schemas that the newest 1,000 items match",
            DatasetRead,
        ),
        infer_schema,
    );
}

/// A change of a dataset. Absent members are kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetPatch)]
struct PatchInput {
    /// New unique name; `/` separates folders.
    name: Option<String>,
    /// `null` removes the description.
    #[serde(default, deserialize_with = "nullable::present")]
    #[schema(value_type = Option<String>)]
    description: Option<Option<String>>,
    /// Any JSON value.
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Value>,
    /// JSON Schema of the inputs of items, at most 1 MiB; `null` removes it.
    #[serde(default, deserialize_with = "present")]
    input_schema: Option<Value>,
    /// JSON Schema of the expected outputs of items, at most 1 MiB; `null` removes it.
    #[serde(default, deserialize_with = "present")]
    expected_output_schema: Option<Value>,
    /// Lists and choices of the pages leave archived datasets out; everything else works with them.
    is_archived: Option<bool>,
    /// Id of the run over this dataset that its other runs are compared with; `null` removes it.
    #[serde(default, deserialize_with = "nullable::present")]
    #[schema(value_type = Option<String>)]
    baseline_run_id: Option<Option<String>>,
}

/// Schemas of a dataset. An absent member is the current schema; `null` is no schema.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetSchemas)]
struct SchemasInput {
    /// JSON Schema of the inputs of items, at most 1 MiB.
    #[serde(default, deserialize_with = "present")]
    input_schema: Option<Value>,
    /// JSON Schema of the expected outputs of items, at most 1 MiB.
    #[serde(default, deserialize_with = "present")]
    expected_output_schema: Option<Value>,
}

/// Items that would not match schemas.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetSchemaImpact)]
struct ImpactView {
    /// Active items.
    checked_count: u64,
    /// Items with a violation.
    failing_count: u64,
    /// The first 100 violations.
    violations: Vec<ViolationView>,
}

/// A violation of a schema by an item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetItemViolation)]
pub(super) struct ViolationView {
    pub(super) item_id: String,
    /// Member of the item.
    pub(super) field: String,
    /// JSON Pointer into the member.
    pub(super) pointer: String,
    pub(super) message: String,
}

/// Schemas that items match.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InferredDatasetSchemas)]
struct InferredView {
    /// JSON Schema of the inputs; `null` without items.
    input_schema: Option<AnyJson>,
    /// JSON Schema of the expected outputs; `null` without items.
    expected_output_schema: Option<AnyJson>,
    /// Items that were read, all of which match.
    item_count: u64,
}

fn name_conflict(name: &DatasetName) -> Problem {
    let message = format!("another dataset has the name {:?}", name.as_str());
    Problem::new(Code::NameConflict, message)
}

/// Describes a patch for the audit trail.
fn note_patch(stored: &StoredDataset, input: &PatchInput) {
    let dataset = &stored.dataset;
    let before = json!({
        "name": dataset.name,
        "description": dataset.description,
        "inputSchema": dataset.input_schema,
        "expectedOutputSchema": dataset.expected_output_schema,
        "isArchived": stored.archived_at.is_some(),
        "baselineRunId": stored.baseline_run_id,
    });
    let mut after = before.clone();
    let set = [
        ("name", input.name.as_deref().map(Value::from)),
        ("description", input.description.clone().map(Value::from)),
        ("inputSchema", input.input_schema.clone()),
        ("expectedOutputSchema", input.expected_output_schema.clone()),
        ("isArchived", input.is_archived.map(Value::from)),
        ("baselineRunId", input.baseline_run_id.clone().map(Value::from)),
    ];
    for (name, value) in set {
        if let Some(value) = value {
            after[name] = value;
        }
    }
    audit::note_whole("dataset", &dataset.id, Some(before), Some(after));
}

/// Applies the members of a patch that are no part of the versions of a dataset.
async fn change_state(
    app: &App,
    project: &ProjectId,
    id: &str,
    input: &PatchInput,
) -> Result<(), Problem> {
    let catalog = &app.store.catalog;
    if let Some(is_archived) = input.is_archived {
        let at = is_archived.then(|| app.web.clock.now());
        catalog.archive_dataset(project, id, at).await?;
    }
    if let Some(run_id) = &input.baseline_run_id {
        catalog.set_dataset_baseline(project, id, run_id.as_deref()).await?;
    }
    Ok(())
}

/// Checks that a baseline is a run over the dataset.
async fn check_baseline(
    app: &App,
    project: &ProjectId,
    id: &str,
    input: &PatchInput,
) -> Result<(), Problem> {
    let Some(Some(run_id)) = &input.baseline_run_id else { return Ok(()) };
    let run = app.store.telemetry.experiment_run(project, run_id).await?;
    match run.is_some_and(|run| run.dataset_id.as_deref() == Some(id)) {
        true => Ok(()),
        false => {
            let message = format!("must be the id of a run over this dataset, got {run_id:?}");
            Err(Problem::body("baselineRunId", message))
        }
    }
}

async fn patch(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    Body(input): Body<PatchInput>,
) -> Result<Answer<DatasetStateView>, Problem> {
    let project = &caller.project;
    let stored = find(&app, &caller, &name).await?;
    let id = stored.dataset.id.as_str();
    let new_name = input.name.as_deref().map(name_of).transpose()?;
    check_baseline(&app, project, id, &input).await?;
    let _turn = app.writers.enter(project, "dataset", &stored.dataset.name).await;
    let patch = DatasetPatch {
        clear_description: input.description == Some(None),
        description: input.description.clone().flatten(),
        metadata: input.metadata.clone(),
        input_schema: input.input_schema.clone(),
        expected_output_schema: input.expected_output_schema.clone(),
    };
    let new_name = new_name.filter(|new_name| new_name.as_str() != stored.dataset.name);
    if let Some(new_name) = &new_name
        && app.store.catalog.dataset(project, new_name.as_str()).await?.is_some()
    {
        return Err(name_conflict(new_name));
    }
    note_patch(&stored, &input);
    patch_dataset(&app, project, id, &patch).await?;
    if let Some(new_name) = new_name {
        let now = app.web.clock.now();
        if !app.store.catalog.rename_dataset(project, id, &new_name, now).await? {
            return Err(name_conflict(&new_name));
        }
    }
    change_state(&app, project, id, &input).await?;
    let stored = app.store.catalog.dataset_by_id(project, id).await?;
    let stored = stored.ok_or_else(|| Problem::not_found("dataset"))?;
    Ok(Answer(DatasetStateView::of(project, &stored)))
}

async fn delete(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
) -> Result<Answer<Confirmation>, Problem> {
    let stored = find(&app, &caller, &name).await?;
    let (project, id) = (&caller.project, &stored.dataset.id);
    if !app.store.delete_dataset(project, id, app.web.clock.now()).await? {
        return Err(Problem::not_found("dataset"));
    }
    Ok(Answer(Confirmation::new("Dataset successfully deleted")))
}

async fn schema_impact(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    Body(input): Body<SchemasInput>,
) -> Result<Answer<ImpactView>, Problem> {
    let project = &caller.project;
    let stored = find(&app, &caller, &name).await?;
    let patch = DatasetPatch {
        input_schema: input.input_schema,
        expected_output_schema: input.expected_output_schema,
        ..DatasetPatch::default()
    };
    let next = stored.dataset.patched(patch, app.web.clock.now());
    // Reports an invalid schema also when there are no items.
    schema::violations(&app.engine, project, &next, &[], ExcessWork::Fails).await?;
    let impact = impact(&app, project, &next, ExcessWork::Violates).await?;
    let violations = impact.violations.into_iter().map(|(item_id, violation)| ViolationView {
        item_id,
        field: violation.field.to_owned(),
        pointer: violation.pointer,
        message: violation.message,
    });
    Ok(Answer(ImpactView {
        checked_count: impact.n_checked,
        failing_count: impact.n_failing,
        violations: violations.collect(),
    }))
}

async fn infer_schema(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
) -> Result<Answer<InferredView>, Problem> {
    let stored = find(&app, &caller, &name).await?;
    let (mut inputs, mut outputs) = (SchemaInference::default(), SchemaInference::default());
    let mut n_items = 0;
    let mut after: Option<Cursor> = None;
    while n_items < MAX_SAMPLE {
        let catalog = &app.store.catalog;
        let id = &stored.dataset.id;
        let items =
            catalog.dataset_items_after(&caller.project, id, after.as_ref(), PER_READ).await?;
        for item in &items {
            inputs.add(&item.input);
            outputs.add(&item.expected_output);
        }
        n_items += items.len();
        after = items.last().map(|item| Cursor::new(item.created_at, item.id.clone()));
        if items.len() < PER_READ as usize {
            break;
        }
    }
    Ok(Answer(InferredView {
        input_schema: inputs.schema().map(AnyJson::from),
        expected_output_schema: outputs.schema().map(AnyJson::from),
        item_count: n_items as u64,
    }))
}
