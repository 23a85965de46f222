//! Tool definitions: the lists and objects in which requests have them, and their names.

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::content::members::{is_empty, n_values, parsed};

/// Nested lists and objects around definitions.
const MAX_DEPTH: usize = 4;
/// Most values of definitions in text that are parsed; each takes up to 100 bytes.
const MAX_PARSED: usize = 100_000;
/// Members of a request with its tools.
const TOOLS: [&str; 2] = ["tools", "functions"];
/// Members of a request around its tools: Bedrock, Google.
const AROUND: [&str; 3] = ["toolConfig", "tool_config", "config"];
/// Google's lists of functions.
const DECLARED: [&str; 2] = ["functionDeclarations", "function_declarations"];
/// Objects around the members of a definition: OpenAI, Bedrock, custom tools of OpenAI.
const INNER: [&str; 3] = ["function", "toolSpec", "custom"];

/// The definitions in a list or an object, one by one. Text that contains JSON is parsed, and a definition that is named by
/// its member gets that name.
#[must_use]
pub fn definitions(tools: Value) -> Vec<Value> {
    let mut all = Vec::new();
    add(tools, (0, &mut MAX_PARSED.to_owned()), &mut all);
    all
}

/// `n_left`: values that texts may have which are parsed.
fn add(tools: Value, (depth, n_left): (usize, &mut usize), all: &mut Vec<Value>) {
    if MAX_DEPTH < depth {
        all.push(tools);
        return;
    }
    match tools {
        Value::Null => {}
        Value::Array(items) => {
            for item in items {
                add(item, (depth + 1, n_left), all);
            }
        }
        Value::String(text) => {
            let n_values = n_values(&text);
            let value = (n_values <= *n_left).then(|| parsed(&text)).flatten();
            match value {
                Some(value) => {
                    *n_left -= n_values;
                    add(value, (depth + 1, n_left), all);
                }
                None => all.push(Value::String(text)),
            }
        }
        Value::Object(mut members) => {
            let n_set = members.values().filter(|value| !is_empty(value)).count();
            let declared = DECLARED.iter().find(|key| members.contains_key(**key));
            match declared.filter(|_| n_set == 1) {
                Some(key) => {
                    let declared = members.remove(*key).unwrap_or_default();
                    add(declared, (depth + 1, n_left), all);
                }
                None if is_named_by_member(&members) => {
                    all.extend(members.into_iter().map(|(name, tool)| named(name, tool)));
                }
                None => all.push(Value::Object(members)),
            }
        }
        other => all.push(other),
    }
}

/// Whether each member of an object is a definition, as in the AI SDK.
fn is_named_by_member(members: &Map<String, Value>) -> bool {
    let is_definition = ["type", "name"].iter().chain(&INNER).any(|key| members.contains_key(*key));
    !is_definition && !members.is_empty() && members.values().all(Value::is_object)
}

fn named(name: String, tool: Value) -> Value {
    match tool {
        Value::Object(members) if !members.contains_key("name") => {
            let first = ("name".to_owned(), Value::String(name));
            Value::Object(std::iter::once(first).chain(members).collect())
        }
        other => other,
    }
}

/// The name of a tool by its definition. Tools that a provider runs are named by their type.
#[must_use]
pub fn tool_name(definition: &Value) -> Option<&str> {
    let inner = INNER.iter().filter_map(|key| definition.get(*key));
    let mut objects = inner.chain([definition]);
    let found = objects.find_map(|object| {
        let mut keys = ["name", "type"].iter();
        let name = keys.find_map(|key| object.get(*key)?.as_str());
        name.filter(|name| !matches!(*name, "function" | "custom"))
    });
    found.or_else(|| match definition {
        // `{"google_search": {}}`
        Value::Object(members) if members.len() == 1 => members.keys().next().map(String::as_str),
        Value::String(name) => Some(name),
        _ => None,
    })
}

/// The definitions in a request; its other members are not parsed into a tree.
#[must_use]
pub fn definitions_in(request: &str) -> Vec<Value> {
    let is_request = request.trim_start().starts_with('{');
    let may_have = TOOLS.iter().any(|name| request.contains(name));
    if !is_request || !may_have {
        return Vec::new();
    }
    let mut reader = serde_json::Deserializer::from_str(request);
    let tools = (&mut reader).deserialize_map(Request);
    tools.map(definitions).unwrap_or_default()
}

/// Reads the tools of a request.
struct Request;

impl<'de> Visitor<'de> for Request {
    type Value = Value;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a request")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Value, M::Error> {
        let mut tools = Value::Null;
        while let Some(key) = members.next_key::<String>()? {
            let held = match key.as_str() {
                key if TOOLS.contains(&key) => members.next_value()?,
                key if AROUND.contains(&key) => {
                    let mut around: Value = members.next_value()?;
                    let named = TOOLS.iter().find(|name| around.get(**name).is_some());
                    let held = named.and_then(|name| around.get_mut(*name));
                    held.map(Value::take).unwrap_or_default()
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if is_empty(&tools) && (held.is_array() || held.is_object()) {
                tools = held;
            }
        }
        Ok(tools)
    }
}
