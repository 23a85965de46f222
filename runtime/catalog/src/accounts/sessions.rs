//! Sessions of accounts.

use perpend_db::{Arg, in_transaction, value_list};
use perpend_domain::time::Timestamp;

use super::account::{AccountRow, identify};
use crate::{Account, Catalog, Error, SessionDigest};

/// Sessions of one account; the oldest one ends when another begins.
const MAX_SESSIONS: i64 = 20;
/// A session without a request for so long ends.
const IDLE_MS: i64 = 24 * 3_600 * 1_000;

fn idle_since(now: Timestamp) -> Timestamp {
    now.plus_millis(-IDLE_MS)
}

/// A session of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSession {
    /// Digest of its reference.
    pub digest: SessionDigest,
    /// Identifies it in lists and forms. It opens nothing.
    pub id: String,
    /// The account.
    pub account: String,
    /// Time of the start.
    pub created_at: Timestamp,
    /// Time of the last request, accurate to some minutes.
    pub seen_at: Timestamp,
    /// Time at which the password was last entered.
    pub fresh_at: Timestamp,
    /// Latest end.
    pub expires_at: Timestamp,
    /// Address of the client that started it.
    pub address: String,
    /// User agent of the client that started it.
    pub agent: String,
}

perpend_db::record! {
    struct SessionRow {
        digest: Vec<u8>,
        session_id: String,
        account_id: String,
        created_at: i64,
        seen_at: i64,
        fresh_at: i64,
        expires_at: i64,
        address: String,
        agent: String,
    }
}

impl TryFrom<SessionRow> for AccountSession {
    type Error = Error;

    fn try_from(row: SessionRow) -> Result<Self, Error> {
        let digest = row.digest.try_into().map_err(|_| Error::Inconsistent {
            what: "session of an account",
            detail: "expected a digest of 32 bytes".to_owned(),
        })?;
        Ok(Self {
            digest,
            id: row.session_id,
            account: row.account_id,
            created_at: Timestamp::from_micros(row.created_at),
            seen_at: Timestamp::from_micros(row.seen_at),
            fresh_at: Timestamp::from_micros(row.fresh_at),
            expires_at: Timestamp::from_micros(row.expires_at),
            address: row.address,
            agent: row.agent,
        })
    }
}

macro_rules! select_sessions {
    ($rest:literal) => {
        concat!(
            "SELECT s.digest, s.id AS session_id, s.account_id, s.created_at, s.seen_at, s.fresh_at, s.expires_at,
                    s.address, s.agent
               FROM account_sessions s ",
            $rest
        )
    };
}

/// Sessions of active accounts that have neither expired at `$1` nor been idle since `$2`.
const OPEN: &str = select_sessions!(
    "JOIN accounts a ON a.id = s.account_id AND a.is_active = 1
     WHERE $1 < s.expires_at AND $2 < s.seen_at AND s.digest IN "
);
const LIST: &str = select_sessions!(
    "WHERE s.account_id = $1 AND $2 < s.expires_at AND $3 < s.seen_at ORDER BY s.created_at DESC, s.digest"
);
const ACCOUNT: &str = "
    SELECT id, email, name, password_hash, is_operator, is_active
      FROM accounts WHERE id = $1 AND is_active = 1";
const INSERT: &str = "
    INSERT INTO account_sessions
        (digest, id, account_id, created_at, seen_at, fresh_at, expires_at, address, agent)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const END_OLDEST: &str = "
    DELETE FROM account_sessions WHERE account_id = $1 AND digest NOT IN
        (SELECT digest FROM account_sessions WHERE account_id = $1
          ORDER BY created_at DESC, digest LIMIT $2)";
const SEEN: &str = "UPDATE account_sessions SET seen_at = $2 WHERE digest = $1 AND seen_at < $2";
const END: &str = "DELETE FROM account_sessions WHERE digest = $1";
const END_ONE: &str = "DELETE FROM account_sessions WHERE account_id = $1 AND id = $2";
const END_OTHERS: &str = "DELETE FROM account_sessions WHERE account_id = $1 AND id <> $2";
pub(super) const END_ALL: &str = "DELETE FROM account_sessions WHERE account_id = $1";
const DELETE_EXPIRED: &str = "DELETE FROM account_sessions WHERE expires_at <= $1 OR seen_at <= $2";

impl Catalog {
    /// The open session among these digests, with its account. Crosses tenants: a digest identifies the account.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn account_session(
        &self,
        digests: &[SessionDigest],
        now: Timestamp,
    ) -> Result<Option<(AccountSession, Account)>, Error> {
        if digests.is_empty() {
            return Ok(None);
        }
        let sql = format!("{OPEN}({})", value_list(digests.len(), 3));
        let mut args: Vec<Arg<'_>> =
            vec![now.as_micros().into(), idle_since(now).as_micros().into()];
        args.extend(digests.iter().map(|digest| Arg::from(digest.as_slice())));
        let rows = self.pool.select::<SessionRow>(&sql, &args).await?;
        let sessions: Result<Vec<AccountSession>, Error> =
            rows.into_iter().map(TryInto::try_into).collect();
        let sessions = sessions?;
        // The first one in the order of the request.
        let first = digests.iter().find_map(|one| sessions.iter().find(|row| row.digest == *one));
        let Some(session) = first.cloned() else {
            return Ok(None);
        };
        let key: [Arg<'_>; 1] = [session.account.as_str().into()];
        let accounts: Vec<AccountRow> = self.pool.select(ACCOUNT, &key).await?;
        Ok(accounts.into_iter().next().map(|account| (session, account.into())))
    }

    /// The open sessions of an account, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn account_sessions(
        &self,
        account: &str,
        now: Timestamp,
    ) -> Result<Vec<AccountSession>, Error> {
        let args: [Arg<'_>; 3] =
            [account.into(), now.as_micros().into(), idle_since(now).as_micros().into()];
        let rows: Vec<SessionRow> = self.pool.select(LIST, &args).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Starts a session, and ends those that it replaces and the oldest ones beyond the maximum.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn begin_account_session(
        &self,
        session: &AccountSession,
        replaced: &[SessionDigest],
    ) -> Result<(), Error> {
        let row: [Arg<'_>; 9] = [
            session.digest.as_slice().into(),
            session.id.as_str().into(),
            session.account.as_str().into(),
            session.created_at.as_micros().into(),
            session.seen_at.as_micros().into(),
            session.fresh_at.as_micros().into(),
            session.expires_at.as_micros().into(),
            session.address.as_str().into(),
            session.agent.as_str().into(),
        ];
        in_transaction!(&self.pool, |tx| {
            for digest in replaced {
                tx.execute(END, &[digest.as_slice().into()]).await?;
            }
            let oldest: [Arg<'_>; 2] = [session.account.as_str().into(), (MAX_SESSIONS - 1).into()];
            tx.execute(END_OLDEST, &oldest).await?;
            tx.execute(INSERT, &row).await?;
            identify(&mut tx, &session.account).await?;
        });
        Ok(())
    }

    /// Records the time of a request of a session.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn note_session_use(
        &self,
        digest: &SessionDigest,
        now: Timestamp,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 2] = [digest.as_slice().into(), now.as_micros().into()];
        self.pool.change(SEEN, &args).await?;
        Ok(())
    }

    /// Ends sessions of accounts.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_account_sessions(&self, digests: &[SessionDigest]) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            for digest in digests {
                tx.execute(END, &[digest.as_slice().into()]).await?;
            }
        });
        Ok(())
    }

    /// Ends one session of an account. Returns whether it was open.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_account_session(&self, account: &str, id: &str) -> Result<bool, Error> {
        Ok(0 < self.pool.change(END_ONE, &[account.into(), id.into()]).await?)
    }

    /// Ends all sessions of an account except one. Returns their number.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_other_account_sessions(&self, account: &str, id: &str) -> Result<u64, Error> {
        self.pool.change(END_OTHERS, &[account.into(), id.into()]).await
    }

    /// Deletes sessions that have expired or were idle for too long. Crosses tenants: for the server.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_expired_account_sessions(&self, now: Timestamp) -> Result<(), Error> {
        let args: [Arg<'_>; 2] = [now.as_micros().into(), idle_since(now).as_micros().into()];
        self.pool.change(DELETE_EXPIRED, &args).await?;
        Ok(())
    }
}
