//! The operations of the OpenAPI document, and request bodies that match their schemas.

use std::collections::BTreeMap;

use anyhow::Context as _;
use axum::http::Method;
use perpend_http_kit::otlp::is_otlp;
use perpend_server::client::Client;
use serde_json::{Map, Value, json};

/// One operation as the document describes it.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Statuses of success.
    pub(crate) success: Vec<u16>,
    pub(crate) query: Vec<Param>,
    /// Schema of the body, references filled in; null where none is described.
    pub(crate) body: Value,
    pub(crate) is_open: bool,
    /// Takes the pair of an organization and none of a project.
    pub(crate) is_of_organization: bool,
}

/// A query parameter.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) name: String,
    /// A type, or `date-time`.
    pub(crate) kind: String,
    pub(crate) is_needed: bool,
}

/// The required members of an evaluator of the type in the samples.
const OF_A_PLUGIN: [&str; 2] = ["plugin", "evaluator"];

/// Paths that need a trace or a session.
const OF_A_TRACE_OR_A_SESSION: [&str; 2] =
    ["/api/v1/executions", "/api/v1/evaluation-rules/{ruleId}/explain"];

/// The value of each path parameter, by its name.
pub(crate) type Known = BTreeMap<&'static str, String>;

impl Operation {
    pub(crate) fn params(&self) -> Vec<String> {
        let rest = self.path.split('{').skip(1);
        rest.filter_map(|rest| rest.split('}').next()).map(str::to_owned).collect()
    }

    /// Its path with ids of existing resources; with `bad` for the parameter of that name.
    pub(crate) fn address(&self, known: &Known, bad: Option<(&str, &str)>) -> String {
        let mut address = self.path.clone();
        for name in self.params() {
            let value = match bad {
                Some((param, value)) if param == name => value,
                _ => known.get(name.as_str()).map_or("none", String::as_str),
            };
            address = address.replacen(&format!("{{{name}}}"), value, 1);
        }
        address
    }

    /// Its query with the parameters that have to be there, but for `left_out`.
    pub(crate) fn needed(&self, known: &Known, left_out: &str) -> String {
        let needs_either = OF_A_TRACE_OR_A_SESSION.contains(&self.path.as_str())
            && !["traceId", "sessionId"].contains(&left_out);
        let is_needed = |param: &&Param| param.is_needed || needs_either && param.name == "traceId";
        let needed = self.query.iter().filter(is_needed);
        let others = needed.filter(|param| param.name != left_out);
        let values = others.map(|param| {
            let value = match param.name.as_str() {
                "from" | "fromStartTime" => "2026-01-01T00:00:00Z",
                "query" => METRICS,
                "name" => "greeting",
                "sha256Hashes" => "LOonTQvtw57Eq2up5Z7IiePtb7VqHPCIpk2bODN43Jc=",
                name => known.get(name).map_or("none", String::as_str),
            };
            format!("&{}={}", param.name, encoded(value))
        });
        values.collect()
    }

    /// Whether everything that its path names is there.
    pub(crate) fn is_reached(&self, known: &Known) -> bool {
        self.params().iter().all(|name| known.contains_key(name.as_str()))
    }

    /// It takes one trace, span, generation or event.
    pub(crate) fn takes_one(&self) -> bool {
        let ends = ["/traces", "/spans", "/generations", "/events"];
        let is_written = self.method == "POST" || self.method == "PATCH";
        is_written && ends.iter().any(|end| self.path.ends_with(end))
    }

    pub(crate) fn is_read(&self) -> bool {
        self.method == Method::GET
    }

    /// Name, schema and whether it has to be there, of each member of the body.
    pub(crate) fn members(&self) -> Vec<(&str, &Value, bool)> {
        let required = |name: &str| {
            let all = self.body["required"].as_array();
            all.is_some_and(|all| all.iter().any(|each| each == name))
        };
        let members = self.body["properties"].as_object().into_iter().flatten();
        members.map(|(name, schema)| (name.as_str(), schema, required(name))).collect()
    }

    /// A body with the members that have to be there.
    pub(crate) fn sample(&self, known: &Known) -> Map<String, Value> {
        let members = self.members().into_iter();
        members
            .filter(|(name, _, is_required)| *is_required || OF_A_PLUGIN.contains(name))
            .map(|(name, schema, _)| (name.to_owned(), sample(name, schema, known)))
            .collect()
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.body["additionalProperties"] == false
    }
}

/// Reads the document.
///
/// # Errors
/// When it is none.
pub(crate) async fn operations(client: &Client) -> anyhow::Result<Vec<Operation>> {
    let document = client.get("/api/openapi.json").await?.json();
    let paths = document["paths"].as_object().context("no paths")?;
    let mut operations = Vec::new();
    // Exporters know errors of their own form: what goes wrong there is in `otlp.rs`.
    for (path, item) in paths.iter().filter(|(path, _)| !is_otlp(path)) {
        for (method, described) in item.as_object().context("not an item")? {
            let method = Method::from_bytes(method.to_uppercase().as_bytes())?;
            let statuses = described["responses"].as_object().context("no answers")?;
            let success = statuses.keys().filter_map(|status| status.parse().ok());
            let schemes = described["security"].as_array();
            let takes = |scheme: &str| {
                let mut all = schemes.into_iter().flatten();
                all.any(|each| each.get(scheme).is_some())
            };
            let body = &described["requestBody"]["content"]["application/json"]["schema"];
            let query = described["parameters"].as_array().into_iter().flatten();
            operations.push(Operation {
                method,
                path: path.clone(),
                success: success.collect(),
                query: query
                    .filter(|param| param["in"] == "query")
                    .map(|param| Param {
                        name: text(&param["name"]),
                        kind: kind(&param["schema"]),
                        is_needed: param["required"] == true,
                    })
                    .collect(),
                body: resolved(body, &document),
                is_open: schemes.is_none_or(Vec::is_empty),
                is_of_organization: takes("organization") && !takes("basic"),
            });
        }
    }
    Ok(operations)
}

/// A question that both endpoints for metrics answer.
const METRICS: &str = r#"{"view":"observations","metrics":[{"measure":"count","aggregation":"count"}],"fromTimestamp":"2026-01-01T00:00:00Z","toTimestamp":"2026-01-02T00:00:00Z"}"#;

/// Characters that must be encoded in a URL.
pub(crate) fn encoded(text: &str) -> String {
    let escapes = [("{", "%7B"), ("}", "%7D"), ("\"", "%22"), (" ", "%20")];
    escapes.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn kind(schema: &Value) -> String {
    match &schema["format"] {
        Value::String(format) if format == "date-time" => format.clone(),
        _ => text(&schema["type"]),
    }
}

/// The schema with its references resolved.
fn resolved(schema: &Value, document: &Value) -> Value {
    match schema {
        Value::Object(members) => match members.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                let pointer = reference.trim_start_matches('#');
                resolved(document.pointer(pointer).unwrap_or(&Value::Null), document)
            }
            None => {
                let members = members.iter();
                members.map(|(key, member)| (key.clone(), resolved(member, document))).collect()
            }
        },
        Value::Array(list) => list.iter().map(|each| resolved(each, document)).collect(),
        other => other.clone(),
    }
}

/// The types that a schema allows, `null` left out; none: anything goes.
pub(crate) fn types(schema: &Value) -> Vec<&str> {
    let all = match &schema["type"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        Value::String(one) => vec![one.as_str()],
        // A nullable reference.
        _ => {
            let all = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
            all.into_iter().flatten().flat_map(types).collect()
        }
    };
    all.into_iter().filter(|name| *name != "null").collect()
}

/// A value for the member of this name. Some enumerations are only part of the description, not of the schema.
fn sample(name: &str, schema: &Value, known: &Known) -> Value {
    if let Some(there) = known.get(name) {
        return there.as_str().into();
    }
    if let Some(word) = schema["enum"].get(0) {
        return word.clone();
    }
    match name {
        "objectType" => "TRACE".into(),
        "dataType" => "NUMERIC".into(),
        "view" => "observations".into(),
        "metrics" => json!([{ "measure": "count", "agg": "count" }]),
        "adapter" => "openai".into(),
        "contentType" => "image/png".into(),
        "contentLength" => 7.into(),
        "sha256Hash" => "LOonTQvtw57Eq2up5Z7IiePtb7VqHPCIpk2bODN43Jc=".into(),
        "field" => "input".into(),
        "uploadedAt" | "from" => "2026-03-01T10:00:00Z".into(),
        "uploadHttpStatus" => 200.into(),
        "scoreConfigIds" => json!([known.get("configId")]),
        "objectId" => json!(known.get("traceId")),
        "value" => 1.into(),
        "prompt" => "hi".into(),
        "type" => "plugin".into(),
        "enabled" => false.into(),
        _ => match types(schema).first() {
            Some(&"string") => "bad-input".into(),
            Some(&"integer" | &"number") => 1.into(),
            Some(&"boolean") => true.into(),
            Some(&"array") => json!([]),
            _ => json!({}),
        },
    }
}
