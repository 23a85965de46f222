//! Evaluators: a plug-in with a validated configuration, in versions.
//!
//! The compat contract has two types, judge and code; the evaluators of this server are plug-ins. A judge is
//! an evaluator of the plug-in `perpend/judge`, a code evaluator one of the interpreter plug-in of its
//! language, and both are returned in the form of their creation. Clients of the
//! contract parse a closed union. They are recognized by a header and get any other plug-in
//! evaluator as a `code` evaluator whose source is a comment that names the plug-in; other clients
//! get `type: "plugin"`. All forms have the same further members.

mod check;
mod code;
mod config;
mod definition;
mod find;
pub(crate) mod grants;
mod input;
mod judge;
mod models;
mod preflight;
mod presets;
mod prompt;
mod rendered_prompt;
mod tested;
mod trial;
mod view;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use perpend_api_types::evaluator::{self as contract, NewEvaluator};
use perpend_api_types::list::{CursorList, CursorMeta, IdResponse};
use perpend_catalog::{self as catalog, Successor};
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::evaluation::{Evaluator, EvaluatorVersion};
use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Body, Param, Params, param};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde_json::Value;

use crate::evaluators::input::EvaluatorPatch;
use crate::state::{App, Routes};

pub(super) use definition::{Definition, check_mapping_for};
pub(super) use find::{checked_name, find, parse_id};
pub(super) use preflight::check as preflight;
pub(super) use tested::{adopt, tested_version};
pub(super) use trial::{LIMIT as TRIAL_LIMIT, checked_target, trial_item};

pub(super) const PAGE: &[Param] = &[
    param("limit", "integer", "Rows per page, 1 to 100; 50 when absent."),
    param("cursor", "string", "`meta.cursor` of the previous page."),
];

const LIST: &str = "/api/public/v2/evaluators";
const ONE: &str = "/api/public/v2/evaluators/{evaluatorId}";
const VERSIONS: &str = "/api/public/v2/evaluators/{evaluatorId}/versions";

pub(super) fn routes(routes: &mut Routes) {
    let create = Operation::post(
        "createEvaluator",
        LIST,
        "Create an evaluator: a judge, source code, or a plug-in",
        EvaluatorWrite,
    )
    .body::<NewEvaluator>();
    routes.add(create, create_evaluator);
    let list =
        Operation::get("listEvaluators", LIST, "List evaluators, newest first", EvaluatorRead)
            .query(PAGE);
    routes.add(list, list_evaluators);
    routes
        .add(Operation::get("getEvaluator", ONE, "Get an evaluator", EvaluatorRead), get_evaluator);
    let patch = Operation::patch(
        "updateEvaluator",
        ONE,
        "Rename an evaluator, or replace its definition by a new version",
        EvaluatorWrite,
    );
    routes.add(patch.body::<EvaluatorPatch>(), patch_evaluator);
    let delete = Operation::delete(
        "deleteEvaluator",
        ONE,
        "Delete an evaluator; its scores are kept",
        EvaluatorWrite,
    );
    routes.add(delete, delete_evaluator);
    let versions = Operation::get(
        "listEvaluatorVersions",
        VERSIONS,
        "List the versions of an evaluator, newest first",
        EvaluatorRead,
    )
    .query(PAGE);
    routes.add(versions, list_versions);
    presets::routes(routes);
    trial::routes(routes);
    rendered_prompt::routes(routes);
    check::routes(routes);
}

/// Whether an evaluator has a type in the response to some client.
pub(super) fn kind_of(version: &EvaluatorVersion, kind: &str) -> bool {
    // Clients of the closed union get every plug-in as code.
    kind == "code" || view::changes_kind(version, kind).is_none()
}

/// The response for an evaluator to the sender of these headers.
pub(super) async fn evaluator_view(
    app: &App,
    project: &ProjectId,
    evaluator: &Evaluator,
    headers: &HeaderMap,
) -> Result<contract::Evaluator, Problem> {
    let uses = app.store.catalog.evaluator_uses(project, &evaluator.id).await?;
    let is_closed = view::is_closed_client(headers);
    Ok(view::evaluator(evaluator, uses, is_closed))
}

/// Creates an evaluator from the body of a request. The model of a judge is tested first.
pub(super) async fn make(
    app: &App,
    project: &ProjectId,
    body: Value,
) -> Result<Evaluator, Problem> {
    let input = input::split(body)?;
    let new = catalog::NewEvaluator {
        id: parse_id(&app.web.ids.uuid().to_string())?,
        name: checked_name(&input.name)?,
        description: input.description,
        version: input.definition.check(app, project).await?,
    };
    let draft = trial::unsaved(app, new.name.clone(), &new.version)?;
    preflight(app, project, [draft]).await?;
    let catalog = &app.store.catalog;
    let made = catalog.create_evaluator(project, &new, app.web.clock.now());
    Ok(made.await?)
}

async fn create_evaluator(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    Body(body): Body<Value>,
) -> Result<Answer<contract::Evaluator>, Problem> {
    let made = make(&app, &caller.project, body).await?;
    evaluator_view(&app, &caller.project, &made, &headers).await.map(Answer)
}

async fn list_evaluators(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    params: Params,
) -> Result<Answer<CursorList<contract::Evaluator>>, Problem> {
    let limit = params.int("limit", 1, 100, 50)?;
    let after = cursor::position(&params)?;
    let page = app.store.catalog.evaluators(&caller.project, after.as_ref(), limit).await?;
    let is_closed = view::is_closed_client(&headers);
    let mut data = Vec::with_capacity(page.items.len());
    for evaluator in &page.items {
        let uses = app.store.catalog.evaluator_uses(&caller.project, &evaluator.id).await?;
        data.push(view::evaluator(evaluator, uses, is_closed));
    }
    Ok(Answer(CursorList { data, meta: cursor::meta(page.next.as_ref()) }))
}

async fn get_evaluator(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Answer<contract::Evaluator>, Problem> {
    let evaluator = find(&app, &caller.project, &id).await?;
    evaluator_view(&app, &caller.project, &evaluator, &headers).await.map(Answer)
}

/// Changes an evaluator.
pub(super) async fn change(
    app: &App,
    project: &ProjectId,
    current: Evaluator,
    patch: EvaluatorPatch,
) -> Result<Evaluator, Problem> {
    let mut evaluator = current;
    let number = evaluator.version.number;
    if patch.if_version.is_some_and(|known| known != number) {
        let message = format!("the evaluator has version {number} meanwhile: nothing was changed");
        return Err(Problem::new(Code::Conflict, message).with("field", "ifVersion"));
    }
    let now = app.web.clock.now();
    let name = patch.name.as_deref().map(checked_name).transpose()?;
    let version = match (&patch.kind, patch.rest.is_empty()) {
        (None, true) => None,
        (None, false) => {
            return Err(Problem::body(
                "type",
                "is required with a definition, which is replaced as a whole",
            ));
        }
        (Some(kind), _) => {
            let definition = input::of_kind(Some(kind), &Value::Object(patch.rest))?;
            if let Some(message) = view::changes_kind(&evaluator.version, kind) {
                return Err(Problem::body("type", message));
            }
            let version = definition.check(app, project).await?;
            let draft = trial::unsaved(app, evaluator.name.clone(), &version)?;
            preflight(app, project, [draft]).await?;
            Some(version)
        }
    };
    let catalog = &app.store.catalog;
    if let Some(version) = version {
        let id = &evaluator.id;
        evaluator = match patch.if_version {
            None => catalog.add_evaluator_version(project, id, &version, now).await?,
            Some(follows) => {
                let successor = Successor { evaluator: id.clone(), follows, version };
                catalog.add_successors(project, &[successor], now).await?;
                find(app, project, id.as_str()).await?
            }
        };
        if evaluator.paused.is_some() {
            catalog.unpause_evaluator(project, &evaluator.id, now).await?;
            evaluator.paused = None;
        }
    }
    if name.is_some() || patch.description.is_some() {
        let description = patch.description.as_deref().map(Some);
        let (id, name) = (&evaluator.id, name.as_deref());
        let renamed = catalog.rename_evaluator(project, id, name, description, now);
        evaluator = renamed.await?;
    }
    Ok(evaluator)
}

async fn patch_evaluator(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    Path(id): Path<String>,
    Body(patch): Body<EvaluatorPatch>,
) -> Result<Answer<contract::Evaluator>, Problem> {
    let current = find(&app, &caller.project, &id).await?;
    let changed = change(&app, &caller.project, current, patch).await?;
    evaluator_view(&app, &caller.project, &changed, &headers).await.map(Answer)
}

/// Deletes an evaluator; its scores are kept.
pub(super) async fn delete(
    app: &App,
    project: &ProjectId,
    id: &str,
) -> Result<EvaluatorId, Problem> {
    let evaluator = find(app, project, id).await?;
    let catalog = &app.store.catalog;
    let deleted = catalog.delete_evaluator(project, &evaluator.id, app.web.clock.now());
    deleted.await?;
    Ok(evaluator.id)
}

async fn delete_evaluator(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<IdResponse<EvaluatorId>>, Problem> {
    let id = delete(&app, &caller.project, &id).await?;
    Ok(Answer(IdResponse { id }))
}

async fn list_versions(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    params: Params,
    Path(id): Path<String>,
) -> Result<Answer<CursorList<contract::EvaluatorVersion>>, Problem> {
    let evaluator = find(&app, &caller.project, &id).await?;
    let limit = params.int("limit", 1, 100, 50)?;
    let before = match cursor::decode(&params)? {
        None => None,
        Some(value) => {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            Some(number.ok_or_else(cursor::invalid_cursor)?)
        }
    };
    let found =
        app.store.catalog.evaluator_versions(&caller.project, &evaluator.id, before, limit).await?;
    let is_closed = view::is_closed_client(&headers);
    let view = |version| view::version(version, is_closed);
    // A full page may be the last one; then the next is empty.
    let is_full = found.len() as u32 == limit;
    let last = found.last().filter(|last| is_full && 1 < last.number);
    Ok(Answer(CursorList {
        data: found.iter().map(view).collect(),
        meta: CursorMeta {
            cursor: last.map(|last| cursor::encode(&last.number.into())),
            limit: None,
        },
    }))
}
