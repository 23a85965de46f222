//! Browser sessions.
//!
//! Invariant:
//! - **A row cannot be used to sign in.** It holds the SHA-256 of a reference that is stored only in the
//!   browser.

use perpend_db::{Arg, checked, in_transaction, value_list};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use crate::audit::{self, AuditActor};
use crate::{Catalog, Error, KeyOwner};

/// The SHA-256 of a reference.
pub type SessionDigest = [u8; 32];

/// The credentials with which a session was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOrigin {
    /// The key pair with this public half.
    KeyPair(String),
    /// The login token of the server start with this id.
    LoginToken(String),
}

/// A session of a browser in one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    /// Digest of its reference.
    pub digest: SessionDigest,
    /// The project.
    pub project: ProjectId,
    /// Credentials that started it.
    pub origin: SessionOrigin,
    /// Time of the start.
    pub created_at: Timestamp,
    /// Latest end.
    pub expires_at: Timestamp,
}

perpend_db::record! {
    struct SessionRow {
        digest: Vec<u8>,
        project_id: String,
        public_key: Option<String>,
        start_id: Option<String>,
        created_at: i64,
        expires_at: i64,
    }
}

impl TryFrom<SessionRow> for BrowserSession {
    type Error = Error;

    fn try_from(row: SessionRow) -> Result<Self, Error> {
        let inconsistent = |detail: &str| Error::Inconsistent {
            what: "browser session",
            detail: detail.to_owned(),
        };
        let digest = row.digest.try_into();
        Ok(Self {
            digest: digest.map_err(|_| inconsistent("expected a digest of 32 bytes"))?,
            project: checked("project", &row.project_id)?,
            origin: match (row.public_key, row.start_id) {
                (Some(public_key), None) => SessionOrigin::KeyPair(public_key),
                (None, Some(start)) => SessionOrigin::LoginToken(start),
                _ => return Err(inconsistent("expected either a public key or a start")),
            },
            created_at: Timestamp::from_micros(row.created_at),
            expires_at: Timestamp::from_micros(row.expires_at),
        })
    }
}

const INSERT: &str = "
    INSERT INTO browser_sessions (digest, project_id, public_key, start_id, created_at, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6)";
const DELETE: &str = "DELETE FROM browser_sessions WHERE digest = $1";
const DELETE_EXPIRED: &str = "DELETE FROM browser_sessions WHERE expires_at <= $1";

impl Catalog {
    /// Those of these sessions that have neither ended nor expired, in any order; none once the installation has an
    /// account. Crosses tenants: a digest
    /// identifies the project.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn browser_sessions(
        &self,
        digests: &[SessionDigest],
        now: Timestamp,
    ) -> Result<Vec<BrowserSession>, Error> {
        if digests.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT digest, project_id, public_key, start_id, created_at, expires_at
               FROM browser_sessions
              WHERE $1 < expires_at AND digest IN ({}) AND NOT EXISTS (SELECT 1 FROM accounts)",
            value_list(digests.len(), 2)
        );
        let mut args: Vec<Arg<'_>> = vec![now.as_micros().into()];
        args.extend(digests.iter().map(|digest| Arg::from(digest.as_slice())));
        let rows = self.pool.select::<SessionRow>(&sql, &args).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Starts a session, and ends those that it replaces.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn begin_browser_session(
        &self,
        session: &BrowserSession,
        replaced: &[SessionDigest],
    ) -> Result<(), Error> {
        let (public_key, start) = match &session.origin {
            SessionOrigin::KeyPair(public_key) => (Some(public_key.as_str()), None),
            SessionOrigin::LoginToken(start) => (None, Some(start.as_str())),
        };
        let row: [Arg<'_>; 6] = [
            session.digest.as_slice().into(),
            session.project.as_str().into(),
            public_key.into(),
            start.into(),
            session.created_at.as_micros().into(),
            session.expires_at.as_micros().into(),
        ];
        in_transaction!(&self.pool, |tx| {
            for digest in replaced {
                tx.execute(DELETE, &[digest.as_slice().into()]).await?;
            }
            tx.execute(INSERT, &row).await?;
            let name = public_key.map(str::to_owned);
            let actor = AuditActor { kind: "session".to_owned(), name };
            audit::identify(KeyOwner::Project(session.project.clone()), actor);
        });
        Ok(())
    }

    /// Ends sessions.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_browser_sessions(&self, digests: &[SessionDigest]) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            for digest in digests {
                tx.execute(DELETE, &[digest.as_slice().into()]).await?;
            }
        });
        Ok(())
    }

    /// Deletes sessions that have expired. Crosses tenants: for the server.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_expired_sessions(&self, now: Timestamp) -> Result<(), Error> {
        let args: [Arg<'_>; 1] = [now.as_micros().into()];
        self.pool.change(DELETE_EXPIRED, &args).await?;
        Ok(())
    }
}
