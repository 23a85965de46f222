//! Connections to model providers, and the default evaluation model.

use std::collections::BTreeMap;

use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::any_json::AnyJson;

/// A connection to a model provider. The key and the values of the extra headers are never returned.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmConnection {
    /// Stays the same when the connection of the provider is replaced.
    pub id: String,
    /// Unique within the project.
    pub provider: String,
    /// `anthropic`, `openai`, `azure`, `bedrock`, `google-vertex-ai`, `google-ai-studio` or `mock`.
    pub adapter: String,
    /// Three dots and the last four characters of the key; for keys of up to eight characters only the dots.
    pub display_secret_key: String,
    /// `null` for the default address of the provider.
    #[serde(rename = "baseURL")]
    #[schema(rename = "baseURL")]
    pub base_url: Option<String>,
    /// Models in addition to those of the adapter.
    pub custom_models: Vec<String>,
    /// Whether the models of the adapter are offered.
    pub with_default_models: bool,
    /// Names of the extra headers.
    pub extra_header_keys: Vec<String>,
    /// Settings of the adapter, such as a region.
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    pub config: Option<Value>,
    /// Creation time of the first connection of the provider.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// A connection with members that the compatible API does not have.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmConnectionWithOptions {
    /// As in the compatible API.
    #[serde(flatten)]
    pub connection: LlmConnection,
    /// Most concurrent requests, until the provider limits them.
    pub max_in_flight: u32,
    /// Whether an `openai` endpoint is called with the Responses API instead of chat completions.
    pub use_responses_api: bool,
}

/// Changed options of a connection; absent members are unchanged.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LlmConnectionOptions {
    /// Most concurrent requests: 1 to 10,000.
    #[serde(default)]
    pub max_in_flight: Option<u32>,
    /// Use the Responses API; only for the adapter `openai`.
    #[serde(default)]
    pub use_responses_api: Option<bool>,
}

/// A new connection.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewLlmConnection {
    /// The name of the connection, by which models refer to it.
    pub provider: String,
    /// `anthropic`, `openai`, `azure`, `bedrock`, `google-vertex-ai`, `google-ai-studio` or `mock`.
    pub adapter: String,
    /// Never returned.
    pub secret_key: String,
    /// The address of the provider; the default of the adapter when absent.
    #[serde(rename = "baseURL")]
    #[schema(rename = "baseURL")]
    pub base_url: Option<String>,
    /// Models in addition to those of the adapter.
    pub custom_models: Option<Vec<String>>,
    /// Whether the models of the adapter are offered; `true` when absent.
    pub with_default_models: Option<bool>,
    /// Values are never returned.
    pub extra_headers: Option<BTreeMap<String, String>>,
    /// Settings of the adapter, such as a region.
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    pub config: Option<serde_json::Map<String, Value>>,
}
