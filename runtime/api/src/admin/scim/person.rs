//! Users in SCIM.

use perpend_catalog::{NewUser, User};
use perpend_domain::access::Role;
use perpend_domain::ids::UserId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

pub(super) const USER_SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
/// Role of a user who is created without one.
const DEFAULT_ROLE: Role = Role::Viewer;
const MAX_CHARS: usize = 320;

/// A user as sent by identity providers. Other members are ignored, among them the password:
/// there is no login with a password.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PersonInput {
    /// Usually the e-mail address.
    user_name: String,
    name: Option<NameInput>,
    display_name: Option<String>,
    /// The primary one is stored; the user name when absent.
    emails: Option<Vec<EmailInput>>,
    /// True when absent.
    active: Option<bool>,
    /// `OWNER`, `ADMIN`, `MEMBER`, `VIEWER` or `NONE`, as a string or as `{value}`; `VIEWER` when absent.
    #[schema(value_type = Option<Vec<Object>>)]
    roles: Option<Value>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NameInput {
    pub(super) formatted: Option<String>,
    pub(super) given_name: Option<String>,
    pub(super) family_name: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct EmailInput {
    value: String,
    primary: Option<bool>,
}

/// The stored attributes of a user during a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) user_name: String,
    /// `None` for the user name.
    pub(super) email: Option<String>,
    /// `None` for the user name.
    pub(super) name: Option<String>,
    pub(super) role: Role,
    pub(super) is_active: bool,
}

impl From<&User> for Person {
    fn from(user: &User) -> Self {
        let other = |value: &str| (value != user.made.user_name).then(|| value.to_owned());
        Self {
            user_name: user.made.user_name.clone(),
            email: other(&user.made.email),
            name: other(&user.made.name),
            role: user.made.role,
            is_active: user.made.is_active,
        }
    }
}

impl NameInput {
    /// The full name.
    pub(super) fn line(&self) -> Option<String> {
        let whole = self.formatted.as_deref().map(str::trim);
        if let Some(whole) = whole.filter(|whole| !whole.is_empty()) {
            return Some(whole.to_owned());
        }
        let parts = [&self.given_name, &self.family_name];
        let parts = parts.into_iter().flatten().map(|part| part.trim());
        let line = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>();
        (!line.is_empty()).then(|| line.join(" "))
    }
}

/// The primary address of a list, otherwise the first.
pub(super) fn primary(emails: &[EmailInput]) -> Option<String> {
    let primary = emails.iter().find(|email| email.primary == Some(true));
    primary.or(emails.first()).map(|email| email.value.clone())
}

/// The role in a list; the default for an empty list.
pub(super) fn role(roles: &Value) -> Result<Role, Problem> {
    let bad = || Problem::body("roles", "must be a list with one role");
    let only = match roles {
        Value::Array(all) if all.len() <= 1 => all.first(),
        Value::Null => None,
        Value::String(_) | Value::Object(_) => Some(roles),
        _ => return Err(bad()),
    };
    let Some(only) = only else {
        return Ok(DEFAULT_ROLE);
    };
    let text = only.as_str().or_else(|| only["value"].as_str());
    let text = text.ok_or_else(bad)?.to_uppercase();
    let role = text.parse();
    role.map_err(|message: String| Problem::body("roles", message))
}

impl PersonInput {
    /// `known` is the current role, kept when the request has none.
    pub(super) fn read(self, known: Option<Role>) -> Result<Person, Problem> {
        let named = self.name.as_ref().and_then(NameInput::line);
        let role = match (&self.roles, known) {
            (Some(roles), _) => role(roles)?,
            (None, known) => known.unwrap_or(DEFAULT_ROLE),
        };
        Ok(Person {
            user_name: self.user_name,
            email: self.emails.as_deref().and_then(primary),
            name: named.or(self.display_name),
            role,
            is_active: self.active.unwrap_or(true),
        })
    }
}

fn check(field: &str, text: &str) -> Result<String, Problem> {
    let text = text.trim();
    let is_right = !text.is_empty()
        && text.chars().count() <= MAX_CHARS
        && !text.chars().any(char::is_control);
    match is_right {
        true => Ok(text.to_owned()),
        false => {
            let message = "must have 1 to 320 characters, without control characters";
            Err(Problem::body(field, message))
        }
    }
}

impl Person {
    /// The stored user with this id.
    pub(super) fn into_user(self, id: UserId) -> Result<NewUser, Problem> {
        let user_name = check("userName", &self.user_name)?.to_lowercase();
        let or_user_name = |field, value: Option<String>| match value {
            Some(value) => check(field, &value),
            None => Ok(user_name.clone()),
        };
        Ok(NewUser {
            email: or_user_name("emails", self.email)?,
            name: or_user_name("name", self.name)?,
            role: self.role,
            is_active: self.is_active,
            id,
            user_name,
        })
    }
}

/// A user.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScimUser {
    /// Always `urn:ietf:params:scim:schemas:core:2.0:User`.
    schemas: Vec<&'static str>,
    id: String,
    user_name: String,
    name: ScimName,
    display_name: String,
    /// One address.
    emails: Vec<ScimEmail>,
    /// One role.
    roles: Vec<ScimRole>,
    /// An inactive user is not a member of the organization.
    active: bool,
    meta: ScimUserMeta,
}

/// The name of a user.
#[derive(Debug, Serialize, ToSchema)]
struct ScimName {
    formatted: String,
}

/// The address of a user.
#[derive(Debug, Serialize, ToSchema)]
struct ScimEmail {
    primary: bool,
    value: String,
    /// Always `work`.
    #[serde(rename = "type")]
    kind: &'static str,
}

/// The role of a user.
#[derive(Debug, Serialize, ToSchema)]
struct ScimRole {
    /// `OWNER`, `ADMIN`, `MEMBER`, `VIEWER` or `NONE`.
    value: &'static str,
    primary: bool,
}

/// Metadata of a user.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ScimUserMeta {
    /// Always `User`.
    resource_type: &'static str,
    created: Timestamp,
    last_modified: Timestamp,
    /// Path of the user.
    location: String,
}

/// The SCIM representation of a user.
pub(super) fn view(user: &User) -> ScimUser {
    let made = &user.made;
    ScimUser {
        schemas: vec![USER_SCHEMA],
        id: made.id.to_string(),
        user_name: made.user_name.clone(),
        name: ScimName { formatted: made.name.clone() },
        display_name: made.name.clone(),
        emails: vec![ScimEmail { primary: true, value: made.email.clone(), kind: "work" }],
        roles: vec![ScimRole { value: made.role.as_str(), primary: true }],
        active: made.is_active,
        meta: ScimUserMeta {
            resource_type: "User",
            created: user.created_at,
            last_modified: user.updated_at,
            location: format!("/api/public/scim/Users/{}", made.id),
        },
    }
}
