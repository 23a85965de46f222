//! An operation of the API: parameters, body, responses and an example request.

use perpend_domain::access::{Permission, PermissionLevel, Scope};
use serde_json::Value;

use crate::markup::Text;
use crate::openapi::schema::{Field, ValueSchema, anchor, content, kind, shapes, text};

/// The operations that can return an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorScope {
    /// All operations.
    Always,
    /// Operations that require a key.
    Authenticated,
    /// Operations with query parameters.
    Query,
    /// Operations with a `filter` parameter.
    Filter,
    /// Operations with a body.
    Body,
    /// Operations with path parameters.
    PathParameter,
    /// Operations that write.
    Write,
}

/// An error code of the API.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCode {
    /// The code in responses.
    pub code: &'static str,
    /// HTTP status.
    pub status: u16,
    /// Short description.
    pub title: &'static str,
    /// The operations that can return it.
    pub scope: ErrorScope,
}

/// An operation of the API.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Operation id.
    pub id: Text,
    /// HTML id of the operation.
    pub anchor: String,
    /// HTTP method in upper case.
    pub method: Text,
    /// Path with `{placeholders}`.
    pub path: Text,
    /// Short description.
    pub summary: Text,
    /// Required permission and the key scopes that have it.
    pub access: Text,
    /// Path and query parameters.
    pub parameters: Vec<Field>,
    /// Alternative schemas of the body.
    pub body: Vec<ValueSchema>,
    /// Responses without errors, sorted by status.
    pub responses: Vec<OperationResponse>,
    /// Example request, with shell variables as placeholders.
    pub curl: Text,
    /// The operation returns JSON of a project, so it can be called from a page.
    pub is_callable: bool,
    needs_key: bool,
    has_body: bool,
}

/// A response of an operation.
#[derive(Clone, Debug)]
pub struct OperationResponse {
    /// HTTP status.
    pub status: Text,
    /// Description.
    pub text: Text,
    /// Alternative schemas of the body.
    pub shapes: Vec<ValueSchema>,
}

/// The required permission and the key scopes that have it.
fn access(permission: &str) -> Text {
    if permission == "public" {
        return "no key required".into();
    }
    let any = Permission::ALL
        .iter()
        .filter(|one| permission.split(" or ").any(|name| name == one.name()));
    let any: Vec<_> = any.collect();
    let holders = Scope::ALL.iter().filter(|scope| any.iter().any(|one| scope.holds(**one)));
    let holders: Vec<_> = holders.map(|scope| scope.title()).collect();
    format!("{permission}: {}", holders.join(", ")).into()
}

/// A shell variable for a parameter: `queueId` becomes `$QUEUE_ID`.
fn variable(name: &str) -> String {
    let mut made = String::from("$");
    for c in name.chars() {
        if c.is_ascii_uppercase() && 1 < made.len() {
            made.push('_');
        }
        match c.is_ascii_alphanumeric() {
            true => made.push(c.to_ascii_uppercase()),
            false => made.push('_'),
        }
    }
    made
}

/// Resolves a reference to a schema.
fn resolved<'v>(schema: &'v Value, document: &'v Value) -> &'v Value {
    match schema["$ref"].as_str() {
        Some(target) => {
            let name = target.rsplit('/').next().unwrap_or(target);
            &document["components"]["schemas"][name]
        }
        None => schema,
    }
}

/// An example object with the required fields.
fn example(schema: &Value, document: &Value) -> String {
    let schema = resolved(schema, document);
    let required = schema["required"].as_array().into_iter().flatten();
    let fields = required.filter_map(Value::as_str).map(|name| {
        let own = resolved(&schema["properties"][name], document);
        let value = match own["type"].as_str() {
            _ if own["enum"][0].is_string() => own["enum"][0].to_string(),
            Some("integer" | "number") => "1".to_owned(),
            Some("boolean") => "true".to_owned(),
            Some("array") => "[]".to_owned(),
            Some("object") => "{}".to_owned(),
            _ => "\"...\"".to_owned(),
        };
        format!("{}: {value}", Value::from(name))
    });
    let fields: Vec<_> = fields.collect();
    // A single quote would end the shell argument.
    format!("{{{}}}", fields.join(", ")).replace('\'', "\\u0027")
}

fn curl(path: &str, method: &str, described: &Value, document: &Value) -> Text {
    let mut address = String::new();
    let mut rest = path;
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind.split_once('}').unwrap_or((behind, ""));
        address.push_str(before);
        address.push_str(&variable(name));
        rest = behind;
    }
    address.push_str(rest);
    let parameters = described["parameters"].as_array().into_iter().flatten();
    let required = parameters.filter(|one| one["in"] == "query" && one["required"] == true);
    let required = required.filter_map(|one| one["name"].as_str());
    let required: Vec<_> = required.map(|name| format!("{name}={}", variable(name))).collect();
    if !required.is_empty() {
        address.push('?');
        address.push_str(&required.join("&"));
    }
    let mut curl = String::from("curl");
    if described["x-perpend-permission"].as_str().unwrap_or("public") != "public" {
        curl.push_str(" -u \"$PUBLIC_KEY:$SECRET_KEY\"");
    }
    if method != "get" {
        curl.push_str(&format!(" -X {}", method.to_uppercase()));
    }
    curl.push_str(&format!(" \"$HOST{address}\""));
    if let Some(contents) = described["requestBody"]["content"].as_object() {
        match contents.get("application/json") {
            Some(json) => {
                let body = example(&json["schema"], document);
                curl.push_str(" \\\n  -H \"content-type: application/json\" \\\n  -d '");
                curl.push_str(&body);
                curl.push('\'');
            }
            None => {
                let kind = contents.keys().next().map_or("", String::as_str);
                curl.push_str(&format!(" \\\n  -H \"content-type: {kind}\" --data-binary @FILE"));
            }
        }
    }
    Text::lines(curl)
}

impl Operation {
    pub(crate) fn new(path: &str, method: &str, described: &Value, document: &Value) -> Self {
        let parameters = described["parameters"].as_array().into_iter().flatten();
        let parameters = parameters.map(|parameter| Field {
            name: text(&parameter["name"]),
            location: text(&parameter["in"]),
            kind: kind(&parameter["schema"], 0),
            is_required: parameter["required"] == true,
            is_list: parameter["schema"]["type"] == "array",
            text: text(&parameter["description"]),
        });
        let responses = described["responses"].as_object().into_iter().flatten();
        // Errors are listed separately, by code.
        let responses = responses.filter(|(status, _)| *status != "default");
        let responses = responses.map(|(status, response)| OperationResponse {
            status: status.as_str().into(),
            text: text(&response["description"]),
            shapes: shapes(content(response)),
        });
        let permission = described["x-perpend-permission"].as_str();
        let permission = permission.unwrap_or("public");
        let json = &described["responses"]["200"]["content"]["application/json"];
        let mut all = Permission::ALL.iter();
        let is_of_organization =
            all.any(|one| one.level() == PermissionLevel::Organization && one.name() == permission);
        Self {
            is_callable: method == "get" && json.is_object() && !is_of_organization,
            id: text(&described["operationId"]),
            anchor: anchor(&[method, path]),
            method: method.to_uppercase().into(),
            path: path.into(),
            summary: text(&described["summary"]),
            access: access(permission),
            parameters: parameters.collect(),
            body: shapes(content(&described["requestBody"])),
            responses: responses.collect(),
            curl: curl(path, method, described, document),
            needs_key: permission != "public",
            has_body: described["requestBody"].is_object(),
        }
    }

    fn has(&self, location: &str) -> bool {
        self.parameters.iter().any(|one| one.location.raw() == location)
    }

    pub(crate) fn may_return(&self, error: &ErrorCode) -> bool {
        match error.scope {
            ErrorScope::Always => true,
            ErrorScope::Authenticated => self.needs_key,
            ErrorScope::Query => self.has("query"),
            ErrorScope::Filter => self.parameters.iter().any(|one| one.name.raw() == "filter"),
            ErrorScope::Body => self.has_body,
            ErrorScope::PathParameter => self.has("path"),
            ErrorScope::Write => self.method.raw() != "GET",
        }
    }

    /// Whether the method, path, summary or id contains each word.
    pub(crate) fn matches(&self, words: &[String]) -> bool {
        let parts = [&self.method, &self.path, &self.summary, &self.id];
        let parts: Vec<_> = parts.iter().map(|part| part.raw().to_lowercase()).collect();
        words.iter().all(|word| parts.iter().any(|part| part.contains(word.as_str())))
    }

    /// The schemas of the body and the responses.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = &ValueSchema> {
        let responses = self.responses.iter().flat_map(|response| &response.shapes);
        self.body.iter().chain(responses)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn example_request_has_variables_for_required_parameters() {
        let document = json!({ "components": { "schemas": { "New": {
            "required": ["name", "n", "it's"],
            "properties": { "name": { "type": "string" }, "n": { "type": "integer" }, "other": {} },
        } } } });
        let described = json!({
            "x-perpend-permission": "queue.write",
            "parameters": [
                { "name": "queueId", "in": "path", "required": true },
                { "name": "fromTime", "in": "query", "required": true },
                { "name": "page", "in": "query" },
            ],
            "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/New" } } } },
        });
        let made = Operation::new("/api/queues/{queueId}/items", "post", &described, &document);
        let expected = "curl -u \"$PUBLIC_KEY:$SECRET_KEY\" -X POST \"$HOST/api/queues/$QUEUE_ID/items?fromTime=$FROM_TIME\" \\\n  \
             -H \"content-type: application/json\" \\\n  -d '{\"name\": \"...\", \"n\": 1, \"it\\u0027s\": \"...\"}'";
        assert_eq!(made.curl.raw(), expected);
        let open = Operation::new("/health", "get", &json!({}), &document);
        assert_eq!(open.curl.raw(), "curl \"$HOST/health\"");
    }
}
