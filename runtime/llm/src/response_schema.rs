//! Response schemas: the forms in which they are sent, and the validation of replies.

use std::sync::Arc;

use perpend_json_schema::Schema;
use perpend_worker_protocol::host_call::Message;
use serde_json::{Map, Value};

use crate::extract::{self, Embedded, PromptData};
use crate::failure::{ErrorClass, Failure};
use crate::observer::ReplyValidator;
use crate::plain_schema;

/// Maximum number of violations in a re-ask.
const MAX_VIOLATIONS: usize = 20;

/// Keywords that providers reject in schemas they enforce. They are validated here.
const STRIPPED: [&str; 17] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minProperties",
    "maxProperties",
    "default",
    "$schema",
    "$id",
];
/// Stripped keywords whose bounds are added to the description for the model.
const DESCRIBED: [&str; 10] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minLength",
    "maxLength",
];

/// A schema that a reply must match.
pub(crate) struct ResponseSchema {
    text: String,
    pub(crate) original: Value,
    /// Without the keywords that providers reject.
    pub(crate) reduced: Value,
    /// Whether each object requires all of its members, as OpenAI's strict mode demands.
    pub(crate) is_strict: bool,
    check: Check,
}

enum Check {
    Local(Box<Schema>),
    Remote(Arc<dyn ReplyValidator>),
}

impl ResponseSchema {
    pub(crate) fn new(text: &str, validator: &Arc<dyn ReplyValidator>) -> Result<Self, Failure> {
        let invalid = |reason: &str| {
            let message = format!("invalid response schema: {reason}");
            Failure::new(ErrorClass::InvalidInput, message)
        };
        let schema: Value =
            serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))?;
        if !schema.is_object() {
            return Err(invalid("it must be a JSON object"));
        }
        let check = match plain_schema::is_plain_schema(text) {
            true => {
                let compiled = Schema::of_2020_12(&schema);
                Check::Local(Box::new(compiled.map_err(|error| invalid(&error.to_string()))?))
            }
            false => Check::Remote(validator.clone()),
        };
        let reduced = stripped(&schema);
        Ok(Self {
            text: text.to_owned(),
            is_strict: is_strict(&reduced),
            reduced,
            original: schema,
            check,
        })
    }

    /// Whether providers can enforce it: they require an object at the root.
    pub(crate) fn is_object(&self) -> bool {
        self.original.get("type").is_some_and(|of| of == "object")
    }

    /// The instruction for methods in which the provider does not enforce the schema.
    pub(crate) fn instruction(&self) -> String {
        format!(
            "Reply with one JSON value that matches this JSON Schema, and with nothing else:\n{}",
            self.text
        )
    }

    /// Finds the answer in the tool arguments and the text of a reply: the only value that matches the schema, outside
    /// thinking and quotations, and last in the text.
    ///
    /// The inner error has the reasons why there is no answer, for the model. The outer error means that the schema is invalid.
    pub(crate) async fn find(
        &self,
        (calls, text): (&[&str], &str),
        prompt: &[Message],
    ) -> Result<Result<String, Vec<String>>, Failure> {
        let mut call_violations = None;
        let mut matches = Matches::default();
        for arguments in calls {
            match self.violations(arguments).await? {
                found if found.is_empty() => matches.add(arguments),
                found => _ = call_violations.get_or_insert(found),
            }
        }
        if let Some(found) = matches.single() {
            return Ok(found);
        }
        let found = match extract::entire_value(text) {
            Some(whole) => match self.violations(&whole).await? {
                found if found.is_empty() => Ok(whole),
                found => Err(found),
            },
            None => self.find_embedded(text, prompt).await?,
        };
        Ok(found.map_err(|found| call_violations.unwrap_or(found)))
    }

    /// Finds the answer in a reply with other text.
    async fn find_embedded(
        &self,
        text: &str,
        prompt: &[Message],
    ) -> Result<Result<String, Vec<String>>, Failure> {
        const ALONE: &str = "reply with the final JSON value alone";
        let because = |reason: &str| Ok(Err(vec![format!("{reason}; {ALONE}")]));
        let properties = self.original.get("properties").and_then(Value::as_object);
        let names: Vec<&str> = properties
            .map(|properties| properties.keys().map(String::as_str).collect())
            .unwrap_or_default();
        let embedded = Embedded::of(text, &names);
        if embedded.has_more {
            return because("the reply has too many JSON values");
        }
        if embedded.candidates.is_empty() {
            return because(match embedded.is_cut {
                true => "the JSON value of the reply is incomplete",
                false => "the reply contains no JSON object",
            });
        }
        let prompt_data = PromptData::of(prompt);
        let mut matches = Matches::default();
        let mut last = None;
        let mut violations = Vec::new();
        for candidate in &embedded.candidates {
            let is_announced = !prompt_data.is_fenced && embedded.is_announced(candidate);
            if prompt_data.contains(candidate.text) && !is_announced {
                violations = vec![format!("the reply quotes JSON of the prompt; {ALONE}")];
                continue;
            }
            match self.violations(candidate.text).await? {
                found if found.is_empty() => {
                    matches.add(candidate.text);
                    last = Some(candidate);
                    violations.clear();
                }
                found => violations = found,
            }
        }
        let (Some(found), Some(last)) = (matches.single(), last) else {
            return Ok(Err(violations));
        };
        if !violations.is_empty() {
            return Ok(Err(violations));
        }
        if embedded.is_cut {
            return because("the last JSON value of the reply is incomplete");
        }
        let doubtful = words(&self.original);
        if found.is_ok() && !embedded.is_final(last, &doubtful) {
            return because("it is unclear whether the JSON value in the text is the answer");
        }
        Ok(found)
    }

    async fn violations(&self, candidate: &str) -> Result<Vec<String>, Failure> {
        if plain_schema::MAX_VALUE_BYTES < candidate.len() && matches!(self.check, Check::Local(_))
        {
            let limit = plain_schema::MAX_VALUE_BYTES >> 10;
            return Ok(vec![format!("the reply is larger than {limit} KiB")]);
        }
        let value = match extract::parse(candidate) {
            Ok(value) => value,
            Err(error) => return Ok(vec![error]),
        };
        let schema = match &self.check {
            Check::Local(schema) => schema,
            Check::Remote(validator) => {
                let found = validator.check(&self.text, candidate).await;
                return found.map_err(|reason| {
                    let message = format!("invalid response schema: {reason}");
                    Failure::new(ErrorClass::InvalidInput, message)
                });
            }
        };
        let faults = schema.violations(&value, MAX_VIOLATIONS).into_iter();
        let sentence = |fault: perpend_json_schema::Violation| match fault.pointer.as_str() {
            "" => fault.message,
            pointer => format!("{pointer}: {}", fault.message),
        };
        Ok(faults.map(sentence).collect())
    }
}

/// Values that match the schema.
#[derive(Default)]
struct Matches(Vec<(Value, String)>);

impl Matches {
    fn add(&mut self, text: &str) {
        let value = extract::parse(text).unwrap_or_default();
        if !self.0.iter().any(|(known, _)| *known == value) {
            self.0.push((value, text.to_owned()));
        }
    }

    /// The only match; an error when there are several different ones; `None` when there is none.
    fn single(&self) -> Option<Result<String, Vec<String>>> {
        match self.0.as_slice() {
            [] => None,
            [(_, text)] => Some(Ok(text.clone())),
            several => {
                let n = several.len();
                let reason = format!(
                    "the reply has {n} different JSON values that match the schema; reply with the final one alone"
                );
                Some(Err(vec![reason]))
            }
        }
    }
}

/// Names of members and values of enums. Text that contains them may refer to the answer.
fn words(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    match schema {
        Value::Object(members) => {
            let names = members.get("properties").and_then(Value::as_object);
            found.extend(names.into_iter().flat_map(Map::keys).cloned());
            let entries = members.get("enum").and_then(Value::as_array);
            let texts = entries.into_iter().flatten().filter_map(Value::as_str);
            found.extend(texts.filter(|text| !text.is_empty()).map(str::to_owned));
            found.extend(members.values().flat_map(words));
        }
        Value::Array(entries) => found.extend(entries.iter().flat_map(words)),
        _ => {}
    }
    found
}

/// Removes the keywords that providers reject, and adds their bounds to the descriptions.
fn stripped(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let mut reduced = Map::new();
    for (keyword, value) in members {
        if STRIPPED.contains(&keyword.as_str()) {
            continue;
        }
        let value = match keyword.as_str() {
            "properties" | "$defs" | "definitions" => each_member(value),
            "items" | "additionalProperties" | "not" => stripped(value),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => each_entry(value),
            _ => value.clone(),
        };
        reduced.insert(keyword.clone(), value);
    }
    let bounds = DESCRIBED.iter().filter_map(|keyword| {
        let value = members.get(*keyword)?;
        (*value != Value::Bool(false)).then(|| format!("{keyword}: {value}"))
    });
    let bounds = bounds.collect::<Vec<_>>().join(", ");
    if !bounds.is_empty() {
        let description = match members.get("description").and_then(Value::as_str) {
            Some(description) => format!("{description} ({bounds})"),
            None => bounds,
        };
        reduced.insert("description".to_owned(), description.into());
    }
    reduced.into()
}

fn each_member(value: &Value) -> Value {
    match value.as_object() {
        Some(members) => {
            let members = members.iter().map(|(name, schema)| (name.clone(), stripped(schema)));
            members.collect::<Map<_, _>>().into()
        }
        None => value.clone(),
    }
}

fn each_entry(value: &Value) -> Value {
    match value.as_array() {
        Some(entries) => entries.iter().map(stripped).collect::<Vec<_>>().into(),
        None => value.clone(),
    }
}

/// Whether every object in the schema requires all of its members and allows no others.
fn is_strict(schema: &Value) -> bool {
    let inner = |value: &Value| match value {
        Value::Object(_) => is_strict(value),
        Value::Array(entries) => entries.iter().all(is_strict),
        _ => true,
    };
    let Value::Object(members) = schema else {
        return true;
    };
    let properties = members.get("properties").and_then(Value::as_object);
    let is_object = properties.is_some() || members.get("type").is_some_and(|of| of == "object");
    let required = members.get("required").and_then(Value::as_array);
    let is_required =
        |name: &String| required.is_some_and(|names| names.iter().any(|entry| entry == name));
    let is_closed = members.get("additionalProperties") == Some(&Value::Bool(false));
    let lists_all = properties.is_none_or(|properties| properties.keys().all(is_required));
    let defs = ["properties", "$defs", "definitions"].into_iter();
    let mut named = defs.filter_map(|keyword| members.get(keyword)?.as_object());
    let mut others = ["items", "anyOf", "oneOf", "allOf", "prefixItems"]
        .into_iter()
        .filter_map(|keyword| members.get(keyword));
    (!is_object || (is_closed && lists_all))
        && named.all(|schemas| schemas.values().all(inner))
        && others.all(inner)
}

#[cfg(test)]
mod tests;
