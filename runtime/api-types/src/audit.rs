//! Records of the audit trail.

use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::any_json::AnyJson;

/// A change of the configuration, a recorded read, or a denied request.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Position in the chain of the organization, from 1.
    pub seq: i64,
    /// Time.
    pub at: Timestamp,
    /// Id of the organization.
    pub organization: String,
    /// Id of the project; `null` for an operation on the organization.
    pub project: Option<String>,
    /// Who ran the operation.
    pub actor: AuditActor,
    /// Address of the client; `null` if unknown.
    pub address: Option<String>,
    /// The `x-request-id` of the response.
    pub request_id: Option<String>,
    /// Id of the operation in the OpenAPI document, or method and path of a page.
    pub operation: String,
    /// The changed object.
    pub object: AuditObject,
    /// `done`, or `denied` if the actor lacked the permission.
    pub result: String,
    /// Changed members before the change; absent if they are not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub before: Option<AnyJson>,
    /// The same after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub after: Option<AnyJson>,
    /// SHA-256 over the record and the hash of the one before it, as hexadecimal digits.
    pub hash: String,
}

/// The actor of an operation.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditActor {
    /// `member`, `session`, `key`, `public-key` or `administrator`.
    pub kind: String,
    /// Id of the member, or public key; `null` if unknown.
    pub name: Option<String>,
}

/// The object of an operation.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditObject {
    /// The kind, such as `evaluation-rule`.
    pub kind: String,
    /// Id or unique name; `null` if the operation names none.
    pub id: Option<String>,
}
