//! Comments on traces, observations, sessions and prompts.

use axum::extract::{Path, State};
use perpend_api_types::list::{Confirmation, NumberedList};
use perpend_catalog::comments::{Comment, CommentQuery};
use perpend_domain::access::Permission::{CommentRead, CommentWrite};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::list::Paging;
use perpend_domain::telemetry::SessionQuery;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Param, Params, must_be_one_of, param};
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::state::{App, Routes};

/// Type of a commented object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommentObject {
    Trace,
    Observation,
    Session,
    Prompt,
}

impl CommentObject {
    pub(super) const ALL: &'static [Self] =
        &[Self::Trace, Self::Observation, Self::Session, Self::Prompt];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "TRACE",
            Self::Observation => "OBSERVATION",
            Self::Session => "SESSION",
            Self::Prompt => "PROMPT",
        }
    }

    /// Parses the field `objectType` of a body.
    pub(super) fn read(text: &str, allowed: &[Self]) -> Result<Self, Problem> {
        let found = allowed.iter().find(|object| object.as_str() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = allowed.iter().map(|object| object.as_str()).collect();
            let message = must_be_one_of(&names, text);
            Problem::body("objectType", message)
        })
    }

    /// Whether the object exists in the project.
    pub(super) async fn exists(
        self,
        app: &App,
        project: &ProjectId,
        id: &str,
    ) -> Result<bool, Problem> {
        let store = &app.store;
        Ok(match self {
            Self::Trace => match TraceId::new(id) {
                Ok(id) => store.telemetry.trace(project, &id, false).await?.is_some(),
                Err(_) => false,
            },
            Self::Observation => match ObservationId::new(id) {
                Ok(id) => store.telemetry.observation(project, &id).await?.is_some(),
                Err(_) => false,
            },
            Self::Session => {
                let query = SessionQuery { id: Some(id.to_owned()), ..SessionQuery::default() };
                let found = store.telemetry.sessions(project, &query, Paging::default()).await?;
                !found.items.is_empty()
            }
            Self::Prompt => store.catalog.has_prompt_id(project, id).await?,
        })
    }
}

const LIST: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("objectType", "string", "`TRACE`, `OBSERVATION`, `SESSION` or `PROMPT`."),
    param("objectId", "string", "Id of the object; requires `objectType`."),
    param("traceId", "string", "Trace of the object. Comments without a trace are included."),
    param("authorUserId", "string", "Id of the author."),
];
const MAX_CONTENT_CHARS: usize = 5_000;

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listComments",
        "/api/public/comments",
        "List comments, newest first",
        CommentRead,
    );
    routes.add(list.query(LIST), list_comments);
    let create =
        Operation::post("createComment", "/api/public/comments", "Create a comment", CommentWrite);
    routes.add(create.body::<NewComment>(), create_comment);
    let get = Operation::get(
        "getComment",
        "/api/public/comments/{commentId}",
        "Get a comment",
        CommentRead,
    );
    routes.add(get, get_comment);
    let delete = Operation::delete(
        "deleteComment",
        "/api/v1/comments/{commentId}",
        "Delete a comment",
        CommentWrite,
    );
    routes.add(delete, delete_comment);
}

/// A new comment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewComment {
    /// Must be the project of the key.
    project_id: String,
    /// `TRACE`, `OBSERVATION`, `SESSION` or `PROMPT`.
    object_type: String,
    object_id: String,
    /// Trace of an observation. Without it the comment is shown in each trace with an observation of this id.
    trace_id: Option<String>,
    /// 1 to 5000 characters.
    content: String,
    author_user_id: Option<String>,
}

/// The id of a new comment.
#[derive(Debug, Serialize, ToSchema)]
struct CreatedComment {
    id: String,
}

/// A comment. It cannot be changed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Comment)]
struct CommentView {
    id: String,
    project_id: ProjectId,
    created_at: Timestamp,
    /// Equal to `createdAt`.
    updated_at: Timestamp,
    /// `TRACE`, `OBSERVATION`, `SESSION` or `PROMPT`.
    object_type: String,
    object_id: String,
    /// Trace of an observation, if the comment was created with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    trace_id: Option<String>,
    content: String,
    /// A member, or the public key of the browser session in which the comment was written.
    author_user_id: Option<String>,
}

fn view(project: &ProjectId, comment: &Comment) -> CommentView {
    CommentView {
        id: comment.id.clone(),
        project_id: project.clone(),
        created_at: comment.created_at,
        updated_at: comment.created_at,
        object_type: comment.object_type.clone(),
        object_id: comment.object_id.clone(),
        trace_id: comment.trace_id.clone(),
        content: comment.content.clone(),
        author_user_id: comment.author_user_id.clone(),
    }
}

/// Whether the object exists, for an observation with a trace in this trace.
async fn exists(
    app: &App,
    project: &ProjectId,
    object: CommentObject,
    input: &NewComment,
) -> Result<bool, Problem> {
    let Some(trace) = &input.trace_id else {
        return object.exists(app, project, &input.object_id).await;
    };
    let ids = TraceId::new(trace).ok().zip(ObservationId::new(&input.object_id).ok());
    let Some(key) = ids else {
        return Ok(false);
    };
    let found = app.store.telemetry.target_observations(project, &[key], false).await?;
    Ok(!found.is_empty())
}

async fn create_comment(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewComment>,
) -> Result<Answer<CreatedComment>, Problem> {
    if input.project_id != caller.project.as_str() {
        let message = "must be the project of the key";
        return Err(Problem::body("projectId", message));
    }
    let object = CommentObject::read(&input.object_type, CommentObject::ALL)?;
    let n_chars = input.content.chars().count();
    if n_chars == 0 || n_chars > MAX_CONTENT_CHARS {
        let message = format!("must have 1 to 5000 characters, got {n_chars}");
        return Err(Problem::body("content", message));
    }
    if input.trace_id.is_some() && object != CommentObject::Observation {
        return Err(Problem::body("traceId", "must be absent unless objectType is `OBSERVATION`"));
    }
    // A page has found the object in its trace. An id of an observation without its trace is searched for in all projects.
    if caller.session.is_none() && !exists(&app, &caller.project, object, &input).await? {
        return Err(Problem::not_found(&object.as_str().to_lowercase()));
    }
    if let Some(author) = &input.author_user_id
        && !app.store.catalog.is_member(&caller.project, author).await?
    {
        let message = "must be a member of this project";
        return Err(Problem::body("authorUserId", message));
    }
    let comment = Comment {
        id: app.web.ids.uuid().to_string(),
        object_type: object.as_str().to_owned(),
        object_id: input.object_id,
        trace_id: input.trace_id,
        content: input.content,
        author_user_id: input.author_user_id.or_else(|| caller.author().map(str::to_owned)),
        created_at: app.web.clock.now(),
    };
    app.store.catalog.create_comment(&caller.project, &comment).await?;
    Ok(Answer(CreatedComment { id: comment.id }))
}

async fn list_comments(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<CommentView>>, Problem> {
    let paging = page::paging(&params)?;
    let object = params.choice("objectType", CommentObject::ALL, CommentObject::as_str)?;
    let text = |name| params.text(name).map(str::to_owned);
    let query = CommentQuery {
        object_type: object.map(|object| object.as_str().to_owned()),
        object_id: text("objectId"),
        trace_id: text("traceId"),
        author_user_id: text("authorUserId"),
    };
    if query.object_id.is_some() && object.is_none() {
        return Err(Problem::query("objectId", "requires objectType"));
    }
    let found = app.store.catalog.comments(&caller.project, &query, paging).await?;
    Ok(page::list(paging, &found, |comment| view(&caller.project, comment)))
}

async fn get_comment(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<CommentView>, Problem> {
    let comment = app.store.catalog.comment(&caller.project, &id).await?;
    let comment = comment.ok_or_else(|| Problem::not_found("comment"))?;
    Ok(Answer(view(&caller.project, &comment)))
}

async fn delete_comment(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<Confirmation>, Problem> {
    let deleted = app.store.catalog.delete_comment(&caller.project, &id).await;
    deleted.map_err(|error| match error {
        perpend_db::Error::NotFound => Problem::not_found("comment"),
        error => error.into(),
    })?;
    Ok(Answer(Confirmation::new("Comment deleted")))
}
