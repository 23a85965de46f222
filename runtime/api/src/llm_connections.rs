//! LLM connections: how model providers are reached. Keys and header values go in and never come out.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use perpend_catalog::connections::Connection;
use perpend_catalog::sealed::SealedAt;
use perpend_domain::access::Permission::{ConnectionRead, ConnectionWrite};
use perpend_web::auth::Act;
use perpend_web::extract::{Body, Params};
use perpend_web::page;
use perpend_web::problem::Problem;
use perpend_web::routes::Operation;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::state::{App, Routes};

const LIST: &str = "/api/public/llm-connections";

/// Protocols that providers speak.
const ADAPTERS: [&str; 6] = [
    "anthropic",
    "openai",
    "azure",
    "bedrock",
    "google-vertex-ai",
    "google-ai-studio",
];

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listConnections",
        LIST,
        "LLM connections by page, newest first",
        ConnectionRead,
    );
    routes.add(list.query(page::PAGED), list_connections);
    let put = Operation::put(
        "putConnection",
        LIST,
        "Make or replace the connection of a provider",
        ConnectionWrite,
    )
    .also(&[201]);
    routes.add(put.body::<ConnectionInput>(), put_connection);
    let delete = Operation::delete(
        "deleteConnection",
        "/api/public/llm-connections/{connectionId}",
        "Delete an LLM connection",
        ConnectionWrite,
    );
    routes.add(delete, delete_connection);
}

/// A connection as clients send it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ConnectionInput {
    /// The name models are asked for under.
    provider: String,
    /// anthropic, openai, azure, bedrock, google-vertex-ai or google-ai-studio.
    adapter: String,
    /// Never shown again.
    secret_key: String,
    #[serde(rename = "baseURL")]
    #[schema(rename = "baseURL")]
    base_url: Option<String>,
    custom_models: Option<Vec<String>>,
    with_default_models: Option<bool>,
    /// Values are never shown again.
    extra_headers: Option<BTreeMap<String, String>>,
    #[schema(value_type = Option<Object>)]
    config: Option<Map<String, Value>>,
}

/// What is encrypted.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Secret {
    /// The provider's key.
    pub(crate) key: String,
    /// Further headers.
    pub(crate) headers: BTreeMap<String, String>,
}

impl ConnectionInput {
    fn check(&self) -> Result<(), Problem> {
        let bad = |field, message: &str| Err(Problem::body(field, message));
        if self.provider.trim().is_empty() {
            return bad("provider", "is empty");
        }
        if !ADAPTERS.contains(&self.adapter.as_str()) {
            return bad("adapter", &format!("is none of {}", ADAPTERS.join(", ")));
        }
        if self.secret_key.is_empty() {
            return bad("secretKey", "is empty");
        }
        if let Some(url) = &self.base_url
            && !["http://", "https://"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
        {
            return bad("baseURL", "an http or https address is expected");
        }
        if self.adapter == "azure" && self.base_url.is_none() {
            return bad("baseURL", "azure needs it");
        }
        let is_header = |name: &String| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        let headers = self.extra_headers.iter().flat_map(BTreeMap::iter);
        for (name, value) in headers {
            if !is_header(name) || value.chars().any(char::is_control) {
                return bad(
                    "extraHeaders",
                    &format!("{name:?} is no header with its value"),
                );
            }
        }
        self.check_config()
    }

    fn check_config(&self) -> Result<(), Problem> {
        let known: &[&str] = match self.adapter.as_str() {
            "bedrock" => &["region"],
            "google-vertex-ai" => &["location"],
            _ => &[],
        };
        let bad = |message: String| Err(Problem::body("config", message));
        let is_region_there = self
            .config
            .as_ref()
            .is_some_and(|config| config.contains_key("region"));
        if self.adapter == "bedrock" && !is_region_there {
            return bad("bedrock needs {\"region\": ...}".to_owned());
        }
        let Some(config) = &self.config else {
            return Ok(());
        };
        if known.is_empty() {
            return bad(format!("{} has no config", self.adapter));
        }
        for (name, value) in config {
            if !known.contains(&name.as_str()) || value.as_str().is_none_or(str::is_empty) {
                return bad(format!(
                    "{} takes {} as text",
                    self.adapter,
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }
}

/// Three dots and the end of the key, of short keys nothing.
fn hint(key: &str) -> String {
    let n_chars = key.chars().count();
    let end: String = match n_chars {
        0..=8 => String::new(),
        n => key.chars().skip(n - 4).collect(),
    };
    format!("...{end}")
}

fn view(connection: &Connection) -> Value {
    json!({
        "id": connection.id,
        "provider": connection.provider,
        "adapter": connection.adapter,
        "displaySecretKey": connection.display_secret,
        "baseURL": connection.base_url,
        "customModels": connection.custom_models,
        "withDefaultModels": connection.with_default_models,
        "extraHeaderKeys": connection.extra_header_keys,
        "config": connection.config,
        "createdAt": connection.created_at,
        "updatedAt": connection.updated_at,
    })
}

async fn list_connections(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let paging = page::paging(&params)?;
    let found = app
        .store
        .catalog
        .connections(&caller.project, paging)
        .await?;
    Ok(page::answer(paging, &found, view))
}

async fn put_connection(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<ConnectionInput>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    input.check()?;
    let headers = input.extra_headers.unwrap_or_default();
    let extra_header_keys = headers.keys().cloned().collect();
    let display_secret = hint(&input.secret_key);
    let secret = json!(Secret {
        key: input.secret_key,
        headers,
    });
    let owner = SealedAt::Connection(input.provider.clone()).owner(&caller.project);
    let sealed = app
        .vault
        .seal(&owner, &secret.to_string(), app.web.ids.as_ref());
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
        created_at: now,
        updated_at: now,
    };
    let is_new = app
        .store
        .catalog
        .put_connection(&caller.project, &connection)
        .await?;
    let stored = app
        .store
        .catalog
        .connection(&caller.project, &connection.provider)
        .await?;
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(view(stored.as_ref().unwrap_or(&connection)))))
}

async fn delete_connection(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let deleted = app
        .store
        .catalog
        .delete_connection(&caller.project, &id)
        .await;
    deleted.map_err(|error| match error {
        perpend_sql::Error::NotFound => Problem::not_found("LLM connection"),
        error => error.into(),
    })?;
    Ok(Json(json!({ "message": "LLM connection deleted" })))
}
