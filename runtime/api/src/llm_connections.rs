//! LLM connections to model providers. Keys and header values are write-only.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use perpend_api_types::connection::{
    LlmConnection, LlmConnectionOptions, LlmConnectionWithOptions, NewLlmConnection,
};
use perpend_api_types::list::{Confirmation, NumberedList};
use perpend_catalog::connections::{Connection, ConnectionSecret, MAX_IN_FLIGHT};
use perpend_catalog::sealed::SealedAt;
use perpend_domain::access::Permission::{ConnectionRead, ConnectionWrite};
use perpend_domain::slots::ModelChoice;
use perpend_http_kit::answer::{Answer, Either};
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Params, must_be_one_of};
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde_json::{Value, json};

use crate::state::{App, Routes};

const LIST: &str = "/api/public/llm-connections";
const ONE: &str = "/api/v1/llm-connections/{connectionId}";
const DEFAULT: &str = "/api/v1/llm-connections/default-model";

/// Protocols of providers.
const ADAPTERS: [&str; 7] =
    ["anthropic", "openai", "azure", "bedrock", "google-vertex-ai", "google-ai-studio", "mock"];

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
        "Update the options of an LLM connection; evaluators that it paused resume",
        ConnectionWrite,
    );
    routes.add(patch.body::<LlmConnectionOptions>(), patch_connection);
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

fn check(input: &NewLlmConnection) -> Result<(), Problem> {
    let bad = |field, message: &str| Err(Problem::body(field, message));
    if input.provider.trim().is_empty() {
        return bad("provider", "must not be empty");
    }
    if !ADAPTERS.contains(&input.adapter.as_str()) {
        return bad("adapter", &must_be_one_of(&ADAPTERS, &input.adapter));
    }
    if input.secret_key.is_empty() {
        return bad("secretKey", "must not be empty");
    }
    if let Some(url) = &input.base_url {
        // `{model}` is replaced by the name of the model.
        let url = url.trim().replace("{model}", "model");
        perpend_http_client::check_address(&url).map_err(|why| Problem::body("baseURL", why))?;
    }
    if input.adapter == "azure" && input.base_url.is_none() {
        return bad("baseURL", "is required for azure");
    }
    let is_header = |name: &String| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let headers = input.extra_headers.iter().flat_map(BTreeMap::iter);
    for (name, value) in headers {
        if !is_header(name) || value.chars().any(char::is_control) {
            return bad("extraHeaders", &format!("must be valid headers, got {name:?}"));
        }
    }
    check_config(input)
}

fn check_config(input: &NewLlmConnection) -> Result<(), Problem> {
    if input.adapter == "mock" {
        // The configuration has the replies, which are validated when they are used.
        return Ok(());
    }
    let known: &[&str] = match input.adapter.as_str() {
        "bedrock" => &["region"],
        "google-vertex-ai" => &["location"],
        _ => &[],
    };
    let bad = |message: String| Err(Problem::body("config", message));
    let has_region = input.config.as_ref().is_some_and(|config| config.contains_key("region"));
    if input.adapter == "bedrock" && !has_region {
        return bad("must contain `region` for bedrock".to_owned());
    }
    let Some(config) = &input.config else {
        return Ok(());
    };
    if known.is_empty() {
        return bad(format!("must be absent for {}", input.adapter));
    }
    for (name, value) in config {
        if !known.contains(&name.as_str()) || value.as_str().is_none_or(str::is_empty) {
            let names = known.join("`, `");
            return bad(format!("must contain only the string `{names}` for {}", input.adapter));
        }
    }
    Ok(())
}

/// Three dots and the last characters of a key; none of a short key.
fn hint(key: &str) -> String {
    let n_chars = key.chars().count();
    let end: String = match n_chars {
        0..=8 => String::new(),
        n => key.chars().skip(n - 4).collect(),
    };
    format!("...{end}")
}

fn view(connection: &Connection) -> LlmConnection {
    let it = connection.clone();
    LlmConnection {
        id: it.id,
        provider: it.provider,
        adapter: it.adapter,
        display_secret_key: it.display_secret,
        base_url: it.base_url,
        custom_models: it.custom_models,
        with_default_models: it.with_default_models,
        extra_header_keys: it.extra_header_keys,
        config: it.config,
        created_at: it.created_at,
        updated_at: it.updated_at,
    }
}

fn with_options(connection: &Connection) -> LlmConnectionWithOptions {
    LlmConnectionWithOptions {
        connection: view(connection),
        max_in_flight: connection.max_in_flight,
        use_responses_api: connection.use_responses_api,
    }
}

async fn list_connections(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<LlmConnection>>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.connections(&caller.project, paging).await?;
    Ok(Answer(NumberedList::new(paging, &found, view)))
}

async fn put_connection(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewLlmConnection>,
) -> Result<Either<Answer<LlmConnection>, Answer<LlmConnection, 201>>, Problem> {
    check(&input)?;
    let headers = input.extra_headers.unwrap_or_default();
    let extra_header_keys = headers.keys().cloned().collect();
    let display_secret = hint(&input.secret_key);
    let secret = json!(ConnectionSecret { key: input.secret_key, headers });
    let owner = SealedAt::Connection(input.provider.clone()).owner(&caller.project);
    let sealed = app.vault.seal(&owner, &secret.to_string(), app.web.ids.as_ref());
    let secret = sealed.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "sealing failed");
        Problem::internal()
    })?;
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
    let response = view(stored.as_ref().unwrap_or(&connection));
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

async fn get_connection(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<LlmConnectionWithOptions>, Problem> {
    let catalog = &app.store.catalog;
    let found = catalog.connection_by_id(&caller.project, &id).await?;
    let found = found.ok_or_else(|| Problem::not_found("LLM connection"))?;
    Ok(Answer(with_options(&found)))
}

async fn patch_connection(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(options): Body<LlmConnectionOptions>,
) -> Result<Answer<LlmConnectionWithOptions>, Problem> {
    if options.max_in_flight.is_some_and(|n| !(1..=10_000).contains(&n)) {
        return Err(Problem::body("maxInFlight", "must be from 1 to 10000"));
    }
    let catalog = &app.store.catalog;
    let found = catalog.connection_by_id(&caller.project, &id).await?;
    let found = found.ok_or_else(|| Problem::not_found("LLM connection"))?;
    if options.use_responses_api == Some(true) && found.adapter != "openai" {
        let message = format!(
            "must be false for the adapter {}: only openai has the Responses API",
            found.adapter
        );
        return Err(Problem::body("useResponsesApi", message));
    }
    let changes = (options.max_in_flight, options.use_responses_api);
    let now = app.web.clock.now();
    let changed = catalog.set_connection_options(&caller.project, &id, changes, now);
    Ok(Answer(with_options(&changed.await.map_err(missing)?)))
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
