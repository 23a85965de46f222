//! API keys of projects and organizations, and secrets of the server.

use std::str::FromStr;

use perpend_domain::ids::{OrganizationId, ProjectId, PublicKey};
use perpend_domain::time::Timestamp;

use super::SecretHash;
use crate::{Catalog, Error, audit};
use perpend_db::checked;
use perpend_db::in_transaction;
use perpend_db::{Arg, Query, Tx, query, query_scalar};

/// Maximum of keys of a project or an organization: their list has no pages.
pub const MAX_KEYS: u32 = 200;

/// Rights of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// All operations in its project.
    Full,
    /// Reading everything in its project; no changes.
    Read,
    /// Sending telemetry and scores; no reads.
    Ingest,
}

impl Rights {
    /// All rights, in the order of documents.
    pub const ALL: [Self; 3] = [Self::Full, Self::Read, Self::Ingest];

    /// The name in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Read => "read",
            Self::Ingest => "ingest",
        }
    }
}

impl FromStr for Rights {
    type Err = String;

    fn from_str(raw: &str) -> Result<Self, String> {
        match raw {
            "full" => Ok(Self::Full),
            "read" => Ok(Self::Read),
            "ingest" => Ok(Self::Ingest),
            other => Err(format!("unknown rights {other:?}")),
        }
    }
}

/// A new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewApiKey {
    /// Identifies the key in lists.
    pub id: String,
    /// The public half; unique in the installation.
    pub public_key: PublicKey,
    /// Hash of the secret half.
    pub secret_hash: SecretHash,
    /// Shown in lists instead of the secret, such as `sk-lf-…1a2b`.
    pub secret_hint: String,
    /// Rights of the key.
    pub rights: Rights,
    /// Note for users.
    pub note: Option<String>,
    /// The key is refused from this time on.
    pub expires_at: Option<Timestamp>,
}

/// Owner of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyOwner {
    /// The data of a project.
    Project(ProjectId),
    /// An organization: its projects, keys and members, and no data.
    Organization(OrganizationId),
}

/// A stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The key as created.
    pub made: NewApiKey,
    /// Owner of the key.
    pub owner: KeyOwner,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last use with the secret in `made`, accurate to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// Whether the public half may be sent alone to write scores.
    pub public_scores: bool,
    /// The last rotation.
    pub rotation: Option<KeyRotation>,
}

/// A rotation: the secret of a key was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRotation {
    /// Time of the rotation.
    pub at: Timestamp,
    /// Hash of the previous secret.
    pub previous_hash: SecretHash,
    /// Shown in lists instead of the previous secret.
    pub previous_hint: String,
    /// The previous secret is refused from this time on.
    pub previous_expires_at: Timestamp,
    /// Time of the last use with the previous secret, accurate to about a minute.
    pub previous_last_used_at: Option<Timestamp>,
    /// End of the secret before the previous one.
    sessions_since: Option<Timestamp>,
}

impl ApiKey {
    /// Whether requests with the current secret are accepted.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.made.expires_at.is_none_or(|end| now < end)
    }

    /// Whether scores are accepted from a client with the public half alone.
    #[must_use]
    pub fn accepts_public_half(&self, now: Timestamp) -> bool {
        self.public_scores && self.made.rights != Rights::Read && self.is_valid(now)
    }

    /// Browser sessions that began earlier have ended, because the secret they began with has.
    #[must_use]
    pub fn sessions_since(&self, now: Timestamp) -> Option<Timestamp> {
        let rotation = self.rotation.as_ref()?;
        match rotation.previous_expires_at <= now {
            true => Some(rotation.previous_expires_at),
            false => rotation.sessions_since,
        }
    }

    /// Time of the last use with either secret.
    #[must_use]
    pub fn last_used_with_any_secret(&self) -> Option<Timestamp> {
        let previous = self.rotation.as_ref().and_then(|rotation| rotation.previous_last_used_at);
        self.last_used_at.max(previous)
    }
}

perpend_db::record! {
    pub(super) struct KeyRow {
        id: String,
        public_key: String,
        project_id: Option<String>,
        organization_id: Option<String>,
        secret_hash: String,
        secret_hint: String,
        rights: String,
        note: Option<String>,
        created_at: i64,
        expires_at: Option<i64>,
        last_used_at: Option<i64>,
        public_scores: i16,
        rotated_at: Option<i64>,
        previous_secret_hash: Option<String>,
        previous_secret_hint: Option<String>,
        previous_expires_at: Option<i64>,
        previous_last_used_at: Option<i64>,
        sessions_since: Option<i64>,
    }
}

impl KeyRow {
    fn rotation(&self) -> Result<Option<KeyRotation>, Error> {
        let (Some(at), Some(hash), Some(end)) =
            (self.rotated_at, &self.previous_secret_hash, self.previous_expires_at)
        else {
            return Ok(None);
        };
        Ok(Some(KeyRotation {
            at: Timestamp::from_micros(at),
            previous_hash: checked("api key", hash)?,
            previous_hint: self.previous_secret_hint.clone().unwrap_or_default(),
            previous_expires_at: Timestamp::from_micros(end),
            previous_last_used_at: self.previous_last_used_at.map(Timestamp::from_micros),
            sessions_since: self.sessions_since.map(Timestamp::from_micros),
        }))
    }
}

impl TryFrom<KeyRow> for ApiKey {
    type Error = Error;

    fn try_from(row: KeyRow) -> Result<Self, Error> {
        let owner = match (&row.project_id, &row.organization_id) {
            (Some(project), _) => KeyOwner::Project(checked("api key", project)?),
            (None, organization) => {
                let organization = organization.as_deref().unwrap_or_default();
                KeyOwner::Organization(checked("api key", organization)?)
            }
        };
        Ok(Self {
            owner,
            rotation: row.rotation()?,
            public_scores: row.public_scores != 0,
            created_at: Timestamp::from_micros(row.created_at),
            last_used_at: row.last_used_at.map(Timestamp::from_micros),
            made: NewApiKey {
                public_key: checked("api key", &row.public_key)?,
                secret_hash: checked("api key", &row.secret_hash)?,
                rights: checked("api key", &row.rights)?,
                id: row.id,
                secret_hint: row.secret_hint,
                note: row.note,
                expires_at: row.expires_at.map(Timestamp::from_micros),
            },
        })
    }
}

const GET: &str = "SELECT * FROM api_keys WHERE public_key = $1";
const LIST: &str = "SELECT * FROM api_keys WHERE project_id = $1 ORDER BY created_at, id";
const LIST_OF_ORGANIZATION: &str =
    "SELECT * FROM api_keys WHERE organization_id = $1 ORDER BY created_at, id";
const DELETE: &str = "DELETE FROM api_keys WHERE project_id = $1 AND id = $2";
const DELETE_OF_ORGANIZATION: &str =
    "DELETE FROM api_keys WHERE public_key = $1 AND organization_id IS NOT NULL";
/// Two concurrent uses may both write; the later one wins. The hash tells the secrets of a key apart, also when a rotation
/// happened between the use and this statement.
const NOTE_USE: &str = "
    UPDATE api_keys SET last_used_at = $3
     WHERE id = $1 AND secret_hash = $2 AND (last_used_at IS NULL OR last_used_at < $3)";
const NOTE_USE_OF_PREVIOUS: &str = "
    UPDATE api_keys SET previous_last_used_at = $3
     WHERE id = $1 AND previous_secret_hash = $2
       AND (previous_last_used_at IS NULL OR previous_last_used_at < $3)";
/// Serialises the creation of keys of one owner, and prevents keys of a deleted owner.
const LOCK_PROJECT: &str =
    "UPDATE projects SET updated_at = updated_at WHERE id = $1 AND deleted_at IS NULL";
pub(super) const LOCK_ORGANIZATION: &str = "UPDATE organizations SET name = name WHERE id = $1";
const COUNT: &str = "SELECT COUNT(*) FROM api_keys WHERE project_id = $1";
const COUNT_OF_ORGANIZATION: &str = "SELECT COUNT(*) FROM api_keys WHERE organization_id = $1";

const CLAIM: &str = "
    INSERT INTO used_public_keys (public_key) VALUES ($1) ON CONFLICT (public_key) DO NOTHING";
const IS_USED: &str = "SELECT COUNT(*) FROM used_public_keys WHERE public_key = $1";
const INSERT: &str = "
    INSERT INTO api_keys (public_key, id, project_id, organization_id, secret_hash, secret_hint, rights,
                          note, created_at, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// Claims a public key for the key pair of this transaction. `false` if it is in use, or was used by a
/// deleted pair.
pub(super) async fn claim_public_key(tx: &mut Tx, public_key: &PublicKey) -> Result<bool, Error> {
    let n_claimed = query(CLAIM).bind(public_key.as_str()).execute(tx).await?;
    Ok(n_claimed == 1)
}

/// The statement that stores a key whose public half was claimed. Project and organization as in the row: one
/// of them is absent.
pub(super) fn insert_key<'k>(
    project: Option<&'k str>,
    organization: Option<&'k str>,
    key: &'k NewApiKey,
    now: Timestamp,
) -> Query<'k> {
    query(INSERT)
        .bind(key.public_key.as_str())
        .bind(&key.id)
        .bind(project)
        .bind(organization)
        .bind(key.secret_hash.to_string())
        .bind(&key.secret_hint)
        .bind(key.rights.as_str())
        .bind(&key.note)
        .bind(now.as_micros())
        .bind(key.expires_at.map(Timestamp::as_micros))
}

const SECRET_NAMES: &str = "SELECT name FROM server_secrets ORDER BY name";
const GET_SECRET: &str = "SELECT value FROM server_secrets WHERE name = $1";
const PUT_SECRET: &str = "
    INSERT INTO server_secrets (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO NOTHING";
const REPLACE_SECRET: &str = "
    INSERT INTO server_secrets (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// One text for both cases, so that it does not reveal whether the key is in use.
const PUBLIC_KEY_USED: Error = Error::Conflict(
    "the public key is in use or was used before, and is never given out again: choose another, or leave out \
     both halves and a new pair is made",
);

impl Catalog {
    /// The key with this public half. Crosses tenants: the result contains the owner.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn api_key(&self, public_key: &PublicKey) -> Result<Option<ApiKey>, Error> {
        let row: Option<KeyRow> =
            query(GET).bind(public_key.as_str()).fetch_optional(&self.pool).await?;
        row.map(TryInto::try_into).transpose()
    }

    /// The keys of a project, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn api_keys(&self, project: &ProjectId) -> Result<Vec<ApiKey>, Error> {
        self.keys_of(LIST, project.as_str()).await
    }

    /// The keys of an organization itself, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn organization_keys(&self, id: &OrganizationId) -> Result<Vec<ApiKey>, Error> {
        self.keys_of(LIST_OF_ORGANIZATION, id.as_str()).await
    }

    async fn keys_of(&self, sql: &str, owner: &str) -> Result<Vec<ApiKey>, Error> {
        let rows: Vec<KeyRow> = self.pool.select(sql, &[owner.into()]).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Adds a key to a project.
    ///
    /// # Errors
    /// As [`Catalog::create_key`].
    pub async fn create_api_key(
        &self,
        project: &ProjectId,
        key: &NewApiKey,
        now: Timestamp,
    ) -> Result<(), Error> {
        let owner = KeyOwner::Project(project.clone());
        self.create_key(&owner, key, now).await
    }

    /// Adds a key to a project or an organization.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the public key is in use or was used by a deleted pair of any owner, or if the
    /// owner has [`MAX_KEYS`]; [`Error::NotFound`] if the owner does not exist.
    pub async fn create_key(
        &self,
        owner: &KeyOwner,
        key: &NewApiKey,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (project, organization) = match owner {
            KeyOwner::Project(id) => (Some(id.as_str()), None),
            KeyOwner::Organization(id) => (None, Some(id.as_str())),
        };
        let (lock, count) = match owner {
            KeyOwner::Project(_) => (LOCK_PROJECT, COUNT),
            KeyOwner::Organization(_) => (LOCK_ORGANIZATION, COUNT_OF_ORGANIZATION),
        };
        in_transaction!(&self.pool, |tx| {
            let owner = project.or(organization);
            let n_locked = query(lock).bind(owner).execute(&mut tx).await?;
            if n_locked == 0 {
                return Err(Error::NotFound);
            }
            let n_keys: i64 = query_scalar(count).bind(owner).fetch_one(&mut tx).await?;
            if i64::from(MAX_KEYS) <= n_keys {
                return Err(Error::Conflict("there are 200 keys; delete one first"));
            }
            if !claim_public_key(&mut tx, &key.public_key).await? {
                return Err(PUBLIC_KEY_USED);
            }
            insert_key(project, organization, key, now).execute(&mut tx).await?;
            audit::note("api-key", &key.id, None, Some(audit::objects::api_key(key)));
        });
        Ok(())
    }

    /// Whether a key pair with this public half was ever created; it may have been deleted since.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn is_public_key_used(&self, public_key: &PublicKey) -> Result<bool, Error> {
        let n_used: i64 =
            query_scalar(IS_USED).bind(public_key.as_str()).fetch_one(&self.pool).await?;
        Ok(n_used > 0)
    }

    /// Deletes a key of a project. Requests with it are refused from now on, and its public half is never
    /// reused.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no key with this id.
    pub async fn delete_api_key(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        let args: [Arg<'_>; 2] = [project.as_str().into(), id.into()];
        let keys = self.api_keys(project).await?;
        let before = keys.iter().find(|key| key.made.id == id);
        let before = before.map(|key| audit::objects::api_key(&key.made));
        audit::note("api-key", id, before, None);
        match self.pool.change(DELETE, &args).await? {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// [`Catalog::delete_api_key`] for a key of an organization. Crosses tenants: a public key is unique in
    /// the installation. Keys of projects are not found.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no organization has a key with this public half.
    pub async fn delete_organization_key(&self, public_key: &PublicKey) -> Result<(), Error> {
        let args: [Arg<'_>; 1] = [public_key.as_str().into()];
        match self.pool.change(DELETE_OF_ORGANIZATION, &args).await? {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// Records the use of a key with one of its secrets. Crosses tenants: the id of a key is unique in the installation.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn record_key_use(
        &self,
        id: &str,
        secret: &SecretHash,
        now: Timestamp,
    ) -> Result<(), Error> {
        let secret = secret.to_string();
        let args: [Arg<'_>; 3] = [id.into(), secret.as_str().into(), now.as_micros().into()];
        if self.pool.change(NOTE_USE, &args).await? == 0 {
            self.pool.change(NOTE_USE_OF_PREVIOUS, &args).await?;
        }
        Ok(())
    }

    /// A secret of the installation, if it exists.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn existing_secret(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        query_scalar(GET_SECRET).bind(name).fetch_optional(&self.pool).await
    }

    /// Names of the secrets of the installation.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn secret_names(&self) -> Result<Vec<String>, Error> {
        query_scalar(SECRET_NAMES).fetch_all(&self.pool).await
    }

    /// Sets a secret of the installation, which replaces an existing one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn replace_secret(&self, name: &str, value: &[u8]) -> Result<(), Error> {
        let args: [Arg<'_>; 2] = [name.into(), value.into()];
        self.pool.change(REPLACE_SECRET, &args).await?;
        Ok(())
    }

    /// A secret of the installation, which backups contain. If it does not exist, the result of `make` is
    /// stored; of concurrent callers the first one wins.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn secret(
        &self,
        name: &str,
        make: impl FnOnce() -> Vec<u8> + Send,
    ) -> Result<Vec<u8>, Error> {
        if let Some(value) = self.existing_secret(name).await? {
            return Ok(value);
        }
        let made = make();
        let value = in_transaction!(&self.pool, |tx| {
            query(PUT_SECRET).bind(name).bind(made.as_slice()).execute(&mut tx).await?;
            query_scalar(GET_SECRET).bind(name).fetch_one(&mut tx).await?
        });
        Ok(value)
    }
}
