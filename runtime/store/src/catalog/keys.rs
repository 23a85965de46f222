//! API keys and the server's own secrets.
//!
//! Of a key's secret only a salted SHA-256 is kept. A slow hash (argon2) was rejected: secrets are checked
//! on every request, and those the server makes are random UUIDs, which nobody finds by guessing. Who
//! chooses a secret by hand must choose a long random one.

use std::fmt;
use std::str::FromStr;

use assay_domain::ids::{ProjectId, PublicKey};
use assay_domain::time::Timestamp;
use sha2::{Digest as _, Sha256};

use super::checked;
use crate::pool::{in_transaction, on_reader};
use crate::{Error, Store};

/// Separates these digests from every other use of SHA-256 over the same text.
const SECRET_DOMAIN: &[u8] = b"assay-api-key-secret/1\0";

/// Salt and digest of a key's secret. As text: `sha256:SALT:DIGEST` in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretHash {
    salt: [u8; 16],
    digest: [u8; 32],
}

/// The text is not what [`SecretHash`] prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret hash is sha256:SALT:DIGEST in hexadecimal")]
pub struct InvalidSecretHash;

impl SecretHash {
    /// Hashes `secret` under a random `salt`, such as the bytes of a random UUID.
    #[must_use]
    pub fn new(secret: &str, salt: [u8; 16]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(SECRET_DOMAIN);
        hasher.update(salt);
        hasher.update(secret.as_bytes());
        Self {
            salt,
            digest: hasher.finalize().into(),
        }
    }

    /// Whether `secret` is the one, in a time that does not tell how much of it was right.
    #[must_use]
    pub fn matches(&self, secret: &str) -> bool {
        let other = Self::new(secret, self.salt);
        let pairs = self.digest.iter().zip(&other.digest);
        let difference = pairs.fold(0, |sum, (left, right)| sum | (left ^ right));
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.salt.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        f.write_str(":")?;
        self.digest.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

impl FromStr for SecretHash {
    type Err = InvalidSecretHash;

    fn from_str(raw: &str) -> Result<Self, InvalidSecretHash> {
        fn bytes<const N: usize>(hex: &str) -> Result<[u8; N], InvalidSecretHash> {
            let mut bytes = [0; N];
            if hex.len() != 2 * N || !hex.is_ascii() {
                return Err(InvalidSecretHash);
            }
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16)
                    .map_err(|_| InvalidSecretHash)?;
            }
            Ok(bytes)
        }
        let (salt, digest) = raw
            .strip_prefix("sha256:")
            .and_then(|rest| rest.split_once(':'))
            .ok_or(InvalidSecretHash)?;
        Ok(Self {
            salt: bytes(salt)?,
            digest: bytes(digest)?,
        })
    }
}

/// What a key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything in its project.
    Full,
    /// Sending telemetry and scores; reading nothing.
    Ingest,
}

impl Rights {
    /// The name in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Ingest => "ingest",
        }
    }
}

impl FromStr for Rights {
    type Err = String;

    fn from_str(raw: &str) -> Result<Self, String> {
        match raw {
            "full" => Ok(Self::Full),
            "ingest" => Ok(Self::Ingest),
            other => Err(format!("unknown rights {other:?}")),
        }
    }
}

/// A key as it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewApiKey {
    /// Names it in lists.
    pub id: String,
    /// The half that is sent in the clear; unique in the installation.
    pub public_key: PublicKey,
    /// What is kept of the other half.
    pub secret_hash: SecretHash,
    /// Shown in lists instead of the secret, such as `sk-lf-…1a2b`.
    pub secret_hint: String,
    /// What it allows.
    pub rights: Rights,
    /// For people.
    pub note: Option<String>,
}

/// A stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// As made.
    pub made: NewApiKey,
    /// The project it opens.
    pub project: ProjectId,
    /// Made at.
    pub created_at: Timestamp,
}

#[derive(sqlx::FromRow)]
struct KeyRow {
    id: String,
    public_key: String,
    project_id: String,
    secret_hash: String,
    secret_hint: String,
    rights: String,
    note: Option<String>,
    created_at: i64,
}

impl TryFrom<KeyRow> for ApiKey {
    type Error = Error;

    fn try_from(row: KeyRow) -> Result<Self, Error> {
        Ok(Self {
            project: checked("api key", &row.project_id)?,
            created_at: Timestamp::from_micros(row.created_at),
            made: NewApiKey {
                public_key: checked("api key", &row.public_key)?,
                secret_hash: checked("api key", &row.secret_hash)?,
                rights: checked("api key", &row.rights)?,
                id: row.id,
                secret_hint: row.secret_hint,
                note: row.note,
            },
        })
    }
}

const GET: &str = "SELECT * FROM api_keys WHERE public_key = $1";
const LIST: &str = "SELECT * FROM api_keys WHERE project_id = $1 ORDER BY created_at, id";
const DELETE: &str = "DELETE FROM api_keys WHERE project_id = $1 AND id = $2";

/// Makes nothing when the public key is taken.
pub(super) const INSERT: &str = "
    INSERT INTO api_keys
        (public_key, id, project_id, secret_hash, secret_hint, rights, note, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (public_key) DO NOTHING";

/// A statement of [`INSERT`], bound.
macro_rules! insert_key {
    ($project:expr, $key:expr, $now:expr) => {
        sqlx::query($crate::catalog::keys::INSERT)
            .bind($key.public_key.as_str())
            .bind(&$key.id)
            .bind($project)
            .bind($key.secret_hash.to_string())
            .bind(&$key.secret_hint)
            .bind($key.rights.as_str())
            .bind(&$key.note)
            .bind($now.as_micros())
    };
}
pub(super) use insert_key;

const GET_SECRET: &str = "SELECT value FROM server_secrets WHERE name = $1";
const PUT_SECRET: &str = "
    INSERT INTO server_secrets (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO NOTHING";

impl Store {
    /// The key with this public half. Asked before the project is known: the answer names it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn api_key(&self, public_key: &PublicKey) -> Result<Option<ApiKey>, Error> {
        let row: Option<KeyRow> = on_reader!(&self.pool, |db| {
            sqlx::query_as(GET)
                .bind(public_key.as_str())
                .fetch_optional(db)
                .await?
        });
        row.map(TryInto::try_into).transpose()
    }

    /// The keys of a project, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn api_keys(&self, project: &ProjectId) -> Result<Vec<ApiKey>, Error> {
        let rows: Vec<KeyRow> = on_reader!(&self.pool, |db| {
            sqlx::query_as(LIST)
                .bind(project.as_str())
                .fetch_all(db)
                .await?
        });
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Adds a key to a project.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the public key is taken, by whatever project; [`Error::NotFound`] when
    /// there is no such project.
    pub async fn create_api_key(
        &self,
        project: &ProjectId,
        key: &NewApiKey,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.project(project).await?.ok_or(Error::NotFound)?;
        let n_made = in_transaction!(&self.pool, |tx| {
            insert_key!(project.as_str(), key, now)
                .execute(&mut *tx)
                .await?
                .rows_affected()
        });
        match n_made {
            0 => Err(Error::Conflict("the public key is taken")),
            _ => Ok(()),
        }
    }

    /// Takes a key away; requests with it are refused from now on.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no key with this id.
    pub async fn delete_api_key(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        let n_gone = in_transaction!(&self.pool, |tx| {
            sqlx::query(DELETE)
                .bind(project.as_str())
                .bind(id)
                .execute(&mut *tx)
                .await?
                .rows_affected()
        });
        match n_gone {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// A value of the whole installation, such as the key that signs sessions: what `make` gave to
    /// whoever asked first, for ever.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn secret(
        &self,
        name: &str,
        make: impl FnOnce() -> Vec<u8> + Send,
    ) -> Result<Vec<u8>, Error> {
        let known: Option<Vec<u8>> = on_reader!(&self.pool, |db| {
            sqlx::query_scalar(GET_SECRET)
                .bind(name)
                .fetch_optional(db)
                .await?
        });
        if let Some(value) = known {
            return Ok(value);
        }
        let made = make();
        let value = in_transaction!(&self.pool, |tx| {
            sqlx::query(PUT_SECRET)
                .bind(name)
                .bind(&made)
                .execute(&mut *tx)
                .await?;
            sqlx::query_scalar(GET_SECRET)
                .bind(name)
                .fetch_one(&mut *tx)
                .await?
        });
        Ok(value)
    }
}
