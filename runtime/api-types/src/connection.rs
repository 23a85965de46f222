//! Connections to model providers, and the default evaluation model.

use std::collections::BTreeMap;

use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A connection to a model provider. The key and the values of the extra headers never come back.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmConnection {
    /// Kept when the connection of the provider is replaced.
    pub id: String,
    /// Unique within the project.
    pub provider: String,
    /// `anthropic`, `openai`, `azure`, `bedrock`, `google-vertex-ai`, `google-ai-studio` or `mock`.
    pub adapter: String,
    /// Three dots and the last four characters of the key; of keys of up to eight characters the dots alone.
    pub display_secret_key: String,
    /// `null` where the provider's own address is used.
    #[serde(rename = "baseURL")]
    #[schema(rename = "baseURL")]
    pub base_url: Option<String>,
    /// Models besides those of the adapter.
    pub custom_models: Vec<String>,
    /// Whether the models of the adapter are offered.
    pub with_default_models: bool,
    /// Names of the extra headers.
    pub extra_header_keys: Vec<String>,
    /// What the adapter needs to know, such as a region.
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub config: Option<Value>,
    /// When the provider got its first connection.
    pub created_at: Timestamp,
    /// Of the last change.
    pub updated_at: Timestamp,
}

/// A connection with the members that the compatible API lacks.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmConnectionWithOptions {
    /// As the compatible API shows it.
    #[serde(flatten)]
    pub connection: LlmConnection,
    /// The most requests at a time, until the provider itself limits them.
    pub max_in_flight: u32,
    /// Whether an `openai` endpoint is asked by the protocol `responses` instead of chat completions.
    pub use_responses_api: bool,
}

/// Changed options of a connection; what is absent stays.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LlmConnectionOptions {
    /// 1 to 10,000 requests at a time.
    #[serde(default)]
    pub max_in_flight: Option<u32>,
    /// Ask by the protocol `responses`; of adapter `openai` alone.
    #[serde(default)]
    pub use_responses_api: Option<bool>,
}

/// A connection as clients send it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewLlmConnection {
    /// The name models are asked for under.
    pub provider: String,
    /// `anthropic`, `openai`, `azure`, `bedrock`, `google-vertex-ai`, `google-ai-studio` or `mock`.
    pub adapter: String,
    /// Never shown again.
    pub secret_key: String,
    /// Where the provider is, when it is not where the adapter looks.
    #[serde(rename = "baseURL")]
    #[schema(rename = "baseURL")]
    pub base_url: Option<String>,
    /// Models besides those of the adapter.
    pub custom_models: Option<Vec<String>>,
    /// Whether the models of the adapter are offered; they are when absent.
    pub with_default_models: Option<bool>,
    /// Values are never shown again.
    pub extra_headers: Option<BTreeMap<String, String>>,
    /// What the adapter needs to know, such as a region.
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub config: Option<serde_json::Map<String, Value>>,
}
