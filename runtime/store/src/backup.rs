//! Copies of an SQLite database: made while a server writes, checked, and made ready for another start.
//!
//! These work on files and not on a [`Store`](crate::Store), which would migrate what it opens. They cross
//! tenants: for the operator.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::{Error, migrations};

/// The schema version that this program writes.
pub const SCHEMA_VERSION: i64 = migrations::KNOWN;

/// What a database file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Its schema version.
    pub schema_version: i64,
    /// Rows by table.
    pub rows: BTreeMap<String, u64>,
}

fn text(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| Error::Inconsistent {
        what: "path",
        detail: format!("{} is not UTF-8", path.display()),
    })
}

fn damaged(detail: impl Into<String>) -> Error {
    Error::Inconsistent {
        what: "database",
        detail: detail.into(),
    }
}

async fn open(options: SqliteConnectOptions) -> Result<SqliteConnection, Error> {
    Ok(options.create_if_missing(false).connect().await?)
}

/// Writes all that is committed now to the new file `to`; writers go on meanwhile. The copy may still be in the
/// caches of the system when this returns.
///
/// # Errors
/// When the database cannot be read, or the copy cannot be written: then a part of it may be there.
pub async fn copy(from: &Path, to: &Path, wait: Duration) -> Result<(), Error> {
    let mut reader = open(
        SqliteConnectOptions::new()
            .filename(from)
            .busy_timeout(wait),
    )
    .await?;
    // One statement is one snapshot. The page-wise backup of SQLite would begin again after each write.
    let copied = sqlx::query("VACUUM INTO $1")
        .bind(text(to)?)
        .execute(&mut reader)
        .await;
    reader.close().await?;
    copied?;
    Ok(())
}

/// Checks a database file that nobody writes, and counts what is in it.
///
/// # Errors
/// [`Error::Inconsistent`] when it is damaged or none of ours, [`Error::TooNew`] when it is newer than this program.
pub async fn inspect(file: &Path) -> Result<Contents, Error> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        // Without a file beside it, not even for locks.
        .immutable(true)
        .read_only(true);
    let mut reader = open(options).await?;
    let contents = contents(&mut reader).await;
    reader.close().await?;
    contents
}

async fn contents(reader: &mut SqliteConnection) -> Result<Contents, Error> {
    let findings: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check")
        .fetch_all(&mut *reader)
        .await
        .map_err(|error| damaged(error.to_string()))?;
    if findings != ["ok"] {
        return Err(damaged(findings.join("; ")));
    }
    let version = sqlx::query_scalar(perpend_sql::CURRENT).fetch_one(&mut *reader);
    let schema_version: i64 = version
        .await
        .map_err(|_| damaged("it has no table schema_steps, so it is not a database of Perpend"))?;
    if SCHEMA_VERSION < schema_version {
        return Err(Error::TooNew {
            found: schema_version,
            known: SCHEMA_VERSION,
        });
    }
    let mut rows = BTreeMap::new();
    for table in tables(reader).await? {
        // A name from the file itself, quoted.
        let sql = format!("SELECT COUNT(*) FROM \"{}\"", table.replace('"', "\"\""));
        let n: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
            .fetch_one(&mut *reader)
            .await?;
        rows.insert(table, n.unsigned_abs());
    }
    Ok(Contents {
        schema_version,
        rows,
    })
}

async fn tables(connection: &mut SqliteConnection) -> Result<Vec<String>, Error> {
    const TABLES: &str = "
        SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    Ok(sqlx::query_scalar(TABLES).fetch_all(connection).await?)
}

/// Makes a copy ready for a server of its own: no lease is held by the server that it was taken from, and the
/// secret `session_key` is made again, which ends all sessions of browsers. Nothing is migrated.
///
/// # Errors
/// When the file cannot be changed.
pub async fn begin_anew(file: &Path, session_key: &str) -> Result<(), Error> {
    const CHANGES: [(&str, &str); 3] = [
        (
            "server_secrets",
            "DELETE FROM server_secrets WHERE name = $1",
        ),
        (
            "executions",
            "UPDATE executions SET state = 0, fence = 0 WHERE state = 1",
        ),
        ("blob_exports", "UPDATE blob_exports SET leased_until = 0"),
    ];
    let mut connection = open(SqliteConnectOptions::new().filename(file)).await?;
    let tables = tables(&mut connection).await?;
    let mut transaction = connection.begin().await?;
    for (table, sql) in CHANGES {
        // Older schemas do not have all of them.
        if tables.iter().any(|known| known == table) {
            let query = sqlx::query(sql);
            let query = match table {
                "server_secrets" => query.bind(session_key),
                _ => query,
            };
            query.execute(&mut *transaction).await?;
        }
    }
    transaction.commit().await?;
    connection.close().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDatabase;
    use crate::{DatabaseUrl, Options, Store};

    const WAIT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_copy_has_what_was_committed_and_is_found_out_when_damaged() {
        let database = TempDatabase::sqlite();
        let store = database.open().await;
        let key = store.secret("session-key", || vec![7; 32]).await.unwrap();
        let other = store.secret("other", || vec![8; 32]).await.unwrap();
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
        assert_ne!(again.secret("session-key", || vec![9]).await.unwrap(), key);
        assert_eq!(again.secret("other", || vec![9]).await.unwrap(), other);
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
