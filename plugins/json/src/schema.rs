//! `json-schema`, and the validation that it shares with `valid-json`.

use perpend_plugin::prelude::*;
use serde_json::Value;

/// The maximum number of reported errors.
const MAX_ERRORS: usize = 20;

/// The violations of the schema: JSON Pointers with reasons.
///
/// `$schema` names the dialect; the default is 2020-12. References to other documents are refused, because they cannot be
/// loaded.
pub(crate) fn errors(
    schema: &Value,
    formats: bool,
    value: &Json,
) -> Result<Vec<String>, EvalError> {
    let validator = jsonschema::options()
        .should_validate_formats(formats)
        .build(schema)
        .map_err(|why| EvalError::invalid_config(format!("schema: {why}")))?;
    let value = plain(value);
    let errors = validator.iter_errors(&value).take(MAX_ERRORS);
    let messages = errors.map(|error| {
        let path = error.instance_path().to_string();
        let path = if path.is_empty() { "the value" } else { &path };
        format!("{path}: {error}")
    });
    Ok(messages.collect())
}

/// The value for the validator. A number beyond the range of a float becomes the largest float.
fn plain(value: &Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(yes) => Value::Bool(*yes),
        Json::Text(text) => Value::String(text.clone()),
        Json::Array(values) => Value::Array(values.iter().map(plain).collect()),
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), plain(value)));
            Value::Object(members.collect())
        }
        Json::Number(number) => {
            let text = number.as_str();
            let float = || number.as_f64().clamp(f64::MIN, f64::MAX).into();
            let whole = text.parse::<i64>().map(Value::from);
            whole.or_else(|_| text.parse::<u64>().map(Value::from)).unwrap_or_else(|_| float())
        }
    }
}

/// The output as JSON; text is parsed.
pub(crate) fn parsed(output: &Payload) -> Result<Json, perpend_plugin::InvalidJson> {
    Json::parse(output.as_text())
}

/// 1 when the output satisfies a schema.
pub struct JsonSchema;

/// The schema.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JsonSchemaConfig {
    /// A JSON Schema; draft 2020-12 unless `$schema` names another.
    #[schemars(schema_with = "object_or_boolean")]
    pub schema: Value,
    /// Assert `format` instead of treating it as an annotation.
    #[serde(default)]
    pub assert_format: bool,
}

/// The schema of a JSON Schema, as needed for a form.
pub(crate) fn object_or_boolean(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": ["object", "boolean"] })
}

impl Evaluator for JsonSchema {
    const ID: &'static str = "json-schema";
    const TITLE: &'static str = "JSON Schema";
    const DESCRIPTION: &'static str = "1 when the output is JSON and satisfies the schema, else 0. The first errors are in the metadata.";
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("json_schema", "1 when the output satisfies the schema")];
    type Config = JsonSchemaConfig;

    fn evaluate(item: &Item, config: &JsonSchemaConfig) -> Result<Vec<Score>, EvalError> {
        let found = match parsed(item.output()?) {
            Ok(value) => errors(&config.schema, config.assert_format, &value)?,
            Err(why) => vec![format!("the output is not JSON: {why}")],
        };
        Ok(vec![verdict("json_schema", found)])
    }
}

/// 1 without errors, else 0 with the first error as the comment.
pub(crate) fn verdict(name: &str, errors: Vec<String>) -> Score {
    let Some(first) = errors.first() else {
        return Score::share(name, 1.0).comment("valid");
    };
    let comment = first.clone();
    Score::share(name, 0.0).comment(comment).with("errors", errors)
}
