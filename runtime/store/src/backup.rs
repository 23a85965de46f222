//! Copies of an SQLite database, made ready for another start.
//!
//! These work on files and not on a [`Store`](crate::Store), which would migrate what it opens. They cross
//! tenants: for the operator.

use std::path::Path;

use perpend_sql::file::{self, Change};

use perpend_sql::Error;

pub use perpend_sql::file::{Contents, copy};

/// The schema version that this program writes.
pub const SCHEMA_VERSION: i64 = perpend_sql::KNOWN;

/// Checks a database file that nobody writes, and counts what is in it.
///
/// # Errors
/// [`Error::Inconsistent`] when it is damaged or none of ours, [`Error::TooNew`] when it is newer than this program.
pub async fn inspect(file: &Path) -> Result<Contents, Error> {
    file::inspect(file, SCHEMA_VERSION).await
}

/// Makes a copy ready for a server of its own: no lease is held by the server that it was taken from, and the
/// secret `session_key` is made again, which ends all sessions of browsers. Nothing is migrated.
///
/// # Errors
/// When the file cannot be changed.
pub async fn begin_anew(file: &Path, session_key: &str) -> Result<(), Error> {
    let changes = [
        Change {
            table: "server_secrets",
            sql: "DELETE FROM server_secrets WHERE name = $1",
            values: &[session_key],
        },
        Change {
            table: "executions",
            sql: "UPDATE executions SET state = 0, fence = 0 WHERE state = 1",
            values: &[],
        },
        Change {
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
    use perpend_sql::{DatabaseUrl, Options};

    const WAIT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_copy_has_what_was_committed_and_is_found_out_when_damaged() {
        let database = TempDatabase::sqlite();
        let store = database.open().await;
        let key = store
            .catalog
            .secret("session-key", || vec![7; 32])
            .await
            .unwrap();
        let other = store.catalog.secret("other", || vec![8; 32]).await.unwrap();
        let DatabaseUrl::Sqlite(path) = database.url() else {
            unreachable!()
        };
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("copy of 'it'.db");
        copy(path, &to, WAIT).await.unwrap();
        assert!(
            copy(path, &to, WAIT).await.is_err(),
            "nothing is overwritten"
        );
        let contents = inspect(&to).await.unwrap();
        assert_eq!(contents.schema_version, SCHEMA_VERSION);
        assert_eq!(contents.rows["server_secrets"], 2);

        begin_anew(&to, "session-key").await.unwrap();
        let url = DatabaseUrl::Sqlite(to.clone());
        let again = Store::open(&url, &Options::default()).await.unwrap();
        assert_ne!(
            again
                .catalog
                .secret("session-key", || vec![9])
                .await
                .unwrap(),
            key
        );
        assert_eq!(
            again.catalog.secret("other", || vec![9]).await.unwrap(),
            other
        );
        again.close().await;

        let mut bytes = std::fs::read(&to).unwrap();
        // Past the header of the file, in the header of the first page's tree.
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
