//! LLM connections to model providers. Keys and header values are write-only.

mod changes;
mod check;
mod test;
mod usage;
mod view;

use axum::extract::{Path, State};
use perpend_api_types::connection::{
    ConnectionTest, ConnectionTestInput, LlmConnection, LlmConnectionOptions, LlmConnectionUsage,
    LlmConnectionWithOptions, NewLlmConnection,
};
use perpend_api_types::list::{Confirmation, NumberedList};
use perpend_catalog::connections::{Connection, ConnectionSecret, MAX_IN_FLIGHT};
use perpend_domain::access::Permission::{ConnectionRead, ConnectionWrite};
use perpend_domain::ids::ProjectId;
use perpend_domain::slots::ModelChoice;
use perpend_http_kit::answer::{Answer, Either};
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Params};
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde_json::Value;

use crate::state::{App, Routes};

const LIST: &str = "/api/public/llm-connections";
const ONE: &str = "/api/v1/llm-connections/{connectionId}";
const DEFAULT: &str = "/api/v1/llm-connections/default-model";
const USAGE: &str = "/api/v1/llm-connections/{connectionId}/usage";
const TEST: &str = "/api/v1/llm-connections/{connectionId}/test";

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listConnections",
        LIST,
        "List LLM connections, newest first",
        ConnectionRead,
    );
    routes.add(list.query(page::PAGED), list_connections);
    let put = Operation::put(
        "putConnection",
        LIST,
        "Create or replace the connection of a provider",
        ConnectionWrite,
    );
    routes.add(put.body::<NewLlmConnection>(), put_connection);
    let delete = Operation::delete(
        "deleteConnection",
        "/api/public/llm-connections/{connectionId}",
        "Delete an LLM connection",
        ConnectionWrite,
    );
    routes.add(delete, delete_connection);
    let get = Operation::get(
        "getConnectionOptions",
        ONE,
        "Get an LLM connection with its options",
        ConnectionRead,
    );
    routes.add(get, get_connection);
    let patch = Operation::patch(
        "updateConnectionOptions",
        ONE,
        "Change an LLM connection and its options; evaluators that it paused resume",
        ConnectionWrite,
    );
    routes.add(patch.body::<LlmConnectionOptions>(), patch_connection);
    usage_routes(routes);
    let get = Operation::get(
        "getDefaultModel",
        DEFAULT,
        "Get the default evaluation model",
        ConnectionRead,
    );
    routes.add(get, get_default_model);
    let put = Operation::put(
        "putDefaultModel",
        DEFAULT,
        "Set the default evaluation model; evaluators that were paused without it resume",
        ConnectionWrite,
    );
    routes.add(put.body::<ModelChoice>(), put_default_model);
    let delete = Operation::delete(
        "deleteDefaultModel",
        DEFAULT,
        "Delete the default evaluation model; evaluators that use it are paused",
        ConnectionWrite,
    );
    routes.add(delete, delete_default_model);
}

/// Use and test of connections.
fn usage_routes(routes: &mut Routes) {
    let list = Operation::get(
        "listConnectionUsage",
        "/api/v1/llm-connections",
        "List LLM connections, newest first, with their costs of seven days and the evaluators that use them",
        ConnectionRead,
    );
    routes.add(list.query(page::PAGED), list_usage);
    let one = Operation::get(
        "getConnectionUsage",
        USAGE,
        "Get an LLM connection with its costs of seven days and the evaluators that use it",
        ConnectionRead,
    );
    routes.add(one, get_usage);
    let test = Operation::post(
        "testConnection",
        TEST,
        "Test an LLM connection with one small request",
        ConnectionWrite,
    );
    routes.add(test.body::<ConnectionTestInput>().unrecorded(), test_connection);
}

async fn list_connections(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<LlmConnection>>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.connections(&caller.project, paging).await?;
    Ok(Answer(NumberedList::new(paging, &found, view::connection)))
}

async fn put_connection(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewLlmConnection>,
) -> Result<Either<Answer<LlmConnection>, Answer<LlmConnection, 201>>, Problem> {
    check::new_connection(&input)?;
    let headers = input.extra_headers.unwrap_or_default();
    let extra_header_keys = headers.keys().cloned().collect();
    let display_secret = view::hint(&input.secret_key);
    let secret = ConnectionSecret { key: input.secret_key, headers };
    let secret = changes::seal(&app, &caller.project, &input.provider, &secret)?;
    let now = app.web.clock.now();
    let connection = Connection {
        id: app.web.ids.uuid().to_string(),
        provider: input.provider,
        adapter: input.adapter,
        secret,
        display_secret,
        base_url: input.base_url,
        custom_models: input.custom_models.unwrap_or_default(),
        with_default_models: input.with_default_models.unwrap_or(true),
        extra_header_keys,
        config: input.config.map(Value::Object),
        max_in_flight: MAX_IN_FLIGHT,
        use_responses_api: false,
        created_at: now,
        updated_at: now,
    };
    let (catalog, project) = (&app.store.catalog, &caller.project);
    let before = catalog.connection(project, &connection.provider).await?;
    let is_new = app.store.catalog.put_connection(&caller.project, &connection).await?;
    let stored = app.store.catalog.connection(&caller.project, &connection.provider).await?;
    // Header values are not part of the keys of cached replies, but a gateway may depend on them.
    let has_headers = |one: &Connection| !one.extra_header_keys.is_empty();
    if let Some(before) = before.filter(|before| has_headers(before) || has_headers(&connection)) {
        app.store.ledger.delete_replies(project, &before.id).await?;
    }
    let response = view::connection(stored.as_ref().unwrap_or(&connection));
    Ok(match is_new {
        true => Either::Other(Answer(response)),
        false => Either::One(Answer(response)),
    })
}

async fn delete_connection(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<Confirmation>, Problem> {
    let deleted =
        app.store.catalog.delete_connection(&caller.project, &id, app.web.clock.now()).await;
    deleted.map_err(missing)?;
    app.store.ledger.delete_replies(&caller.project, &id).await?;
    Ok(Answer(Confirmation::new("LLM connection deleted")))
}

fn missing(error: perpend_db::Error) -> Problem {
    match error {
        perpend_db::Error::NotFound => Problem::not_found("LLM connection"),
        error => error.into(),
    }
}

async fn find(app: &App, project: &ProjectId, id: &str) -> Result<Connection, Problem> {
    let found = app.store.catalog.connection_by_id(project, id).await?;
    found.ok_or_else(|| Problem::not_found("LLM connection"))
}

async fn get_connection(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<LlmConnectionWithOptions>, Problem> {
    let found = find(&app, &caller.project, &id).await?;
    Ok(Answer(view::with_options(&found)))
}

async fn patch_connection(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(options): Body<LlmConnectionOptions>,
) -> Result<Answer<LlmConnectionWithOptions>, Problem> {
    let found = find(&app, &caller.project, &id).await?;
    let changed = changes::change(&app, &caller.project, found, options).await?;
    Ok(Answer(view::with_options(&changed)))
}

async fn list_usage(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<LlmConnectionUsage>>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.connections(&caller.project, paging).await?;
    let facts = usage::UsageFacts::read(&app, &caller.project).await?;
    let usage = |connection: &Connection| facts.usage(&app, &caller.project, connection);
    Ok(Answer(NumberedList::new(paging, &found, usage)))
}

async fn get_usage(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<LlmConnectionUsage>, Problem> {
    let found = find(&app, &caller.project, &id).await?;
    let facts = usage::UsageFacts::read(&app, &caller.project).await?;
    Ok(Answer(facts.usage(&app, &caller.project, &found)))
}

async fn test_connection(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<ConnectionTestInput>,
) -> Result<Answer<ConnectionTest>, Problem> {
    let found = find(&app, &caller.project, &id).await?;
    test::test(&app, &caller.project, &found, input).await.map(Answer)
}

async fn get_default_model(
    State(app): State<App>,
    caller: Act,
) -> Result<Answer<ModelChoice>, Problem> {
    let found = app.store.catalog.default_model(&caller.project).await?;
    found.map(Answer).ok_or_else(|| Problem::not_found("default evaluation model"))
}

async fn put_default_model(
    State(app): State<App>,
    caller: Act,
    Body(choice): Body<ModelChoice>,
) -> Result<Answer<ModelChoice>, Problem> {
    if choice.model.trim().is_empty() {
        return Err(Problem::body("model", "must not be empty"));
    }
    let catalog = &app.store.catalog;
    let connection = catalog.connection(&caller.project, &choice.provider).await?;
    if connection.is_none() {
        let message = format!(
            "unknown LLM connection {:?}: create it with PUT /api/public/llm-connections",
            choice.provider
        );
        return Err(Problem::body("provider", message));
    }
    let now = app.web.clock.now();
    catalog.put_default_model(&caller.project, &choice, now).await?;
    Ok(Answer(choice))
}

async fn delete_default_model(
    State(app): State<App>,
    caller: Act,
) -> Result<Answer<Confirmation>, Problem> {
    let now = app.web.clock.now();
    let deleted = app.store.catalog.delete_default_model(&caller.project, now);
    deleted.await.map_err(|error| match error {
        perpend_db::Error::NotFound => Problem::not_found("default evaluation model"),
        error => error.into(),
    })?;
    Ok(Answer(Confirmation::new("default evaluation model deleted")))
}
