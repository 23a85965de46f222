//! PATCH: operations on single attributes, in the spellings of identity providers.

use perpend_http_kit::extract::must_be_one_of;
use perpend_http_kit::problem::Problem;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::person::{EmailInput, NameInput, Person, primary, role};

const MAX_OPERATIONS: usize = 100;

/// Changes of a user.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct PatchRequest {
    /// Applied in order, all or none.
    #[serde(rename = "Operations")]
    operations: Vec<PatchOperation>,
}

/// One change.
#[derive(Debug, Deserialize, ToSchema)]
struct PatchOperation {
    /// `add`, `replace` or `remove`.
    op: String,
    /// An attribute, such as `active` or `name.formatted`. When absent, `value` is an object of attributes.
    path: Option<String>,
    #[serde(default)]
    #[schema(value_type = Object)]
    value: Value,
}

fn issue(at: usize, message: impl std::fmt::Display) -> Problem {
    Problem::body("Operations", format!("number {}: {message}", at + 1))
}

impl PatchRequest {
    pub(super) fn apply(&self, person: &mut Person) -> Result<(), Problem> {
        if MAX_OPERATIONS < self.operations.len() {
            return Err(Problem::body("Operations", "must have at most 100 members"));
        }
        for (at, operation) in self.operations.iter().enumerate() {
            operation.apply(person).map_err(|problem| issue(at, problem))?;
        }
        Ok(())
    }
}

impl PatchOperation {
    fn apply(&self, person: &mut Person) -> Result<(), String> {
        let op = self.op.to_ascii_lowercase();
        match (op.as_str(), &self.path, &self.value) {
            ("add" | "replace", Some(path), value) => set(person, path, value),
            ("add" | "replace", None, Value::Object(all)) => {
                let mut all = all.iter();
                all.try_for_each(|(path, value)| set(person, path, value))
            }
            ("add" | "replace", None, _) => {
                Err("value must be an object with attributes when path is absent".to_owned())
            }
            ("remove", Some(path), _) => remove(person, path),
            ("remove", None, _) => Err("path is required for remove".to_owned()),
            _ => Err(format!("op {}", must_be_one_of(&["add", "replace", "remove"], &self.op))),
        }
    }
}

/// The attribute of a path: in lower case, without the schema in front of it and a value selection
/// after it. Multi-valued attributes of SCIM have one value here.
fn attribute(path: &str) -> String {
    let path = path.trim();
    let path = match path.rsplit_once(':') {
        Some((_, last)) if path.to_ascii_lowercase().starts_with("urn:") => last,
        _ => path,
    };
    let (before, selected) = match (path.find('['), path.rfind(']')) {
        (Some(from), Some(to)) if from < to => (&path[..from], &path[to + 1..]),
        _ => (path, ""),
    };
    format!("{before}{selected}").to_ascii_lowercase()
}

fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| "value must be a string".to_owned())
}

fn set(person: &mut Person, path: &str, value: &Value) -> Result<(), String> {
    match attribute(path).as_str() {
        "active" => person.is_active = flag(value)?,
        "username" => person.user_name = text(value)?,
        "displayname" | "name.formatted" => person.name = Some(text(value)?),
        "name" => {
            let name: NameInput = read(value)?;
            if let Some(line) = name.line() {
                person.name = Some(line);
            }
        }
        "name.givenname" => {
            let family = part(person, NamePart::Family);
            person.name = join(&text(value)?, &family);
        }
        "name.familyname" => {
            let given = part(person, NamePart::Given);
            person.name = join(&given, &text(value)?);
        }
        "emails.value" => person.email = Some(text(value)?),
        "emails" => {
            let emails: Vec<EmailInput> = match value {
                Value::Array(_) => read(value)?,
                one => vec![read(one)?],
            };
            person.email = primary(&emails);
        }
        "roles" | "roles.value" => {
            person.role = role(value).map_err(|problem| problem.message().to_owned())?;
        }
        // Sent by providers and not stored.
        "schemas" | "externalid" | "password" | "id" | "meta" => {}
        other => return Err(format!("unknown attribute {other:?}")),
    }
    Ok(())
}

fn remove(person: &mut Person, path: &str) -> Result<(), String> {
    match attribute(path).as_str() {
        "displayname" | "name" | "name.formatted" => person.name = None,
        "emails" | "emails.value" => person.email = None,
        "roles" | "roles.value" => {
            person.role = role(&Value::Null).map_err(|problem| problem.message().to_owned())?;
        }
        other => return Err(format!("{other:?} cannot be removed")),
    }
    Ok(())
}

/// Some providers send booleans as strings.
fn flag(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err("active must be true or false".to_owned()),
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NamePart {
    Given,
    Family,
}

/// The given name is the first word of the full name, the family name is the rest.
fn part(person: &Person, part: NamePart) -> String {
    let name = person.name.as_deref().unwrap_or_default();
    let (given, family) = name.split_once(' ').unwrap_or((name, ""));
    let part = match part {
        NamePart::Given => given,
        NamePart::Family => family,
    };
    part.to_owned()
}

fn join(given: &str, family: &str) -> Option<String> {
    let name = format!("{} {}", given.trim(), family.trim());
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use perpend_domain::access::Role;
    use serde_json::json;

    use super::*;

    fn ada() -> Person {
        Person {
            user_name: "ada@example.com".to_owned(),
            email: None,
            name: Some("Ada Byron".to_owned()),
            role: Role::Member,
            is_active: true,
        }
    }

    fn patched(operations: Value) -> Result<Person, String> {
        let request: PatchRequest =
            serde_json::from_value(json!({ "Operations": operations })).unwrap();
        let mut person = ada();
        let applied = request.apply(&mut person);
        applied.map_err(|problem| problem.message().to_owned())?;
        Ok(person)
    }

    #[test]
    fn the_spellings_of_identity_providers_change_what_they_name() {
        let asleep = Person { is_active: false, ..ada() };
        for operation in [
            json!({ "op": "replace", "value": { "active": false } }),
            json!({ "op": "Replace", "path": "active", "value": "False" }),
            json!({ "op": "add", "path": "urn:ietf:params:scim:schemas:core:2.0:User:active",
                    "value": false }),
        ] {
            assert_eq!(patched(json!([operation])), Ok(asleep.clone()), "{operation}");
        }
        let married = patched(json!([
            { "op": "replace", "path": "name.familyName", "value": "Lovelace" },
            { "op": "replace", "path": "emails[type eq \"work\"].value", "value": "a@b.c" },
            { "op": "replace", "path": "roles", "value": [{ "value": "Admin" }] },
        ]));
        let expected = Person {
            name: Some("Ada Lovelace".to_owned()),
            email: Some("a@b.c".to_owned()),
            role: Role::Admin,
            ..ada()
        };
        assert_eq!(married, Ok(expected.clone()));
        let whole = patched(json!([{ "op": "add", "value": {
            "name": { "givenName": "Ada", "familyName": "Lovelace" },
            "emails": [{ "value": "x@y.z" }, { "value": "a@b.c", "primary": true }],
            "roles": ["ADMIN"],
        } }]));
        assert_eq!(whole, Ok(expected));
        let bare = patched(
            json!([{ "op": "remove", "path": "name" }, { "op": "remove", "path": "roles" }]),
        );
        let expected = Person { name: None, role: Role::Viewer, ..ada() };
        assert_eq!(bare, Ok(expected));
    }

    #[test]
    fn an_invalid_operation_is_reported_with_its_number() {
        for (operation, part) in [
            (json!({ "op": "move", "path": "active" }), "one of `add`"),
            (json!({ "op": "replace", "value": 1 }), "object with attributes"),
            (json!({ "op": "remove" }), "path is required"),
            (json!({ "op": "remove", "path": "userName" }), "cannot be removed"),
            (json!({ "op": "add", "path": "title", "value": "x" }), "unknown attribute"),
            (json!({ "op": "add", "path": "active", "value": 1 }), "true or false"),
            (json!({ "op": "add", "path": "roles", "value": ["KING"] }), "OWNER"),
            (json!({ "op": "add", "path": "roles", "value": ["OWNER", "ADMIN"] }), "one role"),
            (json!({ "op": "add", "path": "emails", "value": 1 }), "invalid type"),
        ] {
            let first = json!({ "op": "replace", "path": "active", "value": true });
            let message = patched(json!([first, operation])).unwrap_err();
            assert!(message.contains("number 2") && message.contains(part), "{message}");
        }
    }
}
