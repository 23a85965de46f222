//! Changes of stored keys: rotation of the secret, note, expiry, use of the public half.

use perpend_db::{Tx, in_transaction, query};
use perpend_domain::time::Timestamp;
use serde_json::json;

use super::keys::KeyRow;
use super::{ApiKey, KeyOwner, SecretHash};
use crate::{Catalog, Error, audit};

/// The longest time that a previous secret is accepted after a rotation, in hours.
pub const MAX_OVERLAP_HOURS: u32 = 720;

/// A new secret of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSecret {
    /// Hash of the secret.
    pub hash: SecretHash,
    /// Shown in lists instead of the secret.
    pub hint: String,
}

/// Changes of a key. Absent members are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPatch {
    /// The note; `Some(None)` removes it.
    pub note: Option<Option<String>>,
    /// The time from which the key is refused; `Some(None)` removes it.
    pub expires_at: Option<Option<Timestamp>>,
    /// Whether the public half may be sent alone to write scores.
    pub public_scores: Option<bool>,
}

/// A statement on a key of a project, and the same on a key of an organization.
macro_rules! of_owner {
    ($start:literal, $rest:literal) => {
        [
            concat!($start, " WHERE project_id = $1 AND id = $2", $rest),
            concat!($start, " WHERE organization_id = $1 AND id = $2", $rest),
        ]
    };
}

const GET: [&str; 2] = of_owner!("SELECT * FROM api_keys", "");
/// Refused while an earlier rotation has not ended, so that no secret in use is lost.
const ROTATE: [&str; 2] = of_owner!(
    "UPDATE api_keys
        SET previous_secret_hash = secret_hash, previous_secret_hint = secret_hint,
            previous_last_used_at = last_used_at, sessions_since = previous_expires_at,
            previous_expires_at = $5, secret_hash = $3, secret_hint = $4, last_used_at = NULL, rotated_at = $6",
    " AND (previous_expires_at IS NULL OR previous_expires_at <= $6)"
);
const END_PREVIOUS: [&str; 2] =
    of_owner!("UPDATE api_keys SET previous_expires_at = $3", " AND previous_expires_at > $3");
const CHANGE: [&str; 2] =
    of_owner!("UPDATE api_keys SET note = $3, expires_at = $4, public_scores = $5", "");

const OVERLAPS: Error = Error::Conflict(
    "the previous secret of this key is still accepted; end it before the next rotation",
);
const NO_PREVIOUS: Error =
    Error::Conflict("this key has no previous secret that is still accepted");

impl KeyOwner {
    /// The statement for this owner, and the id of the owner.
    fn statement(&self, both: [&'static str; 2]) -> (&'static str, &str) {
        match self {
            Self::Project(id) => (both[0], id.as_str()),
            Self::Organization(id) => (both[1], id.as_str()),
        }
    }
}

async fn get(tx: &mut Tx, owner: &KeyOwner, id: &str) -> Result<ApiKey, Error> {
    let (sql, owner) = owner.statement(GET);
    let row: Option<KeyRow> = query(sql).bind(owner).bind(id).fetch_optional(tx).await?;
    row.map_or(Err(Error::NotFound), TryInto::try_into)
}

/// Kind of the object in the audit trail.
const AUDITED: &str = "api-key";

impl Catalog {
    /// Replaces the secret of a key. The previous one is accepted until `previous_until`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the owner has no key with this id; [`Error::Conflict`] if the secret before it is still
    /// accepted.
    pub async fn rotate_key(
        &self,
        (owner, id): (&KeyOwner, &str),
        secret: &NewSecret,
        previous_until: Timestamp,
        now: Timestamp,
    ) -> Result<ApiKey, Error> {
        let (sql, owner_id) = owner.statement(ROTATE);
        let rotated = in_transaction!(&self.pool, |tx| {
            let n_rotated = query(sql)
                .bind(owner_id)
                .bind(id)
                .bind(secret.hash.to_string())
                .bind(&secret.hint)
                .bind(previous_until.as_micros())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            let key = get(&mut tx, owner, id).await?;
            if n_rotated == 0 {
                return Err(OVERLAPS);
            }
            let after = json!({ "secret": { "changed": true }, "previousUntil": previous_until });
            audit::note(AUDITED, id, None, Some(after));
            key
        });
        Ok(rotated)
    }

    /// Ends the previous secret of a key.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the owner has no key with this id; [`Error::Conflict`] if it has no previous secret that is
    /// still accepted.
    pub async fn end_previous_secret(
        &self,
        (owner, id): (&KeyOwner, &str),
        now: Timestamp,
    ) -> Result<ApiKey, Error> {
        let (sql, owner_id) = owner.statement(END_PREVIOUS);
        let changed = in_transaction!(&self.pool, |tx| {
            let n_ended =
                query(sql).bind(owner_id).bind(id).bind(now.as_micros()).execute(&mut tx).await?;
            let key = get(&mut tx, owner, id).await?;
            if n_ended == 0 {
                return Err(NO_PREVIOUS);
            }
            audit::note(AUDITED, id, None, Some(json!({ "previousUntil": now })));
            key
        });
        Ok(changed)
    }

    /// Changes note, expiry and use of the public half of a key.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the owner has no key with this id.
    pub async fn change_key(
        &self,
        (owner, id): (&KeyOwner, &str),
        patch: &KeyPatch,
    ) -> Result<ApiKey, Error> {
        let (sql, owner_id) = owner.statement(CHANGE);
        let changed = in_transaction!(&self.pool, |tx| {
            let stored = get(&mut tx, owner, id).await?;
            let mut before = audit::objects::api_key(&stored.made);
            before["publicScores"] = stored.public_scores.into();
            let public_scores = patch.public_scores.unwrap_or(stored.public_scores);
            let note = patch.note.clone().unwrap_or(stored.made.note);
            let expires_at = patch.expires_at.unwrap_or(stored.made.expires_at);
            query(sql)
                .bind(owner_id)
                .bind(id)
                .bind(&note)
                .bind(expires_at.map(Timestamp::as_micros))
                .bind(public_scores)
                .execute(&mut tx)
                .await?;
            let changed = get(&mut tx, owner, id).await?;
            let mut after = audit::objects::api_key(&changed.made);
            after["publicScores"] = changed.public_scores.into();
            audit::note(AUDITED, id, Some(before), Some(after));
            changed
        });
        Ok(changed)
    }
}
