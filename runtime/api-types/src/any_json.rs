//! Values whose structure is up to the client.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Any JSON value: the structure is up to the client that wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct AnyJson(pub Value);

impl From<&Value> for AnyJson {
    fn from(value: &Value) -> Self {
        Self(value.clone())
    }
}

impl From<Value> for AnyJson {
    fn from(value: Value) -> Self {
        Self(value)
    }
}
