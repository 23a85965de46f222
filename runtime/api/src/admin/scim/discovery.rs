//! Discovery of the SCIM features of this server.

use axum::Json;
use perpend_domain::access::Permission::OrgScim;
use perpend_http_kit::routes::Operation;
use serde_json::{Value, json};

use super::limits::{LIST_SCHEMA, MAX_COUNT};
use super::person::USER_SCHEMA;
use crate::admin::state::Routes;

const CONFIG: &str = "/api/public/scim/ServiceProviderConfig";
const TYPES: &str = "/api/public/scim/ResourceTypes";
const SCHEMAS: &str = "/api/public/scim/Schemas";

pub(super) fn routes(routes: &mut Routes) {
    let config =
        Operation::get("getScimConfig", CONFIG, "Get the SCIM features of this server", OrgScim);
    routes.add(config, service_provider_config);
    let types =
        Operation::get("listScimResourceTypes", TYPES, "List the SCIM resource types", OrgScim);
    routes.add(types, resource_types);
    let schemas =
        Operation::get("listScimSchemas", SCHEMAS, "List the attributes of users", OrgScim);
    routes.add(schemas, schemas_of_users);
}

fn one(resource: Value) -> Json<Value> {
    Json(json!({
        "schemas": [LIST_SCHEMA],
        "totalResults": 1,
        "startIndex": 1,
        "itemsPerPage": 1,
        "Resources": [resource],
    }))
}

async fn service_provider_config() -> Json<Value> {
    Json(json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
        "documentationUri": "https://www.rfc-editor.org/rfc/rfc7644",
        "patch": { "supported": true },
        "bulk": { "supported": false, "maxOperations": 0, "maxPayloadSize": 0 },
        "filter": { "supported": true, "maxResults": MAX_COUNT },
        "changePassword": { "supported": false },
        "sort": { "supported": false },
        "etag": { "supported": false },
        "authenticationSchemes": [{
            "type": "httpbasic",
            "name": "HTTP Basic",
            "description": "A key pair of the organization, as user and password",
            "specUri": "https://www.rfc-editor.org/rfc/rfc7617",
            "primary": true,
        }],
        "meta": { "resourceType": "ServiceProviderConfig", "location": CONFIG },
    }))
}

async fn resource_types() -> Json<Value> {
    one(json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
        "id": "User",
        "name": "User",
        "endpoint": "/Users",
        "description": "People of the organization",
        "schema": USER_SCHEMA,
        "schemaExtensions": [],
        "meta": { "resourceType": "ResourceType", "location": format!("{TYPES}/User") },
    }))
}

/// One attribute of the schema; `more` overrides members.
fn attribute(name: &str, kind: &str, text: &str, more: Value) -> Value {
    let mut attribute = json!({
        "name": name,
        "type": kind,
        "description": text,
        "multiValued": false,
        "required": false,
        "caseExact": false,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "none",
    });
    if let (Value::Object(attribute), Value::Object(more)) = (&mut attribute, more) {
        attribute.extend(more);
    }
    attribute
}

async fn schemas_of_users() -> Json<Value> {
    let text = |name, text| attribute(name, "string", text, json!({}));
    let primary = attribute("primary", "boolean", "Always true", json!({}));
    let list = |parts: Vec<Value>| json!({ "multiValued": true, "subAttributes": parts });
    let user_name = json!({ "required": true, "uniqueness": "server" });
    one(json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
        "id": USER_SCHEMA,
        "name": "User",
        "description": "A person of the organization",
        "attributes": [
            attribute("userName", "string", "Usually the e-mail address", user_name),
            attribute("name", "complex", "The display name", json!({ "subAttributes": [
                text("formatted", "The full name"),
                text("givenName", "The first word of the full name"),
                text("familyName", "The other words of the full name"),
            ] })),
            text("displayName", "The full name"),
            attribute("emails", "complex", "One address", list(vec![
                text("value", "The address; the user name when absent"),
                text("type", "work"),
                primary.clone(),
            ])),
            attribute("roles", "complex", "One role in the organization", list(vec![
                text("value", "OWNER, ADMIN, MEMBER or VIEWER"),
                primary,
            ])),
            attribute("active", "boolean", "An inactive user is not a member", json!({})),
        ],
        "meta": { "resourceType": "Schema", "location": format!("{SCHEMAS}/{USER_SCHEMA}") },
    }))
}
