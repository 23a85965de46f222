//! The log of changes of a dataset, differences of two instants, and the return to an earlier one.

use std::collections::HashMap;

use axum::extract::{Path, State};
use perpend_api_types::list::{NumberedList, PageMeta};
use perpend_catalog::datasets::{ItemDifference, VersionRef};
use perpend_domain::access::Permission::{DatasetRead, DatasetWrite};
use perpend_domain::dataset::{Dataset, DatasetItem, DatasetPatch, ItemPatch, ItemStatus, as_of};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, MISSING, Param, Params, must_be_one_of, param};
use perpend_http_kit::page;
use perpend_http_kit::problem::{Code, MAX_LISTED, Problem};
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::batch::OutcomeCounts;
use super::find::find;
use super::manage::ViolationView;
use super::schema::ExcessWork;
use super::view::{self, ItemView};
use super::write::{impact, patch_dataset};
use super::writer::{ItemChange, ItemResult, ItemWrite, WriteOptions};
use crate::state::{App, Routes};

const CHANGES: &str = "/api/v1/datasets/{datasetName}/changes";
const DIFF: &str = "/api/v1/datasets/{datasetName}/diff";
const RESTORE: &str = "/api/v1/datasets/{datasetName}/restore";

/// Items per transaction of a restore.
const PER_WRITE: u32 = 200;

const DIFF_PARAMS: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("from", "date-time", "The first instant.").required(),
    param("to", "date-time", "The second instant; now when absent."),
];

pub(super) fn routes(routes: &mut Routes) {
    let changes = Operation::get(
        "listDatasetChanges",
        CHANGES,
        "List the changes of a dataset by minute, newest first",
        DatasetRead,
    );
    routes.add(changes.query(page::PAGED), list_changes);
    let diff = Operation::get(
        "diffDataset",
        DIFF,
        "List the items that differ between two instants",
        DatasetRead,
    );
    routes.add(diff.query(DIFF_PARAMS), list_differences);
    let restore = Operation::post(
        "restoreDatasetItems",
        RESTORE,
        "Give all items, the schemas or both the state of an earlier instant, as new versions",
        DatasetWrite,
    );
    routes.add(restore.body::<RestoreInput>(), restore_items);
}

/// Changes of a dataset within one minute.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetChange)]
struct ChangeView {
    /// Time of the first change.
    #[schema(value_type = Timestamp)]
    first_at: String,
    /// Time of the last change, with microseconds: the dataset as of this `version` has all of them.
    #[schema(value_type = Timestamp)]
    version: String,
    /// Items that became part of the dataset.
    added: u64,
    /// Items with a new version.
    changed: u64,
    /// Items that were deleted or archived.
    removed: u64,
    /// Versions of description, metadata and schemas.
    settings: u64,
}

/// Differences of a dataset between two instants.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetDiff)]
struct DiffView {
    /// Items that are active at the second instant only.
    added: u64,
    /// Items with different versions.
    changed: u64,
    /// Items that are active at the first instant only.
    removed: u64,
    /// Whether description, metadata or a schema differ.
    has_other_settings: bool,
    /// Whether a schema differs.
    has_other_schemas: bool,
    data: Vec<DifferenceView>,
    meta: PageMeta,
}

/// How an item differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = DatasetDifferenceKind)]
enum DifferenceKind {
    Added,
    Changed,
    Removed,
}

/// An item that differs between two instants.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetDifference)]
struct DifferenceView {
    id: String,
    change: DifferenceKind,
    /// The item at the first instant.
    before: Option<ItemView>,
    /// The item at the second instant.
    after: Option<ItemView>,
}

/// The instant to return to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetRestore)]
struct RestoreInput {
    #[schema(value_type = Timestamp)]
    version: String,
    /// `items` (default), `schemas` or `all`. Schemas are restored only if the active items match them.
    include: Option<String>,
    /// Only reports the outcomes.
    #[serde(default)]
    dry_run: bool,
}

/// Outcomes of a restore. Items that do not match the schemas are unchanged.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetRestoreResult)]
struct RestoreView {
    counts: OutcomeCounts,
    /// Whether the schemas were or would be changed.
    has_restored_schemas: bool,
    /// The first 100 problems.
    problems: Vec<ViolationView>,
}

async fn list_changes(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
) -> Result<Answer<NumberedList<ChangeView>>, Problem> {
    let stored = find(&app, &caller, &name).await?;
    let paging = page::paging(&params)?;
    let catalog = &app.store.catalog;
    let found = catalog.dataset_changes(&caller.project, &stored.dataset.id, paging).await?;
    Ok(page::list(paging, &found, |entry| ChangeView {
        first_at: entry.first_at.to_iso_micros(),
        version: entry.last_at.to_iso_micros(),
        added: entry.n_added,
        changed: entry.n_changed,
        removed: entry.n_removed,
        settings: entry.n_settings,
    }))
}

fn kind(difference: &ItemDifference) -> DifferenceKind {
    let is_active = |version: Option<VersionRef>| {
        version.is_some_and(|version| version.status == ItemStatus::Active)
    };
    match (is_active(difference.before), is_active(difference.after)) {
        (false, _) => DifferenceKind::Added,
        (true, true) => DifferenceKind::Changed,
        (true, false) => DifferenceKind::Removed,
    }
}

async fn list_differences(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
) -> Result<Answer<DiffView>, Problem> {
    let (catalog, project) = (&app.store.catalog, &caller.project);
    let stored = find(&app, &caller, &name).await?;
    let id = stored.dataset.id.as_str();
    let paging = page::paging(&params)?;
    let from = params.time("from")?.ok_or_else(|| Problem::query("from", MISSING))?;
    let from = as_of(from);
    let to = params.time("to")?.map_or_else(|| app.web.clock.now(), as_of);
    let counts = catalog.count_dataset_differences(project, id, (from, to)).await?;
    let found = catalog.dataset_differences(project, id, (from, to), paging).await?;
    let (before, after) =
        (catalog.dataset_at(project, id, from).await?, catalog.dataset_at(project, id, to).await?);
    let schemas = |version: &Option<perpend_catalog::datasets::DatasetVersion>| {
        version
            .as_ref()
            .map(|version| (version.input_schema.clone(), version.expected_output_schema.clone()))
    };
    let settings = |version: &Option<perpend_catalog::datasets::DatasetVersion>| {
        version.as_ref().map(|version| (version.description.clone(), version.metadata.clone()))
    };
    let has_other_schemas = schemas(&before) != schemas(&after);
    let has_other_settings = has_other_schemas || settings(&before) != settings(&after);
    let mut contents = contents(&app, project, &found.items).await?;
    let mut item = |id: &str, version: Option<VersionRef>| {
        let version = version?;
        contents.remove(&(id.to_owned(), version.valid_from)).map(|item| view::item(&item))
    };
    let differences = found.items.iter().map(|difference| DifferenceView {
        id: difference.id.clone(),
        change: kind(difference),
        before: item(&difference.id, difference.before),
        after: item(&difference.id, difference.after),
    });
    Ok(Answer(DiffView {
        added: counts.n_added,
        changed: counts.n_changed,
        removed: counts.n_removed,
        has_other_settings,
        has_other_schemas,
        data: differences.collect(),
        meta: PageMeta::new(paging, found.n_total),
    }))
}

/// The versions before and after, by id and start of validity.
async fn contents(
    app: &App,
    project: &ProjectId,
    differences: &[ItemDifference],
) -> Result<HashMap<(String, Timestamp), DatasetItem>, Problem> {
    let versions = differences.iter().flat_map(|difference| {
        let both = [difference.before, difference.after].into_iter().flatten();
        both.map(|version| (difference.id.as_str(), version.valid_from))
    });
    let versions: Vec<(&str, Timestamp)> = versions.collect();
    let items = app.store.catalog.dataset_items_in_versions(project, &versions).await?;
    Ok(items.into_iter().map(|item| ((item.id.clone(), item.valid_from), item)).collect())
}

/// The change that gives an item its earlier state.
fn restored(id: String, before: Option<DatasetItem>) -> ItemWrite {
    let Some(item) = before else {
        return ItemWrite { id, change: ItemChange::Delete };
    };
    let patch = ItemPatch {
        status: Some(item.status),
        input: Some(item.input),
        expected_output: Some(item.expected_output),
        metadata: Some(item.metadata),
        source_trace_id: item.source_trace_id,
        source_observation_id: item.source_observation_id,
    };
    ItemWrite { id, change: ItemChange::Put(Box::new(patch)) }
}

/// The parts of a dataset that a restore changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestoredParts {
    Items,
    Schemas,
    All,
}

impl RestoredParts {
    fn parse(raw: Option<&str>) -> Result<Self, Problem> {
        match raw {
            None | Some("items") => Ok(Self::Items),
            Some("schemas") => Ok(Self::Schemas),
            Some("all") => Ok(Self::All),
            Some(other) => {
                let message = must_be_one_of(&["items", "schemas", "all"], other);
                Err(Problem::body("include", message))
            }
        }
    }
}

/// The change that gives a dataset these schemas.
fn schemas_patch(input: Option<Value>, expected_output: Option<Value>) -> DatasetPatch {
    DatasetPatch {
        input_schema: Some(input.unwrap_or(Value::Null)),
        expected_output_schema: Some(expected_output.unwrap_or(Value::Null)),
        ..DatasetPatch::default()
    }
}

/// A restore of one dataset.
struct Restore<'r> {
    app: &'r App,
    project: &'r ProjectId,
    id: &'r str,
    /// The instant to return to.
    then: Timestamp,
    is_dry_run: bool,
}

impl Restore<'_> {
    /// The change that gives the dataset its earlier schemas; absent if they are the current ones.
    async fn schemas(&self, dataset: &Dataset) -> Result<Option<DatasetPatch>, Problem> {
        let before = self.app.store.catalog.dataset_at(self.project, self.id, self.then).await?;
        let before = before.ok_or_else(|| Problem::not_found("dataset at that time"))?;
        let is_same = before.input_schema == dataset.input_schema
            && before.expected_output_schema == dataset.expected_output_schema;
        Ok((!is_same).then(|| schemas_patch(before.input_schema, before.expected_output_schema)))
    }

    /// Sets the earlier schemas, or reports the active items that do not match them.
    async fn restore_schemas(
        &self,
        dataset: &Dataset,
        schemas: &DatasetPatch,
        view: &mut RestoreView,
    ) -> Result<(), Problem> {
        if !self.is_dry_run {
            patch_dataset(self.app, self.project, self.id, schemas).await?;
            return Ok(());
        }
        let next = dataset.patched(schemas.clone(), self.app.web.clock.now());
        let impact = impact(self.app, self.project, &next, ExcessWork::Violates).await?;
        view.problems.extend(impact.violations.into_iter().map(|(item_id, violation)| {
            ViolationView {
                item_id,
                field: violation.field.to_owned(),
                pointer: violation.pointer,
                message: violation.message,
            }
        }));
        Ok(())
    }

    /// Restores schemas and items. If the current items do not match the earlier schemas, the schemas are removed while the
    /// items are restored; if that fails, the current schemas are set again, unless an item does not match them any more.
    async fn restore_all(
        &self,
        dataset: &Dataset,
        schemas: &DatasetPatch,
        view: &mut RestoreView,
    ) -> Result<(), Problem> {
        if self.is_dry_run {
            return self.restore_items(view, false).await;
        }
        let (app, project, id) = (self.app, self.project, self.id);
        match patch_dataset(app, project, id, schemas).await {
            Ok(_) => return self.restore_items(view, true).await,
            Err(problem) if problem.code() == Code::InvalidRequest => {}
            Err(problem) => return Err(problem),
        }
        patch_dataset(app, project, id, &schemas_patch(None, None)).await?;
        let restored = match self.restore_items(view, true).await {
            Ok(()) => patch_dataset(app, project, id, schemas).await.map(drop),
            Err(problem) => Err(problem),
        };
        if restored.is_err() {
            let (input, expected) = (&dataset.input_schema, &dataset.expected_output_schema);
            let current = schemas_patch(input.clone(), expected.clone());
            drop(patch_dataset(app, project, id, &current).await);
        }
        restored
    }

    /// Gives each item its earlier state. Without validation, the outcomes are only counted.
    async fn restore_items(
        &self,
        view: &mut RestoreView,
        is_validated: bool,
    ) -> Result<(), Problem> {
        let (catalog, project, id) = (&self.app.store.catalog, self.project, self.id);
        // Fixed, so that the changes of the restore are not compared themselves.
        let now = self.app.web.clock.now();
        let options = WriteOptions { is_dry_run: self.is_dry_run, ..WriteOptions::default() };
        let writer = self.app.item_writer();
        let mut after = String::new();
        loop {
            let instants = (self.then, now);
            let some =
                catalog.some_dataset_differences(project, id, instants, &after, PER_WRITE).await?;
            let Some(last) = some.last() else { break };
            after.clone_from(&last.id);
            if !is_validated {
                some.iter().for_each(|difference| view.counts.add(expected_result(difference)));
                continue;
            }
            let writes = self.writes(some).await?;
            for outcome in Box::pin(writer.write(project, id, &writes, options)).await? {
                view.counts.add(outcome.result);
                let n_left = MAX_LISTED.saturating_sub(view.problems.len());
                view.problems.extend(outcome.problems.into_iter().take(n_left).map(|problem| {
                    ViolationView {
                        item_id: outcome.id.clone(),
                        field: problem.field,
                        pointer: problem.pointer,
                        message: problem.message,
                    }
                }));
            }
        }
        Ok(())
    }

    /// The changes that give these items their earlier state.
    async fn writes(&self, some: Vec<ItemDifference>) -> Result<Vec<ItemWrite>, Problem> {
        let versions = some
            .iter()
            .filter_map(|difference| Some((difference.id.as_str(), difference.before?.valid_from)));
        let versions: Vec<(&str, Timestamp)> = versions.collect();
        let catalog = &self.app.store.catalog;
        let items = catalog.dataset_items_in_versions(self.project, &versions).await?;
        let mut items: HashMap<String, DatasetItem> =
            items.into_iter().map(|item| (item.id.clone(), item)).collect();
        let writes = some.into_iter().map(|difference| {
            let before = items.remove(&difference.id);
            restored(difference.id, before)
        });
        Ok(writes.collect())
    }
}

/// The outcome of the restore of an item that matches the schemas.
fn expected_result(difference: &ItemDifference) -> ItemResult {
    match (difference.before, difference.after) {
        (None, _) => ItemResult::Deleted,
        (Some(_), None) => ItemResult::Created,
        (Some(_), Some(_)) => ItemResult::Updated,
    }
}

async fn restore_items(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    Body(input): Body<RestoreInput>,
) -> Result<Answer<RestoreView>, Problem> {
    let parts = RestoredParts::parse(input.include.as_deref())?;
    let stored = find(&app, &caller, &name).await?;
    let then = Timestamp::parse(&input.version);
    let then = as_of(then.map_err(|error| Problem::body("version", error.to_string()))?);
    let restore = Restore {
        app: &app,
        project: &caller.project,
        id: &stored.dataset.id,
        then,
        is_dry_run: input.dry_run,
    };
    let schemas = match parts {
        RestoredParts::Items => None,
        RestoredParts::Schemas | RestoredParts::All => restore.schemas(&stored.dataset).await?,
    };
    let mut view = RestoreView {
        counts: OutcomeCounts::default(),
        has_restored_schemas: schemas.is_some(),
        problems: Vec::new(),
    };
    match (parts, &schemas) {
        (RestoredParts::Schemas, Some(schemas)) => {
            restore.restore_schemas(&stored.dataset, schemas, &mut view).await?;
        }
        (RestoredParts::Schemas, None) => {}
        (RestoredParts::All, Some(schemas)) => {
            Box::pin(restore.restore_all(&stored.dataset, schemas, &mut view)).await?;
        }
        (RestoredParts::Items | RestoredParts::All, _) => {
            Box::pin(restore.restore_items(&mut view, true)).await?;
        }
    }
    Ok(Answer(view))
}
