//! Annotation queues: traces, observations and sessions to be reviewed.

use axum::extract::{Path, State};
use perpend_api_types::list::NumberedList;
use perpend_catalog::queues::{Queue, QueueItem};
use perpend_domain::access::Permission::{QueueRead, QueueWork, QueueWrite};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Param, Params, must_be_one_of, param};
use perpend_http_kit::page;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::comments::CommentObject;
use crate::state::{App, Routes};

const QUEUES: &str = "/api/public/annotation-queues";
const QUEUE: &str = "/api/public/annotation-queues/{queueId}";
const ITEMS: &str = "/api/public/annotation-queues/{queueId}/items";
const ITEM: &str = "/api/public/annotation-queues/{queueId}/items/{itemId}";
const ASSIGNMENTS: &str = "/api/public/annotation-queues/{queueId}/assignments";

const LIST_ITEMS: &[Param] =
    &[page::PAGE, page::LIMIT, param("status", "string", "`PENDING` or `COMPLETED`.")];

/// Objects that can be queued.
const OBJECTS: &[CommentObject] =
    &[CommentObject::Trace, CommentObject::Observation, CommentObject::Session];

pub(super) fn routes(routes: &mut Routes) {
    let list =
        Operation::get("listQueues", QUEUES, "List annotation queues, newest first", QueueRead);
    routes.add(list.query(page::PAGED), list_queues);
    let create = Operation::post("createQueue", QUEUES, "Create an annotation queue", QueueWrite);
    routes.add(create.body::<NewQueue>(), create_queue);
    routes.add(Operation::get("getQueue", QUEUE, "Get an annotation queue", QueueRead), get_queue);
    let list = Operation::get(
        "listQueueItems",
        ITEMS,
        "List the items of a queue, newest first",
        QueueRead,
    );
    routes.add(list.query(LIST_ITEMS), list_items);
    let create = Operation::post("createQueueItem", ITEMS, "Add an item to a queue", QueueWrite);
    routes.add(create.body::<NewItem>().unrecorded(), create_item);
    routes.add(Operation::get("getQueueItem", ITEM, "Get an item of a queue", QueueRead), get_item);
    let update = Operation::patch("updateQueueItem", ITEM, "Set the status of an item", QueueWork);
    routes.add(update.body::<ItemPatch>(), update_item);
    routes.add(
        Operation::delete("deleteQueueItem", ITEM, "Remove an item from a queue", QueueWrite)
            .unrecorded(),
        delete_item,
    );
    let assign = Operation::post(
        "createQueueAssignment",
        ASSIGNMENTS,
        "Assign a member to a queue",
        QueueWrite,
    );
    routes.add(assign.body::<Assignment>(), assign_member);
    let unassign = Operation::delete(
        "deleteQueueAssignment",
        ASSIGNMENTS,
        "Remove the assignment of a member to a queue",
        QueueWrite,
    );
    routes.add(unassign.body::<Assignment>(), unassign_member);
}

/// A new queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewQueue {
    name: String,
    description: Option<String>,
    /// At least one.
    score_config_ids: Vec<String>,
}

/// A new item of a queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewItem {
    object_id: String,
    /// `TRACE`, `OBSERVATION` or `SESSION`.
    object_type: String,
    /// `PENDING`, the default, or `COMPLETED`.
    status: Option<String>,
}

/// Changes of an item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ItemPatch {
    /// `PENDING` or `COMPLETED`.
    status: Option<String>,
}

/// An assigned member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Assignment {
    user_id: String,
}

/// An annotation queue.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AnnotationQueue)]
struct QueueView {
    id: String,
    name: String,
    description: Option<String>,
    /// Configs of the scores to be given.
    score_config_ids: Vec<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Whether an item was reviewed.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
enum QueueItemStatus {
    Pending,
    Completed,
}

/// An item of an annotation queue.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AnnotationQueueItem)]
struct ItemView {
    id: String,
    queue_id: String,
    object_id: String,
    /// `TRACE`, `OBSERVATION` or `SESSION`.
    object_type: String,
    status: QueueItemStatus,
    completed_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// A deleted item of an annotation queue.
#[derive(Debug, Serialize, ToSchema)]
struct DeletedQueueItem {
    /// Always true.
    success: bool,
    /// Human-readable.
    message: &'static str,
}

/// An assignment of a member to an annotation queue.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct QueueAssignment {
    user_id: String,
    queue_id: String,
    project_id: ProjectId,
}

/// A removed assignment.
#[derive(Debug, Serialize, ToSchema)]
struct DeletedQueueAssignment {
    /// Always true.
    success: bool,
}

fn queue_view(queue: &Queue) -> QueueView {
    QueueView {
        id: queue.id.clone(),
        name: queue.name.clone(),
        description: queue.description.clone(),
        score_config_ids: queue.score_config_ids.clone(),
        created_at: queue.created_at,
        updated_at: queue.updated_at,
    }
}

fn item_view(item: &QueueItem) -> ItemView {
    ItemView {
        id: item.id.clone(),
        queue_id: item.queue_id.clone(),
        object_id: item.object_id.clone(),
        object_type: item.object_type.clone(),
        status: match item.completed_at {
            Some(_) => QueueItemStatus::Completed,
            None => QueueItemStatus::Pending,
        },
        completed_at: item.completed_at,
        created_at: item.created_at,
        updated_at: item.updated_at,
    }
}

/// Parses a status; true for `COMPLETED`.
fn is_completed(status: &str) -> Result<bool, String> {
    match status {
        "COMPLETED" => Ok(true),
        "PENDING" => Ok(false),
        other => Err(must_be_one_of(&["PENDING", "COMPLETED"], other)),
    }
}

fn status_of(status: Option<&str>) -> Result<Option<bool>, Problem> {
    let read = status.map(is_completed).transpose();
    read.map_err(|message| Problem::body("status", message))
}

async fn find_queue(app: &App, project: &ProjectId, id: &str) -> Result<Queue, Problem> {
    let queue = app.store.catalog.queue(project, id).await?;
    queue.ok_or_else(|| Problem::not_found("annotation queue"))
}

async fn find_item(
    app: &App,
    project: &ProjectId,
    (queue, id): &(String, String),
) -> Result<QueueItem, Problem> {
    let item = app.store.catalog.queue_item(project, queue, id).await?;
    item.ok_or_else(|| Problem::not_found("annotation queue item"))
}

async fn list_queues(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<QueueView>>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.queues(&caller.project, paging).await?;
    Ok(page::list(paging, &found, queue_view))
}

async fn create_queue(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewQueue>,
) -> Result<Answer<QueueView>, Problem> {
    if input.name.trim().is_empty() {
        return Err(Problem::body("name", "must not be empty"));
    }
    if input.score_config_ids.is_empty() {
        let message = "must contain at least one score config";
        return Err(Problem::body("scoreConfigIds", message));
    }
    let configs =
        app.store.catalog.score_configs_by_id(&caller.project, &input.score_config_ids).await?;
    let is_unknown = |id: &&String| configs.iter().all(|config| config.id != **id);
    if let Some(unknown) = input.score_config_ids.iter().find(is_unknown) {
        let message = format!("unknown score config {unknown:?}");
        return Err(Problem::body("scoreConfigIds", message));
    }
    let now = app.web.clock.now();
    let queue = Queue {
        id: app.web.ids.uuid().to_string(),
        name: input.name,
        description: input.description,
        score_config_ids: input.score_config_ids,
        created_at: now,
        updated_at: now,
    };
    let made = app.store.catalog.create_queue(&caller.project, &queue).await;
    made.map_err(|error| match error {
        // Clients of this endpoint expect 400 for a name in use.
        perpend_db::Error::Conflict(_) => {
            Problem::body("name", "an annotation queue of this name exists")
        }
        error => error.into(),
    })?;
    Ok(Answer(queue_view(&queue)))
}

async fn get_queue(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<QueueView>, Problem> {
    let queue = find_queue(&app, &caller.project, &id).await?;
    Ok(Answer(queue_view(&queue)))
}

async fn list_items(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Answer<NumberedList<ItemView>>, Problem> {
    let paging = page::paging(&params)?;
    let status = params.text("status").map(is_completed).transpose();
    let status = status.map_err(|message| Problem::query("status", message))?;
    let queue = find_queue(&app, &caller.project, &id).await?;
    let found = app.store.catalog.queue_items(&caller.project, &queue.id, status, paging).await?;
    Ok(page::list(paging, &found, item_view))
}

async fn create_item(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<NewItem>,
) -> Result<Answer<ItemView>, Problem> {
    let object = CommentObject::read(&input.object_type, OBJECTS)?;
    if input.object_id.is_empty() {
        return Err(Problem::body("objectId", "must not be empty"));
    }
    let is_completed = status_of(input.status.as_deref())?.unwrap_or(false);
    let queue = find_queue(&app, &caller.project, &id).await?;
    let now = app.web.clock.now();
    let item = QueueItem {
        id: app.web.ids.uuid().to_string(),
        queue_id: queue.id,
        object_id: input.object_id,
        object_type: object.as_str().to_owned(),
        completed_at: is_completed.then_some(now),
        created_at: now,
        updated_at: now,
    };
    app.store.catalog.create_queue_item(&caller.project, &item).await?;
    Ok(Answer(item_view(&item)))
}

async fn get_item(
    State(app): State<App>,
    caller: Act,
    Path(ids): Path<(String, String)>,
) -> Result<Answer<ItemView>, Problem> {
    let item = find_item(&app, &caller.project, &ids).await?;
    Ok(Answer(item_view(&item)))
}

async fn update_item(
    State(app): State<App>,
    caller: Act,
    Path(ids): Path<(String, String)>,
    Body(input): Body<ItemPatch>,
) -> Result<Answer<ItemView>, Problem> {
    let status = status_of(input.status.as_deref())?;
    let mut item = find_item(&app, &caller.project, &ids).await?;
    if let Some(is_completed) = status {
        let now = app.web.clock.now();
        item.completed_at = is_completed.then(|| item.completed_at.unwrap_or(now));
        item.updated_at = now;
        app.store.catalog.update_queue_item(&caller.project, &item).await?;
    }
    Ok(Answer(item_view(&item)))
}

async fn delete_item(
    State(app): State<App>,
    caller: Act,
    Path((queue, id)): Path<(String, String)>,
) -> Result<Answer<DeletedQueueItem>, Problem> {
    let deleted = app.store.catalog.delete_queue_item(&caller.project, &queue, &id);
    deleted.await.map_err(|error| match error {
        perpend_db::Error::NotFound => Problem::not_found("annotation queue item"),
        error => error.into(),
    })?;
    let message = "Annotation queue item deleted successfully";
    Ok(Answer(DeletedQueueItem { success: true, message }))
}

async fn assign_member(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<Assignment>,
) -> Result<Answer<QueueAssignment>, Problem> {
    let queue = find_queue(&app, &caller.project, &id).await?;
    let is_member = app.store.catalog.is_member(&caller.project, &input.user_id);
    if !is_member.await? {
        return Err(Problem::new(Code::NotFound, "no such member of this project"));
    }
    let now = app.web.clock.now();
    app.store.catalog.assign_queue(&caller.project, &queue.id, &input.user_id, now).await?;
    Ok(Answer(QueueAssignment {
        user_id: input.user_id,
        queue_id: queue.id,
        project_id: caller.project,
    }))
}

async fn unassign_member(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<Assignment>,
) -> Result<Answer<DeletedQueueAssignment>, Problem> {
    let queue = find_queue(&app, &caller.project, &id).await?;
    app.store.catalog.unassign_queue(&caller.project, &queue.id, &input.user_id).await?;
    Ok(Answer(DeletedQueueAssignment { success: true }))
}
