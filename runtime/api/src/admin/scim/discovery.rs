//! Discovery of the SCIM features of this server.

use perpend_domain::access::Permission::OrgScim;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::routes::Operation;
use serde::Serialize;
use utoipa::ToSchema;

use super::page::{MAX_COUNT, ScimPage};
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

/// The SCIM features of this server.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ScimConfig {
    schemas: Vec<&'static str>,
    documentation_uri: &'static str,
    patch: ScimFeature,
    bulk: ScimBulk,
    filter: ScimFilter,
    change_password: ScimFeature,
    sort: ScimFeature,
    etag: ScimFeature,
    authentication_schemes: Vec<ScimAuthentication>,
    meta: ScimMeta,
}

/// Whether a feature is supported.
#[derive(Debug, Serialize, ToSchema)]
struct ScimFeature {
    supported: bool,
}

/// Limits of bulk operations.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ScimBulk {
    supported: bool,
    max_operations: u64,
    max_payload_size: u64,
}

/// Limits of filters.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ScimFilter {
    supported: bool,
    max_results: i64,
}

/// A method of authentication.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ScimAuthentication {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    description: &'static str,
    spec_uri: &'static str,
    primary: bool,
}

/// Metadata of a resource.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ScimMeta {
    resource_type: &'static str,
    /// Path of the resource.
    location: String,
}

/// A list of resource types.
#[derive(Debug, Serialize, ToSchema)]
struct ScimResourceTypes {
    #[serde(flatten)]
    page: ScimPage,
    #[serde(rename = "Resources")]
    resources: Vec<ScimResourceType>,
}

/// A resource type.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ScimResourceType {
    schemas: Vec<&'static str>,
    id: &'static str,
    name: &'static str,
    endpoint: &'static str,
    description: &'static str,
    schema: &'static str,
    /// Always empty.
    schema_extensions: Vec<&'static str>,
    meta: ScimMeta,
}

/// A list of schemas.
#[derive(Debug, Serialize, ToSchema)]
struct ScimSchemas {
    #[serde(flatten)]
    page: ScimPage,
    #[serde(rename = "Resources")]
    resources: Vec<ScimSchema>,
}

/// The attributes of a resource type.
#[derive(Debug, Serialize, ToSchema)]
struct ScimSchema {
    schemas: Vec<&'static str>,
    id: &'static str,
    name: &'static str,
    description: &'static str,
    attributes: Vec<ScimAttribute>,
    meta: ScimMeta,
}

/// An attribute.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ScimAttribute {
    name: &'static str,
    /// `string`, `boolean` or `complex`.
    #[serde(rename = "type")]
    kind: &'static str,
    description: &'static str,
    multi_valued: bool,
    required: bool,
    case_exact: bool,
    mutability: &'static str,
    returned: &'static str,
    uniqueness: &'static str,
    /// Of the type `complex`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(no_recursion, required = false)]
    sub_attributes: Vec<ScimAttribute>,
}

/// The page of a list with one resource.
fn page() -> ScimPage {
    ScimPage::new(1, 1, 1)
}

async fn service_provider_config() -> Answer<ScimConfig> {
    let no = || ScimFeature { supported: false };
    Answer(ScimConfig {
        schemas: vec!["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
        documentation_uri: "https://www.rfc-editor.org/rfc/rfc7644",
        patch: ScimFeature { supported: true },
        bulk: ScimBulk { supported: false, max_operations: 0, max_payload_size: 0 },
        filter: ScimFilter { supported: true, max_results: MAX_COUNT },
        change_password: no(),
        sort: no(),
        etag: no(),
        authentication_schemes: vec![ScimAuthentication {
            kind: "httpbasic",
            name: "HTTP Basic",
            description: "A key pair of the organization, as user and password",
            spec_uri: "https://www.rfc-editor.org/rfc/rfc7617",
            primary: true,
        }],
        meta: ScimMeta { resource_type: "ServiceProviderConfig", location: CONFIG.to_owned() },
    })
}

async fn resource_types() -> Answer<ScimResourceTypes> {
    let user = ScimResourceType {
        schemas: vec!["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
        id: "User",
        name: "User",
        endpoint: "/Users",
        description: "People of the organization",
        schema: USER_SCHEMA,
        schema_extensions: Vec::new(),
        meta: ScimMeta { resource_type: "ResourceType", location: format!("{TYPES}/User") },
    };
    Answer(ScimResourceTypes { page: page(), resources: vec![user] })
}

/// An optional attribute with one value.
fn attribute(name: &'static str, kind: &'static str, description: &'static str) -> ScimAttribute {
    ScimAttribute {
        name,
        kind,
        description,
        multi_valued: false,
        required: false,
        case_exact: false,
        mutability: "readWrite",
        returned: "default",
        uniqueness: "none",
        sub_attributes: Vec::new(),
    }
}

fn text(name: &'static str, description: &'static str) -> ScimAttribute {
    attribute(name, "string", description)
}

/// An attribute with attributes of its own.
fn complex(
    name: &'static str,
    description: &'static str,
    sub_attributes: Vec<ScimAttribute>,
) -> ScimAttribute {
    ScimAttribute { sub_attributes, ..attribute(name, "complex", description) }
}

fn user_attributes() -> Vec<ScimAttribute> {
    let primary = || attribute("primary", "boolean", "Always true");
    let list = |attribute| ScimAttribute { multi_valued: true, ..attribute };
    let name = vec![
        text("formatted", "The full name"),
        text("givenName", "The first word of the full name"),
        text("familyName", "The other words of the full name"),
    ];
    let emails = vec![
        text("value", "The address; the user name when absent"),
        text("type", "work"),
        primary(),
    ];
    let roles = vec![text("value", "OWNER, ADMIN, MEMBER, VIEWER or NONE"), primary()];
    vec![
        ScimAttribute {
            required: true,
            uniqueness: "server",
            ..text("userName", "Usually the e-mail address")
        },
        complex("name", "The display name", name),
        text("displayName", "The full name"),
        list(complex("emails", "One address", emails)),
        list(complex("roles", "One role in the organization", roles)),
        attribute("active", "boolean", "An inactive user is not a member"),
    ]
}

async fn schemas_of_users() -> Answer<ScimSchemas> {
    let user = ScimSchema {
        schemas: vec!["urn:ietf:params:scim:schemas:core:2.0:Schema"],
        id: USER_SCHEMA,
        name: "User",
        description: "A person of the organization",
        attributes: user_attributes(),
        meta: ScimMeta { resource_type: "Schema", location: format!("{SCHEMAS}/{USER_SCHEMA}") },
    };
    Answer(ScimSchemas { page: page(), resources: vec![user] })
}
