//! Items of datasets. Each version is validated against the schemas of the dataset.

use axum::extract::{Path, State};
use perpend_api_types::list::{Confirmation, NumberedList, PageMeta};
use perpend_catalog::datasets::{ItemQuery, ItemVersion};
use perpend_domain::access::Permission::{DatasetRead, DatasetWrite};
use perpend_domain::dataset::{
    Dataset, DatasetItem, ItemPatch, ItemStatus, MAX_ITEM_ID_CHARS, as_of,
};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{Cursor, Paging};
use perpend_http_kit::answer::{Answer, Streamed};
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Param, Params, must_be_one_of, param};
use perpend_http_kit::page;
use perpend_http_kit::parts::{self, ArrayWriter, BodyParts};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::schema::{self, ExcessWork, Violation};
use super::view::{self, ItemVersionView, ItemView};
use super::writer::busy;
use crate::media::{Origin, reference};
use crate::state::{App, Routes};

const ALL: &str = "/api/public/dataset-items";
const ONE: &str = "/api/public/dataset-items/{id}";
const VERSIONS: &str = "/api/v1/dataset-items/{id}/versions";

/// Concurrent changes after which the request is refused.
const MAX_TRIES: u32 = 20;

const LIST: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("datasetName", "string", "Name of the dataset."),
    param("sourceTraceId", "string", "Id of the source trace."),
    param("sourceObservationId", "string", "Id of the source observation."),
    param("version", "date-time", "Items as of this time; requires `datasetName`."),
];

pub(super) fn routes(routes: &mut Routes) {
    let create = Operation::post(
        "putDatasetItem",
        ALL,
        "Create an item of a dataset, or its next version",
        DatasetWrite,
    );
    routes.add(create.body::<ItemInput>().unrecorded(), put_item);
    let list =
        Operation::get("listDatasetItems", ALL, "List active items, newest first", DatasetRead)
            .query(LIST);
    routes.add(list, list_items);
    routes.add(
        Operation::get("getDatasetItem", ONE, "Get the current version of an item", DatasetRead),
        get_item,
    );
    routes.add(
        Operation::delete(
            "deleteDatasetItem",
            ONE,
            "Delete an item; its versions are kept",
            DatasetWrite,
        )
        .unrecorded(),
        delete_item,
    );
    let versions = Operation::get(
        "listDatasetItemVersions",
        VERSIONS,
        "List all versions of an item, newest first",
        DatasetRead,
    );
    routes.add(versions.query(page::PAGED), list_versions);
}

/// An item of a dataset. Absent members of an existing item are kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ItemInput {
    dataset_name: String,
    /// 1 to 255 characters; generated when absent.
    id: Option<String>,
    /// Any JSON value that matches the schema of the dataset.
    input: Option<Value>,
    /// Any JSON value that matches the schema of the dataset.
    expected_output: Option<Value>,
    /// Any JSON value.
    metadata: Option<Value>,
    source_trace_id: Option<String>,
    source_observation_id: Option<String>,
    /// `ACTIVE` or `ARCHIVED`.
    status: Option<String>,
}

pub(super) fn is_id(id: &str, max_chars: usize) -> bool {
    !id.is_empty() && id.chars().count() <= max_chars && !id.chars().any(char::is_control)
}

/// The message for an invalid id of an item.
pub(super) fn invalid_id(id: &str) -> String {
    format!("must have 1 to 255 characters, without control characters, got {id:?}")
}

impl ItemInput {
    fn check(self) -> Result<(Option<String>, ItemPatch), Problem> {
        if let Some(id) = self.id.as_deref().filter(|id| !is_id(id, MAX_ITEM_ID_CHARS)) {
            return Err(Problem::body("id", invalid_id(id)));
        }
        let sources = [
            ("sourceTraceId", &self.source_trace_id),
            ("sourceObservationId", &self.source_observation_id),
        ];
        for (field, source) in sources {
            if source.as_deref().is_some_and(|id| !is_id(id, perpend_domain::ids::MAX_ID_CHARS)) {
                return Err(Problem::body(field, perpend_domain::ids::InvalidId.to_string()));
            }
        }
        let status = match self.status.as_deref() {
            None => None,
            Some("ACTIVE") => Some(ItemStatus::Active),
            Some("ARCHIVED") => Some(ItemStatus::Archived),
            Some(other) => {
                let message = must_be_one_of(&["ACTIVE", "ARCHIVED"], other);
                return Err(Problem::body("status", message));
            }
        };
        let patch = ItemPatch {
            status,
            input: self.input,
            expected_output: self.expected_output,
            metadata: self.metadata,
            source_trace_id: self.source_trace_id,
            source_observation_id: self.source_observation_id,
        };
        Ok((self.id, patch))
    }
}

async fn put_item(
    State(app): State<App>,
    caller: Act,
    origin: Origin,
    Body(input): Body<ItemInput>,
) -> Result<Answer<ItemView>, Problem> {
    let name = input.dataset_name.clone();
    let (id, patch) = input.check()?;
    let id = id.unwrap_or_else(|| app.web.ids.uuid().to_string());
    let _turn = app.writers.enter(&caller.project, "dataset item", &id).await;
    for _ in 0..MAX_TRIES {
        let stored = super::find::find(&app, &caller, &name).await?;
        let current = app.store.catalog.dataset_item(&caller.project, &id).await?;
        if current.as_ref().is_some_and(|known| known.item.dataset_id != stored.dataset.id) {
            return Err(Problem::new(Code::Conflict, "an item of another dataset has this id"));
        }
        let now = app.web.clock.now();
        let seen = current.as_ref().map(|version| version.item.valid_from);
        let item = match current {
            Some(ItemVersion { item, is_deleted: false }) => {
                let next = item.patched(patch.clone(), now);
                if next == item {
                    return item_view(&app, &caller.project, &origin, &item).await.map(Answer);
                }
                next
            }
            // A deleted item starts without the members of its last version.
            Some(ItemVersion { item, is_deleted: true }) => {
                let moment = item.next_moment(now);
                DatasetItem::new(id.clone(), &stored.dataset, patch.clone(), moment)
            }
            None => DatasetItem::new(id.clone(), &stored.dataset, patch.clone(), now),
        };
        check(&app, &caller.project, &stored.dataset, &item).await?;
        let version = ItemVersion { item, is_deleted: false };
        let revision = stored.revisions.schema;
        if app.store.put_dataset_item(&caller.project, &version, seen, revision).await? {
            let view = item_view(&app, &caller.project, &origin, &version.item).await;
            return view.map(Answer);
        }
    }
    Err(busy())
}

/// Validates an item against the schemas of its dataset.
async fn check(
    app: &App,
    project: &ProjectId,
    dataset: &Dataset,
    item: &DatasetItem,
) -> Result<(), Problem> {
    let items = std::slice::from_ref(item);
    let found = schema::violations(&app.engine, project, dataset, items, ExcessWork::Fails).await?;
    let found: Vec<Violation> = found.into_iter().flatten().collect();
    if found.is_empty() {
        return Ok(());
    }
    let issues = found.iter().map(Violation::to_issue);
    let listed = found.iter().map(Violation::to_json);
    Err(Problem::issues(Code::InvalidBody, issues).with_list("violations", listed))
}

async fn list_items(
    State(app): State<App>,
    caller: Act,
    origin: Origin,
    params: Params,
) -> Result<Streamed<NumberedList<ItemView>>, Problem> {
    let paging = page::paging(&params)?;
    let at = params.time("version")?.map(as_of);
    let dataset_id = match params.text("datasetName") {
        Some(name) => Some(super::find::find(&app, &caller, name).await?.dataset.id),
        None if at.is_some() => {
            return Err(Problem::query("version", "requires datasetName"));
        }
        None => None,
    };
    let text = |name| params.text(name).map(str::to_owned);
    let query = ItemQuery {
        dataset_id,
        source_trace_id: text("sourceTraceId"),
        source_observation_id: text("sourceObservationId"),
        at,
        with_archived: false,
    };
    let (catalog, project) = (&app.store.catalog, caller.project);
    let n_total = catalog.count_dataset_items(&project, &query).await?;
    let page = ItemPageParts {
        app,
        project,
        origin,
        query,
        after: None,
        n_left: paging.limit,
        paging,
        meta: PageMeta::new(paging, n_total),
        members: ArrayWriter::default(),
    };
    parts::answer(parts::LIST.to_vec(), page).await.map(Streamed::new)
}

/// The remaining parts of a page of items.
struct ItemPageParts {
    app: App,
    project: ProjectId,
    origin: Origin,
    query: ItemQuery,
    after: Option<Cursor>,
    n_left: u32,
    paging: Paging,
    meta: PageMeta,
    members: ArrayWriter,
}

impl BodyParts for ItemPageParts {
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        let offset = match self.after {
            Some(_) => 0,
            None => self.paging.offset(),
        };
        let catalog = &self.app.store.catalog;
        let found = catalog.some_dataset_items(
            &self.project,
            &self.query,
            self.after.as_ref(),
            (offset, self.n_left),
        );
        let (found, is_cut) = found.await?;
        let items = || found.iter().map(|version| &version.item);
        let references = reference::of_items(&self.app, &self.project, &self.origin, items());
        for (item, references) in items().zip(references.await?) {
            let mut view = view::item(item);
            view.media_references = references;
            self.members.push(out, &view)?;
        }
        self.after = items().next_back().map(|item| Cursor::new(item.created_at, item.id.clone()));
        let n_found = u32::try_from(found.len()).unwrap_or(u32::MAX);
        self.n_left = self.n_left.saturating_sub(n_found);
        if is_cut && 0 < self.n_left {
            return Ok(false);
        }
        parts::end_list(out, &self.meta)?;
        Ok(true)
    }
}

/// An item with its media references.
async fn item_view(
    app: &App,
    project: &ProjectId,
    origin: &Origin,
    item: &DatasetItem,
) -> Result<ItemView, Problem> {
    let mut view = view::item(item);
    let references = reference::of_items(app, project, origin, std::iter::once(item)).await?;
    view.media_references = references.into_iter().next().unwrap_or_default();
    Ok(view)
}

/// The current version of an item.
async fn find(app: &App, project: &ProjectId, id: &str) -> Result<DatasetItem, Problem> {
    match app.store.catalog.dataset_item(project, id).await? {
        Some(ItemVersion { item, is_deleted: false }) => Ok(item),
        _ => Err(Problem::not_found("dataset item")),
    }
}

async fn get_item(
    State(app): State<App>,
    caller: Act,
    origin: Origin,
    Path(id): Path<String>,
) -> Result<Answer<ItemView>, Problem> {
    let item = find(&app, &caller.project, &id).await?;
    let view = item_view(&app, &caller.project, &origin, &item).await;
    view.map(Answer)
}

async fn delete_item(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<Confirmation>, Problem> {
    let _turn = app.writers.enter(&caller.project, "dataset item", &id).await;
    for _ in 0..MAX_TRIES {
        let item = find(&app, &caller.project, &id).await?;
        let stored = app.store.catalog.dataset_by_id(&caller.project, &item.dataset_id).await?;
        let revision = stored.ok_or_else(|| Problem::not_found("dataset item"))?.revisions.schema;
        let seen = item.valid_from;
        let gone = ItemVersion {
            item: DatasetItem { valid_from: item.next_moment(app.web.clock.now()), ..item },
            is_deleted: true,
        };
        if app.store.put_dataset_item(&caller.project, &gone, Some(seen), revision).await? {
            return Ok(Answer(Confirmation::new("Dataset item successfully deleted")));
        }
    }
    Err(busy())
}

async fn list_versions(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Answer<NumberedList<ItemVersionView>>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.dataset_item_versions(&caller.project, &id, paging).await?;
    if found.n_total == 0 {
        return Err(Problem::not_found("dataset item"));
    }
    Ok(page::list(paging, &found, |version| ItemVersionView {
        item: view::item(&version.item),
        is_deleted: version.is_deleted,
    }))
}
