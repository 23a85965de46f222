//! A record of the audit trail, and an operation before it has one.

use perpend_domain::ids::{OrganizationId, ProjectId};
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::KeyOwner;

/// Who changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditActor {
    /// `key`, `session`, `administrator` or another kind of credentials.
    pub kind: String,
    /// A public key or the name of an account, if known.
    pub name: Option<String>,
}

/// What is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditObject {
    /// The kind, such as `evaluation-rule`.
    pub kind: String,
    /// The id or the unique name, if known.
    pub id: Option<String>,
}

/// An operation as it is known before it runs.
#[derive(Clone, Debug)]
pub struct AuditOrigin {
    /// The project or organization of the credentials.
    pub owner: KeyOwner,
    /// A project of the organization that the operation names; ignored if it is not one.
    pub project: Option<ProjectId>,
    /// Who runs it.
    pub actor: AuditActor,
    /// Address of the client.
    pub address: Option<String>,
    /// Id of the request.
    pub request_id: Option<String>,
    /// Its id, as in the OpenAPI document.
    pub operation: String,
    /// The object that it names. `note` replaces it.
    pub object: AuditObject,
}

/// A request whose actor is unknown before it runs, such as a sign-in.
#[derive(Clone, Debug)]
pub struct AuditClient {
    /// Address of the client.
    pub address: Option<String>,
    /// Id of the request.
    pub request_id: Option<String>,
    /// Id of the operation.
    pub operation: String,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditResult {
    /// It has changed something, or read something whose reading is recorded.
    Done,
    /// The actor lacks the permission.
    Denied,
}

impl AuditResult {
    /// The name in responses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Denied => "denied",
        }
    }

    /// The result with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Done, Self::Denied].into_iter().find(|one| one.name() == name)
    }
}

/// A record of the audit trail.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditRecord {
    /// The organization in whose chain it is.
    pub organization: OrganizationId,
    /// Position in the chain, from 1.
    pub seq: i64,
    /// Time.
    pub at: Timestamp,
    /// The project that the operation changed; absent for an operation on the organization.
    pub project: Option<ProjectId>,
    /// Who ran it.
    pub actor: AuditActor,
    /// Address of the client.
    pub address: Option<String>,
    /// Id of the request.
    pub request_id: Option<String>,
    /// Id of the operation.
    pub operation: String,
    /// The changed object.
    pub object: AuditObject,
    /// The outcome.
    pub result: AuditResult,
    /// Members before the change, without those that did not change.
    pub before: Option<Value>,
    /// The same after it.
    pub after: Option<Value>,
    /// Hash over the record and the hash before it.
    pub hash: Digest,
}
