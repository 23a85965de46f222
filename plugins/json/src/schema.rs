//! JSON Schema: the checks that `valid-json` and `json-schema` share, and the latter.

use perpend_plugin::prelude::*;
use serde_json::Value;

/// How many errors are told; the first ones are enough to see what is wrong.
const MAX_ERRORS: usize = 20;

/// What of a value breaks the schema: JSON Pointers with reasons, none when all is well.
///
/// The dialect is the one `$schema` names, 2020-12 without it. References to other documents are refused:
/// there is nowhere to load them from.
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
    let told = errors.map(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "the value" } else { &place };
        format!("{place}: {error}")
    });
    Ok(told.collect())
}

/// The value for the schema engine. A number beyond a float becomes the largest one.
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

/// The output as JSON: text is parsed, other values are taken as they are.
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
    /// Let `format` be a check and not only a remark.
    #[serde(default)]
    pub assert_format: bool,
}

/// The schema of schemas, as far as a form needs it.
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

/// 1 without errors, else 0; the first error is the comment.
pub(crate) fn verdict(name: &str, errors: Vec<String>) -> Score {
    let Some(first) = errors.first() else {
        return Score::share(name, 1.0).comment("valid");
    };
    let comment = first.clone();
    Score::share(name, 0.0).comment(comment).with("errors", errors)
}
