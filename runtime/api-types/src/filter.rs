//! Conditions of filters, as they are sent.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A filter as text: shown as it was sent, and parsed where it comes in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(pub Vec<Value>);

/// A condition of a filter.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = FilterCondition)]
pub struct Condition {
    /// Kind of the condition, such as `stringOptions`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is looked at.
    pub column: String,
    /// Of a column with members: which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key: Option<String>,
    /// Such as `any of`.
    pub operator: String,
    /// What it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub value: Option<Value>,
}
