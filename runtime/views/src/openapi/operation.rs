//! One operation of the API: what it takes, what it responses, and how to call it.

use perpend_domain::access::{Permission, PermissionLevel, Scope};
use serde_json::Value;

use crate::markup::Text;
use crate::openapi::schema::{Field, ValueSchema, anchor, content, kind, shapes, text};

/// What an error code is answered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorScope {
    /// Any request.
    Always,
    /// One that has to show a key.
    Authenticated,
    /// One that may have parameters in its query.
    Query,
    /// One that may have a filter in its query.
    Filter,
    /// One with a body.
    Body,
    /// One that names something in its path.
    PathParameter,
    /// One that changes what is named or made by it.
    Write,
}

/// An error code of the API.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCode {
    /// As it stands in responses.
    pub code: &'static str,
    /// The status it is answered with.
    pub status: u16,
    /// In a few words.
    pub title: &'static str,
    /// What responses it.
    pub scope: ErrorScope,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its id in the document.
    pub id: Text,
    /// The id of its element on the page.
    pub anchor: String,
    /// In capitals.
    pub method: Text,
    /// With `{names}` of what is to be filled in.
    pub path: Text,
    /// In a few words.
    pub summary: Text,
    /// Who may call it.
    pub access: Text,
    /// Of its path and its query.
    pub parameters: Vec<Field>,
    /// The forms of its body.
    pub body: Vec<ValueSchema>,
    /// By status, errors left out.
    pub responses: Vec<OperationResponse>,
    /// A request, with variables of the shell where something is to be filled in.
    pub curl: Text,
    /// It reads JSON of a project, so that a page can show what it responses.
    pub is_callable: bool,
    needs_key: bool,
    has_body: bool,
}

/// What an operation responses with one status.
#[derive(Clone, Debug)]
pub struct OperationResponse {
    /// As a number.
    pub status: Text,
    /// What it means.
    pub text: Text,
    /// The forms of its body.
    pub shapes: Vec<ValueSchema>,
}

/// The permission it needs, and which keys hold that.
fn access(needs: &str) -> Text {
    if needs == "nobody" {
        return "no key needed".into();
    }
    let any =
        Permission::ALL.iter().filter(|one| needs.split(" or ").any(|name| name == one.name()));
    let any: Vec<_> = any.collect();
    let holders = Scope::ALL.iter().filter(|scope| any.iter().any(|one| scope.holds(**one)));
    let holders: Vec<_> = holders.map(|scope| scope.title()).collect();
    format!("{needs}: {}", holders.join(", ")).into()
}

/// `queueId` as the name of a variable: `QUEUE_ID`.
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

/// The schema behind a name, or the one that is there.
fn resolved<'v>(schema: &'v Value, document: &'v Value) -> &'v Value {
    match schema["$ref"].as_str() {
        Some(target) => {
            let name = target.rsplit('/').next().unwrap_or(target);
            &document["components"]["schemas"][name]
        }
        None => schema,
    }
}

/// An object with the fields that are needed, each with a value of its type.
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
    // A quote would end the argument of the shell.
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
    let needed = parameters.filter(|one| one["in"] == "query" && one["required"] == true);
    let needed = needed.filter_map(|one| one["name"].as_str());
    let needed: Vec<_> = needed.map(|name| format!("{name}={}", variable(name))).collect();
    if !needed.is_empty() {
        address.push('?');
        address.push_str(&needed.join("&"));
    }
    let mut curl = String::from("curl");
    if described["x-perpend-permission"].as_str().unwrap_or("nobody") != "nobody" {
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
        // Errors are listed by their codes.
        let responses = responses.filter(|(status, _)| *status != "default");
        let responses = responses.map(|(status, answer)| OperationResponse {
            status: status.as_str().into(),
            text: text(&answer["description"]),
            shapes: shapes(content(answer)),
        });
        let needs = described["x-perpend-permission"].as_str();
        let needs = needs.unwrap_or("nobody");
        let json = &described["responses"]["200"]["content"]["application/json"];
        let mut all = Permission::ALL.iter();
        let is_of_organization =
            all.any(|one| one.level() == PermissionLevel::Organization && one.name() == needs);
        Self {
            is_callable: method == "get" && json.is_object() && !is_of_organization,
            id: text(&described["operationId"]),
            anchor: anchor(&[method, path]),
            method: method.to_uppercase().into(),
            path: path.into(),
            summary: text(&described["summary"]),
            access: access(needs),
            parameters: parameters.collect(),
            body: shapes(content(&described["requestBody"])),
            responses: responses.collect(),
            curl: curl(path, method, described, document),
            needs_key: needs != "nobody",
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

    /// Whether every word stands in what names it.
    pub(crate) fn matches(&self, words: &[String]) -> bool {
        let parts = [&self.method, &self.path, &self.summary, &self.id];
        let parts: Vec<_> = parts.iter().map(|part| part.raw().to_lowercase()).collect();
        words.iter().all(|word| parts.iter().any(|part| part.contains(word.as_str())))
    }

    /// All forms of values that it shows.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = &ValueSchema> {
        let responses = self.responses.iter().flat_map(|answer| &answer.shapes);
        self.body.iter().chain(responses)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_has_a_variable_for_whatever_is_to_be_filled_in() {
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
        let wanted = "curl -u \"$PUBLIC_KEY:$SECRET_KEY\" -X POST \"$HOST/api/queues/$QUEUE_ID/items?fromTime=$FROM_TIME\" \\\n  \
             -H \"content-type: application/json\" \\\n  -d '{\"name\": \"...\", \"n\": 1, \"it\\u0027s\": \"...\"}'";
        assert_eq!(made.curl.raw(), wanted);
        let open = Operation::new("/health", "get", &json!({}), &document);
        assert_eq!(open.curl.raw(), "curl \"$HOST/health\"");
    }
}
