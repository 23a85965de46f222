//! Datasets are made and changed by their names; a new schema is held against every item.

use assay_domain::dataset::{Dataset, DatasetName, DatasetPatch};
use assay_domain::ids::ProjectId;
use assay_store::catalog::Cursor;
use assay_store::datasets::StoredDataset;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::schema::Compiled;
use super::view;
use crate::App;
use crate::auth::Writer;
use crate::extract::Body;
use crate::problem::{Code, Problem};

/// Violations of existing items that are listed.
const MAX_LISTED: usize = 100;
/// Items that are read and checked in one go.
const PER_PAGE: u32 = 100;
/// Others that may get in between before the caller is told to try again.
const MAX_TRIES: u32 = 5;

/// A dataset as clients send it; what is absent stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DatasetInput {
    /// Finds the dataset; `/` makes folders.
    name: String,
    description: Option<String>,
    /// Anything.
    metadata: Option<Value>,
    /// JSON Schema for the inputs of items, at most 1 MiB.
    input_schema: Option<Value>,
    /// JSON Schema for what is expected of them, at most 1 MiB.
    expected_output_schema: Option<Value>,
}

pub(super) async fn put_dataset(
    State(app): State<App>,
    caller: Writer,
    Body(input): Body<DatasetInput>,
) -> Result<Json<Value>, Problem> {
    let dataset = put(&app, &caller.project, input).await?;
    Ok(Json(view::dataset(&caller.project, &dataset)))
}

pub(super) async fn put_old_dataset(
    State(app): State<App>,
    caller: Writer,
    Body(input): Body<DatasetInput>,
) -> Result<Json<Value>, Problem> {
    let dataset = put(&app, &caller.project, input).await?;
    let mut view = view::dataset(&caller.project, &dataset);
    view["items"] = json!([]);
    view["runs"] = json!([]);
    Ok(Json(view))
}

async fn put(app: &App, project: &ProjectId, input: DatasetInput) -> Result<Dataset, Problem> {
    let name = DatasetName::new(&input.name).map_err(|_| {
        Problem::body(
            "name",
            "1 to 800 characters, at most 2,400 bytes, none of them control characters",
        )
    })?;
    let patch = DatasetPatch {
        description: input.description,
        metadata: input.metadata,
        input_schema: input.input_schema,
        expected_output_schema: input.expected_output_schema,
    };
    for _ in 0..MAX_TRIES {
        let now = app.clock.now();
        let standing = app.store.dataset(project, name.as_str()).await?;
        let Some(seen) = standing else {
            let fresh = Dataset {
                id: app.ids.uuid().to_string(),
                name: name.to_string(),
                description: None,
                metadata: Value::Null,
                input_schema: None,
                expected_output_schema: None,
                created_at: now,
                updated_at: now,
            };
            let dataset = fresh.patched(patch.clone(), now);
            compile(&dataset).await?;
            if app.store.create_dataset(project, &dataset).await? {
                return Ok(dataset);
            }
            continue;
        };
        let next = seen.dataset.patched(patch.clone(), now);
        if next == seen.dataset {
            return Ok(next);
        }
        if seen.dataset.changes_schema(&next) {
            let compiled = compile(&next).await?;
            check_items(app, project, &seen, compiled).await?;
        }
        let updated = app.store.update_dataset(project, &seen, &patch, now);
        if let Some(dataset) = updated.await? {
            return Ok(dataset);
        }
    }
    Err(busy())
}

/// Others write to the same dataset all the time.
pub(super) fn busy() -> Problem {
    Problem::unavailable("the dataset changes too quickly to be checked; try again")
}

/// Compiling may take long: it happens beside the requests.
async fn compile(dataset: &Dataset) -> Result<Compiled, Problem> {
    let dataset = dataset.clone();
    let compiled = tokio::task::spawn_blocking(move || Compiled::new(&dataset)).await;
    compiled.unwrap_or_else(|_| Err(Problem::internal()))
}

/// Holds every active item of a dataset against new schemas.
async fn check_items(
    app: &App,
    project: &ProjectId,
    seen: &StoredDataset,
    compiled: Compiled,
) -> Result<(), Problem> {
    if compiled.is_empty() {
        return Ok(());
    }
    let mut compiled = Some(compiled);
    let mut listed: Vec<Value> = Vec::new();
    let mut n_items = 0_u64;
    let mut after: Option<Cursor> = None;
    loop {
        let items = app
            .store
            .dataset_items_after(project, &seen.dataset.id, after.as_ref(), PER_PAGE)
            .await?;
        let is_last = items.len() < PER_PAGE as usize;
        after = items.last().map(|item| Cursor {
            at: item.created_at,
            id: item.id.clone(),
        });
        let Some(checker) = compiled.take() else {
            break;
        };
        let checked = tokio::task::spawn_blocking(move || {
            let all = items
                .iter()
                .map(|item| (item.id.clone(), checker.violations(item)));
            let broken: Vec<_> = all.filter(|(_, found)| !found.is_empty()).collect();
            (checker, broken)
        });
        let (checker, broken) = checked.await.map_err(|_| Problem::internal())?;
        compiled = Some(checker);
        n_items += broken.len() as u64;
        for (id, violations) in broken {
            for violation in violations {
                let mut shown = violation.to_json();
                shown["itemId"] = json!(id);
                listed.push(shown);
            }
        }
        listed.truncate(MAX_LISTED);
        if is_last {
            break;
        }
    }
    if n_items == 0 {
        return Ok(());
    }
    let message =
        format!("{n_items} items of the dataset do not meet the schema; nothing was changed");
    Err(Problem::new(Code::InvalidRequest, message)
        .with("violations", listed)
        .with("itemsAtFault", n_items))
}
