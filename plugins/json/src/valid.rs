//! `valid-json`: whether the output is JSON, and satisfies an optional schema.

use crate::schema::{errors, parsed, verdict};
use perpend_plugin::prelude::*;
use serde_json::Value;

/// 1 when the output is JSON.
pub struct ValidJson;

/// The accepted JSON.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ValidJsonConfig {
    /// A JSON Schema that the output must satisfy. By default any object or array passes.
    #[schemars(schema_with = "optional_schema")]
    pub schema: Option<Value>,
}

fn optional_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": ["object", "boolean", "null"] })
}

impl Evaluator for ValidJson {
    const ID: &'static str = "valid-json";
    const TITLE: &'static str = "Valid JSON";
    const DESCRIPTION: &'static str = "1 when the output is a JSON object or array (RFC 8259); with a \
        schema, when it is any JSON that satisfies the schema. `format` is not asserted.";
    const SCORES: &'static [ScoreSpec] = &[ScoreSpec::share("valid_json", "1 when valid, else 0")];
    type Config = ValidJsonConfig;

    fn evaluate(item: &Item, config: &ValidJsonConfig) -> Result<Vec<Score>, EvalError> {
        let found = match (parsed(item.output()?), &config.schema) {
            (Err(why), _) => vec![format!("the output is not JSON: {why}")],
            (Ok(value), Some(schema)) => errors(schema, false, &value)?,
            (Ok(value), None) if value.is_container() => Vec::new(),
            (Ok(_), None) => vec!["the output must be an object or an array".to_owned()],
        };
        Ok(vec![verdict("valid_json", found)])
    }
}
