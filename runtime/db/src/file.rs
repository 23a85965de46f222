//! SQLite files: copied while a server writes, checked, and changed before a server opens them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::Error;
use crate::migrate::CURRENT;

/// Contents of a database file.
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
    Error::Inconsistent { what: "database", detail: detail.into() }
}

async fn open(options: SqliteConnectOptions) -> Result<SqliteConnection, Error> {
    Ok(options.create_if_missing(false).connect().await?)
}

/// Writes everything committed so far to the new file `to`; writers are not blocked. The copy may still be in
/// the caches of the system when this returns.
///
/// # Errors
/// When the database cannot be read, or the copy cannot be written; a partial file may remain.
pub async fn copy(from: &Path, to: &Path, wait: Duration) -> Result<(), Error> {
    let mut reader = open(SqliteConnectOptions::new().filename(from).busy_timeout(wait)).await?;
    // One statement is one snapshot. The page-wise backup of SQLite would restart after each write.
    let copied = sqlx::query("VACUUM INTO $1").bind(text(to)?).execute(&mut reader).await;
    reader.close().await?;
    copied?;
    Ok(())
}

/// Checks a database file without a writer, and counts its rows. `known` is the newest schema version of the
/// caller.
///
/// # Errors
/// [`Error::Inconsistent`] if it is damaged or has no schema version, [`Error::TooNew`] if that is newer.
pub async fn inspect(file: &Path, known: i64) -> Result<Contents, Error> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        // Without an additional file, not even for locks.
        .immutable(true)
        .read_only(true);
    let mut reader = open(options).await?;
    let contents = contents(&mut reader, known).await;
    reader.close().await?;
    contents
}

async fn contents(reader: &mut SqliteConnection, known: i64) -> Result<Contents, Error> {
    let findings: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check")
        .fetch_all(&mut *reader)
        .await
        .map_err(|error| damaged(error.to_string()))?;
    if findings != ["ok"] {
        return Err(damaged(findings.join("; ")));
    }
    let version = sqlx::query_scalar(CURRENT).fetch_one(&mut *reader);
    let schema_version: i64 = version
        .await
        .map_err(|_| damaged("it has no table schema_steps, so it is not a database of Perpend"))?;
    if known < schema_version {
        return Err(Error::TooNew { found: schema_version, known });
    }
    let mut rows = BTreeMap::new();
    for table in tables(reader).await? {
        // A name from the file itself, quoted.
        let sql = format!("SELECT COUNT(*) FROM \"{}\"", table.replace('"', "\"\""));
        let n: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut *reader).await?;
        rows.insert(table, n.unsigned_abs());
    }
    Ok(Contents { schema_version, rows })
}

async fn tables(connection: &mut SqliteConnection) -> Result<Vec<String>, Error> {
    const TABLES_SQLITE: &str = "
        SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    Ok(sqlx::query_scalar(TABLES_SQLITE).fetch_all(connection).await?)
}

/// A statement on a table that older files may lack.
#[derive(Clone, Copy, Debug)]
pub struct TableChange<'a> {
    /// The table.
    pub table: &'a str,
    /// The statement.
    pub sql: &'static str,
    /// Values of its placeholders.
    pub values: &'a [&'a str],
}

/// Applies these changes in one transaction, without those to tables that the file lacks. Nothing is
/// migrated.
///
/// # Errors
/// When the file cannot be changed.
pub async fn change(file: &Path, changes: &[TableChange<'_>]) -> Result<(), Error> {
    let mut connection = open(SqliteConnectOptions::new().filename(file)).await?;
    let tables = tables(&mut connection).await?;
    let mut transaction = connection.begin().await?;
    for change in changes {
        if tables.iter().any(|known| known == change.table) {
            let mut query = sqlx::query(change.sql);
            for value in change.values {
                query = query.bind(*value);
            }
            query.execute(&mut *transaction).await?;
        }
    }
    transaction.commit().await?;
    connection.close().await?;
    Ok(())
}
