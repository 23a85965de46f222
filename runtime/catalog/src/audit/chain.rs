//! The chain of records of an organization.

use perpend_db::{Tx, digest, query, query_scalar, to_json};
use perpend_domain::plugin::Digest;
use perpend_domain::text::storable;
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use super::record::{AuditObject, AuditOrigin, AuditResult};
use crate::{Error, KeyOwner};

/// Precedes the hashed text, so that no other text of the program has this hash.
const DOMAIN: &[u8] = b"perpend-audit/1";
/// The hash before the first record.
pub(super) const START: [u8; 32] = [0; 32];

const ORGANIZATION_OF: &str = "SELECT organization_id FROM projects WHERE id = $1";
const BEGIN: &str = "
    INSERT INTO audit_chains (organization, seq, hash, cut_seq, cut_hash) VALUES ($1, 0, $2, 0, $2)
    ON CONFLICT (organization) DO NOTHING";
/// Locks the chain until the transaction ends.
const ADVANCE: &str = "UPDATE audit_chains SET seq = seq + 1 WHERE organization = $1";
const HEAD: &str = "SELECT seq, hash FROM audit_chains WHERE organization = $1";
const SET_HASH: &str = "UPDATE audit_chains SET hash = $1 WHERE organization = $2";
const INSERT: &str = "
    INSERT INTO audit_records
        (organization, seq, recorded_at, project, actor_kind, actor, address, request_id, operation, object_kind,
         object_id, result, state_before, state_after, hash)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";

/// A record without its place in the chain, in the form of its columns.
#[derive(Debug)]
pub(super) struct Entry {
    at: Timestamp,
    actor_kind: String,
    actor: Option<String>,
    address: Option<String>,
    request_id: Option<String>,
    operation: String,
    object_kind: String,
    object_id: Option<String>,
    result: AuditResult,
    before: Option<Value>,
    after: Option<Value>,
}

fn stored(text: &str) -> String {
    storable(text).into_owned()
}

impl Entry {
    pub(super) fn new(origin: &AuditOrigin, result: AuditResult, at: Timestamp) -> Self {
        Self {
            at,
            actor_kind: stored(&origin.actor.kind),
            actor: origin.actor.name.as_deref().map(stored),
            address: origin.address.as_deref().map(stored),
            request_id: origin.request_id.as_deref().map(stored),
            operation: stored(&origin.operation),
            object_kind: stored(&origin.object.kind),
            object_id: origin.object.id.as_deref().map(stored),
            result,
            before: None,
            after: None,
        }
    }

    /// Sets the changed object and its states.
    pub(super) fn describe(
        &mut self,
        object: &AuditObject,
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        self.object_kind = stored(&object.kind);
        self.object_id = object.id.as_deref().map(stored);
        self.before = before.cloned();
        self.after = after.cloned();
    }
}

perpend_db::record! {
    /// A row of a record.
    pub(super) struct RecordRow {
        pub(super) organization: String,
        pub(super) seq: i64,
        pub(super) recorded_at: i64,
        pub(super) project: Option<String>,
        pub(super) actor_kind: String,
        pub(super) actor: Option<String>,
        pub(super) address: Option<String>,
        pub(super) request_id: Option<String>,
        pub(super) operation: String,
        pub(super) object_kind: String,
        pub(super) object_id: Option<String>,
        pub(super) result: String,
        pub(super) state_before: Option<String>,
        pub(super) state_after: Option<String>,
        pub(super) hash: Vec<u8>,
    }
}

impl RecordRow {
    /// The hash that the row must have after a record with the hash `previous`.
    pub(super) fn expected_hash(&self, previous: &[u8; 32]) -> Digest {
        let members = json!([
            self.organization,
            self.seq,
            self.recorded_at,
            self.project,
            self.actor_kind,
            self.actor,
            self.address,
            self.request_id,
            self.operation,
            self.object_kind,
            self.object_id,
            self.result,
            self.state_before,
            self.state_after,
        ]);
        let members = members.to_string();
        Digest::of(&[DOMAIN, previous.as_slice(), members.as_bytes()].concat())
    }
}

/// The organization and the project of an operation.
async fn places(tx: &mut Tx, origin: &AuditOrigin) -> Result<(String, Option<String>), Error> {
    let project = match &origin.owner {
        KeyOwner::Project(project) => Some(project),
        KeyOwner::Organization(_) => origin.project.as_ref(),
    };
    let organization: Option<String> = match project {
        Some(project) => {
            query_scalar(ORGANIZATION_OF).bind(project.as_str()).fetch_optional(tx).await?
        }
        None => None,
    };
    let project = project.map(|project| project.as_str().to_owned());
    match &origin.owner {
        KeyOwner::Project(_) => Ok((organization.ok_or(Error::NotFound)?, project)),
        KeyOwner::Organization(own) => {
            let own = own.as_str().to_owned();
            let project = project.filter(|_| organization.as_ref() == Some(&own));
            Ok((own, project))
        }
    }
}

/// Appends a record to the chain of the organization. Last in a transaction: other writers of the chain wait for its end.
pub(super) async fn append(tx: &mut Tx, origin: &AuditOrigin, entry: &Entry) -> Result<(), Error> {
    let (organization, project) = places(tx, origin).await?;
    query(BEGIN).bind(&organization).bind(START.as_slice()).execute(&mut *tx).await?;
    query(ADVANCE).bind(&organization).execute(&mut *tx).await?;
    let (seq, previous): (i64, Vec<u8>) =
        query(HEAD).bind(&organization).fetch_one(&mut *tx).await?;
    let previous = digest("audit chain", &previous)?;
    let text = |state: &Option<Value>| {
        state.as_ref().map(|state| to_json("audit record", state)).transpose()
    };
    let mut row = RecordRow {
        organization,
        seq,
        recorded_at: entry.at.as_micros(),
        project,
        actor_kind: entry.actor_kind.clone(),
        actor: entry.actor.clone(),
        address: entry.address.clone(),
        request_id: entry.request_id.clone(),
        operation: entry.operation.clone(),
        object_kind: entry.object_kind.clone(),
        object_id: entry.object_id.clone(),
        result: entry.result.name().to_owned(),
        state_before: text(&entry.before)?,
        state_after: text(&entry.after)?,
        hash: Vec::new(),
    };
    row.hash = row.expected_hash(previous.as_bytes()).as_bytes().to_vec();
    query(INSERT)
        .bind(&row.organization)
        .bind(row.seq)
        .bind(row.recorded_at)
        .bind(&row.project)
        .bind(&row.actor_kind)
        .bind(&row.actor)
        .bind(&row.address)
        .bind(&row.request_id)
        .bind(&row.operation)
        .bind(&row.object_kind)
        .bind(&row.object_id)
        .bind(&row.result)
        .bind(&row.state_before)
        .bind(&row.state_after)
        .bind(row.hash.as_slice())
        .execute(&mut *tx)
        .await?;
    query(SET_HASH).bind(row.hash.as_slice()).bind(&row.organization).execute(tx).await?;
    Ok(())
}
