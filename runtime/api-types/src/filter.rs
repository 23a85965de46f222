//! Filter conditions as sent.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::any_json::AnyJson;

/// The conditions of a filter as sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(pub Vec<Value>);

impl Conditions {
    /// Whether there are no conditions.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A condition of a filter.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = FilterCondition)]
pub struct Condition {
    /// Kind of the condition, such as `stringOptions`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The column.
    pub column: String,
    /// The member, for columns with members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key: Option<String>,
    /// Such as `any of`.
    pub operator: String,
    /// The value to compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    pub value: Option<Value>,
}
