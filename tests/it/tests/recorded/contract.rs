//! Responses compared with the schemas of the OpenAPI document.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use axum::http::Method;
use perpend_json_schema::Schema;
use perpend_server::client::Answer;
use serde_json::{Map, Value, json};

use super::script::{self, Request};

const REFERENCE: &str = "#/components/schemas/";
const ALTERNATIVES: [&str; 3] = ["allOf", "oneOf", "anyOf"];

/// A successful JSON response to a request.
#[derive(Debug)]
pub(crate) struct Success {
    method: Method,
    path: String,
    status: u16,
    body: Value,
}

impl Success {
    /// `None` for errors and other media types.
    pub(crate) fn of(request: &Request, answer: &Answer) -> Option<Self> {
        let is_json = answer.headers.get("content-type")? == "application/json";
        let body = serde_json::from_slice(&answer.body).ok()?;
        (is_json && answer.status.is_success()).then(|| Self {
            method: request.method.clone(),
            path: request.path.split('?').next().unwrap_or_default().to_owned(),
            status: answer.status.as_u16(),
            body,
        })
    }
}

/// The schemas of the document, in which objects have no members except the described ones.
pub(crate) struct Contract {
    paths: Map<String, Value>,
    components: Map<String, Value>,
    /// By operation and status.
    compiled: BTreeMap<String, Schema>,
}

impl Contract {
    pub(crate) fn new(document: &Value) -> anyhow::Result<Self> {
        let paths = document["paths"].as_object().context("no paths")?.clone();
        let open = document["components"]["schemas"].as_object().context("no schemas")?;
        let mut components = open.clone();
        components.values_mut().for_each(|schema| close(schema, open, false));
        Ok(Self { paths, components, compiled: BTreeMap::new() })
    }

    /// The differences between a response and its schema.
    pub(crate) fn violations(&mut self, success: &Success) -> anyhow::Result<Vec<String>> {
        let method = success.method.as_str().to_lowercase();
        let matching = self.paths.iter().filter(|(template, item)| {
            item.get(&method).is_some() && script::matches(template, &success.path)
        });
        let meant = matching.min_by_key(|(template, _)| template.matches('{').count());
        let (template, item) = meant.with_context(|| format!("no operation {}", success.path))?;
        let status = success.status.to_string();
        let name = format!("{} {template} {status}", success.method);
        let content = &item[&method]["responses"][&status]["content"];
        let is_file =
            ["application/octet-stream", "*/*"].iter().any(|kind| content.get(kind).is_some());
        if is_file {
            return Ok(Vec::new());
        }
        let schema = &content["application/json"]["schema"];
        if schema.is_null() {
            return Ok(vec![format!("{name}: not in the document")]);
        }
        if !self.compiled.contains_key(&name) {
            let schema = self.complete(schema);
            let schema = Schema::of_2020_12(&schema).with_context(|| name.clone())?;
            self.compiled.insert(name.clone(), schema);
        }
        let found = self.compiled[&name].violations(&success.body, 5);
        Ok(found
            .iter()
            .map(|found| format!("{name} {}: {}", found.pointer, found.message))
            .collect())
    }

    /// A closed schema with the components that it refers to.
    fn complete(&self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        close(&mut schema, &self.components, true);
        let mut names = BTreeSet::new();
        self.add_names(&schema, &mut names);
        let used = names.iter().map(|name| (name.clone(), self.components[name].clone()));
        let used: Map<String, Value> = used.collect();
        schema["components"] = json!({ "schemas": used });
        schema
    }

    /// Adds the names of all components that a schema refers to.
    fn add_names(&self, schema: &Value, names: &mut BTreeSet<String>) {
        match schema {
            Value::Object(members) => {
                if let Some(name) = referenced(schema)
                    && names.insert(name.to_owned())
                    && let Some(component) = self.components.get(name)
                {
                    self.add_names(component, names);
                }
                members.values().for_each(|member| self.add_names(member, names));
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_names(item, names)),
            _ => {}
        }
    }
}

/// The component that a schema refers to.
fn referenced(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(REFERENCE)
}

/// Whether a schema allows objects without describing their members.
fn is_open(schema: &Value, components: &Map<String, Value>) -> bool {
    if let Some(name) = referenced(schema) {
        return components.get(name).is_none_or(|schema| is_open(schema, components));
    }
    let alternatives = ALTERNATIVES.iter().filter_map(|key| schema[key].as_array());
    let mut alternatives = alternatives.flatten().peekable();
    if alternatives.peek().is_some() {
        return alternatives.any(|schema| is_open(schema, components));
    }
    let is_object = match &schema["type"] {
        Value::Array(types) => types.iter().any(|one| one == "object"),
        one => one.is_null() || one == "object",
    };
    let describes = ["properties", "additionalProperties", "enum"];
    is_object && describes.iter().all(|key| schema.get(key).is_none())
}

/// Forbids members that are not described; `is_whole` unless the schema is one of several of a value.
fn close(schema: &mut Value, components: &Map<String, Value>, is_whole: bool) {
    let is_open = is_open(schema, components);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|schema| close(schema, components, true));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get_mut(key).filter(|schema| schema.is_object()) {
            close(schema, components, true);
        }
    }
    for key in ALTERNATIVES {
        if let Some(schemas) = schema.get_mut(key).and_then(Value::as_array_mut) {
            schemas.iter_mut().for_each(|schema| close(schema, components, false));
        }
    }
    if is_whole && !is_open {
        schema["unevaluatedProperties"] = false.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_an_unknown_and_a_wrong_member_are_violations() -> anyhow::Result<()> {
        let reference = |name: &str| json!({ "$ref": format!("{REFERENCE}{name}") });
        let response =
            json!({ "content": { "application/json": { "schema": reference("Item") } } });
        let document = json!({
            "paths": { "/items/{id}": { "get": { "responses": { "200": response } } } },
            "components": { "schemas": {
                "Id": { "type": "string" },
                "Any": {},
                "Head": { "type": "object", "properties": { "id": reference("Id") }, "required": ["id"] },
                "Item": { "allOf": [reference("Head"), { "type": "object", "properties": {
                    "parent": { "oneOf": [reference("Head"), { "type": "null" }] },
                    "metadata": reference("Any"),
                } }] },
            } },
        });
        let mut contract = Contract::new(&document)?;
        let mut n_violations = |path: &str, body: Value| -> anyhow::Result<usize> {
            let path = path.to_owned();
            let success = Success { method: Method::GET, path, status: 200, body };
            Ok(contract.violations(&success)?.len())
        };
        for right in [
            json!({ "id": "a" }),
            json!({ "id": "a", "parent": null, "metadata": { "of": { "any": "kind" } } }),
            json!({ "id": "a", "parent": { "id": "b" }, "metadata": null }),
        ] {
            assert_eq!(n_violations("/items/a", right.clone())?, 0, "{right}");
        }
        for wrong in [
            json!({ "parent": null }),
            json!({ "id": "a", "more": 1 }),
            json!({ "id": 1 }),
            json!({ "id": "a", "parent": { "id": "b", "more": 1 } }),
        ] {
            assert_ne!(n_violations("/items/a", wrong.clone())?, 0, "{wrong}");
        }
        assert!(n_violations("/others", json!({})).is_err());
        Ok(())
    }
}
