//! Copies of an SQLite database, prepared for another server.
//!
//! These functions work on files and not on a [`Store`](crate::Store), which would migrate the database. They
//! cross tenants: for the operator.

use std::path::Path;

use perpend_db::file::{self, TableChange};

use perpend_db::Error;

pub use perpend_db::file::{Contents, copy};

/// The schema version that this program writes.
pub const SCHEMA_VERSION: i64 = perpend_db::KNOWN;

/// Checks a database file without a writer, and counts its rows.
///
/// # Errors
/// [`Error::Inconsistent`] if it is damaged or no database of Perpend, [`Error::TooNew`] if it is newer than
/// this program.
pub async fn inspect(file: &Path) -> Result<Contents, Error> {
    file::inspect(file, SCHEMA_VERSION).await
}

/// Prepares a copy for another server: leases of the original server are released, and all browser sessions
/// are ended. Nothing is migrated.
///
/// # Errors
/// When the file cannot be changed.
pub async fn begin_anew(file: &Path) -> Result<(), Error> {
    let changes = [
        TableChange { table: "browser_sessions", sql: "DELETE FROM browser_sessions", values: &[] },
        TableChange { table: "account_sessions", sql: "DELETE FROM account_sessions", values: &[] },
        TableChange { table: "account_links", sql: "DELETE FROM account_links", values: &[] },
        TableChange {
            table: "executions",
            sql: "UPDATE executions SET state = 0, fence = 0 WHERE state = 1",
            values: &[],
        },
        TableChange {
            table: "blob_exports",
            sql: "UPDATE blob_exports SET leased_until = 0",
            values: &[],
        },
    ];
    file::change(file, &changes).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Store;
    use crate::testing::{OpenStore as _, TempDatabase};
    use perpend_catalog::{BrowserSession, SessionOrigin};
    use perpend_db::{DatabaseUrl, Options};
    use perpend_domain::ids::ProjectId;
    use perpend_domain::time::Timestamp;

    const WAIT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_copy_contains_all_commits_and_damage_is_detected() {
        let database = TempDatabase::sqlite();
        let store = database.open().await;
        let session = BrowserSession {
            digest: [7; 32],
            project: ProjectId::new("p").unwrap(),
            origin: SessionOrigin::KeyPair("pk".to_owned()),
            created_at: Timestamp::from_millis(0),
            expires_at: Timestamp::from_millis(1_000),
        };
        let session_start = store.catalog.begin_browser_session(&session, &[]);
        session_start.await.unwrap();
        let other = store.catalog.secret("other", || vec![8; 32]).await.unwrap();
        let DatabaseUrl::Sqlite(path) = database.url() else { unreachable!() };
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("copy of 'it'.db");
        copy(path, &to, WAIT).await.unwrap();
        assert!(copy(path, &to, WAIT).await.is_err(), "nothing is overwritten");
        let contents = inspect(&to).await.unwrap();
        assert_eq!(contents.schema_version, SCHEMA_VERSION);
        assert_eq!(contents.rows["server_secrets"], 1);
        assert_eq!(contents.rows["browser_sessions"], 1);

        begin_anew(&to).await.unwrap();
        let url = DatabaseUrl::Sqlite(to.clone());
        let again = Store::open(&url, &Options::default()).await.unwrap();
        let now = Timestamp::from_millis(1);
        let left = again.catalog.browser_sessions(&[[7; 32]], now);
        assert_eq!(left.await.unwrap(), []);
        assert_eq!(again.catalog.secret("other", || vec![9]).await.unwrap(), other);
        again.close().await;

        let mut bytes = std::fs::read(&to).unwrap();
        // After the file header, in the header of the tree of the first page.
        bytes[103] ^= 0xff;
        std::fs::write(&to, &bytes).unwrap();
        let found = inspect(&to).await.unwrap_err();
        assert!(matches!(found, Error::Inconsistent { .. }), "{found:?}");
        std::fs::write(&to, b"").unwrap();
        let found = inspect(&to).await.unwrap_err();
        assert!(found.to_string().contains("schema_steps"), "{found}");
        store.close().await;
    }
}
