//! Creation and update of datasets by name. A new schema is validated against every item.

use axum::extract::State;
use perpend_catalog::datasets::{ItemQuery, StoredDataset};
use perpend_domain::dataset::{Dataset, DatasetItem, DatasetName, DatasetPatch};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::Cursor;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, MAX_LISTED, Problem};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::schema::{self, ExcessWork, Violation};
use super::view;
use super::view::{DatasetView, DatasetWithIdsView};
use super::writer::busy;
use crate::state::App;

/// Items per check, unless they are large.
const PER_PAGE: u32 = 1_000;
/// Concurrent changes after which the request is refused.
const MAX_TRIES: u32 = 20;

/// A dataset. Absent members of an existing dataset are kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DatasetInput {
    /// Unique name; `/` separates folders.
    name: String,
    description: Option<String>,
    /// Any JSON value.
    metadata: Option<Value>,
    /// JSON Schema of the inputs of items, at most 1 MiB.
    input_schema: Option<Value>,
    /// JSON Schema of the expected outputs of items, at most 1 MiB.
    expected_output_schema: Option<Value>,
}

pub(super) async fn put_dataset(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<DatasetInput>,
) -> Result<Answer<DatasetView>, Problem> {
    let dataset = put(&app, &caller.project, input).await?;
    Ok(Answer(view::dataset(&caller.project, &dataset)))
}

pub(super) async fn put_old_dataset(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<DatasetInput>,
) -> Result<Answer<DatasetWithIdsView>, Problem> {
    let dataset = put(&app, &caller.project, input).await?;
    Ok(Answer(DatasetWithIdsView {
        dataset: view::dataset(&caller.project, &dataset),
        items: Vec::new(),
        runs: Vec::new(),
    }))
}

/// Reads the member `name`.
pub(crate) fn name_of(raw: &str) -> Result<DatasetName, Problem> {
    DatasetName::new(raw).map_err(|_| {
        Problem::body(
            "name",
            "must have 1 to 800 characters and at most 2,400 bytes, without control characters",
        )
    })
}

async fn put(app: &App, project: &ProjectId, input: DatasetInput) -> Result<Dataset, Problem> {
    let name = name_of(&input.name)?;
    let patch = DatasetPatch {
        description: input.description,
        clear_description: false,
        metadata: input.metadata,
        input_schema: input.input_schema,
        expected_output_schema: input.expected_output_schema,
    };
    let _turn = app.writers.enter(project, "dataset", name.as_str()).await;
    for _ in 0..MAX_TRIES {
        let now = app.web.clock.now();
        let current = app.store.catalog.dataset(project, name.as_str()).await?;
        let Some(seen) = current else {
            let fresh = Dataset {
                id: app.web.ids.uuid().to_string(),
                name: name.to_string(),
                description: None,
                metadata: Value::Null,
                input_schema: None,
                expected_output_schema: None,
                created_at: now,
                updated_at: now,
            };
            let dataset = fresh.patched(patch.clone(), now);
            // Checks the schemas.
            schema::violations(&app.engine, project, &dataset, &[], ExcessWork::Fails).await?;
            if app.store.catalog.create_dataset(project, &dataset).await? {
                return Ok(dataset);
            }
            continue;
        };
        if let Some(dataset) = update(app, project, &seen, &patch).await? {
            return Ok(dataset);
        }
    }
    Err(busy())
}

/// Applies a patch to a dataset whose items match its schemas. `None` if the dataset has changed since it was read.
async fn update(
    app: &App,
    project: &ProjectId,
    seen: &StoredDataset,
    patch: &DatasetPatch,
) -> Result<Option<Dataset>, Problem> {
    let now = app.web.clock.now();
    let next = seen.dataset.patched(patch.clone(), now);
    if next == seen.dataset {
        return Ok(Some(next));
    }
    if seen.dataset.changes_schema(&next) {
        check_items(app, project, &next).await?;
    }
    Ok(app.store.catalog.update_dataset(project, seen, patch, now).await?)
}

/// Applies a patch to the dataset of this id.
pub(super) async fn patch_dataset(
    app: &App,
    project: &ProjectId,
    id: &str,
    patch: &DatasetPatch,
) -> Result<Dataset, Problem> {
    for _ in 0..MAX_TRIES {
        let seen = app.store.catalog.dataset_by_id(project, id).await?;
        let seen = seen.ok_or_else(|| Problem::not_found("dataset"))?;
        if let Some(dataset) = update(app, project, &seen, patch).await? {
            return Ok(dataset);
        }
    }
    Err(busy())
}

/// The items of a dataset that do not match schemas.
#[derive(Debug, Default)]
pub(super) struct SchemaImpact {
    pub(super) n_checked: u64,
    pub(super) n_failing: u64,
    /// The first violations, each with the id of its item.
    pub(super) violations: Vec<(String, Violation)>,
}

/// Validates every active item of a dataset against the schemas in `dataset`.
pub(super) async fn impact(
    app: &App,
    project: &ProjectId,
    dataset: &Dataset,
    excess: ExcessWork,
) -> Result<SchemaImpact, Problem> {
    let mut impact = SchemaImpact::default();
    if dataset.input_schema.is_none() && dataset.expected_output_schema.is_none() {
        return Ok(impact);
    }
    let query = ItemQuery { dataset_id: Some(dataset.id.clone()), ..ItemQuery::default() };
    let mut after: Option<Cursor> = None;
    loop {
        let catalog = &app.store.catalog;
        let some = catalog.some_dataset_items(project, &query, after.as_ref(), (0, PER_PAGE));
        let (some, is_cut) = some.await?;
        let items: Vec<DatasetItem> = some.into_iter().map(|version| version.item).collect();
        let found = schema::violations(&app.engine, project, dataset, &items, excess).await?;
        for (item, found) in items.iter().zip(found) {
            impact.n_checked += 1;
            impact.n_failing += u64::from(!found.is_empty());
            let n_left = MAX_LISTED - impact.violations.len();
            let listed = found.into_iter().take(n_left);
            impact.violations.extend(listed.map(|violation| (item.id.clone(), violation)));
        }
        after = items.last().map(|item| Cursor::new(item.created_at, item.id.clone()));
        if !is_cut && items.len() < PER_PAGE as usize {
            break;
        }
    }
    Ok(impact)
}

/// Validates every active item of a dataset against its new schemas.
async fn check_items(app: &App, project: &ProjectId, dataset: &Dataset) -> Result<(), Problem> {
    let impact = impact(app, project, dataset, ExcessWork::Fails).await?;
    let n_items = impact.n_failing;
    if n_items == 0 {
        return Ok(());
    }
    let listed = impact.violations.iter().map(|(item_id, violation)| {
        let mut shown = violation.to_json();
        shown["itemId"] = json!(item_id);
        shown
    });
    let message =
        format!("{n_items} items of the dataset do not match the schema; nothing was changed");
    Err(Problem::new(Code::InvalidRequest, message)
        .with_list("violations", listed)
        .with("itemsAtFault", n_items))
}
